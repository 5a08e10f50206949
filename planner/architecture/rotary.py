"""The rotary embedding's tables: how many positions of cosines and sines engines keep, over the longest context."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

# Kinds of scaling whose table is longer than the context that the model states, by their factor.
_LENGTHENED = frozenset({"linear", "dynamic"})
_MOST = 1000.0  # no published factor comes near; a larger one is a slip


def rotary_tables(config: Mapping[str, Any]) -> float:
    """Length of all tables together, over the longest context: 1 for one table of the context's length.

    Layers with a base of their own (windowed layers beside full ones) have a table of their own, and a table under
    linear or dynamic scaling is longer by its factor: 9 for Gemma 3, whose full layers are scaled by 8.

    Args:
        config: the language model's section of a configuration. What can't be read counts as nothing.

    References:
        vLLM, LinearScalingRotaryEmbedding and DynamicNTKScalingRotaryEmbedding; loaded sizes of Gemma 3 in the
        llm-d-planner accuracy report, 0.32 to 0.55 GiB above their tensors.
    """
    parameters = config.get("rope_parameters")
    if isinstance(parameters, Mapping):
        nested = [one for one in parameters.values() if isinstance(one, Mapping)]
        if nested:
            return sum(_length(one) for one in nested)
        return _length(parameters)
    own_base = 1.0 if isinstance(config.get("rope_local_base_freq"), (int, float)) else 0.0
    scaling = config.get("rope_scaling")
    return own_base + (_length(scaling) if isinstance(scaling, Mapping) else 1.0)


def _length(scaling: Mapping[str, Any]) -> float:
    kind = scaling.get("rope_type", scaling.get("type"))
    factor = scaling.get("factor")
    if not isinstance(kind, str) or kind not in _LENGTHENED:
        return 1.0
    if isinstance(factor, bool) or not isinstance(factor, (int, float)):
        return 1.0
    return float(factor) if math.isfinite(factor) and 1.0 <= factor <= _MOST else 1.0

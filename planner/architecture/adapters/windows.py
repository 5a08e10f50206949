"""Which layers attend through a window: the rules that configuration classes derive when `layer_types` is absent.

A rule is `function(keys, layers) -> windows`, one entry per layer: positions kept, or None for full attention.
"""

from __future__ import annotations

from collections.abc import Callable

from planner.architecture.keys import MAX_CONTEXT, Keys

Windows = tuple[int | None, ...]
WindowRule = Callable[[Keys, int], Windows]
FullLayers = Callable[[int, int], bool]

FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
LAYER_TYPES = frozenset({FULL, SLIDING, CHUNKED})


def no_windows(keys: Keys, layers: int) -> Windows:
    """Full attention everywhere, whatever window the configuration mentions."""
    return (None,) * layers


def uniform(default: int | None) -> WindowRule:
    """The same window on every layer; null means none, and an absent key the configuration class's `default`."""

    def rule(keys: Keys, layers: int) -> Windows:
        return (sliding_window(keys, default),) * layers

    return rule


def sliding_window(keys: Keys, default: int | None) -> int | None:
    """`sliding_window` in tokens; 0 and null mean none."""
    window = keys.optional_integer(
        "sliding_window", default=default, minimum=0, maximum=MAX_CONTEXT
    )
    return window or None


def every(period: int, key: str | None = "sliding_window_pattern") -> Callable[[Keys], FullLayers]:
    """Every `period`-th layer is full: (i + 1) mod period = 0. `key` may state another period."""

    def read(keys: Keys) -> FullLayers:
        n = keys.integer(key, default=period, maximum=10_000) if key else period
        return lambda index, layers: (index + 1) % n == 0

    return read


def lettered(period: int) -> Callable[[Keys], FullLayers]:
    """EXAONE's `sliding_window_pattern`: a period as in `every`, or letters, L for a window and G for full attention.

    Letters repeat from the first layer on, and the last layer is full whatever they say.

    References:
        transformers, Exaone4Config and ExaoneMoeConfig: what their `sliding_window_pattern` is documented to mean.
    """
    name = "sliding_window_pattern"

    def read(keys: Keys) -> FullLayers:
        if not isinstance(keys.config.get(name), str):
            return every(period, name)(keys)
        letters = keys.text(name)
        if set(letters) - {"L", "G"}:
            raise keys.contradiction(name, "window_letters")
        return lambda index, layers: index == layers - 1 or letters[index % len(letters)] == "G"

    return read


def starting(period: int) -> Callable[[Keys], FullLayers]:
    """The first layer and every `period`-th after it are full: i mod period = 0."""
    return lambda keys: lambda index, layers: index % period == 0


def counted_from_the_end(period: int) -> Callable[[Keys], FullLayers]:
    """The last layer and every `period`-th before it are full."""
    return lambda keys: lambda index, layers: (layers - 1 - index) % period == 0


def first_and_every(period: int) -> Callable[[Keys], FullLayers]:
    """The first layer, and every `period`-th, are full."""
    return lambda keys: lambda index, layers: index == 0 or (index + 1) % period == 0


def flint_pattern(keys: Keys) -> FullLayers:
    """The first two layers, the last, and every fourth after the second are full."""
    return lambda index, layers: index < 2 or index % 4 == 1 or index == layers - 1


def never(keys: Keys) -> FullLayers:
    """Sliding everywhere unless `layer_types` says otherwise."""
    return lambda index, layers: False


def all_full(keys: Keys) -> FullLayers:
    """Full everywhere unless `layer_types` says otherwise."""
    return lambda index, layers: True


def layer_types(keys: Keys, layers: int, full: Callable[[Keys], FullLayers]) -> tuple[str, ...]:
    """`layer_types` where it's given, else full or sliding by the family's rule."""
    given = keys.texts("layer_types", length=layers, choices=LAYER_TYPES)
    if given is not None:
        return given
    is_full = full(keys)
    return tuple(FULL if is_full(index, layers) else SLIDING for index in range(layers))


def by_layer_type(default: int | None, full: Callable[[Keys], FullLayers]) -> WindowRule:
    """Windows by `layer_types`, or by the family's rule where it's absent.

    Args:
        default: the configuration class's window where the key is absent.
        full: which layers are full where `layer_types` is absent.
    """

    def rule(keys: Keys, layers: int) -> Windows:
        window = sliding_window(keys, default)
        types = layer_types(keys, layers, full)
        if window is None and SLIDING in types and keys.has("layer_types"):
            raise keys.contradiction("sliding_window", "window_missing")
        return tuple(None if kind == FULL else window for kind in types)

    return rule


def after_max_window_layers(default_layers: int, *, needs_flag: bool = True) -> WindowRule:
    """Qwen's rule: layers from `max_window_layers` on slide, where `use_sliding_window` is set."""

    def rule(keys: Keys, layers: int) -> Windows:
        used = keys.flag("use_sliding_window", default=False) if needs_flag else True
        window = sliding_window(keys, 4096) if used else None
        given = keys.texts("layer_types", length=layers, choices=LAYER_TYPES)
        if given is not None:
            return tuple(None if kind == FULL else window for kind in given)
        first = keys.integer("max_window_layers", default=default_layers, minimum=0)
        return tuple(window if index >= first else None for index in range(layers))

    return rule


def odd_before_max_window_layers(keys: Keys, layers: int) -> Windows:
    """Qwen2-MoE's rule: every other layer below `max_window_layers` slides, where `use_sliding_window` is set."""
    used = keys.flag("use_sliding_window", default=False)
    window = sliding_window(keys, 4096) if used else None
    given = keys.texts("layer_types", length=layers, choices=LAYER_TYPES)
    if given is not None:
        return tuple(None if kind == FULL else window for kind in given)
    limit = keys.integer("max_window_layers", default=28, minimum=0)
    return tuple(window if index % 2 == 0 and index < limit else None for index in range(layers))


def uniform_if_flagged(default: int) -> WindowRule:
    """The same window on every layer where `use_sliding_window` is set, else none."""

    def rule(keys: Keys, layers: int) -> Windows:
        used = keys.flag("use_sliding_window", default=False)
        return (sliding_window(keys, default) if used else None,) * layers

    return rule


def where_no_rope(keys: Keys, layers: int) -> Windows:
    """SmolLM3's rule: layers without rotary positions slide, where `use_sliding_window` is set."""
    window = sliding_window(keys, None) if keys.flag("use_sliding_window", default=False) else None
    given = keys.texts("layer_types", length=layers, choices=LAYER_TYPES)
    if given is not None:
        return tuple(None if kind == FULL else window for kind in given)
    interval = keys.integer("no_rope_layer_interval", default=4, maximum=10_000)
    rope = keys.integers("no_rope_layers", length=layers, maximum=1)
    if rope is None:
        rope = tuple(int((index + 1) % interval != 0) for index in range(layers))
    return tuple(None if has_rope else window for has_rope in rope)

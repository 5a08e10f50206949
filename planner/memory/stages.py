"""Which layers each pipeline stage holds."""

from __future__ import annotations

from planner.errors import InvalidInput


def pipeline_stages(layers: int, pp: int) -> tuple[tuple[int, int], ...]:
    """Contiguous half-open ranges of layers, one a stage; what doesn't divide goes to the stages before the last.

    Raises:
        InvalidInput: for more stages than layers.

    References:
        vLLM, vllm/distributed/utils.py, get_pp_indices.
    """
    if pp > layers:
        raise InvalidInput("more_stages_than_layers", field="pp", pp=pp, layers=layers)
    sizes = [layers // pp] * pp
    for extra in range(layers % pp):
        sizes[-2 - extra] += 1
    starts = [sum(sizes[:stage]) for stage in range(pp)]
    return tuple((start, start + size) for start, size in zip(starts, sizes, strict=True))

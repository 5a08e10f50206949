"""What comes back through the front door: the parts of an Evaluation.

Inside, units are SI (bytes, seconds, per second); `planner.published` gives the names and units that leave as JSON.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import Note
from planner.quantity import Estimate


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """Which model was meant, and its size.

    Attributes:
        parameters, active_parameters: all weights, and those that a text token passes through (count).
        stand_in_for: the name asked for where the catalogue only has the nearest, else "".
    """

    id: str
    name: str
    model_type: str
    modality: str
    parameters: Estimate
    active_parameters: Estimate
    layers: int
    max_context_tokens: int
    stand_in_for: str = ""


@dataclass(frozen=True, slots=True)
class DeploymentAnswer:
    """The deployment as resolved: every default filled in.

    Attributes:
        weights_format, kv_format: format ids; `weights_label` says what "native" turned out to be.
        dtype: compute dtype.
        settings: the engine's settings by name, as used.
        defaults: which of them the engine chose, not the user.
    """

    accelerator: str
    accelerator_name: str
    gpus: int
    tp: int
    pp: int
    ep: int
    dp: int
    engine: str
    engine_version: str
    weights_format: str
    weights_label: str
    kv_format: str
    dtype: str
    settings: dict[str, float | int | str | bool]
    defaults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """Does it fit, and what is left.

    Sizes are in bytes and per GPU (the heaviest one) where the name says so; token figures are for the deployment.

    Attributes:
        weights_bytes: the whole model as stored.
        overhead_bytes_per_gpu: context, libraries, communication buffers, graphs kept inside the engine's budget.
        graphs_bytes_per_gpu: CUDA graphs that the engine takes outside its budget.
        kv_pool_bytes_per_gpu: what the engine leaves for the cache, recurrent state included.
        state_pool_bytes_per_gpu: what of it is set apart for recurrent state; None where state has no part of its own.
        kv_bytes_per_token: marginal, at input + output tokens, whole model; full windows cost nothing more.
        kv_bytes_per_sequence: at input + output tokens, windows applied, without constant state; whole model.
        state_bytes_per_sequence: constant part; whole model.
        kv_pool_tokens: what the pool holds in sequences of that length, in tokens; None where nothing is cached.
        engine_printed_kv_tokens: the figure in the engine's log, by its own rule.
        max_concurrency: sequences of that length held at once.
        max_context_tokens: longest sequence that `concurrency` users can have at once.
        needed_bytes_per_gpu: weights, activations, overhead and the workload's cache; where state has a part of its
            own, as much of both parts as it takes at the engine's division.
        host_weights_bytes, host_kv_bytes: what lies in host memory, over the deployment; None where nothing does.
        reserved_bytes_per_gpu: what the engine takes from the card.
        verdict: "fits", "tight" or "does_not_fit"; `reason` says why, `remedies` what would change it.
        starts: the engine comes up, whether or not it holds the whole workload at once.
    """

    usable_bytes_per_gpu: Estimate
    weights_bytes: Estimate
    weights_bytes_per_gpu: Estimate
    activation_bytes_per_gpu: Estimate
    overhead_bytes_per_gpu: Estimate
    graphs_bytes_per_gpu: Estimate
    kv_pool_bytes_per_gpu: Estimate
    state_pool_bytes_per_gpu: Estimate | None
    kv_bytes_per_token: Estimate
    kv_bytes_per_token_per_gpu: Estimate
    kv_bytes_per_sequence: Estimate
    state_bytes_per_sequence: Estimate
    kv_pool_tokens: Estimate | None
    engine_printed_kv_tokens: Estimate | None
    max_concurrency: Estimate
    max_context_tokens: Estimate
    needed_bytes_per_gpu: Estimate
    reserved_bytes_per_gpu: Estimate
    host_weights_bytes: Estimate | None
    host_kv_bytes: Estimate | None
    verdict: str
    starts: bool
    reason: Note
    remedies: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class SpeedAnswer:
    """How it feels: times in seconds, rates per second.

    Attributes:
        ttft_s: time to first token at `concurrency`, waiting included; `ttft_unloaded_s` alone on the engine.
        tpot_s: mean time per output token after the first, for each running sequence.
        prefill_tokens_per_s: one prompt alone; decode_tokens_per_s: one user.
        output_tokens_per_s, total_tokens_per_s: the whole deployment, closed loop at `concurrency`.
        running_batch: sequences decoded together in each data-parallel group; queue_wait_s: waiting for a place.
        bound_by: what decode is limited by: "bandwidth", "compute", "host", "communication", "host_memory" or
            "transfer".
        prefill_bound_by: the same for prefill.
        ttft_bound_s, tpot_bound_s: physical floors; None where none applies (weights live in the card's cache).
        decode_parts, prefill_parts: components of one step and of one prefill, in seconds; they sum to the whole.
        critical_batch: running batch at which compute takes as long as reading the weights.
        calibration: id of the constants used.
    """

    ttft_s: Estimate
    ttft_unloaded_s: Estimate
    tpot_s: Estimate | None
    e2e_s: Estimate
    prefill_tokens_per_s: Estimate
    decode_tokens_per_s: Estimate | None
    output_tokens_per_s: Estimate | None
    total_tokens_per_s: Estimate
    running_batch: float
    queue_wait_s: float
    bound_by: str
    prefill_bound_by: str
    ttft_bound_s: float | None
    tpot_bound_s: float | None
    decode_parts: dict[str, float]
    prefill_parts: dict[str, float]
    critical_batch: float | None
    calibration: str

"""Names and units under which figures leave: JSON of the command line, columns of `batch`, exports.

Inside, everything is SI with the unit in the name; outside, memory is GiB and times are milliseconds, because that is
what engines print. This table is the only place that knows both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.quantity import GIB, Basis, Estimate

if TYPE_CHECKING:
    from planner.errors import Note
    from planner.evaluation import Evaluation

MS_PER_S = 1e3


@dataclass(frozen=True, slots=True)
class Published:
    """One published figure: its outside name, the attribute it comes from, and inside units per outside unit."""

    name: str
    attribute: str
    scale: float = 1.0
    whole: bool = False


MEMORY = (
    Published("usable_gib_per_gpu", "usable_bytes_per_gpu", 1 / GIB),
    Published("weights_gib", "weights_bytes", 1 / GIB),
    Published("weights_gib_per_gpu", "weights_bytes_per_gpu", 1 / GIB),
    Published("activation_gib_per_gpu", "activation_bytes_per_gpu", 1 / GIB),
    Published("overhead_gib_per_gpu", "overhead_bytes_per_gpu", 1 / GIB),
    Published("graphs_gib_per_gpu", "graphs_bytes_per_gpu", 1 / GIB),
    Published("kv_pool_gib_per_gpu", "kv_pool_bytes_per_gpu", 1 / GIB),
    Published("state_pool_gib_per_gpu", "state_pool_bytes_per_gpu", 1 / GIB),
    Published("kv_bytes_per_token", "kv_bytes_per_token"),
    Published("kv_bytes_per_token_per_gpu", "kv_bytes_per_token_per_gpu"),
    Published("kv_bytes_per_sequence", "kv_bytes_per_sequence"),
    Published("state_bytes_per_sequence", "state_bytes_per_sequence"),
    Published("kv_tokens", "kv_pool_tokens", whole=True),
    Published("engine_printed_kv_tokens", "engine_printed_kv_tokens", whole=True),
    Published("max_concurrency", "max_concurrency", whole=True),
    Published("max_context_tokens", "max_context_tokens", whole=True),
    Published("needed_gib_per_gpu", "needed_bytes_per_gpu", 1 / GIB),
    Published("reserved_gib_per_gpu", "reserved_bytes_per_gpu", 1 / GIB),
    Published("host_weights_gib", "host_weights_bytes", 1 / GIB),
    Published("host_kv_gib", "host_kv_bytes", 1 / GIB),
)

SPEED = (
    Published("ttft_ms", "ttft_s", MS_PER_S),
    Published("ttft_unloaded_ms", "ttft_unloaded_s", MS_PER_S),
    Published("tpot_ms", "tpot_s", MS_PER_S),
    Published("e2e_ms", "e2e_s", MS_PER_S),
    Published("prefill_tok_s", "prefill_tokens_per_s"),
    Published("decode_tok_s", "decode_tokens_per_s"),
    Published("output_tok_s", "output_tokens_per_s"),
    Published("total_tok_s", "total_tokens_per_s"),
)

SIGNIFICANT_DIGITS = 6


def _number(value: float, published: Published) -> float | int:
    scaled = float(value) * published.scale
    if published.whole:
        return int(scaled)
    if scaled == int(scaled) and abs(scaled) < 1e15:
        return int(scaled) if published.scale == 1.0 else scaled
    return float(f"{scaled:.{SIGNIFICANT_DIGITS}g}")


def estimate_json(estimate: Estimate | None, published: Published) -> dict[str, Any] | None:
    """`{low, mid, high, basis}` in published units; None where the figure doesn't apply."""
    if estimate is None:
        return None
    return {
        "low": _number(_scalar(estimate.low), published),
        "mid": _number(_scalar(estimate.mid), published),
        "high": _number(_scalar(estimate.high), published),
        "basis": estimate.basis.label,
    }


def _scalar(value: object) -> float:
    return float(value)  # type: ignore[arg-type]


def notes_json(notes: Iterable[Note], say: Callable[[Note], str]) -> list[dict[str, Any]]:
    """Notes with their code, their values and their sentence."""
    return [{"code": note.code, "values": note.values, "message": say(note)} for note in notes]


def evaluation_json(evaluation: Evaluation, say: Callable[[Note], str]) -> dict[str, Any]:
    """The whole answer as plain data.

    Memory figures are numbers (`memory.ranges` holds their low, high and basis); speed figures are
    `{low, mid, high, basis}`.

    Args:
        say: turns a note into a sentence in the user's language.
    """
    model, deployment = evaluation.model, evaluation.deployment
    memory, speed = evaluation.memory, evaluation.speed
    published_memory = {p.name: estimate_json(getattr(memory, p.attribute), p) for p in MEMORY}
    answer: dict[str, Any] = {
        "schema_version": 1,
        "model": {
            "id": model.id,
            "name": model.name,
            "model_type": model.model_type,
            "modality": model.modality,
            "params": int(_scalar(model.parameters.mid)),
            "params_active": int(_scalar(model.active_parameters.mid)),
            "layers": model.layers,
            "max_context_tokens": model.max_context_tokens,
            "stand_in_for": model.stand_in_for or None,
        },
        "deployment": {
            "gpu": deployment.accelerator,
            "gpu_name": deployment.accelerator_name,
            "gpus": deployment.gpus,
            "tp": deployment.tp,
            "pp": deployment.pp,
            "ep": deployment.ep,
            "dp": deployment.dp,
            "engine": deployment.engine,
            "engine_version": deployment.engine_version,
            "weights": deployment.weights_format,
            "weights_stored_as": deployment.weights_label,
            "kv": deployment.kv_format,
            "dtype": deployment.dtype,
            "settings": deployment.settings,
            "defaults": list(deployment.defaults),
        },
        "memory": {
            **{
                name: None if value is None else value["mid"]
                for name, value in published_memory.items()
            },
            "fits": memory.verdict != "does_not_fit",
            "verdict": memory.verdict,
            "starts": memory.starts,
            "reason": notes_json((memory.reason,), say)[0],
            "remedies": notes_json(memory.remedies, say),
            "ranges": published_memory,
        },
        "speed": None,
        "warnings": notes_json(evaluation.warnings, say),
        "assumptions": notes_json(evaluation.assumptions, say),
    }
    if speed is not None:
        answer["speed"] = {
            **{p.name: estimate_json(getattr(speed, p.attribute), p) for p in SPEED},
            "bound_by": speed.bound_by,
            "prefill_bound_by": speed.prefill_bound_by,
            "bounds": {
                "ttft_ms": None if speed.ttft_bound_s is None else speed.ttft_bound_s * MS_PER_S,
                "tpot_ms": None if speed.tpot_bound_s is None else speed.tpot_bound_s * MS_PER_S,
            },
            "parts": {
                "decode_ms": {name: part * MS_PER_S for name, part in speed.decode_parts.items()},
                "prefill_ms": {name: part * MS_PER_S for name, part in speed.prefill_parts.items()},
            },
            "running_batch": speed.running_batch,
            "queue_wait_ms": speed.queue_wait_s * MS_PER_S,
            "critical_batch": speed.critical_batch,
            "calibration": speed.calibration,
        }
    return answer


FLAT_COLUMNS = (
    "params",
    "params_active",
    *(p.name for p in MEMORY),
    "fits",
    "verdict",
    *(column for p in SPEED for column in (f"{p.name}_low", p.name, f"{p.name}_high")),
    "bound_by",
    "ttft_bound_ms",
    "tpot_bound_ms",
    "running_batch",
    "basis",
    "error",
)


def evaluation_flat(evaluation: Evaluation) -> dict[str, Any]:
    """The answer as one row under FLAT_COLUMNS; what doesn't apply is None."""
    memory, speed = evaluation.memory, evaluation.speed
    row: dict[str, Any] = {
        "params": int(_scalar(evaluation.model.parameters.mid)),
        "params_active": int(_scalar(evaluation.model.active_parameters.mid)),
        "fits": memory.verdict != "does_not_fit",
        "verdict": memory.verdict,
    }
    bases: list[Basis] = []
    for p in MEMORY:
        estimate = getattr(memory, p.attribute)
        if estimate is not None:
            row[p.name] = _number(_scalar(estimate.mid), p)
            bases.append(estimate.basis)
    if speed is not None:
        for p in SPEED:
            estimate = getattr(speed, p.attribute)
            if estimate is not None:
                row[f"{p.name}_low"] = _number(_scalar(estimate.low), p)
                row[p.name] = _number(_scalar(estimate.mid), p)
                row[f"{p.name}_high"] = _number(_scalar(estimate.high), p)
                bases.append(estimate.basis)
        row["bound_by"] = speed.bound_by
        row["running_batch"] = speed.running_batch
        for name, bound in (
            ("ttft_bound_ms", speed.ttft_bound_s),
            ("tpot_bound_ms", speed.tpot_bound_s),
        ):
            row[name] = None if bound is None else bound * MS_PER_S
    row["basis"] = max(bases).label if bases else ""
    return row

"""Explanations of times, rates and bounds."""

from __future__ import annotations

from collections.abc import Callable

from planner.architecture.totals import (
    head_flops_per_token,
    layer_linear_flops_per_token,
    score_flops,
)
from planner.explain.parts import (
    Context,
    Explanation,
    Term,
    accelerator_sources,
    calibration_sources,
    explanation_of,
    host_sources,
)
from planner.speed.bounds import chunk_bytes
from planner.speed.chunks import steps_of
from planner.speed_answer import step_tokens


def _parts_terms(parts: dict[str, float]) -> list[Term]:
    return [Term(f"t_{name}", f"time.{name}", seconds, "time") for name, seconds in parts.items()]


def _from_parts(figure: str, which: str) -> Callable[[Context], Explanation]:
    def build(context: Context) -> Explanation:
        speed = context.evaluation.speed
        parts: dict[str, float] = getattr(speed, which)
        terms = _parts_terms(parts)
        total = float(getattr(speed, figure).mid)
        waited = {}
        if figure == "ttft_s":
            others = total - float(speed.ttft_unloaded_s.mid)
            if others > 1e-9:
                waited = {"others": others}
                terms.append(Term("t_others", "time.others", others, "time"))
        return explanation_of(
            figure,
            " + ".join(term.symbol for term in terms),
            " + ".join(f"{{{name}:time}}" for name in (*parts, *waited)) + " = {total:time}",
            terms,
            iter(
                (
                    *calibration_sources(context),
                    *accelerator_sources(
                        context.deployment,
                        "bandwidth_bytes_per_s",
                        f"peak_{context.deployment.dtype}_flops_per_s",
                    ),
                    *host_sources(context.deployment),
                )
            ),
            **parts,
            **waited,
            total=total,
        )

    return build


def _rate(figure: str) -> Callable[[Context], Explanation]:
    formulas: dict[str, tuple[str, str, tuple[str, ...]]] = {
        "decode_tokens_per_s": ("1 / TPOT", "1 / {tpot:time}", ("tpot",)),
        "prefill_tokens_per_s": ("S / TTFT", "{S:count} / {ttft:time}", ("S", "ttft")),
        "output_tokens_per_s": (
            "b · o / (TTFT + (o − 1) · TPOT)",
            "{b:number} · {o:count} / ({served:time} + ({o:count} − 1) · {tpot:time})",
            ("b", "o", "served", "tpot"),
        ),
        "total_tokens_per_s": (
            "b · (S + o) / (TTFT + (o − 1) · TPOT)",
            "{b:number} · ({S:count} + {o:count}) / ({served:time} + ({o:count} − 1) · {tpot:time})",
            ("b", "S", "o", "served", "tpot"),
        ),
        "e2e_s": (
            "TTFT + (o − 1) · TPOT",
            "{all:time} + ({o:count} − 1) · {tpot:time}",
            ("all", "o", "tpot"),
        ),
    }
    # A model that makes no tokens one by one reads its input, and is done.
    reading: dict[str, tuple[str, str, tuple[str, ...]]] = {
        "total_tokens_per_s": (
            "b · S / TTFT",
            "{b:number} · {S:count} / {served:time}",
            ("b", "S", "served"),
        ),
        "e2e_s": ("TTFT", "{all:time}", ("all",)),
    }
    symbols = {
        "tpot": ("TPOT", "figure.tpot_s", "time"),
        "ttft": ("TTFT", "figure.ttft_unloaded_s", "time"),
        "all": ("TTFT", "figure.ttft_s", "time"),
        "served": ("TTFT", "term.ttft_without_wait", "time"),
        "S": ("S", "term.input_tokens", "count"),
        "o": ("o", "term.output_tokens", "count"),
        "b": ("b", "term.running", "number"),
    }

    def build(context: Context) -> Explanation:
        scenario, speed = context.evaluation.scenario, context.evaluation.speed
        rules = formulas if speed.tpot_s else formulas | reading
        formula, filled, used = rules[figure]
        known = {
            "tpot": float(speed.tpot_s.mid) if speed.tpot_s else 0.0,
            "ttft": float(speed.ttft_unloaded_s.mid),
            "all": float(speed.ttft_s.mid),
            "served": float(speed.ttft_s.mid) - speed.queue_wait_s,
            "S": float(scenario.input_tokens),
            "o": float(scenario.output_tokens),
            "b": speed.running_batch * context.deployment.parallelism.dp,
        }
        kind = "time" if figure == "e2e_s" else "rate"
        terms = [Term(symbols[n][0], symbols[n][1], known[n], symbols[n][2]) for n in used]
        filled = f"{filled} = {{result:{kind}}}"
        parts: dict[str, float] = {}
        if (
            figure == "decode_tokens_per_s"
        ):  # no card shows the time per token: its parts are shown here
            parts = speed.decode_parts
            steps = _parts_terms(parts)
            sums = " + ".join(term.symbol for term in steps)
            formula = f"{formula},  TPOT = {sums}"
            times = " + ".join(f"{{{name}:time}}" for name in parts)
            filled = f"{filled};  TPOT = {times} = {{tpot:time}}"
            terms += steps
        return explanation_of(
            figure,
            formula,
            filled,
            terms,
            calibration_sources(context),
            **{name: known[name] for name in used},
            **parts,
            result=float(getattr(speed, figure).mid),
        )

    return build


def _bound(figure: str) -> Callable[[Context], Explanation]:
    def build(context: Context) -> Explanation:
        deployment, scenario = context.deployment, context.evaluation.scenario
        architecture, hardware = deployment.architecture, deployment.hardware
        prompt = float(scenario.input_tokens)
        per_token = layer_linear_flops_per_token(architecture)
        if figure == "ttft_bound_s":
            flops = prompt * per_token + head_flops_per_token(architecture)
            flops += float(score_flops(architecture, prompt, 0.0, phase="prefill"))
        else:
            flops = per_token + head_flops_per_token(architecture)
        seconds = getattr(context.evaluation.speed, figure)
        share = deployment.work.host
        on_gpu = deployment.work if share is None else share.resident
        host = []
        whole, steps = "bytes / W", []
        if figure == "ttft_bound_s" and prompt > step_tokens(deployment):
            count = float(steps_of(prompt, step_tokens(deployment)))
            stages = deployment.parallelism.pp
            again = "(steps − 1) · bytes_layers" + (f" / {stages}" if stages > 1 else "")
            whole = f"(bytes + {again}) / W"
            steps = [
                Term("steps", "term.prompt_steps", count, "count"),
                Term("bytes_layers", "term.layer_bytes", chunk_bytes(on_gpu), "bytes"),
            ]
        if share is not None:
            most = float(hardware.host_rates().most_bandwidth_bytes_per_s)
            host = [
                Term("bytes_h", "term.host_bytes", share.held.least_weight_bytes, "bytes"),
                Term("W_h", "term.host_bandwidth", most, "bandwidth"),
            ]
        return explanation_of(
            figure,
            f"max( {whole} , FLOP / (P · GPU)" + (" , bytes_h / W_h )" if host else " )"),
            "{seconds:time}",
            [
                Term("bytes", "term.least_bytes", on_gpu.least_weight_bytes, "bytes"),
                *steps,
                Term("W", "term.bandwidth", float(hardware.bandwidth_bytes_per_s), "bandwidth"),
                Term("FLOP", "term.flop_of_model", flops, "flop"),
                Term(
                    "P",
                    "term.peak",
                    float(hardware.product_peak(deployment.dtype, deployment.dtype)),
                    "flops",
                ),
                *host,
            ],
            iter(
                (
                    *accelerator_sources(
                        deployment, "bandwidth_bytes_per_s", f"peak_{deployment.dtype}_flops_per_s"
                    ),
                    *host_sources(deployment),
                )
            ),
            seconds=float(seconds or 0.0),
        )

    return build


SPEED: dict[str, Callable[[Context], Explanation]] = {
    "ttft_s": _from_parts("ttft_s", "prefill_parts"),
    "ttft_unloaded_s": _from_parts("ttft_unloaded_s", "prefill_parts"),
    "tpot_s": _from_parts("tpot_s", "decode_parts"),
    "e2e_s": _rate("e2e_s"),
    "decode_tokens_per_s": _rate("decode_tokens_per_s"),
    "prefill_tokens_per_s": _rate("prefill_tokens_per_s"),
    "output_tokens_per_s": _rate("output_tokens_per_s"),
    "total_tokens_per_s": _rate("total_tokens_per_s"),
    "ttft_bound_s": _bound("ttft_bound_s"),
    "tpot_bound_s": _bound("tpot_bound_s"),
}

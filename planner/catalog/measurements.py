"""Measurements: runs that others published, as scenarios with what was measured and where it was read.

One CSV a family under profiles/measurements. Columns that name a scenario's fields say what ran; columns with a unit
say what was measured. Sources, with their licences, are in sources.yaml; what was left out, and why, in left-out.csv.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from planner.catalog.files import profile_lines
from planner.catalog.loader import read_yaml
from planner.errors import BadProfile, InvalidInput, brief

FOLDER = "measurements"
SPEED_FAMILIES = (
    "serving",
    "unloaded",
    "serving-throughput",
    "batch",
    "mlperf",
    "llama-cpp",
    "llama-cpp-offload",
    "transformers",
)
RATES = ("output_tokens_per_s", "total_tokens_per_s")
DECODED, READ = ("tpot_s", *RATES), ("ttft_s", "prefill_s")
"""What is measured of answers as a whole or by the token, and of reading prompts."""
QUANTITIES = ("tpot_s", *READ, *RATES)
MEMORY_FAMILIES = ("vllm-memory", "sglang-memory", "hf-memory", "llama-cpp-memory")
MEMORY_QUANTITIES = (
    "weights_bytes",
    "activation_bytes",
    "runtime_bytes",
    "graphs_bytes",
    "kv_pool_bytes",
    "kv_pool_tokens",
    "kv_bytes",
    "compute_buffer_bytes",
    "allocated_bytes",
)
POISSON, RATE = "poisson", "request_rate_per_s"
ARRIVALS = ("loop", "waves", "together", "backlog", "burst", "offline", POISSON)
LENGTHS = ("", "varied")
WAITS = ("poll_steps", "hold_steps")
MOST_REPLICAS = 10_000
MOST_SHOWN = 60  # characters of what was given, in a refusal
_OWN = (
    "id", "source", "arrivals", "lengths", RATE, "replicas", "constants", "settings", "note", *WAITS,
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """One published run.

    Attributes:
        id: of the row, unique in its family.
        family: the file it is in.
        source: key of `measurement_sources`.
        scenario: fields of the scenario, as text where they come from a CSV.
        arrivals: "loop" (each request is followed by the next), "waves" (such a loop whose requests all start and end
            together: equal lengths, and an engine that reads every prompt that waits before it decodes on), "together"
            (one batch from start to end), "backlog" (many more than can run are there from the start, so that every
            place is always taken), "burst" (all are sent to a server at once), "offline" (the program that an engine
            runs in hands it all of them at once) or "poisson" (at random, at a rate of their own).
        varied: requests differ in length, and the scenario's lengths are means.
        replicas: deployments that the throughput is the sum of.
        measured: values by name of QUANTITIES or MEMORY_QUANTITIES, in the unit that the name ends with; memory is of
            one GPU.
        note: what to know about the row; "" for nothing.
        settings: of a memory row: "stated" where its log gives the settings that size the cache pool, "assumed" where
            they are taken to be the defaults, "" where they aren't known.
        constants: a set of constants in place of the engine's own ("tuned": set up by hand for one load); "" for none.
        request_rate_per_s: requests that arrived each second, over all replicas; 0 where each follows another's end.
        poll_steps: decode steps from one look of the engine for new requests to the next (SGLang,
            scheduler-recv-interval), at least 1.
        hold_steps: decode steps that a new prompt is held back for others to join it (TensorRT-LLM,
            batch_wait_timeout_iters, or timeout_iters of attention_dp_config); 0 for none.
    """

    id: str
    family: str
    source: str
    scenario: Mapping[str, Any]
    arrivals: str
    replicas: int
    measured: Mapping[str, float]
    note: str
    settings: str = ""
    constants: str = ""
    request_rate_per_s: float = 0.0
    varied: bool = False
    poll_steps: float = 1.0
    hold_steps: float = 0.0


# Of what disturbed a measurement; a drift is the slower run / the quicker − 1, or the other way round.
OF_REASONS = {
    "drift_fraction": (1e-7 - 1.0, 1e7),
    "load_fraction": (0.0, 1e5),
    "times": (0.0, 1e7),
    "programs": (0.0, 1e7),
}


def sane_range(name: str) -> tuple[float, float]:
    """Least and most that a figure may be, in the unit that its name ends with: what lies beyond nobody measured."""
    if name in WAITS:
        return (1.0 if name == "poll_steps" else 0.0), 10_000.0
    if name == RATE:
        return 1e-6, 1e6
    if name in OF_REASONS:
        return OF_REASONS[name]
    if name.endswith("_per_s"):
        return 1e-6, 1e12
    return (1e-9, 1e7) if name.endswith("_s") else (1e-3, 1e18)


def is_sane(name: str, value: float) -> bool:
    """Whether a figure lies in its `sane_range`; NaN lies in none."""
    least, most = sane_range(name)
    return least <= value <= most


def require_in_range(row: str, name: str, value: float, field: str) -> None:
    """Refuses a figure of a row outside its `sane_range`.

    Raises:
        InvalidInput: naming the row and the figure.
    """
    if not is_sane(name, value):
        least, most = sane_range(name)
        raise InvalidInput(
            "measurement_row_out_of_range",
            field=field,
            row=row,
            figure=name,
            given=brief(value),
            least=least,
            most=most,
        )


def read_measurements(lines: Iterable[str], family: str) -> Iterator[Measurement]:
    """The rows of one CSV text, in order.

    Args:
        lines: the text, header first.
        family: what its rows are called.

    Raises:
        BadProfile: for a row with a quantity that isn't a number of its `sane_range`, none at all, an unknown way of
            arriving, kind of lengths or number of replicas, or more cells than the header, Poisson arrivals without
            their rate or a rate without them, and for what isn't CSV.
    """
    for line, row in _csv_rows(lines, family):
        key = (row.get("id") or f"line {line}")[:MOST_SHOWN]
        stated: dict[str, float] = {}
        for name in (*QUANTITIES, *MEMORY_QUANTITIES, RATE, *WAITS):
            text = row.get(name) or ""
            if not text:
                continue
            try:
                value = float(text)
            except ValueError:
                value = float("nan")
            if not is_sane(name, value):
                least, most = sane_range(name)
                raise BadProfile(
                    "measurement_out_of_range",
                    file=family,
                    key=key,
                    field=name,
                    least=least,
                    most=most,
                )
            stated[name] = value
        rate = stated.pop(RATE, 0.0)
        waits = {name: stated.pop(name) for name in WAITS if name in stated}
        arrivals = row.get("arrivals") or "loop"
        lengths = row.get("lengths") or ""
        replicas = row.get("replicas") or "1"
        wrong = _wrong(arrivals, lengths, replicas, rate)
        if wrong is not None:
            code, given = wrong
            raise BadProfile(
                code,
                file=family,
                key=key,
                given=given[:MOST_SHOWN],
                allowed=ARRIVALS,
                most=MOST_REPLICAS,
            )
        if not stated:
            raise BadProfile("measurement_incomplete", file=family, key=key)
        scenario = {
            name: text
            for name, text in row.items()
            if text and name not in _OWN + QUANTITIES + MEMORY_QUANTITIES
        }
        yield Measurement(
            key,
            family,
            row.get("source") or "",
            scenario,
            arrivals,
            int(replicas),
            stated,
            row.get("note") or "",
            row.get("settings") or "",
            row.get("constants") or "",
            rate,
            lengths == "varied",
            **waits,
        )


def _wrong(arrivals: str, lengths: str, replicas: str, rate: float) -> tuple[str, str] | None:
    """The code of what is wrong with how a row's requests came, and what was given; None for nothing."""
    if arrivals not in ARRIVALS:
        return "measurement_arrivals_unknown", arrivals
    if lengths not in LENGTHS:
        return "measurement_lengths_unknown", lengths
    digits = replicas.isascii() and replicas.isdigit() and len(replicas) <= len(str(MOST_REPLICAS))
    if not digits or not 1 <= int(replicas) <= MOST_REPLICAS:
        return "measurement_replicas_unknown", replicas
    if (arrivals == POISSON) != (rate > 0.0):
        return (
            "measurement_rate_missing" if arrivals == POISSON else "measurement_rate_spare",
            arrivals,
        )
    return None


def _csv_rows(lines: Iterable[str], family: str) -> Iterator[tuple[int, dict[str, str | None]]]:
    """Each row with the line that it begins on; raises BadProfile for what isn't CSV."""
    reader = csv.DictReader(lines, strict=True)
    line = 1
    try:
        names = reader.fieldnames or ()
        line = reader.line_num + 1
        for row in reader:
            if None in row:  # csv's key for cells beyond the header
                raise BadProfile(
                    "measurement_row_too_long", file=family, line=line, columns=len(names)
                )
            yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise BadProfile(
            "measurement_not_csv", file=family, line=line, reason=str(error)
        ) from error


@lru_cache(maxsize=16)
def measurements(family: str) -> tuple[Measurement, ...]:
    """The shipped rows of a family; raises BadProfile."""
    return tuple(read_measurements(profile_lines(f"{FOLDER}/{family}.csv"), family))


@lru_cache(maxsize=1)
def measurement_sources() -> Mapping[str, Mapping[str, str]]:
    """Title, address and licence of each source by its key; raises BadProfile."""
    sources: Mapping[str, Mapping[str, str]] = read_yaml(f"{FOLDER}/sources.yaml")["sources"]
    return sources


@lru_cache(maxsize=1)
def measured_shapes() -> Mapping[str, Mapping[str, Any]]:
    """Configurations of models that only measurements name, by that name; raises BadProfile."""
    shapes: Mapping[str, Mapping[str, Any]] = read_yaml(f"{FOLDER}/shapes.yaml")["models"]
    return shapes

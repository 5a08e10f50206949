"""A measurement from beginning to end: probe, rates, models, and the calibration that the rows give.

After every figure and every row the record is written, so that however it ends, what was measured is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from planner.architecture.resolve import architecture_from_config
from planner.catalog.accelerators import Accelerator, accelerator
from planner.catalog.devices import MAX_NAME, DeviceEntry
from planner.catalog.models import model_profile
from planner.errors import InvalidInput, PlannerError
from planner.measure.clock import OutOfMemory, Timer, understood
from planner.measure.device import (
    cache_bytes,
    chosen_dtype,
    described,
    free_bytes,
    prepare,
    software,
)
from planner.measure.lock import machine_lock
from planner.measure.micro import (
    BENCHMARKS,
    Bench,
    Sample,
    best_bandwidth,
    best_rates,
    gathered,
    reached,
)
from planner.measure.noise import Watch
from planner.measure.own_fit import calibrated
from planner.measure.plan import (
    CHECK_SHAPE,
    FIRST_SHAPE,
    LARGE_SHAPE,
    LIMIT_S,
    Rates,
    Role,
    Shape,
    points,
    require_context,
)
from planner.measure.probe import (
    Probe,
    Target,
    as_torch_has_it,
    chosen_target,
    probe,
    require_torch,
)
from planner.measure.progress import Listener, Teller
from planner.measure.quantise import QUANTISED, require_bitsandbytes
from planner.measure.record import Figure, Record, Row
from planner.measure.shape_run import Setting, ShapeRun, failed_rows

FIGURE_S = {"quick": 0.25, "full": 0.7}  # in each round: one before the models, and one after each
RESERVE = 0.25  # of the limit, for the model that checks the calibration
LARGE_BYTES = 24e9  # free memory from which on the large shape is worth measuring


class Cancelled(BaseException):
    """The measurement was told to stop; what it has is kept."""


@dataclass(frozen=True, slots=True)
class Options:
    """What is to be measured.

    Attributes:
        device: torch's name, None for the first; model: catalogue id or a name for `config`, None for the usual ones.
        dtype: "bf16", "fp16" or "fp32", None for the fastest that holds; weights: "native" or a quantised format.
        weights_from: a folder or a Hub id with real weights; None for random ones.
        check: a second model is measured, which the calibration doesn't see, to test it.
        name: of the record; None for one from device and date.
        limit_s: for the whole run; None for the mode's.
    """

    device: str | None = None
    model: str | None = None
    config: Mapping[str, Any] | None = field(default=None, repr=False)
    quick: bool = False
    dtype: str | None = None
    weights: str = "native"
    weights_from: str | None = None
    check: bool = True
    name: str | None = None
    limit_s: float | None = None

    @property
    def mode(self) -> Literal["quick", "full"]:
        return "quick" if self.quick else "full"

    @property
    def time_limit_s(self) -> float:
        return LIMIT_S[self.mode] if self.limit_s is None else self.limit_s


class Run:
    """One measurement."""

    def __init__(
        self,
        options: Options,
        listener: Listener | None = None,
        keep: Callable[[Record], None] | None = None,
        *,
        start_s: float | None = None,
        lock: Callable[[], AbstractContextManager[None]] = machine_lock,
    ) -> None:
        """Prepares it.

        Args:
            listener: is told each step; keep: gets the record whenever it has grown.
            start_s: of the program, on time.monotonic's clock, from which the limit counts.
        """
        self.options, self.keep, self.lock = options, keep, lock
        self.teller = Teller(listener, start_s)
        self.watch = Watch()
        self.samples: list[Sample] = []
        self.figures: list[Figure] = []
        self.rows: list[Row] = []
        self.notes: list[str] = []
        self.configs: dict[str, dict[str, Any]] = {}
        self.target: Target | None = None
        self.item: Accelerator | None = None
        self.device: DeviceEntry | None = None
        self.software: dict[str, str] = {}

    def measure(self) -> Record:
        """Measures.

        Raises:
            InvalidInput, UnknownItem: the device or the model isn't there.
            PlannerError: `torch_missing`, `measuring_already`, `gpu_lost`, or the model can't be built.
            Cancelled: told to stop; the record is kept.
        """
        try:
            require_torch()
            _check(self.options)
            with self.lock():
                self._measure()
                self.teller.say("fit")
                record = calibrated(self.record())
        except Cancelled:
            self._ended("cancelled")
            raise
        except PlannerError as error:
            self._ended("failed", error.code)
            raise
        except BrokenPipeError:  # nobody listens any more
            self._ended("cancelled")
            raise Cancelled from None
        if self.keep:
            try:
                self.keep(record)
            except Cancelled:  # too late: it was finished
                self.keep(record)
        self.teller.say("done", 1, 1, left_s=0.0, values={"rows": len(record.rows)})
        return record

    def _ended(self, phase: Literal["cancelled", "failed"], code: str | None = None) -> None:
        self.notes.append(code or phase)
        if self.figures or self.rows:
            self._keep()
        with suppress(BrokenPipeError):
            self.teller.say(phase, note=code)

    def _keep(self) -> None:
        if self.keep and self.target is not None:
            self.keep(self.record())

    def record(self) -> Record:
        """What was measured until now."""
        assert self.target is not None
        now = datetime.now(UTC)
        place = self.item.id if self.item else self.device.id if self.device else "own-unknown"
        name = self.options.name or f"{self.target.name[:50]}, {now:%Y-%m-%d %H:%M}"
        return Record(
            format="headroom-measurement",
            schema_version=1,
            name=name,
            date=now.isoformat(timespec="seconds"),
            origin="device",
            accelerator=place,
            device=self.device,
            software=self.software,
            conditions=self.watch.conditions(),
            figures=self.figures,
            rows=self.rows,
            configs=self.configs,
            notes=self.notes,
        )

    # --- Its parts ---------------------------------------------------------------------------------------------------

    def _measure(self) -> None:
        self.teller.say("probe", 0, 1, left_s=self.options.time_limit_s - self.teller.elapsed_s)
        found = probe()
        target = as_torch_has_it(found, chosen_target(found, self.options.device))
        self.target = target
        self.item = accelerator(target.accelerator) if target.accelerator else None
        timer = Timer(target.device, target.kind)
        self.notes += prepare(found, target)
        self.software = software(found)
        self.teller.say("probe", 1, 1, values={"device": target.name})
        begin_s = self.teller.elapsed_s
        try:
            free = free_bytes(target, timer)
            budget_s = FIGURE_S[self.options.mode]
            bench = Bench(timer, self.item, free, cache_bytes(target, found), budget_s)
            self._rates(bench, target, found)
        except OutOfMemory as error:
            raise PlannerError("no_memory_to_measure", device=target.device) from error
        except RuntimeError as error:
            raise understood(error) from error
        self._models(bench, target, found, self.teller.elapsed_s - begin_s)

    def _rates(self, bench: Bench, target: Target, found: Probe) -> None:
        """A round of the micro-benchmarks, put together with those before it; raises OutOfMemory."""
        for number, kind in enumerate(BENCHMARKS):
            left_s = self.options.time_limit_s - self.teller.elapsed_s
            self.teller.say("rates", number, len(BENCHMARKS), left_s=left_s)
            try:
                self.samples += kind(bench)
            except (RuntimeError, MemoryError) as error:
                raise understood(error) from error
        self.figures = gathered(self.samples)
        if self.item is None:
            self.device = described(target, found, reached(self.samples))
        self._keep()

    def _models(self, bench: Bench, target: Target, found: Probe, round_s: float) -> None:
        """Every shape, and the rates once more after each, so that they are of the same minute too.

        Args:
            round_s: that a round of rates takes.
        """
        from transformers import __version__ as version

        timer = bench.timer
        dtype = self.options.dtype or chosen_dtype(best_rates(self.figures), target)
        self.watch.ready(timer, dtype, target.uuid)
        rates = best_rates(self.figures)
        launch = [one.value.median for one in self.figures if one.name == "launch"]
        setting = Setting(
            timer=timer,
            accelerator=self.item.id if self.item else self.device.id if self.device else "",
            dtype=dtype,
            weights=self.options.weights,
            engine_version=".".join(version.split(".")[:2]),
            free_bytes=free_bytes(target, timer),
            rates=Rates(
                rates.get(dtype) or max(rates.values()),
                best_bandwidth(self.figures) or 1e9,
                launch[0] if launch else 1e-5,
            ),
            limit_s=self.options.time_limit_s,
            mode=self.options.mode,
        )
        shapes = self._shapes(target, setting.free_bytes)
        done: list[ShapeRun] = []
        for number, shape in enumerate(shapes):
            rest = len(shapes) - number
            later = rest * round_s + RESERVE * setting.limit_s * (rest > 1)
            one = ShapeRun(shape, setting, self.watch, self.teller, self._take, reserve_s=later)
            if shape.pasted:
                self.configs[shape.model] = dict(shape.config)
            try:
                one.run()
                done.append(one)
            except PlannerError as error:
                if error.code == "gpu_lost" or shape.role == "fit":
                    raise
                self.rows += failed_rows(shape, one, error)
            if self.teller.elapsed_s + round_s < setting.limit_s:
                with suppress(OutOfMemory):
                    self._rates(bench, target, found)
        for one in done:
            one.judge()

    def _take(self, row: Row) -> None:
        """Keeps a row in place of what was known of the same run before."""
        known = [one.id for one in self.rows]
        if row.id in known:
            self.rows[known.index(row.id)] = row
        else:
            self.rows.append(row)
        self._keep()

    def _shapes(self, target: Target, free_bytes: float) -> list[Shape]:
        """The model that counts, and another that checks."""
        options = self.options
        large = not options.quick and not target.is_cpu and free_bytes > LARGE_BYTES
        first = options.model or (LARGE_SHAPE if large else FIRST_SHAPE)
        other = FIRST_SHAPE if large else CHECK_SHAPE
        pairs: list[tuple[str, Role]] = [(first, "fit")]
        if options.check and options.weights_from is None and first != other:
            pairs.append((other, "check"))
        found = []
        for name, role in pairs:
            own = role == "fit" and options.config is not None
            config = options.config if own and options.config else model_profile(name).config
            most = architecture_from_config(config).max_context_tokens
            found.append(
                Shape(
                    model=name,
                    config=config,
                    role=role,
                    points=points(
                        quick=options.quick, on_cpu=target.is_cpu, role=role, most_tokens=most
                    ),
                    pasted=own,
                    weights_from=options.weights_from if role == "fit" else None,
                )
            )
        return found


def _check(options: Options) -> None:
    if options.name is not None and not 0 < len(options.name) <= MAX_NAME:
        raise InvalidInput("measurement_bad_name", field="name", limit=MAX_NAME)
    if options.dtype is not None and options.dtype not in ("bf16", "fp16", "fp32"):
        raise InvalidInput(
            "dtype_not_measurable",
            field="dtype",
            given=options.dtype,
            there=("bf16", "fp16", "fp32"),
        )
    if options.weights not in ("native", *QUANTISED):
        raise InvalidInput(
            "weights_not_measurable",
            field="weights",
            given=options.weights,
            there=("native", *QUANTISED),
        )
    if options.weights in QUANTISED:
        require_bitsandbytes(options.weights)
    if options.model is not None:
        config = options.config or model_profile(options.model).config
        require_context(config, quick=options.quick)

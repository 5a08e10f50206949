"""One model on the device: built, run at each of its points, and what came of it as rows of a record."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from planner.architecture.resolve import architecture_from_config
from planner.errors import PlannerError
from planner.measure.bench_model import Timing, cache_growth, decode, prefill, warm, whole
from planner.measure.build import ROOM_FRACTION, Built, Depths, build, depths, load, loaded_bytes
from planner.measure.clock import OutOfMemory, Timer
from planner.measure.noise import Watch, is_noisy
from planner.measure.plan import PATIENCE, STEPS, Guess, Point, Rates, Shape
from planner.measure.progress import Teller
from planner.measure.quantise import BYTES_PER_WEIGHT
from planner.measure.record import RecordQuantity, Row, Spread
from planner.measure.system import own_memory_bytes

Measured = dict[RecordQuantity, Spread]
ENGINE = "transformers"
BUILDING_S = 5.0  # that a model which only checks needs before its first point
# Times longer than there is time that a whole model should take, by a guess, for slices of it to be built instead.
HOPELESS = 5.0
KEEP_S = 1.0  # of a budget that is left for what comes after


@dataclass(frozen=True, slots=True)
class Setting:
    """What is the same for every model of a run.

    Attributes:
        timer: of the device; accelerator: its id, as rows name it.
        dtype: that is computed in; weights: "native" or a quantised format.
        engine_version: the first two numbers of transformers' version.
        free_bytes: memory that may be taken (bytes).
        limit_s: since the start of the run, after which only single passes are made.
    """

    timer: Timer
    accelerator: str
    dtype: str
    weights: str
    engine_version: str
    free_bytes: float
    rates: Rates
    limit_s: float
    mode: str


class ShapeRun:
    """Runs the points of one shape in order; `take` gets each row as it is finished."""

    def __init__(
        self,
        shape: Shape,
        setting: Setting,
        watch: Watch,
        teller: Teller,
        take: Callable[[Row], None],
        *,
        reserve_s: float = 0.0,
    ) -> None:
        """Prepares it.

        Args:
            reserve_s: of the limit, for shapes that come after.
        """
        self.shape, self.setting, self.watch, self.teller = shape, setting, watch, teller
        self.take, self.reserve_s = take, reserve_s
        self.steps = STEPS[setting.mode]
        self.slow = 1.0  # times were so many times longer than guessed
        self.base_bytes = own_memory_bytes() or 0.0
        self.common: Measured = {}  # figures of the model that the first row that is measured carries

    # --- Rows --------------------------------------------------------------------------------------------------------

    def row(
        self,
        point: Point,
        measured: Measured,
        outcome: str = "measured",
        *,
        noisy: bool = False,
        notes: list[str] | None = None,
    ) -> Row:
        """A row of the record for a point."""
        name = self.shape.model.rpartition("/")[2][:60]
        shown = self.setting.dtype if self.setting.weights == "native" else self.setting.weights
        size = (
            f"{point.tokens}x{point.batch}"
            if point.kind == "prefill"
            else f"c{point.tokens}-b{point.batch}"
        )
        return Row.model_validate(
            {
                "id": f"{point.kind}-{name}-{shown}-{size}",
                "scenario": self.scenario(point),
                "arrivals": "together",
                "role": self.shape.role,
                "outcome": outcome,
                "measured": measured,
                "noisy": noisy,
                "notes": notes or [],
            }
        )

    def scenario(self, point: Point) -> dict[str, str | int | float | bool]:
        """The fields of the scenario that a point is a run of."""
        one = self.setting
        return {
            "model": self.shape.model,
            "engine": ENGINE,
            "engine_version": one.engine_version,
            "weights": one.dtype if one.weights == "native" else one.weights,
            "dtype": one.dtype,
            "gpu": one.accelerator,
            "input_tokens": point.tokens,
            "output_tokens": 1 if point.kind == "prefill" else self.steps + 1,
            "concurrency": point.batch,
        }

    # --- Time --------------------------------------------------------------------------------------------------------

    def left_s(self) -> float:
        """Until the limit, less what is reserved for others (s)."""
        return self.setting.limit_s - self.reserve_s - self.teller.elapsed_s

    def budget_s(self, point: Point, after: tuple[Point, ...], guess: Guess) -> float:
        """This point's share of the time that is left, by how long the points should take (s)."""
        mine, others = (
            guess.least_s(point, self.steps),
            sum(guess.least_s(one, self.steps) for one in after),
        )
        return max(self.left_s() - KEEP_S, 0.0) * mine / (mine + others)

    def _remaining_s(self, left: tuple[Point, ...], guess: Guess) -> float:
        """About how long the whole run still takes: what is reserved, and the points with their repeats (s)."""
        least = self.slow * sum(guess.least_s(one, self.steps) for one in left)
        return self.reserve_s + max(least, min(self.left_s(), 2.0 * least))

    def too_late(self, point: Point, guess: Guess) -> bool:
        """A model that only checks gets the time that is left; the one that counts gets twice the limit."""
        needed = guess.least_s(point, self.steps) * self.slow / 2.0
        if self.shape.role == "check":
            return needed > self.left_s()
        return self.teller.elapsed_s > PATIENCE * self.setting.limit_s

    # --- The run -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Builds the model and measures every point.

        Memory that runs out is a row; so is time that does.

        Raises:
            PlannerError: the model can't be built, or the GPU is lost.
        """
        if self.shape.role == "check" and self.left_s() < BUILDING_S:
            for point in self.shape.points:
                self.take(self.row(point, {}, "not_run", notes=["out_of_time"]))
            return
        try:
            sizes = self._depths()
            done: dict[tuple[int, Point], Timing | OutOfMemory | None] = {}
            weights, growths = list[float](), list[float]()
            for number, layers in enumerate(sizes.slices):
                self.teller.say(
                    "load",
                    number,
                    len(sizes.slices),
                    left_s=self.left_s() + self.reserve_s,
                    values={"model": self.shape.model, "layers": layers},
                )
                built = self._built(sizes, layers)
                warm(built)
                weights.append(built.weights_bytes)
                growths.append(cache_growth(built))
                last = number + 1 == len(sizes.slices)
                if last:
                    self.common = self._memory(weights, growths, sizes)
                self._points(built, sizes, done, last=last)
                del built
        except OutOfMemory:
            for point in self.shape.points:
                self.take(self.row(point, {}, "out_of_memory", notes=["while_loading"]))

    def _depths(self) -> Depths:
        config, one = self.shape.config, self.setting
        if self.shape.weights_from is not None:
            layers = architecture_from_config(config).layers
            return Depths(layers, (layers,))
        per_weight = BYTES_PER_WEIGHT.get(one.weights, 4.0 if one.dtype == "fp32" else 2.0)
        # It is built in full precision first, layer after layer, where it is to be quantised.
        room = ROOM_FRACTION * one.free_bytes * (per_weight / 2.0 if per_weight < 2.0 else 1.0)
        return depths(config, per_weight, room, self._deepest())

    def _deepest(self) -> int | None:
        """Layers for which there is time, where not all of them can be run in it; None where they can."""
        architecture = architecture_from_config(self.shape.config)
        guess = self._guess(architecture.layers)
        needed = sum(guess.least_s(point, self.steps) for point in self.shape.points)
        if needed <= HOPELESS * max(self.left_s(), 1.0) or self.shape.role == "check":
            return None  # points are left out rather
        return max(int(architecture.layers * max(self.left_s(), 1.0) / needed), 2)

    def _guess(self, layers: int) -> Guess:
        architecture = architecture_from_config(self.shape.config)
        size = loaded_bytes(self.shape.config, self.setting.dtype, self.setting.weights)
        share = layers / architecture.layers
        return Guess(architecture, size * share, layers, self.setting.rates)

    def _built(self, sizes: Depths, layers: int) -> Built:
        one = self.setting
        if self.shape.weights_from is not None:
            return load(self.shape.weights_from, one.dtype, one.weights, one.timer)
        part = layers if layers != sizes.whole else None
        return build(self.shape.config, one.dtype, one.weights, one.timer, part)

    def _memory(self, weights: list[float], growths: list[float], sizes: Depths) -> Measured:
        """Memory of the weights and growth of the cache, which every row of the model has in common."""
        found: Measured = {
            "weights_bytes": whole([[one] for one in weights], sizes.slices, sizes.whole)
        }
        if all(one > 0.0 for one in growths):
            found["cache_bytes_per_token"] = whole(
                [[one] for one in growths], sizes.slices, sizes.whole
            )
        return found

    @staticmethod
    def _notes(sizes: Depths) -> list[str]:
        if not sizes.extrapolated:
            return []
        return ["extrapolated", f"layers:{sizes.slices[0]},{sizes.slices[1]},{sizes.whole}"]

    def _points(self, built: Built, sizes: Depths, done: dict[Any, Any], *, last: bool) -> None:
        guess = self._guess(built.layers)
        full: list[Point] = []
        for number, point in enumerate(self.shape.points):
            after = self.shape.points[number + 1 :]
            self.teller.say(
                point.kind,
                number,
                len(self.shape.points),
                left_s=self._remaining_s((point, *after), guess),
                values={"model": self.shape.model, "tokens": point.tokens, "batch": point.batch},
            )
            steady = self.watch.between()
            found = self._one(built, point, self.budget_s(point, after, guess), guess, full)
            if isinstance(found, OutOfMemory):
                full.append(point)
            done[(built.layers, point)] = found
            if last:
                self.take(self._result(point, sizes, done, steady=steady and self.watch.between()))

    def _one(
        self, built: Built, point: Point, budget_s: float, guess: Guess, full: list[Point]
    ) -> Timing | OutOfMemory | None:
        """The point's times; None where there is no time for it."""
        if any(
            one.kind == point.kind and one.tokens <= point.tokens and one.batch <= point.batch
            for one in full
        ):
            return OutOfMemory("a smaller one had no room")
        if self.too_late(point, guess):
            return None
        begin = time.monotonic()
        try:
            if point.kind == "prefill":
                once = self.slow * guess.prefill_s(point.tokens, point.batch)
                found = prefill(
                    built,
                    point.tokens,
                    point.batch,
                    budget_s=budget_s,
                    least=3 if 3.0 * once <= budget_s else 2 if 2.0 * once <= budget_s else 1,
                    base_bytes=self.base_bytes,
                )
                expected = guess.prefill_s(point.tokens, point.batch)
            else:
                found = decode(
                    built,
                    point.tokens,
                    point.batch,
                    steps=self.steps,
                    budget_s=max(
                        budget_s - self.slow * guess.prefill_s(point.tokens, point.batch), 0.0
                    ),
                    base_bytes=self.base_bytes,
                )
                expected = guess.step_s()
        except OutOfMemory as error:
            return error
        took = sorted(found.seconds)[len(found.seconds) // 2]
        if (
            time.monotonic() - begin > 0.2
        ):  # less than that says little about how slow the rest will be
            self.slow = max(0.5 * self.slow + 0.5 * took / expected, 0.1)
        return found

    def _result(self, point: Point, sizes: Depths, done: dict[Any, Any], *, steady: bool) -> Row:
        parts = [done.get((layers, point)) for layers in sizes.slices]
        notes = self._notes(sizes)
        if any(isinstance(one, OutOfMemory) for one in parts):
            return self.row(point, {}, "out_of_memory", notes=notes)
        times = [one for one in parts if isinstance(one, Timing)]
        if len(times) < len(parts):
            return self.row(point, {}, "not_run", notes=[*notes, "out_of_time"])
        repeats = [list(one.seconds) for one in times]
        quantity: RecordQuantity = "prefill_s" if point.kind == "prefill" else "tpot_s"
        measured = {quantity: whole(repeats, sizes.slices, sizes.whole)}
        peaks = [one.peak_bytes for one in times if one.peak_bytes is not None]
        if len(peaks) == len(times):
            measured["peak_bytes"] = whole([[one] for one in peaks], sizes.slices, sizes.whole)
        measured, self.common = measured | self.common, {}
        varies = any(is_noisy(one) for one in repeats)
        if varies:
            notes.append("varies")
        if not steady:
            notes.append("drift")
        return self.row(point, measured, noisy=varies or not steady, notes=notes)


def failed_rows(shape: Shape, one: ShapeRun, error: PlannerError) -> list[Row]:
    """A row per point of a model that couldn't be built, with the refusal's code."""
    return [one.row(point, {}, "failed", notes=[error.code]) for point in shape.points]

"""One model on the device: built, run at each of its points, and what came of it as rows of a record."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from planner.architecture.resolve import architecture_from_config
from planner.errors import PlannerError
from planner.measure.bench_model import (
    WARM_S,
    WARM_UP,
    Timing,
    cache_growth,
    decode,
    prefill,
    warm,
    whole,
)
from planner.measure.build import (
    ROOM_FRACTION,
    Built,
    Depths,
    build,
    depths,
    load,
    loaded_bytes,
    refused,
)
from planner.measure.clock import OutOfMemory, Timer, spread, widened
from planner.measure.noise import Watch, slower
from planner.measure.plan import PATIENCE, ROUNDS, STEPS, Guess, Point, Rates, Shape
from planner.measure.progress import Teller
from planner.measure.quantise import BYTES_PER_WEIGHT
from planner.measure.record import RecordQuantity, Row, Spread
from planner.measure.visits import Counted, Visit, counted

Measured = dict[RecordQuantity, Spread]
ENGINE = "transformers"
BUILDING_S = 5.0  # that a model which only checks needs before its first point
# Times longer than there is time that a whole model should take, by a guess, for slices of it to be built instead.
HOPELESS = 5.0
KEEP_S = 1.0  # of a budget that is left for what comes after
Visits = dict[tuple[int, Point], list[Visit]]  # by layers of the slice, and point


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
    """Runs the points of one shape in rounds; `take` gets each row whenever more is known of it."""

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
        self.common: Measured = {}  # figures of the model, which the first row that is measured carries
        self.carrier: Point | None = None
        self.full: list[Point] = []  # that had no room
        self.sizes: Depths | None = None  # once it is known which slices are run
        self.visits: Visits = {}

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

    def _remaining_s(self, turn: int, number: int, guess: Guess) -> float:
        """About how long the whole run still takes: what is reserved, and the rounds there is time for (s)."""
        points = self.shape.points
        rest = sum(guess.least_s(one, self.steps) for one in points[number:])
        rounds = sum(guess.least_s(one, self.steps) for one in points) * (ROUNDS - turn - 1)
        needed = self.slow * (rest + rounds)
        return self.reserve_s + min(needed, max(self.left_s(), self.slow * rest))

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
            PlannerError: the model can't be built or run, or the GPU is lost.
        """
        if self.shape.role == "check" and self.left_s() < BUILDING_S:
            for point in self.shape.points:
                self.take(self.row(point, {}, "not_run", notes=["out_of_time"]))
            return
        try:
            sizes = self.sizes = self._depths()
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
                if number + 1 == len(sizes.slices):
                    self.common = self._memory(weights, growths, sizes)
                self._rounds(built, sizes, number)
                del built
        except OutOfMemory:
            for point in self.shape.points:
                self.take(self.row(point, {}, "out_of_memory", notes=["while_loading"]))
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            # It could be built, but its parts don't fit together.
            kind = str(self.shape.config.get("model_type", ""))
            raise refused(kind, error, "model_not_runnable") from error

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
            "weights_bytes": whole([spread([one]) for one in weights], sizes.slices, sizes.whole)
        }
        if all(one > 0.0 for one in growths):
            found["cache_bytes_per_token"] = whole(
                [spread([one]) for one in growths], sizes.slices, sizes.whole
            )
        return found

    @staticmethod
    def _notes(sizes: Depths) -> list[str]:
        if not sizes.extrapolated:
            return []
        return ["extrapolated", f"layers:{sizes.slices[0]},{sizes.slices[1]},{sizes.whole}"]

    def judge(self) -> None:
        """Takes the rows once more: which visits count is known better when all of the run has been seen."""
        if self.sizes is not None and self.visits:
            for point in self.shape.points:
                self.take(self._result(point, self.sizes))

    def _rounds(self, built: Built, sizes: Depths, number: int) -> None:
        """Visits every point of a slice once a round, as often as there is time."""
        guess, points = self._guess(built.layers), self.shape.points
        last = number + 1 == len(sizes.slices)
        share = built.layers / sum(sizes.slices[number:])
        end_s = self.teller.elapsed_s + share * max(self.left_s() - KEEP_S, 0.0)
        least = [guess.least_s(point, self.steps) for point in points]
        song = self.watch.sing()
        for turn in range(ROUNDS):
            begin_s = self.teller.elapsed_s
            budget_s = max(end_s - begin_s, 0.0) / (ROUNDS - turn)
            for at, point in enumerate(points):
                self.teller.say(
                    "visits",
                    turn * len(points) + at,
                    ROUNDS * len(points),
                    left_s=self._remaining_s(turn, at, guess),
                    values={
                        "model": self.shape.model,
                        "kind": point.kind,
                        "tokens": point.tokens,
                        "batch": point.batch,
                        "turn": turn + 1,
                        "turns": ROUNDS,
                    },
                )
                mine = self.visits.setdefault((built.layers, point), [])
                found = self._visit(built, point, budget_s * least[at] / sum(least), guess, mine)
                before, song = song, self.watch.sing()
                if found is not None:
                    mine.append(Visit(found, slower(before, song)))
                if last:
                    self.take(self._result(point, sizes))
            took_s = self.teller.elapsed_s - begin_s
            if self.teller.elapsed_s + min(took_s, max(budget_s, self.slow * sum(least))) > end_s:
                break
        if last:
            self.judge()

    def _visit(
        self, built: Built, point: Point, budget_s: float, guess: Guess, before: list[Visit]
    ) -> Timing | None:
        """The point's times; None where there is no room or no time for it."""
        if self._has_no_room(point):
            return None
        if not before and self.too_late(point, guess):
            return None
        begin = time.monotonic()
        try:
            if point.kind == "prefill":
                quick = bool(before) and before[-1].timing.seconds[-1] < WARM_S
                found = prefill(
                    built,
                    point.tokens,
                    point.batch,
                    budget_s=budget_s,
                    warm_up=int(quick) if before else WARM_UP,
                    memory=not before,
                )
                expected = guess.prefill_s(point.tokens, point.batch)
            else:
                found = decode(
                    built,
                    point.tokens,
                    point.batch,
                    steps=self.steps,
                    budget_s=budget_s,
                    warm_up=1 if before else WARM_UP,
                    memory=not before,
                )
                expected = guess.step_s()
        except OutOfMemory:
            self.full.append(point)
            return None
        took = sorted(found.seconds)[len(found.seconds) // 2]
        if (
            time.monotonic() - begin > 0.2
        ):  # less than that says little about how slow the rest will be
            self.slow = max(0.5 * self.slow + 0.5 * took / expected, 0.1)
        return found

    def _has_no_room(self, point: Point) -> bool:
        """It, or a smaller one of its kind, was tried and ran out of memory."""
        return any(
            one.kind == point.kind and one.tokens <= point.tokens and one.batch <= point.batch
            for one in self.full
        )

    def _result(self, point: Point, sizes: Depths) -> Row:
        """The point's row, from what was seen of it until now."""
        notes = self._notes(sizes)
        parts: list[Counted] = []
        for layers in sizes.slices:
            mine = self.visits.get((layers, point))
            if not mine:
                if self._has_no_room(point):
                    return self.row(point, {}, "out_of_memory", notes=notes)
                return self.row(point, {}, "not_run", notes=[*notes, "out_of_time"])
            parts.append(counted(mine, self.watch.is_steady))
        quantity: RecordQuantity = "prefill_s" if point.kind == "prefill" else "tpot_s"
        times = [widened(spread(*one.repeats), *self.watch.beyond(one.song)) for one in parts]
        measured = {quantity: whole(times, sizes.slices, sizes.whole)}
        peaks = [one.peak_bytes for one in parts if one.peak_bytes is not None]
        if len(peaks) == len(parts):
            measured["peak_bytes"] = whole(
                [spread([one]) for one in peaks], sizes.slices, sizes.whole
            )
        self.carrier = self.carrier or point
        if point == self.carrier:
            measured |= self.common
        why = dict.fromkeys(one.why_noisy for one in parts if one.why_noisy)
        steady = all(one.steady for one in parts)
        notes += [*why, *["drift"] * (not steady)]
        return self.row(point, measured, noisy=bool(why) or not steady, notes=notes)


def failed_rows(shape: Shape, one: ShapeRun, error: PlannerError) -> list[Row]:
    """A row per point of a model that couldn't be built, with the refusal's code."""
    return [one.row(point, {}, "failed", notes=[error.code]) for point in shape.points]

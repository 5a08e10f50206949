"""A measurement from beginning to end on tiny models: whole, in slices, out of memory, lost, stopped and killed."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planner.architecture.resolve import architecture_from_config
from planner.architecture.totals import parameters
from planner.cli import main
from planner.errors import PlannerError, Unsupported
from planner.measure import bench_model, plan, run, shape_run
from planner.measure.comparison import compare_record
from planner.measure.micro import Bench
from planner.measure.noise import Watch
from planner.measure.plan import ROUNDS, Point
from planner.measure.probe import as_torch_has_it, probe
from planner.measure.record import Record, parse_record
from planner.measure.run import Cancelled, Options, Run
from planner.measure.shape_run import ShapeRun
from tests.measure.fake_nvml import gpu, h200, library
from tests.measure.tiny import EXPERTS, GEMMA, LLAMA, STATE

ROOT = Path(__file__).resolve().parents[2]
POINTS = (Point("prefill", 16, 1), Point("prefill", 32, 2), Point("decode", 16, 1))
pytestmark = pytest.mark.measure


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Few points, micro-benchmarks of a moment, no fit, and one thread: more wait for each other on a busy machine."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr(run, "points", lambda **_: POINTS)
    monkeypatch.setattr(run, "calibrated", lambda record: record)
    monkeypatch.setattr(Bench, "array_bytes", property(lambda _: 4 * 2**20))
    monkeypatch.setattr(run, "FIGURE_S", {"quick": 0.02, "full": 0.02})
    monkeypatch.setattr("planner.measure.micro.SIZES", {"cpu": (64, 128), "gpu": (64,)})
    yield
    torch.set_num_threads(threads)


def measured(
    config: dict[str, Any] = LLAMA, **options: Any
) -> tuple[Record, list[dict[str, Any]], list[Record]]:
    """A finished measurement, the steps it told, and the records it kept on the way."""
    steps: list[dict[str, Any]] = []
    kept: list[Record] = []
    given = Options(
        **{
            "device": "cpu",
            "model": "tiny",
            "config": config,
            "quick": True,
            "check": False,
            **options,
        }
    )
    record = Run(given, steps.append, kept.append, lock=nullcontext).measure()
    return record, steps, kept


def test_a_measurement_of_the_processor() -> None:
    record, steps, kept = measured()
    assert parse_record(record.model_dump_json()) == record
    assert record.device is not None
    assert (record.device.kind, record.accelerator) == ("cpu", record.device.id)
    assert "cpu" in record.notes
    assert {"torch", "transformers", "python"} <= record.software.keys()
    assert {one.name for one in record.figures} == {
        "read_bandwidth",
        "copy_bandwidth",
        "matmul",
        "launch",
    }
    assert {"fp32", "bf16"} <= {one.dtype for one in record.figures}
    assert [row.outcome for row in record.rows] == ["measured"] * 3
    assert [set(row.measured) & {"prefill_s", "tpot_s"} for row in record.rows] == [
        {"prefill_s"}, {"prefill_s"}, {"tpot_s"},
    ]  # fmt: skip
    shown = record.rows[0].scenario["dtype"]
    assert [row.id for row in record.rows] == [
        f"prefill-tiny-{shown}-16x1", f"prefill-tiny-{shown}-32x2", f"decode-tiny-{shown}-c16-b1",
    ]  # fmt: skip
    phases = [step["phase"] for step in steps]
    assert phases[0] == "probe"
    assert list(dict.fromkeys(phases)) == [
        "probe", "rates", "load", "visits", "fit", "done",
    ]  # fmt: skip
    assert all(b["elapsed_s"] >= a["elapsed_s"] for a, b in pairwise(steps))
    grown = [len(one.rows) for one in kept]
    assert (grown, max(grown)) == (sorted(grown), 3)
    assert set(grown) == {0, 1, 2, 3}


def test_points_are_visited_in_rounds_and_their_repeats_kept_together() -> None:
    record, steps, kept = measured(limit_s=600.0)
    visited = [
        (step["values"]["kind"], step["values"]["tokens"])
        for step in steps
        if step["phase"] == "visits"
    ]
    assert visited == [(point.kind, point.tokens) for point in POINTS] * ROUNDS
    first = next(one.rows[0] for one in kept if one.rows)
    for quantity in ("prefill_s", "weights_bytes", "cache_bytes_per_token"):
        assert quantity in first.measured
        assert quantity in record.rows[0].measured
    before, after = first.measured["prefill_s"], record.rows[0].measured["prefill_s"]
    assert after.repeats > before.repeats
    assert [
        sum("weights_bytes" in row.measured for row in one.rows) for one in kept if one.rows
    ] == [1] * (len(kept) - sum(not one.rows for one in kept))


def test_with_little_time_each_point_is_visited_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape_run.ShapeRun, "_deepest", lambda _: None)
    monkeypatch.setattr(shape_run.ShapeRun, "too_late", lambda *_: False)
    record, steps, _ = measured(limit_s=0.0)
    assert [row.outcome for row in record.rows] == ["measured"] * 3
    assert sum(step["phase"] == "visits" for step in steps) == 3
    assert record.rows[0].measured["prefill_s"].repeats == 1
    assert record.rows[0].noisy  # nothing can be said of a single one


def listening(
    listener: Callable[[dict[str, Any]], None], keep: Callable[[Record], None], **config: Any
) -> Run:
    options = Options(device="cpu", quick=True, check=False, model="tiny", config=LLAMA | config)
    return Run(options, listener, keep, lock=nullcontext)


def test_where_nobody_listens_any_more_it_ends_as_cancelled_and_keeps_what_it_has() -> None:
    kept: list[Record] = []

    def gone(step: dict[str, Any]) -> None:
        if step["phase"] != "probe":
            raise BrokenPipeError

    with pytest.raises(Cancelled):
        listening(gone, kept.append).measure()
    assert kept == []  # it had nothing yet
    steps: list[dict[str, Any]] = []

    def gone_later(step: dict[str, Any]) -> None:
        steps.append(step)
        if step["phase"] == "load":
            raise BrokenPipeError

    with pytest.raises(Cancelled):
        listening(gone_later, kept.append).measure()
    assert kept[-1].figures
    assert kept[-1].notes[-1] == "cancelled"


def test_told_to_stop_while_the_finished_record_is_written_it_is_written_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[Record] = []

    def keep(record: Record) -> None:
        kept.append(record)
        if record.name == "finished" and kept[-2].name != "finished":
            raise Cancelled

    def finished(record: Record) -> Record:
        return record.model_copy(update={"name": "finished"})

    monkeypatch.setattr(run, "calibrated", finished)
    steps: list[dict[str, Any]] = []
    found = listening(steps.append, keep).measure()
    assert [one.name for one in kept[-2:]] == ["finished"] * 2
    assert kept[-1] == found
    assert steps[-1]["phase"] == "done"


def test_a_model_that_can_be_built_and_not_run_is_refused_with_its_reason() -> None:
    kept: list[Record] = []
    with pytest.raises(PlannerError) as refusal:
        listening(lambda _: None, kept.append, head_dim=3).measure()
    assert refusal.value.code == "model_not_runnable"
    assert "tensor" in str(refusal.value.values["reason"])
    assert kept[-1].notes[-1] == "model_not_runnable"
    assert kept[-1].figures


def test_memory_is_what_the_planner_counts() -> None:
    record, _, _ = measured()
    width = 4 if record.rows[0].scenario["dtype"] == "fp32" else 2
    first = record.rows[0].measured
    weights = parameters(architecture_from_config(LLAMA)) * width
    assert first["weights_bytes"].median == pytest.approx(weights, rel=0.01)
    assert first["cache_bytes_per_token"].median == 4 * 2 * 2 * 16 * width
    found = compare_record(record)
    assert found.refused == ()
    same = {one.quantity: one.before_error_fraction for one in found.figures}
    assert same["weights_bytes"] == pytest.approx(0.0, abs=0.01)
    assert same["cache_bytes_per_token"] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    "config", [GEMMA, EXPERTS, STATE], ids=["windows", "experts", "constant state"]
)
def test_other_kinds_of_models_run_too(config: dict[str, Any]) -> None:
    record, _, _ = measured(config)
    assert [row.outcome for row in record.rows] == ["measured"] * 3
    weights = record.rows[0].measured["weights_bytes"].median
    width = 4 if record.rows[0].scenario["dtype"] == "fp32" else 2
    assert weights == pytest.approx(parameters(architecture_from_config(config)) * width, rel=0.02)


def test_a_model_that_does_not_fit_is_measured_in_two_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shape_run.ShapeRun, "_deepest", lambda _: 3)
    config = LLAMA | {"num_hidden_layers": 12}
    record, steps, _ = measured(config, dtype="fp32")
    loaded = [step["values"]["layers"] for step in steps if step["phase"] == "load"]
    assert loaded == [1, 2]
    assert all(row.notes[:2] == ["extrapolated", "layers:1,2,12"] for row in record.rows)
    size = parameters(architecture_from_config(config)) * 4
    assert record.rows[0].measured["weights_bytes"].median == pytest.approx(size, rel=0.01)
    assert record.rows[0].measured["cache_bytes_per_token"].median == 12 * 2 * 2 * 16 * 4


def raising(error: Callable[[], Exception], *, at: int) -> Callable[..., Any]:
    """A forward pass that fails from the `at`-th of its kind on."""
    forward, calls = bench_model._forward, [0]

    def failing(built: Any, tokens: Any, cache: Any) -> Any:
        calls[0] += tokens.shape[0] > 1
        if calls[0] >= at and tokens.shape[0] > 1:
            raise error()
        return forward(built, tokens, cache)

    return failing


@pytest.mark.parametrize("kind", ["torch", "python", "allocator"])
def test_memory_that_runs_out_is_a_row(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    import torch

    errors: dict[str, Callable[[], Exception]] = {
        "torch": lambda: torch.OutOfMemoryError("CUDA out of memory"),
        "python": MemoryError,
        "allocator": lambda: RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    }
    monkeypatch.setattr(bench_model, "_forward", raising(errors[kind], at=1))
    more = (*POINTS, Point("prefill", 64, 4))
    monkeypatch.setattr(run, "points", lambda **_: more)
    record, steps, _ = measured()
    outcomes = [row.outcome for row in record.rows]
    # The last is larger than one that had no room, and isn't tried.
    assert outcomes == ["measured", "out_of_memory", "measured", "out_of_memory"]
    assert steps[-1]["phase"] == "done"


def test_a_model_that_cannot_even_be_loaded_is_rows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape_run, "ROOM_FRACTION", 1e-9)
    record, _, _ = measured()
    assert [row.outcome for row in record.rows] == ["out_of_memory"] * 3
    assert record.rows[0].notes == ["while_loading"]


def test_a_lost_gpu_ends_it_clearly_and_keeps_what_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = raising(lambda: RuntimeError("CUDA error: the device is gone\nmore"), at=1)
    monkeypatch.setattr(bench_model, "_forward", lost)
    kept: list[Record] = []
    steps: list[dict[str, Any]] = []
    options = Options(device="cpu", model="tiny", config=LLAMA, quick=True, check=False)
    with pytest.raises(PlannerError) as refusal:
        Run(options, steps.append, kept.append, lock=nullcontext).measure()
    assert refusal.value.code == "gpu_lost"
    assert [row.outcome for row in kept[-1].rows] == ["measured"]
    assert kept[-1].notes[-1] == "gpu_lost"
    assert (steps[-1]["phase"], steps[-1]["note"]) == ("failed", "gpu_lost")


def test_time_that_is_up_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape_run.ShapeRun, "_deepest", lambda _: None)
    record, _, _ = measured(limit_s=0.0)
    assert [row.outcome for row in record.rows] == ["not_run"] * 3
    assert record.rows[0].notes == ["out_of_time"]
    assert record.calibration is None


@pytest.fixture
def a_check_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "CHECK_SHAPE", "EleutherAI/pythia-160m")
    built = shape_run.build

    def only_the_first(config: Any, *arguments: Any) -> Any:
        if config["model_type"] != "llama":
            raise Unsupported("model_not_buildable", model="x", version="5", reason="y")
        return built(config, *arguments)

    monkeypatch.setattr(shape_run, "build", only_the_first)


@pytest.mark.usefixtures("a_check_that_fails")
def test_a_second_model_checks_and_its_failure_does_not_end_it() -> None:
    record, _, _ = measured(check=True, limit_s=600.0)
    assert [(row.role, row.outcome) for row in record.rows] == [
        *[("fit", "measured")] * 3,
        *[("check", "failed")] * 3,
    ]


@pytest.mark.usefixtures("a_check_that_fails")
@pytest.mark.parametrize("steady", [True, False])
def test_which_visits_count_is_judged_when_all_has_been_seen(
    monkeypatch: pytest.MonkeyPatch, steady: bool
) -> None:
    """A model that was measured while the machine was slow, as the next one shows, is noisy after all."""
    begun: list[str] = []
    whole_run = ShapeRun.run

    def noted(self: ShapeRun) -> None:
        begun.append(self.shape.role)
        whole_run(self)

    monkeypatch.setattr(ShapeRun, "run", noted)
    monkeypatch.setattr(Watch, "is_steady", lambda *_: steady or "check" not in begun)
    record, _, kept = measured(check=True, limit_s=600.0)
    assert all(("drift" in row.notes) is not steady for row in record.rows if row.role == "fit")
    before = next(one for one in reversed(kept) if len(one.rows) == len(POINTS))
    assert not any("drift" in row.notes for row in before.rows)


def test_real_weights_come_from_a_folder(tmp_path: Path) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    shape = {key: value for key, value in LLAMA.items() if key != "torch_dtype"}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**shape), dtype=torch.bfloat16)
    model.save_pretrained(tmp_path)
    record, _, _ = measured(weights_from=str(tmp_path), dtype="bf16")
    assert [row.outcome for row in record.rows] == ["measured"] * 3
    with pytest.raises(PlannerError) as refusal:
        measured(weights_from=str(tmp_path / "nothing"), dtype="bf16")
    assert refusal.value.code == "model_not_loadable"


def test_the_command_prints_what_it_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    common = ["measure", "--device", "cpu", "--quick", "--no-check", "--model"]
    output = tmp_path / "here.json"
    given = [str(tmp_path / "config.json"), "--name", f"  my {'x' * 100}\n"]
    assert main([*common, *given, "--json", "-o", str(output)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["measurement"]["name"] == "my " + "x" * 77
    assert data["measurement"] == parse_record(output.read_bytes()).model_dump(mode="json")
    assert {one["quantity"] for one in data["comparison"]} >= {
        "prefill_s",
        "tpot_s",
        "weights_bytes",
    }
    assert main([*common, str(tmp_path / "config.json"), "--lang", "es"]) == 0
    said = capsys.readouterr()
    assert "procesador" in said.out
    assert "decode" in said.err


@pytest.mark.parametrize("fails", [2, 10_000])
def test_a_disk_that_is_full_for_a_while_stops_no_measurement(
    fails: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    output = tmp_path / "here.json"
    synced: list[int] = []

    def full(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) <= fails:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("planner.measure.keep.os.fsync", full)
    flags = ["--device", "cpu", "--quick", "--no-check", "--model", str(tmp_path / "config.json")]
    code = main(["measure", *flags, "-o", str(output), "--lang", "en"])
    said = capsys.readouterr()
    assert " Prefill " in said.out
    refusal = f"{output} can't be written: No space left on device."
    assert said.err.count(f"{refusal} The measurement goes on") == 1
    if fails == 2:
        assert (code, said.out.splitlines()[-1]) == (0, f"Written to {output}.")
        assert len(parse_record(output.read_bytes()).rows) == len(POINTS)
    else:
        assert (code, said.err.splitlines()[-1], output.exists()) == (1, refusal, False)


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--model", "short"], "context_not_measurable"),
        (["--model", "short", "--quick"], "context_not_measurable"),
        (["--dtype", "fp4"], "dtype_not_measurable"),
        (["--weights", "gguf:Q4_K_M"], "weights_not_measurable"),
        (["--weights", "nf4"], "bitsandbytes_missing"),
        (["--model", "no/such-model"], "unknown_model"),
        (["--device", "cuda:7"], "device_not_here"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_it_begins(
    flags: list[str],
    code: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)  # as where it isn't installed
    short = tmp_path / "config.json"
    short.write_text(json.dumps(LLAMA | {"max_position_embeddings": 95}))
    flags = [str(short) if flag == "short" else flag for flag in flags]
    monkeypatch.setattr(run, "BENCHMARKS", (lambda _: pytest.fail("it began"),))
    assert main(["measure", "--json", *flags]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code


@pytest.mark.parametrize("quick", [True, False])
def test_a_context_that_one_run_holds_within_is_measured(quick: bool) -> None:
    plan.require_context(LLAMA | {"max_position_embeddings": 96}, quick=quick)
    for on_cpu in (True, False):
        assert plan.points(quick=quick, on_cpu=on_cpu, role="fit", most_tokens=96)
        assert not plan.points(quick=quick, on_cpu=on_cpu, role="fit", most_tokens=95)
    with pytest.raises(PlannerError) as refusal:
        plan.require_context(LLAMA | {"max_position_embeddings": 95}, quick=quick)
    assert refusal.value.values == {"given": 95, "least": 96}


@pytest.mark.parametrize("name", ["", "x" * 81])
def test_a_name_that_no_record_may_have_is_refused_before_it_begins(name: str) -> None:
    with pytest.raises(PlannerError) as refusal:
        measured(name=name)
    assert refusal.value.code == "measurement_bad_name"


def test_torch_numbers_the_gpus_that_it_may_see(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    cards = [
        gpu("Tesla T4", 15_360, (7, 5), nvmlDeviceGetUUID="GPU-a"),
        h200(nvmlDeviceGetUUID="GPU-b"),
    ]
    monkeypatch.setitem(sys.modules, "pynvml", library(cards))
    found = probe()
    assert found.targets[0].accelerator == "t4"
    with pytest.raises(PlannerError) as refusal:
        as_torch_has_it(found, found.targets[0])
    assert refusal.value.code == "torch_without_gpu"
    about = SimpleNamespace(uuid="b", name="NVIDIA H200", total_memory=150_109_106_995)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: about)
    seen = as_torch_has_it(found, found.targets[0])
    assert (seen.device, seen.uuid, seen.accelerator) == ("cuda:0", "GPU-b", "h200-sxm-141gb")
    about.uuid, about.name = "of-an-instance", "NVIDIA H200 MIG 1g.18gb"
    part = as_torch_has_it(found, found.targets[0])
    assert (part.name, part.accelerator) == ("NVIDIA H200 MIG 1g.18gb", None)
    assert as_torch_has_it(found, found.targets[-1]).is_cpu


# --- In a process of its own ------------------------------------------------------------------------------------------


def started(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    """A long measurement that has three rows, and its file."""
    (folder / "config.json").write_text(json.dumps(LLAMA))
    output, mark = folder / "record.json", folder / "mark"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.measure.tiny", str(output), str(mark)],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(4_000):
        if mark.exists() or process.poll() is not None:
            break
        time.sleep(0.05)
    if not mark.exists():
        process.kill()  # else what it says ends only with its measurement
        raise AssertionError(process.communicate())
    return process, output


def test_told_to_stop_it_writes_what_it_has(tmp_path: Path) -> None:
    process, output = started(tmp_path)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert json.loads(said.splitlines()[-1])["phase"] == "cancelled"
    record = parse_record(output.read_bytes())
    assert len(record.rows) >= 3
    assert record.notes[-1] == "cancelled"


INTERRUPTED = """
import os, runpy, signal, sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == "planner.cli":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["planner", "gpus"]
runpy.run_module("planner", run_name="__main__")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_before_anything_is_measured_it_names_no_file(
    number: signal.Signals, tmp_path: Path
) -> None:
    output = tmp_path / "record.json"
    flags = ["--device", "cpu", "--quick", "--lang", "en", "-o", str(output)]
    process = subprocess.Popen(
        [sys.executable, "-m", "planner", "measure", *flags],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    process.stderr.readline()  # it says how long it takes
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err, output.exists()) == (1, "", "Stopped.\n", False)


STOPPED_AT_ITS_FIRST_WORD = """
import os, signal, sys
from planner import measure_report
from planner.cli import main

def about(*_):
    os.kill(os.getpid(), signal.{name})
    return "about"

measure_report.about_text = about
sys.exit(main(["measure", "--device", "cpu", "--quick", "--lang", "en"]))
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_it_can_be_stopped_from_its_first_word_on(name: str) -> None:
    script = STOPPED_AT_ITS_FIRST_WORD.format(name=name)
    process = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stderr) == (1, "Stopped.\n")


def test_interrupted_while_it_loads_it_says_nothing() -> None:
    process = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stderr) == (130, "")


def test_killed_it_leaves_a_whole_file(tmp_path: Path) -> None:
    process, output = started(tmp_path)
    process.kill()
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    record = parse_record(output.read_bytes())
    assert len(record.rows) >= 3
    assert "cancelled" not in record.notes


def test_two_at_once_are_one_too_many(tmp_path: Path) -> None:
    process, _ = started(tmp_path)
    try:
        second = subprocess.run(
            [sys.executable, "-m", "planner", "measure", "--device", "cpu", "--quick"],
            cwd=ROOT,
            env=os.environ | {"TMPDIR": str(tmp_path), "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        process.kill()
        process.communicate(timeout=120)
    assert second.returncode == 1
    assert str(process.pid) in second.stderr


def test_memory_that_is_really_full_is_a_row(tmp_path: Path) -> None:
    script = tmp_path / "full.py"
    script.write_text(
        """
import resource, sys
import torch
from contextlib import nullcontext
from itertools import pairwise
from planner.measure import plan, run
from planner.measure.run import Cancelled, Options, Run
from planner.measure.shape_run import ShapeRun
from tests.measure.fake_nvml import gpu, h200, library
from tests.measure.tiny import LLAMA

torch.set_num_threads(1)
run.FIGURE_S = {"quick": 0.02}
run.points = lambda **_: (plan.Point("prefill", 16, 1), plan.Point("prefill", 2000, 4096), plan.Point("decode", 16, 1))
before = run.Run._models

def limited(self, *arguments):
    size = int(open("/proc/self/statm").read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (size + 2**30, size + 2**30))
    return before(self, *arguments)

run.Run._models = limited
record = Run(Options(device="cpu", model="t", config=LLAMA, quick=True, check=False), lock=nullcontext).measure()
print([row.outcome for row in record.rows])
"""
    )
    result = subprocess.run(
        [sys.executable, str(script)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.stdout.strip() == "['measured', 'out_of_memory', 'measured']", result.stderr[
        -2000:
    ]


def test_the_plan_s_default_shapes_are_in_the_catalogue() -> None:
    from planner.catalog.models import model_ids

    assert {plan.FIRST_SHAPE, plan.CHECK_SHAPE, plan.LARGE_SHAPE} <= set(model_ids())

"""Measure without a browser, in both languages: each state says what it is, and nothing is lost on the way."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from plotly.graph_objects import Figure
from streamlit.testing.v1 import AppTest

from planner.catalog.engine_profiles import engine
from planner.errors import PlannerError
from planner.measure import job as jobs_module
from planner.measure.comparison import compare_record, counted, is_time, median_error, that_count
from planner.measure.job import JobView
from planner.measure.lock import machine_lock
from planner.measure.own_fit import calibrated
from planner.measure.record import Conditions, Record, Spread, parse_record, record_text
from planner.measure.store import Store, renamed
from planner.ui import measure_device, measure_files, measure_switch
from planner.ui.calibration_words import worse_words
from planner.ui.device_words import device_words
from planner.ui.locale import LANGUAGES, catalogue, say_error, text
from planner.ui.measure_results import OWN_FILES
from planner.ui.measure_run import rounded_left
from planner.ui.measure_shelf import jobs
from planner.ui.measure_words import MOST_SHOWN
from tests.measure.test_own_fit import grid, made
from tests.measure.test_worse import busy_ones_differ
from tests.ui.conftest import AT_HOME
from tests.ui.driver import charts, clean, go, markup, named, open_app, words
from tests.ui.machine import CPU, GPU, fake_command, measured, probe_of

LOG = Path(__file__).resolve().parents[1] / "measure" / "readers" / "fixtures"
CHARTS = 3  # of a measurement with several lengths
LONG_S = 60.0  # never waited for where all is well


def opened(language: str = "en", **query: str) -> AppTest:
    app = open_app("measure", locale=language, **query)
    clean(app)
    return app


def has(app: AppTest, name: str) -> bool:
    return any(button.key == name for button in app.button)


def press(app: AppTest, name: str) -> AppTest:
    named(app.button, name).click().run()
    clean(app)
    return app


def saying(app: AppTest) -> str:
    return " ".join(words(app).replace("\\", "").split())


@pytest.fixture
def behaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Says how the next run behaves."""

    def behave(behaviour: str) -> None:
        monkeypatch.setattr(jobs_module, "measure_command", fake_command(behaviour, tmp_path))
        jobs.clear()

    monkeypatch.delenv("FAKE_RUN_FOLDER", raising=False)
    return behave


def until(holds: Callable[[JobView], bool]) -> JobView:
    deadline = time.monotonic() + LONG_S
    while True:
        view = jobs().view()
        if view is not None and holds(view):
            return view
        assert time.monotonic() < deadline, view
        time.sleep(0.01)


def decoding(view: JobView) -> bool:
    return view.latest is not None and view.latest.phase == "visits"


# --- Before ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_processor_is_called_one_and_can_be_measured(language: str) -> None:
    app = opened(language)
    said = saying(app)
    assert device_words("Some EPYC, 2 cores", language) in said
    assert text("measure.cpu_only", language) in said
    assert text("measure.cli.no_nvidia.no_library", language) in said
    assert text("measure.none_saved", language) in said
    start = named(app.button, "measure-start")
    assert start.label == text("measure.start_cpu", language, about=90.0)
    assert not start.disabled


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_gpu_shows_what_its_driver_says(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_device, "probed", lambda: probe_of(GPU))
    app = opened(language)
    said = saying(app)
    assert "NVIDIA L4" in said
    assert text("measure.cli.driver", language, driver="580.1", cuda="13.0") in said
    assert text("measure.throttle.power_cap", language) in said
    assert "somebody-elses.bin" in said
    assert named(app.button, "measure-start").label.startswith(
        text("measure.start_gpu", language, about=90.0)
    )
    named(app.selectbox, "measure_device").set_value("cpu").run()
    clean(app)
    assert named(app.button, "measure-start").label == text(
        "measure.start_cpu", language, about=90.0
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_without_torch_it_says_what_to_install_and_all_else_works(
    language: str, monkeypatch: pytest.MonkeyPatch, own_machine: Path
) -> None:
    bare = CPU | {"software": CPU["software"] | {"torch": None}}
    monkeypatch.setattr(measure_device, "probed", lambda: probe_of(bare))
    Store(own_machine).save(measured())
    app = opened(language)
    assert "make measure-setup" in saying(app)
    assert not has(app, "measure-start")
    assert len(charts(app)) == CHARTS
    press(app, "measure-use")
    assert "calibration" in app.query_params


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_probe_that_fails_is_a_card_and_can_be_tried_again(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise PlannerError("probe_failed", reason="timeout")

    monkeypatch.setattr(measure_device, "probed", fails)
    app = opened(language)
    assert say_error(PlannerError("probe_failed", reason="timeout"), language) in saying(app)
    monkeypatch.setattr(measure_device, "probed", lambda: probe_of(CPU))
    press(app, "probe-again")
    assert has(app, "measure-start")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_busy_machine_is_said_before_it_is_measured(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    warning = text("measure.busy_now", language, load=6.0, threads=4)
    monkeypatch.setattr(measure_device, "load_average", lambda: 6.0)
    assert warning in saying(opened(language))
    monkeypatch.setattr(measure_device, "load_average", lambda: 0.4)
    assert warning.partition("(")[0] not in saying(opened(language))


def test_time_left_is_told_in_round_steps() -> None:
    assert [rounded_left(left) for left in (0.2, 7.4, 93.0, 431.0)] == [5.0, 5.0, 95.0, 420.0]


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_was_not_reached_is_said(language: str, own_machine: Path) -> None:
    data = measured().model_dump(mode="json")
    for row in data["rows"]:
        if row["role"] == "check":
            row |= {"outcome": "not_run", "measured": {}}
    Store(own_machine).save(parse_record(json.dumps(data)))
    said = saying(opened(language))
    done = sum(row["outcome"] == "measured" for row in data["rows"])
    assert text("measure.reached", language, done=done, all=len(data["rows"])) in said
    assert text("measure.not_reached", language, models=["SmolLM2-360M-Instruct"]) in said


def test_a_calibration_in_32_bits_counts_once_it_is_put_to_use(own_machine: Path) -> None:
    wide = calibrated(made("cpu", grid(weights="fp32", dtype="fp32")))
    assert wide.calibration is not None
    assert wide.calibration.kinds == ["32bit"]
    Store(own_machine).save(wide)
    app = press(opened("en"), "measure-use")
    own = wide.calibration
    assert text("note.own_calibration", "en", name=own.name, date=own.date) in saying(app)
    assert "fp32" in app.query_params["weights"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_deleting_says_that_the_calibration_is_still_in_use(
    language: str, own_machine: Path
) -> None:
    Store(own_machine).save(measured())
    app = press(opened(language), "measure-use")
    assert has(app, "measure-drop")
    press(app, "measure-delete")
    kept = text("measure.deleted_in_use", language, name=measured().name)
    assert kept in saying(app)
    press(app, "measure-drop-deleted")
    assert "calibration" not in app.query_params
    assert text("measure.deleted", language, name=measured().name) in saying(app)


@pytest.mark.parametrize("language", LANGUAGES)
def test_fitted_factors_have_words_and_the_shipped_value(language: str, own_machine: Path) -> None:
    data = measured().model_dump(mode="json")
    spread = {"median": 1e11, "low": 9e10, "high": 1.1e11, "repeats": 5}
    data["figures"] = [
        {"name": "matmul", "dtype": "bf16", "size": 4096, "unit": "FLOP/s", "value": spread},
        {"name": "copy_bandwidth", "size": 2**29, "unit": "B/s", "value": spread},
    ]
    Store(own_machine).save(parse_record(json.dumps(data)))
    said = markup(opened(language))
    table = said.partition(f"<caption>{text('measure.constants', language)}")[2]
    table = table.partition("</table>")[0]
    assert text("measure.constant.weights", language) in table
    assert "transformers: cpu.weights" in table
    assert "<td>–</td>" not in table.partition("cpu.cache_repeats")[0]
    sizes = said.partition(f"<caption>{text('measure.figures', language)}")[2].partition("</table>")
    assert "4.096 × 4.096" in sizes[0].replace(",", ".")
    assert "512 MiB" in sizes[0]
    assert text("measure.column.stated", language) not in sizes[0]  # no data sheet says anything


def test_another_program_s_measurement_keeps_the_button_off() -> None:
    with machine_lock():
        app = opened()
        assert named(app.button, "measure-start").disabled
        assert "Something is being measured on this machine already" in saying(app)
    app.run()
    assert not named(app.button, "measure-start").disabled


# --- Running ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_from_the_button_to_calibrated_figures(
    language: str, behaves: Callable[[str], None], tmp_path: Path
) -> None:
    behaves("gated")
    app = press(opened(language), "measure-start")
    until(decoding)
    app.run()
    said = saying(app)
    assert text("measure.phase.visits", language) in said
    assert "1 / 3" in said
    assert not has(app, "measure-start")
    (tmp_path / "go").touch()
    until(lambda view: view.ended)
    app.run()
    clean(app)
    said = saying(app)
    assert text("measure.ended_done", language) in said
    assert text("measure.kept", language, rows=len(measured().rows)) in said
    assert "made up" in said
    assert len(charts(app)) == CHARTS
    press(app, "measure-use")
    own = measured().calibration
    assert own is not None
    used = text("note.own_calibration", language, name=own.name, date=own.date)
    assert used in saying(app)
    for path in ("fit", "speed"):
        clean(go(app, path))
        assert used in saying(app)
        assert "A CPU" in saying(app)
    assert text("basis.calibrated", language) in words(app)
    named(app.button, "undo-button").click().run()
    assert used not in saying(app)


@pytest.mark.parametrize("language", LANGUAGES)
def test_cancelling_keeps_what_was_measured(
    language: str, behaves: Callable[[str], None], own_machine: Path
) -> None:
    behaves("polite")
    app = press(opened(language), "measure-start")
    until(decoding)
    press(app.run(), "measure-cancel")
    until(lambda view: view.ended)
    app.run()
    clean(app)
    said = saying(app)
    assert text("measure.ended_cancelled", language) in said
    assert text("measure.kept", language, rows=2) in said
    assert text("measure.note.cancelled", language) in said
    assert has(app, "measure-start")
    press(app, "measure-put-away")
    assert text("measure.ended_cancelled", language) not in saying(app)
    assert len(Store(own_machine).kept()) == 1


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_killed_run_says_so_and_keeps_what_was_measured(
    language: str, behaves: Callable[[str], None]
) -> None:
    behaves("killed")
    app = press(opened(language), "measure-start")
    until(lambda view: view.ended)
    app.run()
    clean(app)
    said = saying(app)
    assert text("measure.ended_failed", language) in said
    assert text("measure.ended_signal", language, signal="9") in said
    assert text("measure.kept", language, rows=1) in said


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_refused_run_shows_why(language: str, behaves: Callable[[str], None]) -> None:
    behaves("refuses")
    app = press(opened(language), "measure-start")
    until(lambda view: view.ended)
    app.run()
    clean(app)
    assert text("measure.kept_nothing", language) in saying(app)
    assert "Measuring needs torch." in saying(app)
    assert not any("torch" in code.value for code in app.code)
    press(app, "measure-put-away")
    assert "Measuring needs torch." not in saying(app)


def test_a_closed_tab_comes_back_to_its_run(behaves: Callable[[str], None], tmp_path: Path) -> None:
    behaves("gated")
    press(opened(), "measure-start")
    until(decoding)
    other = opened("es")  # another session on the same machine
    assert text("measure.phase.visits", "es") in saying(other)
    assert not has(other, "measure-start")
    assert has(other, "measure-cancel")
    (tmp_path / "go").touch()
    until(lambda view: view.ended)
    later = opened()
    assert text("measure.ended_done", "en") in saying(later)
    assert len(charts(later)) == CHARTS


def test_starting_twice_runs_once(behaves: Callable[[str], None]) -> None:
    behaves("sleeps")
    first, second = opened(), opened()
    press(first, "measure-start")
    press(second, "measure-start")  # whose page didn't know yet
    assert "Something is being measured on this machine already" in saying(second)
    view = until(decoding)
    assert view.state == "running"
    first.run()
    assert has(first, "measure-cancel")
    second.run()
    assert has(second, "measure-cancel")


def test_what_is_asked_for_reaches_the_command(
    behaves: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    behaves("done")
    asked: list[list[str]] = []
    command = jobs_module.measure_command

    def listens(arguments: list[str]) -> list[str]:
        asked.append(list(arguments))
        return command(arguments)

    monkeypatch.setattr(jobs_module, "measure_command", listens)
    jobs.clear()
    app = opened("es")
    named(app.selectbox, "measure_model").set_value("google/gemma-3-12b-it").run()
    named(app.toggle, "measure_thorough").set_value(True).run()
    press(app, "measure-start")
    until(lambda view: view.ended)
    (arguments,) = asked
    assert arguments[: arguments.index("--progress")] == [
        "--device", "cpu", "--model", "google/gemma-3-12b-it", "--lang", "es",
    ]  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_plotly_knows_every_property_and_charts_say_what_they_show(
    language: str, own_machine: Path
) -> None:
    Store(own_machine).save(measured())
    found = charts(opened(language))
    assert len(found) == CHARTS
    for chart in found:
        spec = json.loads(chart.spec)
        spec["layout"].pop("template", None)
        assert Figure(spec).data
        assert len(chart.alt) > 40


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_error_says_which_runs_it_is_over(language: str, own_machine: Path) -> None:
    record = measured()
    odd = record.rows[0].model_copy(update={"id": "odd", "role": "other"})
    record = record.model_copy(update={"rows": [*record.rows, odd]})
    Store(own_machine).save(record)
    app = opened(language)
    said = saying(app)
    figures = counted(compare_record(record).figures)
    fitted, held = that_count(figures, "fit"), that_count(figures, "check")
    assert len({one.row for one in (*fitted, *held)}) == len(record.rows) - 1
    for over, key in ((fitted, "headline"), (held, "error_check")):
        error = median_error(over)
        counts = {"figures": error.figures, "rows": error.rows}
        ends = {"before": error.before_fraction, "after": error.after_fraction}
        sentence = text(f"measure.{key}", language, name="", device="", **counts, **ends)
        assert sentence.partition(": ")[2].replace("\u00a0", " ") in said
    assert text("measure.error_none", language, rows=1) in said
    # The chart says nothing that could be taken for the same error over other runs.
    times = [one for one in compare_record(record).figures if is_time(one.quantity)]
    finding = catalogue(language)["measure.finding"]
    closer = sum(
        abs(one.after_error_fraction or 0.0) < abs(one.before_error_fraction) for one in times
    )
    assert text("measure.finding", language, closer=closer, runs=len(times)) in said
    assert "percent" not in finding


@pytest.mark.parametrize("language", LANGUAGES)
def test_runs_that_the_calibration_makes_worse_are_named(language: str, own_machine: Path) -> None:
    record = busy_ones_differ()
    Store(own_machine).save(record)
    assert record.calibration is not None
    (sentence,) = worse_words(record.calibration, "tpot", language)
    assert sentence.replace("\u00a0", " ") in saying(opened(language))


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_disturbed_a_measurement_is_said(language: str, own_machine: Path) -> None:
    data = measured().model_dump(mode="json")
    data["conditions"] = {
        "noisy": True,
        "reasons": [
            {"code": "others_before", "load_fraction": 0.5},
            {"code": "throttled", "why": "power_cap"},
            {"code": "drift", "drift_fraction": 54.0, "times": 3},
            {"code": "drift"},  # without what its sentence needs
            {"code": "of_a_later_version", "x": 1},
        ],
    }
    data["rows"][0] |= {
        "noisy": True,
        "notes": ["varies", "extrapolated", "layers:2,4,24", "novel"],
    }
    data["notes"] = ["cpu", "<b>"]
    Store(own_machine).save(parse_record(json.dumps(data)))
    app = opened(language)
    said = saying(app)
    assert text("measure.noisy", language) in said
    assert catalogue(language)["measure.headline_busy"].rpartition("{device}")[2] in said
    assert text("measure.finding_busy", language) in said
    assert named(app.button, "measure-use").label == text("measure.use_busy", language)
    assert text("measure.noise.drift", language, factor=55.0, times=3) in said
    assert text("measure.noise.others_before", language, load_fraction=0.5) in said
    assert text("measure.throttle.power_cap", language) in said
    assert "of_a_later_version" in said
    assert text("measure.row_note.varies", language) in said
    assert text("measure.row_note.layers", language, slices="2 + 4", whole="24") in said
    assert "novel" in said
    assert "<b>" in said  # as text, not as markup


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_unsteady_machine_s_errors_are_said_and_its_calibration_offered(
    language: str, own_machine: Path
) -> None:
    drifted = [{"code": "drift", "drift_fraction": 1.5, "times": 30}]
    conditions = Conditions(noisy=True, reasons=drifted)
    rows = [row.model_copy(update={"noisy": True}) for row in measured().rows]
    record = measured().model_copy(update={"conditions": conditions, "rows": rows})
    Store(own_machine).save(calibrated(record))
    app = opened(language)
    said = saying(app)
    assert text("measure.unsteady", language) in said
    assert text("measure.noise.drift", language, factor=2.5, times=30) in said
    assert catalogue(language)["measure.headline_busy"].rpartition("{device}")[2] not in said
    assert text("measure.finding_busy", language) not in said
    button = named(app.button, "measure-use")
    assert (button.label, button.proto.type) == (text("measure.use", language), "primary")


@pytest.mark.parametrize("language", LANGUAGES)
def test_rows_that_are_too_fast_are_said_to_be(language: str, own_machine: Path) -> None:
    fast = {"tpot_s": Spread(median=1e-6, low=9e-7, high=2e-6, repeats=5)}
    rows = [row.model_copy(update={"measured": fast}) for row in measured().rows]
    Store(own_machine).save(calibrated(measured().model_copy(update={"rows": rows})))
    assert text("measure.note.faster_than_possible", language) in saying(opened(language))


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_was_cancelled_before_its_first_row_holds_no_times(
    language: str, own_machine: Path
) -> None:
    loaded = [{"code": "others_during", "load_fraction": 0.5}]
    changes = {
        "rows": [],
        "calibration": None,
        "notes": ["cpu", "cancelled"],
        "conditions": Conditions(noisy=True, reasons=loaded),
    }
    Store(own_machine).save(measured().model_copy(update=changes))
    said = saying(opened(language))
    assert catalogue(language)["measure.headline_none"].rpartition("{device}")[2] in said
    assert text("measure.note.cancelled", language) in said


@pytest.mark.parametrize(
    ("ran", "chosen"),
    [("4.44.2", "4.44.2"), (engine("transformers").newest, "")],
)
def test_a_calibration_is_used_with_the_version_that_ran(
    ran: str, chosen: str, own_machine: Path
) -> None:
    own = measured().calibration
    assert own is not None
    own = own.model_copy(update={"engine_version": ran})
    Store(own_machine).save(measured().model_copy(update={"calibration": own}))
    app = opened(engine="vllm")
    press(app, "measure-use")
    assert (named(app.text_input, "engine_version").value or "") == chosen


# --- Saved -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_measurement_is_renamed_deleted_and_brought_back(
    language: str, own_machine: Path
) -> None:
    store = Store(own_machine)
    key = store.save(measured())
    app = opened(language)
    app.text_input(key=f"measure_name_{key}").set_value("after the fan")
    press(app, "measure-rename-do")
    assert [one.name for one in store.kept()] == ["after the fan"]
    assert "after the fan" in saying(app)
    press(app, "measure-delete")
    assert store.kept() == []
    assert text("measure.deleted", language, name="after the fan") in saying(app)
    press(app, "measure-undo-button")
    assert [one.name for one in store.kept()] == ["after the fan"]
    assert len(charts(app)) == CHARTS


def test_a_taken_name_is_refused_in_place(own_machine: Path) -> None:
    store = Store(own_machine)
    store.save(renamed(measured(), "other"))
    key = store.save(measured())
    app = opened()
    named(app.selectbox, "measure_pick").set_value(key).run()
    app.text_input(key=f"measure_name_{key}").set_value("other")
    press(app, "measure-rename-do")
    assert "There is a measurement called “other” already" in saying(app)
    assert len(store.kept()) == 2


def test_a_damaged_file_is_listed_and_can_be_deleted(own_machine: Path) -> None:
    store = Store(own_machine)
    store.save(measured())
    (store.folder / "broken-1.json").write_text("{")
    app = opened()
    assert named(app.selectbox, "measure_pick").options[-1] == "broken-1.json: damaged"
    named(app.selectbox, "measure_pick").set_value("broken-1").run()
    clean(app)
    assert "isn't JSON" in saying(app)
    press(app, "measure-delete")
    assert len(charts(app)) == CHARTS


def test_names_from_files_are_shown_as_they_are(own_machine: Path) -> None:
    Store(own_machine).save(renamed(measured(), "<b>x</b> **y** `z`"))
    app = opened()
    assert "<b>x</b>" not in markup(app).replace("&lt;b&gt;x&lt;/b&gt;", "")
    assert "&lt;b&gt;x&lt;/b&gt;" in markup(app)


def upload(app: AppTest, content: bytes, name: str = "m.json") -> AppTest:
    named(app.file_uploader, "measure_import_file").set_value((name, content, "application/json"))
    app.run()
    return press(app, "measure-import")


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_imported_file_is_kept_and_fitted(language: str, own_machine: Path) -> None:
    bare = measured().model_copy(update={"calibration": None})
    app = upload(opened(language), record_text(bare).encode())
    (kept,) = Store(own_machine).kept()
    assert kept.errors.keys() == {"ttft", "tpot"}
    assert len(charts(app)) == CHARTS
    assert has(app, "measure-use")
    assert text("measure.imported", language, name=kept.name) in saying(app)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"{", "results_not_json"),
        (b"[]", "results_foreign"),
        (b"hello", "results_foreign"),
        (b"   ", "reading_empty"),
        (b'{"format": "headroom-measurement"}', "measurement_version_unknown"),
        (b'{"format": "headroom-measurement"', "measurement_not_json"),
    ],
)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_foreign_file_is_refused_and_nothing_is_kept(
    language: str, content: bytes, code: str, own_machine: Path
) -> None:
    app = opened(language)
    file = ("m.json", content, "application/json")
    named(app.file_uploader, "measure_import_file").set_value(file).run()
    clean(app)
    press(app, "measure-import")
    assert Store(own_machine).kept() == []
    said = catalogue(language)[f"error.{code}"].partition("{")[0]
    assert said in saying(app)
    other = ("n.json", record_text(measured()).encode(), "application/json")
    named(app.file_uploader, "measure_import_file").set_value(other).run()
    assert said not in saying(app)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_calibration_alone_is_taken_and_put_to_use(language: str, own_machine: Path) -> None:
    own = calibrated(made("t4", grid(arrivals="loop", dtype="fp16"))).calibration
    assert own is not None
    app = upload(opened(language), own.model_dump_json(indent=1).encode(), "my.json")
    (kept,) = Store(own_machine).kept()
    record = Store(own_machine).load(kept.key)
    assert (record.calibration, record.rows, record.accelerator) == (own, [], "t4")
    assert text("measure.note.calibration_alone", language) in saying(app)
    alone = catalogue(language)["measure.headline_alone"].rpartition("{device}")[2]
    assert alone in saying(app)
    press(app, "measure-use")
    assert has(app, "drop-calibration")
    assert named(app.selectbox, "gpu").value == "t4"


def test_a_calibration_of_a_device_that_nobody_knows_is_refused(own_machine: Path) -> None:
    own = measured().calibration
    assert own is not None
    assert own.accelerator == "own-a-cpu"
    app = upload(opened(), own.model_dump_json().encode())
    assert Store(own_machine).kept() == []
    assert "own-a-cpu" in saying(app)


def test_headroom_s_own_files_are_named_among_what_is_expected(own_machine: Path) -> None:
    app = upload(opened(), b"hello")
    assert f"{OWN_FILES}; vllm bench" in saying(app)


def test_one_file_is_fitted_at_a_time(own_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[bool] = []

    def fitted(record: Record) -> Record:
        held.append(measure_files._FITTING.locked())
        return record

    monkeypatch.setattr(measure_files, "with_calibration", fitted)
    upload(opened(), record_text(measured()).encode())
    assert held == [True]
    assert not measure_files._FITTING.locked()


@pytest.mark.parametrize("language", LANGUAGES)
def test_thousands_of_runs_are_shown_in_part(language: str, own_machine: Path) -> None:
    few = measured()
    rows = [
        row.model_copy(update={"id": f"{row.id}-{number}"})
        for number in range(1 + MOST_SHOWN // len(few.rows))
        for row in few.rows
    ]
    Store(own_machine).save(few.model_copy(update={"rows": rows}))
    app = opened(language)
    said = text("measure.shown_some", language, shown=MOST_SHOWN, all=len(rows))
    assert " ".join(said.split()) in saying(app)
    assert len(charts(app)) == CHARTS
    drawn = max((json.loads(chart.spec)["data"] for chart in charts(app)), key=said_points)
    assert len(drawn) == 4  # the diagonal, all ranges as one, and the points before and after
    assert said_points(drawn) == 2 * MOST_SHOWN
    assert rows[0].id in words(app)
    assert rows[-1].id in words(app)


def said_points(traces: list[dict[str, list[str]]]) -> int:
    return sum(len(trace.get("text", ())) for trace in traces)


# --- Logs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_log_is_set_against_its_prediction(language: str) -> None:
    app = opened(language)
    named(app.text_area, "measure_log_text").set_value((LOG / "vllm-0.11.log").read_text()).run()
    clean(app)
    # The log names no GPU, and the sidebar's is of something else.
    assert text("figure.weights_bytes_per_gpu", language) not in saying(app)
    assert text("measure.log_which_gpu", language) in saying(app)
    assert named(app.selectbox, "measure_log_gpu").value is None
    named(app.selectbox, "measure_log_gpu").set_value("t4").run()
    clean(app)
    refused = text("measure.log_refused", language, engine="vLLM", gpu="Tesla T4 · 16 GB")
    assert refused.replace("**", "") in saying(app).replace("**", "")
    assert "vllm can't" not in saying(app)
    named(app.selectbox, "measure_log_gpu").set_value("l4").run()
    clean(app)
    said = saying(app)
    assert text("measure.log_inside", language, inside=2, known=5) in said
    assert text("figure.weights_bytes_per_gpu", language) in said
    assert text("log.column.printed", language) in said
    press(app, "measure-log-use")
    assert (app.query_params["engine"], app.query_params["gpu"]) == ("vllm", "l4")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_log_of_a_processor_is_asked_for_no_gpu(language: str) -> None:
    log = (
        "INFO [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='Qwen/Qwen3-8B', "
        "tensor_parallel_size=1, quantization=None, device_config=cpu, seed=0\n"
        "INFO [kv_cache_utils.py:2327] CPU KV cache size: 37,376 tokens\n"
    )
    app = opened(language)
    named(app.text_area, "measure_log_text").set_value(log).run()
    clean(app)
    assert text("error.log_on_cpu", language, tool="vLLM") in saying(app)
    assert text("measure.log_which_gpu", language) not in saying(app)


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_no_log_is_refused(language: str) -> None:
    app = opened(language)
    named(app.text_area, "measure_log_text").set_value("hello").run()
    clean(app)
    expected = text("error.log_foreign", language, expected="vLLM, SGLang, llama.cpp")
    assert expected in saying(app)


# --- A server with users ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_on_a_public_server_measuring_is_off_and_nothing_is_probed(
    language: str, public: None, monkeypatch: pytest.MonkeyPatch, own_machine: Path
) -> None:
    monkeypatch.setattr(measure_device, "probed", None)  # whoever calls it fails
    Store(own_machine).save(renamed(measured(), "the operator's"))
    app = opened(language)
    said = saying(app)
    assert text("measure.off", language, switch="HEADROOM_MEASURE=on") in said
    assert "the operator's" not in said
    assert text("measure.none_saved", language) in said


def test_on_a_public_server_an_import_stays_with_its_visitor(
    public: None, own_machine: Path
) -> None:
    app = upload(opened(), record_text(measured()).encode())
    assert len(charts(app)) == CHARTS
    assert text("measure.session_only", "en") in saying(app)
    assert not (own_machine / "measurements").exists()
    assert text("measure.none_saved", "en") in saying(opened())
    press(app, "measure-delete")
    press(app, "measure-undo-button")
    assert len(charts(app)) == CHARTS


def test_the_operator_can_switch_measuring_on_and_only_the_starter_sees_the_result(
    public: None,
    monkeypatch: pytest.MonkeyPatch,
    behaves: Callable[[str], None],
    own_machine: Path,
) -> None:
    monkeypatch.setenv("HEADROOM_MEASURE", "on")
    monkeypatch.setattr(measure_device, "probed", lambda: probe_of(GPU))
    behaves("done")
    app = opened()
    assert "somebody-elses.bin" not in saying(app)
    assert text("measure.others", "en", number=1) in saying(app)
    press(app, "measure-start")
    until(lambda view: view.ended)
    app.run()
    clean(app)
    assert text("measure.none_saved", "en") not in saying(app)
    assert text("measure.none_saved", "en") in saying(opened())
    assert len(Store(own_machine).kept()) == 1  # the operator's folder has it


@pytest.mark.parametrize("language", LANGUAGES)
def test_on_a_public_server_a_run_is_its_starter_s_alone(
    language: str,
    public: None,
    monkeypatch: pytest.MonkeyPatch,
    behaves: Callable[[str], None],
) -> None:
    monkeypatch.setenv("HEADROOM_MEASURE", "on")
    behaves("slow")
    starter, other = opened(language), opened(language)
    press(starter, "measure-start")
    view = until(decoding)
    device = view.about["device"]
    assert device in saying(starter.run())
    other.run()
    clean(other)
    since = time.strftime("%H:%M", time.gmtime(view.started_at))
    assert text("measure.running_other", language, since=since) in saying(other)
    assert device not in saying(other)
    assert not has(other, "measure-cancel")
    press(starter, "measure-cancel")
    until(lambda view: view.ended)
    other.run()
    clean(other)
    assert text("measure.ended_cancelled", language) not in saying(other)
    assert not has(other, "measure-put-away")
    starter.run()
    clean(starter)
    assert text("measure.ended_cancelled", language) in saying(starter)
    press(starter, "measure-put-away")
    assert jobs().view() is None


def test_who_sits_at_the_server_may_cancel_a_visitor_s_run(
    public: None, monkeypatch: pytest.MonkeyPatch, behaves: Callable[[str], None]
) -> None:
    monkeypatch.setenv("HEADROOM_MEASURE", "on")
    behaves("slow")
    press(opened(), "measure-start")
    until(decoding)
    monkeypatch.setattr(measure_switch, "visitor_headers", lambda: AT_HOME)
    press(opened(), "measure-cancel")
    assert until(lambda view: view.ended).state == "cancelled"


def test_a_button_drawn_for_an_earlier_run_cancels_no_later_one(
    public: None, monkeypatch: pytest.MonkeyPatch, behaves: Callable[[str], None]
) -> None:
    monkeypatch.setenv("HEADROOM_MEASURE", "on")
    behaves("slow")
    first, second = opened(), opened()
    press(first, "measure-start")
    until(decoding)
    first.run()
    jobs().cancel()
    until(lambda view: view.ended)
    press(second.run(), "measure-start")
    until(decoding)
    named(first.button, "measure-cancel").click().run()
    clean(first)
    view = jobs().view()
    assert view is not None
    assert view.state == "running"


def test_the_operator_can_share_measurements(
    public: None, monkeypatch: pytest.MonkeyPatch, own_machine: Path
) -> None:
    monkeypatch.setenv("HEADROOM_SHARED_MEASUREMENTS", "on")
    Store(own_machine).save(measured())
    assert len(charts(opened())) == CHARTS


def test_the_record_survives_the_page() -> None:
    assert parse_record(record_text(measured())) == measured()

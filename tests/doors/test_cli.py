"""The command line: JSON as documented, exit codes, and the same figures through CLI, batch and Python."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from planner.batch import run_batch
from planner.catalog.models import model_profile
from planner.cli import main, model_reference
from planner.evaluation import evaluate
from planner.published import FLAT_COLUMNS, evaluation_flat, evaluation_json
from planner.scenario import Scenario
from planner.ui.locale import say_error, say_note

MEMORY_KEYS = {
    "weights_gib_per_gpu", "activation_gib_per_gpu", "overhead_gib_per_gpu", "kv_pool_gib_per_gpu",
    "kv_bytes_per_token", "kv_bytes_per_token_per_gpu", "kv_bytes_per_sequence", "state_bytes_per_sequence",
    "kv_tokens", "engine_printed_kv_tokens", "max_concurrency", "max_context_tokens", "needed_gib_per_gpu",
    "reserved_gib_per_gpu", "fits",
}  # fmt: skip
SPEED_KEYS = {
    "ttft_ms", "ttft_unloaded_ms", "tpot_ms", "prefill_tok_s", "decode_tok_s", "output_tok_s", "total_tok_s",
}  # fmt: skip
LLAMA = ["estimate", "--model", "meta-llama/Llama-3.1-8B", "--gpu", "h100"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_estimate_json_holds_what_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *LLAMA, "--json")
    answer = json.loads(out)
    assert code == 0
    assert {"id", "params", "params_active"} <= answer["model"].keys()
    assert answer["model"]["params"] == 8_030_261_248
    assert answer["memory"].keys() >= MEMORY_KEYS
    for key in SPEED_KEYS:
        assert answer["speed"][key].keys() == {"low", "mid", "high", "basis"}
    assert answer["speed"]["bounds"].keys() == {"ttft_ms", "tpot_ms"}
    assert answer["speed"]["bound_by"] == "bandwidth"
    assert sum(answer["speed"]["parts"]["decode_ms"].values()) == pytest.approx(
        answer["speed"]["tpot_ms"]["mid"], rel=1e-4
    )
    for note in answer["warnings"] + answer["assumptions"]:
        assert note["message"]


def test_three_doors_give_the_same_figures(capsys: pytest.CaptureFixture[str]) -> None:
    values = {
        "model": "openai/gpt-oss-120b", "gpu": "h100", "gpus": 2, "engine": "vllm", "engine_version": "0.19",
        "kv": "fp8", "gpu_memory_utilization": 0.85, "max_num_seqs": 128, "max_num_batched_tokens": 4096,
        "input_tokens": 3000, "output_tokens": 300, "concurrency": 40,
    }  # fmt: skip
    python = evaluate(Scenario.parse(values))
    flags = [
        text for key, value in values.items() for text in (f"--{key.replace('_', '-')}", str(value))
    ]
    code, out, _ = run(capsys, "estimate", *flags, "--json", "--lang", "en")
    assert code == 0
    assert json.loads(out) == json.loads(
        json.dumps(evaluation_json(python, lambda note: say_note(note, "en")), default=str)
    )
    header, row = ",".join(values), ",".join(str(value) for value in values.values())
    target = io.StringIO()
    run_batch(io.StringIO(f"{header}\n{row}\n"), target, model_reference, str)
    answered = next(csv.DictReader(io.StringIO(target.getvalue())))
    for name, value in evaluation_flat(python).items():
        assert answered[name] == ("" if value is None else str(value)), name


def test_spanish_and_english_text(capsys: pytest.CaptureFixture[str]) -> None:
    _, english, _ = run(capsys, *LLAMA, "--lang", "en")
    _, spanish, _ = run(capsys, *LLAMA, "--lang", "es")
    assert english.startswith("Fits. ")
    assert spanish.startswith("Cabe. ")
    assert "[calibrated]" in english
    assert "[calibrado]" in spanish


@pytest.mark.parametrize("as_folder", [False, True])
def test_a_configuration_file_or_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, as_folder: bool
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(model_profile("meta-llama/Llama-3.1-8B").config), encoding="utf-8")
    named = json.loads(run(capsys, *LLAMA, "--json")[1])
    given = tmp_path if as_folder else file
    code, out, _ = run(capsys, "estimate", "--model", str(given), "--gpu", "h100", "--json")
    assert code == 0
    assert json.loads(out)["memory"] == named["memory"]
    assert json.loads(out)["speed"] == named["speed"]


def test_a_configuration_on_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps(model_profile("meta-llama/Llama-3.1-8B").config)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    code, out, _ = run(capsys, "estimate", "--model", "-", "--gpu", "h100", "--json")
    assert code == 0
    assert json.loads(out)["model"]["params"] == 8_030_261_248


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("estimate", "--model", "no-such-thing", "--gpu", "t4"), "unknown_model"),
        (("estimate", "--model", "missing/config.json", "--gpu", "t4"), "config_not_found"),
        (
            ("estimate", "--model", "gpt2", "--gpu", "t4", "--input-tokens", "-5"),
            "scenario_greater_than_equal",
        ),
        (
            ("estimate", "--model", "gpt2", "--gpu", "t4", "--gpu-memory-gib", "nan"),
            "scenario_finite_number",
        ),
    ],
)
def test_refusals_exit_with_1_and_say_why(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: str
) -> None:
    exit_code, out, err = run(capsys, *arguments, "--json", "--lang", "en")
    assert exit_code == 1
    assert json.loads(out)["error"]["code"] == code
    assert err.strip() == json.loads(out)["error"]["message"]
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "arguments",
    [(), ("estimate",), ("estimate", "--model", "x"), ("nonsense",), (*LLAMA, "--gpus", "two")],
)
def test_wrong_usage_exits_with_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_listings(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "gpus", "h100", "--json")
    assert json.loads(out)[0]["id"] == "h100-sxm-80gb"
    _, out, _ = run(capsys, "models", "gemma 12b", "--json")
    assert any(entry["id"] == "google/gemma-3-12b-it" for entry in json.loads(out))
    _, out, _ = run(capsys, "gpus")
    assert len(out.splitlines()) > 100
    _, out, _ = run(capsys, "models", "xyzzyxyzzy", "--lang", "es")
    assert "Nada" in out


def test_batch_answers_good_rows_and_marks_bad_ones(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cases, target = tmp_path / "cases.csv", tmp_path / "out.csv"
    cases.write_text(
        "id,model,gpu,gpus,pp,dp,tp,note\n"
        "a,meta-llama/Llama-3.1-8B,l4,,,,,keep me\n"
        "b,no-such-model,l4,,,,,\n"
        "c,meta-llama/Llama-3.1-8B,h100,8,2,,3,\n"
        "d,meta-llama/Llama-3.1-8B,h100,-1,,,,\n"
        "e,meta-llama/Llama-3.1-8B,h100,,,,,,too,many\n"
        "f,deepseek-ai/DeepSeek-V3,h200,8,,8,,\n",
        encoding="utf-8",
    )
    assert main(["batch", str(cases), "-o", str(target), "--lang", "en"]) == 0
    assert "6 rows: 2 answered, 4 refused" in capsys.readouterr().out
    lines = target.read_text(encoding="utf-8").splitlines()
    rows = {row["id"]: row for row in csv.DictReader(lines)}
    assert list(rows["a"]) == [
        "id",
        "model",
        "gpu",
        "gpus",
        "pp",
        "dp",
        "tp",
        "note",
        *FLAT_COLUMNS,
    ]
    assert rows["a"]["note"] == "keep me"
    assert float(rows["a"]["weights_gib_per_gpu"]) == pytest.approx(14.96, abs=0.01)
    assert (
        float(rows["a"]["tpot_ms_low"])
        <= float(rows["a"]["tpot_ms"])
        <= float(rows["a"]["tpot_ms_high"])
    )
    assert rows["a"]["basis"] in {"transferred", "physics", "assumed", "calibrated"}
    for bad in "bcde":
        assert rows[bad]["error"]
        assert rows[bad]["weights_gib_per_gpu"] == ""
    assert "3" in rows["c"]["error"]
    assert rows["f"]["error"] == ""
    # Data-parallel attention: every rank keeps all attention weights, experts are divided.
    assert 80 < float(rows["f"]["weights_gib_per_gpu"]) < 110


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "batch_missing_columns"),
        (b"a,b\n1,2\n", "batch_missing_columns"),
        (b"model,gpu\n\xff\xfe,t4\n", "batch_not_csv"),
        (b"model,gpu\n" + b"x" * 200_000 + b",t4\n", "batch_not_csv"),
    ],
)
def test_what_is_not_a_case_file_is_refused_whole(
    tmp_path: Path, content: bytes, code: str
) -> None:
    cases, target = tmp_path / "cases.csv", tmp_path / "out.csv"
    cases.write_bytes(content)
    assert main(["batch", str(cases), "-o", str(target)]) == 1
    assert not target.exists()
    assert not list(tmp_path.glob("*.part"))


def test_batch_says_what_it_can_t_open(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["batch", str(tmp_path / "none.csv"), "-o", str(tmp_path / "out.csv")]) == 1
    assert "none.csv" in capsys.readouterr().err


def test_every_refusal_of_a_row_is_a_sentence() -> None:
    target = io.StringIO()
    rows = "model,gpu,weights\ngpt2,t4,fp7\ngpt2,nothing,\n"
    run_batch(io.StringIO(rows), target, model_reference, lambda error: say_error(error, "es"))
    for row in csv.DictReader(io.StringIO(target.getvalue())):
        assert row["error"].startswith("No hay ningún")


@pytest.mark.parametrize("separator", [";", "\t"])
def test_batch_reads_what_spreadsheets_write(tmp_path: Path, separator: str) -> None:
    cases, target = tmp_path / "cases.csv", tmp_path / "out.csv"
    header, row = ("Model", "GPU", "Input-Tokens", "verdict"), ("gpt2", "t4", "100", "mine")
    cases.write_text(
        f"\ufeff{separator.join(header)}\r\n{separator.join(row)}\r\n", encoding="utf-8"
    )
    assert main(["batch", str(cases), "-o", str(target)]) == 0
    (answered,) = csv.DictReader(target.read_text(encoding="utf-8").splitlines())
    assert (answered["given_verdict"], answered["verdict"]) == ("mine", "fits")
    assert answered["input_tokens"] == "100"


def test_batch_tells_of_columns_that_are_nearly_fields(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cases = tmp_path / "cases.csv"
    cases.write_text("model,gpu,concurency\ngpt2,t4,5\n", encoding="utf-8")
    assert main(["batch", str(cases), "-o", str(tmp_path / "out.csv"), "--lang", "en"]) == 0
    assert "concurency" in capsys.readouterr().err


def test_batch_loses_no_file(tmp_path: Path) -> None:
    cases, other, link = tmp_path / "cases.csv", tmp_path / "out.csv.part", tmp_path / "link.csv"
    cases.write_text("model,gpu\ngpt2,t4\n", encoding="utf-8")
    other.write_text("keep", encoding="utf-8")
    link.symlink_to(tmp_path / "real.csv")
    assert main(["batch", str(cases), "-o", str(cases)]) == 1
    assert cases.read_text(encoding="utf-8") == "model,gpu\ngpt2,t4\n"
    assert main(["batch", str(cases), "-o", str(tmp_path / "out.csv")]) == 0
    assert other.read_text(encoding="utf-8") == "keep"
    assert main(["batch", str(cases), "-o", str(link)]) == 0
    assert link.is_symlink()
    assert (tmp_path / "real.csv").exists()
    assert main(["batch", str(cases), "-o", str(tmp_path)]) == 1
    assert not list(tmp_path.glob(".headroom-*"))


def test_batch_refuses_a_field_given_twice(tmp_path: Path) -> None:
    cases = tmp_path / "cases.csv"
    cases.write_text("model,gpu,GPU\ngpt2,t4,l4\n", encoding="utf-8")
    assert main(["batch", str(cases), "-o", str(tmp_path / "out.csv")]) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        "--model meta-llama/Llama-3.1-8B --gpu l4 --max-model-len 131072",
        "--model meta-llama/Llama-3.1-8B --gpu h100 --max-num-seqs 8 --concurrency 3000",
        "--model facebook/opt-1.3b --gpu a800-pcie-80gb --engine sglang --max-num-batched-tokens 2000000",
        "--model allenai/OLMo-2-0425-1B --gpu h100 --engine sglang --gpu-memory-gib 1",
        "--model microsoft/Phi-4-mini-instruct --gpu rtx-4090 --engine transformers --input-tokens 300000",
    ],
)
def test_what_cannot_run_is_not_said_to_fit(
    capsys: pytest.CaptureFixture[str], arguments: str
) -> None:
    code, out, _ = run(capsys, "estimate", *arguments.split(), "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["memory"]["verdict"] == "does_not_fit"
    assert answer["memory"]["reserved_gib_per_gpu"] >= 0


def closed(redirection: str, *arguments: str) -> tuple[int, str, str]:
    """A verb whose standard output or error a shell has closed."""
    command = ["sh", "-c", f'exec "$0" -m planner "$@" {redirection}', sys.executable, *arguments]
    root = Path(__file__).resolve().parents[2]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=root)
    return found.returncode, found.stdout, found.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["models", "gemma"],
        ["models", "gemma", "--json"],
        ["measure", "--probe"],
        ["measure", "--progress", "--quick"],
    ],
)
def test_with_standard_output_closed_nothing_is_begun(arguments: list[str]) -> None:
    code, _, said = closed(">&-", *arguments, "--lang", "en")
    assert code == 1
    assert said == "- can't be written: Bad file descriptor.\n"


def test_with_standard_output_closed_a_file_is_written_all_the_same(tmp_path: Path) -> None:
    cases, output = tmp_path / "cases.csv", tmp_path / "out.csv"
    cases.write_text("model,gpu\nmeta-llama/Llama-3.1-8B,h100\n")
    assert closed(">&-", "batch", str(cases), "-o", str(output)) == (0, "", "")
    with output.open(newline="") as stream:
        (row,) = csv.DictReader(stream)
    assert row["gpu"] == "h100"


def test_what_is_for_a_closed_standard_error_is_not_printed_elsewhere() -> None:
    code, out, _ = closed("2>&-", "measure", "--json", "--device", "nope", "--lang", "en")
    assert code == 1
    assert json.loads(out)["error"]["message"]
    assert closed(">&- 2>&-", "gpus") == (1, "", "")

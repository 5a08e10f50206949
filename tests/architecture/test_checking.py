"""A folder of configurations against published totals: each difference named, or stated as a rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.architecture.checking import check, checked_json, checked_text, stated_total, summary
from planner.architecture.config_folder import check_folder
from planner.architecture.resolve import architecture_from_config, architecture_of
from planner.architecture.stored_elements import causes, explain, scale_count
from planner.architecture.totals import parameters
from planner.catalog.encodings import Encoding
from planner.catalog.formats import weight_format
from planner.catalog.models import model_ids, model_profile
from planner.cli import main
from planner.errors import InvalidInput

# Of the catalogue's totals as the Hub counts them, what no cause makes up (elements).
UNEXPLAINED = {
    "moonshotai/Kimi-K2-Instruct": 3_416,  # 56 a layer
    "moonshotai/Kimi-K2-Thinking": 7_808,  # 128 a layer
    # Descriptions of each quantised tensor, kept as text in tensors of bytes.
    "unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit": 77_374,
}
COUNTED = {
    model: int(figure.value)
    for model in model_ids()
    if (figure := model_profile(model).figures.get("stored_elements")) is not None
}
TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 1000,
}
TINY_PARAMETERS = 2 * 1000 * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 128 + 2 * 64) + 64


@pytest.mark.parametrize("model", COUNTED)
def test_every_total_of_the_catalogue_is_met_or_its_difference_named(model: str) -> None:
    found = explain(architecture_of(model), model_profile(model).config, COUNTED[model])
    assert found.parameters + found.difference == COUNTED[model]
    assert found.difference == sum(cause.elements for cause in found.causes) + found.rest
    assert found.rest == UNEXPLAINED.get(model, 0)


def test_most_totals_are_met_without_a_rest() -> None:
    assert set(UNEXPLAINED) < set(COUNTED)
    assert len(COUNTED) - len(UNEXPLAINED) >= 93


def test_a_block_scaled_checkpoint_by_hand() -> None:
    # DeepSeek-V3: 61 layers, the first 3 dense; blocks of 128 × 128, each with a scale.
    latent = 12 * 56 + 192 * 12 + 5 * 56 + 256 * 4 + 56 * 128
    dense, expert = 3 * 144 * 56, 3 * 16 * 56
    scales = 61 * latent + 3 * dense + 58 * 257 * expert
    model = architecture_of("deepseek-ai/DeepSeek-V3")
    found = {
        one.code: one.elements
        for one in causes(model, model_profile("deepseek-ai/DeepSeek-V3").config)
    }
    assert found["fp8-block_scales"] == scales
    assert found["mtp_fp8-block_scales"] == latent + 257 * expert


def _encoding(format_id: str) -> Encoding:
    encoding = weight_format(format_id).encoding
    assert encoding is not None
    return encoding


@pytest.mark.parametrize(
    ("format_id", "rows", "columns", "scales"),
    [
        ("fp8-block", 576, 7168, 5 * 56),  # blocks at the edge are whole ones
        ("nvfp4", 10, 64, 10 * 4),
        ("mxfp4", 10, 64, 10 * 2),
        ("bf16", 10, 64, 0),
    ],
)
def test_blocks_with_a_scale(format_id: str, rows: int, columns: int, scales: int) -> None:
    assert scale_count(_encoding(format_id), rows, columns) == scales


def test_a_stored_copy_of_a_tied_table_is_named() -> None:
    config = {**TINY, "tie_word_embeddings": True}
    own = parameters(architecture_from_config(config))
    (cause,) = explain(architecture_from_config(config), config, own + 64_000).causes
    assert (cause.code, cause.elements) == ("tied_copy", 64_000)


def _without(config: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in names}


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("zai-org/GLM-4.7", ("attention_bias", "use_qk_norm", "num_nextn_predict_layers")),
        ("stepfun-ai/Step-3.7-Flash", ("attention_other_setting",)),
        ("Qwen/Qwen3-VL-235B-A22B-Instruct", ("vision_config",)),
    ],
)
def test_keys_that_a_copy_lacks_are_those_of_the_catalogue(
    model: str, names: tuple[str, ...]
) -> None:
    config = model_profile(model).config
    whole = architecture_of(model)
    stated = parameters(whole, mtp=True)
    lacking = _without(config, *names)
    if "vision_config" in names:
        lacking["vision_config"] = {**config["vision_config"], "patch_size": 14}
    architecture = architecture_from_config(lacking)
    assert parameters(architecture) < parameters(whole)
    found = explain(architecture, lacking, stated)
    made = {cause.code: cause.elements for cause in found.causes}
    assert made["keys_of_the_catalogue"] == parameters(whole) - parameters(architecture)
    assert found.rest == 0


def test_scales_of_a_format_that_the_configuration_leaves_out() -> None:
    """A scale for each row of a matrix: queries to values, output, gate and up, down."""
    rows = 2 * (4 * 64 + 2 * 128 + 64)
    found = explain(architecture_from_config(TINY), TINY, TINY_PARAMETERS + rows)
    assert [cause.code for cause in found.causes] == ["row_scales_not_in_config"]


def test_padding_of_decays_is_named() -> None:
    """Kimi-K3's files hold 128 for 96 heads; the smaller model's fewer heads than a head is wide."""
    model = architecture_of("moonshotai/Kimi-K3")
    made = {
        cause.code: cause.elements
        for cause in causes(model, model_profile("moonshotai/Kimi-K3").config)
    }
    assert made["padded_decays"] == 69 * (128 - 96)


def test_what_no_cause_makes_up_is_a_rest() -> None:
    model = architecture_from_config(TINY)
    found = explain(model, TINY, parameters(model) + 12_345)
    assert (found.causes, found.rest) == ((), 12_345)


def test_the_first_column_that_states_a_total_counts() -> None:
    assert stated_total({"hf_safetensors_total": "", "params_computed": "12"}) == 12
    assert stated_total({"hf_safetensors_total": "7", "params_computed": "12"}) == 7
    assert stated_total({"hf_safetensors_total": "some"}) is None


def _folder(place: Path) -> Path:
    """Four configurations: equal, tied copy, a refusal, not JSON; and one in a folder of its own with its storage."""
    configs: dict[str, dict[str, Any]] = {
        "a--equal": TINY,
        "a--copy": {**TINY, "tie_word_embeddings": True},
        "a--unknown": {**TINY, "model_type": "of_no_family", "architectures": ["OfNoFamily"]},
    }
    folder = place / "configs"
    folder.mkdir()
    for name, config in configs.items():
        (folder / f"{name}.json").write_text(json.dumps(config))
    (folder / "a--broken.json").write_text("{")
    (folder / "a--own").mkdir()
    (folder / "a--own" / "config.json").write_text(json.dumps(TINY))
    (folder / "a--own" / "hf_quant_config.json").write_text(
        json.dumps({"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}})
    )
    (place / "model_facts.csv").write_text(
        "model_id,hf_safetensors_total,params_computed\n"
        f"a/equal,{TINY_PARAMETERS},\n"
        f"a/copy,,{TINY_PARAMETERS}\n"
        f"a/own,{TINY_PARAMETERS + 2 * 7 * 2},\n"
    )
    return folder


def test_a_folder(tmp_path: Path) -> None:
    rows = {row.name: row for row in check_folder(str(_folder(tmp_path)))}
    equal = rows["a--equal.json"]
    assert (equal.parameters, equal.model_type, equal.refusal) == (TINY_PARAMETERS, "llama", None)
    assert equal.explanation is not None
    assert equal.explanation.difference == 0
    copy = rows["a--copy.json"].explanation
    assert copy is not None
    assert [cause.code for cause in copy.causes] == ["tied_copy"]
    # Seven matrices a layer, each with a scale for its weights and one for its inputs.
    own = rows["a--own"].explanation
    assert own is not None
    assert [cause.code for cause in own.causes] == ["fp8_scales", "fp8_matrix_scales"]
    refusals = [rows[name].refusal for name in ("a--unknown.json", "a--broken.json")]
    assert all(refusals)
    assert summary(rows.values()) | {"slowest": ""} == {
        "files": 5,
        "answered": 3,
        "refused": 2,
        "with a stated total": 3,
        "equal": 1,
        "difference explained": 2,
        "difference unexplained": 0,
        "slowest": "",
    }


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _folder(tmp_path)
    assert main(["models", "--check", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "explained    a--copy.json  +64,000 = tied_copy +64,000" in printed
    assert "refused      a--broken.json" in printed
    # What agrees has no line of its own; the slowest, named at the end, may be any.
    assert not [
        line
        for line in printed.splitlines()
        if "a--equal" in line and not line.startswith("slowest")
    ]
    assert "refused: 2" in printed
    assert main(["models", "--check", str(folder), "--json"]) == 0
    rows = {row["file"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["a--equal.json"]["parameters"] == TINY_PARAMETERS
    assert rows["a--copy.json"]["causes"] == {"tied_copy": 64_000}
    assert rows["a--broken.json"]["error"].startswith("config_")
    assert all(row["seconds"] >= 0 for row in rows.values())


def test_other_facts_than_those_beside_the_folder(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    facts = tmp_path / "own.csv"
    facts.write_text(f"file,params_computed\nconfigs/a--equal.json,{TINY_PARAMETERS + 1}\n")
    rows = {row.name: row for row in check_folder(str(folder), str(facts))}
    found = rows["a--equal.json"].explanation
    assert found is not None
    assert found.rest == 1
    assert rows["a--copy.json"].explanation is None


def test_a_folder_or_table_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="file_unreadable"):
        check_folder(str(tmp_path / "nowhere"))
    with pytest.raises(InvalidInput, match="file_unreadable"):
        check_folder(str(_folder(tmp_path)), str(tmp_path / "nowhere.csv"))


def test_a_row_as_text_and_as_data() -> None:
    row = check("x", lambda: TINY, TINY_PARAMETERS + 5)
    assert "unexplained  x  +5 = ?  rest +5" in checked_text([row])
    (plain,) = checked_json([row])
    assert plain["unexplained"] == 5
    assert plain["parameters_with_mtp"] == TINY_PARAMETERS

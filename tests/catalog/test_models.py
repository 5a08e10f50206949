"""Model profiles: every file loads, a name leads to one model, and a broken file is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from planner.catalog import models, search
from planner.catalog.files import profile_ids
from planner.catalog.loader import profiles_folder, read_yaml
from planner.catalog.models import index_entries, model_ids, model_profile, quantisation_label
from planner.catalog.search import normalised
from planner.errors import BadProfile, UnknownItem

PROFILES = profiles_folder()
STEMS = [stem for stem in profile_ids("models") if not stem.startswith("_")]
# One word per model_type that the catalogue covers; an adapter is wanted for each.
MODEL_TYPES = re.findall(
    r"\S+",
    """
    baichuan bamba bert bloom chatglm cohere dbrx deepseek deepseek_ref deepseek_v2
    deepseek_v3 deepseek_v32 deepseek_v4 ernie4_5 ernie4_5_moe exaone exaone4 falcon falcon_h1
    gemma gemma2 gemma3 gemma3_text gemma3n gemma4 gemma4_unified glm glm4 glm4_moe
    glm4_moe_lite glm_moe_dsa gpt2 gpt_bigcode gpt_neox gpt_oss gptj granite granitemoe
    granitemoehybrid internlm internlm2 internlm3 kimi_k2 kimi_k25 kimi_k3 kimi_linear laguna
    lfm2 lfm2_moe lfm2_vl llama llama4 llava mamba mamba2 mimo mimo_v2_flash minicpm
    minimax_m1 minimax_m2 minimax_m3 minimax_m3_vl minimax_text_01 ministral3 mistral mistral3
    mixtral mllama molmo mpt muse_glimmer nemotron-nas nemotron_h nomic_bert olmo olmo2 olmo3
    opt orion phi phi-msft phi3 phi3_v phimoe qwen qwen2 qwen2_5_vl qwen2_moe qwen2_vl qwen3
    qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next qwen3_omni_moe
    qwen3_vl qwen3_vl_moe rwkv5 stablelm starcoder2 step3p7 t5 voxtral whisper xlm-roberta
    zamba2
    """,
)
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", re.IGNORECASE)

MINIMAL = """
id: maker/small-1b
name: Small 1B
family: small
organisation: Maker
aliases: [small]
modality: text
released: null
licence: null
context_tokens: 4096
provenance: copied
source: config
figures:
  parameters: {value: 1000000000, source: hub}
config: {model_type: llama, hidden_size: 2048}
sources:
- {id: config, title: config.json, url: "https://example.org/config", date: 2026-11, kind: vendor}
- {id: hub, title: total, url: "https://example.org/total", date: 2026-11, kind: database}
"""

Write = Callable[[str, str], None]


def forget() -> None:
    """Drops what the catalogue has read."""
    for module in (models, search):
        for function in vars(module).values():
            if hasattr(function, "cache_clear"):
                function.cache_clear()
    read_yaml.cache_clear()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes a profile, by stem and text, into an empty catalogue in the real one's place."""
    (tmp_path / "models").mkdir()
    monkeypatch.setenv("HEADROOM_PROFILES", str(tmp_path))
    forget()

    def add(stem: str, text: str) -> None:
        (tmp_path / "models" / f"{stem}.yaml").write_text(text)
        entries = [{"id": "maker/small-1b", "name": "Small 1B", "aliases": ["small"]}]
        (tmp_path / "index.json").write_text(json.dumps({"models": entries}))

    yield add
    monkeypatch.undo()
    forget()


def scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for item in value.values():
            yield from scalars(item)
    elif isinstance(value, list):
        for item in value:
            yield from scalars(item)
    else:
        yield value


# --- The profiles ---------------------------------------------------------------------------------


def test_every_profile_loads_under_its_id() -> None:
    assert len(STEMS) >= 250
    ids = [entry["id"] for entry in index_entries()]
    assert [id_.replace("/", "--") for id_ in ids] == STEMS
    for id_ in ids:
        assert model_profile(id_).id == id_


def test_ids_come_from_the_index() -> None:
    assert [id_.replace("/", "--") for id_ in model_ids()] == STEMS


def test_every_model_type_has_a_profile() -> None:
    assert sorted({entry["model_type"] for entry in index_entries()}) == sorted(MODEL_TYPES)


def test_no_name_leads_to_two_models() -> None:
    owners: dict[str, set[str]] = {}
    for entry in index_entries():
        for name in (entry["id"], entry["name"], *entry["aliases"]):
            owners.setdefault(normalised("model", name), set()).add(entry["id"])
    assert {name: ids for name, ids in owners.items() if len(ids) > 1} == {}


def test_every_kind_of_checkpoint_is_there() -> None:
    entries = index_entries()
    assert {entry["modality"] for entry in entries} == {
        "text",
        "vision-text",
        "audio-text",
        "embedding",
        "encoder-decoder",
        "omni",
    }
    labels = {entry["quantisation"] for entry in entries}
    assert labels >= {None, "fp8", "nvfp4", "mxfp4", "awq-int4", "gptq-int4", "nf4", "int4", "int8"}
    routed = [entry["id"] for entry in entries if entry["mixture_of_experts"]]
    assert len(routed) > 80
    assert {entry["id"] for entry in entries if entry["active_parameters"]} <= set(routed)


@pytest.mark.parametrize("stem", ["google--gemma-3-12b-it", "nvidia--MiniMax-M3-NVFP4"])
def test_a_lookup_opens_one_profile(stem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def noted(relative: str) -> dict[str, Any]:
        opened.append(relative)
        return read_yaml(relative)

    forget()
    monkeypatch.setattr(models, "read_yaml", noted)
    model_profile(stem.replace("--", "/"))
    assert opened == [f"models/{stem}.yaml"]


def test_numbers_are_numbers() -> None:
    """YAML reads `1e-6` as text; a figure or a config key must not fall for it."""
    for stem in STEMS:
        config = read_yaml(f"models/{stem}.yaml")["config"]
        texts = [value for value in scalars(config) if isinstance(value, str)]
        # A version number is text in the config.json too.
        found = [text for text in texts if NUMBER.fullmatch(text)]
        assert found == [], stem


def test_counts_agree_with_names() -> None:
    """Parameters are near what the name says, so that no total slipped a line."""
    off = {}
    for entry in index_entries():
        said = re.search(r"(?<![\w.])(\d+(?:\.\d+)?)([BMT])\b(?! \d+E)", entry["name"])
        if said and entry["parameters"]:
            stated = float(said[1]) * {"M": 1e6, "B": 1e9, "T": 1e12}[said[2]]
            if not 0.72 < entry["parameters"] / stated < 1.6:
                off[entry["id"]] = entry["parameters"] / stated
    assert off == {}


def test_figures_carry_their_sources() -> None:
    for id_ in model_ids():
        for key, figure in model_profile(id_).figures.items():
            assert figure.value > 0, (id_, key)
            assert figure.source.url.startswith("https://"), (id_, key)
            assert figure.source.date, (id_, key)


def test_a_quantised_checkpoint_states_the_model_not_its_packing() -> None:
    packed = model_profile("nvidia/DeepSeek-V3-0324-NVFP4").figures
    assert packed["parameters"].value == model_profile("deepseek v3").figures["parameters"].value
    assert packed["stored_elements"].value < 0.6 * packed["parameters"].value


# --- Names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "id_"),
    [
        ("google/gemma-3-12b-it", "google/gemma-3-12b-it"),
        ("GOOGLE/Gemma-3-12B-IT", "google/gemma-3-12b-it"),
        ("gemma-3-12b-it", "google/gemma-3-12b-it"),
        ("gemma 12b", "google/gemma-3-12b-it"),
        ("gemma3:12b", "google/gemma-3-12b-it"),
        ("Gemma 3 12B Instruct", "google/gemma-3-12b-it"),
        ("gemma 4 12b", "google/gemma-4-12B-it"),
        ("gemma-4-12B", "google/gemma-4-12B-it"),
        ("gemma 31b", "google/gemma-4-31B-it"),
        ("gemma 3 1b", "google/gemma-3-1b-it"),
        ("llama 3.1 8b", "meta-llama/Llama-3.1-8B"),
        ("llama3.1:8b-instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("Llama-3.2-1B-Instruct", "meta-llama/Llama-3.2-1B"),
        ("deepseek v3", "deepseek-ai/DeepSeek-V3"),
        ("DeepSeek-R1", "deepseek-ai/DeepSeek-R1"),
        ("gpt-oss-120b", "openai/gpt-oss-120b"),
        ("gpt-oss:20b", "openai/gpt-oss-20b"),
        ("qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B"),
        ("qwen2.5:0.5b", "Qwen/Qwen2.5-0.5B-Instruct"),
        ("mixtral 8x7b", "mistralai/Mixtral-8x7B-Instruct-v0.1"),
        ("phi 1.5", "microsoft/phi-1_5"),
        ("opt-1.3b", "facebook/opt-1.3b"),
        ("opt-13b", "facebook/opt-13b"),
    ],
)
def test_names_that_people_type(given: str, id_: str) -> None:
    profile = model_profile(given)
    assert profile.id == id_
    assert profile.stand_in_for is None


@pytest.mark.parametrize("given", ["", "gemma", "gpt-5", "gemma 13b", "llama"])
def test_a_name_of_no_model_is_refused_with_names_close_to_it(given: str) -> None:
    with pytest.raises(UnknownItem) as refusal:
        model_profile(given)
    assert refusal.value.code == "unknown_model"
    assert refusal.value.values["given"] == given
    close = refusal.value.values["nearest"]
    assert isinstance(close, tuple)
    assert set(close) <= set(model_ids())
    if given.startswith(("gemma", "llama")):
        assert close


@pytest.mark.parametrize(
    ("given", "said", "id_", "reason"),
    [
        ("kimi k2.6", "Kimi K2.6", "moonshotai/Kimi-K2.5", "same_shape"),
        ("Qwen/Qwen3.6-27B", "Qwen3.6 27B", "Qwen/Qwen3.5-27B", "same_shape"),
        (
            "mistral-7b-instruct-v0.2",
            "Mistral 7B Instruct v0.2",
            "mistralai/Mistral-7B-Instruct-v0.3",
            "other_vocabulary",
        ),
    ],
)
def test_the_nearest_model_stands_in_and_says_so(
    given: str, said: str, id_: str, reason: str
) -> None:
    profile = model_profile(given)
    assert (profile.id, profile.stand_in_for, profile.stand_in_reason) == (id_, said, reason)
    assert profile.config == model_profile(id_).config
    assert model_profile(id_).stand_in_for is None


def test_a_stand_in_is_for_a_model_that_has_no_profile() -> None:
    for one in read_yaml("models/_stand_ins.yaml")["stand_ins"]:
        assert one["nearest"] in model_ids()
        for name in (one["name"], *one["aliases"]):
            assert search.resolve("model", name) is None, name


# --- What a profile says --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "parameters"),
    [
        ("gemma 12b", 12_187_325_040),
        ("gemma 4 12b", 11_959_730_224),
        ("llama 3.1 8b", 8_030_261_248),
        ("mixtral 8x7b", 46_702_792_704),
        ("deepseek v3", 671_026_404_352),
        ("gpt-oss-120b", 116_829_156_672),
        ("qwen3-30b-a3b", 30_532_122_624),
    ],
)
def test_published_parameter_totals(given: str, parameters: int) -> None:
    assert model_profile(given).figures["parameters"].value == parameters


def test_next_token_prediction_layers_are_no_part_of_the_parameters() -> None:
    figures = model_profile("deepseek v3").figures
    assert figures["stored_elements"].value == 684_531_386_000
    assert "MTP" in figures["stored_elements"].note


def test_a_profile_says_what_is_asked_of_it() -> None:
    profile = model_profile("gpt-oss-20b")
    assert (profile.family, profile.organisation) == ("gpt-oss", "OpenAI")
    assert (profile.modality, profile.licence, profile.released) == ("text", "apache-2.0", 2025)
    assert (profile.context_tokens, profile.provenance) == (131_072, "copied")
    assert profile.config["layer_types"][:2] == ["sliding_attention", "full_attention"]
    assert profile.figures["checkpoint_bytes"].value == 13_761_264_768


def test_lists_of_modules_are_whole_again() -> None:
    block = model_profile("nvidia/MiniMax-M3-NVFP4").config["quantization_config"]
    assert len(block["quantized_layers"]) == 22_422
    name = "language_model.model.layers.59.block_sparse_moe.experts.127.w2"
    assert block["quantized_layers"][name] == {"quant_algo": "NVFP4", "group_size": 16}
    for id_ in model_ids():
        parts = (model_profile(id_).config, model_profile(id_).config.get("text_config"))
        for part in parts:
            text = json.dumps((part or {}).get("quantization_config", {}))
            assert not re.search(r"\{\d[\d,.]*\}", text), id_


@pytest.mark.parametrize(
    ("short", "whole"),
    [
        ("lm_head", ["lm_head"]),
        (
            "layers.{0..2,5}.mlp*",
            ["layers.0.mlp*", "layers.1.mlp*", "layers.2.mlp*", "layers.5.mlp*"],
        ),
        ("l.{3,4}.e.{0..1}", ["l.3.e.0", "l.3.e.1", "l.4.e.0", "l.4.e.1"]),
        (r"re:.*\.{2}", [r"re:.*\.{2}"]),
    ],
)
def test_a_range_in_braces(write: Write, short: str, whole: list[str]) -> None:
    block = {"quantization_config": {"quant_method": "fp8", "ignore": [short]}}
    config = {"model_type": "llama", **block, "text_config": block}
    text = MINIMAL.replace("{model_type: llama, hidden_size: 2048}", json.dumps(config))
    write("maker--small-1b", text)
    read = model_profile("small").config
    assert read["quantization_config"]["ignore"] == whole
    assert read["text_config"]["quantization_config"]["ignore"] == whole


@pytest.mark.parametrize(
    ("id_", "label"),
    [
        ("meta-llama/Llama-3.1-8B", None),
        ("TheBloke/Genz-70b-GPTQ", "gptq-int3"),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "awq-int4"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", "nf4"),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "int8"),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "fp8"),
        ("moonshotai/Kimi-K2.5", "int4"),
        ("moonshotai/Kimi-K3", "mxfp4"),
        ("nvidia/Qwen3-32B-NVFP4", "nvfp4"),
        ("nvidia/Llama-3.1-70B-Instruct-FP8", "fp8"),
        ("RedHatAI/DeepSeek-V4-Flash-NVFP4-FP8", "mixed"),
        ("deepseek-ai/DeepSeek-V4-Flash", "mixed"),
    ],
)
def test_labels_of_quantised_checkpoints(id_: str, label: str | None) -> None:
    assert quantisation_label(model_profile(id_).config) == label


def test_eight_bits_of_bitsandbytes() -> None:
    block = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    assert quantisation_label({"quantization_config": block}) == "int8"


# --- Profiles that don't load ---------------------------------------------------------------------


def test_a_minimal_profile_loads(write: Write) -> None:
    write("maker--small-1b", MINIMAL)
    assert model_profile("Small-1B").figures["parameters"].source.id == "hub"
    assert model_profile("small").notes == ""
    with pytest.raises(UnknownItem):
        model_profile("kimi k2.6")


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        (MINIMAL.replace("name: Small 1B\n", ""), "name"),
        (MINIMAL.replace("id: maker/small-1b", "id: small-1b"), "id"),
        (MINIMAL.replace("id: maker/small-1b", "id: maker/other"), "id"),
        (MINIMAL.replace("\nid: maker/small-1b", "\n"), "id"),
        (MINIMAL + "colour: blue\n", "colour"),
        (MINIMAL.replace("modality: text", "modality: smell"), "modality"),
        (MINIMAL.replace("context_tokens: 4096", "context_tokens: 4e3"), "context_tokens"),
        (MINIMAL.replace("context_tokens: 4096", "context_tokens: 0"), "context_tokens"),
        (MINIMAL.replace("aliases: [small]", "aliases: [1]"), "aliases.0"),
        (MINIMAL.replace("provenance: copied", "provenance: guessed"), "provenance"),
        (MINIMAL.replace("  parameters:", "  weights:"), "figures.weights.[key]"),
        (MINIMAL.replace("model_type: llama, ", ""), "config.model_type"),
        (MINIMAL.replace("{model_type: llama, hidden_size: 2048}", "{}"), "config"),
    ],
)
def test_what_breaks_the_schema_is_named(write: Write, wrong: str, key: str) -> None:
    write("maker--small-1b", wrong)
    with pytest.raises(BadProfile) as refusal:
        model_profile("small")
    assert refusal.value.code == "profile_bad_schema"
    assert refusal.value.values["file"] == "models/maker--small-1b.yaml"
    assert refusal.value.values["key"] == key
    with pytest.raises(BadProfile):
        index_entries()


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (MINIMAL.replace("source: hub}", "source: nobody}"), "profile_figure_without_source"),
        (MINIMAL.replace("value: 1000000000", "value: 1e9"), "profile_bad_schema"),
        (MINIMAL.replace("value: 1000000000", "value: -1"), "profile_bad_schema"),
        (MINIMAL.replace("value: 1000000000", "valeu: 1000000000"), "profile_bad_schema"),
        (MINIMAL.replace("kind: database", "kind: rumour"), "profile_bad_source"),
        (MINIMAL.replace("name: Small", "name: [Small"), "profile_not_yaml"),
    ],
)
def test_a_figure_needs_a_number_and_a_source(write: Write, wrong: str, code: str) -> None:
    write("maker--small-1b", wrong)
    with pytest.raises(BadProfile) as refusal:
        model_profile("small")
    assert refusal.value.code == code


def test_a_stand_in_that_breaks_the_schema_is_named(write: Write) -> None:
    write("maker--small-1b", MINIMAL)
    write("_stand_ins", "stand_ins: [{name: Tiny, nearest: maker/small-1b}]")
    with pytest.raises(BadProfile) as refusal:
        model_profile("tiny")
    assert refusal.value.values["file"] == "models/_stand_ins.yaml"


def test_the_project_needs_nothing_beside_its_folder() -> None:
    """Sources are public addresses, never a path or the host of a package registry."""
    for stem in STEMS:
        text = (PROFILES / "models" / f"{stem}.yaml").read_text()
        assert not re.search(r"py[p]i:|py[p]i\.org|/(?:work|home|tmp)/", text), stem

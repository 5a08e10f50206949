"""The index is up to date, and a search of it finds what people mean."""

from __future__ import annotations

import json

import pytest

from planner.catalog import index
from planner.catalog.files import index_text
from planner.catalog.search import (
    Kind,
    nearest,
    normalised,
    read_index,
    resolve,
    search,
)
from planner.errors import BadProfile


def found(kind: Kind, query: str) -> list[str]:
    return [entry.id for entry in search(kind, query)]


# --- The index ------------------------------------------------------------------------------------------------------


def test_the_index_is_up_to_date() -> None:
    changes = index.changes(index_text(), index.render(index.build_index()))
    assert changes == [], "run python -m planner.catalog.index"
    assert index.main(["--check"]) == 0


def test_the_index_is_one_item_a_line() -> None:
    lines = index_text().splitlines()
    items = sum(len(section) for section in json.loads(index_text()).values())
    assert sum(line.startswith('{"id"') for line in lines) == items


def test_wrong_usage_is_told_apart_from_a_stale_index(capsys: pytest.CaptureFixture[str]) -> None:
    assert index.main(["--wrong"]) == 2
    assert "usage" in capsys.readouterr().err


def test_changes_are_told_by_item() -> None:
    old = '{"accelerators": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]}'
    new = '{"accelerators": [{"id": "b", "name": "B2"}, {"id": "c", "name": "C"}]}'
    assert index.changes(old, new) == [
        "removed accelerators/a",
        "changed accelerators/b",
        "added accelerators/c",
    ]


@pytest.mark.parametrize(
    ("section", "code"),
    [
        ([{"id": "a", "name": "A"}, {"id": "a", "name": "B"}], "index_id_twice"),
        (
            [{"id": "a", "name": "A", "aliases": ["X 1"]}, {"id": "x-1", "name": "B"}],
            "index_alias_shared",
        ),
        ([{"id": "a", "name": "A", "aliases": ["NVIDIA"]}], "index_alias_shared"),
    ],
)
def test_a_name_means_one_item(section: list[dict[str, object]], code: str) -> None:
    with pytest.raises(BadProfile) as bad:
        index._check_names("accelerator", section)
    assert bad.value.code == code


# --- Exact names ----------------------------------------------------------------------------------------------------


def test_case_punctuation_and_maker_do_not_matter() -> None:
    assert normalised("accelerator", "NVIDIA GeForce RTX 4090") == normalised(
        "accelerator", "rtx_4090"
    )
    assert normalised("model", "Llama-3.1 8B") == normalised("model", "llama 3.1-8b")
    assert normalised("model", "opt-1.3b") != normalised("model", "opt-13b")
    assert normalised("model", "nvidia/x") != normalised("model", "amd/x")


def test_an_exact_name_never_guesses() -> None:
    assert resolve("accelerator", "h100") == "h100-sxm-80gb"
    assert resolve("accelerator", "a100") is None
    assert resolve("accelerator", "h10") is None
    assert resolve("accelerator", "") is None


def test_every_id_name_and_alias_resolves_to_its_item() -> None:
    for entry in read_index("accelerator"):
        for text in (entry.id, entry.name, *entry.aliases):
            assert resolve("accelerator", text) == entry.id


# --- Search ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("h100", "h100-sxm-80gb"),
        ("4090", "rtx-4090"),
        ("rtx pro 6000", "rtx-pro-6000-blackwell"),
        ("mi300x", "mi300x-192gb"),
        ("80gb a100 pcie", "a100-pcie-80gb"),
        ("gforce 3090", "rtx-3090"),
        ("amd 24gb", "rx-7900-xtx"),
        ("rtx4090", "rtx-4090"),
    ],
)
def test_the_best_hit_comes_first(query: str, first: str) -> None:
    assert found("accelerator", query)[0] == first


def test_all_variants_are_found() -> None:
    assert set(found("accelerator", "h100")) == {
        "h100-sxm-80gb",
        "h100-pcie-80gb",
        "h100-nvl-94gb",
        "h100-sxm-96gb",
    }
    assert len(found("accelerator", "rtx pro 6000")) == 3


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("gemma 12b", "google/gemma-3-12b-it"),
        ("gema 12b", "google/gemma-3-12b-it"),
        ("google/gemma-3-12b-it", "google/gemma-3-12b-it"),
        ("llama 3.1 8b instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("qwen3 30b a3b", "Qwen/Qwen3-30B-A3B"),
        ("gpt oss 120b", "openai/gpt-oss-120b"),
    ],
)
def test_models_are_found_too(query: str, first: str) -> None:
    assert found("model", query)[0] == first


def test_a_search_is_limited_and_an_empty_one_lists() -> None:
    assert len(search("accelerator", "rtx", limit=3)) == 3
    assert search("accelerator", "", limit=4) == list(read_index("accelerator")[:4])
    assert search("accelerator", "zzzzzz") == []


def test_suggestions_are_few_and_different() -> None:
    close = nearest("accelerator", "h100 sxn", 4)
    assert close[0] == "h100-sxm-80gb"
    assert len(close) == len(set(close)) <= 4
    assert nearest("accelerator", "") == ()


@pytest.mark.parametrize("given", ["foo/bar", "acme/secret-model", "hello world"])
def test_what_is_like_nothing_gets_no_suggestion(given: str) -> None:
    assert nearest("model", given) == ()


@pytest.mark.parametrize(
    ("given", "first"),
    [
        ("deepsek v3", "deepseek-ai/DeepSeek-V3"),
        ("gemma-13-12b", "google/gemma-3-12b-it"),
        ("Qwen/Qwen9-14B-Instruct", "Qwen/Qwen2.5-14B-Instruct"),
    ],
)
def test_what_is_misspelt_still_gets_one(given: str, first: str) -> None:
    assert nearest("model", given)[0] == first

"""Start-up logs: what is read of them, what they are compared with, and what isn't a log."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InvalidInput, PlannerError
from planner.measure.readers import LogReading, compare_log, read_log
from planner.measure.readers.untrusted import MAX_BYTES
from planner.quantity import GIB, MIB

FIXTURES = Path(__file__).parent / "fixtures"
LOGS = sorted(path.name for path in FIXTURES.glob("*.log"))
H100 = {"gpu": "h100-sxm-80gb"}


def log(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def printed(reading: LogReading) -> dict[str, float]:
    figures = {one.name: reading.figure(one.name) for one in reading.figures}
    return {name: figure.value for name, figure in figures.items() if figure}


def codes(reading: LogReading) -> set[str]:
    return {note.code for note in reading.notes}


def test_vllm_s_newer_engine() -> None:
    reading = read_log(log("vllm-0.11.log"))
    assert (reading.tool, reading.version, reading.missing) == ("vllm", "0.11.0", ("gpu",))
    assert reading.scenario == {
        "model": "Qwen/Qwen3-8B",
        "engine": "vllm",
        "engine_version": "0.11.0",
        "weights": "native",
        "kv": "auto",
        "dtype": "bf16",
        "tp": 1,
        "pp": 1,
        "dp": 1,
        "gpu_memory_utilization": 0.88,
        "max_model_len": 16384,
        "max_num_seqs": 128,
        "max_num_batched_tokens": 8192,
    }
    assert printed(reading) == {
        "weights_bytes_per_gpu": pytest.approx(15.2683 * GIB),
        "kv_pool_bytes_per_gpu": pytest.approx(52.42 * GIB),
        "graphs_bytes_per_gpu": pytest.approx(0.61 * GIB),
        "engine_printed_kv_tokens": 381696,
        "max_concurrency": 23.3,
    }
    assert reading.figures[0].line == 7
    assert "Model loading took" in reading.figures[0].shown


def test_vllm_s_older_engine_says_where_everything_goes() -> None:
    reading = read_log(log("vllm-0.7.log"))
    assert reading.missing == ()
    assert reading.scenario["gpu"] == "a10g"
    assert reading.scenario["gpu_memory_gib"] == pytest.approx(22.06)
    assert printed(reading) == {
        "weights_bytes_per_gpu": pytest.approx(2.89 * GIB),
        "activation_bytes_per_gpu": pytest.approx(1.40 * GIB),
        "overhead_bytes_per_gpu": pytest.approx(0.05 * GIB),
        "kv_pool_bytes_per_gpu": pytest.approx(15.51 * GIB),
        "graphs_bytes_per_gpu": pytest.approx(0.18 * GIB),
        "engine_printed_kv_tokens": 36302 * 16,
        "max_concurrency": 141.8,
    }
    assert "log_tokens_from_blocks" in codes(reading)


def test_vllm_on_a_processor_is_read_and_not_compared() -> None:
    reading = read_log(log("vllm-0.32-cpu.log"))
    assert (reading.tool, reading.version, reading.on_cpu) == ("vllm", "0.32.0", True)
    assert codes(reading) == set()
    assert printed(reading) == {"engine_printed_kv_tokens": 37376, "max_concurrency": 9.12}
    for card in ({}, H100):
        with pytest.raises(InvalidInput) as refusal:
            compare_log(reading, card)
        assert refusal.value.code == "log_on_cpu"
    assert not read_log(log("vllm-0.11.log")).on_cpu


@pytest.mark.parametrize(
    ("drafts", "told"),
    [
        ("None", False),
        ("SpeculativeConfig(method='ngram', model=None, num_spec_tokens=3)", False),
        ("SpeculativeConfig(method='eagle3', model='org/draft', num_spec_tokens=3)", True),
    ],
)
def test_a_draft_model_is_told_where_there_is_one(drafts: str, told: bool) -> None:
    text = log("vllm-0.11.log").replace("speculative_config=None", f"speculative_config={drafts}")
    assert ("log_speculative" in codes(read_log(text))) is told
    assert read_log(text).scenario == read_log(log("vllm-0.11.log")).scenario


def test_sglang_on_a_processor_is_not_compared() -> None:
    text = log("sglang-0.5.log").replace("device='cuda'", "device='cpu'")
    with pytest.raises(InvalidInput) as refusal:
        compare_log(read_log(text), H100)
    assert refusal.value.code == "log_on_cpu"


@pytest.mark.parametrize("device", ["GPU", "XPU", "TPU", "GPU + host"])
def test_the_cache_of_every_kind_of_device(device: str) -> None:
    text = log("vllm-0.11.log").replace("GPU KV cache size", f"{device} KV cache size")
    assert printed(read_log(text))["engine_printed_kv_tokens"] == 381696


@pytest.mark.parametrize(
    "line",
    [
        "vLLM API server version 0.32.0",
        "vLLM server version 0.32.0, serving model Qwen/Qwen3-8B",
        " ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0",
    ],
)
def test_every_way_of_naming_vllm_s_version(line: str) -> None:
    end = "INFO 11-20 09:15:40 [gpu_worker.py:760] Available KV cache memory: 52.42 GiB\n"
    reading = read_log(f"INFO 11-20 09:14:07 [api_utils.py:347] {line}\n{end}")
    assert (reading.version, codes(reading)) == ("0.32.0", set())


def test_a_snapshot_for_debugging_is_no_memory_that_is_taken() -> None:
    line = (
        "DEBUG 11-20 09:14:30 [gpu_worker.py:538] worker init memory snapshot: torch_peak=0.0GiB, "
        "free_memory=70.1GiB, total_memory=79.19GiB, non_torch_memory=9.09GiB, auto_measure=True\n"
    )
    assert printed(read_log(log("vllm-0.11.log") + line)) == printed(read_log(log("vllm-0.11.log")))


def test_the_fullest_gpu_of_several_counts() -> None:
    reading = read_log(log("vllm-0.22-tp2.log"))
    assert (reading.scenario["tp"], reading.scenario["weights"], reading.scenario["kv"]) == (
        2,
        "fp8",
        "fp8",
    )
    assert printed(reading)["kv_pool_bytes_per_gpu"] == pytest.approx(33.38 * GIB)
    assert printed(reading)["engine_printed_kv_tokens"] == 437504
    assert printed(reading)["max_concurrency"] == 13.35


def test_sglang() -> None:
    reading = read_log(log("sglang-0.5.log"))
    assert (reading.tool, reading.version) == ("sglang", None)
    assert reading.missing == ("gpu", "engine_version")
    assert codes(reading) == {"log_version_not_printed"}
    expected = {"max_model_len": 40960, "max_num_seqs": 2048, "gpu_memory_utilization": 0.88}
    assert expected.items() <= reading.scenario.items()
    assert printed(reading) == {
        "weights_bytes_per_gpu": pytest.approx(15.28 * GIB),
        "kv_pool_bytes_per_gpu": pytest.approx(53.86 * GIB),
        "graphs_bytes_per_gpu": pytest.approx(0.60 * GIB),
        "engine_printed_kv_tokens": 392192,
    }


def test_sglang_s_state_counts_in_the_pool() -> None:
    reading = read_log(log("sglang-hybrid-tp2.log"))
    assert printed(reading)["state_bytes"] == pytest.approx(11.64 * GIB)
    rows = {row.quantity: row for row in compare_log(reading, H100).rows}
    pool = rows["kv_pool_bytes_per_gpu"]
    assert pool.printed == pytest.approx((12.92 + 11.64) * GIB)
    # The log's division by 0.9, whatever the card left: both parts are off by as much as the whole.
    state, tokens = rows["state_bytes"], rows["engine_printed_kv_tokens"]
    for part in (state, tokens):
        assert part.error_fraction == pytest.approx(pool.error_fraction, abs=0.005)


def test_sglang_s_own_division_of_a_hybrid_s_memory_is_said() -> None:
    text = log("sglang-hybrid-tp2.log")
    assert "log_state_settings" not in codes(read_log(text))
    fixed = read_log(text.replace("max_mamba_cache_size=None", "max_mamba_cache_size=40"))
    note = next(note for note in fixed.notes if note.code == "log_state_settings")
    assert note.values == {"setting": "max_mamba_cache_size", "given": "40"}
    assert "log_state_settings" in codes(read_log(text.replace("=0.9", "=0.3")))


def test_llama_cpp() -> None:
    reading = read_log(log("llama-cpp-b6500.log"))
    assert (reading.tool, reading.version, reading.missing) == ("llama.cpp", "b6500", ())
    assert reading.scenario == {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "gpu": "rtx-4090",
        "engine": "llama.cpp",
        "engine_version": "b6500",
        "weights": "gguf:Q4_K_M",
        "kv": "f16",
        "pp": 1,
        "concurrency": 2,
        "max_num_seqs": 2,
        "max_model_len": 16384,
        "max_num_batched_tokens": 512,
    }
    assert printed(reading) == {
        "weights_bytes": pytest.approx(4.58 * GIB),
        "weights_bytes_per_gpu": pytest.approx(4403.49 * MIB),
        "activation_bytes_per_gpu": pytest.approx(258.5 * MIB),
        "cache_bytes": 2048 * MIB,
    }


def test_llama_cpp_over_two_gpus() -> None:
    reading = read_log(log("llama-cpp-two-gpus.log"))
    expected = {"gpu": "rtx-3090", "pp": 2, "model": "google/gemma-3-27b-it"}
    assert expected.items() <= reading.scenario.items()
    assert printed(reading)["weights_bytes_per_gpu"] == pytest.approx(8123.5 * MIB)
    assert printed(reading)["cache_bytes"] == (2560 + 624) * MIB


def test_llama_cpp_s_earlier_names_say_the_same() -> None:
    reading = read_log(log("llama-cpp-b4000.log"))
    assert reading.scenario["weights"] == "gguf:Q8_0"
    assert reading.scenario["model"] == "Qwen/Qwen2.5-7B-Instruct"
    assert printed(reading)["cache_bytes"] == 448 * MIB
    assert printed(reading)["weights_bytes_per_gpu"] == pytest.approx(7165.44 * MIB)


# The shape of which llama-cpp-0.5.log was written, with random weights.
TOY_GEMMA = {
    "model_type": "gemma3_text",
    "hidden_size": 256,
    "intermediate_size": 1024,
    "num_hidden_layers": 12,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 8192,
    "max_position_embeddings": 32768,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
    "tie_word_embeddings": True,
}
TOY = {"config": TOY_GEMMA, "gpu": "t4"}


def test_llama_cpp_since_its_releases_have_numbers() -> None:
    reading = read_log(log("llama-cpp-0.5.log"))
    assert (reading.version, reading.missing) == ("b11000", ("model", "gpu"))
    expected = {"weights": "gguf:Q8_0", "kv": "f16", "pp": 1, "concurrency": 4}
    assert (expected | {"max_model_len": 8192, "max_num_batched_tokens": 128}).items() <= (
        reading.scenario.items()
    )
    assert printed(reading) == {
        "weights_bytes": pytest.approx(14.13 * MIB),
        "weights_bytes_per_gpu": pytest.approx(14.13 * MIB),
        "activation_bytes_per_gpu": pytest.approx(2.57 * MIB),
        "cache_bytes": 23 * MIB,
    }
    rows = {row.quantity: row for row in compare_log(reading, TOY).rows}
    for name in ("weights_bytes", "weights_bytes_per_gpu", "cache_bytes"):
        assert rows[name].inside, name


def test_slots_that_share_cells_keep_one_batch_beside_their_windows() -> None:
    text = log("llama-cpp-0.5.log").replace(
        "kv_unified            = false", "kv_unified            = true"
    )
    text = text.replace("size =   15.00 MiB (   768 cells", "size =   11.25 MiB (  2304 cells")
    rows = {row.quantity: row for row in compare_log(read_log(text), TOY).rows}
    # 4 · 512 + 128 tokens, in blocks of 256, of ten layers.
    assert rows["cache_bytes"].printed == 19.25 * MIB
    assert rows["cache_bytes"].error_fraction == 0.0


def test_buffers_of_another_machine_s_gpus_are_each_their_own() -> None:
    text = log("llama-cpp-0.5.log")
    line = next(one for one in text.splitlines() if "RPC0[127.0.0.1:50052] model buffer" in one)
    two = line.replace("RPC0[127.0.0.1:50052]", "RPC1[Host2:50052]")
    assert read_log(text.replace(line, f"{line}\n{two}")).scenario["pp"] == 2


def test_a_second_context_is_not_the_server_s() -> None:
    text = log("llama-cpp-0.5.log")
    again = text[text.index("constructing") :].replace("  8.00 MiB (  2048", "  1.00 MiB (   256")
    assert printed(read_log(text + again)) == printed(read_log(text))
    trial = text.replace("no_alloc              = 0", "no_alloc              = 1")
    smaller = text.replace("  8.00 MiB (  2048", " 16.00 MiB (  4096")
    assert printed(read_log(trial + smaller)) == printed(read_log(smaller))


def test_a_server_that_printed_little_is_told_how_to_say_more() -> None:
    reading = read_log(log("llama-cpp-0.5-quiet.log"))
    (told,) = (note for note in reading.notes if note.code == "log_verbosity")
    assert told.values == {"given": 3, "least": 4}
    assert "log_without_memory" not in codes(reading)


def test_llama_cpp_without_flash_attention_is_said() -> None:
    text = log("llama-cpp-0.5.log")
    off = text.replace("flash_attn            = auto", "flash_attn            = disabled")
    assert codes(read_log(off)) - codes(read_log(text)) == {"log_flash_attention_off"}


@pytest.mark.parametrize("buffer", ["CPU_Mapped", "CPU_REPACK", "       AMX"])
def test_llama_cpp_on_a_processor_is_refused_as_such(buffer: str) -> None:
    text = log("llama-cpp-0.5-cpu.log").replace("CPU_Mapped", buffer)
    reading = read_log(text)
    assert reading.on_cpu
    assert reading.figure("weights_bytes_per_gpu") is None
    with pytest.raises(InvalidInput) as refusal:
        compare_log(reading, TOY)
    assert refusal.value.code == "log_on_cpu"
    assert not read_log(log("llama-cpp-0.5.log")).on_cpu


def test_a_draft_model_s_pool_is_not_the_model_s() -> None:
    lines = log("sglang-0.5.log").splitlines()
    weights, pool = lines[4], lines[6]
    draft = [
        weights.replace("Qwen3ForCausalLM", "LlamaForCausalLMEagle3"),
        pool.replace("26.93", "0.75"),
    ]
    reading = read_log("\n".join([*lines[:8], *draft, *lines[8:], ""]))
    assert printed(reading) == printed(read_log(log("sglang-0.5.log")))
    assert "log_several_models" in codes(reading)


def test_the_pools_of_windowed_layers_are_one() -> None:
    text = (
        "[2026-01-02 10:00:00 TP0] KV Cache is allocated. #tokens: 800, K size: 2.00 GB, V size: 2.00 GB\n"
        "[2026-01-02 10:00:00 TP0] KV Cache is allocated. #tokens: 1000, K size: 3.00 GB, V size: 3.00 GB\n"
        "[2026-01-02 10:00:00 TP0] SWAKVPool mem usage: 10.00 GB, swa size: 800, full size: 1000\n"
    )
    assert printed(read_log(text)) == {"kv_pool_bytes_per_gpu": 10 * GIB}


@pytest.mark.parametrize("method", ["gptq_marlin", "bitsandbytes"])
def test_a_method_that_leaves_the_format_open_is_asked_about(method: str) -> None:
    reading = read_log(log("vllm-0.11.log").replace("quantization=None", f"quantization={method}"))
    assert "weights" in reading.missing
    with pytest.raises(InvalidInput) as refusal:
        compare_log(reading, H100)
    assert refusal.value.values["missing"] == ("weights",)
    assert compare_log(reading, {**H100, "weights": "gptq-int4"}).rows


def test_awq_is_of_four_bits() -> None:
    text = log("vllm-0.11.log").replace("quantization=None", "quantization=awq_marlin")
    assert read_log(text).scenario["weights"] == "awq-int4"


def test_layers_on_the_host_are_stated() -> None:
    text = log("llama-cpp-b6500.log").replace("offloaded 33/33", "offloaded 20/33")
    reading = read_log(text)
    assert reading.scenario["gpu_layers"] == 20
    rows = {row.quantity: row for row in compare_log(reading).rows}
    whole = {row.quantity: row for row in compare_log(read_log(log("llama-cpp-b6500.log"))).rows}
    on_card, all_on_card = (one["weights_bytes_per_gpu"].predicted for one in (rows, whole))
    assert on_card is not None
    assert all_on_card is not None
    assert on_card.mid < 0.75 * all_on_card.mid


@pytest.mark.parametrize(
    "line",
    [
        "main: build = 6500 (12ab34cd)",
        "build_info: b6500-12ab34cd",
        "version: 6500 (12ab34cd)",
        "0.00.045.545 I cmn  common_param: common_params_print_info: build 6500 (12ab34cd) with GNU",
        "version: 0.5.0-dev (build 6500, commit 12ab34cd)",
    ],
)
def test_every_way_of_naming_a_build(line: str) -> None:
    text = log("llama-cpp-b6500.log").replace("build: 6500 (12ab34cd)", line)
    assert read_log(text).version == "b6500"


def test_windowed_and_full_layers_add_up_once() -> None:
    line = "llama_kv_cache: size = {} MiB ({} cells,  12 layers,  1/1 seqs), K (f16): {} MiB\n"
    full, window = line.format(3072.00, 131072, 1536.00), line.format(18.00, 768, 9.00)
    assert printed(read_log(full + window + full + window)) == {"cache_bytes": 3090 * MIB}


@pytest.mark.parametrize(
    ("name", "given_", "quantity", "within"),
    [
        ("vllm-0.11.log", H100, "weights_bytes_per_gpu", 0.005),
        ("vllm-0.11.log", H100, "kv_pool_bytes_per_gpu", 0.03),
        ("vllm-0.11.log", H100, "engine_printed_kv_tokens", 0.03),
        ("vllm-0.22-tp2.log", H100, "kv_pool_bytes_per_gpu", 0.05),
        ("vllm-0.7.log", {}, "kv_pool_bytes_per_gpu", 0.03),
        ("sglang-0.5.log", H100, "engine_printed_kv_tokens", 0.03),
        ("llama-cpp-b6500.log", {}, "weights_bytes", 0.005),
        ("llama-cpp-b6500.log", {}, "cache_bytes", 1e-9),
        ("llama-cpp-b4000.log", {"gpu": "rtx-4090"}, "cache_bytes", 1e-9),
        # Windowed layers keep the window and a batch: 1,536 cells.
        ("llama-cpp-two-gpus.log", {}, "cache_bytes", 1e-9),
        ("llama-cpp-two-gpus.log", {}, "activation_bytes_per_gpu", 0.05),
    ],
)
def test_printed_against_predicted(
    name: str, given_: dict[str, Any], quantity: str, within: float
) -> None:
    rows = {row.quantity: row for row in compare_log(read_log(log(name)), given_).rows}
    row = rows[quantity]  # type: ignore[index]
    assert row.predicted is not None
    assert row.error_fraction is not None
    assert abs(row.error_fraction) < within
    assert row.error_fraction == pytest.approx(row.predicted.mid / row.printed - 1.0)
    # The logs' figures are made up, so that only what follows from arithmetic has to lie in its range.
    assert row.inside or row.predicted.low < row.predicted.high


def test_a_rounded_figure_meets_an_exact_one() -> None:
    text = log("llama-cpp-b6500.log")
    for printed_mib, inside in (("2048.00", True), ("2048.01", True), ("2049.00", False)):
        reading = read_log(text.replace("size = 2048.00", f"size = {printed_mib}"))
        rows = {row.quantity: row for row in compare_log(reading).rows}
        assert rows["cache_bytes"].inside is inside


@pytest.mark.parametrize("size", ["0.00", "-3.20"])
def test_a_size_of_nought_or_less_is_passed_over_and_said(size: str) -> None:
    text = log("vllm-0.11.log").replace("memory: 52.42 GiB", f"memory: {size} GiB")
    reading = read_log(text)
    assert reading.figure("kv_pool_bytes_per_gpu") is None
    assert reading.figure("weights_bytes_per_gpu") is not None
    (told,) = (one for one in reading.notes if one.code == "log_figure_not_positive")
    assert told.values == {"line": 8}


def test_what_a_log_does_not_state_is_asked_for() -> None:
    reading = read_log(log("vllm-0.11.log"))
    with pytest.raises(InvalidInput) as refusal:
        compare_log(reading)
    assert refusal.value.code == "reading_incomplete"
    assert refusal.value.values["missing"] == ("gpu",)


def test_a_model_that_the_catalogue_lacks_is_named_and_asked_for() -> None:
    text = log("vllm-0.11.log").replace("Qwen/Qwen3-8B", "/data/our-own-model")
    reading = read_log(text)
    assert reading.printed_model == "/data/our-own-model"
    with pytest.raises(InvalidInput) as refusal:
        compare_log(reading, H100)
    assert refusal.value.code == "reading_names_unknown"
    assert refusal.value.values["printed"] == "/data/our-own-model"
    assert compare_log(reading, {**H100, "model": "Qwen/Qwen3-8B"}).rows


def test_a_local_path_of_a_known_model_is_known() -> None:
    for path in ("/models/Qwen3-8B/", "/cache/hub/models--Qwen--Qwen3-8B/snapshots/0abc"):
        text = log("vllm-0.11.log").replace("Qwen/Qwen3-8B", path)
        assert read_log(text).scenario["model"] == "Qwen/Qwen3-8B"


@pytest.mark.parametrize("version", ["0.99.1", "0.2.7", "main"])
def test_an_unknown_version_is_named_and_what_is_known_is_read(version: str) -> None:
    text = log("vllm-0.11.log").replace("0.11.0", version)
    reading = read_log(text)
    notes = {note.code: note.values for note in reading.notes}
    assert notes["log_version_unread"]["given"] == version
    assert printed(reading)["kv_pool_bytes_per_gpu"] == pytest.approx(52.42 * GIB)


def test_what_was_given_counts_over_what_is_stated() -> None:
    reading = read_log(log("vllm-0.11.log"))
    found = compare_log(reading, {**H100, "gpu_memory_utilization": 0.5})
    assert found.scenario.gpu_memory_utilization == 0.5


@pytest.mark.parametrize("name", LOGS)
def test_a_log_cut_anywhere_is_read_in_part_or_refused(name: str) -> None:
    """What is read of a part is what the whole says: no number is taken for a shorter one."""
    text = log(name)
    stated = read_log(text).scenario
    whole = {(one.name, one.value) for one in read_log(text).figures}
    for end in range(0, len(text), 7):
        try:
            reading = read_log(text[:end])
        except InvalidInput:
            continue
        assert {(one.name, one.value) for one in reading.figures} <= whole
        assert reading.scenario.items() <= stated.items()
        if not reading.figures:
            assert {"log_without_memory", "log_verbosity"} & codes(reading)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "reading_empty"),
        (" \n\n", "reading_empty"),
        ("Sep 12 10:00:01 host systemd[1]: Started Session 4.\n" * 50, "log_foreign"),
        ('{"model_id": "x", "median_ttft_ms": 4}', "log_foreign"),
        ("\x00\xff\xfe" * 1000, "log_foreign"),
        ("x" * (MAX_BYTES + 1), "reading_too_big"),
    ],
    ids=["nothing", "blank", "other log", "results", "binary", "huge"],
)
def test_what_is_no_log_is_refused(text: str, code: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_log(text)
    assert refusal.value.code == code


@pytest.mark.parametrize(
    "line",
    [
        "Load weight end." * 200_000,
        "GPU KV cache size: " + "9" * 400_000 + " tokens",
        "LLM engine (v" + "(" * 300_000 + ") with config: " + "model=" * 100_000,
        "llama_context: n_ctx = 99999999999999999999",
        "Model loading took nan GiB and inf seconds",
    ],
    ids=["markers", "digits", "brackets", "large", "nan"],
)
def test_hostile_lines_are_read_inside_bounds(line: str) -> None:
    reading = read_log(line)
    assert all(abs(one.value) < 1e18 * 2.0**30 for one in reading.figures)
    with pytest.raises(PlannerError):
        compare_log(reading)


@given(st.text(max_size=300), st.sampled_from(LOGS), st.integers(0, 4000))
def test_noise_inside_a_log_never_breaks_it(noise: str, name: str, at: int) -> None:
    text = log(name)
    at = min(at, len(text))
    with contextlib.suppress(PlannerError):
        compare_log(read_log(text[:at] + noise + text[at:]), H100)

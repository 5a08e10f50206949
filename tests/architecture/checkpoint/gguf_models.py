"""GGUF metadata and tensors of a model, from its config.json, as llama.cpp's converter writes them.

Written from conversion/*.py and gguf-py's tensor names (llama.cpp, 2026-10), not from our adapters, so that both sides
of a comparison stand for themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Config = dict[str, Any]
Listed = Iterator[tuple[str, str, tuple[int, ...]]]


def metadata_of(arch: str, c: Config, **further: Any) -> dict[str, Any]:
    """What every converter writes; `further` by its name after the architecture's."""
    heads = c["num_attention_heads"]
    values = {
        "block_count": c["num_hidden_layers"],
        "context_length": c["max_position_embeddings"],
        "embedding_length": c["hidden_size"],
        "feed_forward_length": c.get("intermediate_size", 0),
        "attention.head_count": heads,
        "attention.head_count_kv": c.get("num_key_value_heads", heads),
    }
    if c.get("head_dim"):
        values |= {"attention.key_length": c["head_dim"], "attention.value_length": c["head_dim"]}
    values |= {name.replace("__", "."): value for name, value in further.items()}
    general = {"general.architecture": arch, "general.type": "model", "general.file_type": 15}
    return general | {f"{arch}.{key}": value for key, value in values.items()}


def outer(c: Config, *, tied: bool, matrix: str) -> Listed:
    """Embedding, final norm, and the head where it has a table of its own."""
    hidden, vocabulary = c["hidden_size"], c["vocab_size"]
    yield "token_embd.weight", matrix, (hidden, vocabulary)
    yield "output_norm.weight", "F32", (hidden,)
    if not tied:
        yield "output.weight", matrix, (hidden, vocabulary)


def attention(c: Config, *, matrix: str, bias: bool = False, norms: bool = False) -> Listed:
    """Grouped-query attention of one layer."""
    hidden, heads = c["hidden_size"], c["num_attention_heads"]
    kv_heads = c.get("num_key_value_heads", heads)
    size = c.get("head_dim") or hidden // heads
    for name, rows in (("q", heads * size), ("k", kv_heads * size), ("v", kv_heads * size)):
        yield f"attn_{name}.weight", matrix, (hidden, rows)
        if bias:
            yield f"attn_{name}.bias", "F32", (rows,)
    yield "attn_output.weight", matrix, (heads * size, hidden)
    if norms:
        yield "attn_q_norm.weight", "F32", (size,)
        yield "attn_k_norm.weight", "F32", (size,)


def latent(c: Config, *, matrix: str) -> Listed:
    """Multi-head latent attention of one layer, keys and values apart."""
    hidden, heads, rank = c["hidden_size"], c["num_attention_heads"], c["kv_lora_rank"]
    nope, rope, value = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
    if c.get("q_lora_rank"):
        yield "attn_q_a.weight", matrix, (hidden, c["q_lora_rank"])
        yield "attn_q_a_norm.weight", "F32", (c["q_lora_rank"],)
        yield "attn_q_b.weight", matrix, (c["q_lora_rank"], heads * (nope + rope))
    else:
        yield "attn_q.weight", matrix, (hidden, heads * (nope + rope))
    yield "attn_kv_a_mqa.weight", matrix, (hidden, rank + rope)
    yield "attn_kv_a_norm.weight", "F32", (rank,)
    yield "attn_k_b.weight", "Q8_0", (nope, rank, heads)
    yield "attn_v_b.weight", matrix, (rank, value, heads)
    yield "attn_output.weight", matrix, (heads * value, hidden)


def feed_forward(hidden: int, width: int, *, matrix: str, suffix: str = "") -> Listed:
    """Gate, up and down, of a dense layer or (`_shexp`) of shared experts."""
    yield f"ffn_gate{suffix}.weight", matrix, (hidden, width)
    yield f"ffn_up{suffix}.weight", matrix, (hidden, width)
    yield f"ffn_down{suffix}.weight", matrix, (width, hidden)


def experts(hidden: int, width: int, count: int, *, matrix: str, biases: bool = False) -> Listed:
    """Router and routed experts of one layer."""
    yield "ffn_gate_inp.weight", "F32", (hidden, count)
    yield "ffn_gate_exps.weight", matrix, (hidden, width, count)
    yield "ffn_up_exps.weight", matrix, (hidden, width, count)
    yield "ffn_down_exps.weight", matrix, (width, hidden, count)
    if biases:
        yield "ffn_gate_inp.bias", "F32", (count,)
        yield "ffn_gate_exps.bias", "F32", (width, count)
        yield "ffn_up_exps.bias", "F32", (width, count)
        yield "ffn_down_exps.bias", "F32", (hidden, count)


def norms(hidden: int, *names: str) -> Listed:
    """Norms of the hidden size."""
    for name in names:
        yield f"{name}.weight", "F32", (hidden,)


def layers(count: int, *blocks: list[tuple[str, str, tuple[int, ...]]], first: int = 0) -> Listed:
    """The same blocks for each of some layers."""
    for layer in range(first, first + count):
        for block in blocks:
            for name, dtype, shape in block:
                yield f"blk.{layer}.{name}", dtype, shape

"""The dtype that a model is computed in: by the engines' own rules, and what to know about it."""

from __future__ import annotations

from planner.catalog.encodings import Hardware
from planner.catalog.formats import supported, weight_format
from planner.errors import Note, UnknownItem, Unsupported

DTYPE_IDS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
# Model types whose activations overflow FP16 (largest value 65,504). vLLM refuses FP16 for them outright.
OVERFLOWS_FP16 = frozenset({"gemma2", "gemma3", "gemma3_text", "glm4", "plamo2"})
# Where that is reported: empty answers of Gemma 3, or what vLLM refuses as numerically unstable.
OVERFLOW_REPORT = "https://github.com/huggingface/transformers/issues/36822"
OVERFLOW_LIST = "https://github.com/vllm-project/vllm/blob/main/vllm/config/model.py"


def resolve_dtype(
    requested: str,
    checkpoint_dtype: str,
    hardware: Hardware,
    engine_id: str,
    *,
    model_type: str = "",
) -> tuple[str, tuple[Note, ...]]:
    """The compute dtype, by the engines' own rules, and what to know about it.

    Args:
        requested: "auto", "fp16", "bf16" or "fp32" (or PyTorch's names).
        checkpoint_dtype: "bfloat16", "float16" or "float32".
        model_type: as in config.json; some overflow in FP16.

    Returns:
        "fp16", "bf16" or "fp32". Where "auto" meets hardware without BF16 it's FP16, with a note where the model was
        trained in BF16; vLLM takes FP32 for models that overflow.

    Raises:
        UnknownItem: for another dtype.
        Unsupported: for a dtype that the engine refuses there; `nearest` names what it takes.

    References:
        vLLM, vllm/config/model.py (dtype resolution); Gemma 3 in FP16: huggingface/transformers issue 36822.
    """
    trained = DTYPE_IDS[checkpoint_dtype]
    overflows = model_type in OVERFLOWS_FP16
    wanted = dtype_id(requested)
    if wanted != "auto":
        return _requested_dtype(wanted, trained, hardware, engine_id, model_type)
    if engine_id == "llama.cpp":
        return "fp16", ()
    # Engines hold FP32 checkpoints in a 16-bit type; Transformers keeps what the file says.
    chosen = "bf16" if trained == "fp32" and engine_id != "transformers" else trained
    support = supported(weight_format(chosen), engine_id, hardware)
    if chosen == "bf16" and (not support.ok or support.note == "bf16_emulated"):
        chosen = "fp32" if engine_id == "vllm" and overflows else "fp16"
    if chosen == "fp32" and trained != "fp32":
        return chosen, (Note("fp32_forced", {"model_type": model_type}),)
    return chosen, _fp16_notes(chosen, trained, model_type)


def dtype_id(requested: str) -> str:
    """Id of a compute dtype, or "auto".

    Raises:
        UnknownItem: for another one.
    """
    given = requested.strip().lower()
    if given == "auto":
        return given
    for id_ in DTYPE_IDS.values():
        if given in (alias.lower() for alias in (id_, *weight_format(id_).aliases)):
            return id_
    raise UnknownItem("dtype", requested, tuple(DTYPE_IDS.values()), field="dtype")


def _requested_dtype(
    chosen: str, trained: str, hardware: Hardware, engine_id: str, model_type: str
) -> tuple[str, tuple[Note, ...]]:
    def runs(dtype: str) -> bool:
        refused = engine_id == "vllm" and dtype == "fp16" and model_type in OVERFLOWS_FP16
        return not refused and supported(weight_format(dtype), engine_id, hardware).ok

    if not runs(chosen):
        nearest = tuple(dtype for dtype in DTYPE_IDS.values() if runs(dtype))
        raise Unsupported(
            "dtype_unsupported", field="dtype", dtype=chosen, engine=engine_id, nearest=nearest
        )
    note = supported(weight_format(chosen), engine_id, hardware).note
    return chosen, ((Note(note),) if note else ()) + _fp16_notes(chosen, trained, model_type)


def _fp16_notes(chosen: str, trained: str, model_type: str) -> tuple[Note, ...]:
    if chosen != "fp16":
        return ()
    if model_type in OVERFLOWS_FP16:
        source = OVERFLOW_REPORT if model_type.startswith("gemma3") else OVERFLOW_LIST
        return (Note("fp16_overflows", {"model_type": model_type, "source": source}),)
    return (Note("fp16_of_bf16_model"),) if trained == "bf16" else ()

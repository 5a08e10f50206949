"""What each method's `quantization_config` comes down to: which modules are stored how, and what is left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from planner.architecture.module_paths import ModulePatterns, without_other_experts
from planner.architecture.spec import Part
from planner.catalog.encodings import COMPUTE, Encoding
from planner.catalog.formats import weight_format
from planner.errors import Unsupported

Section = Mapping[str, Any]
# What a method that targets every linear module quantises where no list says otherwise. A router is a module of its
# own class in most families, and listed by name in the others.
LINEAR_PARTS = frozenset(Part) - {Part.ROUTER, Part.MTP, Part.NORM}

# DeepSeek's compressors and the weights of its indexer's heads, which no list mentions and no checkpoint has in FP8.
_NEVER_FP8 = ("compressor", "weights_proj")

Rule = tuple[ModulePatterns | None, Encoding]
"""Where an encoding applies: the weights that patterns mean, or (None) all that the recipe may quantise."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a configuration comes down to.

    Attributes:
        rules: the first that means a weight decides.
        parts: parts that a rule without patterns may quantise.
        ignored: modules left alone.
        experts: encoding of routed experts where it differs from the rules'.
    """

    rules: tuple[Rule, ...]
    parts: frozenset[Part] = LINEAR_PARTS
    ignored: ModulePatterns = ModulePatterns(())  # noqa: RUF009 — immutable once made
    experts: Encoding | None = None


def unknown_method(method: str) -> Unsupported:
    """The refusal of a method that isn't known, with those that are."""
    return Unsupported(
        "quantisation_method_unknown", field="model", method=method, known=tuple(sorted(METHODS))
    )


def _encoding(id_: str, **changes: Any) -> Encoding:
    encoding = weight_format(id_).encoding
    assert encoding is not None  # every profile states one
    return replace(encoding, **changes)


def _parts(id_: str) -> frozenset[Part]:
    return frozenset(map(Part, weight_format(id_).quantised_parts))


def _patterns(config: Section, *keys: str) -> ModulePatterns:
    """The union of the lists under these keys."""
    lists: Iterable[Any] = (config.get(key) or () for key in keys)
    return ModulePatterns(without_other_experts(str(name) for names in lists for name in names))


def _group(config: Section) -> int:
    """Group size; −1 means a whole row, and 0 nothing."""
    size = config.get("group_size")
    return 128 if size is None else 0 if size == -1 else _whole(size)


def _whole(value: Any, low: int = 1, high: int = 1_000_000) -> int:
    """A whole number in range; a ValueError otherwise."""
    if isinstance(value, bool) or int(value) != value or not low <= value <= high:
        raise ValueError(value)
    return int(value)


def _awq(config: Section) -> Recipe:
    bits = _whole(config.get("bits") or config.get("w_bit") or 4, 1, 16)
    encoding = _encoding("awq-int4", bits=bits, zero_bits=bits, group_columns=_group(config))
    return Recipe(
        ((None, encoding),), _parts("awq-int4"), _patterns(config, "modules_to_not_convert")
    )


def _gptq(config: Section) -> Recipe:
    bits = _whole(config.get("bits") or 4, 1, 16)
    encoding = _encoding("gptq-int4", bits=bits, zero_bits=bits, group_columns=_group(config))
    overrides = config.get("dynamic") or {}
    if any(not str(pattern).startswith("-:") for pattern in overrides):
        raise Unsupported("quantisation_option_unknown", field="model", method="gptq dynamic")
    ignored = ModulePatterns(f"re:{str(pattern)[2:]}" for pattern in overrides)
    parts = _parts("gptq-int4") | ({Part.HEAD} if config.get("lm_head") else set())
    blocks = config.get("modules_in_block_to_quantize")
    if not blocks:
        return Recipe(((None, encoding),), parts, ignored)
    names = [name for block in blocks for name in ([block] if isinstance(block, str) else block)]
    return Recipe(((ModulePatterns(names), encoding),), parts, ignored)


def _bitsandbytes(config: Section) -> Recipe:
    if config.get("load_in_8bit") or config.get("_load_in_8bit"):
        id_ = "llm-int8"
    else:
        id_ = "nf4-dq" if config.get("bnb_4bit_use_double_quant") else "nf4"
    return Recipe(
        ((None, _encoding(id_)),), _parts(id_), _patterns(config, "llm_int8_skip_modules")
    )


def _fp8(config: Section) -> Recipe:
    block = config.get("weight_block_size")
    static = 32.0 if config.get("activation_scheme") == "static" else 0.0  # the input's scale
    if block:
        encoding = _encoding(
            "fp8-block", group_rows=_whole(block[0]), group_columns=_whole(block[1])
        )
    else:
        encoding = _encoding("fp8", tensor_bits=static)
    experts = None
    if config.get("moe_quant_algo"):
        experts = _modelopt_encoding(str(config["moe_quant_algo"]), config)
    elif config.get("expert_dtype") == "fp4":
        experts = _encoding("mxfp4")
    # Beside 4-bit experts, the list under `ignore` speaks of those only.
    keys = ("modules_to_not_convert", "ignored_layers", *(() if experts else ("ignore",)))
    ignored = _patterns({**config, "always": _NEVER_FP8}, "always", *keys)
    return Recipe(((None, encoding),), _parts("fp8-block"), ignored, experts)


def _fbgemm(config: Section) -> Recipe:
    encoding = _encoding("fp8", group_rows=1, scale_bits=32.0)
    return Recipe(((None, encoding),), _parts("fp8"), _patterns(config, "modules_to_not_convert"))


def _mxfp4(config: Section) -> Recipe:
    # Only experts are stored so: the integrations replace the experts' module and no other.
    ignored = _patterns(config, "modules_to_not_convert")
    return Recipe(((None, _encoding("mxfp4")),), frozenset({Part.EXPERTS}), ignored)


def _compressed_tensors(config: Section) -> Recipe:
    sparsity = config.get("sparsity_config") or {}
    if sparsity.get("format", "dense") != "dense":
        raise Unsupported(
            "quantisation_option_unknown", field="model", method=f"sparsity {sparsity['format']}"
        )
    rules: list[Rule] = []
    for group in (config.get("config_groups") or {}).values():
        weights, inputs = group.get("weights"), group.get("input_activations")
        if not weights:
            continue
        targets = [str(target) for target in group.get("targets") or ("Linear",)]
        everywhere = any(target in ("Linear", "LinearBase") for target in targets)
        patterns = None if everywhere else ModulePatterns(targets)
        rules.append((patterns, _grouped_encoding(weights, inputs)))
    if not rules:
        raise unknown_method("compressed-tensors without config_groups")
    rules.sort(key=lambda rule: rule[0] is None)  # named modules before "every linear one"
    return Recipe(tuple(rules), ignored=_patterns(config, "ignore", "exclude_modules"))


def _grouped_encoding(weights: Section, inputs: Section | None) -> Encoding:
    """An encoding from a compressed-tensors group: bits, type, strategy and what activations are in."""
    bits, kind = _whole(weights.get("num_bits") or 8, 1, 16), str(weights.get("type") or "int")
    strategy, size = weights.get("strategy"), weights.get("group_size")
    block = weights.get("block_structure")
    if strategy == "block" and block:
        blocks = {"group_rows": _whole(block[0]), "group_columns": _whole(block[1])}
    elif strategy in ("group", "tensor_group") or (size or 0) > 0:
        blocks = {"group_rows": 1, "group_columns": _whole(128 if size is None else size)}
    else:
        blocks = {"group_rows": 0 if strategy == "tensor" else 1, "group_columns": 0}
    if kind == "float" and bits == 8:
        encoding = _encoding("fp8-block" if strategy == "block" else "fp8", **blocks)
    elif kind == "float" and bits == 4:
        encoding = _encoding("nvfp4" if blocks["group_columns"] == 16 else "mxfp4", **blocks)
    elif kind == "int" and bits == 8 and inputs:
        encoding = _encoding("int8", **blocks)
    elif kind == "int" and bits in (4, 8):
        zero = 0 if weights.get("symmetric", True) else bits
        encoding = _encoding("w4a16", bits=bits, zero_bits=zero, **blocks)
    else:
        raise unknown_method(f"compressed-tensors {kind}{bits}")
    return encoding if inputs else replace(encoding, compute=COMPUTE)


_MODELOPT: dict[str, tuple[str, dict[str, Any]]] = {
    "FP8": ("fp8", {"tensor_bits": 32.0}),
    "FP8_PB_WO": ("fp8-block", {"compute": COMPUTE}),
    "FP8_PB_REAL": ("fp8-block", {}),
    "NVFP4": ("nvfp4", {}),
    "W4A16_NVFP4": ("nvfp4", {"compute": COMPUTE, "tensor_bits": 32.0}),
    "MXFP8": ("mxfp8", {}),
    "MXFP4": ("mxfp4", {}),
    "W4A16_AWQ": ("w4a16", {}),
}


def _modelopt_encoding(algo: str, config: Section) -> Encoding:
    known = _MODELOPT.get(algo.upper())
    if known is None:
        raise unknown_method(f"modelopt {algo}")
    id_, changes = known
    size = config.get("group_size")
    if size is not None and id_ in ("nvfp4", "w4a16"):
        changes = {**changes, "group_columns": _whole(size)}
    return _encoding(id_, **changes)


def _modelopt(config: Section) -> Recipe:
    algo = str(config.get("quant_algo") or "")
    ignored = _patterns(config, "exclude_modules", "ignore")
    layers = config.get("quantized_layers")
    if not layers:
        return Recipe(((None, _modelopt_encoding(algo, config)),), ignored=ignored)
    # Files list tens of thousands of modules and two or three ways to store one.
    ways: dict[tuple[str, Any], list[str]] = {}
    for name in without_other_experts(layers):
        how = layers[name]
        ways.setdefault((str(how.get("quant_algo")), how.get("group_size")), []).append(name)
    names: dict[Encoding, list[str]] = {}
    for (way, size), group in ways.items():
        names.setdefault(_modelopt_encoding(way, {"group_size": size}), []).extend(group)
    return Recipe(
        tuple((ModulePatterns(group), encoding) for encoding, group in names.items()),
        ignored=ignored,
    )


METHODS: dict[str, Callable[[Section], Recipe]] = {
    "awq": _awq,
    "gptq": _gptq,
    "bitsandbytes": _bitsandbytes,
    "fp8": _fp8,
    "fbgemm_fp8": _fbgemm,
    "compressed-tensors": _compressed_tensors,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "mxfp4": _mxfp4,
}


def kv_scheme_of(config: Section) -> str | None:
    """The cache format that the checkpoint carries scales for."""
    scheme = config.get("kv_cache_quant_algo") or config.get("kv_cache_scheme")
    if not scheme:
        return None
    if isinstance(scheme, Mapping):
        name = f"{scheme.get('type')}{scheme.get('num_bits')}"
        scheme = {"float8": "fp8", "float4": "nvfp4"}.get(name, name)
    name = str(scheme).lower()
    if name not in ("fp8", "int8", "nvfp4"):
        raise Unsupported("quantisation_option_unknown", field="model", method=f"KV cache {name}")
    return name

"""Storage formats of weights and of the KV cache, as typed facts: bits, scales, what they leave alone, who runs them.

A format's profile states how one matrix is stored (`Encoding`), which parts of a model it quantises, the peak its
products use, and by engine and hardware whether a kernel exists. "native" is the checkpoint's own storage and has no
profile: `planner.architecture.quantization` reads it from the checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache

from planner.catalog.encodings import (
    COMPUTE,
    Encoding,
    Hardware,
    Rule,
    first_rule,
    read_rules,
)
from planner.catalog.files import profile_ids
from planner.catalog.loader import Figure, read_figures, read_sources, read_yaml, require
from planner.errors import BadProfile, InvalidInput, UnknownItem

FOLDER = "formats"
GGUF_PREFIX = "gguf:"
# Which of several formats of one size to name as a way out, best known first.
_WELL_KNOWN = (
    "fp16",
    "bf16",
    "fp8",
    "int8",
    "awq-int4",
    "gguf:Q4_K_M",
    "gguf:Q8_0",
    "nf4",
    "gptq-int4",
    "nvfp4",
)


@dataclass(frozen=True, slots=True, eq=False)
class WeightFormat:
    """A format that weights can be held in.

    Attributes:
        kind: "native", "dtype" (a plain cast), "scaled" (quantised with scales) or "gguf" (a mixture of types).
        encoding: of its quantised matrices; of a GGUF file type, of most of them; None for "native".
        quantised_parts: values of `Part` whose matrix products it quantises.
        gguf_type: llama-quantize's name of the file type, else "".
        support: rules by engine id.
    """

    id: str
    name: str
    kind: str
    encoding: Encoding | None
    quantised_parts: frozenset[str] = frozenset()
    gguf_type: str = ""
    aliases: tuple[str, ...] = ()
    notes: str = ""
    support: dict[str, tuple[Rule, ...]] = field(default_factory=dict)
    figures: dict[str, Figure] = field(default_factory=dict)

    @property
    def bits_per_weight(self) -> float | None:
        """Bits per weight of its quantised matrices, scales included; None for "native"."""
        return self.encoding.bits_per_weight if self.encoding else None


@dataclass(frozen=True, slots=True, eq=False)
class KVFormat:
    """How keys and values are cached: bytes per element, scales included, and the ids of both sides."""

    id: str
    key_bytes: float
    value_bytes: float
    key_id: str
    value_id: str


@dataclass(frozen=True, slots=True)
class Support:
    """Whether an engine runs a format on some hardware.

    Attributes:
        kernel: the one it uses ("marlin"); "" where there is none.
        compute: whose peak products use with that kernel: as in Encoding.
        note: code of what to know ("weight_only_kernel", "old_kernel", …), or "".
        nearest_format: id of the closest format that works there, where this one doesn't.
    """

    ok: bool
    kernel: str = ""
    compute: str = COMPUTE
    note: str = ""
    nearest_format: str | None = None


@lru_cache(maxsize=64)
def _profile(id_: str) -> WeightFormat:
    """The format of exactly this profile file.

    Raises:
        BadProfile: where it breaks the schema; MissingFigure: where it doesn't say how many bits a weight has.
    """
    file = f"{FOLDER}/{id_}.yaml"
    data = read_yaml(file)
    figures, sources = read_figures(data, file), read_sources(data, file)
    for key in ("name", "kind", "compute", "quantises", "support"):
        if key not in data:
            raise BadProfile("profile_key_missing", file=file, key=key)

    def value(key: str) -> float:
        """A figure of the layout; one that isn't stated is a part that the layout doesn't have."""
        return figures[key].value if key in figures else 0.0

    encoding = None
    if data["kind"] != "gguf":
        encoding = Encoding(
            id_,
            require(figures, "weight_bits", id_).value,
            group_rows=int(value("group_rows")),
            group_columns=int(value("group_columns")),
            flat_group=int(value("flat_group")),
            scale_bits=value("scale_bits"),
            zero_bits=value("zero_bits"),
            second_group=int(value("second_group")),
            second_scale_bits=value("second_scale_bits"),
            column_bits=value("column_bits"),
            tensor_bits=value("tensor_bits"),
            compute=data["compute"],
            separate_dequantisation=bool(data.get("separate_dequantisation", False)),
        )
    return WeightFormat(
        id=id_,
        name=data["name"],
        kind=data["kind"],
        encoding=encoding,
        quantised_parts=frozenset(data["quantises"]),
        aliases=tuple(data.get("aliases", ())),
        notes=data.get("notes", ""),
        support={
            engine: read_rules(entries, sources, data["compute"], file)
            for engine, entries in data["support"].items()
        },
        figures=figures,
    )


@lru_cache(maxsize=64)
def gguf_encoding(tensor_type: str) -> Encoding:
    """How a GGUF tensor of this type ("Q4_K") is stored; block scales are part of its bits.

    Raises:
        MissingFigure: for a type whose block the profile doesn't state.
    """
    profile = _profile("gguf")
    size = require(profile.figures, f"{tensor_type}_bytes", "gguf").value
    elements = gguf_block_elements(tensor_type)
    compute = COMPUTE if elements == 1 else str(read_yaml(f"{FOLDER}/gguf.yaml")["compute"])
    return Encoding(GGUF_PREFIX + tensor_type, 8.0 * size / elements, compute=compute)


@lru_cache(maxsize=64)
def gguf_block_elements(tensor_type: str) -> int:
    """Weights per block of a GGUF tensor type; rows are stored in whole blocks."""
    figures = _profile("gguf").figures
    return int((figures.get(f"{tensor_type}_elements") or figures["k_elements"]).value)


@lru_cache(maxsize=1)
def _gguf_file_types() -> dict[str, str]:
    types: dict[str, str] = read_yaml(f"{FOLDER}/gguf.yaml")["file_types"]
    return types


@lru_cache(maxsize=1)
def weight_format_ids() -> tuple[str, ...]:
    """Every id that `weight_format` takes: "native", the profiles', and "gguf:" with each file type."""
    plain = tuple(id_ for id_ in profile_ids(FOLDER) if id_ not in ("gguf", "kv"))
    return ("native", *plain, *(GGUF_PREFIX + name for name in _gguf_file_types()))


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    """Ids by lower-case id and alias."""
    names = {id_.lower(): id_ for id_ in weight_format_ids()}
    for id_ in names.copy().values():
        if id_ != "native" and not id_.startswith(GGUF_PREFIX):
            names.update({alias.lower(): id_ for alias in _profile(id_).aliases})
    for alias, file_type in read_yaml(f"{FOLDER}/gguf.yaml")["file_type_aliases"].items():
        names[f"{GGUF_PREFIX}{alias}".lower()] = GGUF_PREFIX + file_type
    for name, id_ in names.copy().items():
        names.setdefault(name.removeprefix(GGUF_PREFIX), id_)
    return names


@lru_cache(maxsize=256)
def weight_format(given: str) -> WeightFormat:
    """The format of that id or alias, whatever its case ("fp8", "AWQ", "gguf:q4_k_m").

    Raises:
        UnknownItem: naming close ids.
    """
    id_ = _names().get(given.strip().lower())
    if id_ is None:
        close = get_close_matches(given.strip().lower(), _names(), n=5, cutoff=0.4)
        nearest = tuple(dict.fromkeys(_names()[name] for name in close))
        raise UnknownItem("format", given, nearest, field="weights")
    if id_ == "native":
        return WeightFormat("native", "As in the checkpoint", "native", None)
    if id_.startswith(GGUF_PREFIX):
        file_type = id_.removeprefix(GGUF_PREFIX)
        encoding = gguf_encoding(_gguf_file_types()[file_type])
        name = f"GGUF {file_type}"
        return replace(_profile("gguf"), id=id_, name=name, encoding=encoding, gguf_type=file_type)
    return _profile(id_)


def kv_format_ids() -> tuple[str, ...]:
    """Ids that `kv_format` takes, "auto" first; two of them joined by a slash give keys and values apart."""
    figures = read_figures(read_yaml(f"{FOLDER}/kv.yaml"), f"{FOLDER}/kv.yaml")
    return ("auto", *(key.removesuffix("_bits") for key in figures))


@lru_cache(maxsize=256)
def kv_format(given: str, compute_dtype: str, checkpoint_scheme: str | None = None) -> KVFormat:
    """The cache format of that id: "auto", one id for keys and values, or two ("q8_0/q4_0").

    Args:
        compute_dtype: "fp16", "bf16" or "fp32": what "auto" means where the checkpoint doesn't say.
        checkpoint_scheme: the checkpoint's own cache format (StoredWeights.kv_scheme), or None.

    Raises:
        UnknownItem: naming close ids.
    """
    file = f"{FOLDER}/kv.yaml"
    data, figures = read_yaml(file), read_figures(read_yaml(file), file)
    sides = given.strip().lower().split("/")
    if len(sides) > 2:
        raise UnknownItem("kv_format", given, ("q8_0/q4_0",), field="kv")
    ids = []
    for side in sides:
        id_ = (checkpoint_scheme or compute_dtype) if side == "auto" else side
        id_ = data["format_aliases"].get(id_, id_)
        if f"{id_}_bits" not in figures:
            close = get_close_matches(id_, kv_format_ids(), n=3, cutoff=0.4)
            raise UnknownItem("kv_format", given, tuple(close), field="kv")
        ids.append(id_)
    key, value = ids[0], ids[-1]
    key_bytes, value_bytes = (figures[f"{side}_bits"].value / 8.0 for side in (key, value))
    return KVFormat(key if key == value else f"{key}/{value}", key_bytes, value_bytes, key, value)


@lru_cache(maxsize=256)
def _kv_rules(side: str, engine_id: str) -> tuple[Rule, ...]:
    file = f"{FOLDER}/kv.yaml"
    data = read_yaml(file)
    entries = data["support"].get(side, {}).get(engine_id, ())
    return read_rules(entries, read_sources(data, file), COMPUTE, file)


@lru_cache(maxsize=4096)
def supported(format_: WeightFormat | KVFormat, engine_id: str, hardware: Hardware) -> Support:
    """Whether the engine has a kernel for the format on this hardware, and which.

    Of a native checkpoint, ask for each of StoredWeights.formats.

    Returns:
        ok with kernel, peak and note; or not ok with the closest format that works there, if any.

    Raises:
        InvalidInput: for the format "native" itself.
    """
    if isinstance(format_, KVFormat):
        return _kv_supported(format_, engine_id, hardware)
    if format_.kind == "native":
        raise InvalidInput("native_format_has_no_kernel", field="weights")
    rule = first_rule(format_.support.get(engine_id, ()), hardware)
    if rule is None:
        return Support(False, nearest_format=_nearest(format_, engine_id, hardware))
    # A GGUF of plain types has products in the compute dtype, whatever the table says of quantised ones.
    plain = format_.encoding is not None and format_.encoding.compute == COMPUTE
    return Support(True, rule.kernel, COMPUTE if plain else rule.compute, rule.note)


def _nearest(wanted: WeightFormat, engine_id: str, hardware: Hardware) -> str | None:
    """The format of about the same size that works there; the better known one where several do."""
    bits = wanted.bits_per_weight or 16.0

    def distance(other: WeightFormat) -> tuple[int, int]:
        known = _WELL_KNOWN.index(other.id) if other.id in _WELL_KNOWN else len(_WELL_KNOWN)
        return round(abs((other.bits_per_weight or 16.0) - bits)), known

    working = [
        other
        for other in map(weight_format, weight_format_ids())
        if other.kind != "native" and first_rule(other.support.get(engine_id, ()), hardware)
    ]
    return min(working, key=distance).id if working else None


def _kv_supported(format_: KVFormat, engine_id: str, hardware: Hardware) -> Support:
    key, value = (
        first_rule(_kv_rules(side, engine_id), hardware)
        for side in (format_.key_id, format_.value_id)
    )
    mixed = format_.key_id != format_.value_id
    if key is None or value is None or (mixed and engine_id != "llama.cpp"):
        for side in ("fp8", "q8_0", "bf16", "fp16"):
            if first_rule(_kv_rules(side, engine_id), hardware):
                return Support(False, nearest_format=side)
        return Support(False)
    note = value.note
    if value.kernel == "flash_attention" or key.kernel == "flash_attention":
        note = "mixed_kv_needs_build_option" if mixed else "quantised_v_needs_flash_attention"
    return Support(True, value.kernel, COMPUTE, note)

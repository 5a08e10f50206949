"""Scenario: the one input type. A form, an address, a command line and a row of a CSV all become one of these.

Field names are the columns of `batch`, the flags of the command line (with dashes) and the keys of a permalink.
"""

from __future__ import annotations

import json
import marshal
from dataclasses import dataclass, field
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)

from planner.errors import InvalidInput, brief

SCHEMA_VERSION = 1
MAX_TOKENS = 100_000_000
MAX_GPUS = 4096
MAX_CONCURRENCY = 1_000_000
MAX_LAYERS = 10_000
DATA_FIELDS = ("config", "device", "calibration")  # objects rather than words


def canonical_text(data: dict[str, Any] | None) -> str | None:
    """Data as the one text that caches know it by; None for none."""
    return None if data is None else json.dumps(data, sort_keys=True)


class Scenario(BaseModel):
    """A model, the deployment it runs in, and the workload it serves.

    Model: `model` is a catalogue id or alias; `config` (a config.json as data) takes its place where given, and `model`
    is then only its name; `device` likewise describes an accelerator (planner.catalog.devices), and `gpu` names it.
    `calibration` holds constants fitted to somebody's own runs (planner.catalog.own_calibration), which count where
    they were measured. Deployment: `gpu` to `calibration`. Workload: `input_tokens` to `concurrency`.
    None means the engine's default, which the answer states among its assumptions.

    Attributes:
        weights, kv: format names as in profiles/formats ("native", "fp8", "nf4", "gguf:Q4_K_M"; "auto", "q8_0/q4_0").
        dtype: compute dtype ("auto", "fp16", "bf16", "fp32").
        tp, pp, ep, dp: tensor, pipeline, expert parallel and data-parallel-attention degrees; gpus = tp · pp · dp.
        gpu_memory_gib: usable memory per GPU in GiB where it isn't the catalogue's.
        gpu_layers: layers kept on the GPU, the output layer counted as one; None: all.
        cpu_expert_layers: first layers whose routed experts are kept in host memory; None: none.
        host_memory_gib: memory of the host in GiB; None: enough.
        host_bandwidth_gb_per_s: bandwidth of the host's memory in GB/s; None: that of a usual host for the GPU.
        concurrency: requests in flight at once, over all GPUs.
        include_mtp: count next-token-prediction layers among the weights.

    Raises:
        InvalidInput: naming the first field that is wrong, and why. Values have the fields' own types; `parse` takes
            numbers as text too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    model: str = Field(default="", max_length=300)
    config: dict[str, Any] | None = None
    gpu: str = Field(max_length=100)
    device: dict[str, Any] | None = None
    gpus: int | None = Field(default=None, ge=1, le=MAX_GPUS)
    tp: int | None = Field(default=None, ge=1, le=MAX_GPUS)
    pp: int | None = Field(default=None, ge=1, le=MAX_GPUS)
    ep: int | None = Field(default=None, ge=1, le=MAX_GPUS)
    dp: int | None = Field(default=None, ge=1, le=MAX_GPUS)
    engine: str | None = Field(default=None, max_length=40)
    engine_version: str | None = Field(default=None, max_length=40)
    weights: str = Field(default="native", max_length=40)
    kv: str = Field(default="auto", max_length=40)
    dtype: str = Field(default="auto", max_length=20)
    include_mtp: bool = False
    gpu_memory_gib: float | None = Field(default=None, gt=0, le=100_000, allow_inf_nan=False)
    gpu_layers: int | None = Field(default=None, ge=0, le=MAX_LAYERS)
    cpu_expert_layers: int | None = Field(default=None, ge=0, le=MAX_LAYERS)
    host_memory_gib: float | None = Field(default=None, gt=0, le=100_000, allow_inf_nan=False)
    host_bandwidth_gb_per_s: float | None = Field(
        default=None, gt=0, le=100_000, allow_inf_nan=False
    )
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1, allow_inf_nan=False)
    max_model_len: int | None = Field(default=None, ge=1, le=MAX_TOKENS)
    max_num_seqs: int | None = Field(default=None, ge=1, le=MAX_CONCURRENCY)
    max_num_batched_tokens: int | None = Field(default=None, ge=1, le=MAX_TOKENS)
    block_size: int | None = Field(default=None, ge=1, le=1024)
    calibration: dict[str, Any] | None = None
    input_tokens: int = Field(default=1024, ge=1, le=MAX_TOKENS)
    output_tokens: int = Field(default=256, ge=1, le=MAX_TOKENS)
    concurrency: int = Field(default=1, ge=1, le=MAX_CONCURRENCY)

    @model_validator(mode="wrap")
    @classmethod
    def _refused_by_field(
        cls, values: Any, handler: ModelWrapValidatorHandler[Scenario]
    ) -> Scenario:
        """What pydantic finds wrong first, as a refusal that names field and limits, whichever way it came in."""
        try:
            return handler(values)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=True)[0]
            name = str(first["loc"][0]) if first["loc"] else "scenario"
            limits = {
                key: value
                for key, value in first.get("ctx", {}).items()
                if isinstance(value, (int, float))
            }
            given = brief(first.get("input"), 80)
            raise InvalidInput(
                f"scenario_{first['type']}", field=name, given=given, **limits
            ) from None

    @classmethod
    def parse(cls, values: dict[str, Any]) -> Scenario:
        """A scenario from untrusted values; empty strings count as absent, numbers may come as text.

        Raises:
            InvalidInput: naming the first field that is wrong, and why.
        """
        present = {key: value for key, value in values.items() if value is not None and value != ""}
        return cls.model_validate(present, strict=False)

    def replace(self, **changes: Any) -> Scenario:
        """The same scenario with some fields changed, validated again.

        Raises:
            InvalidInput: as `parse`.
        """
        return Scenario.model_validate({**self.model_dump(), **changes}, strict=True)


@dataclass(frozen=True, slots=True)
class GivenConfig:
    """A pasted configuration, told from others by its content as it is now.

    Attributes:
        content: keys and values as bytes: for caches, equal where they are, in the same order.
        config: the same, as given.
    """

    content: bytes
    config: dict[str, Any] = field(compare=False, repr=False)

    @classmethod
    def of(cls, config: dict[str, Any] | None) -> GivenConfig | None:
        """The configuration with its content; None for none."""
        if config is None:
            return None
        try:
            # Three times as fast as JSON, for files of megabytes; this version writes equal values alike.
            return cls(marshal.dumps(config, 0), config)
        except ValueError:  # not only what JSON is made of, but subclasses of it
            return cls(json.dumps(config).encode(), config)


@dataclass(frozen=True, slots=True)
class Parallelism:
    """How the GPUs divide the work; gpus = tp · pp · dp, and ep divides tp · dp.

    With dp > 1 attention is data-parallel: each of dp groups holds all attention weights (divided by tp) and its own
    share of the sequences; experts are divided over all tp · dp ranks of a stage.
    """

    tp: int = 1
    pp: int = 1
    ep: int = 1
    dp: int = 1

    @property
    def gpus(self) -> int:
        return self.tp * self.pp * self.dp

    @classmethod
    def resolve(
        cls,
        gpus: int | None,
        tp: int | None,
        pp: int | None,
        ep: int | None,
        dp: int | None,
    ) -> Parallelism:
        """Degrees with the blanks filled in: gpus 1, pp 1, dp 1, ep 1, tp = gpus / (pp · dp).

        Raises:
            InvalidInput: where the degrees don't multiply out to `gpus`, or ep doesn't divide tp · dp.
        """
        pipeline, data = pp or 1, dp or 1
        if gpus is None:
            gpus = (tp or 1) * pipeline * data
        if tp is None:
            if gpus % (pipeline * data):
                raise InvalidInput(
                    "parallelism_not_divisible",
                    field="gpus",
                    gpus=gpus,
                    pp=pipeline,
                    dp=data,
                )
            tp = gpus // (pipeline * data)
        if tp * pipeline * data != gpus:
            raise InvalidInput(
                "parallelism_mismatch",
                field="gpus",
                gpus=gpus,
                tp=tp,
                pp=pipeline,
                dp=data,
            )
        expert = ep or 1
        if (tp * data) % expert:
            raise InvalidInput(
                "expert_parallelism_mismatch", field="ep", ep=expert, ranks=tp * data
            )
        return cls(tp, pipeline, expert, data)

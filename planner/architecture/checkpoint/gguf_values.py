"""A GGUF's metadata and tensors under llama.cpp's names, read strictly: every value is checked and named when wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from planner.architecture.checkpoint.tensors import Tensor
from planner.architecture.keys import MAX_CONTEXT, MAX_DIMENSION, MAX_LAYERS, Keys
from planner.errors import InvalidConfig, InvalidInput

_BLOCK = re.compile(r"blk\.(\d{1,9})\.")


class GgufValues:
    """Values under `<architecture>.`, and what the tensors say.

    Attributes:
        arch: the file's `general.architecture`.
        layers: of the model itself; nextn: next-token-prediction layers, which the file counts as further blocks.
    """

    def __init__(self, metadata: Mapping[str, Any], tensors: Iterable[Tensor]) -> None:
        self.metadata = metadata
        self._tensors = {tensor.name: tensor for tensor in tensors}
        self.arch = Keys(metadata).text("general.architecture")
        self._keys = Keys(
            {
                key.removeprefix(f"{self.arch}."): value
                for key, value in metadata.items()
                if key.startswith(f"{self.arch}.")
            },
            f"{self.arch}.",
        )
        blocks = self._keys.integer("block_count", maximum=MAX_LAYERS)
        self.nextn = self._keys.integer(
            "nextn_predict_layers", default=0, minimum=0, maximum=blocks - 1
        )
        self.layers = blocks - self.nextn
        for name in self._tensors:
            block = _BLOCK.match(name)
            if block is not None and int(block[1]) >= blocks:
                raise InvalidConfig(
                    "gguf_contradiction", key=name, expected=blocks, given=int(block[1]) + 1
                )

    # --- Metadata ----------------------------------------------------------------------------------------------------

    def given(self, name: str) -> bool:
        """Whether the metadata has the key."""
        return self._keys.has(name)

    def integer(
        self,
        name: str,
        *,
        default: int | None = None,
        minimum: int = 1,
        maximum: int = MAX_DIMENSION,
    ) -> int:
        """A whole number; one that is stated per layer must be the same for all."""
        value = self._keys.config.get(name)
        if isinstance(value, tuple):
            values = set(self.per_layer(name, minimum=minimum, maximum=maximum))
            if len(values) != 1:
                raise InvalidConfig("gguf_varies_by_layer", key=self._keys.path(name))
            return values.pop()
        if value is None and default is not None:
            return default
        return self._keys.integer(name, minimum=minimum, maximum=maximum)

    def per_layer(
        self, name: str, *, minimum: int = 0, maximum: int = MAX_DIMENSION
    ) -> tuple[int, ...]:
        """A whole number per layer, from a list or from one number for all."""
        value = self._keys.config.get(name)
        if isinstance(value, tuple):
            numbers = self._keys.integers(name, minimum=minimum, maximum=maximum) or ()
            if len(numbers) < self.layers:
                raise self._keys.contradiction(
                    name, "list_length", expected=self.layers, given=len(numbers)
                )
            return numbers[: self.layers]
        return (self._keys.integer(name, minimum=minimum, maximum=maximum),) * self.layers

    def flag(self, name: str) -> bool:
        """true or false."""
        return self._keys.flag(name)

    def contradiction(self, name: str, reason: str, **values: Any) -> InvalidConfig:
        """The error for a key that is well-formed but can't be meant."""
        return self._keys.contradiction(name, reason, **values)

    def context(self) -> int:
        """Longest context that the model was made for (tokens)."""
        return self._keys.integer("context_length", maximum=MAX_CONTEXT)

    def head_dim(self, hidden: int, heads: int) -> int:
        """Size of a key of one head, which is that of a value too unless the family says otherwise."""
        if not self.given("attention.key_length") and hidden % heads:
            raise self.contradiction(
                "embedding_length", "not_divisible", given=hidden, divisor=heads
            )
        return self.integer("attention.key_length", default=hidden // heads, maximum=100_000)

    def windows(self, period: int) -> dict[str, Any]:
        """Window and layer types: by the stated pattern, else every `period`-th layer full; all full without a window.

        References:
            llama.cpp, src/llama-hparams.cpp, set_swa_pattern: layer i slides where i mod n < n − 1.
        """
        window = self._keys.integer(
            "attention.sliding_window", default=0, minimum=0, maximum=MAX_CONTEXT
        )
        if not window:
            return {"sliding_window": None, "layer_types": ["full_attention"] * self.layers}
        slides = self.sliding(period)
        types = ["sliding_attention" if slide else "full_attention" for slide in slides]
        return {"sliding_window": window, "layer_types": types}

    def sliding(self, period: int) -> tuple[bool, ...]:
        """Which layers slide, by the stated pattern or else by the period."""
        name = "attention.sliding_window_pattern"
        pattern = self._keys.config.get(name)
        if isinstance(pattern, tuple):
            if len(pattern) < self.layers:
                raise self.contradiction(
                    name, "list_length", expected=self.layers, given=len(pattern)
                )
            return tuple(bool(slides) for slides in pattern[: self.layers])
        if pattern is not None:
            period = self._keys.integer(name, maximum=MAX_LAYERS)
        return tuple(index % period < period - 1 for index in range(self.layers))

    # --- Tensors -----------------------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Whether the file holds a tensor of that name."""
        return name in self._tensors

    def in_layers(self, name: str) -> bool:
        """Whether any of the model's layers holds such a tensor."""
        return self.of_layers(name) is not None

    def of_layers(self, name: str) -> Tensor | None:
        """The first of the layers' tensors of that name."""
        for layer in range(self.layers):
            tensor = self._tensors.get(f"blk.{layer}.{name}")
            if tensor is not None:
                return tensor
        return None

    def width(self, name: str) -> int | None:
        """Output features of a projection, by the first layer that has it."""
        tensor = self.of_layers(name)
        return None if tensor is None else self._rows(tensor)

    def inputs(self, name: str) -> int | None:
        """Input features of a projection, the same in all layers that have it; None where none has."""
        found = {
            tensor.shape[0]
            for layer in range(self.layers)
            if (tensor := self._tensors.get(f"blk.{layer}.{name}")) is not None
        }
        if len(found) > 1:
            raise InvalidConfig("gguf_varies_by_layer", key=name)
        return found.pop() if found else None

    def vocabulary(self) -> int:
        """Rows of the embedding table."""
        tensor = self._tensors.get("token_embd.weight")
        if tensor is None:
            raise InvalidInput("gguf_no_weights", field="model", tensor="token_embd.weight")
        return self._rows(tensor)

    def rows(self, name: str) -> int:
        """Output features of a tensor outside the layers, 0 where it isn't there."""
        tensor = self._tensors.get(name)
        return 0 if tensor is None else self._rows(tensor)

    def expect_rows(self, name: str, expected: int) -> None:
        """Refuse where a tensor is there and has another number of output features."""
        tensor = self._tensors.get(name)
        if tensor is not None and self._rows(tensor) != expected:
            raise InvalidConfig(
                "gguf_contradiction", key=name, expected=expected, given=self._rows(tensor)
            )

    def _rows(self, tensor: Tensor) -> int:
        # A GGUF shape starts with the input features.
        if len(tensor.shape) < 2 or not 0 < tensor.shape[1] <= MAX_DIMENSION:
            raise InvalidConfig(
                "gguf_contradiction", key=tensor.name, expected=2, given=tensor.shape
            )
        return tensor.shape[1]

    def sparse_layers(self) -> tuple[bool, ...]:
        """Which layers route to experts."""
        return tuple(
            f"blk.{layer}.ffn_gate_inp.weight" in self._tensors for layer in range(self.layers)
        )

    def expert_width(self) -> int:
        """Intermediate size of one routed expert."""
        # Older files hold each expert apart.
        width = self.inputs("ffn_down_exps.weight") or self.inputs("ffn_down.0.weight")
        return width or self.integer("expert_feed_forward_length")

    def feed_forward(self) -> int:
        """Intermediate size of the dense feed-forward, or of the experts where no layer is dense."""
        return self.inputs("ffn_down.weight") or self.expert_width()

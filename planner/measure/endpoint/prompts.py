"""Prompts of a wished length for a server whose tokenizer nobody here knows: words, counted as the server counts."""

from __future__ import annotations

import random
from dataclasses import dataclass

WORDS = (
    "apple", "bread", "bridge", "candle", "cloud", "field", "forest", "garden", "glass", "green", "horse", "house",
    "light", "mirror", "music", "north", "paper", "river", "seven", "silver", "stone", "summer", "table", "train",
    "water", "window", "winter", "yellow",
)  # fmt: skip


@dataclass(slots=True)
class Prompts:
    """Texts in an order of words of their own for each request, so that no prefix cache answers.

    Attributes:
        run: what tells this run's prompts from an earlier run's, which the server may still hold.
        words_per_token: of our words, as the server counts; one until it has counted some.
        overhead_tokens: what the server adds to a prompt: the chat template, a token at the start.
    """

    run: str
    words_per_token: float = 1.0
    overhead_tokens: float = 0.0

    def words_for(self, tokens: int) -> int:
        """Words of a prompt of about so many tokens, one at least."""
        return max(round((tokens - self.overhead_tokens) * self.words_per_token), 1)

    def text(self, words: int, salt: str) -> str:
        """So many words; the same for the same run and salt."""
        return " ".join(random.Random(f"{self.run} {salt}").choices(WORDS, k=words))

    def learn(self, words: int, tokens: int, more_words: int, more_tokens: int) -> None:
        """What the server counted for two prompts of different length (tokens); 0 where it doesn't count."""
        if 0 < tokens < more_tokens:
            self.words_per_token = (more_words - words) / (more_tokens - tokens)
            self.overhead_tokens = max(tokens - words / self.words_per_token, 0.0)

    def refine(self, words: int, tokens: int) -> None:
        """A prompt of the real length says more of the ratio than short ones."""
        if tokens > self.overhead_tokens:
            self.words_per_token = words / (tokens - self.overhead_tokens)

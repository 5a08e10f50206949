"""Prompts of a wished length for a server whose tokenizer nobody here knows: words, counted as the server counts."""

from __future__ import annotations

import random
from dataclasses import dataclass

WORDS = (
    "apple", "bread", "bridge", "candle", "cloud", "field", "forest", "garden", "glass", "green", "horse", "house",
    "light", "mirror", "music", "north", "paper", "river", "seven", "silver", "stone", "summer", "table", "train",
    "water", "window", "winter", "yellow",
)  # fmt: skip

# Of our words, as any tokenizer counts: a token for each byte on one side, one that knows our phrases on the other. A
# count outside of this isn't one of our prompt.
LEAST_WORDS_PER_TOKEN, MOST_WORDS_PER_TOKEN = 0.1, 4.0
# What a server may add to a prompt of ours beyond that: a system prompt, tools (tokens).
MOST_OVERHEAD_TOKENS = 4_096
ABSURD = 4.0  # times what was asked for: more is no count of what was sent or answered


@dataclass(slots=True)
class Prompts:
    """Texts in an order of words of their own for each request, so that no prefix cache answers.

    Attributes:
        run: what tells this run's prompts from an earlier run's, which the server may still hold.
        words_per_token: of our words, as the server counts; one until it has counted some.
        overhead_tokens: what the server adds to a prompt: the chat template, a token at the start.
        learnt: it was asked how it counts.
    """

    run: str
    words_per_token: float = 1.0
    overhead_tokens: float = 0.0
    learnt: bool = False

    def words_for(self, tokens: int) -> int:
        """Words of a prompt of about so many tokens: one at least, and never more than a tokenizer could need."""
        wished = round((tokens - self.overhead_tokens) * self.words_per_token)
        return min(max(wished, 1), round(tokens * MOST_WORDS_PER_TOKEN))

    def text(self, words: int, salt: str) -> str:
        """So many words; the same for the same run and salt."""
        return " ".join(random.Random(f"{self.run} {salt}").choices(WORDS, k=words))

    def learn(self, words: int, tokens: int, more_words: int, more_tokens: int) -> None:
        """What the server counted for two prompts of different length (tokens); 0 where it doesn't count.

        Counts that no tokenizer gives are passed over.
        """
        self.learnt = True
        if 0 < tokens < more_tokens:
            ratio = (more_words - words) / (more_tokens - tokens)
            overhead = max(tokens - words / ratio, 0.0)
            if _is_possible(ratio) and overhead <= MOST_OVERHEAD_TOKENS:
                self.words_per_token, self.overhead_tokens = ratio, overhead

    def refine(self, words: int, tokens: int) -> None:
        """A prompt of the real length says more of the ratio than short ones; what can't be isn't taken."""
        if tokens > self.overhead_tokens:
            ratio = words / (tokens - self.overhead_tokens)
            if _is_possible(ratio):
                self.words_per_token = ratio

    def believes(self, asked_tokens: int, tokens: int) -> bool:
        """Whether a server may well count so many tokens for the prompt that was made for `asked_tokens`."""
        words = self.words_for(asked_tokens)
        spare = self.overhead_tokens if self.learnt else MOST_OVERHEAD_TOKENS
        return words / MOST_WORDS_PER_TOKEN <= tokens <= ABSURD * max(asked_tokens, words) + spare


def _is_possible(words_per_token: float) -> bool:
    return LEAST_WORDS_PER_TOKEN <= words_per_token <= MOST_WORDS_PER_TOKEN

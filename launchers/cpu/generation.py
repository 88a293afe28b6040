"""Greedy generation by Hugging Face's ``generation_config`` keys, as MindSpeed-MM reads them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cpu.configuration import Configuration

PLACE = "/model/generation_config"


@dataclass
class Generated:
    """What was generated: ids, and the logarithm of the chance that each had when chosen."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


class Rules:
    """How the next token is chosen from its scores."""

    def __init__(self, configuration: Configuration, steps: int | None) -> None:
        def read(key, *default):
            return configuration.read(f"{PLACE}/{key}", *default)

        self.most = int(read("max_new_tokens")) if steps is None else steps
        self.least = int(read("min_new_tokens", None) or 0)
        self.penalty = float(read("repetition_penalty", 1.0))
        self.ngram = int(read("no_repeat_ngram_size", 0))
        self.suppressed = [int(number) for number in read("suppress_tokens", None) or ()]
        ends = read("eos_token_id", None)
        self.ends = [] if ends is None else [int(n) for n in np.atleast_1d(ends)]
        self.cached = bool(read("kv_cache", True)) and bool(read("use_cache", True))
        top, beams = int(read("top_k", 1)), int(read("num_beams", 1))
        if float(read("temperature", 0.0)) > 0 and top != 1:
            raise NotImplementedError(
                f"top_k {top}: on cpu the next token is the most likely one; set top_k to 1"
            )
        if beams != 1:
            raise NotImplementedError(f"num_beams {beams}: on cpu it must be 1")

    def scores(self, logits: np.ndarray, before: list[int], made: int) -> np.ndarray:
        """Return the scores of the next token after *before*, of which *made* were generated."""
        scores = logits.astype(np.float32)
        seen = np.unique(before)
        kept = scores[seen]
        factor = np.float32(self.penalty)
        scores[seen] = np.where(kept < 0, kept * factor, kept / factor)
        banned = list(self.suppressed)
        if made < self.least:
            banned += self.ends
        if self.ngram:
            head = before[len(before) - self.ngram + 1 :]
            banned += [
                before[start + self.ngram - 1]
                for start in range(len(before) - self.ngram + 1)
                if before[start : start + self.ngram - 1] == head
            ]
        scores[banned] = -np.inf
        return scores


def generate(rules: Rules, prompt: list[int], advance) -> Generated:
    """Generate behind *prompt*; ``advance(ids, new)`` gives logits of the token behind *ids*.

    *new* is how many of the last *ids* were not seen yet: all of them at first, and always where
    nothing is cached.
    """
    ids = list(prompt)
    found = Generated()
    new = len(ids)
    while len(found.ids) < rules.most:
        scores = rules.scores(advance(ids, new), ids, len(found.ids))
        chosen = int(scores.argmax())
        wide = scores.astype(np.float64)
        top = wide[chosen]
        found.logprobs.append(-float(np.log(np.exp(wide - top).sum())))
        found.ids.append(chosen)
        ids.append(chosen)
        if chosen in rules.ends:
            break
        new = 1 if rules.cached else len(ids)
    return found

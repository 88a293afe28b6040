"""A small tokenizer: special tokens, bytes, and words that the project's own questions use."""

from __future__ import annotations

import re

PAD, IM_START, IM_END, END, IMAGE_START, IMAGE, IMAGE_END, VIDEO = range(8)
SPECIALS = 16
"""Ids below this are special tokens; the 256 bytes follow, then the words."""
WORDS = tuple(
    """
    a above and are at background below blue bottom bright brightest by centre circle colour colours
    cross dark describe does first from green grey ground how image in is it keep larger left light
    many more most name near no not object of on one or photo picture place question red right see
    seen shape shapes show side small square than that the there these they this three to top two
    under user what where which white why with within words yes you assistant system helpful
""".split()  # noqa: SIM905 - a list would take a hundred lines
)
FIRST_WORD = SPECIALS + 256
IDS = {f" {word}": FIRST_WORD + index for index, word in enumerate(WORDS)}
TEXTS = {number: text for text, number in IDS.items()}
SIZE = FIRST_WORD + len(WORDS)
PIECES = re.compile(r" ?\w+|.", re.DOTALL)


def encoded(text: str) -> list[int]:
    """Return the ids of *text*; a word that is not known becomes its bytes."""
    ids: list[int] = []
    for piece in PIECES.findall(text):
        if piece in IDS:
            ids.append(IDS[piece])
        else:
            ids += [SPECIALS + byte for byte in piece.encode()]
    return ids


def decoded(ids: list[int]) -> str:
    """Return the text of *ids*; special tokens are left out, unknown ones shown by number."""
    content = b""
    for number in ids:
        if number >= FIRST_WORD:
            content += TEXTS.get(number, f"<{number}>").encode()
        elif number >= SPECIALS:
            content += bytes([number - SPECIALS])
    return content.decode(errors="replace")


def shown(ids: list[int]) -> str:
    """Return the text of *ids* as it may be printed: a log ends at no control character."""
    text = decoded(ids)
    return "".join(each if each.isprintable() or each == "\n" else "\ufffd" for each in text)


def special(name: str, number: int, vocabulary: int) -> int:
    """Return *number*, checked to be a special token's; ValueError else."""
    if vocabulary < SIZE:
        raise ValueError(f"vocab_size {vocabulary} is below the tokenizer's {SIZE}")
    if not 0 <= number < SPECIALS:
        raise ValueError(
            f"{name} is {number}; the cpu tokenizer's special tokens end at {SPECIALS}"
        )
    return number


def turn(role: str, content: list[int]) -> list[int]:
    """Return one turn of a conversation, in ChatML."""
    return [IM_START, *encoded(f"{role}\n"), *content, IM_END, *encoded("\n")]

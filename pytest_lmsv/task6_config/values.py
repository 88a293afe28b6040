"""How one value of Task6's configuration is understood: numbers as text, booleans as words."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Understand = Callable[[Any], Any]
"""Value -> what it means; raises ValueError whose text says what was expected."""

MODEL_ALIASES = {
    "internvl": "internvl3",
    "qwen2.5vl": "qwenvl",
    "qwen25vl": "qwenvl",
    "opensora1.2": "opensora",
    "cogvideox_i2v": "cogvideox",
}
COMPARE_ALIASES = {
    "pta_msa": "pta_msa",
    "pta-msa": "pta_msa",
    "msa": "pta_msa",
    "pta_pta": "pta_pta",
    "pta-pta": "pta_pta",
    "pta": "pta_pta",
    "msa_msa": "msa_msa",
    "msa-msa": "msa_msa",
}
_TRUE = {"1", "true", "yes", "on", "y"}
_FALSE = {"0", "false", "no", "off", "n"}


def whole(least: int, most: int | None = None) -> Understand:
    """A whole number within bounds; text that holds one is accepted."""
    expected = f"a whole number of at least {least}"
    if most is not None:
        expected = f"a whole number from {least} to {most}"

    def understand(value: Any) -> int:
        if isinstance(value, str):
            try:
                value = int(value.strip())
            except ValueError:
                raise ValueError(expected) from None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(expected)
        if value < least or (most is not None and value > most):
            raise ValueError(expected)
        return value

    return understand


def seconds(value: Any) -> float:
    """A number of seconds above 0; text that holds one is accepted."""
    expected = "a number of seconds above 0"
    if isinstance(value, str):
        try:
            value = float(value.strip())
        except ValueError:
            raise ValueError(expected) from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(expected)
    if not math.isfinite(value) or value <= 0:
        raise ValueError(expected)
    return int(value) if float(value).is_integer() else float(value)


def truth(value: Any) -> bool:
    """A boolean, or a word or number for one (1/true/yes/on/y, 0/false/no/off/n)."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if isinstance(value, int | str) and word in _TRUE:
        return True
    if isinstance(value, int | str) and word in _FALSE:
        return False
    raise ValueError("true or false")


def text(value: Any) -> str:
    """A text without control characters, stripped."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or any(ord(character) < 32 for character in value):
        raise ValueError("a text on one line")
    return value.strip()


def folder(value: Any) -> str:
    """A path as text, ``~`` expanded; whether it exists is not asked here."""
    given = text(value)
    return str(Path(given).expanduser()) if given.startswith("~") else given


def model(value: Any) -> str:
    """Model names, commas between several, Task6's aliases resolved; unknown names pass."""
    names = [name.strip().lower() for name in text(value).split(",")]
    if not all(names):
        raise ValueError("a model's name such as cogvideox")
    return ",".join(MODEL_ALIASES.get(name, name) for name in names)


def compare(value: Any) -> str:
    """A compare mode under any of its names in Task6."""
    try:
        return COMPARE_ALIASES[text(value).lower()]
    except KeyError:
        raise ValueError("pta_msa, pta_pta or msa_msa") from None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that *name* most likely stands for, case ignored."""
    upper = {candidate.upper(): candidate for candidate in known}
    close = difflib.get_close_matches(name.upper(), upper, n=1, cutoff=0.6)
    return upper[close[0]] if close else None

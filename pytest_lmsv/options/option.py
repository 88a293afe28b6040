"""One option: its flags, its ini twin, its meaning and what a value must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Option:
    """One setting: its flags on the command line (none: ini only), its ini twin and its meaning."""

    field: str
    parse: Callable[[Any], Any]
    default: Any
    help: str
    flags: tuple[str, ...] = ()
    metavar: str = ""
    ini_type: Literal["string", "args", "paths", "bool", "int", "float"] = "string"
    ini_only: bool = False
    switch: bool = False

    @property
    def ini(self) -> str:
        """The name in an ini file, which is also the option's name inside pytest."""
        return f"lmsv_{self.field}"

    @property
    def flag(self) -> str:
        """The name that messages use for the command line."""
        return (self.flags or (f"--{self.ini.replace('_', '-')}",))[0]


def option(field: str, parse: Callable[[Any], Any], default: Any, help: str, **more: Any) -> Option:
    """Return an option; its flag is --lmsv-FIELD unless *more* names others."""
    if not more.get("ini_only"):
        more.setdefault("flags", (f"--lmsv-{field.replace('_', '-')}",))
    return Option(field, parse, default, help, **more)


def number(
    field: str, parse: Callable[[Any], Any], default: float | None, help: str, metavar: str
) -> Option:
    """Return an option that is a number."""
    return option(field, parse, default, help, metavar=metavar, ini_type="float")

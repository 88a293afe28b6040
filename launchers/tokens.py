"""Prints the options of an args.json as command-line tokens, one a line (for launchers by hand)."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def tokens(args: dict[str, object]) -> list[str]:
    """Return the tokens: true is a flag, false and null are absent."""
    found: list[str] = []
    for name, value in args.items():
        if value is True:
            found.append(f"--{name}")
        elif value is not False and value is not None:
            found += [f"--{name}", str(value)]
    return found


if __name__ == "__main__":
    print("\n".join(tokens(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))

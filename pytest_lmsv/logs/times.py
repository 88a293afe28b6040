"""Times in log lines, only to put lines in order."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[-T_ ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")


def time_in(texts: Sequence[str]) -> float | None:
    """The first time of day with a date in *texts*, in seconds; only for ordering."""
    for text in texts:
        match = _TIME.search(text)
        if match:
            year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
            days = year * 372 + month * 31 + day
            whole = ((days * 24 + hour) * 60 + minute) * 60 + second
            return whole + float(f"0.{match[7] or 0}")
    return None

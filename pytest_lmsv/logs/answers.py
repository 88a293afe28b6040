"""What is said after an error that was survived: a retry, another way. And what says it was not."""

from __future__ import annotations

import re

_RETRY = re.compile(
    r"\bretry(?:ing)?\b|\bretries\b|\breconnect|\battempt \d{1,4}/\d{1,4}|\bfall(?:ing|s)? ?back\b"
    r"|\bfallback\b|\binstead\b|重试|回退",
    re.IGNORECASE,
)
_PROMISE = re.compile(r"\bwill (?:be )?retr|\bretrying\b|\bfalling back\b|重试", re.IGNORECASE)
_HOPE = (
    *("etry", "ETRY", "etri", "econnect", "ttempt", "TTEMPT", "all back", "alling back"),
    *("alls back", "allback", "nstead", "重试", "回退"),
)
_EXIT_WORDS = ("xit", "XIT", "eturn", "ETURN", "返回码", "退出码")
# Too common for a line of any kind: they count where the line is logged as information or warning.
_MILD = re.compile(
    r"\bnot (?:available|found|installed)\b|\bunavailable\b|\bskip(?:ping|ped)?\b"
    r"|\bignor(?:ed|ing)\b|\bcontinu(?:e|es|ing) without\b|\bdisabl(?:ed|ing)\b"
    r"|\busing .{1,60} implementation\b"
    r"|忽略|跳过|改用|降级",
    re.IGNORECASE,
)
_GIVEN_UP = re.compile(
    r"giv(?:e|ing) up|gave up|exhausted|no more retries|attempt (\d{1,4})/\1 fail|max\w* retries",
    re.IGNORECASE,
)
_EXITED = re.compile(
    r"(?:\bexit(?:ed)?(?: with)?(?: code| status)?|\breturn(?:ed)?(?: code)?|non-zero exit status"
    r"|返回码|退出码)\s?[:=]?\s?-?[1-9]\d{0,4}\b",
    re.IGNORECASE,
)


def promises(text: str) -> bool:
    """Whether a log line announces another try after the error that it is about to show."""
    return any(word in text for word in _HOPE) and bool(_PROMISE.search(text))


def answers(text: str, level: str) -> bool:
    """Whether a line, logged at *level*, tells of another try or another way after an error."""
    if text[:1] in {" ", "\t"} or _GIVEN_UP.search(text):  # advice inside an error block
        return False
    if any(word in text for word in _HOPE) and _RETRY.search(text):
        return True
    return level in {"info", "warning"} and bool(_MILD.search(text[:400]))


def exits(text: str) -> bool:
    """Whether a line tells that the process ended with an error: what follows is a wrapper's."""
    return any(word in text for word in _EXIT_WORDS) and bool(_EXITED.search(text))

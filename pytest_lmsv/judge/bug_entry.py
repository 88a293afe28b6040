"""The entry of known_bugs.yaml that would cover a finding (DESIGN 5.5), ready to paste."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from pytest_lmsv.judge import known_bugs
from pytest_lmsv.judge.covering import bounded
from pytest_lmsv.judge.findings import Finding
from pytest_lmsv.judge.known_bugs import KnownBug
from pytest_lmsv.judge.signature import Signature, verdict_keys
from pytest_lmsv.records import RunError

_VARIABLE = re.compile(r"\s*(?:#|<path>|<shape>|<url>)\s*")
ANY_MUTATION = "# Covers every mutation of the model, up to the limit.\n"
_LEAST_LETTERS, _OWN_LETTERS = 8, 30
"""A message with fewer letters matches too much alone; with fewer than the second, as ``list index
out of range``, other causes have it too, and the frame is named as well."""


def entry(
    findings: Sequence[Finding],
    signature: Signature,
    *,
    title: str,
    model: str,
    stack: str,
    device: str,
    since: str = "",
    fixes_off: bool = False,
) -> str | None:
    """Return the YAML of an entry that covers all of *findings*, which have one *signature*.

    A verdict's entry is for mutations of the signature's keys; without any it says that it is for
    all. *fixes_off*: seen on cpu without the adapter's fixes, and expected only there.
    None where no entry can: a loss that is NaN, a figure that was not compared, a lost edit.
    """
    values: dict[str, Any] = {
        "id": f"{model}-{stack}-{findings[0].name}-{signature.id}",
        "title": title,
        "models": [model],
        "stack": stack,
        "device": device,
    }
    errors = [finding.error for finding in findings if finding.error is not None]
    if errors:
        pattern = next(filter(None, (_if_matches(p, errors) for p in _patterns(signature))), None)
        if pattern is None:
            return None
        values["signature"] = pattern
    else:
        limit = bound(findings)
        if limit is None:
            return None
        values |= {"verdict": findings[0].name, "limit": limit}
        keys = list(verdict_keys(signature))
        values |= {"keys": keys} if keys else {}
    if fixes_off:
        values["when"] = {"adapter_fixes": "off"}
    values["expected"] = True
    if since:
        values["since"] = since
    everywhere = "verdict" in values and "keys" not in values
    return (ANY_MUTATION if everywhere else "") + as_yaml(values)


def bound(findings: Iterable[Finding]) -> float | None:
    """Return a `limit` a tenth above all of *findings*, None where one has no figure."""
    found = [bounded(f.verdict) if f.verdict is not None else math.inf for f in findings]
    greatest = max(found, default=math.inf)
    if not 0 < greatest < math.inf:
        return None
    wanted = float(f"{greatest * 1.1:.12g}")  # 50 x 1.1 is a little more than 55
    step = 10.0 ** (math.floor(math.log10(wanted)) - 1)
    return float(f"{math.ceil(wanted / step) * step:.3g}")


def as_yaml(values: dict[str, Any]) -> str:
    """Return *values* as one entry of the list that known_bugs.yaml is."""
    import yaml

    text: str = yaml.safe_dump(
        [values], sort_keys=False, allow_unicode=True, default_flow_style=False, width=10_000
    )
    return text


def _patterns(signature: Signature) -> Iterable[str]:
    """Yield regular expressions from the parts of an error's *signature*, the best first."""
    _, _, type_, message, code, detail, frame = signature.parts
    named = code.partition(" ")[0]
    if named and detail:
        yield f"{named}.*?{_expression(detail)}"
    letters = sum(map(str.isalpha, message))
    said = f"{re.escape(type_)}: {_expression(message)}"
    if frame and letters < _OWN_LETTERS:
        file, _, function = frame.rpartition(":")
        yield f'(?s){said}.*{re.escape(file)}", line \\d+, in {re.escape(function)}'
    if letters >= _LEAST_LETTERS:
        yield _expression(message)
        yield said
    if type_.startswith("SIG"):  # the end by a signal is all there is to say
        yield f"{re.escape(type_)}: "


def _expression(text: str) -> str:
    """Return *text*, a normalised one, as a regular expression for what it was made from."""
    return ".*?".join(map(_literal, _VARIABLE.split(text)))


def _literal(text: str) -> str:
    # re.escape would escape spaces, commas and hyphens too, and hide the words.
    return re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", text)


def _if_matches(pattern: str, errors: Iterable[RunError]) -> str | None:
    bug = KnownBug("", "", "msa", True, signature=re.compile(pattern))
    if re.search(pattern, ""):
        return None
    return pattern if all(known_bugs.match([bug], error) is not None for error in errors) else None

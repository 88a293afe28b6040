"""The cells of one row of the HTML report.

pytest-html escapes neither cells nor test ids nor links: everything that gets into one is escaped
here. It stores each row as JSON in an attribute, where a quote takes six bytes and a sortable
cell is kept twice, so that attributes have no quotes (their values need none) and a sort key is a
comment.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path
from urllib.parse import quote

import pytest

from pytest_lmsv.campaign.place import Place
from pytest_lmsv.campaign.sides import Side
from pytest_lmsv.report.properties import DIFFERENCE

FIGURE = {**DIFFERENCE, "drift": "ratio"}
"""Of each verdict with a column, the property that holds its figure."""
VERDICT_COLUMNS = tuple(FIGURE)
ALWAYS = ("accuracy", "memory", "performance")
"""The verdicts that every report has a column of; others only where a row has one."""
LONGEST = 300
"""Of a text in a cell, in characters: the details have all of it."""


def texts(report: pytest.TestReport) -> dict[str, str]:
    """Return the properties of *report* by name; a report of a failed collection has none."""
    return {name: str(value) for name, value in getattr(report, "user_properties", ())}


def header_cells(verdicts: Iterable[str] = VERDICT_COLUMNS) -> list[str]:
    """Return the header of our columns."""
    columns = [_header(f"lmsv_{name}", name.capitalize()) for name in verdicts]
    return [
        _header("lmsv_model", "Model"),
        _header("lmsv_iteration", "Iteration"),
        "<th>Mutation</th>",
        *columns,
        "<th>Finding</th>",
    ]


def _header(name: str, text: str) -> str:
    # pytest-html reads a column's name from the class of its cells by `col-(\w+)`: no hyphens.
    return f'<th class="sortable" data-column-type="{name}">{text}</th>'


def row_cells(
    test_id: str, values: Mapping[str, str], verdicts: Iterable[str] = VERDICT_COLUMNS
) -> list[str]:
    """Return our cells for a report with the properties *values*; empty ones where it has none.

    The first takes the place of pytest-html's own, whose text becomes the name of the row.
    """
    model, number = values.get("lmsv.model", ""), values.get("lmsv.iteration", "")
    name = anchor(model, number) if number else ""
    link = f"<!--{number.zfill(6)}--><a href=#{name}>{escape(number)}</a>"
    edits = values.get("lmsv.mutation", "")
    cells = [
        f"<td class=col-testId>{name or escape(test_id)}</td>",
        f"<td class=col-lmsv_model>{escape(model)}</td>",
        f"<td class=col-lmsv_iteration>{link if number else ''}</td>",
        f"<td class=col-lmsv_mutation>{'<br>'.join(map(_text, edits.split('; ')))}</td>",
    ]
    for verdict in verdicts:
        text = verdict_cell(values, verdict)
        kind = text.split(" ")[0].replace("N/A", "NA").lower()
        mark = f" data-verdict={quote(kind)}" if kind else ""
        key = sort_key(values.get(f"lmsv.{verdict}.{FIGURE[verdict]}", ""), kind)
        cells.append(f"<td class=col-lmsv_{verdict}{mark}>{key}{escape(text)}</td>")
    cells.append(f"<td class=col-lmsv_finding>{_text(values.get('lmsv.finding', ''))}</td>")
    return cells


def anchor(model: str, number: int | str) -> str:
    """Return the name in the page of an iteration's row, which links jump to."""
    return quote(f"{model}-iter{number}", safe="")


def _text(value: str) -> str:
    return escape(value if len(value) <= LONGEST else f"{value[:LONGEST]}…")


def sort_key(difference: str, kind: str) -> str:
    """Return a comment that sorts, as text, as the number *difference* does.

    An NG without a figure (a NaN loss) comes after every number, an N/A after that.
    """
    value = float(difference or "nan")
    if math.isnan(value):
        return "<!--z-->" if kind == "ng" else ""
    (bits,) = struct.unpack(">Q", struct.pack(">d", value))
    # Of doubles the bits sort as the numbers do, once the sign is turned (IEEE 754).
    bits ^= (1 << 64) - 1 if bits >> 63 else 1 << 63
    return f"<!--{bits >> 32:08x}-->"


def verdict_cell(values: Mapping[str, str], name: str) -> str:
    """Return a verdict in Task6's words, as ``OK (diff=1.73%)``, ``NG (diff=+1198.40ms)``."""
    result = values.get(f"lmsv.{name}", "")
    difference = values.get(f"lmsv.{name}.{FIGURE[name]}", "")
    if not difference:
        return result
    if name == "drift":
        return f"{result} ({float(difference):.3g} x limit)"
    if name == "output" and values.get("lmsv.output.unit") == "tokens":
        return f"{result} (diff={float(difference):.0f} tokens)"
    if name in ("accuracy", "output"):
        return f"{result} (diff={100 * float(difference):.2f}%)"
    return f"{result} (diff={float(difference):+.2f}{'MB' if name == 'memory' else 'ms'})"


def relative_url(target: Path, page: Path) -> str:
    """Return *target* as a link in the file *page*, in characters that need no quotes."""
    return quote(os.path.relpath(target, page.parent), safe="/")


def links(place: Place, sides: Iterable[Side], page: Path) -> Iterator[str]:
    """Yield links to what is stored of the iteration in *place*: nothing of it is embedded."""
    found = [(f"{side.label} log", place.log(side)) for side in sides]
    found += [
        ("documents", place.inputs / "mutation_config.json"),
    ]
    samples = sorted((place.folder / "samples").glob("*/*"))
    found += [(f"{path.parent.name}/{path.name}", path) for path in samples]
    found += [("report", place.folder / "report.md"), ("folder", place.folder)]
    for name, path in found:
        if path.exists():
            yield f"<a href={relative_url(path, page)}>{escape(name)}</a>"

"""`lmsv history`: the campaigns of an output folder over time, as table and plot."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_lmsv import data
from pytest_lmsv.campaign import archive, stored_campaign
from pytest_lmsv.campaign.summary import statistics
from pytest_lmsv.files import write_whole
from pytest_lmsv.judge.history import LEAST, MOVED, Figure, Place, place
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.report import history_plot
from pytest_lmsv.report.marks import inline, ranges, table

SAME = ("device", "compare", "steps", "adapter_fixes")
"""Settings that must be equal for two campaigns to be one history."""
COLUMNS: Mapping[str, tuple[str, float, str]] = {
    "loss_diff": ("loss", 100.0, "%"),
    "memory_diff_rel": ("memory", 100.0, "%"),
    "time_diff_rel": ("time", 100.0, "%"),
    "output_diff": ("output", 1.0, ""),
    "drift_ratio": ("drift", 1.0, "x"),
}
"""Differences: their title, and the factor and unit that they are shown with."""
UNJUDGED = ("memory_diff_rel", "time_diff_rel")
EXIT_MOVED = 1


@dataclass(frozen=True)
class Point:
    """One model in one campaign."""

    campaign: str
    model: str
    same: tuple[tuple[str, Any], ...]
    figures: Mapping[str, Figure]
    valid_rate: float | None
    msa_rate: float | None
    issue_rate: float | None


@dataclass(frozen=True)
class Line:
    """A history: the points of one model under equal settings, oldest first."""

    model: str
    same: tuple[tuple[str, Any], ...]
    points: tuple[Point, ...]

    @property
    def title(self) -> str:
        """The model and what its campaigns have in common."""
        return f"{self.model} ({', '.join(f'{name} {value}' for name, value in self.same)})"

    def place(self, number: int, name: str) -> Place | None:
        """Return where point *number* lies among those before it."""
        now = self.points[number].figures.get(name)
        found = (point.figures.get(name) for point in self.points[:number])
        earlier = [figure for figure in found if figure is not None]
        return None if now is None else place(earlier, now, LEAST[name])

    def left(self, number: int, name: str) -> Place | None:
        """Return where point *number* lies, if it left what was before; None where it did not.

        On cpu memory and time never did: there they tell of the machine.
        """
        if name in UNJUDGED and dict(self.same).get("device") == "cpu":
            return None
        where = self.place(number, name)
        return where if where is not None and where.moved else None

    def moved(self, number: int) -> Iterator[str]:
        """Yield a sentence for each difference of point *number* that left its history."""
        for name, (title, factor, unit) in COLUMNS.items():
            where = self.left(number, name)
            if where is not None:
                now = self.points[number].figures[name].mean
                yield (
                    f"{title} difference {factor * now:.3g}{unit and ' ' + unit}, before "
                    f"{factor * where.centre:.3g}{unit and ' ' + unit}: {where.units:+.1f} spreads"
                )


def main(words: Sequence[str]) -> int:
    """Print and write the history; with --check 1 where the newest campaign of a line moved."""
    parser = argparse.ArgumentParser(
        prog="lmsv history",
        description="The campaigns of an output folder over time: differences of loss, memory and "
        f"time, and rates. One whose mean is more than {MOVED:g} spreads away from those before "
        "it is flagged.",
    )
    parser.add_argument("folders", nargs="*", metavar="DIR", help="output folders (output)")
    parser.add_argument("--model", action="append", metavar="NAME", help="only this model")
    parser.add_argument("--to", metavar="DIR", help="where history.md and plots go (DIR/history)")
    parser.add_argument(
        "--check", action="store_true", help="exit status 1 where the newest campaign moved"
    )
    options = parser.parse_args(words)
    given = options.folders or [os.environ.get("LMSV_OUTPATH") or "output"]
    folders = [Path(name).expanduser() for name in given]
    points, damaged = read(folders)
    if options.model:
        points = [point for point in points if point.model in options.model]
    found = lines(points)
    target = Path(options.to).expanduser() if options.to else folders[0] / "history"
    text = page(found, damaged)
    print(text, end="")
    try:
        write_whole(target / "history.md", text)
        for line in found:
            write_whole(target / history_plot.file_name(line.title), history_plot.draw(line))
    except OSError as problem:
        raise InputProblem(
            f"--to: {target} can't be written ({problem.strerror}); name another folder"
        ) from None
    print(f"\nwritten: {target / 'history.md'}")
    moved = any(next(line.moved(len(line.points) - 1), None) for line in found)
    return EXIT_MOVED if options.check and moved else 0


def read(folders: Iterable[Path]) -> tuple[list[Point], list[str]]:
    """Return the points of all campaigns in *folders*, oldest first, and a line for each damaged.

    Raises InputProblem for a folder that is none.
    """
    points: list[Point] = []
    damaged: list[str] = []
    for folder in folders:
        if not folder.is_dir():
            raise InputProblem(f"lmsv history: {folder} is not a folder; name an output folder")
        own = [folder] if (folder / "campaign.json").exists() else sorted(folder.iterdir())
        for campaign in own:
            if not campaign.is_dir() or not looks_like_one(campaign):
                continue
            try:
                points += list(_points(campaign))
                damaged += _left_out(campaign)
            except (InputProblem, OSError) as problem:
                damaged.append(f"{campaign.name}: damaged: {problem}")
    return sorted(points, key=lambda point: point.campaign), damaged


def looks_like_one(folder: Path) -> bool:
    """Return whether *folder* is, or was meant to be, a campaign's."""
    return (folder / "campaign.json").exists() or (folder / "iters").is_dir()


def _points(campaign: Path) -> Iterator[Point]:
    stored = stored_campaign.read(campaign, "lmsv history")
    same = tuple((name, stored.settings.get(name)) for name in SAME)
    summed = _summed(campaign)
    for model in stored.models:
        found = summed.get(model) if isinstance(summed.get(model), Mapping) else None
        if found is None or not isinstance(found.get("differences"), Mapping):
            records = [r for r in archive.stored_iterations(campaign) if r.model == model]
            found = statistics(records)
        try:
            figures = {
                name: Figure(int(value["n"]), float(value["mean"]), _number(value.get("stdev")))
                for name, value in found["differences"].items()
                if name in COLUMNS and value.get("n")
            }
            rates = [_number(found.get(name)) for name in ("valid_rate", "msa_rate", "issue_rate")]
        except (TypeError, KeyError, ValueError, AttributeError) as problem:
            raise InputProblem(
                f"{campaign / 'data' / 'summary.json'}: no statistics ({problem}); write them "
                "again with `lmsv analyze`"
            ) from None
        if found.get("iterations"):
            yield Point(campaign.name, model, same, figures, *rates)


def _left_out(campaign: Path) -> Iterator[str]:
    """Yield a sentence for each model with iterations that the summary could not read."""
    for model, found in _summed(campaign).items():
        numbers = found.get("damaged") if isinstance(found, Mapping) else None
        if isinstance(numbers, list) and numbers:
            told = ranges(number for number in numbers if isinstance(number, int))
            yield f"{campaign.name}: {model}: damaged and in no figure: iteration {told}"


def _summed(campaign: Path) -> Mapping[str, Any]:
    path = campaign / "data" / "summary.json"
    if not path.is_file():
        return {}
    value = data.read_json(path)
    found = value.get("statistics") if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def lines(points: Iterable[Point]) -> list[Line]:
    """Return the histories that *points*, oldest first, make."""
    groups: dict[tuple[str, tuple[tuple[str, Any], ...]], list[Point]] = {}
    for point in points:
        groups.setdefault((point.model, point.same), []).append(point)
    ordered = sorted(groups.items(), key=lambda item: (item[0][0], str(item[0][1])))
    return [Line(model, same, tuple(found)) for (model, same), found in ordered]


def page(found: Sequence[Line], damaged: Sequence[str]) -> str:
    """Return history.md."""
    text = ["# History", ""]
    for line in found:
        names = [name for name in COLUMNS if any(name in p.figures for p in line.points)]
        header = ["campaign", *map(_header, names), "valid", "MSA ran", "issues", "moved"]
        text += [f"## {inline(line.title)}", "", *table(header, _rows(line, names)), ""]
        text += [f"![{inline(line.model)}]({history_plot.file_name(line.title)})", ""]
    if not found:
        text += ["No finished campaign.", ""]
    text += [f"- {inline(sentence)}" for sentence in damaged]
    return "\n".join(text).rstrip("\n") + "\n"


def _header(name: str) -> str:
    title, _, unit = COLUMNS[name]
    return f"{title} difference" + (f" ({unit})" if unit else "")


def _rows(line: Line, names: Sequence[str]) -> Iterator[list[str]]:
    for number, point in enumerate(line.points):
        cells = []
        for name in names:
            figure, factor = point.figures.get(name), COLUMNS[name][1]
            cells.append("N/A" if figure is None else f"{factor * figure.mean:.4g}")
        rates = (point.valid_rate, point.msa_rate, point.issue_rate)
        cells += ["N/A" if rate is None else f"{100 * rate:.0f} %" for rate in rates]
        moved = inline("; ".join(line.moved(number))) or "-"
        yield [inline(point.campaign), *cells, moved]

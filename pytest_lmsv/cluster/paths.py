"""Which path on a node is which path here: Task6's mapping, with its edge cases decided.

Only configured roots are mapped. A pair of roots (``/data/ws/MM`` here, ``/mnt/ws/MM`` there) has a
longest common suffix (``ws/MM``); what is left gives the rule (``/data`` -> ``/mnt``), and the rule
reaches as far as the root: ``/data/dataset`` beside it stays as it is. The longest root wins, names
are compared whole, and what no root holds is the same path on all machines.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from pytest_lmsv.problems import InputProblem

CODE = "MindSpeed-MM"


@dataclass(frozen=True, slots=True)
class Rule:
    """Paths in ``reach`` have ``remote`` on the node where they have ``local`` here."""

    reach: PurePosixPath
    local: PurePosixPath
    remote: PurePosixPath

    @property
    def root(self) -> PurePosixPath:
        """Where ``reach`` lies on the node."""
        return self.remote / self.reach.relative_to(self.local)

    def __str__(self) -> str:
        return f"{self.reach} -> {self.root}"


@dataclass(frozen=True, slots=True)
class PathMap:
    """The rules of one node, the longest reach first."""

    rules: tuple[Rule, ...] = ()

    def on_node(self, path: str | os.PathLike[str]) -> PurePosixPath:
        """Where *path* (absolute, as it is here) lies on the node; unchanged without a rule."""
        found = _absolute(os.fspath(path), "a path to map")
        for rule in self.rules:
            if found.is_relative_to(rule.reach):
                return rule.remote / found.relative_to(rule.local)
        return found


def path_map(
    roots: Iterable[tuple[str, str]],
    stated: Iterable[tuple[str, str]] = (),
    *,
    resolve: Callable[[str], str] = os.path.realpath,
) -> PathMap:
    """The mapping of *roots* (here, on the node); *stated* pairs (PATH_MAP) win, taken as stated.

    A root here that is a symlink maps under both its names: paths of a session are resolved, those
    of a configuration are not. Raises InputProblem for a path that is not absolute.
    """
    found: dict[PurePosixPath, Rule] = {}
    pairs = [*((pair, True) for pair in stated), *((pair, False) for pair in roots)]
    for (here, there), exact in pairs:
        local = _absolute(here, "a root here")
        remote = _absolute(there, "a root on a node")
        for name in dict.fromkeys((local, _absolute(resolve(str(local)), "a root here"))):
            # Of two pairs with one root here, the first counts: PATH_MAP, then the others.
            rule = rule_of(name, remote, exact=exact)
            found.setdefault(rule.reach, rule)
    ordered = sorted(found.values(), key=lambda rule: (-len(rule.reach.parts), str(rule.reach)))
    return PathMap(tuple(ordered))


def rule_of(local: PurePosixPath, remote: PurePosixPath, *, exact: bool = False) -> Rule:
    """The rule of one pair of roots; *exact*: of no others than these.

    Else MindSpeed-MM may be named by its code folder on one machine and by the workspace above it
    on the other: then the code folder of that workspace is meant.
    """
    is_code = [path.name.lower() == CODE.lower() for path in (local, remote)]
    if exact:
        pass
    elif is_code == [True, False]:
        remote /= CODE
    elif is_code == [False, True]:
        remote = remote.parent
    reach = local
    while local.name and local.name == remote.name:
        local, remote = local.parent, remote.parent
    return Rule(reach, local, remote)


def _absolute(path: str, what: str) -> PurePosixPath:
    if not path.startswith("/"):
        raise InputProblem(f"{what} must be absolute, found {path!r}; write it out from /")
    # normpath keeps two leading slashes, which POSIX allows to mean something else.
    return PurePosixPath("/" + posixpath.normpath(path).lstrip("/"))

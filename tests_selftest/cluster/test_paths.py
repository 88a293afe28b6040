"""Which path on a node is which path here: every edge case that the predecessor got wrong."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_lmsv.cluster.paths import path_map, rule_of
from pytest_lmsv.problems import InputProblem


def mapped(path: str, *roots: tuple[str, str], stated: tuple[tuple[str, str], ...] = ()) -> str:
    return str(path_map(roots, stated, resolve=lambda name: name).on_node(path))


@pytest.mark.parametrize(
    ("local", "remote", "rule"),
    [
        ("/a/ws/MM", "/b/ws/MM", ("/a", "/b")),
        ("/a/mm", "/b/c/mm", ("/a", "/b/c")),
        ("/a/x", "/b/y", ("/a/x", "/b/y")),
        ("/ws/MM", "/b/ws/MM", ("/", "/b")),
        ("/b/ws/MM", "/ws/MM", ("/b", "/")),
        ("/a", "/ab/x", ("/a", "/ab/x")),
        ("/a/b", "/a/b", ("/", "/")),
        ("/", "/b", ("/", "/b")),
    ],
)
def test_the_longest_common_suffix_is_dropped(
    local: str, remote: str, rule: tuple[str, str]
) -> None:
    found = rule_of(PurePosixPath(local), PurePosixPath(remote))
    assert (str(found.local), str(found.remote)) == rule
    assert str(found.reach) == local


@pytest.mark.parametrize(
    ("path", "roots", "expected"),
    [
        pytest.param("/a/ws/MM/x", [("/a/ws/MM", "/b/ws/MM")], "/b/ws/MM/x", id="in the root"),
        pytest.param("/a/ws/MM", [("/a/ws/MM", "/b/ws/MM")], "/b/ws/MM", id="the root itself"),
        pytest.param("/ws/MM/x", [("/ws/MM", "/b/ws/MM")], "/b/ws/MM/x", id="empty prefix here"),
        pytest.param("/b/ws/MM/x", [("/b/ws/MM", "/ws/MM")], "/ws/MM/x", id="empty prefix there"),
        pytest.param("/a/x/f", [("/a/x", "/b/y")], "/b/y/f", id="no common suffix"),
        pytest.param("/a/mm/f", [("/a/mm", "/b/MM")], "/b/MM/f", id="case differs"),
        pytest.param(
            "/data/dataset",
            [("/data/ws/MM", "/mnt/ws/MM")],
            "/data/dataset",
            id="over-broad prefix",
        ),
        pytest.param(
            "/data/ws/other",
            [("/data/ws/MM", "/mnt/ws/MM")],
            "/data/ws/other",
            id="beside the root",
        ),
        pytest.param("/ab/x", [("/a", "/b")], "/ab/x", id="component boundary"),
        pytest.param("/a/ws/MM2/x", [("/a/ws/MM", "/b/ws/MM")], "/a/ws/MM2/x", id="longer name"),
        pytest.param("/else/x", [("/a", "/b")], "/else/x", id="no root holds it"),
        pytest.param(
            "/w/mm/x", [("/w", "/r"), ("/w/mm", "/code/mm")], "/code/mm/x", id="longest root wins"
        ),
        pytest.param(
            "/w/mm/x", [("/w/mm", "/code/mm"), ("/w", "/r")], "/code/mm/x", id="in either order"
        ),
        pytest.param(
            "/w/mm/x", [("/w", "/r"), ("/w/mm", "/w/mm")], "/w/mm/x", id="an equal root stays"
        ),
        pytest.param("/w/x", [("/w", "/first"), ("/w", "/second")], "/first/x", id="first counts"),
        pytest.param(
            "/a/ws/MindSpeed-MM/x",
            [("/a/ws/MindSpeed-MM", "/b/ws")],
            "/b/ws/MindSpeed-MM/x",
            id="code folder here, workspace there",
        ),
        pytest.param(
            "/a/dataset",
            [("/a/MindSpeed-MM", "/b")],
            "/a/dataset",
            id="code folder reaches no further",
        ),
        pytest.param(
            "/a/ws/MindSpeed/x",
            [("/a/ws", "/b/w/MindSpeed-MM")],
            "/b/w/MindSpeed/x",
            id="workspace here, code folder there",
        ),
        pytest.param(
            "/a/mindspeed-mm/x",
            [("/a/mindspeed-mm", "/b/MindSpeed-MM")],
            "/b/MindSpeed-MM/x",
            id="code folders in two spellings",
        ),
        pytest.param("/a/ws/../ws/f", [("/a/ws/", "/b//ws/.")], "/b/ws/f", id="untidy paths"),
        pytest.param("//a/f", [("/a", "/b")], "/b/f", id="two leading slashes"),
    ],
)
def test_edge_cases(path: str, roots: list[tuple[str, str]], expected: str) -> None:
    assert mapped(path, *roots) == expected


def test_a_path_does_not_climb_out_of_a_root() -> None:
    assert mapped("/a/ws/../../etc/passwd", ("/a/ws", "/b/ws")) == "/etc/passwd"


def test_path_map_wins_over_the_roots() -> None:
    stated = (("/data", "/mnt/data"), ("/a/ws", "/z"))
    assert mapped("/data/set", ("/a/ws", "/b/ws"), stated=stated) == "/mnt/data/set"
    assert mapped("/a/ws/f", ("/a/ws", "/b/ws"), stated=stated) == "/z/f"


@pytest.mark.parametrize(
    ("here", "there"),
    [("/data/ws/MindSpeed-MM", "/opt/mm_code"), ("/data/ws", "/opt/ws/MindSpeed-MM")],
)
def test_pairs_of_path_map_are_taken_as_stated(here: str, there: str) -> None:
    assert mapped(f"{here}/f", stated=((here, there),)) == f"{there}/f"


def test_a_symlink_maps_under_both_its_names(tmp_path: Path) -> None:
    (tmp_path / "disk3" / "ws").mkdir(parents=True)
    (tmp_path / "ws").symlink_to(tmp_path / "disk3" / "ws")
    found = path_map([(str(tmp_path / "ws"), "/remote/ws")])
    assert str(found.on_node(tmp_path / "ws" / "f")) == "/remote/ws/f"
    assert str(found.on_node((tmp_path / "ws").resolve() / "f")) == "/remote/ws/f"


@pytest.mark.parametrize("pair", [("ws", "/b"), ("/a", "b"), ("/a", "~/b"), ("", "/b")])
def test_a_root_must_be_absolute(pair: tuple[str, str]) -> None:
    with pytest.raises(InputProblem, match="must be absolute"):
        path_map([pair])


NAMES = st.sampled_from(["a", "ab", "ws", "MM", "MindSpeed-MM", "data", "é x"])
PATHS = st.lists(NAMES, max_size=5).map(lambda parts: "/" + "/".join(parts))
ROOTS = st.lists(st.tuples(PATHS, PATHS), max_size=5)


@given(ROOTS, PATHS)
def test_a_path_in_no_root_is_the_same_everywhere(roots: list[tuple[str, str]], path: str) -> None:
    inside = any(PurePosixPath(path).is_relative_to(local) for local, _ in roots)
    assume(not inside)
    assert mapped(path, *roots) == path


@given(ROOTS, PATHS, NAMES)
def test_what_lies_below_a_path_lies_below_it_on_the_node(
    roots: list[tuple[str, str]], path: str, name: str
) -> None:
    deeper = path_map(roots, resolve=lambda p: p).on_node(f"{path}/{name}")
    own_root = any(str(PurePosixPath(path) / name) == local for local, _ in roots)
    assume(not own_root)
    assert deeper == PurePosixPath(mapped(path, *roots)) / name


@given(ROOTS.filter(bool), st.data())
def test_the_longest_root_that_holds_a_path_decides(
    roots: list[tuple[str, str]], data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from([local for local, _ in roots]))
    found = path_map(roots, resolve=lambda p: p)
    rule = next(r for r in found.rules if PurePosixPath(path).is_relative_to(r.reach))
    assert str(rule.reach) == path
    assert found.on_node(path) == rule.root


@given(PATHS, PATHS, st.lists(NAMES, max_size=3))
def test_the_mapping_there_and_back_is_the_same_path(
    local: str, remote: str, below: list[str]
) -> None:
    path = str(PurePosixPath(local, *below))
    there = mapped(path, (local, remote))
    assume(PurePosixPath(local).name.lower() != "mindspeed-mm")
    assume(PurePosixPath(remote).name.lower() != "mindspeed-mm")
    assert mapped(there, (remote, local)) == path

"""The problem classes of a campaign (Task6: 问题归类): what went wrong, in which iterations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_lmsv.judge.covering import covers
from pytest_lmsv.judge.effect import not_reached
from pytest_lmsv.judge.findings import MUTATION, RUN, UNCOMPARED, Finding, findings
from pytest_lmsv.judge.known_bugs import KnownBug
from pytest_lmsv.records import Edit, IterationRecord

Place = tuple[str, int]
"""Model and number of an iteration."""

VERDICT_TITLES: Mapping[str, tuple[str, str]] = {
    "accuracy": ("Accuracy", "精度问题"),
    "memory": ("Memory", "显存问题"),
    "performance": ("Performance", "性能问题"),
    "output": ("Output", "输出问题"),
    "drift": ("Drift", "漂移问题"),
}
OTHER_TITLES: Mapping[str, tuple[str, str]] = {
    UNCOMPARED: ("No loss to compare", "没有可比较的 loss"),
    MUTATION: ("Mutation did not reach the compare side", "变异未到达对比侧"),
    "invalid": ("Invalid mutations", "无效变异"),
    "no_effect": ("Mutations without effect", "不生效的变异"),
    "environment": ("Not testable: environment", "环境问题，无法测试"),
}
CAUSES: Mapping[str, tuple[str, str]] = {
    "port_in_use": ("port in use", "端口被占用"),
    "lost_node": ("lost node", "节点失联"),
    "no_space": ("no space", "磁盘空间不足"),
    "device_busy": ("device busy", "设备被占用"),
    "missing_module": ("missing module", "缺少模块"),
    "file_missing": ("missing file", "缺少文件"),
    "weights": ("weights", "权重问题"),
    "hccl_comm": ("communication", "通信错误"),
    "killed": ("killed", "进程被杀"),
    "hang": ("hang", "卡死"),
    "out_of_memory": ("out of memory", "内存不足"),
    "device_exception": ("device exception", "设备异常"),
    "aclnn_param": ("operator refused its parameters", "算子参数错误"),
    "op_compile": ("operator compilation", "算子编译失败"),
    "numeric_nan": ("NaN", "数值 NaN"),
    "config_assertion": ("configuration refused", "配置校验失败"),
    "segfault": ("segmentation fault", "段错误"),
    "incomplete": ("incomplete", "未完成"),
    "other_python": ("Python exception", "Python 异常"),
    "unknown": ("unknown cause", "未知原因"),
}


@dataclass(frozen=True, slots=True)
class ProblemClass:
    """One class and its iterations, each named once, in the order that they were stored."""

    id: str
    """A verdict's name, ``error:<category>``, ``known:<id>``, ``missed:<id>``, ``loss``,
    ``mutation``, ``invalid``, ``no_effect`` or ``environment``."""
    title: str
    title_zh: str
    iterations: tuple[Place, ...]
    count: int
    """How often: attempts for ``invalid`` and ``no_effect``, else iterations."""


def problem_classes(
    records: Iterable[IterationRecord],
    expected: Callable[[str], Sequence[KnownBug]] | None = None,
    labels: tuple[str, str] = ("PTA", "MSA"),
) -> tuple[ProblemClass, ...]:
    """Return the classes that *records*, judged iterations of one campaign, fall into.

    An iteration may be in several. *expected* gives the known bugs that a model's tests are
    expected to end with, None: no bug is expected. Classes without an iteration are left out; the
    order is fixed: verdicts, errors, known bugs, discarded mutations, environment.
    """
    bugs = expected or _no_bugs
    found = [
        ((record.model, record.iteration), named_classes(record, bugs(record.model), labels))
        for record in records
    ]
    return grouped(found, bugs, labels)


def grouped(
    found: Iterable[tuple[Place, Sequence[str]]],
    expected: Callable[[str], Sequence[KnownBug]] | None = None,
    labels: tuple[str, str] = ("PTA", "MSA"),
) -> tuple[ProblemClass, ...]:
    """Return the classes of iterations whose ids :func:`named_classes` gave."""
    places: dict[str, list[Place]] = {}
    bugs: dict[str, KnownBug] = {}
    for place, names in found:
        if expected is not None and names:
            bugs.update({bug.id: bug for bug in expected(place[0])})
        for name in names:
            places.setdefault(name, []).append(place)
    return tuple(
        ProblemClass(
            name,
            *_titles(name, bugs, labels),
            tuple(dict.fromkeys(places[name])),
            len(places[name]),
        )
        for name in sorted(places, key=_rank)
    )


def _no_bugs(model: str) -> Sequence[KnownBug]:
    return ()


def classes_of(
    record: IterationRecord,
    expected: Sequence[KnownBug] = (),
    labels: tuple[str, str] = ("PTA", "MSA"),
) -> tuple[str, ...]:
    """Return the ids of the classes that *record* alone falls into, each once."""
    return tuple(sorted(set(named_classes(record, expected, labels)), key=_rank))


def findings_of(
    record: IterationRecord, labels: tuple[str, str] = ("PTA", "MSA")
) -> tuple[Finding, ...]:
    """Return what is wrong with *record* by the verdicts that it carries."""
    lost: tuple[Edit, ...] = ()
    if record.mutation is not None and record.baseline_run and record.compare_run:
        lost = not_reached(record.mutation.edits, record.baseline_run, record.compare_run)
    return findings(record, record.verdicts, lost, labels)


def named_classes(
    record: IterationRecord, expected: Sequence[KnownBug], labels: tuple[str, str]
) -> list[str]:
    """Return the ids of the classes of *record*; ``invalid`` and ``no_effect`` once an attempt."""
    names = [
        {"invalid": "invalid", "no effect": "no_effect"}.get(a.verdict, "environment")
        for a in record.attempts
    ]
    if record.status != "DONE":
        return [*names, "environment"]
    seen: list[str] = []
    for finding in findings_of(record, labels):
        if finding.name == RUN:
            names.append(f"error:{finding.error.category if finding.error else 'unknown'}")
        else:
            names.append(finding.name)
        if finding.error is not None and finding.error.known_bug:
            seen.append(finding.error.known_bug)
        seen += [bug.id for bug in expected if covers(bug, finding)]
    names += [f"known:{bug}" for bug in dict.fromkeys(seen)]
    if not record.failing:  # pytest shows XPASS
        names += [
            f"missed:{bug.id}"
            for bug in expected
            if bug.id not in seen and (bug.strict or bug.signature is not None)
        ]
    return names


def _rank(name: str) -> tuple[int, int, str]:
    kind, _, _ = name.partition(":")
    verdicts, others = list(VERDICT_TITLES), list(OTHER_TITLES)
    if kind in verdicts:
        return 0, verdicts.index(kind), name
    groups = {UNCOMPARED: 2, MUTATION: 3, "error": 4, "known": 5, "missed": 6}
    if kind in groups:
        return groups[kind], 0, name
    if kind in others:
        return 7, others.index(kind), name
    return 1, 0, name  # a verdict that a later version adds


def _titles(name: str, bugs: Mapping[str, KnownBug], labels: tuple[str, str]) -> tuple[str, str]:
    kind, _, rest = name.partition(":")
    if kind == "error":
        title, title_zh = CAUSES.get(rest, (rest, rest))
        return f"{labels[1]} error: {title}", f"{labels[1]} 报错：{title_zh}"
    if kind in ("known", "missed"):
        text = f"{rest} ({bugs[rest].title})" if rest in bugs else rest
        if kind == "known":
            return f"Known bug seen: {text}", f"已知问题：{text}"
        return f"Known bug that did not happen: {text}", f"已知问题未出现：{text}"
    plain = name.replace("_", " ").capitalize()
    return {**VERDICT_TITLES, **OTHER_TITLES}.get(name, (plain, plain))

"""analysis/summary.md: Task6's table, statistics and problem classes, in English or Chinese."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pytest_lmsv.campaign.campaign import Campaign
from pytest_lmsv.campaign.summary import differences, spread
from pytest_lmsv.campaign.tried import tried
from pytest_lmsv.judge.bug_entry import entry
from pytest_lmsv.judge.classes import VERDICT_TITLES, ProblemClass, findings_of
from pytest_lmsv.judge.counts import Counts, count
from pytest_lmsv.judge.covering import covers
from pytest_lmsv.judge.known_bugs import KnownBug
from pytest_lmsv.judge.signature import verdict_signature
from pytest_lmsv.option_values import VERDICTS
from pytest_lmsv.records import IterationRecord, Verdict
from pytest_lmsv.report.marks import fenced, inline, places, table

ENGLISH = {
    "title": "{models}: {baseline} against {compare}",
    "ran": "Device {device}, {steps} steps, seed {seed}, gate {gate}.",
    "counts": "{valid} valid, {invalid} invalid, {no_effect} without effect, {environment} not "
    "testable; {compare} ran {msa_ok} of {valid}; {issues} with issues",
    "covered": "covered {values_covered} of {values} values ({keys_covered} of {keys} keys), "
    "{pairs_covered} of {pairs} pairs",
    "rates": "valid rate {valid_rate}, {compare} rate {msa_rate}",
    "missing": "The campaign ended early. No result of {places}.",
    "damaged": "The stored result of these iterations is damaged, and in no figure: {places}.",
    "iteration": "Iteration",
    "issue": "Issue",
    "ok_else": "none",
    "statistics": "Statistics",
    "difference": "difference",
    "statistic_columns": "n|mean|min|max|standard deviation",
    "classes": "Problem classes",
    "no_classes": "No problem was found.",
    "judged": "No problem was found in what was judged: {judged} of {asked} iterations.",
    "none_judged": "No iteration was judged.",
    "class": "{title} ({count}): {places}",
    "slow": "{n} FAILED: performance only ({model}). This entry of known_bugs.yaml accepts it:",
    "bugs": "Bug reports",
}
CHINESE = {
    "title": "{models}：{baseline} 与 {compare} 对比",
    "ran": "设备 {device}，{steps} 步，种子 {seed}，门禁 {gate}。",
    "counts": "有效 {valid}，无效 {invalid}，不生效 {no_effect}，无法测试 {environment}；"
    "{compare} 成功 {msa_ok}/{valid}；有问题 {issues}",
    "covered": "已覆盖取值 {values_covered}/{values}（键 {keys_covered}/{keys}），"
    "取值对 {pairs_covered}/{pairs}",
    "rates": "有效率 {valid_rate}，{compare} 成功率 {msa_rate}",
    "missing": "测试提前结束，以下轮次没有结果：{places}。",
    "damaged": "以下轮次的存储结果已损坏，未计入任何数据：{places}。",
    "iteration": "轮次",
    "issue": "问题",
    "ok_else": "无",
    "statistics": "统计",
    "difference": "差异",
    "statistic_columns": "数量|平均|最小|最大|标准差",
    "classes": "问题归类",
    "no_classes": "未发现问题。",
    "judged": "已判定的轮次（{judged}/{asked}）中未发现问题。",
    "none_judged": "没有任何轮次得到判定。",
    "class": "{title}（{count}）：{places}",
    "slow": "{n} 轮仅因性能失败（{model}）。known_bugs.yaml 中加入以下条目即可接受：",
    "bugs": "问题报告",
}
LONGEST = 500
"""Characters of an issue in the table; all of it is in the iteration's own report."""
WORDS = {"en": ENGLISH, "zh": CHINESE}
ZH_COLUMNS = {
    "accuracy": "精度情况", "memory": "显存情况", "performance": "性能情况", "output": "输出情况",
    "drift": "漂移情况",
}  # fmt: skip
STATISTICS = {
    "loss_diff": ("loss", "%"),
    "memory_diff": ("memory", "MB"),
    "memory_diff_rel": ("memory", "%"),
    "time_diff": ("time", "ms"),
    "time_diff_rel": ("time", "%"),
    "output_diff": ("output", ""),
    "drift_ratio": ("drift", "x limit"),
}
ZH_STATISTICS = {
    "loss": "loss",
    "memory": "显存",
    "time": "耗时",
    "output": "输出",
    "drift": "漂移",
}


def page(
    campaign: Campaign,
    records: Sequence[IterationRecord],
    classes: Sequence[ProblemClass],
    missing: Sequence[tuple[str, int]] = (),
    bugs: Sequence[tuple[str, str]] = (),
    expected: Callable[[str], Sequence[KnownBug]] = lambda model: (),
    damaged: Sequence[tuple[str, int]] = (),
) -> str:
    """Return summary.md; *records* as :func:`pytest_lmsv.campaign.summary.slim` leaves them.

    *bugs*: title and file name of each bug report. *expected*: the known bugs that a model's tests
    are expected to end with. *damaged*: iterations whose stored result can't be read.
    """
    language = campaign.settings.language
    words, settings = WORDS[language], campaign.settings
    baseline, compare = campaign.labels
    models = inline(", ".join(campaign.models))
    gate = ", ".join(settings.gate)
    lines = [
        f"# {words['title'].format(models=models, baseline=baseline, compare=compare)}",
        "",
        words["ran"].format(
            device=settings.device, steps=settings.steps, seed=settings.seed, gate=gate
        ),
        "",
    ]
    by_model = {m: [r for r in records if r.model == m] for m in campaign.models}
    for model, found in by_model.items():
        counts = count(found)
        lines.append(f"- {inline(model)}: {_counts(counts, compare, words)}")
        covered = tried(campaign, model, found)
        if covered is not None:
            lines.append(f"  - {words['covered'].format(**covered.as_plain())}")
    if missing:
        lines += ["", words["missing"].format(places=places(missing))]
    if damaged:
        lines += ["", words["damaged"].format(places=places(damaged))]
    for model, found in by_model.items():
        lines += ["", f"## {inline(model)}", "", *_table(found, language)]
        lines += ["", f"### {words['statistics']}", "", *_statistics(found, language)]
        slow = accepting(found, campaign, expected(model))
        if slow is not None:
            number, text = slow
            lines += ["", words["slow"].format(n=number, model=inline(model)), ""]
            lines += fenced([text.rstrip("\n")], "yaml")
    if bugs:
        lines += ["", f"## {words['bugs']}", ""]
        lines += [f"- [{inline(title)}](../detected_bugs/{name})" for title, name in bugs]
    lines += ["", f"## {words['classes']}", ""]
    titles = [(p.title_zh if language == "zh" else p.title, p) for p in classes]
    lines += [
        "- "
        + words["class"].format(
            title=f"**{inline(title)}**", count=p.count, places=places(p.iterations)
        )
        for title, p in titles
    ] or [nothing_found(records, len(missing) + len(damaged), words)]
    return "\n".join(lines) + "\n"


def nothing_found(
    records: Sequence[IterationRecord], unread: int, words: Mapping[str, str] = ENGLISH
) -> str:
    """Return what may be said without a problem class.

    *unread*: how many iterations were asked for of which there is no record.
    """
    judged, asked = sum(r.status == "DONE" for r in records), len(records) + unread
    key = "none_judged" if not judged else "no_classes" if judged == asked else "judged"
    return words[key].format(judged=judged, asked=asked)


def accepting(
    records: Sequence[IterationRecord], campaign: Campaign, expected: Sequence[KnownBug] = ()
) -> tuple[int, str] | None:
    """Return how many of one model's *records* time alone lets fail, and the entry for them."""
    slow = [record for record in records if fails_only(record, "performance", expected)]
    found = [f for r in slow for f in findings_of(r, campaign.labels) if f.name == "performance"]
    if not found or campaign.sides[1].stack != "msa":
        return None
    model, stack = slow[0].model, campaign.sides[1].stack
    text = entry(
        found,
        verdict_signature(model, "performance", ()),
        title=f"{model}: {campaign.labels[1]} takes more time than {campaign.labels[0]}",
        model=model,
        stack=stack,
        device=campaign.settings.device,
        since=since(campaign),
        fixes_off=fixes_off(campaign),
    )
    return None if text is None else (len(slow), text)


def fails_only(record: IterationRecord, name: str, expected: Sequence[KnownBug] = ()) -> bool:
    """Return whether the verdict *name* is all that lets the test of *record* fail.

    Not where the *expected* known bugs cover it: that test is an expected failure.
    """
    if not record.failing or not all(text.startswith(name) for text in record.failing):
        return False
    found = [finding for finding in findings_of(record) if finding.name == name]
    return not all(any(covers(bug, finding) for bug in expected) for finding in found)


def since(campaign: Campaign) -> str:
    """Return the day that the folder of *campaign* is named by, empty where it is not."""
    day = campaign.folder.name[:8]
    return f"{day[:4]}-{day[4:6]}-{day[6:]}" if day.isdigit() and len(day) == 8 else ""


def fixes_off(campaign: Campaign) -> bool:
    """Return whether *campaign* ran without the fixes of the adapter, which only cpu has."""
    return campaign.settings.device == "cpu" and not campaign.settings.adapter_fixes


def cell(verdict: Verdict | None) -> str:
    """Return a verdict in Task6's words, as ``OK (diff=1.73%)`` or ``NG (diff=+1198.40ms)``."""
    if verdict is None:
        return "N/A"
    if verdict.ratio is not None:
        return f"{verdict.result} ({verdict.ratio:.2g} x limit)"
    if verdict.difference is None:
        return verdict.result
    value, unit = verdict.difference, verdict.unit
    if unit == "relative":
        return f"{verdict.result} (diff={100 * value:.2f}%)"
    if unit == "tokens":
        return f"{verdict.result} (diff={value:.0f} tokens)"
    return f"{verdict.result} (diff={value:+.2f}{unit})"


def _counts(counts: Counts, compare: str, words: dict[str, str]) -> str:
    values: dict[str, Any] = {
        name: getattr(counts, name)
        for name in ("valid", "invalid", "no_effect", "environment", "msa_ok", "issues")
    }
    rates = {"valid_rate": _share(counts.valid_rate), "msa_rate": _share(counts.msa_rate)}
    texts = (words[key].format(compare=compare, **values, **rates) for key in ("counts", "rates"))
    return "; ".join(texts)


def _share(value: float | None) -> str:
    return "N/A" if value is None else f"{100 * value:.1f} %"


def _table(records: Sequence[IterationRecord], language: str) -> list[str]:
    words = WORDS[language]
    judged = {v.name for r in records for v in r.verdicts if v.result != "N/A"}
    shown = [n for n in VERDICTS if n in ("accuracy", "memory", "performance") or n in judged]
    if records and all(record.kind == "inference" for record in records):
        shown.remove("accuracy")
    titles = [ZH_COLUMNS[n] if language == "zh" else VERDICT_TITLES[n][0] for n in shown]
    return table([words["iteration"], *titles, words["issue"]], _rows(records, shown, words))


def _rows(
    records: Sequence[IterationRecord], shown: Sequence[str], words: dict[str, str]
) -> Iterator[list[str]]:
    for record in records:
        found = {verdict.name: verdict for verdict in record.verdicts}
        told = "; ".join(record.findings) or record.reason
        issue = inline(told if len(told) <= LONGEST else f"{told[:LONGEST]}…") or words["ok_else"]
        yield [str(record.iteration), *(cell(found.get(name)) for name in shown), issue]


def _statistics(records: Sequence[IterationRecord], language: str) -> list[str]:
    words, rows = WORDS[language], []
    for name, values in differences(records).items():
        what, unit = STATISTICS.get(name, (name.removesuffix("_diff"), ""))
        if not values:
            continue
        factor = 100 if unit == "%" else 1
        found = spread([factor * value for value in values])
        what = ZH_STATISTICS.get(what, what) if language == "zh" else what
        label = f"{what} {words['difference']}" + (f" ({unit})" if unit else "")
        rows.append([label, *(_figure(found[key]) for key in ("n", "mean", "min", "max", "stdev"))])
    columns = words["statistic_columns"].split("|")
    return table(["", *columns], rows) if rows else ["N/A"]


def _figure(value: float | int | None) -> str:
    if value is None:
        return "N/A"
    return str(value) if isinstance(value, int) else f"{value:.6g}"

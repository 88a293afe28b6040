"""The rule, as one test for each model and iteration: `pytest --model cogvideox --iters 10`."""

from __future__ import annotations

from pytest_lmsv import Judgement, RunRecord


def test_alignment(pta_run: RunRecord, msa_run: RunRecord, judgement: Judgement) -> None:
    """MSA does as PTA does: loss within 5 % or the same output, no more memory, no more time."""
    assert pta_run.outcome == "ok"  # else the fixture would have drawn another mutation
    accuracy, memory, performance = judgement.accuracy, judgement.memory, judgement.performance

    judgement.check("run", msa_run.outcome == "ok")
    judgement.check("mutation", not judgement.lost_edits)
    judgement.check("accuracy", accuracy.result != "NG")  # |MSA - PTA| / |PTA| < 5 %
    judgement.check("memory", memory.result != "NG")  # MSA's peak <= PTA's
    judgement.check("performance", performance.result != "NG")  # MSA's time <= PTA's
    judgement.check("output", judgement.output.result != "NG")  # the same tokens, the same video
    judgement.check("drift", judgement.drift.result != "NG")  # every step, within 10 x the noise

    judgement.conclude()

"""The rules that are scored, each a question to a pair of runs: does it find them different?"""

from __future__ import annotations

import base64
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_lmsv.judge import curves, drift, output, verdicts
from pytest_lmsv.judge.curves import Limits
from pytest_lmsv.records import Curve, Drift, Kind, Metrics, RunRecord, Stack

Answer = Mapping[str, Any]
LAST, OUTPUT, DRIFT = "last loss 5 %", "output", "drift"


@dataclass(frozen=True)
class Pair:
    """What PTA, a noise run of PTA, and MSA answered for one configuration."""

    pta: Answer
    noise: Answer
    msa: Answer

    @property
    def kind(self) -> Kind:
        return "training" if "losses" in self.pta else "inference"


@dataclass(frozen=True)
class Rule:
    """A rule by name, and for which kinds of models it says anything."""

    name: str
    kinds: tuple[Kind, ...]
    finds: Callable[[Pair], bool]


def rules(steps: Sequence[float] = (0.05, 0.01), limits: Limits = curves.FLOAT32) -> list[Rule]:
    """Return the rules: the last loss, any step by each of *steps*, the output, and ``drift``."""
    found = [Rule(LAST, ("training",), _last_loss)]
    found += [Rule(f"any step {share * 100:g} %", ("training",), _any(share)) for share in steps]
    found.append(Rule(OUTPUT, ("inference",), _output))
    found.append(
        Rule(DRIFT, ("training", "inference"), lambda pair: drifted(pair, limits).result != "OK")
    )
    return found


def drifted(pair: Pair, limits: Limits = curves.FLOAT32) -> Drift:
    """Return what the verdict ``drift`` says of *pair*."""
    if pair.kind == "training":
        baseline = curve(pair.pta)
        floor = curves.noise_floor(baseline, [curve(pair.noise)])
        return drift.drift(baseline, curve(pair.msa), floor, limits)
    samples = [{"sample": sample(each)} for each in (pair.pta, pair.noise, pair.msa)]
    noise = Curve(outputs=output.differences(samples[0], samples[1]))
    return drift.output_drift(output.differences(samples[0], samples[2]), [noise], limits)


def curve(answer: Answer) -> Curve:
    """Return a training's answer as a curve."""
    return Curve(
        losses=_points(answer["losses"]),
        grad_norms=_points(answer["grad_norms"]),
        parameter_norms=tuple(
            (int(step), {name: float(value) for name, value in norms.items()})
            for step, norms in answer["parameter_norms"]
        ),
    )


def sample(answer: Answer) -> output.Sample:
    """Return an inference's answer as what it made."""
    if "token_ids" in answer:
        logprobs = tuple(float(value) for value in answer["logprobs"])
        return output.Text(tuple(answer["token_ids"]), logprobs=logprobs)
    values = array("f")
    values.frombytes(base64.b64decode(answer["video"]))
    return output.Video(tuple(answer["shape"]), values)


def is_valid(answer: Answer) -> bool:
    """Return whether a baseline's answer can be compared with: it ended, and is finite."""
    if "error" in answer:
        return False
    if "losses" in answer:
        return verdicts.has_finite_loss(_run("pta", answer))
    return output.is_finite(sample(answer))


def _points(pairs: Sequence[Sequence[Any]]) -> tuple[tuple[int, float], ...]:
    return tuple((int(step), float(value)) for step, value in pairs)


def _run(stack: Stack, answer: Answer) -> RunRecord:
    return RunRecord(stack, 1, "ok", True, Metrics(losses=_points(answer["losses"])))


def _last_loss(pair: Pair) -> bool:
    runs = _run("pta", pair.pta), _run("msa", pair.msa)
    return verdicts.accuracy(*runs, "training").result == "NG"


def _any(share: float) -> Callable[[Pair], bool]:
    def finds(pair: Pair) -> bool:
        ours, theirs = (dict(_points(each["losses"])) for each in (pair.pta, pair.msa))
        return any(
            not abs(curves.relative(loss, theirs.get(step))) < share for step, loss in ours.items()
        )

    return finds


def _output(pair: Pair) -> bool:
    ours, theirs = ({"sample": sample(each)} for each in (pair.pta, pair.msa))
    tolerances = verdicts.Tolerances()
    found = output.differences(ours, theirs)
    return output.output(found, tolerances.output, tolerances.psnr).result == "NG"

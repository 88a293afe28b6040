"""The `lmsv` command (DESIGN 6.2). Each word hands over to the part that does the work."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_lmsv.problems import EnvironmentProblem, InputProblem, NotAnswered

HELP = """\
lmsv: compare multimodal models on two software stacks, PTA and MSA

  lmsv                     ask for the configuration, then run it (conf, then do)
  lmsv conf                ask for the settings and write config.json
  lmsv do [PYTEST-ARGS]    run what config.json says, by way of pytest; its exit status
  lmsv setup cpu           make the two CPU environments ahead of time
  lmsv doctor              check this machine; exit 1 if anything would stop a campaign
  lmsv parse LOG...        what the log analysis reads in these files
  lmsv score               how many planted faults the rules catch (source checkout, cpu)
  lmsv repro MUTATION.JSON run a stored mutation again, by way of pytest
  lmsv locate ITER_DIR     run an iteration again and name the first module that differs
  lmsv analyze DIR         write the reports of a stored campaign again; runs nothing
  lmsv history [DIR...]    the campaigns of an output folder over time; tells which one moved
  lmsv help                this page
  lmsv --version           the version of this package

`lmsv COMMAND --help` says more. Tests run with: pytest --model cogvideox --iters 10
"""

DO_HELP = """\
usage: lmsv do [PYTEST-ARGS]

Run what config.json in this folder says (Task6's file; another one: --lmsv-config FILE), by way of
pytest; the exit status is pytest's. Further words go to pytest, as --iters 3 or -n 2; an option
given here comes before the file's. `pytest --help` lists the options under "lmsv".
"""
REPRO_HELP = """\
usage: lmsv repro MUTATION.JSON [PYTEST-ARGS]

Run the stored mutation of one iteration again, by way of pytest; the exit status is pytest's. The
file is iters/<model>/iter_N/mutation.json of a campaign. Give the options of the campaign again
where they were not the defaults, as --lmsv-steps=20; a failed test prints them behind "repeat:".
"""
ANALYZE_HELP = """\
usage: lmsv analyze DIR [PYTEST-ARGS]

Write HTML, summary, JSON, CSV and bug reports of the campaign in DIR again, and judge its stored
figures by other rules where they are given, as --lmsv-gate or --lmsv-loss-tolerance. Nothing is
run, no device and no environment is needed; the exit status is pytest's.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; bad input is one line and 2.

    4 where the input ended before the questions of ``lmsv`` or ``lmsv conf`` were answered.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    command = words.pop(0) if words else ""
    try:
        if command in ("help", "--help", "-h"):
            print(HELP, end="")
            return 0
        if command == "--version":
            print(f"pytest-lmsv {importlib.metadata.version('pytest-lmsv')}")
            return 0
        if command not in COMMANDS:
            raise InputProblem(
                f"lmsv: no command {command!r}; one of {', '.join(n for n in COMMANDS if n)}, help"
            )
        status = COMMANDS[command](words)
        sys.stdout.flush()
        return status
    except (InputProblem, EnvironmentProblem) as problem:
        print(f"ERROR: {problem}", file=sys.stderr)
        return 4 if isinstance(problem, NotAnswered) else 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader left, as `| head` does; pipes of our own are seen to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _conf_then_do(words: list[str]) -> int:
    from pytest_lmsv.task6_config import conf

    # CI and cron give no input: what nobody answered must not start a campaign.
    return conf.main(words, every=True) or _do([])


def _conf(words: list[str]) -> int:
    from pytest_lmsv.task6_config import conf

    return conf.main(words)


def _do(words: list[str]) -> int:
    if words[:1] in (["--help"], ["-h"]):
        print(DO_HELP, end="")
        return 0
    from pytest_lmsv import task6_config

    path = Path("config.json")
    if not any(word.startswith("--lmsv-config") for word in words):
        if not (path.is_file() and task6_config.is_task6(path)):
            raise InputProblem(
                "lmsv do: no config.json with tasks in this folder; write one with `lmsv conf`, or "
                "name one with --lmsv-config FILE"
            )
        words = [f"--lmsv-config={path}", *words]
    return _pytest(words)


def _repro(words: list[str]) -> int:
    if words[:1] in (["--help"], ["-h"]):
        print(REPRO_HELP, end="")
        return 0
    if not words or words[0].startswith("-"):
        raise InputProblem("lmsv repro: give the mutation.json of the iteration to run again")
    return _pytest([f"--lmsv-replay={words[0]}", *words[1:]])


def _analyze(words: list[str]) -> int:
    from pytest_lmsv.campaign import stored_campaign

    if words[:1] in (["--help"], ["-h"]):
        print(ANALYZE_HELP, end="")
        return 0
    if not words or words[0].startswith("-"):
        raise InputProblem("lmsv analyze: give the folder of a campaign")
    folder = stored_campaign.read(Path(words[0]).expanduser().resolve()).folder
    return _pytest([f"--lmsv-analyze={folder}", *words[1:]])


def _locate(words: list[str]) -> int:
    from pytest_lmsv.campaign import locate_command

    return locate_command.main(words)


def _history(words: list[str]) -> int:
    from pytest_lmsv.report import history

    return history.main(words)


def _pytest(words: list[str]) -> int:
    """Become pytest, so that signals and the exit status are its own."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *words])


def _setup(words: list[str]) -> int:
    from pytest_lmsv.launch import setup

    return setup.main(words)


def _doctor(words: list[str]) -> int:
    from pytest_lmsv import doctor

    return doctor.main(words)


def _parse(words: list[str]) -> int:
    from pytest_lmsv.logs import command

    return command.main(words)


def _score(words: list[str]) -> int:
    from pytest_lmsv.score import command

    return command.main(words)


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "": _conf_then_do,
    "conf": _conf,
    "do": _do,
    "setup": _setup,
    "doctor": _doctor,
    "parse": _parse,
    "repro": _repro,
    "score": _score,
    "analyze": _analyze,
    "locate": _locate,
    "history": _history,
}

"""How a run over several nodes ended, and which node is to blame."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_lmsv.cluster.nodes import Node
from pytest_lmsv.launch.job import Ended, Reason

MOMENT_S = 0.5
"""Ends so close together may be seen in the wrong order: a link is slow, or a shell is."""
_HIT = (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS)
HIT = frozenset(int(sign) for number in _HIT for sign in (-number, 128 + number))
"""Exit statuses, also a shell's, of a command that did not end by its own will."""


@dataclass(frozen=True, slots=True)
class NodeEnded:
    """How a run ended on one node.

    ``ended.reason``: ``exit`` where its command ended by itself; ``lost`` where nobody saw it
    end; ``interrupted`` where we ended it because another node had failed.
    """

    node: Node
    ended: Ended
    after: float
    """Seconds from the start of the run to the command's own end, or to its loss, by this machine's
    clock: what the guard does after that end is not in it."""
    why: str = ""
    """What happened, where the node was lost."""

    @property
    def failed(self) -> bool:
        """Whether this end can be a cause: its own bad end, or the loss of the node."""
        lost = self.ended.reason == "lost"
        return lost or (self.ended.reason == "exit" and self.ended.exit_status != 0)


@dataclass(frozen=True, slots=True)
class Joint:
    """One end of all nodes, in the order in which they were given."""

    nodes: tuple[NodeEnded, ...]
    cause: NodeEnded | None
    """The node that failed first; None where none failed or one of our limits ended the run."""
    reason: Reason
    """A limit of ours, else the cause's, else ``exit``."""
    seconds: float

    @property
    def exit_status(self) -> int | None:
        """0 only where every node's command ended with 0; None where nobody saw it."""
        if self.cause is not None:
            return self.cause.ended.exit_status
        if all(end.ended.exit_status == 0 for end in self.nodes):
            return 0
        return next((e.ended.exit_status for e in self.nodes if e.ended.exit_status), None)


def cause(ends: Sequence[NodeEnded], window: float) -> NodeEnded | None:
    """The failed end that the others follow from: the first.

    Two others come before it: a lost node, as a loss is seen late (up to *window*, s); and a
    command that was killed or crashed in the same moment. An abort is no sign of a cause: that is
    how many a process ends when its peer is gone.
    """
    failed = sorted((end for end in ends if end.failed), key=lambda end: end.after)
    if not failed:
        return None
    first = failed[0].after
    lost = [e for e in failed if e.ended.reason == "lost" and e.after <= first + window]
    hit = [e for e in failed if e.ended.exit_status in HIT and e.after <= first + MOMENT_S]
    return (lost or hit or failed)[0]

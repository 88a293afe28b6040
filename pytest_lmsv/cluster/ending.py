"""How a run over several nodes ended, and which node is to blame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_lmsv.cluster.nodes import Node
from pytest_lmsv.launch.job import Ended, Reason


@dataclass(frozen=True, slots=True)
class NodeEnded:
    """How a run ended on one node.

    ``ended.reason``: ``exit`` where its command ended by itself; ``lost`` where nobody saw it
    end; ``interrupted`` where we ended it because another node had failed.
    """

    node: Node
    ended: Ended
    after: float
    """Seconds from the start of the run until this end was seen, by this machine's clock."""
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
    """The failed end that the others follow from.

    Ends so close together (*window*, s) are one event, whose order by the clock says little: in it
    a lost node comes before a killed command, and that before one that ended with an error.
    """
    failed = sorted((end for end in ends if end.failed), key=lambda end: end.after)
    if not failed:
        return None
    close = [end for end in failed if end.after <= failed[0].after + window]
    return min(close, key=_rank)


def _rank(end: NodeEnded) -> tuple[int, float]:
    status = end.ended.exit_status
    if end.ended.reason == "lost":
        return 0, end.after
    return (1 if status is not None and (status < 0 or status > 128) else 2), end.after

"""Supervisors: they start children in order, start them again when they crash, and stop them in reverse order.

The door and nothing else. The decisions are those of `agentrail.otp.supervision`, and `supervising` carries them out;
`blocks` has `open_supervisor`, `supervisor_handle` what it gives, `subtrees` a supervisor as a child, `tree` all of them
as data. In Trio a crash cancels the siblings and travels up, under a supervisor it is a message, and what follows is a
decision.
"""

from agentrail.actors.blocks import open_supervisor
from agentrail.actors.partitions import Partitions, open_partitions
from agentrail.actors.subtrees import SupervisorInit, subtree
from agentrail.actors.supervisor_handle import Supervisor
from agentrail.actors.tasks import TaskHandle, TaskResult
from agentrail.actors.tree import TreeNode, render_tree
from agentrail.errors import SupervisorGaveUp, SupervisorStartFailed
from agentrail.otp.supervision_types import ChildCounts, ChildInfo, Report, Started, StopSummary

__all__ = [
    "ChildCounts",
    "ChildInfo",
    "Partitions",
    "Report",
    "Started",
    "StopSummary",
    "Supervisor",
    "SupervisorGaveUp",
    "SupervisorInit",
    "SupervisorStartFailed",
    "TaskHandle",
    "TaskResult",
    "TreeNode",
    "open_partitions",
    "open_supervisor",
    "render_tree",
    "subtree",
]

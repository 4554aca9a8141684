"""Actors: a worker is an async function, a machine a behaviour that runs on the engine of `agentrail.otp.statem`.

The door and nothing else. `start` has what its users write, `machine_loop` the life of a machine, `running` the wrapper
in which a crash becomes data, `handle` what everybody may hold, `introspection` what looks inside.
"""

from agentrail.actors.handle import ActorContext, ActorHandle, current_actor
from agentrail.actors.introspection import change_code, get_state, get_status, replace_state, resume, suspend
from agentrail.actors.machine_loop import SELF, CrashReport, Link, Send, Unlink, Unwatch, Watch
from agentrail.actors.replies import ReplyTo
from agentrail.actors.running import cleanup_scope
from agentrail.actors.start import IGNORE, Behaviour, Ignore, InitStop, MachineStatus, Start, machine, worker
from agentrail.actors.subtrees import SupervisorInit, subtree
from agentrail.otp.child_specs import StartRecipe
from agentrail.otp.exits import ActorExit
from agentrail.otp.statem import Init

__all__ = [
    "IGNORE",
    "SELF",
    "ActorContext",
    "ActorExit",
    "ActorHandle",
    "Behaviour",
    "CrashReport",
    "Ignore",
    "Init",
    "InitStop",
    "Link",
    "MachineStatus",
    "ReplyTo",
    "Send",
    "Start",
    "StartRecipe",
    "SupervisorInit",
    "Unlink",
    "Unwatch",
    "Watch",
    "change_code",
    "cleanup_scope",
    "current_actor",
    "get_state",
    "get_status",
    "machine",
    "replace_state",
    "resume",
    "subtree",
    "suspend",
    "worker",
]

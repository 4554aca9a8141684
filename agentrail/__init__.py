"""LLM agents for Python that stop, resume and replay.

At most sixty-four public names, resolved on first use, so that `import agentrail.core` works without Trio.
"""

import os
import sys

# Before any other import: `python -m agentrail` would find a `typing.py` of the current directory first. So would processes of `simulate`.
if sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)].endswith(
    ("agentrail", "agentrail.testing.simulation.lives")
):
    from agentrail.search_path import leave_out_current

    leave_out_current()
    if sys.orig_argv[-len(sys.argv)].endswith("lives"):  # a command does it where Ctrl-C prints no traceback
        from agentrail.gc_settings import rare_looks

        rare_looks()

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agentrail.abc import (
        Error as Error,
        Ok as Ok,
        Provider as Provider,
        Secret as Secret,
        ToolContext as ToolContext,
    )
    from agentrail.app import (
        open_session as open_session,
        open_supervisor as open_supervisor,
    )
    from agentrail.blueprints import (
        Blueprint as Blueprint,
        Capability as Capability,
    )
    from agentrail.core.policy.budget import Budget as Budget
    from agentrail.core.policy.prompt_settings import PromptSettings as PromptSettings
    from agentrail.core.session.receipts import (
        PromptReceipt as PromptReceipt,
        SteerReceipt as SteerReceipt,
    )
    from agentrail.core.session.views import Status as Status
    from agentrail.core.values.import_history import import_messages as import_messages
    from agentrail.core.wire.codec import (
        decode_event as decode_event,
        encode_event as encode_event,
    )
    from agentrail.errors import (
        AgentrailError as AgentrailError,
        AlreadyStarted as AlreadyStarted,
        CycleAborted as CycleAborted,
        CycleFailed as CycleFailed,
        EventMissed as EventMissed,
        OptionError as OptionError,
        PromptError as PromptError,
        PromptQueueFull as PromptQueueFull,
        ProviderError as ProviderError,
        ReplyTimeout as ReplyTimeout,
        SessionDown as SessionDown,
        SubscriberTooSlow as SubscriberTooSlow,
        TypeFault as TypeFault,
    )
    from agentrail.events import (
        AbortReceipt as AbortReceipt,
        AbortSettled as AbortSettled,
        AgentAbort as AgentAbort,
        AgentEnd as AgentEnd,
        AgentError as AgentError,
        AgentStart as AgentStart,
        ApprovalRequired as ApprovalRequired,
        ApprovalResolved as ApprovalResolved,
        AskUser as AskUser,
        Event as Event,
        EventsLost as EventsLost,
        MessageDelta as MessageDelta,
        ResponseComplete as ResponseComplete,
        SessionEnd as SessionEnd,
        ThinkingDelta as ThinkingDelta,
        ToolExecutionEnd as ToolExecutionEnd,
        ToolExecutionStart as ToolExecutionStart,
    )
    from agentrail.messages import (
        AssistantMessage as AssistantMessage,
        FileRef as FileRef,
        Image as Image,
        Message as Message,
        SessionId as SessionId,
        Text as Text,
        TokenUsage as TokenUsage,
        UserMessage as UserMessage,
    )
    from agentrail.remote.connect import connect as connect
    from agentrail.runtime.agent import Agent as Agent
    from agentrail.runtime.cycle_reply import CycleReply as CycleReply
    from agentrail.runtime.session_handle import Session as Session
    from agentrail.runtime.session_options import SessionOptions as SessionOptions
    from agentrail.runtime.supervisor import SessionSupervisor as SessionSupervisor
    from agentrail.structs import replace as replace
    from agentrail.tools.function import tool as tool

_HOMES: Final = {
    "agentrail.abc": (
        "Error",
        "Ok",
        "Provider",
        "Secret",
        "ToolContext",
    ),
    "agentrail.app": (
        "open_session",
        "open_supervisor",
    ),
    "agentrail.blueprints": (
        "Blueprint",
        "Capability",
    ),
    "agentrail.core.policy.budget": ("Budget",),
    "agentrail.core.policy.prompt_settings": ("PromptSettings",),
    "agentrail.core.session.views": ("Status",),
    "agentrail.core.session.receipts": (
        "PromptReceipt",
        "SteerReceipt",
    ),
    "agentrail.core.values.import_history": ("import_messages",),
    "agentrail.core.wire.codec": (
        "decode_event",
        "encode_event",
    ),
    "agentrail.errors": (
        "AgentrailError",
        "AlreadyStarted",
        "CycleAborted",
        "CycleFailed",
        "EventMissed",
        "OptionError",
        "PromptError",
        "PromptQueueFull",
        "ProviderError",
        "ReplyTimeout",
        "SessionDown",
        "SubscriberTooSlow",
        "TypeFault",
    ),
    "agentrail.events": (
        "AbortReceipt",
        "AbortSettled",
        "AgentAbort",
        "AgentEnd",
        "AgentError",
        "AgentStart",
        "ApprovalRequired",
        "ApprovalResolved",
        "AskUser",
        "Event",
        "EventsLost",
        "MessageDelta",
        "ResponseComplete",
        "SessionEnd",
        "ThinkingDelta",
        "ToolExecutionEnd",
        "ToolExecutionStart",
    ),
    "agentrail.messages": (
        "AssistantMessage",
        "FileRef",
        "Image",
        "Message",
        "SessionId",
        "Text",
        "TokenUsage",
        "UserMessage",
    ),
    "agentrail.remote.connect": ("connect",),
    "agentrail.runtime.agent": ("Agent",),
    "agentrail.runtime.cycle_reply": ("CycleReply",),
    "agentrail.runtime.session_handle": ("Session",),
    "agentrail.runtime.session_options": ("SessionOptions",),
    "agentrail.runtime.supervisor": ("SessionSupervisor",),
    "agentrail.structs": ("replace",),
    "agentrail.tools.function": ("tool",),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}

__version__: Final = "0.1.0"
# Written out although it follows from the table: pyright does not read any other form.
__all__ = [
    "AbortReceipt",
    "AbortSettled",
    "Agent",
    "AgentAbort",
    "AgentEnd",
    "AgentError",
    "AgentStart",
    "AgentrailError",
    "AlreadyStarted",
    "ApprovalRequired",
    "ApprovalResolved",
    "AskUser",
    "AssistantMessage",
    "Blueprint",
    "Budget",
    "Capability",
    "CycleAborted",
    "CycleFailed",
    "CycleReply",
    "Error",
    "Event",
    "EventMissed",
    "EventsLost",
    "FileRef",
    "Image",
    "Message",
    "MessageDelta",
    "Ok",
    "OptionError",
    "PromptError",
    "PromptQueueFull",
    "PromptReceipt",
    "PromptSettings",
    "Provider",
    "ProviderError",
    "ReplyTimeout",
    "ResponseComplete",
    "Secret",
    "Session",
    "SessionDown",
    "SessionEnd",
    "SessionId",
    "SessionOptions",
    "SessionSupervisor",
    "Status",
    "SteerReceipt",
    "SubscriberTooSlow",
    "Text",
    "ThinkingDelta",
    "TokenUsage",
    "ToolContext",
    "ToolExecutionEnd",
    "ToolExecutionStart",
    "TypeFault",
    "UserMessage",
    "connect",
    "decode_event",
    "encode_event",
    "import_messages",
    "open_session",
    "open_supervisor",
    "replace",
    "tool",
]

# Only a compiled build has a record. It is checked against the files before the first module of a package is imported.
if os.path.exists(os.path.join(__path__[0], "compiled.json")):  # noqa: PTH110, PTH118 - pathlib is slow to import
    import_module("agentrail.builds").choose_build(__version__)


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        message = f"module 'agentrail' has no attribute {name!r}"
        raise AttributeError(message)
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

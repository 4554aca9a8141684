"""A call without a runner: the context that a tool gets, with what the test is about."""

import math

from attrs import evolve, field, frozen

from agentrail.abc import CommandResult, DirectoryEntry, FileText, Refusal, ToolContext
from agentrail.messages import CallId, SessionId

NOTHING_HERE = Refusal(code="unsupported", message="this sandbox has none")


@frozen(kw_only=True)
class StubSandbox:
    """Answers what it was given, and keeps what it was asked."""

    text: FileText | Refusal = NOTHING_HERE
    entries: tuple[DirectoryEntry, ...] | Refusal = ()
    result: CommandResult | Refusal = NOTHING_HERE
    asked: list[object] = field(factory=list)

    async def read_text(self, path: str) -> FileText | Refusal:
        """Give the text."""
        self.asked.append(path)
        return self.text

    async def list_dir(self, path: str) -> tuple[DirectoryEntry, ...] | Refusal:
        """Give the entries."""
        self.asked.append(path)
        return self.entries

    async def execute(self, command: str, *, workdir: str, within_seconds: float) -> CommandResult | Refusal:
        """Give the result."""
        self.asked.append((command, workdir, within_seconds))
        return self.result


CTX = ToolContext(
    session_id=SessionId("s1"),
    call_id=CallId("c1"),
    operation_id="o1",
    working_dir="/workspace",
    open_sandbox=StubSandbox,
    model="scripted:x",
    turn=1,
    user_data={},
    deadline=math.inf,
    progress=lambda _text: None,
)


def context(sandbox: StubSandbox) -> ToolContext:
    """Give the context of a call on this sandbox."""
    return evolve(CTX, open_sandbox=lambda: sandbox)

"""A call without a runner: the context that a tool gets, with what the test is about."""

import math
from collections.abc import Mapping

from attrs import evolve

from agentrail.abc import ExecuteOptions, ExecuteResult, ListResult, Refusal, ToolContext
from agentrail.messages import CallId, SessionId
from agentrail.sandboxes.memory import MemorySandbox

NOTHING_HERE = Refusal(code="unsupported", message="this sandbox has none")


class StubSandbox(MemorySandbox):
    """Files in memory; lists and runs what it was given, and keeps what it was asked."""

    def __init__(
        self,
        files: Mapping[str, str | bytes] | None = None,
        *,
        entries: ListResult | None = None,
        result: ExecuteResult | None = None,
    ) -> None:
        super().__init__(files)
        self._entries_given = entries
        self._result_given = result or ExecuteResult(error=NOTHING_HERE)
        self.asked: list[object] = []

    async def list_dir(self, path: str) -> ListResult:
        self.asked.append(path)
        return self._entries_given or await super().list_dir(path)

    async def execute(self, command: str, options: ExecuteOptions) -> ExecuteResult:
        self.asked.append((command, options))
        return self._result_given


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
    return evolve(CTX, open_sandbox=lambda: sandbox)

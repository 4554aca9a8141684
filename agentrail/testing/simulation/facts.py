"""The facts of the log's lines: frozen values that checkers, the census and the story read. Facts of other lines are the product's own values."""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from attrs import frozen

from agentrail.events import Event
from agentrail.testing.promises.observed_step import Seen

WORLD_LEASE_SECONDS: Final = 10.0
"""Lease of the nodes of a world."""

INTERRUPTED: Final = "interrupted"
"""Name of the promise of a life that Ctrl-C ended, in the place of a broken one."""


@frozen
class SessionStep(Seen):
    """A step of a session, in a line of kind `step`. `watching` writes it.

    Attributes:
        record: Number of the last record of the step. 0 if it made none.
    """

    record: int = 0


@frozen
class Closed:
    """The event stream of a session was closed on a node, in a line of kind `note`. `watching` writes it.

    Attributes:
        reason: For users.
        is_rested: Whether the session only rests, and its handles are invalid.
        is_moved: Whether another node owns it.
    """

    reason: str
    is_rested: bool = False
    is_moved: bool = False


StoreTrouble: TypeAlias = Literal[
    "", "away", "lost before", "lost after", "slow", "full", "restarted", "failed over"
]
"""What went wrong with a call of the store. A call that is away, full or lost before it was executed changed nothing."""


@frozen
class StoreCall:
    """A call of the store, in a line of kind `store` at the place of the caller, written at the moment it was executed.

    Attributes:
        name: The method of `Store`, such as `append`.
        arguments: Its arguments by parameter name, as `inspect.signature(method).bind(...).arguments` returns them.
        answer: The returned value, or the exception that the executed call raised. None if it was not executed.
        trouble: What went wrong with it. Empty for nothing.
    """

    name: str
    arguments: Mapping[str, Any]
    answer: Any = None
    trouble: StoreTrouble = ""

    @property
    def is_executed(self) -> bool:
        """Whether the store carried it out, whatever the caller was told."""
        return self.trouble not in {"away", "full", "lost before"}


@frozen(kw_only=True)
class LedgerEntry:
    """A change of the outside world by a tool, in a line of kind `tool` at the tool's node.

    Attributes:
        ledger: Name of the outside world.
        tool: Name of the tool.
        effect_class: `pure`, `idempotent`, `reconcilable` or `once`.
        operation_id: `ToolContext.operation_id`, equal for all attempts at one call.
        call_id: The call.
        attempt: Number of the attempt, from 1.
        arguments_hash: SHA-256 of the canonical arguments that ran, as in `RunTool` and `ApprovalRequired`. Empty if unknown.
        fence: `ToolContext.fence`: the session and the epoch of its owner.
    """

    ledger: str
    tool: str
    effect_class: str
    operation_id: str
    call_id: str
    attempt: int = 1
    arguments_hash: str = ""
    fence: tuple[str, int] = ("", 0)


CallKind: TypeAlias = Literal[
    "prompt", "steer", "abort", "approve", "reject", "answer", "decline", "receipt", "status", "stop", "other"
]
"""What a user asks of a session. `receipt` asks what became of a prompt, by its `client_id`."""


@frozen(kw_only=True)
class CallAsked:
    """A user sends one call to a session, in a line of kind `person` at the client. A repeated call is another one, with the same `key`.

    Attributes:
        id: Id of the call, unique in a life.
        request: What it asks.
        key: What it is about: the `client_id` of a prompt or steer, the approval, the question, or the `ref` of an aborted prompt.
        says: What it wants to decide: `approved`, `rejected`, the answer. For a prompt, its text.
        user: Whose token it has. Several people may have that of one user. Empty: the user is named like the client.
    """

    id: str
    request: CallKind
    key: str = ""
    says: str = ""
    user: str = ""


@frozen(kw_only=True)
class CallAnswered:
    """The end of a call, in a line of kind `person` at the client.

    Attributes:
        id: The call.
        outcome: `ok`, `refused` with an error of the product, or `unknown` after a lost connection or a timeout: it may still take effect.
        says: What the session says. For an accepted prompt or steer its `ref`. For a refused decision the one that stands, as in
            `AlreadyResolved.status`. For a receipt the `ref`, empty if there is none.
        code: `code` of the error.
        value: The answer itself, such as an `AbortReceipt`.
        is_repeated: Whether the client may have sent the call twice. The second answer to a decision is then `ok` also if another call had
            decided the same.
        is_final: Whether the client does not send the call again.
    """

    id: str
    outcome: Literal["ok", "refused", "unknown"]
    says: str = ""
    code: str = ""
    value: Any = None
    is_repeated: bool = False
    is_final: bool = True


@frozen
class Read:
    """A reader received an event, in a line of kind `read` at the client.

    Attributes:
        reader: Name of the reader, unique in a life: it stays over reconnects and moves.
        event: The event. An `EventsLost` is one too.
    """

    reader: str
    event: Event


@frozen
class ReaderSubscribed:
    """A reader connected or reconnected, in a line of kind `read` at the client.

    Attributes:
        reader: Name of the reader.
        after: Number of the last event that it has. None: it begins with the next one, or with a snapshot.
    """

    reader: str
    after: int | None = None


@frozen
class ReceivedAgain:
    """A server sent an event a second time within one subscription, in a line of kind `read` at the client."""

    seq: int


@frozen
class NodeChange:
    """A change of a node, in a line of kind `node` at that node."""

    action: Literal["up", "stopped", "continued", "killed", "leaving", "left", "failed"]


@frozen
class FaultChange:
    """A fault began or ended, in a line of kind `fault`.

    Attributes:
        family: `node`, `network`, `store`, `disk`, `time`, `tasks`, `model`, `people` or `program`.
        action: What happens, such as `kill` or `one-way cut`.
        is_over: Whether it ended. A fault without a duration, such as a kill, only begins.
    """

    family: str
    action: str
    is_over: bool = False


@frozen
class Logged:
    """The product logged something, in a line of kind `log` at the node.

    Attributes:
        is_error: Whether it is an error, and not that of a simulated crash.
    """

    is_error: bool


@frozen
class Calm:
    """All faults have ended, in a line of kind `note`. Liveness is judged from here."""

"""The port of a tool: arguments in, an outcome out."""

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias, get_args, runtime_checkable

from attrs import field, frozen

from agentrail.abc.tool_context import ToolContext
from agentrail.abc.tool_images import checked_images
from agentrail.core.protocol.tool_changes import Change
from agentrail.core.protocol.tool_questions import ToolQuestion
from agentrail.core.values.toolbox import EffectClass
from agentrail.errors import ToolContractError
from agentrail.frozen import frozen_json
from agentrail.messages import Image, JsonObject, JsonValue, SessionId
from agentrail.otp.guarded_calls import call_guarded


@frozen(kw_only=True)
class Ok:
    """A successful result.

    Attributes:
        text: Text for the model, optional with images.
        details: JSON for events and user interfaces, never for the model.
        images: At most 10 images of at most 5 MiB each. A wire format without images in results sends a line for each, `[image/png, 12,345 bytes]`.

    Raises:
        ToolContractError: Your move: too many images, too large, or not an image.
    """

    text: str
    details: JsonValue = None
    images: tuple[Image, ...] = field(default=(), converter=checked_images)


@frozen(kw_only=True)
class Error:
    """A failure that the model may correct. State what went wrong and what to do next.

    Attributes:
        text: Text for the model.
        details: JSON for events and user interfaces, never for the model.
    """

    text: str
    details: JsonValue = None


@frozen(init=False)
class ToolUpdate:
    """A result that also changes the session: `ToolUpdate(UpdateTodos(todos=…), text="Three left.")`.

    The changes apply in the step that records the result, or not at all if the call was stopped.

    Attributes:
        changes: One or more `UpdateTodos`, `UpdateContext` and `RequestCompaction`, applied in this order.
        text: Text for the model.
        details: JSON for events and user interfaces, never for the model.
    """

    changes: tuple[Change, ...]
    text: str
    details: JsonValue

    def __init__(self, *changes: Change, text: str = "[effect applied]", details: JsonValue = None) -> None:
        known = get_args(Change)
        wrong = next((change for change in changes if not isinstance(change, known)), None)
        if not changes or wrong is not None:
            names = ", ".join(one.__name__ for one in known)
            came = "none" if not changes else f"a value of type {type(wrong).__name__}"
            message = f"Effect takes changes, one or more of {names}; got {came}: if nothing changes, return Ok instead"
            raise ToolContractError(message)
        self.__attrs_init__(changes=changes, text=text, details=details)


ToolOutcome: TypeAlias = Ok | Error | ToolUpdate | ToolQuestion


MAX_RESULT_BYTES: Final = 1 << 20


@frozen
class Done:
    """Result of `reconcile`: the operation took effect.

    Attributes:
        result: Result of the call.
    """

    result: ToolOutcome


@frozen
class NotDone:
    """Result of `reconcile`: the operation had no effect and may be run again."""


@frozen
class Unknown:
    """Result of `reconcile`: it is unknown whether the operation took effect."""


Reconciled: TypeAlias = Done | NotDone | Unknown


@frozen(kw_only=True)
class ToolListing:
    """The session for which a description is computed.

    Attributes:
        session_id: Id of the session.
        model: The session's initial model string.
        working_dir: Root of the file tools.
        user_data: The application's own data.
        is_unconfined: Whether commands are known to run with the user's rights.
        agents: Name and description of each agent that the session can delegate to.
    """

    session_id: SessionId
    model: str
    working_dir: str
    user_data: JsonObject = field(converter=frozen_json)
    is_unconfined: bool = False
    agents: tuple[tuple[str, str], ...] = ()


@runtime_checkable
class Tool(Protocol):
    """A function that the model may call. Create one with `@agentrail.tool`, or a class with these four members.

    Optional members, with their defaults:

    - `killable: bool` (True): whether a steer or a default abort may stop it.
    - `effect_class` (`"once"`): whether a call may be repeated: `"pure"`, `"idempotent"`, `"reconcilable"`, `"once"`.
    - `timeout_seconds: float | None` (None): time limit per attempt. None uses the session's own.
    - `max_retries: int | None` (None): retries of a call that raised. None uses the effect class and the session's options.
      For a `once` tool, a number promises that a call that raised had no effect.
    - `reconcile(operation_id, ctx)`, `async`: required for `reconcilable`. It returns `Done(result)`, `NotDone()` or
      `Unknown()`.
    - `polling: bool` (False): whether repeated calls are expected. If so, the session does not check for loops.
    - `max_result_bytes: int` (1 MiB): size limit of the text. The middle of a longer text is omitted.
    - `label(arguments)` (the name): short text for users.
    - `answered_by` (`"code"`): `"user"` for a tool whose calls are questions, `"client"` for a tool that the client runs.
      Such a tool is never executed by the session.
    - `threaded: bool` (False): whether it runs in a thread. No call starts while too many abandoned threads exist.
    """

    @property
    def name(self) -> str:
        """Name of the tool: `[A-Za-z0-9_-]{1,64}`, unique in a session."""
        ...

    @property
    def description(self) -> str | Callable[[ToolListing], str]:
        """Description for the model, or a function of the session that returns it."""
        ...

    @property
    def parameters(self) -> JsonObject:
        """JSON Schema, draft 2020-12, with `"type": "object"` at the top level."""
        ...

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Run one call. The arguments are valid for the schema.

        An exception counts as a crash of the tool and is contained.

        Cancellation: The call was stopped. Clean-up in `finally` has two seconds.
        """
        ...


def name_of(tool: Tool) -> str:
    """Return a tool's name, for messages."""
    return str(_member_of(tool, "name", type(tool).__name__))


def effect_class_of(tool: Tool) -> EffectClass:
    """Return a tool's effect class, by default `once`."""
    promised: EffectClass = _member_of(tool, "effect_class", "once")
    return promised


def timeout_seconds_of(tool: Tool) -> float | None:
    """Return the time limit of one attempt, or None for the session's own."""
    seconds: float | None = _member_of(tool, "timeout_seconds", None)
    return seconds


def _member_of(tool: Tool, name: str, default: Any) -> Any:
    # Validated when the tool was given to the session. A computed attribute that fails later counts as missing: it is
    # read where a call starts or ends, outside the code that catches tool crashes.
    return call_guarded(lambda _: default, getattr, tool, name, default)

"""The port of a tool: arguments in, an outcome out. What it may do meanwhile stands in `tool_context`."""

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias, get_args, runtime_checkable

from attrs import field, frozen

from agentrail.abc.tool_context import ToolContext
from agentrail.abc.tool_images import checked_images
from agentrail.core.protocol.changes import Change
from agentrail.core.values.toolbox import EffectClass
from agentrail.errors import ToolContractError
from agentrail.frozen import frozen_json
from agentrail.messages import Image, JsonObject, JsonValue, SessionId
from agentrail.otp.edges import call_guarded


@frozen(kw_only=True)
class Ok:
    """A result.

    Attributes:
        text: What the model reads. With pictures it may be empty: their number is said then.
        details: JSON for events and user interfaces, never for the model.
        images: Pictures, 10 of 5 MiB at most. Shown to the model where its wire format takes pictures in a result; elsewhere
            it reads a line for each, `[image/png, 12,345 bytes]`.

    Raises:
        ToolContractError: Your move: there are more pictures, a larger one, or something that is no picture.
    """

    text: str
    details: JsonValue = None
    images: tuple[Image, ...] = field(default=(), converter=checked_images)


@frozen(kw_only=True)
class Error:
    """A failure that the model may correct: it says what went wrong and what to do next.

    Attributes:
        text: What the model reads.
        details: JSON for events and user interfaces, never for the model.
    """

    text: str
    details: JsonValue = None


@frozen(init=False)
class ToolUpdate:
    """A result that changes something in the session: `ToolUpdate(UpdateTodos(todos=…), text="Three left.")`.

    The session applies the changes in the very step that records the result, and not at all when the call was stopped.

    Attributes:
        changes: At least one of `UpdateTodos`, `UpdateContext` and `RequestCompaction`, in the order in which they are applied.
        text: What the model reads.
        details: JSON for events and user interfaces, never for the model.
    """

    changes: tuple[Change, ...]
    text: str
    details: JsonValue

    def __init__(self, *changes: Change, text: str = "[effect applied]", details: JsonValue = None) -> None:
        """Take the changes.

        Raises:
            ToolContractError: Your move: there is none, or one that is none.
        """
        known = get_args(Change)
        wrong = next((change for change in changes if not isinstance(change, known)), None)
        if not changes or wrong is not None:
            names = ", ".join(one.__name__ for one in known)
            came = "none" if not changes else f"a value of type {type(wrong).__name__}"
            message = (
                f"Effect takes changes, one or more of {names}; got {came}: return Ok where nothing changes"
            )
            raise ToolContractError(message)
        self.__attrs_init__(changes=changes, text=text, details=details)


ToolOutcome: TypeAlias = Ok | Error | ToolUpdate


MAX_RESULT_BYTES: Final = 1 << 20


@frozen
class Done:
    """What `reconcile` found: the operation took effect.

    Attributes:
        result: What the call is answered with.
    """

    result: ToolOutcome


@frozen
class NotDone:
    """What `reconcile` found: nothing of the operation took effect, so it may be run again."""


@frozen
class Unknown:
    """What `reconcile` found: nothing that would tell."""


Reconciled: TypeAlias = Done | NotDone | Unknown


@frozen(kw_only=True)
class ToolListing:
    """To whom a tool describes itself, where its description is a function.

    Attributes:
        session_id: The session whose list of tools is made.
        model: The model string that it begins with.
        working_dir: The root of the file tools.
        user_data: The application's own data.
        is_unconfined: Whether it is known that its commands run with the user's rights.
        agents: Name and description of each agent that may work for it.
    """

    session_id: SessionId
    model: str
    working_dir: str
    user_data: JsonObject = field(converter=frozen_json)
    is_unconfined: bool = False
    agents: tuple[tuple[str, str], ...] = ()


@runtime_checkable
class Tool(Protocol):
    """A function that the model may call. `@agentrail.tool` makes one; a class with these four members is one.

    Members that it may have besides, each with what holds without it:

    - `killable: bool` (True): whether a steer or a default abort may stop it.
    - `effect_class` (`"once"`): what it promises about being run twice: `"pure"`, `"idempotent"`, `"reconcilable"`, `"once"`.
    - `timeout_seconds: float | None` (None): per attempt; None for the session's own.
    - `max_retries: int | None` (None): how often a call that raised is made again; None for what its effect class and the
      session say. For a `once` tool a number says that raising means that nothing happened.
    - `reconcile(operation_id, ctx)`, `async`: required of `reconcilable`; says `Done(result)`, `NotDone()` or `Unknown()`.
    - `polling: bool` (False): repeats are its nature, so the session looks for no loops.
    - `max_result_bytes: int` (1 MiB): of a longer text the middle is left out.
    - `label(arguments)` (the name): short text for people.
    - `answered_by` (`"code"`): `"user"` for a tool whose calls are questions, `"client"` for one that the client runs;
      it is never executed.
    - `threaded: bool` (False): whether it works in a thread; none begins where too many are left behind.
    """

    @property
    def name(self) -> str:
        """`[A-Za-z0-9_-]{1,64}`, unique in a session."""
        ...

    @property
    def description(self) -> str | Callable[[ToolListing], str]:
        """What the model reads; or a function that writes it, called when the tool is given to a session."""
        ...

    @property
    def parameters(self) -> JsonObject:
        """JSON Schema, draft 2020-12, outermost `"type": "object"`."""
        ...

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Run one call whose arguments are as the schema says.

        Raising is a crash of the tool, which is contained; being cancelled is being stopped, and clean-up in `finally`
        has two seconds.
        """
        ...


def name_of(tool: Tool) -> str:
    """Give the name of a tool, for words about it."""
    return str(_member_of(tool, "name", type(tool).__name__))


def effect_class_of(tool: Tool) -> EffectClass:
    """Give what a tool promises about being run twice: nothing, where it does not say."""
    promised: EffectClass = _member_of(tool, "effect_class", "once")
    return promised


def timeout_seconds_of(tool: Tool) -> float | None:
    """Give how long one attempt of a tool may take; None for the session's own time."""
    seconds: float | None = _member_of(tool, "timeout_seconds", None)
    return seconds


def _member_of(tool: Tool, name: str, default: Any) -> Any:
    # Checked when the tool was given to the session. One that is computed and fails later counts as not there: it is read
    # where a call begins or ends, outside of what catches the crashes of tools.
    return call_guarded(lambda _: default, getattr, tool, name, default)

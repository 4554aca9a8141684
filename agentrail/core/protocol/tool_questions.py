"""A tool's question whose call waits for the answer as data, and the answer with which the tool runs again. Pure."""

from typing import Literal

from msgspec.structs import force_setattr

from agentrail.frozen import frozen_or_none, frozen_value
from agentrail.messages import JsonObject, JsonValue
from agentrail.structs import Value


class ToolQuestion(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A question that ends a run of a tool. Its call waits for the user, also across restarts, and then runs again.

    Attributes:
        question: Text of the question, with `options`, `schema` and `url` as in `ctx.ask_user`.
        timeout_seconds: Time limit for the answer. None: that of the session.
        state: JSON for the next run, in `ctx.resumption`. Stored with the session.
    """

    question: str
    options: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    schema: JsonObject | None = None
    url: str | None = None
    state: JsonValue = None

    def __post_init__(self) -> None:
        force_setattr(self, "schema", frozen_or_none(self.schema))
        force_setattr(self, "state", frozen_value(self.state))

    @property
    def text(self) -> str:
        """The result of a call that cannot wait: it was stopped, or has no user."""
        return "[The call ended with a question that was never put]"

    @property
    def details(self) -> None:
        """None: a question has no details."""


class Resumption(Value, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a `ToolQuestion`, for the next run of its call.

    Attributes:
        state: As the question had it.
        outcome: `answered`, `declined`, or `timeout` if no answer came in time. `waiting` before.
        answer: The text, or the object of a form. None without an answer.
    """

    state: JsonValue = None
    outcome: Literal["waiting", "answered", "declined", "timeout"] = "waiting"
    answer: JsonValue = None

    def __post_init__(self) -> None:
        force_setattr(self, "state", frozen_value(self.state))
        force_setattr(self, "answer", frozen_value(self.answer))

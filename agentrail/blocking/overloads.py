"""The calls that take a type and give a value of it, or that have typed keywords, as type checkers see their twins: each with a future, and each waiting.

`ParamSpec` keeps one signature of a call, and these have several. What they say is what `agentrail.runtime.prompting` says; when
the program runs they are twins like all others.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar, Unpack, overload

from agentrail.abc import Provider
from agentrail.events import Event
from agentrail.messages import Content
from agentrail.runtime.answers import CycleReply
from agentrail.runtime.keywords import GivesOptions, SessionKeywords
from agentrail.runtime.session_options import SessionOptions

T = TypeVar("T")
E = TypeVar("E", bound=Event)
Started_co = TypeVar("Started_co", covariant=True)


class AsksLater(Protocol):
    """`ask`, with a future."""

    @overload
    def __call__(
        self, content: Content, *, timeout_seconds: float | None = None, wait_for_people: bool = False
    ) -> "Future[str]": ...
    @overload
    def __call__(
        self,
        content: Content,
        *,
        output: type[T],
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> "Future[T]": ...
    @overload
    def __call__(
        self,
        content: Content,
        *,
        output: Any,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> "Future[Any]": ...


class Asks(Protocol):
    """`ask`, waiting."""

    @overload
    def __call__(
        self, content: Content, *, timeout_seconds: float | None = None, wait_for_people: bool = False
    ) -> str: ...
    @overload
    def __call__(
        self,
        content: Content,
        *,
        output: type[T],
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> T: ...
    @overload
    def __call__(
        self,
        content: Content,
        *,
        output: Any,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> Any: ...


class RunsLater(Protocol):
    """`run`, with a future."""

    @overload
    def __call__(
        self, content: Content, *, timeout_seconds: float | None = None, wait_for_people: bool = False
    ) -> "Future[CycleReply[str]]": ...
    @overload
    def __call__(
        self,
        content: Content,
        *,
        output: type[T],
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> "Future[CycleReply[T]]": ...
    @overload
    def __call__(
        self,
        content: Content,
        *,
        output: Any,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> "Future[CycleReply[Any]]": ...


class Runs(Protocol):
    """`run`, waiting."""

    @overload
    def __call__(
        self, content: Content, *, timeout_seconds: float | None = None, wait_for_people: bool = False
    ) -> CycleReply[str]: ...
    @overload
    def __call__(
        self,
        content: Content,
        *,
        output: type[T],
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> CycleReply[T]: ...
    @overload
    def __call__(
        self,
        content: Content,
        *,
        output: Any,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> CycleReply[Any]: ...


class WaitsLater(Protocol):
    """`wait_for`, with a future."""

    @overload
    def __call__(
        self, what: type[E], *, timeout_seconds: float | None = None, wait_for_people: bool = False
    ) -> "Future[E]": ...
    @overload
    def __call__(
        self,
        what: Callable[[Event], bool],
        *,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> "Future[Event]": ...


class WaitsFor(Protocol):
    """`wait_for`, waiting."""

    @overload
    def __call__(
        self, what: type[E], *, timeout_seconds: float | None = None, wait_for_people: bool = False
    ) -> E: ...
    @overload
    def __call__(
        self,
        what: Callable[[Event], bool],
        *,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> Event: ...


class Starts(Protocol[Started_co]):
    """`start_session`, which gives a session, or a future of one."""

    @overload
    def __call__(self, options: SessionOptions, /) -> Started_co: ...
    @overload
    def __call__(self, *, model: str | Provider, **given: Unpack[SessionKeywords]) -> Started_co: ...
    @overload
    def __call__(
        self, blueprint: GivesOptions, /, *, model: str | Provider = ..., **given: Unpack[SessionKeywords]
    ) -> Started_co: ...
    @overload
    def __call__(
        self, *, blueprint: GivesOptions, model: str | Provider = ..., **given: Unpack[SessionKeywords]
    ) -> Started_co: ...


class Resumes(Protocol[Started_co]):
    """`resume_session`."""

    def __call__(
        self,
        session_id: str,
        options: SessionOptions | None = None,
        /,
        *,
        force: bool = False,
        model: str | Provider | None = None,
        **given: Unpack[SessionKeywords],
    ) -> Started_co:
        """Bring a stored session back; as of `SessionSupervisor.resume_session`."""

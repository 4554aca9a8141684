"""How a supervisor is told to start a session: the options, typed as keywords, so that an editor knows them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol, Unpack, overload

import trio

from agentrail.abc import Error, Ok, Provider
from agentrail.errors import SessionDown, StoreUnavailable
from agentrail.messages import JsonValue
from agentrail.runtime.ending import CHILD_STOP_WITHIN_SECONDS
from agentrail.runtime.handle import Session
from agentrail.runtime.keywords import SessionKeywords
from agentrail.runtime.one_call import decide_call, run_call
from agentrail.runtime.session_options import SessionOptions, decide_options


class GivesOptions(Protocol):
    """What gives the options of sessions that are alike."""

    def options(self) -> Mapping[str, Any]:
        """Give them, by name; what `start_session` is given besides stands in front of them."""
        ...


class StartingDoor(ABC):
    """The calls of a supervisor that start a session."""

    @overload
    async def start_session(self, options: SessionOptions, /) -> Session: ...
    @overload
    async def start_session(self, *, model: str | Provider, **given: Unpack[SessionKeywords]) -> Session: ...
    @overload
    async def start_session(
        self, blueprint: GivesOptions, /, *, model: str | Provider = ..., **given: Unpack[SessionKeywords]
    ) -> Session: ...
    @overload
    async def start_session(
        self, *, blueprint: GivesOptions, model: str | Provider = ..., **given: Unpack[SessionKeywords]
    ) -> Session: ...
    async def start_session(  # type: ignore[misc]  # mypy finds no keyword of a TypedDict in `Any`
        self, options: SessionOptions | GivesOptions | None = None, /, **given: Any
    ) -> Session:
        """Start a session, and return its handle when it can be prompted.

        Args:
            options: All options in one value; then no keyword may be given. Or a blueprint, whose options stand behind the keywords.
            **given: The same options as keywords; see `SessionOptions`. Those of a `blueprint`, an object with `.options()`, stand
                behind them.

        Raises:
            OptionError: Your move: unknown options or wrong values, all faults at once; nothing was started.
            ToolDefinitionError: Your move: two tools of one name, or a schema that is none.
            ModelNotFound: Your move: no such provider; the message has the nearest name.
            Authentication: Your move: no key; the message names the variable, and `demo:` as a way to try.
            AlreadyStarted: A live session of this scope has this id; `handle` is its handle.
            PluginError: Your move: a plugin that cannot be loaded, or a stack that cannot be; all faults at once.
            SessionRefused: No one's move: a plugin does not want this session; nothing was started.
            SessionDown: The supervisor is closing.
            AlreadyExists: Your move: the store has a session of this id; resume it, or take another id.
            StoreUnavailable: The store takes nothing for now; nothing was started.

        Cancellation: Always a checkpoint; cancelled here, nothing was started.
        """
        await trio.lowlevel.checkpoint()
        return await self._start(decide_options(options, given))

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None = None,
        options: SessionOptions | None = None,
        /,
        **given: Unpack[SessionKeywords],
    ) -> Ok | Error:
        """Call a tool, as a session would whose model had asked for it; no model is asked.

        A session is started for it and stopped behind it. The call passes its gates, plugins, approvals and budget, and stands in
        its events; with `session_id` in the options it can be followed, and asked for what waits for people.

        Args:
            name: Of a tool in the options.
            arguments: What it is called with; what its schema does not take is an `Error`, as it is for a model. None for none.
            options: As of `start_session`. The model and what belongs to it do not matter; a tool or plugin that wants one is
                refused it. A crash of the session ends the call, which is never repeated.
            **given: The same options as keywords.

        Returns:
            What the tool said: also of a call that was refused, rejected or stopped, an `Error` that says so.

        Raises:
            UnknownTool: Your move: there is no such tool in the options; nothing was started.
            OptionError: Your move: a name, arguments or options that cannot be. All faults at once.
            CycleAborted: A plugin or an operator ended it before the call began.
            CycleFailed: It failed before the call began; `error` says why.
            ToolDefinitionError, AlreadyStarted, PluginError, SessionRefused, SessionDown: As of `start_session`.

        Cancellation: The tool is stopped, with all that it has at work, before the cancellation travels on; four seconds at most.
        """
        await trio.lowlevel.checkpoint()
        session = await self._start(decide_call(name, arguments, options, given), calling=name)
        try:
            return await run_call(session, name)
        finally:
            with (
                trio.move_on_after(CHILD_STOP_WITHIN_SECONDS, shield=True),
                suppress(SessionDown, StoreUnavailable),
            ):
                await session.abort("the call is over", kill_tools="all", clear_queue=True, wait=False)
                await session.stop("the call is over")
                await session.monitor().wait()

    @abstractmethod
    async def _start(self, chosen: SessionOptions, *, calling: str | None = None) -> Session: ...

"""An MCP server as a source of tools: one actor that connects, lists the tools and follows their changes, and the tools themselves."""

import importlib
import importlib.util
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio
from attrs import evolve

from agentrail import outside
from agentrail.abc import (
    Error,
    KeepsResultFiles,
    Ok,
    OpenServerProcess,
    ToolContext,
    ToolListener,
    ToolOutcome,
    ToolQuestion,
    ToolServer,
    UserQuestion,
)
from agentrail.config.key_filter import HIDDEN, hide_keys, in_one_line
from agentrail.core.values.port_members import offers
from agentrail.core.values.source_prompt import SourcePrompt
from agentrail.core.values.toolbox import EffectClass
from agentrail.distribution import install_command
from agentrail.errors import AgentrailError, CommandError, OptionError, QuestionDeclined
from agentrail.events import ToolSourceState
from agentrail.frozen import too_large
from agentrail.logs import Logger
from agentrail.messages import JsonObject
from agentrail.otp.guarded_calls import leaves
from agentrail.structs import picked_fields
from agentrail.tools.mcp.call_result import CallFailed, FoldedResult, ServerLost, absent_server, fold_result
from agentrail.tools.mcp.input_rounds import (
    InputRounds,
    asks_for_input,
    elicit_result_of,
    question_of,
    resumed_rounds,
)
from agentrail.tools.mcp.login_files import LOGIN_DIRECTORY, LoginFile
from agentrail.tools.mcp.message_lines import BadServer
from agentrail.tools.mcp.pins import check_pins
from agentrail.tools.mcp.server_options import McpServer, ServerScope
from agentrail.tools.mcp.server_prompts import read_prompts, text_of_prompt, text_of_sampling
from agentrail.tools.mcp.tool_listing import (
    ListedTool,
    ServerTools,
    cleaned,
    decide_change,
    in_one_sentence,
    log_in_tool,
    read_listing,
    resource_tool,
)
from agentrail.tools.mcp.user_login import LOGIN_SECONDS, BrowserLogin, LoginAttempt

LOGGER: Final = Logger("agentrail.tools.mcp")

WINDOW_SECONDS: Final = 0.25
"""Changes within this time are one listing."""

MAX_LISTINGS: Final = 20
LISTINGS_SECONDS: Final = 60.0
MAX_LOGGED: Final = 20
"""Log messages of a server per second. Further ones are dropped."""

RECONNECT_SECONDS: Final = 15.0
"""Time that a repeated call waits for the server to be back."""

_INTERNAL_ERROR: Final = -32_603  # of JSON-RPC
_SAMPLING_PROMPT: Final = "A tool server asks you. Answer it, and nothing else."
_NOTHING_ASKED_SECONDS: Final = 0.25
_FIRST_PAUSE_SECONDS: Final = 0.5
_LAST_PAUSE_SECONDS: Final = 30.0
_TURN_SECONDS: Final = 0.5
"""Time after which a server that is not ready yet lets the next one start."""

_LARGE_CHARACTERS: Final = 200_000
_MAX_REASON: Final = 1_000
_MAX_LOGIN_QUESTIONS: Final = 5


def _check_library() -> None:
    """Raise `OptionError` unless the extra is installed. Imports nothing."""
    if importlib.util.find_spec("mcp") is None:
        message = f"MCP servers need the extra `mcp`, which is not installed: {install_command('mcp')}"
        raise OptionError([message])


def load_library() -> Any:
    """Import the half that needs the library. Blocks for half a second."""
    return importlib.import_module("agentrail.tools.mcp.connection")


class McpSource:
    """One server. Its actor runs `serve` again and again, and its tools find the present connection here.

    Attributes:
        state: As last reported.
        reason: Cause of the state, or None.
        listing: The tools as last listed. They stay through a restart.
        prompts: The prompts as last listed. They stay too.
        instructions: Its instructions for the model, if they are wanted. They stay too.
    """

    def __init__(
        self, server: McpServer, open_process: OpenServerProcess, login_file: LoginFile | None = None
    ) -> None:
        self.server: Final = server
        self.state: ToolSourceState = "connecting"
        self.reason: str | None = None
        self.listing: ServerTools = ServerTools()
        self.prompts: tuple[SourcePrompt, ...] = ()
        self.instructions: str | None = None
        self.connection: Any = None
        self.settled: trio.Event = trio.Event()
        self.is_required: bool = server.required
        self.is_eager: bool = server.start == "eager" and server.sharing == "supervisor"
        self.sharing: ServerScope = server.sharing
        self.user_login: BrowserLogin | None = None
        self._is_ready = trio.Event()
        self._restart = trio.Event()
        self._open_process = open_process
        self._login_file = login_file
        self._login: Any = None
        self._listeners: list[ToolListener] = []
        self._tools: dict[str, McpTool] = {}
        self._listed_at: deque[float] = deque(maxlen=MAX_LISTINGS)
        self._logged_at: deque[float] = deque(maxlen=MAX_LOGGED)
        self._errors: Any = None

    @property
    def name(self) -> str:
        return self.server.name

    @property
    def tools(self) -> tuple["McpTool", ...]:
        """The present tools. None while it is parked."""
        return tuple(self._tools.values())

    @property
    def error_text(self) -> str:
        """The end of the server's standard error, for people."""
        return "" if self._errors is None else self._hidden(self._errors.text())

    async def serve(self) -> None:
        """Run one life.

        Raises:
            ServerLost: It ended.

        Cancellation: The connection is closed first, and its process stopped, within seven seconds.
        """
        state: ToolSourceState = "closed"
        reason: str | None = None
        if self.state in {"parked", "closed"}:
            self._change_state("connecting")
        try:
            while True:
                await self._live_until_login()
        except Exception as error:  # noqa: BLE001 - whatever ended it is the exit reason of its actor
            state, reason = "restarting", self._hidden(describe_loss(error))
            raise ServerLost(reason) from None
        finally:
            self._disconnect()
            if self.state == "ready" and state == "restarting":
                self.settled = trio.Event()  # sessions that need it wait for the outcome of the next life
            else:
                self.settled.set()
            self._change_state(state, reason)

    def restart(self) -> None:
        """End the present life, if it is connected. Its supervisor begins another."""
        self._restart.set()

    def park(self) -> None:
        """Detach all tools: it was lost too often."""
        names = tuple(self._tools)
        self._tools, self.listing, self.prompts, self.instructions = {}, ServerTools(), (), None
        for listener in self._listeners:
            listener.tools_changed((), names)
        self._change_state("parked", self.reason)

    def join(self, listener: ToolListener) -> Callable[[], None]:
        """Add a session. It gets the present tools at once."""
        self._listeners.append(listener)
        listener.tools_changed(self.tools, ())
        listener.state_changed(self.state, self.reason)
        return partial(self._listeners.remove, listener)

    def _log(self, level: str, data: object) -> None:
        now = trio.current_time()
        if len(self._logged_at) < MAX_LOGGED or now - self._logged_at[0] >= 1.0:
            self._logged_at.append(now)
            said = too_large(data, max_characters=_LARGE_CHARACTERS) or cleaned(str(data))
            LOGGER.debug("MCP server %s says (%s): %s", self.name, level, self._hidden(said))

    async def wait_ready(self, seconds: float) -> None:
        """Wait until it is connected, for at most this long."""
        with trio.move_on_after(seconds):
            while self.connection is None:
                await self._is_ready.wait()

    def _disconnect(self) -> None:
        self.connection = None
        self._is_ready.set()  # wakes those that wait, for the next connection from now on
        self._is_ready = trio.Event()

    async def request(
        self, ask: Callable[[Any], Awaitable[Mapping[str, Any]]], traceparent: str = ""
    ) -> Mapping[str, Any]:
        """Send a request over the connection, in the trace of its call if it has one, and return its result.

        Raises:
            ServerLost: The connection broke.
            CallFailed: There is no result for another reason.
        """
        if self.connection is None:
            raise self._absent(self.state)
        library = load_library()
        try:
            with library.in_trace(traceparent or library.new_trace()):
                return await ask(self.connection)
        except CallFailed:
            if self.user_login is None or not self._login.missing.is_set():
                raise
            raise self._absent() from None

    def _absent(self, state: str = "needs_login") -> CallFailed:
        return absent_server(
            self.name, state, None if self.user_login is None else log_in_tool(self.name).name
        )

    def serve_logins(self, address: str, owner: str) -> None:
        if self.server.has_login_per_principal:
            self.user_login = BrowserLogin(address, self.name, owner)

    def forget_login(self) -> None:
        """See `ToolSource`. The login of a machine is not its principal's."""
        if self._login_file is not None and self.server.has_login_per_principal:
            self._login_file.delete()

    async def wait_attached(self) -> None:
        """Wait until it is connected, and its sessions have the tools."""
        await self.wait_ready(self.server.connect_timeout)
        for listener in tuple(self._listeners):
            await listener.wait_attached()

    # --- one life

    async def _live_until_login(self) -> None:
        """Live until the user must log in, and wait until that has happened."""
        library = await outside.offload(load_library)
        self._login = None if self._login_file is None else library.ServerLogin(self.server, self._login_file)
        try:
            async with trio.open_nursery() as turn:
                await turn.start(self._hold_turn)
                await self._live(library)
        except Exception as error:
            if self._login is None or not self._login.missing.is_set():
                raise
            LOGGER.info("MCP server %s was left: %s", self.name, self._hidden(describe_loss(error)))
        await self._wait_for_login()
        self._change_state("connecting")

    async def _wait_for_login(self) -> None:
        self._disconnect()
        self.settled.set()
        login = self.user_login
        if login is None:
            self._change_state("needs_login", f"agentrail mcp login {self.name}")
            await self._login.wait_changed()
            return
        self._change_tools((AskForLogin(self, login),), ())
        self._change_state("needs_login", "its user must log in")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(login.serve, self._log_in)
            await self._login.wait_changed()
            login.finish()
            nursery.cancel_scope.cancel(reason="there is a new login")

    async def _log_in(self, browser: LoginAttempt) -> str | None:
        assert self._login_file is not None  # noqa: S101 - a server with logins has files of them
        try:
            await log_in(self.server, self._open_process, self._login_file, browser)
        except ServerLost as lost:
            return str(lost)
        return None

    async def _live(self, library: Any) -> None:
        seconds = self.server.connect_timeout
        with trio.move_on_after(seconds) as connecting:
            async with library.open_connection(self.server, self._open_process, self._login) as connection:
                self._errors = connection.errors
                connection.workspaces = [one.working_dir for one in self._listeners]
                connection.log = self._log
                await connection.connect()
                said = cleaned(connection.instructions)
                self.instructions = f'Instructions of the server "{self.name}":\n\n{said}' if said else None
                await self._list(connection)
                connecting.deadline = math.inf
                self.connection = connection
                self._restart = trio.Event()
                self._is_ready.set()
                self._change_state("ready")
                self.settled.set()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._follow, connection)
                    nursery.start_soon(self._list_changes, connection)
                    nursery.start_soon(self._leave_on_request)
                    if self._login is not None:
                        nursery.start_soon(self._leave_without_login)
                    await connection.wait_gone()
                    message = "its session is gone"
                    raise ServerLost(message)
        if connecting.cancelled_caught:
            message = f"it did not answer within {seconds:g} s"
            raise ServerLost(message)

    async def _leave_on_request(self) -> None:
        await self._restart.wait()
        message = "a restart was asked for"
        raise ServerLost(message)

    async def _hold_turn(self, task_status: trio.TaskStatus[None]) -> None:
        async with outside.process_turns("starting"):
            task_status.started()
            with trio.move_on_after(_TURN_SECONDS):
                await self._is_ready.wait()

    async def _leave_without_login(self) -> None:
        await self._login.missing.wait()
        await self._wait_for_login()  # the other calls in flight end as they would
        message = "there is a new login"
        raise ServerLost(message)

    async def _follow(self, connection: Any) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while await connection.follow_changes():
            await trio.sleep(pause * (1 + 0.2 * outside.jitter()))
            pause = min(2 * pause, _LAST_PAUSE_SECONDS)
            connection.changed.set()  # nothing is replayed, so a gap may have hidden a change

    async def _list_changes(self, connection: Any) -> None:
        while True:
            await connection.changed.wait()
            await trio.sleep(WINDOW_SECONDS)
            if len(self._listed_at) == MAX_LISTINGS:
                await trio.sleep_until(self._listed_at[0] + LISTINGS_SECONDS)
            connection.changed = trio.Event()
            try:
                with trio.fail_after(self.server.timeout_seconds):
                    await self._list(connection)
            except (*load_library().LISTING_FAULTS, trio.TooSlowError) as error:
                # The tools stay as last listed.
                why = self._hidden(describe_loss(error))
                LOGGER.info("MCP server %s listed no tools: %s", self.name, why)
                await trio.sleep(_LAST_PAUSE_SECONDS)
                connection.changed.set()

    async def _list(self, connection: Any) -> None:
        self._listed_at.append(trio.current_time())
        raw = await connection.list_tools() if connection.offers("tools") else []
        has_resources = connection.offers("resources")
        listing = await outside.offload(self._read_listing, raw, has_resources)
        prompts = await connection.list_prompts()
        self.prompts = await outside.offload(read_prompts, self.name, prompts, self._ask_for_prompt)
        # With the tools that sessions have, not those listed last: one of them may ask for a login, whatever its name is.
        present = {name: one.listed for name, one in self._tools.items()}
        change = decide_change(evolve(self.listing, tools=present), listing)
        self.listing = listing
        self._change_tools(tuple([McpTool(self, one) for one in change.attach]), change.detach)
        if change.faults:
            self._report("changed", self._hidden(in_one_sentence(change.faults)))

    def _change_tools(self, attach: tuple["McpTool", ...], detach: tuple[str, ...]) -> None:
        for name in detach:
            del self._tools[name]
        self._tools |= {one.name: one for one in attach}
        if attach or detach:
            for listener in self._listeners:
                listener.tools_changed(attach, detach)

    def _read_listing(self, raw: list[Any], has_resources: bool) -> ServerTools:  # noqa: FBT001 - the argument of a thread
        return check_pins(self.server, read_listing(self.server, raw, has_resources=has_resources))

    async def _ask_for_prompt(self, name: str, arguments: Mapping[str, str]) -> str:
        """Ask the server for a prompt. Every failure is a `CommandError`."""
        try:
            with trio.fail_after(self.server.timeout_seconds):
                found = await self.request(lambda connection: connection.get_prompt(name, arguments))
        except (ServerLost, CallFailed, trio.TooSlowError) as failed:
            message = str(failed) or f'The server "{self.name}" did not answer in time.'
            raise CommandError(message) from None
        return await outside.offload(text_of_prompt, self.name, name, found, resource_tool(self.name, "read"))

    def _change_state(self, state: ToolSourceState, reason: str | None = None) -> None:
        if state == self.state and state != "restarting":
            return
        self.state, self.reason = state, reason
        self._report(state, reason)

    def _report(self, state: ToolSourceState, reason: str | None) -> None:
        LOGGER.info("MCP server %s is %s: %s", self.name, state, reason or "")
        for listener in self._listeners:
            listener.state_changed(state, reason)

    def _hidden(self, text: str) -> str:
        for secret in (*self.server.secrets, *(() if self._login is None else self._login.secrets)):
            text = text.replace(secret, HIDDEN)
        return hide_keys(text)


def describe_loss(error: BaseException) -> str:
    """Describe what ended a life: the leaves of groups in groups, in one line."""
    found = leaves(error)
    # Callers of the library fail only in consequence.
    said = [one for one in found if isinstance(one, BadServer)] or found
    return in_one_line(" ".join("; ".join(dict.fromkeys(map(_describe, said))).split()), _MAX_REASON)


def _describe(error: BaseException) -> str:
    match error:
        case FileNotFoundError(filename=name) if name:
            return f"the program {name!r} was not found"
        case OptionError():
            return "; ".join(error.faults)
        case OSError(strerror=str() as said):
            return f"it could not be started: {said}"
        case ValueError() | ArithmeticError():  # of the library, such as for a stream's time of `retry`
            return f"it sent something that its client cannot use: {error}"
        case _:
            return str(error) or type(error).__name__


class McpTool:
    """A tool of an MCP server."""

    def __init__(self, source: McpSource, listed: ListedTool) -> None:
        self.source: Final = source
        self.listed: Final = listed
        self.name: str = listed.name
        self.description: str = listed.description
        self.parameters: JsonObject = listed.parameters
        self.effect_class: EffectClass = listed.effect_class
        self.timeout_seconds: float = source.server.timeout_seconds
        # The source gives the tool to a restored session again, and a rule covers no other text than that of this digest.
        self.comes_from: str = f"mcp.{source.name} {'' if source.server.pin == 'off' else listed.digest}"

    def label(self, arguments: JsonObject) -> str:
        return self.listed.label

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Call the tool at its server.

        Raises:
            ServerLost: The connection broke, and the call may be repeated.

        Cancellation: The server is told first.
        """
        source, listed = self.source, self.listed
        if ctx.attempt > 1 or ctx.resumption is not None:
            await source.wait_ready(min(RECONNECT_SECONDS, ctx.seconds_left() / 2))
        try:
            raw = await self._result_or_question(arguments, ctx)
        except ServerLost as lost:
            if listed.effect_class in {"pure", "idempotent"}:
                raise
            return Error(text=str(lost))
        except CallFailed as failed:
            return Error(text=str(failed))
        if isinstance(raw, ToolQuestion):
            return raw
        fold = partial(
            fold_result, raw, listed, call_id=ctx.call_id, read_with=resource_tool(source.name, "read")
        )
        is_large = too_large(raw, max_characters=_LARGE_CHARACTERS) is not None
        return await self._kept(await outside.offload(fold) if is_large else fold(), ctx)

    async def _result_or_question(
        self, arguments: JsonObject, ctx: ToolContext
    ) -> Mapping[str, Any] | ToolQuestion:
        rounds = resumed_rounds(ctx.resumption)
        while True:
            rounds, question = rounds.next_question(self.source.name)
            if question is not None:
                return question
            ask = partial(self._ask, arguments, ctx, rounds)
            raw = await self.source.request(ask, ctx.traceparent)
            if not asks_for_input(raw):
                return raw
            rounds = rounds.asked(raw)
            if not rounds.left:
                await trio.sleep(_NOTHING_ASKED_SECONDS)

    async def _ask(
        self, arguments: JsonObject, ctx: ToolContext, rounds: InputRounds, connection: Any
    ) -> Mapping[str, Any]:
        name = self.listed.remote_name
        if not self.listed.is_ours:
            ask = partial(ask_in_call, ctx, self.source.name)
            called = connection.call(name, arguments, rounds, report=ctx.report_progress, ask=ask)
        elif name == "list_resources":
            called = connection.list_resources()
        else:
            called = connection.read_resource(str(arguments["uri"]))
        result: Mapping[str, Any] = await called
        return result

    async def _kept(self, folded: FoldedResult, ctx: ToolContext) -> ToolOutcome:
        if not folded.files:
            return folded.outcome
        sandbox, fault = ctx.sandbox, "this sandbox keeps no files of results"
        if offers(sandbox, KeepsResultFiles):
            fault = ""
            for one in folded.files:
                refusal = await sandbox.keep_result_file(one.name, one.data)
                fault = fault or ("" if refusal is None else refusal.message)
        if not fault:
            return folded.outcome
        return evolve(folded.outcome, text=f"{folded.outcome.text}\n\n[the files could not be kept: {fault}]")


class AskForLogin(McpTool):
    """The tool that asks the user to log in. It is there while a login is missing that a host has pages for."""

    def __init__(self, source: McpSource, login: BrowserLogin) -> None:
        super().__init__(source, log_in_tool(source.name))
        self.timeout_seconds: float = 2 * LOGIN_SECONDS
        self._login = login

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Ask with a link, again if the login failed, and wait until the session has the server's tools."""
        source, login = self.source, self._login
        user = f"{ctx.user_data.get('user_id')} of {ctx.user_data.get('tenant_id')}"
        for _ in range(_MAX_LOGIN_QUESTIONS):
            failed = f"The login failed: {login.reason}. " if login.reason else ""
            question = f"{source.name}: {failed}Log in at this address to use the tools of {source.name}."
            answer: str | None = "Done"
            with login.until_done() as asking:
                answer = await ctx.ask_user(
                    question, ["Done"], url=login.offer(user), timeout_seconds=LOGIN_SECONDS
                )
            if asking.cancelled_caught or source.state != "needs_login":
                await source.wait_attached()
                there = ", ".join(one.name for one in source.tools)
                return Ok(text=f"The user has logged in. The tools of {source.name} are: {there}")
            if answer is None:
                break
        return Error(text=f"The user has not logged in to {source.name}.")


async def ask_in_call(ctx: ToolContext, server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask the user of a running call what its server of the older revision asks, and return the result of the elicitation."""
    if "messages" in params:
        return await _sample_in_call(ctx, params)
    question = question_of(server, params)
    if question is None:
        return elicit_result_of(params, "declined")
    seconds = ctx.seconds_left() - 1.0
    within = 300.0 if math.isinf(seconds) else max(seconds, 0.1)
    asked = picked_fields(question, "question", "options", "schema", "url")
    try:
        said = await ctx.question(UserQuestion(**asked, timeout_seconds=within))
    except QuestionDeclined:
        return elicit_result_of(params, "declined")
    return elicit_result_of(params, "timeout" if said is None else "answered", said)


async def _sample_in_call(ctx: ToolContext, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Let the model of a call's session answer a server: one turn without tools, within the session's budget."""
    prompt, system = text_of_sampling(params["messages"]), params.get("systemPrompt") or _SAMPLING_PROMPT
    try:
        said = await ctx.run_session(prompt, system_prompt=system, tools=(), max_turns=1)
    except AgentrailError as error:
        message = f"The model gave no answer: {error}"
        raise CallFailed(message, _INTERNAL_ERROR) from None
    return {"role": "assistant", "content": {"type": "text", "text": said}, "model": ctx.model}


def source_of_server(
    server: ToolServer, open_process: OpenServerProcess, data_directory: Callable[[], Path], owner: str = ""
) -> McpSource:
    """Create the source of a server. It starts nothing.

    Raises:
        OptionError: Your move: these are not the options of an MCP server, or the extra is not installed.
    """
    _check_library()
    if not isinstance(server, McpServer):
        raise OptionError(
            [f"mcp has {server!r:.80}: expected McpServer(name, command=…) or McpServer(name, url=…)"]
        )
    if server.auth != "oauth":
        return McpSource(server, open_process)
    return McpSource(server, open_process, login_file_of(server, data_directory(), owner))


async def log_in(
    server: McpServer, open_process: OpenServerProcess, file: LoginFile, browser: Any = None
) -> None:
    """Log in to a server, through the user's browser or as a machine, and write the login to its file.

    Raises:
        ServerLost: There is no login. The message says why, without secrets.
        OptionError: The extra is not installed.
    """
    _check_library()
    library = await outside.offload(load_library)
    login = library.ServerLogin(server, file, browser)
    try:
        async with library.open_connection(server, open_process, login) as connection:
            await connection.connect()
            await connection.list_tools()
    except Exception as error:  # noqa: BLE001 - translated, whatever ended it
        if login.is_logged_in and not login.missing.is_set():  # what failed after the login is no fault of it
            return
        raise ServerLost(hide_keys(login.reason or describe_loss(error))) from None
    if not login.is_logged_in:
        message = "it asks for no login"
        raise ServerLost(message)


def login_file_of(server: McpServer, data_directory: Path, owner: str = "") -> LoginFile:
    """Return the file of a login. A machine has one for all principals."""
    return LoginFile(
        data_directory / LOGIN_DIRECTORY, server.url or "", owner if server.has_login_per_principal else ""
    )

"""`agentrail run`: one prompt, one cycle, an exit code."""

import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from fnmatch import fnmatchcase
from typing import Annotated, Final

import trio
from attrs import define, field, frozen
from cyclopts import Parameter

from agentrail.app import ChosenModel
from agentrail.cli.chat_notices import innermost
from agentrail.cli.config_setup import (
    AgentOption,
    CommandSetup,
    ConfigFiles,
    read_setup,
    write_notice,
)
from agentrail.cli.ctrl_c import Interrupts, leave_at_once, stop_signals
from agentrail.cli.event_text import Transcript, json_line
from agentrail.cli.exit_codes import Exit, describe_error, exit_of, write_faults
from agentrail.cli.log_output import send_logs_to_stderr
from agentrail.cli.resume_command import is_lasting, kept_store
from agentrail.cli.run_options import Choices
from agentrail.cli.run_setup import (
    choose_for,
    decide_approvals,
    decide_prompt,
    decide_session,
    with_origin,
)
from agentrail.cli.screen import DirectScreen, look_of_process
from agentrail.cli.shared_stores import open_equipped
from agentrail.cli.stdio import OutputClosed, OutputFailed
from agentrail.cli.storage_options import KeepingOptions, KeptIn, keeping_from, store_arguments
from agentrail.cli.text_output import end_without_output
from agentrail.errors import AgentrailError, InteractionError, OptionError, SessionDown
from agentrail.events import ApprovalRequired, AskUser, Event
from agentrail.gc_settings import many_sessions
from agentrail.messages import MAX_PROMPT_BYTES
from agentrail.runtime.session_handle import Session
from agentrail.runtime.supervisor import SessionSupervisor

_MAX_WAITING_EVENTS: Final = 100_000
"""Maximum events that the reader of our output may lag behind before the run ends."""

_NO_USER: Final = "no user can be asked in this run"

_LAST_WORDS_SECONDS: Final = 1.0
"""Time limit for writing the remaining output after an interrupted cycle has settled, in seconds."""


@frozen(kw_only=True)
class Order:
    """The command line of a run.

    Attributes:
        keeping: How to store the session, or None not to store it.
        setup: The settings of the configuration files, or None if there are none.
    """

    prompt: str
    choices: Choices
    json: bool
    approve: str | None = None
    keeping: KeepingOptions | None = None
    setup: CommandSetup | None = None


def run(  # noqa: PLR0913 - an option each
    prompt: Annotated[
        str | None, Parameter(help="The prompt. Without it, stdin is read when it is piped.")
    ] = None,
    /,
    *,
    choices: Choices = Choices(),  # noqa: B008 - frozen
    agent: AgentOption = None,
    files: ConfigFiles = ConfigFiles(),  # noqa: B008 - frozen
    json: Annotated[bool, Parameter(help="Print one event per line as JSON, and nothing else.")] = False,
    stdin: Annotated[bool, Parameter(name="-", help="Read the prompt from stdin.")] = False,
    approve: Annotated[
        str | None,
        Parameter(
            help="Tools whose calls are approved where they need it: names or patterns with commas between them, such as "
            "shell, or *. Without it such a call is refused at once, because no user can be asked."
        ),
    ] = None,
    kept_in: KeptIn = KeptIn(),  # noqa: B008 - frozen
    keep: Annotated[
        bool,
        Parameter(
            help="Store the session, so that it can be inspected and resumed; its id is printed at the end."
        ),
    ] = False,
) -> Exit:
    try:
        piped = None
        if stdin or (prompt is None and not os.isatty(0)):
            with open(0, "rb", closefd=False) as file:  # not `sys.stdin`, which is missing if it was closed
                piped = file.read(MAX_PROMPT_BYTES + 1)
        text = decide_prompt(prompt, piped)
        decide_approvals(approve)
        is_kept = keep or kept_in.store is not None
        if not is_kept and (kept_in.keep_days, kept_in.keep_bytes) != (None, None):
            raise OptionError(
                ["--keep-days and --keep-bytes are about kept sessions: give --keep, or --store"]
            )
        setup = read_setup(files, agent, choices.cwd)
    except AgentrailError as error:
        write_faults(error)
        return Exit.USAGE
    send_logs_to_stderr(debug=choices.debug)
    write_notice(setup)
    with many_sessions(collect=False):  # only imports so far
        keeping = keeping_from(kept_in) if is_kept else None
        order = Order(prompt=text, choices=choices, json=json, approve=approve, keeping=keeping, setup=setup)
        return trio.run(serve_run, order)


@define(eq=False, kw_only=True)
class _Stop:
    work: trio.CancelScope
    nursery: trio.Nursery
    say: Callable[[str], Awaitable[None]]
    session: Session | None = None
    is_stopping: bool = False

    def interrupt(self) -> None:
        """Stop running work, the second time without waiting."""
        if self.is_stopping:
            self.nursery.start_soon(leave_at_once, self.work)
        elif self.session is None:
            self.work.cancel(reason="interrupted")
        else:
            self.nursery.start_soon(self.say, "stopping; Ctrl-C again leaves at once")
            self.nursery.start_soon(self._abort, self.session)
        self.is_stopping = True

    async def _abort(self, session: Session) -> None:
        with contextlib.suppress(SessionDown):  # it ended before the abort
            await session.abort("interrupted", kill_tools="all", clear_queue=True)
        self.work.deadline = trio.current_time() + _LAST_WORDS_SECONDS


@define(eq=False)
class _Printer:
    json: bool
    transcript: Transcript = field(factory=lambda: Transcript(look_of_process()))
    screen: DirectScreen = field(factory=DirectScreen)

    async def show(self, event: Event) -> None:
        await self.screen.write(json_line(event) if self.json else self.transcript.feed(event))

    async def say(self, text: str) -> None:
        await self.screen.write(self.transcript.note(text))


async def serve_run(order: Order) -> Exit:
    printer = _Printer(order.json)
    code = Exit.FAILED
    with trio.open_signal_receiver(signal.SIGINT, *stop_signals()) as signals:
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as work:
                stop = _Stop(work=work, nursery=nursery, say=printer.say)
                nursery.start_soon(Interrupts(stop.interrupt).receive, signals)
                code = await _work(order, printer, stop)
            nursery.cancel_scope.cancel(reason="the run is over")
    return Exit.INTERRUPTED if stop.is_stopping else code


async def _work(order: Order, printer: _Printer, stop: _Stop) -> Exit:
    try:
        chosen = await choose_for(order.choices, os.environ, order.setup)
        await printer.say(f"model {chosen.model} ({chosen.why})")
        async with AsyncExitStack() as stack:
            store = None
            if order.keeping is not None:
                store = await stack.enter_async_context(
                    kept_store(order.keeping, printer.say, is_needed=True)
                )
            opened = open_equipped(
                order.keeping, order.setup, store=store, shell_fallback=order.choices.shell_fallback
            )
            async with opened as supervisor:
                code = await _run_cycle(order, chosen, supervisor, printer, stop)
            if order.keeping is not None and is_lasting(store) and stop.session is not None:
                session_id = stop.session.session_id
                again = f"{session_id}{store_arguments(order.keeping.store, order.keeping.data_dir)}"
                await printer.say(f"session {session_id} is kept: agentrail chat --resume {again}")
            return code
    except AgentrailError as error:
        await printer.say(f"error: {describe_error(error)}")
        return Exit.USAGE if stop.session is None else Exit.FAILED
    except (OutputFailed, OutputClosed) as error:
        return end_without_output(error)


async def _run_cycle(
    order: Order, chosen: ChosenModel, supervisor: SessionSupervisor, printer: _Printer, stop: _Stop
) -> Exit:
    options = decide_session(order.choices, chosen, order.setup, os.environ)
    session = await supervisor.start_session(with_origin(options, order.choices, order.setup))
    await supervisor.wait_for_tools(session.session_id)
    async with session.subscribe(buffer=_MAX_WAITING_EVENTS) as events:
        await session.prompt(order.prompt)
        stop.session = session
        async for event in events:
            await printer.show(event)
            await _decide(order, session, event, printer)
            code = exit_of(event)
            if code is not None:
                return code
        return Exit.FAILED  # the session ended before its cycle: its events say why


async def _decide(order: Order, session: Session, event: Event, printer: _Printer) -> None:
    """Answer a request for the user: without a user, it would wait indefinitely."""
    event = innermost(event)
    # It may have been decided meanwhile, for example by a deadline.
    with contextlib.suppress(InteractionError, SessionDown):
        match event:
            case ApprovalRequired(approval=asked) if is_pre_approved(asked.tool, order.approve):
                await session.approve(asked.id)
            case ApprovalRequired(approval=asked):
                await printer.say(
                    f"{asked.tool} was refused: it needs an approval, and `agentrail run` cannot ask the user. "
                    f"--approve {asked.tool} approves it; `agentrail chat` asks you"
                )
                await session.reject(asked.id, _NO_USER, auto_resume=True)
            case AskUser(ref=ref):
                await printer.say(
                    "a question was declined: `agentrail run` cannot ask the user; `agentrail chat` does"
                )
                await session.decline(ref, _NO_USER)
            case _:
                pass


def is_pre_approved(tool: str, approve: str | None) -> bool:
    return approve is not None and any(fnmatchcase(tool, name.strip()) for name in approve.split(","))

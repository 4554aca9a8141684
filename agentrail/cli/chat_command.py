"""`agentrail chat` at startup: a terminal shows the prompt first, and the conversation is imported while the user types."""

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from agentrail import outside
from agentrail.cli.chat_options import ChatOrder, ChatStage, CodingOption, ConnectOption, ResumeOption
from agentrail.cli.config_setup import AgentOption, ConfigFiles
from agentrail.cli.ctrl_c import Interrupts, stop_signals
from agentrail.cli.exit_codes import Exit, describe_error, first_error, write_faults
from agentrail.cli.log_output import send_logs_to_stderr
from agentrail.cli.run_options import ApproveOption, Choices
from agentrail.cli.stdio import OutputClosed, OutputFailed, write_error
from agentrail.cli.storage_options import KeptIn, directory_of, keeping_from
from agentrail.cli.text_output import end_without_output
from agentrail.errors import AgentrailError, OptionError
from agentrail.gc_settings import many_sessions, no_looks, short_looks

if TYPE_CHECKING:
    from agentrail.cli.terminal.live_view import TerminalView

Hold: TypeAlias = Callable[[ChatOrder, ChatStage], Awaitable[tuple[Exit, ChatOrder | None]]]
"""Holds one conversation. Returns its exit code and the conversation to switch to."""


def chat(  # noqa: PLR0913 - an option each
    *,
    choices: Choices = Choices(),  # noqa: B008 - frozen
    agent: AgentOption = None,
    coding: CodingOption = False,
    files: ConfigFiles = ConfigFiles(),  # noqa: B008 - frozen
    approve: ApproveOption = None,
    resume: ResumeOption = None,
    connect: ConnectOption = None,
    kept_in: KeptIn = KeptIn(),  # noqa: B008 - frozen
) -> Exit:
    faults = [
        *faults_of_coding(choices, agent if connect is None else None, coding=coding),
        *faults_of_far(choices, kept_in, files, approve, connect, coding=coding),
        *faults_of_resumed(choices, approve, resume, None if connect is None else agent, coding=coding),
    ]
    if faults:
        write_faults(OptionError(faults))
        return Exit.USAGE
    order = ChatOrder(
        choices=choices,
        approve=approve,
        keeping=keeping_from(kept_in, resume),
        files=files if resume is None and connect is None else None,
        trust_project=files.trust_project,
        config=files.config,
        connect=connect,
        agent=agent,
        coding=coding,
    )
    return trio.run(serve_chat, order)


_OF_A_NEW_SESSION: Final = ("tools", "system", "max_turns", "max_retries")
"""Options that apply only when a session starts."""

_OF_THIS_PROCESS: Final = (
    *_OF_A_NEW_SESSION,
    "model",
    "base_url",
    "opt",
    "sandbox",
    "shell_fallback",
    "dangerously_bypass_permissions",
)
"""Options that configure a session of this process."""


def faults_of_coding(choices: Choices, agent: str | None, *, coding: bool) -> tuple[str, ...]:
    """Return the faults of options that contradict `--coding`: another agent, or other tools."""
    if not coding:
        return ()
    named = [
        *(["--agent"] if agent is not None else []),
        *_differing(choices, Choices(), ("tools",)),
    ]
    return _leave_out(named, "cannot be combined with --coding (it has its own tools)")


def faults_of_far(  # noqa: PLR0913 - a group of options each
    choices: Choices,
    kept_in: KeptIn,
    files: ConfigFiles,
    approve: str | None,
    connect: str | None,
    *,
    coding: bool = False,
) -> tuple[str, ...]:
    """Return the faults of options that a remote session ignores: for example, `--approve` would seem to guard it."""
    if connect is None:
        return ()
    named = [
        *(["--coding"] if coding else []),
        *_differing(choices, Choices(), _OF_THIS_PROCESS),
        *_differing(files, ConfigFiles(), ("config", "trust_project")),
        *_differing(kept_in, KeptIn(), ("keep_days", "keep_bytes")),
        *(["--approve"] if approve is not None else []),
        # With `memory:`, no input history is kept here.
        *(["--store"] if kept_in.store not in {None, "memory:"} else []),
    ]
    return _leave_out(named, "cannot be combined with --connect (the profile on the server decides)")


def faults_of_resumed(
    choices: Choices,
    approve: str | None,
    resume: str | None,
    profile: str | None,
    *,
    coding: bool = False,
) -> tuple[str, ...]:
    """Return the faults of options that a resumed session ignores. `profile` is the profile of a server."""
    if resume is None:
        return ()
    named = [
        *(["--agent"] if profile is not None else []),
        *(["--coding"] if coding else []),
        *_differing(choices, Choices(), _OF_A_NEW_SESSION),
        *(["--approve"] if approve is not None else []),
    ]
    return _leave_out(named, "cannot be combined with --resume (a resumed session keeps its settings)")


def _differing(given: object, usual: object, names: Iterable[str]) -> list[str]:
    return [f"--{name.replace('_', '-')}" for name in names if getattr(given, name) != getattr(usual, name)]


def _leave_out(named: Sequence[str], why: str) -> tuple[str, ...]:
    if not named:
        return ()
    return (f"{', '.join(named)} {why}: leave {'it' if len(named) == 1 else 'them'} out",)


async def serve_chat(order: ChatOrder) -> Exit:
    code = Exit.FAILED
    try:
        ends = trio.open_signal_receiver(*stop_signals())
        with trio.open_signal_receiver(signal.SIGINT) as signals, ends as gone:
            code = await _serve(order, signals, gone)
    except* (OutputFailed, OutputClosed) as failed:
        code = end_without_output(first_error(failed))
    except* AgentrailError as failed:
        write_error(describe_error(first_error(failed)))
    return code


async def _serve(order: ChatOrder, signals: AsyncIterator[int], gone: AsyncIterator[int]) -> Exit:
    code = Exit.INTERRUPTED
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as starting:
            interrupts, hang_ups = Interrupts(handle=starting.cancel), Interrupts(handle=starting.cancel)
            nursery.start_soon(interrupts.receive, signals)
            nursery.start_soon(hang_ups.receive, gone)
            going: ChatOrder | None = order
            while going is not None:
                async with open_terminal(going, starting.cancel) as terminal:
                    # In a thread, so that keys are read and Ctrl-C works meanwhile.
                    hold = await outside.offload(_import_conversation)
                    send_logs_to_stderr(debug=order.choices.debug)
                    looks = contextlib.nullcontext() if terminal is None else short_looks()
                    with many_sessions(collect=False), looks:  # only imports so far
                        stage = ChatStage(terminal, nursery, interrupts, hang_ups)
                        code, going = await hold(going, stage)
        nursery.cancel_scope.cancel(reason="the chat is over")
    return code


def _import_conversation() -> Hold:
    with no_looks():
        from agentrail.cli.chat_session import hold
    return hold


# --- the terminal


@asynccontextmanager
async def open_terminal(
    order: ChatOrder, interrupt: Callable[[], None]
) -> AsyncIterator["TerminalView | None"]:
    # Lines are edited on a screen, in a terminal that supports escape sequences.
    if not (os.isatty(0) and os.isatty(1)) or os.environ.get("TERM", "") in {"", "dumb"}:
        yield None
        return
    # Imported here: pipes and `--help` need not wait for it.
    from agentrail.cli.terminal.editor_history import files_to_complete
    from agentrail.cli.terminal.live_view import open_terminal_view

    history = None if order.keeping.store == "memory:" else _history_file(order)
    async with open_terminal_view(files_to_complete(order.choices.cwd), history, interrupt) as view:
        yield view


def _history_file(order: ChatOrder) -> Path | None:
    """Return the file of the input history, or None if the user has no data directory."""
    with contextlib.suppress(AgentrailError):
        return directory_of(order.keeping.data_dir) / "chat-history"
    return None

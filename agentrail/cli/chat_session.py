"""The conversation of `agentrail chat`: turns lines and keys into session calls, and shows the published events."""

import base64
import contextlib
import os
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import define, evolve, field

from agentrail import outside
from agentrail.abc.store import Store
from agentrail.actors.tree_report import render_tree
from agentrail.cli import chat_answers
from agentrail.cli.chat_notices import innermost
from agentrail.cli.chat_options import ChatOrder, ChatStage
from agentrail.cli.chat_switch import SWITCHING, GoTo, export_to, others_in, switch
from agentrail.cli.chat_terminal import Desk, open_desk
from agentrail.cli.config_setup import ConfigFiles, keep_rules, read_setup
from agentrail.cli.ctrl_c import leave_at_once
from agentrail.cli.event_text import Transcript
from agentrail.cli.exit_codes import Exit, describe_error, write_faults
from agentrail.cli.input_lines import Typed
from agentrail.cli.resume_command import (
    ComeBack,
    Say,
    asked_again,
    come_back,
    is_lasting,
    kept_store,
)
from agentrail.cli.run_setup import choose_for, decide_session, with_approvals, with_origin
from agentrail.cli.screen import DirectScreen, look_of_process
from agentrail.cli.session_code import Resumable, find_resumable
from agentrail.cli.shared_stores import open_equipped
from agentrail.cli.storage_options import store_arguments
from agentrail.cli.store_access import in_scope
from agentrail.cli.terminal.key_bindings import Chosen, KeyPress, SentLine, decide_ctrl_c
from agentrail.commands import (
    CommandAnswer,
    CommandDesk,
    CommandFacts,
    CommandRegistry,
    TypedCommand,
    read_typed,
)
from agentrail.errors import (
    AgentrailError,
    CommandError,
    OptionError,
    RemoteRefused,
    RequestRefused,
    SessionDown,
    StillNeeded,
    StoreError,
    Unreachable,
    YourMove,
)
from agentrail.events import (
    TERMINAL,
    AbortSettled,
    AgentEnd,
    AgentError,
    AgentResumed,
    AgentStart,
    AgentSuspended,
    Approval,
    ApprovalRequired,
    AskUser,
    Event,
    PromptDropped,
    PromptRejected,
    PromptTaken,
)
from agentrail.messages import Content, Image, PromptRef, Text, UserBlock
from agentrail.runtime.event_subscription import Subscription
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_rows import names_for_commands
from agentrail.runtime.supervisor import SessionSupervisor

if TYPE_CHECKING:
    from agentrail.cli.terminal.live_view import TerminalView
    from agentrail.remote.remote_session import RemoteSession


# Unfinished prompts of a chat, tracked by events.


class ChatLedger:
    """The accepted prompts that have not ended."""

    def __init__(self) -> None:
        self._outstanding: set[PromptRef] = set()
        self._ended: set[PromptRef] = set()  # ended before their acceptance was known
        self._current: PromptRef | None = None
        self._begun: PromptRef | None = None  # started before its acceptance was known, or by another client
        self._idle = trio.Event()
        self._idle.set()
        self._asked = trio.Event()

    @property
    def is_idle(self) -> bool:
        return self._idle.is_set()

    def come_back(self, running: PromptRef | None, queued: Iterable[PromptRef]) -> None:
        """Record the pending work of a resumed session, before any of its events."""
        self._current = running
        for ref in (*(() if running is None else (running,)), *queued):
            self.accept(ref)

    def accept(self, ref: PromptRef) -> None:
        if ref in self._ended:
            self._ended.remove(ref)
            return
        if ref == self._begun and ref in self._outstanding:
            self._begun = None
        self._outstanding.add(ref)
        if self._idle.is_set():
            self._idle = trio.Event()

    def note(self, event: Event) -> None:
        inner = innermost(event)
        if isinstance(inner, ApprovalRequired | AskUser | AgentSuspended):
            # Suspended again: one of several pending calls was decided.
            self._asked.set()
        elif isinstance(inner, AgentResumed):
            self.decided()
        elif isinstance(event, AgentStart):
            self._current = event.ref
            # Includes a cycle started by another client of the session or by a background task: it keeps the session
            # busy too.
            self._begun = event.ref if event.ref not in self._outstanding else None
            self.accept(event.ref)
        elif isinstance(event, PromptDropped | PromptRejected | PromptTaken):
            self._end(event.ref)
        elif type(event) in TERMINAL and self._current is not None:
            self._end(self._current)
            self._current = None
            self.decided()

    def decided(self) -> None:
        if self._asked.is_set():  # otherwise a task may be waiting on this very event
            self._asked = trio.Event()

    async def wait_for_line(self) -> None:
        async with trio.open_nursery() as nursery:
            for wait in (self.wait_idle, self._asked.wait):
                nursery.start_soon(_race, wait, nursery.cancel_scope)

    async def wait_idle(self) -> None:
        while not self._idle.is_set():
            await self._idle.wait()
        await trio.lowlevel.checkpoint()

    def _end(self, ref: PromptRef) -> None:
        if ref not in self._outstanding or ref == self._begun:
            self._ended.add(ref)  # it may still turn out to be ours
        self._outstanding.discard(ref)
        if not self._outstanding:
            self._idle.set()


async def _race(wait: Callable[[], Awaitable[object]], scope: trio.CancelScope) -> None:
    await wait()
    scope.cancel(reason="the other came first")


# Pictures named by path in a prompt: `what is wrong here? @shot.png` is sent with the picture. Other paths stay text.

MAX_PICTURE_BYTES: Final = 5_000_000
"""Limit for one picture. More than vendors accept."""
_PICTURE_TYPES: Final = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
_PICTURE_NAMES: Final = re.compile(r"(?<!\S)@(\S+\.(?:png|jpe?g|gif|webp))(?![^\s.,;:!?)])", re.IGNORECASE)


def pictures_in(text: str) -> tuple[str, ...]:
    """Find the paths of pictures in a prompt, each once, in order."""
    return tuple(dict.fromkeys(_PICTURE_NAMES.findall(text)))


def with_pictures(text: str, read: Callable[[str], bytes]) -> str | tuple[UserBlock, ...]:
    """Append the pictures that a prompt names, or return the text unchanged if it names none."""
    blocks: list[UserBlock] = [Text(text=text)]
    for path in pictures_in(text):
        try:
            data = read(path)
        except (OptionError, RuntimeError) as error:  # the second for the home directory of an unknown user
            message = f"{str(error).rstrip('.')}; nothing was sent"
            raise CommandError(message) from error
        if len(data) > MAX_PICTURE_BYTES:
            message = f"the picture {path} has more than {MAX_PICTURE_BYTES:,} bytes; nothing was sent"
            raise CommandError(message)
        media_type = _PICTURE_TYPES[f".{path.rpartition('.')[2].lower()}"]
        encoded = base64.b64encode(data).decode()
        blocks.append(Image(media_type=media_type, data=encoded, name=path.rpartition("/")[2]))
    return tuple(blocks) if len(blocks) > 1 else text


def reader_below(directory: Path) -> Callable[[str], bytes]:
    # Imported here: most chats send no picture.
    from agentrail.blueprints.config_discovery import read_bytes

    return lambda path: read_bytes(directory / Path(path).expanduser(), most=MAX_PICTURE_BYTES)


# The conversation.

_ANSWER_SECONDS: Final = 10.0
"""Time limit for a command that waits for a server."""

_TOOLS_SECONDS: Final = 3.0

_TOLD: Final = (YourMove, RemoteRefused, RequestRefused, StoreError, Unreachable)
"""Errors that are shown while the chat continues: a server that rate-limits for a minute still has the session."""
_MAX_WAITING_EVENTS: Final = 100_000
"""Maximum events that the terminal may lag behind before the chat ends."""


# --- the terminal


def _teller(terminal: "TerminalView | None") -> Say:
    """Return a function that shows text: above the input line of an open screen, otherwise on stderr."""
    transcript = Transcript(look_of_process())

    async def tell(text: str) -> None:
        if terminal is None or terminal.is_closed:
            await DirectScreen().write(transcript.note(text))
        else:
            await terminal.say(text)

    return tell


async def _leave_terminal(terminal: "TerminalView | None") -> None:
    if terminal is not None:
        await terminal.aclose()


# --- the conversation


@define(eq=False, kw_only=True)
class Chat:
    """A chat, as keys and lines see it.

    Attributes:
        supervisor: The supervisor of the session, or None if the session runs on a server and outlives the chat.
        back: The state of a resumed session, or None for a new one.
        agent: The agent of the configuration that the session was started with, or None.
        store: The store with other conversations, or None if nothing is stored.
        far: The session on a server, or None for a session of this process.
        goes_to: The conversation to switch to when this one is left, or None.
    """

    session: Session
    supervisor: SessionSupervisor | None
    desk: Desk
    nursery: trio.Nursery
    work: trio.CancelScope = field(factory=trio.CancelScope)
    ledger: ChatLedger = field(factory=ChatLedger)
    back: ComeBack | None = None
    commands: CommandRegistry = field(factory=CommandRegistry)
    agent: str | None = None
    keep: chat_answers.KeepRules | None = None
    store: Store | None = None
    far: "RemoteSession | None" = None
    directory: Path = field(factory=Path)
    goes_to: GoTo | None = None
    was_used: bool = False
    code: Exit = Exit.DONE
    _is_stopping: bool = False
    _warned_at: float | None = None
    _ahead: deque[Typed] = field(factory=deque)

    async def talk(self) -> None:
        after = None if self.back is None else self.back.after
        events = self.session.subscribe(after=after, buffer=_MAX_WAITING_EVENTS)
        async with events, trio.open_nursery() as nursery:
            if self.back is not None:
                self.was_used = True
                self.ledger.come_back(self.back.running, self.back.queued)
                await self.desk.view.show_past(self.back.shown)
                status = await self.session.status()
                rules = await chat_answers.rules_of_waiting(self.session, status, self.keep)
                for asked in asked_again(status, rules):
                    await self.desk.view.show(asked)
                    self.ledger.note(asked)
            nursery.start_soon(self._show, events)
            with self.work:
                await self._read()
            if self.code is Exit.DONE:
                await self._leave()
            nursery.cancel_scope.cancel(reason="the chat is over")

    def interrupt(self) -> None:
        """Stop the running cycle, leave if there is none, or leave at once if it is already stopping."""
        if self._is_stopping:
            self.code = Exit.INTERRUPTED
            self.nursery.start_soon(leave_at_once, self.work)
        elif self.ledger.is_idle:
            self.code = Exit.INTERRUPTED
            self._is_stopping = True  # the next Ctrl-C leaves at once
            self.work.cancel(reason="interrupted")
        else:
            self.nursery.start_soon(self._abort, "interrupted")

    def hang_up(self) -> None:
        """Leave running work as it is: the user is not there to decide, and the session can be resumed."""
        self.code = Exit.INTERRUPTED
        self.work.cancel(reason="the terminal was closed, or the process was terminated")

    async def _ctrl_c(self) -> None:
        since = None if self._warned_at is None else trio.current_time() - self._warned_at
        does = decide_ctrl_c(
            has_text=False,
            is_idle=self.ledger.is_idle,
            is_stopping=self._is_stopping,
            since_warned=since if self.desk.asks_twice else 0.0,
        )
        if does == "warn":
            self._warned_at = trio.current_time()
            await self._say("Ctrl-C again leaves")
        else:
            self.interrupt()

    async def _show(self, events: Subscription) -> None:
        async for event in events:
            await self.desk.view.show(event)
            self.ledger.note(event)
            if isinstance(event, AgentEnd | AgentError | AbortSettled):
                await self._invite()
        self.code = Exit.FAILED  # the session ended on its own: its events say why
        self.work.cancel(reason="the session has ended")

    async def _read(self) -> None:
        await self._invite()
        while True:
            typed = self._ahead.popleft() if self._ahead else await self.desk.lines.next_line()
            if typed is KeyPress.CTRL_C:
                await self._ctrl_c()
            elif typed is KeyPress.HANG_UP:
                self.hang_up()
                return
            elif isinstance(typed, KeyPress) or not await self._take_in_time(typed):
                return
            elif self.desk.in_order:
                await self.ledger.wait_for_line()

    async def _take_in_time(self, line: str | SentLine | Chosen) -> bool:
        """Handle a line. With a server, waiting is limited, because the next line may be `/quit`."""
        if self.supervisor is not None:
            return await self._take(line)
        stays: bool | None = None
        with trio.move_on_after(_ANSWER_SECONDS) as waiting:
            async with trio.open_nursery() as nursery:
                if self.desk.asks_twice:
                    # Elsewhere Ctrl-C is a signal, and a line already read cannot be put back.
                    nursery.start_soon(self._read_ahead, waiting)
                stays = await self._take(line)
                nursery.cancel_scope.cancel(reason="it was taken")
        if stays is None:
            await self._say(
                "the server did not answer in time: check whether it received this before you send it again"
            )
        return stays is not False

    async def _read_ahead(self, waiting: trio.CancelScope) -> None:
        """Queue lines typed while waiting for the server, in order. A key that stops or leaves ends the wait."""
        while True:
            typed = await self.desk.lines.next_line()
            if typed is not KeyPress.CTRL_C:
                self._ahead.append(typed)
            if isinstance(typed, KeyPress):
                waiting.cancel(reason="no one wants to wait any more")

    async def _leave(self) -> None:
        if not self.ledger.is_idle and self.supervisor is not None:
            await self._abort("leaving", clear_queue=True)
            await self.ledger.wait_idle()

    async def _take(self, line: str | SentLine | Chosen) -> bool:
        if isinstance(line, Chosen):
            await self._choose(line)
            return True
        self.desk.view.line_typed()
        text = (line.text if isinstance(line, SentLine) else line).strip()
        # Pasted text goes to the model, whatever it starts with: users do not paste `/quit` to leave.
        typed = None if isinstance(line, SentLine) and line.is_pasted else read_typed(text)
        stays = True
        if typed is not None:
            stays = await self._command(typed)
        elif text:
            await self._prompt(text)
        if stays and self.ledger.is_idle:
            await self._invite()
        return stays

    async def _prompt(self, text: str) -> None:
        try:
            # From a pipe, each line that is not a command is a prompt: scripts rely on it.
            if self.desk.asks_twice and not self.ledger.is_idle:
                told = await chat_answers.answer_waiting(self.session, text)
                if told is not None:
                    await self._say(told)
                    return
            content = await self._content(text)
            await self._wait_for_tools()
            receipt = await self.session.prompt(content)
        except (CommandError, *_TOLD) as error:
            await self._say(f"error: {describe_error(error)}")
            return
        self.was_used = True
        self.ledger.accept(receipt.ref)
        await self._look_who_waits()
        if receipt.queued:
            await self._say(f"queued at position {receipt.position}; 0 is next")

    async def _wait_for_tools(self) -> None:
        """Let the model see the tools of MCP servers that are still starting. A person does not wait for slow ones."""
        if self.supervisor is not None and not self.was_used:
            with trio.move_on_after(inf if self.desk.in_order else _TOOLS_SECONDS):
                await self.supervisor.wait_for_tools(self.session.session_id, scope=self.session.scope)

    async def _content(self, text: str) -> Content:
        if self.desk.in_order or not pictures_in(text):
            return text
        return await outside.offload(with_pictures, text, reader_below(self.directory))

    async def _decide(self, command: str, rest: str, approval: Approval | None = None) -> None:
        try:
            await self._say(await chat_answers.decide(self.session, command, rest, self.keep, approval))
            await self._look_who_waits()
        except _TOLD as error:
            await self._say(f"error: {describe_error(error)}")

    async def _choose(self, chosen: Chosen) -> None:
        # By its approval rather than by its number, which changes if another call is decided meanwhile.
        is_always = chosen.choice == "always"
        command = "/approve" if is_always else f"/{chosen.choice}"
        await self._decide(command, "always" if is_always else chosen.words, chosen.approval)

    async def _look_who_waits(self) -> None:
        """Record whether everything was decided. Its event may still be unread."""
        if not chat_answers.waiting_of(await self.session.status()):
            self.ledger.decided()  # otherwise the next line of a pipe would not wait

    async def _command(self, typed: TypedCommand) -> bool:
        if f"/{typed.name}" in chat_answers.DECISION_COMMANDS:
            await self._decide(f"/{typed.name}", typed.text)
            return True
        if typed.name == "abort":  # the next line is read meanwhile, so that a second one need not wait
            if self.ledger.is_idle:
                await self._say("nothing runs")
            else:
                self.nursery.start_soon(self._abort, typed.text or "by the user")
            return True
        if typed.name in SWITCHING:
            return await self._switch(typed)
        try:
            if typed.name == "export" and typed.text:
                file, messages = self.directory / typed.text, await self.session.messages()
                await self._say(await outside.offload(export_to, file, messages))
                return True
            commands = await self._commands_for(typed.name)
            answer = await commands.run(typed.name, typed.text, await self._desk_of_commands())
        except AgentrailError as error:
            await self._say(
                str(error) if isinstance(error, CommandError) else f"error: {describe_error(error)}"
            )
            return True
        lines = [*answer.lines]
        if typed.name == "status":
            status = await self.session.status()
            rules = await chat_answers.rules_of_waiting(self.session, status, self.keep)
            lines += chat_answers.show_waiting(status, rules)
        await self._say(*lines)
        if answer.prompt is not None:
            await self._prompt_of(typed.name, answer)
        return not answer.leaves

    async def _switch(self, typed: TypedCommand) -> bool:
        if self.desk.in_order:  # the remaining lines were meant for this conversation
            await self._say(f"/{typed.name} is for a terminal, not for a pipe")
            return True
        try:
            found = await self._find(typed)
        except AgentrailError as error:
            await self._say(f"error: {describe_error(error)}")
            return True
        if isinstance(found, GoTo):
            self.goes_to = found
            return False
        await self._say(*found)
        return True

    async def _find(self, typed: TypedCommand) -> GoTo | tuple[str, ...]:
        if self.far is None:
            return await switch(typed.name, typed.text, self.store, self.session.session_id)
        from agentrail.cli.remote_chat import switch_far

        return await switch_far(typed.name, typed.text, self.far)

    async def _prompt_of(self, name: str, answer: CommandAnswer) -> None:
        if answer.model is not None:
            try:
                await self.session.switch_model(answer.model)
            except AgentrailError as error:  # the user typed the command but did not choose the model
                await self._say(f"error: /{name} names the model {answer.model}: {describe_error(error)}")
                return
        await self._prompt(answer.prompt or "")

    async def _commands_for(self, name: str) -> CommandRegistry:
        """Return the commands, with the prompts of the session's servers if the name may be one, or lists all."""
        source = self.commands.source_in(name)
        if source is None:
            return self.commands
        if self.supervisor is not None:
            return self.commands.with_prompts(await self.supervisor.sources.prompts_of(self.session, source))
        from agentrail.cli.remote_chat import far_registry

        return self.commands if self.far is None else await far_registry(self.far)

    async def _desk_of_commands(self) -> CommandDesk:
        supervisor = self.supervisor
        if supervisor is None:
            return CommandDesk(
                session=self.session, at_terminal=True, agent=(await self.session.status()).agent
            )

        async def tree() -> str:
            return render_tree(await supervisor.tree())

        tools, agents, sections = names_for_commands(self.session)
        return CommandDesk(
            session=self.session,
            facts=CommandFacts(tools=tools, agents=agents, sections=sections),
            tree=tree,
            at_terminal=True,
            agent=(await self.session.status()).agent or self.agent,
        )

    async def _abort(self, reason: str, *, clear_queue: bool = False) -> None:
        self._is_stopping = True
        self.desk.view.stopping(is_so=True)
        with contextlib.suppress(SessionDown):  # it ended before the abort
            await self.session.abort(reason, kill_tools="all", clear_queue=clear_queue)
        self._is_stopping = False
        self.desk.view.stopping(is_so=False)

    async def _say(self, *lines: str) -> None:
        await self.desk.view.say(*lines)

    async def _invite(self) -> None:
        if self.ledger.is_idle and not self._is_stopping:
            await self.desk.view.invite()


# --- running it


async def hold(order: ChatOrder, stage: ChatStage) -> tuple[Exit, ChatOrder | None]:
    tell = _teller(stage.terminal)
    try:
        order = await _with_files(order, tell)
        start = _start if order.connect is None else _start_far
        chat, order = await start(order, stage, tell)
    except AgentrailError as error:  # from the options; once the chat runs, errors come in groups
        await _leave_terminal(stage.terminal)
        write_faults(error)
        is_usage = order.connect is None or isinstance(error, OptionError)
        return Exit.USAGE if is_usage else Exit.FAILED, None
    finally:
        await _leave_terminal(stage.terminal)  # noqa: ASYNC102 - shielded and bounded inside
    return chat.code, None if chat.goes_to is None else following(order, chat.goes_to)


async def _with_files(order: ChatOrder, tell: Say) -> ChatOrder:
    """Read the configuration files unless already read, and first report an untrusted project."""
    is_resumed = order.keeping.resume is not None and order.connect is None
    if order.files is None or is_resumed:
        # The session's working directory decides which files apply: they are read once it is found.
        return order
    setup = read_setup(order.files, order.agent, order.choices.cwd, coding=order.coding)
    order = evolve(order, files=None, setup=setup)
    await _tell_notice(order, tell)
    return order


async def _tell_notice(order: ChatOrder, tell: Say) -> None:
    notice = None if order.setup is None else order.setup.configuration.notice
    if notice is not None:
        await tell(f"{notice}.")


async def _start(order: ChatOrder, stage: ChatStage, tell: Say) -> tuple[Chat, ChatOrder]:
    async with kept_store(order.keeping, tell, is_needed=False) as store:
        order, resumable = await _resumed(order, store, tell)
        opened = open_equipped(
            order.keeping, order.setup, store=store, shell_fallback=order.choices.shell_fallback
        )
        async with opened as supervisor:
            session, back = await _session_for(order, supervisor, store, resumable, tell)
            commands = commands_for(order)
            for fault in commands.left_out:
                await tell(f"left out: {fault}")
            others = partial(others_in, store, session.session_id)
            chat = Chat(
                commands=commands,
                agent=None if order.setup is None else order.setup.agent,
                session=session,
                supervisor=supervisor,
                desk=await open_desk(stage.terminal, session, commands, order.choices.cwd, others),
                nursery=stage.nursery,
                back=back,
                store=store,
                directory=order.choices.cwd,
                keep=partial(keep_rules, order.config, order.choices.cwd),
            )
            stage.interrupts.handle, stage.hang_ups.handle = chat.interrupt, chat.hang_up
            await chat.talk()
            await _leave_terminal(stage.terminal)  # before running work is stopped, which may take a while
        await _end(chat, store, order, tell)
    return chat, order


async def _start_far(order: ChatOrder, stage: ChatStage, tell: Say) -> tuple[Chat, ChatOrder]:
    assert order.connect is not None  # noqa: S101 - guaranteed by the caller
    # Imported here: the import is slow, and only remote chats need it.
    from agentrail.cli.remote_chat import far_registry, find_far, open_far, others_on_server, watch_server

    async with open_far(order.connect, order.keeping.resume, order.agent) as far:
        session: Any = far  # it has the same calls as `Session`
        commands, others = await far_registry(far), partial(others_on_server, far)
        desk = await open_desk(stage.terminal, session, commands, order.choices.cwd, others)
        async with trio.open_nursery() as watching:
            chat = Chat(
                session=session,
                supervisor=None,
                desk=desk,
                nursery=stage.nursery,
                commands=commands,
                far=far,
                back=await find_far(far),
                directory=order.choices.cwd,
            )
            stage.interrupts.handle, stage.hang_ups.handle = chat.interrupt, chat.hang_up
            watching.start_soon(watch_server, far, desk.view.say)
            await chat.talk()
            watching.cancel_scope.cancel(reason="the chat is over")
        await _leave_terminal(stage.terminal)
        again = f"agentrail chat --connect {order.connect} --resume {far.session_id}"
        await tell(f"session {far.session_id} is on the server: {again}")
    return chat, order


def following(order: ChatOrder, goes_to: GoTo) -> ChatOrder:
    """Return the order for the next conversation. A resumed session keeps its model, agent and sandbox."""
    keeping = evolve(order.keeping, resume=goes_to.session)
    if goes_to.session is None:
        return evolve(order, keeping=keeping)
    return evolve(order, keeping=keeping, agent=None, choices=evolve(order.choices, model=None, sandbox=None))


def commands_for(order: ChatOrder) -> CommandRegistry:
    """Read the commands of the project and the user, and add those from the session's skills and imported files."""
    # Imported here, same as in `config_setup`: its dependencies load slowly, and `--help` does not need them.
    from agentrail.blueprints.command_files import read_commands
    from agentrail.blueprints.joined_commands import join_commands, skills_of_session

    found = read_commands(os.environ, cwd=order.choices.cwd, trust_project=order.trust_project)
    if order.setup is None:
        return found
    skills = skills_of_session(order.setup.blueprint, order.setup.agent)
    return join_commands(found, skills=skills, imported=order.setup.configuration.commands)


async def _resumed(order: ChatOrder, store: Store | None, tell: Say) -> tuple[ChatOrder, Resumable | None]:
    """Find the session to resume, if any. The files of its working directory apply, not those of the current one."""
    if order.keeping.resume is None:
        return order, None
    assert store is not None  # noqa: S101 - a missing store is reported earlier
    files = ConfigFiles(config=order.config, trust_project=order.trust_project)
    found = await find_resumable(store, order.keeping.resume, files, order.agent)
    choices = evolve(order.choices, cwd=found.working_dir)
    order = evolve(order, choices=choices, files=None, setup=found.setup)
    await _tell_notice(order, tell)
    return order, found


async def _session_for(
    order: ChatOrder,
    supervisor: SessionSupervisor,
    store: Store | None,
    resumable: Resumable | None,
    tell: Say,
) -> tuple[Session, ComeBack | None]:
    if resumable is not None:
        assert store is not None  # noqa: S101 - the session was found in it
        back = await come_back(supervisor, store, resumable, order.choices)
        await tell(
            f"session {back.session.session_id} is back, with model {(await back.session.status()).model}"
        )
        return back.session, back
    chosen = await choose_for(order.choices, os.environ, order.setup)
    await tell(f"model {chosen.model} ({chosen.why})")
    options = decide_session(order.choices, chosen, order.setup, os.environ)
    has_mcp = order.setup is not None and bool(order.setup.configuration.settings.mcp)
    plugins = with_approvals(options.plugins, order.approve, options.tools, has_mcp=has_mcp)
    options = evolve(options, plugins=plugins)
    return await supervisor.start_session(with_origin(options, order.choices, order.setup)), None


async def _end(chat: Chat, store: Store | None, order: ChatOrder, tell: Say) -> None:
    if store is None or not is_lasting(store):
        return
    session = chat.session
    if chat.was_used:
        again = in_scope(session.scope, session.session_id)
        again += store_arguments(order.keeping.store, order.keeping.data_dir)
        await tell(f"session {session.session_id} is kept: agentrail chat --resume {again}")
    else:
        with contextlib.suppress(StillNeeded):  # `/fork` made another session from it
            await outside.offload(store.delete, session.scope, session.session_id)

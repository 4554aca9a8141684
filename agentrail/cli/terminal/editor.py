"""The editor of a chat: prompt_toolkit reads keys in a thread, and Trio sends it the rows to draw."""

import contextlib
import json
import math
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO, TypeAlias

import trio
from attrs import frozen
from prompt_toolkit import PromptSession
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, is_searching
from prompt_toolkit.formatted_text import ANSI, to_formatted_text
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPress as PressedKey, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, FormattedTextControl, HSplit, Window
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from agentrail import outside
from agentrail.cli.stdio import write_all
from agentrail.cli.terminal.approval_dialog import Dialogue
from agentrail.cli.terminal.completion import KnownNames, is_completed
from agentrail.cli.terminal.editor_history import Completions, history_in
from agentrail.cli.terminal.key_bindings import BURST_QUIET_SECONDS, Burst, Chosen, KeyPress, Pastes, SentLine
from agentrail.cli.terminal.styles import Ink, Rows
from agentrail.events import Approval
from agentrail.sandboxes.programs import find_program

if TYPE_CHECKING:
    from prompt_toolkit.application import Application
    from prompt_toolkit.formatted_text import StyleAndTextTuples

REDRAW_SECONDS: Final = 0.1
_EXIT_AGAIN_SECONDS: Final = 0.02
_ESCAPE_SECONDS: Final = 0.1
RESIZE_SECONDS: Final = 0.1
_MAX_KEPT: Final = 65_536
"""Maximum characters of a history entry. Longer text is sent but not stored."""
UNSEEN_SECONDS: Final = 0.4
"""Time during which a new dialogue ignores keys, in seconds, because a typing user has not read it yet."""

_PREFIX_OF_ASIDE: Final = "(draft set aside) > "
_MENU_ROWS: Final = 6
_COLORS: Final[Mapping[str | None, ColorDepth]] = {
    None: ColorDepth.DEPTH_1_BIT,
    "standard": ColorDepth.DEPTH_4_BIT,
    "256": ColorDepth.DEPTH_8_BIT,
    "truecolor": ColorDepth.DEPTH_24_BIT,
}


def size_of_terminal() -> tuple[int, int]:
    """Return the columns and rows of the terminal, or the default if it does not report them."""
    try:
        columns, rows = os.get_terminal_size(1)
    except OSError:
        columns, rows = 0, 0
    return columns or 80, rows or 24


FromTerminal: TypeAlias = KeyPress | SentLine | Chosen


@frozen
class Moved:
    by: int


def _as_size() -> Size:
    columns, rows = size_of_terminal()
    return Size(rows=rows, columns=columns)


class Typing:
    """The editor in its thread: keys become items of `receive`. Public methods are called in Trio, the others in the thread."""

    def __init__(
        self, ink: Ink, known: KnownNames, history: Path | None, interrupt: Callable[[], None]
    ) -> None:
        self.known: KnownNames = known
        self.interrupt: Callable[[], None] | None = interrupt
        self._token = trio.lowlevel.current_trio_token()
        self._send, receive = trio.open_memory_channel[FromTerminal | Moved](math.inf)
        self.receive: trio.MemoryReceiveChannel[FromTerminal | Moved] = receive
        self._pastes = Pastes()
        self._burst = Burst()
        self._leave_burst: Callable[[], None] | None = None
        self._prefix = "> "
        self._below: Rows = ()
        self._fragments: StyleAndTextTuples = []  # the rows above the input line, a newline between two
        self._dialogue: Dialogue | None = None
        self._dialogue_since = 0.0
        self._typed_at = 0.0
        self._aside = ""
        self._reason_for: Approval | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self.is_over: bool = False
        self.ready: trio.Event = trio.Event()
        self._session = self._make_session(ink, history)

    # --- called in Trio

    def _take(self, typed: FromTerminal | Moved) -> None:
        if typed is KeyPress.CTRL_C and self.interrupt is not None:
            self.interrupt()
        else:
            self._send.send_nowait(typed)

    def height(self, columns: int, rows: int) -> int:
        """Return the rows of the text being typed, at most half of the terminal."""
        document = self._session.default_buffer.document
        wrapped = sum(len(line) // max(columns - 2, 1) + 1 for line in document.lines[:rows])
        has_menu = self._session.default_buffer.complete_state is not None
        return min(wrapped, rows // 2) + (_MENU_ROWS if has_menu else 0)

    def dialogue_is(self, dialogue: Dialogue | None) -> None:
        """Set the dialogue. After a moment, keys choose in it. A draft is set aside."""
        before = None if self._dialogue is None else self._dialogue.approval.id
        if dialogue is not None and dialogue.approval.id != before:
            self._dialogue_since = outside.monotonic()
        self._dialogue = dialogue
        loop = self._session.app.loop
        if loop is not None and not self.is_over and self._draft_is_to_move:
            with contextlib.suppress(RuntimeError):  # its thread has just ended
                loop.call_soon_threadsafe(self._move_draft)

    @property
    def _draft_is_to_move(self) -> bool:
        """Whether a draft blocks the keys of a dialogue, or is set aside although the dialogue is over."""
        if self._dialogue is None:
            return bool(self._aside)
        is_quiet = outside.monotonic() - max(self._typed_at, self._dialogue_since) >= UNSEEN_SECONDS
        return is_quiet and self._reason_for is None and bool(self._session.default_buffer.text)

    def _move_draft(self) -> None:
        """Set the draft aside, so that keys choose in the dialogue, or restore it before any text typed since."""
        if not self._draft_is_to_move:
            return
        buffer = self._session.default_buffer
        if self._dialogue is None:
            text, self._aside = self._pastes.take(self._aside) + buffer.text, ""
            buffer.document = Document(text, len(text))
            self._prefix = "> "
            return
        self._aside += self._pastes.shown(buffer.text)
        buffer.document = Document("")
        self._prefix = _PREFIX_OF_ASIDE
        self._dialogue_since = outside.monotonic()  # visible from now on
        self._session.app.invalidate()

    def _note_typing(self, _buffer: object) -> None:
        self._typed_at = outside.monotonic()

    async def draw(self, above: Sequence[str], below: Rows) -> None:
        """Print rows above and draw others below. Returns once they are visible, or the editor has ended."""
        text = "".join(f"{row}\r\n" for row in above)
        loop = self._session.app.loop
        if (not text and below == self._below) or self.is_over or loop is None:
            if text:
                await self._write_directly(text)
            return
        drawn = trio.Event()

        def paint() -> None:
            try:
                self._paint(text, below)
            finally:
                self._token.run_sync_soon(drawn.set)

        try:
            loop.call_soon_threadsafe(paint)
        except RuntimeError:  # its thread has just ended
            await self._write_directly(text)
            return
        while not drawn.is_set() and not self.is_over:
            with trio.move_on_after(REDRAW_SECONDS):
                await drawn.wait()

    async def _write_directly(self, text: str) -> None:
        await outside.offload(
            write_all, 1, text.encode(sys.stdout.encoding or "utf-8", "replace"), abandon_on_cancel=True
        )

    async def serve(self) -> None:
        over = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._exit_when_cancelled, over)
            nursery.start_soon(self._take_back_when_continued)
            try:
                await outside.offload(self._run)
            finally:
                self.is_over = True
                over.set()
                self.ready.set()
                nursery.cancel_scope.cancel(reason="the editor has ended")

    async def _take_back_when_continued(self) -> None:
        with trio.open_signal_receiver(signal.SIGCONT) as signals:
            async for _ in signals:
                if self._session.app.loop is not None:
                    with contextlib.suppress(RuntimeError):  # its thread has just ended
                        self._session.app.loop.call_soon_threadsafe(self._take_back)

    async def _exit_when_cancelled(self, over: trio.Event) -> None:
        """Make the editor restore the terminal. Its thread cannot be cancelled, only asked to exit."""
        try:
            await over.wait()
        finally:
            with trio.CancelScope(shield=True):
                while not over.is_set():  # repeated, because an editor that is just starting ignores it
                    self._ask_to_exit()
                    with trio.move_on_after(_EXIT_AGAIN_SECONDS):
                        await over.wait()

    def _ask_to_exit(self) -> None:
        app = self._session.app
        child = self._child
        if child is not None:
            child.terminate()

        def exit_app() -> None:
            if app.future is not None and not app.future.done():
                app.exit()

        if app.loop is not None:
            with contextlib.suppress(RuntimeError):  # it was just closed
                app.loop.call_soon_threadsafe(exit_app)

    # --- called in the thread

    def _run(self) -> None:
        app = self._session.app
        try:
            app.after_render += self._is_seen
            app.run(set_exception_handler=False, handle_sigint=False)
        except (EOFError, OSError):  # the terminal was closed
            # Discard buffered output: flushing it to a closed terminal would fail at exit.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.close(nowhere)
            self._give(KeyPress.HANG_UP)

    def _is_seen(self, app: "Application[str]") -> None:
        app.after_render -= self._is_seen
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self.ready.set)

    def _give(self, typed: FromTerminal | Moved) -> None:
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._take, typed)

    def _paint(self, text: str, below: Rows) -> None:
        app = self._session.app
        self._below, self._fragments = below, _fragments_of(below)
        if not app.is_running:
            return
        try:
            if text:
                app.renderer.erase()
                app.output.write_raw(text)
                app.output.flush()
            app.invalidate()
        except OSError:  # the terminal was closed
            if app.future is not None and not app.future.done():
                app.exit(exception=EOFError())

    def _make_session(self, ink: Ink, history: Path | None) -> "PromptSession[str]":
        # No cursor position requests: on a slow line, the response would arrive late and among the keys.
        output = Vt100_Output(
            sys.stdout, _as_size, term=os.environ.get("TERM"), enable_bell=False, enable_cpr=False
        )
        session: PromptSession[str] = PromptSession(
            lambda: self._prefix,
            multiline=True,
            wrap_lines=True,
            prompt_continuation=lambda width, _row, _is_wrapped: " " * width,
            completer=Completions(lambda: self.known),
            complete_in_thread=True,
            complete_while_typing=Condition(self._completes),
            reserve_space_for_menu=_MENU_ROWS,
            history=history_in(history),
            key_bindings=self._bindings(),
            color_depth=_COLORS[ink.colors],
            erase_when_done=True,
            input=_Keys(sys.stdin, self._without_burst),
            output=output,
            enable_suspend=False,  # see `_suspend`
            include_default_pygments_style=False,
        )
        # In its own window, not in the prompt's message: prompt_toolkit splits that into letters eight times per key,
        # and with a screenful of text every echo would wait for it.
        drawn = Window(FormattedTextControl(lambda: self._fragments), dont_extend_height=True)
        is_there = Condition(lambda: bool(self._fragments))
        layout = session.app.layout
        layout.container = HSplit([ConditionalContainer(drawn, is_there), layout.container])
        session.app.terminal_size_polling_interval = RESIZE_SECONDS
        session.default_buffer.on_text_changed += self._note_typing
        session.app.ttimeoutlen = _ESCAPE_SECONDS
        session.app.timeoutlen = _ESCAPE_SECONDS * 5
        return session

    def _completes(self) -> bool:
        return self._reason_for is None and is_completed(
            self._session.default_buffer.document.text_before_cursor
        )

    def _asks(self) -> bool:
        """Whether keys choose in a dialogue: it is visible, and no text is being typed."""
        return (
            self._dialogue is not None and self._reason_for is None and not self._session.default_buffer.text
        )

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        asks = Condition(self._asks)
        types = ~is_searching  # Ctrl-R searches the history in its own line, with the usual keys
        keys.add("enter", eager=True, filter=types)(self._enter)
        keys.add("escape", "enter")(lambda event: event.current_buffer.insert_text("\n"))
        keys.add("c-j", eager=True, filter=types)(self._line_feed)
        keys.add("c-c", eager=True, filter=types)(self._ctrl_c)
        keys.add("c-d", eager=True, filter=types)(self._ctrl_d)
        keys.add("c-g", eager=True, filter=types)(self._edit_prompt)
        keys.add("c-z", eager=True)(self._suspend)
        keys.add("<bracketed-paste>", eager=True, filter=types)(
            lambda event: event.current_buffer.insert_text(self._pastes.take(event.data))
        )
        keys.add("escape", "escape", eager=True, filter=types)(self._escape_twice)
        keys.add("escape", filter=Condition(lambda: self._reason_for is not None))(self._no_reason)
        for key in (*"12345", *"yanerAYNE"):
            keys.add(key, filter=asks)(self._choose)
        keys.add("up", filter=asks)(lambda _: self._give(Moved(-1)))
        keys.add("down", filter=asks)(lambda _: self._give(Moved(1)))
        return keys

    def _enter(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if self._asks():
            self._choose_by("enter")
        elif buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None  # the selected completion stays and can be extended
        elif self._more_comes(event):
            self._pastes.note_lines()
            buffer.insert_text("\n")
        elif buffer.text.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            self._sent(event)

    def _sent(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        sent = self._pastes.send(buffer.text)
        asked, self._reason_for = self._reason_for, None
        self._prefix = "> "
        if asked is not None:
            buffer.reset()
            self._give(Chosen(choice="reject", approval=asked, words=sent.text.strip()))
            return
        if not sent.text.strip():
            buffer.reset()
            return
        if len(sent.text) <= _MAX_KEPT:
            buffer.history.append_string(sent.text)
        buffer.reset()
        self._give(sent)

    def _more_comes(self, event: KeyPressEvent) -> bool:
        """Whether more keys are already buffered: faster than typing, so a paste from a terminal without bracketed paste."""
        if event.key_processor.input_queue:
            return True
        readable, _, _ = select.select([event.app.input.fileno()], [], [], 0)
        return bool(readable)

    def _line_feed(self, event: KeyPressEvent) -> None:
        if self._more_comes(event):
            self._pastes.note_lines()
        event.current_buffer.insert_text("\n")

    def _ctrl_c(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if self._reason_for is not None:
            self._no_reason(event)
        elif buffer.text:
            self._pastes.clear()
            buffer.reset()
        else:
            self._give(KeyPress.CTRL_C)

    def _ctrl_d(self, event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.delete()
        else:
            self._give(KeyPress.CTRL_D)

    def _without_burst(self, keys: "list[PressedKey]") -> "list[PressedKey]":
        loop = self._session.app.loop
        if not keys or loop is None:
            return keys
        texts = [_TYPED.get(key.key) if isinstance(key.key, Keys) else key.data for key in keys]
        if self._burst.takes(texts):  # None for a key that inserts no text
            if self._leave_burst is not None:
                self._leave_burst()
            self._leave_burst = loop.call_later(BURST_QUIET_SECONDS, self._end_burst).cancel
            return []
        if self._burst.is_held:
            self._end_burst()
        return keys

    def _end_burst(self) -> None:
        text, has_enter = self._burst.end()
        if self._leave_burst is not None:
            self._leave_burst()
            self._leave_burst = None
        app = self._session.app
        if not app.is_running:
            return
        app.key_processor.feed(PressedKey(Keys.BracketedPaste, text))
        if has_enter:
            app.key_processor.feed(PressedKey(Keys.ControlM, "\r"))
        app.key_processor.process_keys()

    def _escape_twice(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if self._reason_for is not None:
            self._no_reason(event)
        elif not buffer.text:
            buffer.insert_text("/rewind ")
            buffer.start_completion()

    def _no_reason(self, event: KeyPressEvent) -> None:
        self._reason_for, self._prefix = None, "> "
        event.current_buffer.reset()

    def _suspend(self, _event: KeyPressEvent) -> None:
        """Stop the job, same as Ctrl-Z without an editor. The terminal is restored until the job continues."""
        from prompt_toolkit.application import run_in_terminal

        run_in_terminal(self._stop_job)

    def _take_back(self) -> None:
        """Take the terminal back from the shell after a stop by another process, such as `kill -STOP`."""
        app = self._session.app
        if app.is_running and termios.tcgetattr(app.input.fileno())[3] & termios.ICANON:
            app.input.raw_mode().__enter__()  # the application's own restores the modes at its end
            app.renderer.reset()
            app.invalidate()

    def _stop_job(self) -> None:
        # prompt_toolkit sends the stop from this thread. But the process's first thread, which runs Trio, receives it,
        # and until then this one would continue and take the terminal back. Some shells would then no longer echo. Sent
        # from Trio's thread, the stop takes effect at once.
        with contextlib.suppress(trio.RunFinishedError):
            trio.from_thread.run_sync(os.kill, 0, signal.SIGTSTP, trio_token=self._token)

    def _edit_prompt(self, event: KeyPressEvent) -> None:
        """Open the input line, with its pastes, in the user's editor. The saved text replaces it."""
        from prompt_toolkit.application import run_in_terminal

        buffer = event.current_buffer
        before = self._pastes.shown(buffer.text)

        def edit() -> None:
            after = self._edited(before, ".md")
            if after is not None:
                self._pastes.clear()
                text = self._pastes.take(after.rstrip("\n"))
                buffer.document = Document(text, len(text))

        run_in_terminal(edit)

    # --- the dialogue

    def _choose(self, event: KeyPressEvent) -> None:
        if event.data.isalpha() and self._more_comes(event):
            event.current_buffer.insert_text(event.data)  # text typed quickly
            return
        self._choose_by(event.data)

    def _choose_by(self, key: str) -> None:
        dialogue = self._dialogue
        if dialogue is None or outside.monotonic() - self._dialogue_since < UNSEEN_SECONDS:
            return
        choice = dialogue.chosen_by(key)
        if choice == "reject":
            self._reason_for, self._prefix = dialogue.approval, "why not? "
            self._session.app.invalidate()
        elif choice == "edit":
            self._edit(dialogue.approval)
        elif choice is not None:
            self._give(Chosen(choice=choice, approval=dialogue.approval))

    def _edit(self, approval: Approval) -> None:
        """Open the arguments in the user's editor, and send the saved text unless it is unchanged."""
        from prompt_toolkit.application import run_in_terminal

        before = json.dumps(dict(approval.arguments), ensure_ascii=False, indent=2, default=dict) + "\n"

        def edit() -> None:
            after = self._edited(before, ".json")
            if after is not None and after != before:
                self._give(Chosen(choice="edit", approval=approval, words=after))

        run_in_terminal(edit)

    def _edited(self, text: str, suffix: str) -> str | None:
        """Return the text that the user saved, or None if the editor fails or exits with another status than 0."""
        named = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        try:
            command = shlex.split(named) or ["vi"]
            if os.sep not in command[0]:
                # Not through a relative entry of PATH, which depends on the current directory.
                command[0] = find_program(command[0], Path.cwd()) or ""
            with tempfile.NamedTemporaryFile("w+", suffix=suffix, encoding="utf-8") as file:
                file.write(text)
                file.flush()
                self._child = subprocess.Popen([*command, file.name])  # noqa: S603 - the user's own editor
                if self._child.wait() == 0:
                    # By its name: some editors replace the file by another one.
                    return Path(file.name).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            sys.stderr.write(f"agentrail: the text cannot be edited with {named!r}: {error}\n")
        finally:
            self._child = None
        return None


def _fragments_of(rows: Rows) -> "StyleAndTextTuples":
    drawn: StyleAndTextTuples = []
    for row in rows:
        drawn += [("", "\n")] if drawn else []
        drawn += _stretches(row) or (("", ""),)
    return drawn


@lru_cache(maxsize=512)
def _stretches(row: str) -> "tuple[tuple[str, str], ...]":
    """Parse the styles of a row, one fragment per style. Cached, because most rows stay the same in the next frame."""
    letters = to_formatted_text(ANSI(row))
    return tuple(
        (style, "".join(one[1] for one in stretch))
        for style, stretch in groupby(letters, key=lambda one: one[0])
    )


class _Keys(Vt100Input):
    """The keys of the terminal, without those of a paste."""

    def __init__(self, stdin: TextIO, take: Callable[[list[PressedKey]], list[PressedKey]]) -> None:
        super().__init__(stdin)
        self._take = take

    def read_keys(self) -> list[PressedKey]:
        return self._take(super().read_keys())


_TYPED: Final[Mapping[Keys, str]] = {Keys.ControlM: "\r", Keys.ControlJ: "\n", Keys.ControlI: "\t"}

"""The picture of a chat's screen: events in, printed rows and a redrawn area below them out."""

from collections.abc import Iterable
from typing import Any, Final

from attrs import define, evolve, field, frozen

from agentrail import events
from agentrail.cli.chat_notices import innermost, is_for_user, notice_of, show_form
from agentrail.cli.event_text import (
    ENDS_OF_WORDS,
    MAX_DRAWN_ROWS,
    DeltaText,
    first_line,
    on_one_line,
    show_arguments,
)
from agentrail.cli.markdown_blocks import Block, MarkdownBlocks
from agentrail.cli.terminal.approval_dialog import Dialogue, draw_dialogue
from agentrail.cli.terminal.diffs import diff_of_call, draw_diff
from agentrail.cli.terminal.styles import Ink, Rows, draw_block, draw_line, draw_log_line, draw_text
from agentrail.events import TERMINAL, Approval, Event, PlanStep, Todo
from agentrail.messages import CallId, TokenUsage

# The status line: current work, elapsed time and cost. Events in, one row out.
#
# The elapsed time comes from the terminal's clock, independent of the server, so that a hanging server is noticed.

SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ASCII_SPINNER: Final = "|/-\\"
TURNS_PER_SECOND: Final = 10
_CHARACTERS_OF_TOKEN: Final = 4
"""Estimated characters of a token: the provider counts streamed tokens only at the end."""
_WAITS: Final = "waiting for you"
_MANY: Final = 10_000
_MINUTE: Final = 60


@frozen(kw_only=True)
class Working:
    """The current work of a session.

    Attributes:
        since: Start of its cycle in seconds of the drawing clock, or None while it is idle.
        cost_usd: The cost of the cycle, or None if a price is missing.
        spent_usd: The cost of the session in this chat, or None if a price is missing.
    """

    since: float | None = None
    what: str = ""
    read: int = 0
    written: int = 0
    streamed: int = 0
    cost_usd: float | None = 0.0
    spent_usd: float | None = 0.0
    queued: int = 0
    stopping: bool = False

    @property
    def is_at_work(self) -> bool:
        return self.since is not None


def after(working: Working, event: Event, now: float) -> Working:
    match event:
        case events.AgentStart():
            spent, queued = working.spent_usd, max(working.queued - 1, 0) if working.queued else 0
            return Working(since=now, what="preparing", spent_usd=spent, queued=queued)
        case events.PromptQueued():
            return evolve(working, queued=working.queued + 1)
        case events.PromptDropped() | events.PromptTaken() | events.PromptRejected():
            return evolve(working, queued=max(working.queued - 1, 0))
        case events.RequestStart(model=model, attempt=attempt):
            again = f", attempt {attempt}" if attempt > 1 else ""
            return evolve(working, what=f"asking {model}{again}", streamed=0)
        case events.ThinkingDelta(delta=delta):
            return evolve(working, what="thinking", streamed=working.streamed + len(delta))
        case events.MessageDelta(delta=delta):
            return evolve(working, what="writing", streamed=working.streamed + len(delta))
        case events.StreamStalled(elapsed_seconds=seconds):
            return evolve(working, what=f"nothing has come for {seconds:.0f} s")
        case events.StatusUpdate(text=text):
            return evolve(working, what=text)
        case events.ResponseComplete(usage=usage):
            return _counted(evolve(working, what="reading the answer", streamed=0), usage)
        case events.Retry(delay_ms=delay_ms):
            return evolve(working, what=f"trying again in {delay_ms / 1000:.0f} s", streamed=0)
        case events.CompactStart():
            return evolve(working, what="summing up the conversation")
        case events.AgentSuspended() | events.ApprovalRequired() | events.AskUser():
            return evolve(working, what=_WAITS)
        case events.AgentResumed() | events.ToolExecutionEnd():
            return evolve(working, what="going on")
        case _ if type(event) in TERMINAL:
            return Working(spent_usd=working.spent_usd, queued=working.queued)
        case _:
            return working


def _counted(working: Working, usage: TokenUsage) -> Working:
    def sum_of(one: float | None) -> float | None:
        return None if one is None or usage.cost_usd is None else one + usage.cost_usd

    return evolve(
        working,
        read=working.read + usage.input,
        written=working.written + usage.output,
        cost_usd=sum_of(working.cost_usd),
        spent_usd=sum_of(working.spent_usd),
    )


def draw_working(working: Working, running: tuple[str, ...], now: float, ink: Ink) -> str:
    """Draw the line, the most important facts first: a narrow terminal cuts off the rest."""
    if working.since is None:
        return ""
    elapsed = max(now - working.since, 0.0)
    spinner = SPINNER if ink.is_unicode else ASCII_SPINNER
    is_seen = running and working.what != _WAITS
    what = f"running {', '.join(running)}" if is_seen else working.what
    what = "stopping" if working.stopping else what
    written = working.written + working.streamed // _CHARACTERS_OF_TOKEN
    facts = [
        show_seconds(elapsed),
        *([f"↑{show_count(working.read)} ↓{show_count(written)} tokens"] if working.read or written else []),
        *([f"${working.cost_usd:.4f}"] if working.cost_usd else []),
        *([f"{working.queued} queued"] if working.queued else []),
        "Ctrl-C stops",
    ]
    turn = spinner[int(elapsed * TURNS_PER_SECOND) % len(spinner)]
    # In a narrow terminal the seconds must stay visible, because they show that it is alive.
    room = max(ink.width - 24, 12) if len(what) + 12 > ink.width else len(what)
    shown = what if len(what) <= room else f"{what[: room - 1]}…"
    if ink.width < 24:  # noqa: PLR2004 - same number
        return draw_line(((f"{turn} ", "asks"), (f"{facts[0]} ", ""), (shown, "dim")), ink)
    return draw_line(((f"{turn} ", "asks"), (shown, ""), (f" · {' · '.join(facts)}", "dim")), ink)


def show_seconds(seconds: float) -> str:
    """Format a duration, in whole seconds."""
    whole = int(seconds)
    return f"{whole} s" if whole < _MINUTE else f"{whole // _MINUTE} min {whole % _MINUTE:02} s"


def show_count(count: int) -> str:
    return f"{count:,}" if count < _MANY else f"{count / 1000:.1f}k"


# The picture.

_TODO_MARKS: Final = {"pending": " ", "in_progress": "▸", "completed": "✓", "cancelled": "-"}
_MAX_TODOS: Final = 8
_MAX_CALLS: Final = 6
_MAX_TAIL: Final = 16
"""Maximum rows of unfinished text redrawn per frame: a screenful of them would delay the echo of each key."""


@define
class _Running:
    name: str
    shown: str
    since: float
    arguments: Any
    latest: str = ""
    calls_of_child: int = 0
    is_child: bool = False


@define(eq=False)
class Picture:
    """The screen of a chat, as a value that events update.

    Attributes:
        dialogue: The dialogue about pending calls, or None.
    """

    ink: Ink
    working: Working = field(factory=Working)
    dialogue: Dialogue | None = None
    _words: MarkdownBlocks = field(factory=MarkdownBlocks)
    _streamed: DeltaText = field(factory=DeltaText)
    _thoughts: list[str] = field(factory=list)
    _running: dict[CallId, _Running] = field(factory=dict)
    _todos: tuple[Todo, ...] = ()
    _todos_are_new: bool = False
    _is_apart: bool = True
    _always: dict[tuple[str, str], tuple[str, ...]] = field(factory=dict)  # by call id and tool

    @property
    def is_at_work(self) -> bool:
        """Whether the picture changes without an event: elapsed seconds and a spinner."""
        return self.working.is_at_work or bool(self._running)

    def feed(self, event: Event, now: float) -> Rows:
        self.working = after(self.working, event, now)
        words = self._streamed.take(event)
        rows = (*self._end_thoughts(), *self._blocks(self._words.feed(words))) if words else ()
        return (*rows, *self._show(event, now))

    def _show(self, event: Event, now: float) -> Rows:
        match event:
            case events.ThinkingDelta(delta=delta):
                self._thoughts.append(delta)
                return ()
            case events.ToolExecutionStart(name=name, call_id=call_id, arguments=arguments):
                shown = f"{name}({show_arguments(arguments)})"
                self._running[call_id] = _Running(name, shown, now, arguments)
                return ()
            case events.ToolProgress(call_id=call_id, text=text):
                self._tell(call_id, text)
                return ()
            case events.ToolExecutionEnd():
                return self._outcome(event, now)
            case events.SubagentStart() | events.SubagentEvent():
                self._of_child(event)
                inner = innermost(event)
                is_ours = is_for_user(inner) or isinstance(inner, events.ApprovalResolved)
                return self._other(inner) if is_ours else ()
            case events.TodoChange(todos=todos):
                self._todos, self._todos_are_new = todos, True
                return ()
            case events.PlanGenerated(plan=plan):
                return self._plan(plan.steps)
            case events.PlanStepCompleted(step=step):
                return self.note(f"{step.id} is done: {step.content}")
            case events.PlanCompleted(plan=plan):
                return self.note(f"the plan is done, {len(plan.steps)} steps")
            case _:
                return self._other(event)

    def _other(self, event: Event) -> Rows:
        rows: list[str] = []
        if isinstance(event, ENDS_OF_WORDS):
            rows += self.end_words()
        if isinstance(event, events.ApprovalRequired):
            self.ask(event.approval)
        if isinstance(event, events.ApprovalResolved) and self.dialogue is not None:
            self.dialogue = self.dialogue.without(event.approval)
        if isinstance(event, events.PluginEvent) and event.name == "permission_asked":
            self._keep_rules(event.payload)
        if type(event) in TERMINAL:
            self._running.clear()
            self._always.clear()
            self.dialogue = None
            rows += self._final_todos()
        if isinstance(event, events.AskUser):
            rows += self._question(event)
        notice = None if is_for_user(event) else notice_of(event)
        if notice is not None:
            is_fault = isinstance(event, events.AgentError | events.SessionParked)
            rows += self.note(notice, style="fault" if is_fault else "dim")
        return tuple(rows)

    def _question(self, asked: events.AskUser) -> Rows:
        """Draw a question with one row per option. The input line answers it without a command."""
        self._is_apart = False
        options = [f"  {place} {on_one_line(one)}" for place, one in enumerate(asked.options, start=1)]
        form = show_form(asked.schema, asked.url).strip()
        hint = "the number of one, or another answer" if options else "type the answer"
        rows = [f"? {asked.question}", *options, *([f"  {form}"] if form else [])]
        return (
            *(row for one in rows for row in draw_text(one, self.ink, "asks")),
            *draw_text(f"  {hint}; /decline gives none", self.ink, "dim"),
        )

    def note(self, text: str, style: str = "dim") -> Rows:
        self._is_apart = False
        return draw_text(on_one_line(text), self.ink, style)

    def say(self, lines: Iterable[str]) -> Rows:
        rows = tuple(row for line in lines for row in draw_text(line, self.ink, "dim"))
        self._is_apart = self._is_apart and not rows
        return rows

    def log(self, lines: Iterable[str]) -> Rows:
        rows = tuple(row for line in lines for row in draw_log_line(line, self.ink))
        self._is_apart = self._is_apart and not rows
        return rows

    def past(self, words: str) -> Rows:
        """Return the rows of an answer from before the session was resumed."""
        return (*self.end_words(), *self._blocks(self._words.feed(words)), *self.end_words())

    def typed(self, text: str) -> Rows:
        shown = text.rstrip("\n").split("\n")
        most = MAX_DRAWN_ROWS
        rows = [*shown[:most], *([f"… {len(shown) - most} more lines"] if len(shown) > most else [])]
        marked = [f"{'>' if place == 0 else ' '} {row[:2_000]}" for place, row in enumerate(rows)]
        apart = ("",) if not self._is_apart else ()
        self._is_apart = False
        return (*apart, *(one for row in marked for one in draw_text(row, self.ink, "typed")))

    def ask(self, approval: Approval) -> None:
        """Add a call to the dialogue, after the calls already in it."""
        before = () if self.dialogue is None else self.dialogue.waiting
        if approval.id in {one.id for one in before}:
            return
        rules = {} if self.dialogue is None else dict(self.dialogue.rules)
        rules[approval.id] = self._always.pop((approval.call_id, approval.tool), ())
        chosen = 0 if self.dialogue is None else self.dialogue.chosen
        self.dialogue = Dialogue(waiting=(*before, approval), rules=tuple(rules.items()), chosen=chosen)

    def end_words(self) -> Rows:
        return (*self._end_thoughts(), *self._blocks(self._words.finish()))

    def below(self, now: float, height: int) -> Rows:
        """Draw the area below, in at most `height` rows: unfinished text, running calls, todos."""
        foot = [self._call_row(one, now) for one in list(self._running.values())[:_MAX_CALLS]]
        if len(self._running) > _MAX_CALLS:
            foot.append(draw_line(((f"  … and {len(self._running) - _MAX_CALLS} more", "dim"),), self.ink))
        if self.working.is_at_work:
            foot += self._todo_rows(self._todos[:_MAX_TODOS])
        if self.dialogue is not None:
            apart = [] if self._is_apart else [""]  # first, so that it is dropped first without room
            foot = [*apart, *draw_dialogue(self.dialogue, self.ink, max(height - 2 - len(apart), 3))]
        line = draw_working(self.working, tuple(one.name for one in self._running.values()), now, self.ink)
        if line:
            foot.append(line)
        foot = foot[-max(height, 1) :]
        room = height - len(foot) - 1
        return (*self._tail(room), *foot) if room > 0 else tuple(foot)

    def _tail(self, room: int) -> Rows:
        if self._thoughts:
            rows = draw_text("".join(self._thoughts)[-2_000:].strip(), self.ink, "dim italic")
            return rows[-min(room, 3) :]
        tail = self._words.tail
        if tail is None:
            return ()
        apart = () if tail.goes_on or self._is_apart else ("",)
        return (*apart, *draw_block(tail, self.ink))[-min(room, _MAX_TAIL) :]

    def _blocks(self, blocks: Iterable[Block]) -> Rows:
        rows: list[str] = []
        for block in blocks:
            drawn = draw_block(block, self.ink)
            if drawn:
                rows += drawn if block.goes_on or self._is_apart else ("", *drawn)
                self._is_apart = False
        return tuple(rows)

    def _end_thoughts(self) -> Rows:
        thought, self._thoughts = "".join(self._thoughts).strip(), []
        if not thought:
            return ()
        self._is_apart = False
        return draw_text(thought, self.ink, "dim italic")

    def _outcome(self, event: events.ToolExecutionEnd, now: float) -> Rows:
        started = self._running.pop(event.call_id, None)
        shown = event.name if started is None else started.shown
        first, more = first_line(event.result.words)
        facts = [*([f"+{more} lines"] if more else [])]
        facts += (
            [show_seconds(now - started.since)] if started is not None and now - started.since >= 1 else []
        )
        behind = f" ({', '.join(facts)})" if facts else ""
        mark, style = ("✗", "fault") if event.result.is_error else ("✓", "good")
        apart = () if self._is_apart else ("",)
        rows = [
            draw_line((("→ ", "dim"), (shown, "")), self.ink),
            draw_line((("  ", ""), (f"{mark} ", style), (f"{first}{behind}", "dim")), self.ink),
        ]
        if started is not None and not event.result.is_error:
            rows += draw_diff(diff_of_call(event.name, started.arguments), self.ink)
        self._is_apart = False
        return (*apart, *rows)

    def _tell(self, call_id: CallId, text: str) -> None:
        running = self._running.get(call_id)
        said = [line for line in text.splitlines() if line.strip()]
        if running is not None and said:
            running.latest = on_one_line(said[-1])

    def _of_child(self, event: events.SubagentStart | events.SubagentEvent) -> None:
        running = self._running.get(event.call_id)
        if running is None:
            return
        running.is_child = True
        if isinstance(event, events.SubagentStart):
            running.latest = on_one_line(event.description)
        elif isinstance(event.event, events.ToolExecutionStart):
            running.calls_of_child += 1
            running.latest = f"{event.event.name}({show_arguments(event.event.arguments)})"

    def _call_row(self, running: _Running, now: float) -> str:
        took = show_seconds(max(now - running.since, 0))
        child = f" · {running.calls_of_child} calls" if running.is_child else ""
        head = running.shown if len(running.shown) <= 60 else f"{running.shown[:59]}…"  # noqa: PLR2004 - the limit is used only here
        behind = f"  {running.latest}" if running.latest else ""
        mark = "◆" if running.is_child and self.ink.is_unicode else "→"
        return draw_line(((f"{mark} ", "asks"), (head, ""), (f" · {took}{child}{behind}", "dim")), self.ink)

    def _todo_rows(self, todos: Iterable[Todo]) -> Rows:
        def style(todo: Todo) -> str:
            return {"in_progress": "asks", "completed": "dim", "cancelled": "dim"}.get(todo.status, "")

        return tuple(
            draw_line(((f"  [{_TODO_MARKS[one.status]}] {one.content}", style(one)),), self.ink)
            for one in todos
        )

    def _final_todos(self) -> Rows:
        if not self._todos_are_new:
            return ()
        self._todos_are_new, self._is_apart = False, False
        return (draw_line((("todos:", "dim"),), self.ink), *self._todo_rows(self._todos[:MAX_DRAWN_ROWS]))

    def _plan(self, steps: Iterable[PlanStep]) -> Rows:
        rows = [f"  [{events.STEP_MARKS[step.status]}] {step.content}" for step in steps][:MAX_DRAWN_ROWS]
        self._is_apart = False
        return tuple(draw_line(((row, "dim"),), self.ink) for row in ("plan:", *rows))

    def _keep_rules(self, payload: Any) -> None:
        """Keep the rules that "always" would save for a call, until its approval is shown."""
        rules = payload.get("always") if hasattr(payload, "get") else None
        if isinstance(rules, list | tuple):
            self._always[f"{payload.get('call_id')}", f"{payload.get('tool')}"] = tuple(map(str, rules))

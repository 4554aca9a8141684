"""An edit by a person, a rewrite by the host and an approval never combine into a call that was not approved (8.3, 8.16).

Through the doors that users have: a supervisor with the hooks of a host, a session, its events, `approve` and `reject`.
"""

from typing import Final, Literal

import trio
import trio.testing
from attrs import define, field, frozen
from hypothesis import given, settings, strategies as st

from agentrail import plugins as p
from agentrail.abc import HostCall, HostHooks, HostVerdict
from agentrail.events import ApprovalRequired, Event, ToolApprovedAlways, ToolExecutionEnd
from agentrail.runtime.session_handle import Session
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import RecordingTool

CITIES: Final = ("Faro", "Porto", "Beja", "Evora")
_cities: Final = st.sampled_from(CITIES)
VERDICTS: Final = st.sampled_from(("allow", "deny", "crash")) | _cities


@frozen
class Step:
    """What happens next, of what can: the host says something, or a person does.

    Attributes:
        host_first: Who speaks, where both could.
        place: Of which of the calls that wait for that.
        verdict: What the host says; a city is what it rewrites.
        edit: What the person writes, and approves; None approves what is shown.
        how: For this call, or for all that are like it.
        rejects: Whether the person says no instead.
    """

    host_first: bool
    place: int
    verdict: str
    edit: str | None
    how: Literal["once", "always"] = "once"
    rejects: bool = False


STEPS: Final = st.lists(
    st.builds(
        Step,
        host_first=st.booleans(),
        place=st.integers(0, 2),
        verdict=VERDICTS,
        edit=st.none() | _cities,
        how=st.sampled_from(("once", "once", "once", "always")),
        rejects=st.sampled_from((False, False, False, False, True)),
    ),
    min_size=3,
    max_size=12,
)
AGREE: Final = Step(host_first=True, place=0, verdict="allow", edit=None)
ENOUGH: Final = 60


class Guard(p.Plugin[int]):
    """A safety plugin that has some cities replaced by others."""

    priority = 10

    def __init__(self, instead: dict[str, str]) -> None:
        super().__init__(name="guard")
        self._instead = instead

    def init(self) -> int:
        """Begin with nothing."""
        return 0

    @p.on(p.BeforeTool)
    def look(self, event: p.BeforeTool, state: int, ctx: p.Context) -> p.Action[int]:
        """Replace."""
        city = str(event.arguments["city"])
        return p.ReplaceToolArgs({"city": self._instead.get(city, city)}, state)


class People(p.Plugin[int]):
    """A safety plugin that wants a person for each call."""

    name = "people"
    priority = 20

    def init(self) -> int:
        """Begin with nothing."""
        return 0

    @p.on(p.BeforeTool)
    def ask(self, event: p.BeforeTool, state: int, ctx: p.Context) -> p.Action[int]:
        """Ask."""
        return p.RequireApproval("it costs", state)


@define(eq=False)
class Host:
    """A host that takes its time: each question waits until the test says how it is answered."""

    waiting: list[tuple[HostCall, trio.Event, list[str]]] = field(factory=list)
    allowed: dict[str, str] = field(factory=dict)

    async def before_tool(self, call: HostCall) -> HostVerdict:
        """Wait for what the test says, and note what may run."""
        asked = (call, trio.Event(), [""])
        self.waiting.append(asked)
        await asked[1].wait()
        verdict, city = asked[2][0], call.input["city"]
        call.input["city"] = "changed in place"
        if verdict == "crash":
            raise RuntimeError(verdict)
        if verdict == "deny":
            return HostVerdict(deny="no", by="audit")
        self.allowed[call.call_id] = city if verdict == "allow" else verdict
        return (
            HostVerdict(by="audit")
            if verdict == "allow"
            else HostVerdict(input={"city": verdict}, by="audit")
        )

    def answer(self, place: int, verdict: str) -> None:
        """Let one of the questions end."""
        _, event, answer = self.waiting.pop(place % len(self.waiting))
        answer[0] = verdict
        event.set()


@define(eq=False)
class Story:
    """What a person sees of a session, and has decided."""

    session: Session
    host: Host
    booked: RecordingTool
    approved: dict[str, str] = field(factory=dict)
    written: set[str] = field(factory=set)
    events: list[Event] = field(factory=list)

    async def take(self, step: Step) -> None:
        """Let one thing happen, if anything can."""
        shown = (await self.session.status()).approvals
        if self.host.waiting and (step.host_first or not shown):
            self.host.answer(step.place, step.verdict)
        elif shown and step.rejects:
            await self.session.reject(shown[step.place % len(shown)].id)
        elif shown:
            asked, edit = shown[step.place % len(shown)], step.edit
            self.approved[asked.call_id] = edit or str(asked.arguments["city"])
            self.written |= {asked.call_id} if edit not in {None, asked.arguments["city"]} else set()
            arguments = None if edit is None else {"city": edit}
            await self.session.approve(asked.id, kind=step.how, arguments=arguments)
        await trio.testing.wait_all_tasks_blocked()
        self.check()

    def check(self) -> None:
        """What ran is what was shown and approved last, and what the host let run last."""
        has_rule = any(isinstance(event, ToolApprovedAlways) for event in self.events)
        for arguments, ctx in zip(self.booked.calls, self.booked.contexts, strict=True):
            assert arguments["city"] == self.host.allowed[ctx.call_id]
            # A rule of the person's stands for a call of which that person has written nothing.
            if ctx.call_id in self.written or not has_rule:
                assert arguments["city"] == self.approved[ctx.call_id]
        shown = {event.approval.call_id for event in self.events if isinstance(event, ApprovalRequired)}
        ran = {ctx.call_id for ctx in self.booked.contexts}
        assert ran <= shown or has_rule


@settings(max_examples=max(settings().max_examples // 4, 25), deadline=None)
@given(
    wanted=st.lists(_cities, min_size=1, max_size=2),
    instead=st.dictionaries(_cities, _cities, max_size=1),
    steps=STEPS,
)
async def test_what_runs_is_what_was_shown_and_approved_last(wanted, instead, steps):
    """Whatever order they come in, and how often: a call runs with what a person saw or wrote, or it does not run."""
    host, booked = Host(), RecordingTool(name="book")
    model = ScriptedModel([calls(*(("book", {"city": city}) for city in wanted)), says("done"), says("done")])
    async with (
        open_nameless(host=HostHooks(before_tool=host.before_tool)) as supervisor,
        trio.open_nursery() as nursery,
    ):
        session = await supervisor.start_session(
            model=model, tools=[booked], plugins=[Guard(instead), People()], approval_timeout_seconds=0
        )
        story = Story(session, host, booked)

        async def read() -> None:
            async with session.subscribe(after=0) as events:
                async for event in events:
                    story.events.append(event)

        nursery.start_soon(read)
        await session.prompt("Book.")
        await trio.testing.wait_all_tasks_blocked()
        for step in steps:
            await story.take(step)
        for _ in range(ENOUGH):  # then everyone agrees, and it comes to an end
            await story.take(AGREE)
        ended = [event for event in story.events if isinstance(event, ToolExecutionEnd)]
        assert len(ended) == len(wanted)
        assert not host.waiting
        assert (await session.status()).phase == "idle"
        nursery.cancel_scope.cancel()

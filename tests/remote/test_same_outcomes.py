"""What a caller of a session is told in the end is the same in this process and over a network."""

from contextlib import nullcontext
from functools import partial

import pytest
import trio
from attrs import evolve

from agentrail import events, tool
from agentrail.abc import Ok
from agentrail.errors import AgentrailError, ModelNotFound, OptionError, Unrevivable
from agentrail.messages import AssistantMessage, Text, UserMessage
from agentrail.plugins import (
    Abort,
    Action,
    BeforePrompt,
    CallModel,
    Context,
    Plugin,
    Request,
    RequestDone,
    on,
)
from agentrail.remote.remote_session import RemoteSession
from agentrail.runtime import session_resume
from agentrail.runtime.session_monitor import SessionGone
from agentrail.stores.memory import MemoryStore
from agentrail.testing import supervisors
from agentrail.testing.cancelling import crash
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from tests.remote.over_a_network import every_supervisor_remote
from tests.remote.test_cut_connections import cut_supervisor
from tests.runtime.rig import NoSandbox


async def told(call):
    """Return the result of a call, or its error with all that it carries."""
    try:
        found = await call()
    except AgentrailError as error:
        carried = {name: value for name, value in vars(error).items() if name != "__notes__"}
        return type(error), str(error), carried
    return type(found) if isinstance(found, events.EventBase) else found


def one_answer():
    return FunctionModel(lambda _: says("One.", pause_seconds=5))


async def same_outcomes(scenario, new_store=lambda: None, new_model=one_answer, *, given=None, **options):
    """Return the outcomes of a scenario with a session in this process, and require the same ones over a network."""
    found = []
    for around in (nullcontext, every_supervisor_remote):
        with around():
            async with supervisors.open_nameless(
                lambda _name, _root: NoSandbox(), store=new_store(), **options
            ) as supervisor:
                session = await supervisor.start_session(
                    model=new_model(), session_id="s-1", **({} if given is None else given)
                )
                found.append(await (scenario(session, supervisor) if options else scenario(session)))
    assert found[1] == found[0]
    return found[0]


@tool
async def stubborn() -> str:
    """Take four seconds, also after an abort."""
    with trio.CancelScope(shield=True):
        await trio.sleep(4)
    return "late"


def stubborn_first():
    """Make a model that calls the stubborn tool in its first cycle."""
    return ScriptedModel([calls(("stubborn", {})), says("Two."), says("Three.")])


class Timed:
    """Outcomes of calls, each with the seconds at which it began and ended."""

    def __init__(self):
        self.began = trio.current_time()
        self.found = {}

    def now(self):
        return round(trio.current_time() - self.began)

    async def put(self, name, call):
        began = self.now()
        outcome = await told(call)
        self.found[name] = (began, self.now(), outcome)


async def streamed(session):
    async with session.stream("two", raise_on_failure=True) as cycle:
        async for _ in cycle:
            pass


CALLS = {
    "ask": lambda session: session.ask("two"),
    "ask again": lambda session: session.ask("two", client_id="m-2"),
    "run": lambda session: session.run("two"),
    "stream": streamed,
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("end", ["stop", "abort"])
async def test_a_queued_prompt_is_told_how_it_ended(call, end, autojump_clock):
    """Of a stop that its session is down, and of an abort that clears the queue its reason."""

    async def scenario(session):
        found = []

        async def ask():
            found.append(await told(lambda: CALLS[call](session)))

        async with trio.open_nursery() as nursery:
            await session.prompt("one")
            nursery.start_soon(ask)
            await trio.sleep(1)
            await (session.stop("enough") if end == "stop" else session.abort("enough", clear_queue=True))
        return found

    [(kind, message, _)] = await same_outcomes(scenario)
    assert (kind.__name__, message) == {
        "stop": ("SessionDown", "session 's-1' is down: enough"),
        "abort": ("CycleAborted", "the cycle was aborted: enough"),
    }[end]


async def test_a_session_that_has_stopped_still_has_the_events_of_its_last_cycle(autojump_clock):
    """As long as they are kept: an event of it is found, and one that never came is missed."""

    async def scenario(session):
        before = await told(lambda: session.wait_for(events.AgentEnd))
        await session.ask("one")
        await session.ask("two")
        await session.stop("enough")
        kinds = (events.AgentStart, events.AgentEnd, events.SessionEnd)
        return [before, *[await told(lambda kind=kind: session.wait_for(kind)) for kind in kinds]]

    before, *after = await same_outcomes(scenario)
    assert "there has been no cycle yet, and no AgentEnd came" in before[1]
    assert after[:2] == [events.AgentStart, events.AgentEnd]
    assert "the cycle finished, and no SessionEnd came" in after[2][1]


async def test_a_fork_without_a_cycle_has_the_answer_that_it_was_forked_after(autojump_clock):
    """It has the conversation up to there, and no cycle of its own yet."""

    async def scenario(session):
        answers = [await session.collect_reply()]
        await session.ask("one")
        fork = await session.fork(session_id="s-2")
        return [*answers, await fork.collect_reply(), await fork.ask("two"), await fork.collect_reply()]

    assert await same_outcomes(scenario, MemoryStore) == ["", "One.", "One.", "One."]


@pytest.mark.parametrize("new_store", [MemoryStore, lambda: None], ids=["stored", "not stored"])
async def test_an_imported_answer_is_of_no_cycle(new_store, autojump_clock):
    """A session that was started with a conversation has had no cycle, also after an abort of nothing."""
    said = AssistantMessage(content=(Text(text="Imported."),), model="m", stop_reason="end")
    history = (UserMessage(content=(Text(text="zero"),)), said)

    async def scenario(session):
        answers = [await session.collect_reply()]
        await session.abort()
        answers.append(await session.collect_reply())
        await session.ask("one")
        return [*answers, await session.collect_reply()]

    assert await same_outcomes(scenario, new_store, given={"messages": history}) == ["", "", "One."]


async def test_a_wait_that_takes_too_long_names_the_event(autojump_clock):
    """The same sentence as of every call with a time limit."""

    async def scenario(session):
        await session.prompt("one")
        return await told(lambda: session.wait_for(events.AgentEnd, timeout_seconds=1))

    _, message, _ = await same_outcomes(scenario)
    assert message == "no AgentEnd within 1 s; the session continues: call this again to wait for longer"


async def test_during_an_abort_the_reply_is_that_of_the_aborted_cycle(autojump_clock):
    """Also while prompts wait for the end of the abort: their cycles have not begun."""

    async def scenario(session):
        timed = Timed()
        async with trio.open_nursery() as nursery:
            await session.prompt("one")
            await trio.sleep(1)
            nursery.start_soon(timed.put, "abort", lambda: session.abort("enough"))
            await trio.sleep(1)
            await session.prompt("two")
            await timed.put("collect", session.collect_reply)
            await timed.put("wait", partial(session.wait_for, events.AgentEnd))
        return [timed.found["collect"], timed.found["wait"]]

    collected, waited = await same_outcomes(scenario, new_model=stubborn_first, given={"tools": [stubborn]})
    assert (collected[:2], collected[2][1]) == ((2, 2), "the cycle was aborted: enough")
    assert waited == (2, 4, events.AgentEnd)


async def test_the_reply_of_a_cycle_without_a_message_is_collected(autojump_clock):
    """Of `go_on`, while it runs and after it, and of a prompt that another program sent in the session's process."""

    async def scenario(session):
        await session.prompt("one")
        await trio.sleep(1)
        await session.abort("enough")
        await session.go_on()
        return [await session.collect_reply(), await session.collect_reply()]

    assert await same_outcomes(scenario, new_model=stubborn_first, given={"tools": [stubborn]}) == [
        "Two.",
        "Two.",
    ]


async def test_a_session_that_stops_tells_each_caller_the_same(autojump_clock):
    """A second stop waits for the end too, a message is refused at once, and a wait for an event has the reason."""

    async def scenario(session):
        timed = Timed()
        async with trio.open_nursery() as nursery:
            await session.prompt("one")
            await trio.sleep(1)
            nursery.start_soon(timed.put, "abort", lambda: session.abort("no"))
            await trio.sleep(1)
            await session.prompt("two")
            nursery.start_soon(timed.put, "wait", partial(session.wait_for, events.AgentEnd))
            await trio.sleep(0.1)
            for name in ("first", "second"):
                nursery.start_soon(timed.put, name, partial(session.stop, "enough"))
                await trio.sleep(0.1)
            nursery.start_soon(timed.put, "prompt", partial(session.prompt, "three"))
        await timed.put("third", partial(session.stop, "again"))
        del timed.found["abort"]
        return sorted(timed.found.items())

    outcomes = dict(await same_outcomes(scenario, new_model=stubborn_first, given={"tools": [stubborn]}))
    assert outcomes["first"] == outcomes["second"] == (2, 4, None)
    assert (outcomes["prompt"][:2], outcomes["wait"][:2], outcomes["third"][:2]) == ((2, 2), (2, 4), (4, 4))
    assert {outcomes[name][2][1] for name in ("prompt", "wait", "third")} == {"session 's-1' is down: enough"}


async def test_after_a_stop_only_the_last_cycle_is_read(autojump_clock, monkeypatch):
    """The history may be long, and is not what is waited for."""
    begun, subscribe = [], RemoteSession.subscribe

    def noting(self, *, after=None, **options):
        begun.append(after)
        return subscribe(self, after=after, **options)

    monkeypatch.setattr(RemoteSession, "subscribe", noting)

    async def scenario(session):
        for _ in range(60):
            await session.ask("one")
        last = (await session.status()).last_seq
        await session.stop("enough")
        begun.clear()
        return [last > 300, (await session.wait_for(events.AgentEnd)).meta.seq == last]

    assert await same_outcomes(scenario) == [True, True]
    assert min(begun) > 40


async def test_a_monitor_has_the_reason_of_an_end_that_it_missed(autojump_clock):
    """Its connection was lost, and when it returned, the session had ended and its last events were no longer kept."""
    async with cut_supervisor([2]) as (remote, supervisor):
        session = await remote.start_session(model=one_answer(), session_id="s-1", event_buffer_size=0)
        own, gone = supervisor.session("s-1", scope=session.scope or "acme"), []

        async def watch():
            gone.append(await session.monitor().wait())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await trio.sleep(0.001)
            await own.stop("enough")
    assert gone == [SessionGone(session_id="s-1", reason="enough", incarnation=1)]


@pytest.mark.parametrize("kept", [1_024, 0])
async def test_a_monitor_of_an_ended_session_has_its_last_incarnation(kept, autojump_clock):
    """As the local one has it: from its events, or from the snapshot if they are no longer kept."""
    async with cut_supervisor([]) as (remote, supervisor):
        session = await remote.start_session(model=one_answer(), session_id="s-1", event_buffer_size=kept)
        own = supervisor.session("s-1", scope="acme")
        await session.ask("one")
        crash(own)
        await session.ask("two")
        await session.stop("enough")
        found = await session.monitor().wait()
        assert found == evolve(await own.monitor().wait(), scope="")
    assert (found.reason, found.incarnation) == ("enough", 2)


@pytest.mark.parametrize("how", ["rested", "without its code"])
async def test_a_session_that_cannot_be_used_now_is_told_by_the_same_error(how, autojump_clock, monkeypatch):
    """One that was put to rest may come back, and one that hibernates needs its code."""

    async def scenario(session, supervisor):
        await session.ask("one")
        if how == "rested":
            await supervisor.rest("s-1")
        else:
            await trio.sleep(30)
            assert supervisor.statistics().asleep == 1
            monkeypatch.setattr(session_resume, "revive", without_its_code)
        tries = (session.status, session.collect_reply, session.stop, partial(session.prompt, "two"))
        found = [(await told(call))[0].__name__ for call in tries]
        monkeypatch.undo()
        return found

    store, after = (lambda: None, None) if how == "rested" else (lambda: MemoryStore(lease_ms=0), 10.0)
    outcomes = await same_outcomes(scenario, store, hibernate_after=after)
    assert set(outcomes) == {"SessionRested" if how == "rested" else "Unrevivable"}


def without_its_code(*_given, **_options):
    session_id = "s-1"
    raise Unrevivable(session_id, missing=["tool 'look'"])


@pytest.mark.parametrize(
    "wrong", ["", " ", "a/b", "x" * 5_000, "é", "a\x00b", "..", "s-1\n"], ids=lambda wrong: ascii(wrong)[:9]
)
async def test_an_id_that_nothing_can_have_is_unknown(wrong, autojump_clock):
    """A server refuses its form, and says so; the error is that of an id that nothing has."""

    async def scenario(session):
        by_id = {
            "approve": session.approve,
            "reject": session.reject,
            "respond": partial(session.respond, response="yes"),
            "decline": session.decline,
            "answer": partial(session.answer, outcome=Ok(text="yes")),
            "abort_tool": session.abort_tool,
            "revoke_rule": session.revoke_rule,
            "unbreak": session.unbreak,
        }
        return {name: (await told(partial(call, wrong)))[0].__name__ for name, call in by_id.items()}

    outcomes = await same_outcomes(scenario)
    assert set(outcomes.values()) == {"UnknownApproval", "UnknownCall", "UnknownRule"}


@pytest.mark.parametrize("wrong", ["", " "], ids=["empty", "blank"])
async def test_an_abort_of_a_prompt_without_a_ref_is_refused(wrong, autojump_clock):
    """It once stopped nothing in this process, and its receipt looked like that of an abort in idle."""

    async def scenario(session):
        await session.prompt("Hi")
        kind, said, _ = await told(partial(session.abort, ref=wrong))
        return kind, said, (await session.abort("now")).settled

    kind, said, settled = await same_outcomes(scenario)
    assert kind is OptionError
    assert "ref is empty" in said
    assert settled


LONG = "x" * 2_001
TOO_LONG = {
    "abort": lambda session: session.abort(LONG),
    "abort_tool": lambda session: session.abort_tool("c-1", LONG),
    "compact": lambda session: session.compact(LONG),
    "decline": lambda session: session.decline("q-1", LONG),
    "reject": lambda session: session.reject("a-1", LONG),
    "stop": lambda session: session.stop(LONG),
    "ref": lambda session: session.abort(ref="r" * 129),
}


@pytest.mark.parametrize("call", TOO_LONG)
async def test_a_text_that_a_server_refuses_as_too_long_is_refused_here_too(call, autojump_clock):
    """A call with it did its work in this process, and failed over a network. One of the greatest length is taken by both."""

    async def scenario(session):
        kind, said, _ = await told(partial(TOO_LONG[call], session))
        return kind, said, await session.abort(LONG[1:], ref="r" * 128)

    kind, said, receipt = await same_outcomes(scenario)
    assert kind is OptionError
    assert said == (
        "ref has more than 128 characters" if call == "ref" else "reason has more than 2,000 characters"
    )
    assert receipt.settled


@pytest.mark.parametrize("wrong", ["", " ", "x" * 129], ids=["empty", "blank", "long"])
async def test_a_model_that_cannot_exist_is_not_found(wrong, autojump_clock):
    """A server refuses such a text before it looks for the model. The error is that of an unknown one."""

    async def scenario(session):
        kind, _, _ = await told(partial(session.switch_model, wrong))
        return kind

    assert await same_outcomes(scenario) is ModelNotFound


class Judge(Plugin[int]):
    """A plugin that lets the session's own model judge each prompt, and then refuses it."""

    def init(self) -> int:
        return 0

    @on(BeforePrompt)
    def ask(self, event: BeforePrompt, state: int, ctx: Context) -> Action[int]:
        return Request(CallModel(prompt=event.text), "judge", state, wait=True)

    @on(RequestDone)
    def refuse(self, event: RequestDone, state: int, ctx: Context) -> Action[int]:
        return Abort("not kind", state)


@pytest.mark.parametrize("end", ["refused", "taken back", "cleared", "stopped"])
async def test_the_reply_to_a_prompt_that_gets_no_cycle_is_its_end(end, autojump_clock):
    """While plugins judge it: that it was refused, or that an abort or a stop came first. Nothing waits for the next prompt."""

    async def scenario(session):
        found = []

        async def collect():
            found.append(await told(lambda: session.collect_reply(timeout_seconds=60)))

        async with trio.open_nursery() as nursery:
            ref = (await session.prompt("one")).ref
            assert (await session.status()).queued == (ref,)
            nursery.start_soon(collect)
            await trio.sleep(0.1)
            if end == "taken back":
                await session.abort("not that", ref=ref)
            elif end == "cleared":
                await session.abort("none of it", clear_queue=True)
            elif end == "stopped":
                await session.stop("enough")
        return found

    [(kind, message, _)] = await same_outcomes(scenario, given={"plugins": [Judge]})
    why = {"refused": "not kind", "taken back": "not that", "cleared": "none of it", "stopped": "enough"}[end]
    assert (kind.__name__, message) == ("CycleAborted", f"the cycle was aborted: {why}")


async def test_a_prompt_that_is_taken_out_of_the_queue_is_told_its_own_reason(autojump_clock):
    """And not that of the abort of another cycle just before it."""

    async def scenario(session):
        await session.prompt("one")
        await session.wait_for(events.ToolExecutionStart, timeout_seconds=60)
        ref = (await session.prompt("two", client_id="m-2")).ref
        await session.abort("that cycle", wait=False)
        await session.abort("only this", ref=ref)
        return await told(partial(CALLS["ask again"], session))

    kind, message, _ = await same_outcomes(scenario, new_model=stubborn_first, given={"tools": [stubborn]})
    assert (kind.__name__, message) == ("CycleAborted", "the cycle was aborted: only this")

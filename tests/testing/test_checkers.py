"""The checkers of simulated lives: each keeps silent about a log that keeps its promise, and speaks when one line of it is changed."""

import msgspec
import pytest
import trio
from attrs import evolve

from agentrail import messages as m, tool
from agentrail.abc.store import Beat, Node, StoredSnapshot
from agentrail.core.policy.budget import Budget, Spent
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.effects import (
    Publish,
    ReplyToCaller,
    RunTool,
    SpawnChild,
    StartAgent,
    StartStream,
)
from agentrail.core.protocol.request import EffectId
from agentrail.core.session.machine import new_session as make_session, step
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.values.toolbox import Toolbox, ToolSpec, read_call
from agentrail.errors import AlreadyResolved
from agentrail.events import (
    AbortReceipt,
    AgentEnd,
    ApprovalRequired,
    ApprovalResolved,
    Envelope,
    EventsLost,
    LeftBehind,
    PromptQueued,
    PromptReceived,
)
from agentrail.outside import installed
from agentrail.runtime import session_actor
from agentrail.runtime.event_bus import EventBus
from agentrail.runtime.interpreter import Interpreter
from agentrail.runtime.session_resume import NOT_AWAITED
from agentrail.testing.clock import FakeClock
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.plugins import PuppetPlugin, read_rule
from agentrail.testing.seeded import seeded_order
from agentrail.testing.simulation.checkers import (
    CHECKERS,
    MAX_IDLE_STEPS,
    MAX_PER_SECOND,
    Acknowledgements,
    Approvals,
    Budgets,
    Fences,
    GapFree,
    Ledgers,
    Liveness,
    MessagesOnce,
    Promises,
    Receipts,
    Stops,
)
from agentrail.testing.simulation.facts import (
    CallAnswered,
    CallAsked,
    Calm,
    Closed,
    LedgerEntry,
    NodeChange,
    Read,
    ReaderSubscribed,
    ReceivedAgain,
    SessionStep,
    StoreCall,
)
from agentrail.testing.simulation.gods_eye import GodsEye
from agentrail.testing.simulation.life import watching
from agentrail.testing.simulation.log import LifeLog, LogLine
from agentrail.testing.simulation.machine import NodeMachine
from agentrail.testing.simulation.model_store import ModelStore
from agentrail.testing.simulation.shadow import FoldEqualsLife
from agentrail.testing.simulation.tape import Tape
from tests.core.test_children_of_tools import TASK
from tests.core.worlds import TOOLS, agents_session, changed, completed, config, new_session, prompt
from tests.runtime.rig import open_over
from tests.testing.written_logs import WrittenLog, changed_line, judged, number_of

PAY = ToolSpec(name="pay", description="Pays.", parameters={"type": "object"}, effect_class="once")
CALLED = [prompt(), completed("r1", read_call("c1", "pay", "{}"))]


def finished(effect_id, **more):
    return s.ToolFinished(at_ms=1, effect_id=EffectId(effect_id), text="done", started_at_ms=0, **more)


def entry(run, effect_class="once", **changes):
    made = LedgerEntry(
        ledger="bank",
        tool=run.name,
        effect_class=effect_class,
        operation_id=run.operation_id,
        call_id=run.call_id,
        arguments_hash=run.arguments_hash,
    )
    return evolve(made, **changes)


def paying(*signals):
    """A session that calls a tool, which acts once. Returns the log, and the effect that ran it."""
    log = WrittenLog(new_session(Toolbox([PAY])))
    log.live(*CALLED)
    (run,) = [line.facts for line in log.lines if isinstance(line.facts, RunTool)]
    log.line("tool", entry(run))
    log.live(*signals)
    return log, run


def a_whole_cycle():
    log, run = paying()
    log.live(finished(run.effect_id), completed("r3", m.Text(text="paid")))
    return log


ALL = [*CHECKERS, FoldEqualsLife]


@pytest.mark.parametrize("kind", ALL)
def test_a_plain_cycle_breaks_no_promise(kind):
    """Nor does one that goes on with another owner, up to a calm end."""
    log = a_whole_cycle()
    log.take("node-1")
    log.recover()
    log.live(prompt("p2"), completed("r4", m.Text(text="hello")))
    log.calm()
    assert judged(kind, log.lines) == []


# --- steps


def test_a_step_that_forgets_a_caller_is_found():
    """A step without its answer to the caller breaks the promise of one answer."""
    log = a_whole_cycle()
    place = number_of(log.lines, SessionStep)
    step = log.lines[place].facts
    told = tuple(effect for effect in step.effects if not isinstance(effect, ReplyToCaller))
    (said,) = judged(Promises, changed_line(log.lines, place, facts=evolve(step, effects=told)))
    assert said.startswith("s: Prompt breaks callers_are_answered_once (A caller is answered once")


def test_a_step_that_changes_more_than_its_record_says_is_found():
    """The shadow compares the state, field by field, and names the first place that differs."""
    log = a_whole_cycle()
    place = number_of(log.lines, SessionStep, 1)
    step = log.lines[place].facts
    data = msgspec.structs.replace(step.after.data, title="hidden")
    after = msgspec.structs.replace(step.after, data=data)
    (said,) = judged(FoldEqualsLife, changed_line(log.lines, place, facts=evolve(step, after=after)))
    assert (
        said
        == "s: record 3 (response_completed): its state was $.session_state.data.title: 'hidden' and folds to None"
    )


def test_a_record_that_names_another_effect_is_found():
    """Its decisions are compared with those of the fold."""
    log = WrittenLog()
    log.leave(log.step(prompt(), does="publish 1-9"))
    log.append()
    (said,) = judged(FoldEqualsLife, log.lines)
    assert "does was 'publish 1-9' and is" in said


def test_an_event_that_differs_from_its_fold_is_found():
    """An event with another reference than its record gives is named with its number."""
    log = a_whole_cycle()
    place = number_of(log.lines, SessionStep)
    step = log.lines[place].facts
    effects = tuple(
        msgspec.structs.replace(one, event=msgspec.structs.replace(one.event, ref=m.PromptRef("other")))
        if getattr(getattr(one, "event", None), "ref", None) == "p1"
        else one
        for one in step.effects
    )
    (said,) = judged(FoldEqualsLife, changed_line(log.lines, place, facts=evolve(step, effects=effects)))
    assert "event 1 was PromptReceived(ref='other'" in said


def test_sessions_that_are_not_drawn_are_not_folded():
    """Without a draw the checker sees every line and folds nothing."""
    log = a_whole_cycle()
    checker = FoldEqualsLife(GodsEye(), lambda session: False)
    assert [checker.see(line) for line in log.lines] == [None] * len(log.lines)
    assert checker.folded == 0


def test_a_session_that_lost_records_in_a_failover_is_judged_no_more():
    """What the operator allowed the store to lose is no finding, even if its numbers come again."""
    log = a_whole_cycle()
    lost = log.lines[number_of(log.lines, StoreCall, -1)].facts
    log.store("fail_over", answer=(lost,), lost_commits=1, place="world")
    log.lines.append(log.lines[number_of(log.lines, StoreCall, 1)])
    for kind in ALL:
        assert judged(kind, log.lines) == []


@pytest.mark.parametrize("kind", ALL)
def test_a_session_that_is_created_again_after_its_deletion_is_judged_no_more(kind):
    """Its events, effects and records have the numbers of the deleted one."""
    log = a_whole_cycle()
    log.store("delete", session="s", answer=100)
    log.lines += WrittenLog().lines
    log.lines += paying()[0].lines[1:]
    log.calm()
    assert judged(kind, log.lines) == []


# --- fences


def moved():
    """A session that moves while a step of its owner has no record. Returns the log and that step."""
    log, _ = paying()
    late = log.step(s.Steer(at_ms=1, signal_id=s.SignalId("x1"), ref=m.SteerRef("x1"), text="hurry"))
    log.take("node-1")
    log.recover()
    return log, late


@pytest.mark.simulation(13)
def test_an_effect_of_an_old_owner_is_found():
    """The story of 17.10: what begins work must not leave a node once another owns the session, though its record is durable."""
    log, run = paying()
    log.take("node-1")
    assert judged(Fences, log.lines) == []
    log.line("effect", run, place="node-0")
    (said,) = judged(Fences, log.lines)
    assert said.startswith("s: RunTool leaves node-0, although node-1 owns the session since 0.0")


def test_an_answer_of_an_old_owner_is_found_unless_its_record_was_durable():
    """Its caller would be told what the new owner does not know. What was durable, the new owner has."""
    log, late = moved()
    (reply,) = [effect for effect in late.effects if isinstance(effect, ReplyToCaller)]
    event, *_ = [effect.event for effect in late.effects if isinstance(effect, Publish)]
    known = next(line.facts for line in log.lines if isinstance(line.facts, ReplyToCaller))
    log.line("effect", known, place="node-0")
    assert judged(Fences, log.lines) == []
    log.line("effect", reply, place="node-0")
    log.line("event", event, place="node-0")
    said = judged(Fences, log.lines)
    assert [one.split(" leaves")[0] for one in said] == ["s: ReplyToCaller", "s: SteeringReceived"]


def test_stops_leave_an_old_owner():
    """An old owner may still stop its tools and itself."""
    log, _ = paying()
    abort = log.step(s.AbortCycle(at_ms=1, signal_id=s.SignalId("a1")))
    log.take("node-1")
    stops = [effect for effect in abort.effects if type(effect).__name__ in {"KillTools", "Teardown"}]
    assert len(stops) == 2
    for effect in stops:
        log.line("effect", effect, place="node-0")
    assert judged(Fences, log.lines) == []


@pytest.mark.parametrize("kind", ["effect", "event"])
def test_an_effect_that_leaves_before_its_record_is_durable_is_found(kind):
    """An effect or event before the answer to its append is found."""
    log = WrittenLog()
    log.take("node-1")  # alone on a store, a request may leave before
    log.take("node-0")
    step = log.step(prompt())
    log.append()
    log.leave(step)
    assert judged(Fences, log.lines) == []
    place = next(place for place, line in enumerate(log.lines) if line.kind == kind)
    early = log.lines[place]
    lines = [line for line in log.lines if line is not early]
    lines.insert(number_of(lines, SessionStep) + 1, early)
    (said,) = judged(Fences, lines)
    assert said.endswith("leaves node-0 before its record is durable")


def test_an_append_of_an_old_epoch_that_is_accepted_is_found():
    """Repeated or not: the answer is yes only while its epoch is the newest."""
    log, _ = paying()
    append = log.lines[number_of(log.lines, StoreCall, -1)]
    log.lines.append(append)
    assert judged(Fences, log.lines) == []
    log.take("node-1")
    log.lines.append(append)
    (said,) = judged(Fences, log.lines)
    assert said == "s: the store accepts record 3 of epoch 1 from node-0, although the session has epoch 2"


def test_an_epoch_that_does_not_rise_is_found():
    """A take with an epoch that is not newer is found."""
    log, _ = paying()
    log.take("node-1")
    place = number_of(log.lines, StoreCall, -1)
    (taken,) = log.lines[place].facts.answer.sessions
    tail = msgspec.structs.replace(taken.tail, epoch=1)
    answer = msgspec.structs.replace(
        log.lines[place].facts.answer, sessions=(msgspec.structs.replace(taken, tail=tail),)
    )
    facts = evolve(log.lines[place].facts, answer=answer)
    (said,) = judged(Fences, changed_line(log.lines, place, facts=facts))
    assert said == "s: the epoch falls from 1 to 1 as node-1 takes it"


def test_a_session_that_is_created_twice_is_found():
    """A store that lets a second node create a session which another node owns would have two with one id."""
    log, _ = paying()
    opening = log.lines[0].facts.arguments["opening"]
    log.store("create", opening=opening)
    assert judged(Fences, log.lines) == []
    log.store("create", opening=msgspec.structs.replace(opening, node="node-1"), place="node-1")
    assert judged(Fences, log.lines) == ["s: node-1 creates it, although it exists and node-0 owns it"]


def test_a_take_that_finds_fewer_records_than_were_durable_is_found():
    """What was acknowledged is recovered."""
    log, _ = paying()
    log.take("node-1")
    place = number_of(log.lines, StoreCall, -1)
    facts = log.lines[place].facts
    (taken,) = facts.answer.sessions
    tail = msgspec.structs.replace(taken.tail, seq=taken.tail.seq - 1)
    answer = msgspec.structs.replace(facts.answer, sessions=(msgspec.structs.replace(taken, tail=tail),))
    (said,) = judged(Fences, changed_line(log.lines, place, facts=evolve(facts, answer=answer)))
    assert said == "s: node-1 takes 2 records, although 3 were durable"


def test_a_take_from_a_living_node_is_found():
    """Its lease counts from its last heartbeat, unless it was reported gone. A node that has ended may be succeeded at once."""

    def judge_take(*between):
        log, _ = paying()
        log.store("beat", node=Node(id="node-0"), answer=Beat(at_ms=0, before_ms=0, was_gone=False))
        log.at += 9
        for change in between:
            change(log)
        log.take("node-1")
        return judged(Fences, log.lines)

    def wait(log):
        log.at += 1

    (said,) = judge_take()
    assert said == "s: node-1 takes it from a living node, whose lease is not over"
    assert judge_take(wait) == []
    assert judge_take(lambda log: log.store("gone", node="node-0")) == []
    assert judge_take(lambda log: log.line("node", NodeChange("killed"), place="node-0")) == []


def test_a_snapshot_ahead_of_its_record_is_found():
    """A snapshot holds only what its journal holds."""
    log, _ = paying()
    for seq in (3, 4):
        snapshot = StoredSnapshot(scope="", session="s", seq=seq, hash=b"", state=b"", check=b"")
        log.store("put_snapshot", snapshot=snapshot)
    assert judged(Fences, log.lines) == ["s: node-0 stores a snapshot of record 4, which is not durable"]


def test_an_old_owner_may_tell_what_was_durable():
    """It answers a query that waited while its node stood still. The new owner has the same state."""
    log, _ = paying()
    old = log.state
    log.take("node-1")
    state, effects = step(old, s.StatusQuery(at_ms=1, signal_id=s.SignalId("q1")))
    (reply,) = effects
    log.line("step", SessionStep(old, log.lines[-1].facts, state, effects), place="node-0")
    log.line("effect", reply, place="node-0")
    assert judged(Fences, log.lines) == []


def test_an_owner_that_had_lost_the_session_and_took_it_again_may_tell_what_it_took():
    """Seen in `drain`: what it did before it lost the session for the first time says nothing about its second time."""
    log, _ = moved()
    log.take("node-0")
    log.recover()
    old, asked = log.state, s.StatusQuery(at_ms=1, signal_id=s.SignalId("q1"))
    log.take("node-1")
    state, effects = step(old, asked)
    log.line("step", SessionStep(old, asked, state, effects), place="node-0")
    log.line("effect", effects[0], place="node-0")
    assert judged(Fences, log.lines) == []


def test_records_of_a_call_that_failed_are_not_folded():
    """A disk may fail after it has stored them. The next take shows that they are there, and the shadow knows nothing of them."""
    log, _ = paying()
    append = number_of(log.lines, StoreCall, 2)
    failed = evolve(log.lines[append].facts, trouble="away")
    log.take("node-1")
    log.recover()
    log.live(prompt("p2"))
    assert judged(FoldEqualsLife, changed_line(log.lines, append, facts=failed)) == []


def test_a_record_that_leaves_a_gap_is_found():
    """Without the append of a record, its step is not durable."""
    log, _ = paying()
    place = number_of(log.lines, StoreCall, 1)
    (said, *_) = judged(Fences, [line for number, line in enumerate(log.lines) if number != place])
    assert said.endswith("before its record is durable")


# --- effects of tools


def test_a_tool_that_acts_twice_is_found():
    """Also on another node, and under another attempt. An idempotent one may."""
    log, run = paying()
    log.line("tool", entry(run, operation_id="another"))
    assert judged(Ledgers, log.lines) == []
    twice = entry(run, attempt=2)
    place = len(log.lines) - 1
    (said,) = judged(Ledgers, changed_line(log.lines, place, facts=twice, place="node-1"))
    assert said == "s: pay acts a 2. time for c1, and may act once"
    both = [
        evolve(line, facts=evolve(line.facts, effect_class="idempotent")) if line.kind == "tool" else line
        for line in changed_line(log.lines, place, facts=twice)
    ]
    assert judged(Ledgers, both) == []


def test_a_result_of_a_tool_that_never_acted_is_found():
    """A result of a tool needs an entry in the ledger with its operation."""
    log = a_whole_cycle()
    place = number_of(log.lines, LedgerEntry)
    other = evolve(log.lines[place].facts, operation_id="another")
    (said,) = judged(Ledgers, changed_line(log.lines, place, facts=other))
    assert said == "s: pay has a result for c1, but never acted"


def test_an_effect_without_a_result_is_found_at_the_calm_end():
    """At the calm end each entry of the ledger has a result in the session."""
    log = a_whole_cycle()
    log.calm()
    assert judged(Ledgers, log.lines) == []
    place = number_of(log.lines, LedgerEntry)
    other = evolve(log.lines[place].facts, call_id="c9")
    said = judged(Ledgers, changed_line(log.lines, place, facts=other))
    assert said == ["s: pay acted for c9, which has no result"]


@pytest.mark.parametrize("place", ["node-0", "node-1"])
@pytest.mark.parametrize("takes", [1, 2])
def test_a_result_whose_append_failed_counts_if_the_next_take_finds_it(place, takes):
    """Seen in `single`, whose syncs failed: the node started again and found the record. After a take that failed too, nothing is known."""
    log, run = paying()
    append = len(log.lines) + 1
    log.live(finished(run.effect_id), completed("r3", m.Text(text="paid")))
    lines = changed_line(log.lines, append, facts=evolve(log.lines[append].facts, answer=OSError()))
    later = number_of(lines, StoreCall, -1)
    log.lines = changed_line(lines, later, facts=evolve(lines[later].facts, answer=OSError()))
    for node in range(takes):
        log.take(f"n{node}")
    first = number_of(log.lines, StoreCall, -takes)
    if takes == 2:
        log.lines = changed_line(log.lines, first, facts=evolve(log.lines[first].facts, answer=OSError()))
    log.recover()
    log.calm()
    places = {"n0": place, "n1": place}
    lines = [evolve(line, place=places.get(line.place, line.place)) for line in log.lines]
    assert judged(Ledgers, lines) == ["s: pay acted for c1, which has no result"][: takes - 1]


# --- acknowledgements


def asked(log, number, request, key, **answer):
    """Write a call and its answer."""
    log.line("person", CallAsked(id=f"q{number}", request=request, key=key), place="ann")
    if answer:
        log.line("person", CallAnswered(**{"id": f"q{number}", "outcome": "ok", **answer}), place="ann")


def decided(status, by="user", user=None):
    return {
        "outcome": "refused",
        "code": "already_resolved",
        "says": status,
        "value": AlreadyResolved("decided", status=status, by=by, user=user),
    }


def test_a_prompt_that_is_sent_again_has_one_receipt():
    """Both sends and both receipts of one prompt agree on its reference."""
    log = WrittenLog()
    asked(log, 1, "prompt", "m1", outcome="unknown")
    asked(log, 2, "receipt", "m1", says="")
    asked(log, 3, "prompt", "m1", says="p7")
    asked(log, 4, "receipt", "m1", says="p7")
    assert judged(Acknowledgements, log.lines) == []
    for number, ref in ((3, "p8"), (3, "")):
        place = number_of(log.lines, CallAnswered, number)
        facts = evolve(log.lines[place].facts, says=ref)
        (said,) = judged(Acknowledgements, changed_line(log.lines, place, facts=facts))
        assert said == f"s: no order of the calls about m1 explains the answer {ref!r} to q4"


def test_a_message_becomes_one_prompt():
    """Two messages are two prompts, or two steers. If the second has the client_id of the first, one message was accepted twice."""
    steer = s.Steer(at_ms=1, signal_id=s.SignalId("x"), ref=m.SteerRef("x"), text="hurry")
    for made in (prompt, lambda name: msgspec.structs.replace(steer, signal_id=name, ref=name)):
        log = WrittenLog()
        log.live(prompt("p0"))
        named = [msgspec.structs.replace(made(f"p{number}"), client_id=f"m{number}") for number in (1, 2)]
        log.live(*named)
        assert judged(MessagesOnce, log.lines) == []
        place = number_of(log.lines, SessionStep, 2)
        facts = evolve(log.lines[place].facts, signal=msgspec.structs.replace(named[1], client_id="m1"))
        (said,) = judged(MessagesOnce, changed_line(log.lines, place, facts=facts))
        assert said.startswith("s: message m1 was accepted twice, ")


def test_what_a_session_queues_itself_is_not_the_message_of_its_step():
    """A prompt that ends a suspended cycle also queues the news of an agent."""
    people = PuppetPlugin((read_rule("BeforeTool.pay", "approve:may it?"),), name="people")
    stack, states = load_stack([people])
    log = WrittenLog(make_session(config(), Toolbox([PAY]), stack, states))
    log.live(*CALLED)
    news = msgspec.structs.replace(log.state.data.agents, notes=("[scout is idle]",), is_waking=True)
    log.state = changed(log.state, agents=news)
    log.live(prompt("p2", client_id="m2"))
    published = [line.facts for line in log.lines if isinstance(line.facts, PromptQueued | PromptReceived)]
    assert [event.ref.partition("/")[0] for event in published] == ["p1", "p2", "wake"]
    assert judged(MessagesOnce, log.lines) == []


def test_the_first_decision_counts():
    """Two people decide at one instant: one of them is told that the other did, whatever the order of the answers."""
    log = WrittenLog()
    for number, request in ((1, "approve"), (2, "reject")):
        log.line("person", CallAsked(id=f"q{number}", request=request, key="s/a1"), place=f"p{number}")
    log.line("person", CallAnswered(id="q1", **decided("rejected")), place="p1")
    log.line("person", CallAnswered(id="q2", outcome="ok"), place="p2")
    assert judged(Acknowledgements, log.lines) == []
    (said,) = judged(Acknowledgements, changed_line(log.lines, 3, facts=CallAnswered(id="q1", outcome="ok")))
    assert said.startswith("s: no order of the calls about s/a1 explains the answer")
    other = CallAnswered(id="q1", **decided("approved"))
    assert len(judged(Acknowledgements, changed_line(log.lines, 3, facts=other))) > 0


def test_a_decision_cannot_be_known_before_it_is_made():
    """An approval is refused as rejected, and nobody had asked for that yet."""
    log = WrittenLog()
    asked(log, 1, "approve", "s/a1", **decided("rejected"))
    asked(log, 2, "reject", "s/a1")
    assert len(judged(Acknowledgements, log.lines)) == 1
    by_deadline = CallAnswered(id="q1", **decided("timeout", by="timeout"))
    assert judged(Acknowledgements, changed_line(log.lines, 2, facts=by_deadline)) == []


def test_a_lost_decision_may_take_effect_later():
    """A decision without an answer explains a later refusal. One that was refused does not."""
    log = WrittenLog()
    asked(log, 1, "approve", "s/a1", outcome="unknown")
    asked(log, 2, "approve", "s/a1", **decided("approved"))
    assert judged(Acknowledgements, log.lines) == []
    refused = CallAnswered(id="q1", outcome="refused", code="unknown_approval")
    assert len(judged(Acknowledgements, changed_line(log.lines, 2, facts=refused))) == 1


def test_a_client_may_find_its_own_answer():
    """A node sends the result of a client's tool again if the owner is lost. The session notes no user for it."""
    log = WrittenLog()
    asked(log, 1, "answer", "s/a1", **decided("approved", by="client"))
    assert judged(Acknowledgements, log.lines) == []


@pytest.mark.parametrize(("user", "faults"), [("ann", 0), ("bob", 1)])
def test_a_call_may_find_its_own_decision(user, faults):
    """A node sends an approval again if the owner is lost. The next one tells who has decided: this user, or another one, who did not."""
    log = WrittenLog()
    asked(log, 1, "approve", "s/a1", **decided("approved", user=user))
    assert len(judged(Acknowledgements, log.lines)) == faults
    with_the_token_of_bob = evolve(log.lines[1].facts, user="bob")
    assert (
        len(judged(Acknowledgements, changed_line(log.lines, 1, facts=with_the_token_of_bob))) == 1 - faults
    )


# --- readers


def reading():
    """A reader of a whole cycle, who reconnects after two events."""
    log = a_whole_cycle()
    events = [line.facts for line in log.lines if line.kind == "event"]
    log.line("read", ReaderSubscribed("ann", 0), place="ann")
    for place, event in enumerate(events):
        if place == 2:
            log.line("read", ReaderSubscribed("ann", 2), place="ann")
        log.line("read", Read("ann", event), place="ann")
    return log


@pytest.mark.simulation(11)
def test_a_gap_at_a_reader_is_found():
    """A missing event is found at the next one, also after the reader reconnects."""
    log = reading()
    assert judged(GapFree, log.lines) == []
    for nth in (1, 2, 4):
        place = number_of(log.lines, Read, nth)
        said, *_ = judged(GapFree, log.lines[:place] + log.lines[place + 1 :])
        if nth == 1:
            assert said == "s: ann has event 1 and reconnects after 2"
        else:
            assert said == f"s: ann gets event {nth + 2} after event {nth}"


def test_an_event_that_comes_twice_is_found():
    """A reader gets each event once, and so does its client, which would drop it."""
    log = reading()
    place = number_of(log.lines, Read, 3)
    (said,) = judged(GapFree, [*log.lines[: place + 1], *log.lines[place:]])
    assert said == "s: ann gets event 4 after event 4"
    log.line("read", ReceivedAgain(4), place="person-0")
    assert judged(GapFree, log.lines) == ["s: person-0 receives event 4 again"]


def test_another_event_of_the_same_number_is_found():
    """All readers see the same event under one number."""
    log = reading()
    place = number_of(log.lines, Read, 3)
    event = log.lines[place].facts.event
    other = AgentEnd(messages=(), usage=m.TokenUsage(), stop_reason="end", meta=event.meta)
    (said,) = judged(GapFree, changed_line(log.lines, place, facts=Read("ann", other)))
    assert said.startswith("s: event 4 is AgentEnd(")


def test_lost_events_are_named_with_their_bounds():
    """A notice of lost events covers exactly the missing ones."""
    log = reading()
    place = number_of(log.lines, Read, 3)
    meta = Envelope(m.SessionId("s"), 5, 0, (m.SessionId("s"),), ephemeral=True)

    def with_lost(low, high):
        lost = changed_line(
            log.lines, place, facts=Read("ann", EventsLost(from_seq=low, to_seq=high, meta=meta))
        )
        return lost[: place + 1] + lost[place + 2 :]  # it lacks 4 and 5

    assert judged(GapFree, with_lost(4, 5)) == []
    assert judged(GapFree, with_lost(5, 5))[0] == "s: ann has event 3 and is told that 5 to 5 are lost"
    assert judged(GapFree, with_lost(4, 4))[0] == "s: ann gets event 6 after event 4"


# --- approvals


def approving():
    """A call that waits for a person, is approved and runs."""
    people = PuppetPlugin((read_rule("BeforeTool.read", "approve:may it?"),), name="people")
    stack, states = load_stack([people])
    log = WrittenLog(make_session(config(), TOOLS, stack, states))
    log.live(prompt(), completed("r1", read_call("c1", "read", '{"path": "a"}')))
    (waiting,) = log.state.data.interactions
    log.live(s.Approve(at_ms=2, signal_id=s.SignalId("y1"), approval_id=m.ApprovalId(waiting.id)))
    return log


@pytest.mark.simulation(19)
def test_an_approved_call_runs_once_with_what_was_shown():
    """Not with other arguments, not on a second node, not before the approval."""
    log = approving()
    assert judged(Approvals, log.lines) == []
    place = number_of(log.lines, RunTool)
    run = log.lines[place].facts
    other = msgspec.structs.replace(run, arguments_hash="0" * 64)
    (said,) = judged(Approvals, changed_line(log.lines, place, facts=other))
    assert said == "s: c1 runs at node-0 with other arguments than those that were approved"
    log.line("effect", run, place="node-1")
    (said,) = judged(Approvals, log.lines)
    assert said == f"s: c1 runs at node-1 as {run.effect_id}, which ran at node-0"


def test_a_call_that_runs_without_its_approval_is_found():
    """A call that waits for an approval must not run before it."""
    log = approving()
    place = number_of(log.lines, RunTool)
    before = number_of(log.lines, SessionStep, 2)
    lines = [*log.lines[:before], log.lines[place]]
    (said,) = judged(Approvals, lines)
    assert said == "s: c1 runs at node-0, and is not approved"


def approval_that_expires(log, **changes):
    """The lines of a log whose approval is required and expires, in place of being given, and the number of the step that ends it."""
    place = number_of(log.lines, SessionStep, 1)
    required = log.lines[place].facts
    due = [evolve_event(effect, ApprovalRequired, **changes) for effect in required.effects]
    waiting = changed_line(log.lines, place, facts=evolve(required, effects=tuple(due)))
    place = number_of(log.lines, SessionStep, 2)
    expired = evolve(
        waiting[place].facts,
        effects=tuple(
            Publish(msgspec.structs.replace(one.event, status="timeout", by="timeout"))
            if isinstance(one, Publish) and isinstance(one.event, ApprovalResolved)
            else one
            for one in waiting[place].facts.effects
            if not isinstance(one, RunTool)
        ),
    )
    return changed_line(waiting, place, facts=expired)[: place + 2], place


def beat(at, at_ms):
    """A heartbeat that is told the time of the store."""
    answer = Beat(at_ms=at_ms, before_ms=0, was_gone=False)
    return LogLine(at, "node-1", "store", "", "", StoreCall("beat", {"node": Node(id="n2")}, answer))


def test_an_approval_expires_at_its_deadline():
    """Not early because a node's clock is wrong, and not never because its timer is lost."""
    log = approving()
    early, place = approval_that_expires(log, requested_at_ms=0, expires_at_ms=30_000)
    assert judged(Approvals, early) == ["s: c1 expires 30 s too early"]
    late = [*early[: place - 1], *(evolve(line, at=line.at + 30) for line in early[place - 1 :])]
    assert judged(Approvals, late) == [], "its deadline counts from its step, not from its late record"
    log.lines = early[:place]
    log.calm(55.0)
    assert judged(Approvals, log.lines) == []
    log.at += 10
    log.line("note", None, place="world")
    assert judged(Approvals, log.lines) == ["s: c1 has not expired, 35 s after its deadline"]


def test_a_deadline_is_a_time_of_the_store():
    """A step of its clock may end an approval at once, or late, but does not excuse a deadline of another clock."""
    early, place = approval_that_expires(approving(), requested_at_ms=1_000, expires_at_ms=31_000)
    told = [beat(0.0, 1_000), *early]
    assert judged(Approvals, told) == ["s: c1 expires 30 s too early"]
    forward = [*told[: place + 1], beat(early[place].at, 32_000), *told[place + 1 :]]
    assert judged(Approvals, forward) == []
    assert judged(Approvals, [beat(0.0, 90_000), *told[1:]]) == ["s: c1 has a deadline that is off by -89 s"]
    moved = [beat(0.0, 90_000), beat(0.0, 1_000), *told[1:]]
    assert judged(Approvals, moved) == [], "its node may not have learned of the step yet"


def evolve_event(effect, kind, **changes):
    """Return the effect, with another approval in its event if that is of a class."""
    if not isinstance(effect, Publish) or not isinstance(effect.event, kind):
        return effect
    approval = msgspec.structs.replace(effect.event.approval, **changes)
    return Publish(msgspec.structs.replace(effect.event, approval=approval))


def test_a_stop_that_waits_for_the_store_is_found():
    """What stops work leaves within a second of its step, unless its node stands still or has ended."""
    log, _ = paying()
    log.step(s.AbortCycle(at_ms=1, signal_id=s.SignalId("a1")))
    stopped = [*log.lines]
    log.at += 1.1
    log.step(s.StatusQuery(at_ms=1, signal_id=s.SignalId("q1")))
    (said,) = judged(Stops, log.lines)
    assert said.startswith("s: KillTools of 0.0")
    log.lines = stopped
    log.line("node", NodeChange("stopped"))
    log.at += 20
    log.line("node", NodeChange("continued"))
    log.step(s.StatusQuery(at_ms=1, signal_id=s.SignalId("q2")))
    assert judged(Stops, log.lines) == []


def test_a_call_that_has_finished_and_begins_again_is_found():
    """Unless its tool crashed: then it may be tried again."""
    log, run = paying()
    again = msgspec.structs.replace(run, effect_id=EffectId("t9"))
    for is_crashed, said in ((True, []), (False, ["s: c1 has finished, and begins again at node-0"])):
        lines = [*log.lines]
        ended = finished(run.effect_id, crashed=is_crashed)
        log.line("step", SessionStep(log.state, ended, log.state, ()))
        log.line("effect", again)
        assert judged(Ledgers, log.lines) == said
        log.lines = lines


# --- budgets


def test_a_child_whose_usage_is_counted_twice_is_found():
    """A parent counts what its child used, once."""
    log, run = paying()
    spent = Spent(usage=m.TokenUsage(input=10, output=5), tokens=15, nano_usd=0)
    log.live(finished(run.effect_id, spent=spent))
    assert judged(Budgets, log.lines) == []
    place = number_of(log.lines, SessionStep, -1)
    facts = log.lines[place].facts
    data = msgspec.structs.replace(facts.after.data, usage=facts.after.data.usage + spent.usage)
    twice = evolve(facts, after=msgspec.structs.replace(facts.after, data=data))
    (said,) = judged(Budgets, changed_line(log.lines, place, facts=twice))
    assert said == "s: a child used 15 tokens, of which its parent counts 30"


def test_owners_that_spend_one_budget_twice_are_found():
    """The reservation of a request that left an old owner counts, also if the new owner knows nothing of it."""
    rich = WrittenLog(new_session(budget=Budget(max_total_tokens=10_000), max_output_tokens=60))
    ((_, bound),) = rich.step(prompt()).after.data.ledger.open
    limit = bound.tokens * 3 // 2
    log = WrittenLog(new_session(budget=Budget(max_total_tokens=limit), max_output_tokens=60))
    log.live(prompt())
    log.live(completed("r1", m.Text(text="hello")))
    assert judged(Budgets, log.lines) == []
    place = number_of(log.lines, SessionStep)
    step, start = log.lines[place].facts, log.lines[number_of(log.lines, StartStream)].facts
    ledger = msgspec.structs.replace(step.after.data.ledger, open=(("s/r7", bound),))
    after = changed(step.after, ledger=ledger)
    request = msgspec.structs.replace(start.request, attempt=EffectId("r7"))
    old_owner = WrittenLog()
    old_owner.line("step", evolve(step, after=after))
    old_owner.line("effect", msgspec.structs.replace(start, request=request))
    (said,) = judged(Budgets, [*old_owner.lines[1:], *log.lines])
    assert said == f"s: {2 * bound.tokens} tokens are spent and reserved, of {limit}"
    # Seen in `tree`: a node that has lost the session and does not know it yet reserves as well. Nothing of it leaves.
    asked = number_of(log.lines, StartStream) + 1
    for place, found in (("node-0", [said]), ("node-1", [])):
        late = evolve(old_owner.lines[1], place=place)
        assert judged(Budgets, [*log.lines[:asked], late]) == found


@pytest.mark.parametrize(
    ("start", "call"),
    [
        (new_session, read_call("k1", "task", "{}")),
        (agents_session, read_call("k1", "spawn_agent", '{"agent": "scout", "task": "look"}')),
    ],
    ids=["a child", "an agent in the background"],
)
def test_a_child_with_a_budget_that_nobody_lent_is_found(start, call):
    """A child has exactly the budget that its parent lent."""
    budget = Budget(max_total_tokens=400)
    tools = {"tools": Toolbox([TASK])} if start is new_session else {}
    log = WrittenLog(start(**tools, budget=budget, max_output_tokens=40))
    log.live(prompt(), completed("r1", call))
    (spawned,) = [line.facts for line in log.lines if isinstance(line.facts, SpawnChild | StartAgent)]

    def child(share):
        path = (m.SessionId("s"), m.SessionId("s.1"))
        made = new_session(budget=share, max_output_tokens=10)
        config = msgspec.structs.replace(made.data.config, session_id=path[1], path=path)
        born = WrittenLog(changed(made, config=config), session=path[1])
        born.live(prompt())
        return [*log.lines, *born.lines]

    assert judged(Budgets, child(spawned.budget)) == []
    one_less = Budget(max_total_tokens=spawned.budget.max_total_tokens - 1)
    (said,) = judged(Budgets, child(one_less))
    assert "was not lent by s" in said


# --- aborts


def aborted(**receipt):
    """A cycle that is aborted while its tool runs. Returns the log, and the effect of the tool."""
    log, run = paying()
    log.live(s.AbortCycle(at_ms=1, signal_id=s.SignalId("a1"), kill_tools="all"))
    teardown = log.state.data.teardown
    given = AbortReceipt(tasks_ended=1, **receipt)
    log.live(s.TeardownFinished(at_ms=1, effect_id=teardown.effect_id, receipt=given))
    return log, run


def test_what_acts_behind_a_receipt_is_found():
    """On any node: its tool, another attempt, or a request of its turn."""
    log, run = aborted()
    log.live(prompt("p2"))
    assert judged(Receipts, log.lines) == []
    start = log.lines[number_of(log.lines, StartStream)].facts
    for kind, facts, said in (
        ("tool", entry(run), "pay acts for c1 at node-1"),
        ("effect", run, "c1 begins at node-1"),
        ("effect", start, f"request {start.request.attempt} is sent by node-1"),
    ):
        more = WrittenLog()
        more.line(kind, facts, place="node-1")
        (found,) = judged(Receipts, [*log.lines, more.lines[-1]])
        assert found == f"s: after the receipt of its abort, {said}"


def test_what_a_receipt_names_may_go_on():
    """Work that did not end in time. And a stalled owner acts with a lower epoch, which no lease can exclude."""
    log, run = aborted(stuck=(LeftBehind(name="pay", age_ms=5),))
    log.line("tool", entry(run, operation_id="late"))
    assert judged(Receipts, log.lines) == []
    log, run = aborted()
    log.take("node-1")
    log.line("tool", entry(run, fence=("s", 1)), place="node-0")
    assert judged(Receipts, log.lines) == []
    log.line("tool", entry(run, fence=("s", 2)), place="node-0")
    assert len(judged(Receipts, log.lines)) == 1


# --- the calm end


@pytest.mark.simulation(24)
def test_a_prompt_that_does_not_end_is_found():
    """Sixty seconds after all faults, unless it waits for a person."""
    log, _ = paying()
    log.calm()
    assert judged(Liveness, log.lines) == ["s: not ended: p1 for 100 calm seconds"]
    log = approving()
    waiting = log.lines[: number_of(log.lines, SessionStep, 2)]
    log.lines = waiting
    log.calm()
    assert judged(Liveness, log.lines) == []


def test_a_child_that_a_takeover_gives_up_owes_no_end_and_no_result():
    """Seen in `office` and `tree`: a node died twice, and the parent's call had another outcome by then. Any other end owes both."""
    for reason, unfinished, unanswered in (
        (NOT_AWAITED, [], []),
        ("stopped", ["s: not ended: p1 for 100 calm seconds"], ["s: pay acted for c1, which has no result"]),
    ):
        log, _ = paying()
        log.take("n1")
        log.close(reason)
        log.calm()
        assert judged(Liveness, log.lines) == unfinished
        assert judged(Ledgers, log.lines) == unanswered


def test_a_life_that_is_cut_off_owes_nothing():
    """Open work is no fault if the calm end is shorter than its time limit."""
    log, _ = paying()
    log.calm(seconds=30)
    assert judged(Liveness, log.lines) == []


def test_a_caller_without_an_answer_is_found():
    """At the calm end each call has an answer."""
    log = a_whole_cycle()
    asked(log, 1, "prompt", "m1", says="p1")
    log.calm()
    assert judged(Liveness, log.lines) == []
    place = number_of(log.lines, CallAnswered)
    said = judged(Liveness, log.lines[:place] + log.lines[place + 1 :])
    assert said == [
        "s: no answer to q1 (prompt) for 100 calm seconds",
        "s: no final answer to ann (prompt m1) for 100 calm seconds",
    ]


def test_a_caller_who_is_only_told_to_try_again_is_found():
    """Each attempt is answered, and none is final. One that is final ends all before it."""
    log = a_whole_cycle()
    for number in range(1, 4):
        asked(log, number, "prompt", "m1", outcome="unknown", code="store_unavailable", is_final=False)
    waiting = list(log.lines)
    asked(log, 4, "prompt", "m1", says="p1")
    log.calm()
    assert judged(Liveness, log.lines) == []
    calm = log.lines[number_of(log.lines, Calm) :]
    said = judged(Liveness, [*waiting, *calm])
    assert said == ["s: no final answer to ann (prompt m1) for 100 calm seconds"]


def test_an_event_that_stays_in_the_outbox_is_found():
    """At the calm end each event of a durable step is published."""
    log = a_whole_cycle()
    log.calm()
    place = max(place for place, line in enumerate(log.lines) if line.kind == "event")
    number = log.lines[place].facts.meta.seq
    said = judged(Liveness, log.lines[:place] + log.lines[place + 1 :])
    assert said == [f"s: not published: {number} at node-0 for 100 calm seconds"]


@pytest.mark.parametrize(("silent_seconds", "is_found"), [(4.9, True), (5.1, False)])
def test_a_session_that_ends_while_the_store_is_silent_publishes_no_more(silent_seconds, is_found):
    """One that ends earlier still has to publish what it did."""
    log = a_whole_cycle()
    del log.lines[max(place for place, line in enumerate(log.lines) if line.kind == "event")]
    log.at += silent_seconds
    log.line("note", Closed("its request failed"))
    log.calm()
    assert bool(judged(Liveness, log.lines)) is is_found


@pytest.mark.parametrize(("silent_seconds", "is_found"), [(4.9, True), (5.1, False)])
def test_nor_what_the_store_takes_only_after_that_end(silent_seconds, is_found):
    """Seen in `tree`: a parent was aborted in an outage, and the store took the steps of its child a moment after its end."""
    log = a_whole_cycle()
    log.step(prompt("p2"))
    log.step(completed("r4", m.Text(text="hello")))
    log.at += silent_seconds
    log.line("note", Closed("its parent's call has ended"))
    log.append()
    log.calm()
    said = judged(Liveness, log.lines)
    assert bool(said) is is_found
    assert all("not published" in one for one in said)


def test_a_child_of_a_session_that_is_not_judged_is_not_judged_either():
    """Seen in `tree`: a session had the id of a deleted one, and a takeover was missing in the shadow of its child alone."""
    log = WrittenLog()
    log.store("delete", session=log.session)
    log.store("create", opening=log.lines[0].facts.arguments["opening"])
    child = WrittenLog(session=m.SessionId("s.c")).lines[0].facts.arguments["opening"]
    log.store("create", opening=msgspec.structs.replace(child, root=log.session))
    eye = GodsEye()
    for line in log.lines:
        eye.look(line)
    assert list(eye.lost) == ["s", "s.c"]


@pytest.mark.parametrize("how", ["killed", "released"])
def test_work_without_an_owner_is_found(how):
    """Its node ended, or gave the session back, and nobody took it."""
    log, _ = paying()
    log.step(s.StatusQuery(at_ms=1, signal_id=s.SignalId("q")))
    if how == "killed":
        log.line("node", NodeChange("killed"))
    else:
        log.store("release", node="node-0", scope="", root="s")
    log.calm()
    assert "s: without owner, but with work: for 100 calm seconds" in judged(Liveness, log.lines)
    log.take("node-1")
    assert "s: without owner, but with work: for 100 calm seconds" not in judged(Liveness, log.lines)


def test_a_session_that_spins_is_found():
    """A session makes only a bounded number of steps in a row without progress."""
    log = WrittenLog()
    late = s.ToolFinished(at_ms=1, effect_id=EffectId("t0"), text="late", started_at_ms=0)
    step = SessionStep(log.state, late, log.state, ())
    for _ in range(MAX_IDLE_STEPS):
        log.line("step", step)
    assert judged(Liveness, log.lines) == []
    log.line("step", step)
    assert judged(Liveness, log.lines) == ["s spins: 100 steps in a row without progress"]


def test_a_node_that_asks_the_store_in_a_loop_is_found():
    """A node sends only a bounded number of equal requests to the store in one second."""
    log = WrittenLog()
    for _ in range(MAX_PER_SECOND + 1):
        log.at = 0.5
        log.store("nodes")
    assert judged(Liveness, log.lines) == ["node-0 spins: 1001 times nodes in one second"]


# --- live sessions


def judged_life(*, kinds=ALL):
    """Live a life of two sessions on one node. Returns its log, and what the judges said."""
    log, said = LifeLog(), []
    eye = GodsEye()
    judges = [kind(eye) for kind in kinds]
    log.watchers.append(lambda line: said.extend(filter(None, (judge.see(line) for judge in judges))))

    def answer(request):
        is_first = isinstance(request.messages[-1], m.UserMessage)
        return calls(("book", {"path": "a"})) if is_first else says("booked")

    @tool(effect_class="idempotent")
    async def book(path: str) -> str:
        """Book."""
        await trio.sleep(0.5)
        return path

    async def use(supervisor, name):
        session = await supervisor.start_session(model=FunctionModel(answer), tools=[book], session_id=name)
        for number in range(3):
            await session.ask(f"book {number}")

    async def main():
        with installed(NodeMachine(7, "node-0")):
            async with open_over(ModelStore(Tape(7), log)) as supervisor, trio.open_nursery() as nursery:
                nursery.start_soon(use, supervisor, "s1")
                nursery.start_soon(use, supervisor, "s2")

    with seeded_order(7), watching(log):
        trio.run(main, clock=FakeClock())
    said.extend(one for judge in judges for one in judge.finish())
    return log, said, judges


def test_live_sessions_are_watched_and_break_no_promise():
    """The log has their steps with the numbers of their records, their effects and their events, in one order."""
    log, said, judges = judged_life()
    assert said == []
    assert judges[-1].folded >= 40
    steps = [line.facts for line in log.lines if line.session == "s1" and isinstance(line.facts, SessionStep)]
    numbers = [step.record for step in steps if step.record]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 2
    tools = [line for line in log.lines if isinstance(line.facts, RunTool)]
    assert [line.place for line in tools] == ["node-0"] * 6
    events = [line.facts.meta.seq for line in log.lines if line.kind == "event" and line.session == "s2"]
    assert events == list(range(1, len(events) + 1))
    assert [line.facts.reason for line in log.lines if isinstance(line.facts, Closed)] != []


def test_watching_changes_nothing_after_the_block():
    """The product's own functions are back after the block."""
    before = session_actor.step, Interpreter.carry_out, EventBus.publish
    with watching(LifeLog()):
        assert session_actor.step is not before[0]
    assert (session_actor.step, Interpreter.carry_out, EventBus.publish) == before

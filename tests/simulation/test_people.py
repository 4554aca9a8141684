"""People, models and ledgers of simulated lives: what a careful client keeps to, whatever happens to its connections."""

from collections import Counter
from types import SimpleNamespace

import pytest
import trio

from agentrail import outside
from agentrail.events import ApprovalRequired, PromptQueued, PromptReceived, ToolExecutionEnd
from agentrail.events.envelope import Envelope
from agentrail.messages import ToolResult
from agentrail.plugins.human_approval import HumanApproval
from agentrail.testing.simulation.chatty_model import chatty_model
from agentrail.testing.simulation.checkers import Acknowledgements
from agentrail.testing.simulation.facts import CallAnswered, CallAsked, LedgerEntry, Read
from agentrail.testing.simulation.faults import MODEL_TROUBLE, WHIMS
from agentrail.testing.simulation.ledger import EffectLedger
from agentrail.testing.simulation.life import run
from agentrail.testing.simulation.log import LifeLog, LogLine
from agentrail.testing.simulation.machine import NodeMachine

CLASSES = ("once", "idempotent", "reconcilable", "pure")


def shop_of(world, model=None, **options):
    """Serve the profile `desk`, with a tool of each effect class."""
    shop = world.ledger("shop")
    tools = [shop.tool(f"pay_{one}", effect_class=one) for one in CLASSES]
    world.profile("desk", model=model or chatty_model(), tools=tools, **options)
    return shop


def facts(report, kind):
    return [line.facts for line in report.log.lines if isinstance(line.facts, kind)]


def prompts_in_history(report):
    """Return how often each prompt was accepted, as the readers have read it. Every reader counts once."""
    seen = {}
    for line in report.log.lines:
        if isinstance(line.facts, Read) and isinstance(line.facts.event, PromptReceived | PromptQueued):
            event = line.facts.event
            seen[event.meta.session_id, event.meta.seq] = event.content[0].text.split()[0]
    return Counter(seen.values())


def test_in_a_calm_life_all_prompts_are_answered_and_each_payment_is_made_once():
    """Every call of a client is accepted, every prompt completes, and the ledger has each operation of each class once."""

    def calm(world):
        shop = shop_of(world)
        world.people(3, "desk", pause=(1.0, 10.0))
        world.faults(())
        world.finally_(lambda: shops.append(shop))

    shops = []
    report = run(calm, "calm", nodes=2, hours=0.05)
    assert report.broken is None
    answers = {one.id: one for one in facts(report, CallAnswered)}
    asked = facts(report, CallAsked)
    assert len([one for one in asked if one.request == "prompt"]) > 20
    assert all(answers[one.id].outcome == "ok" for one in asked)
    ends = [answers[one.id].value["status"] for one in asked if one.says == "wait"]
    assert ends == ["completed"] * len(ends)
    assert {*prompts_in_history(report).values()} == {1}
    (shop,) = shops
    assert shop.each_once()
    assert shop.at_least_once()
    assert {entry.effect_class for entry in shop.entries} == {*CLASSES}
    assert len({entry.operation_id for entry in shop.entries}) == len(shop.entries) > 20
    assert facts(report, LedgerEntry) == shop.entries


def test_on_an_empty_tape_the_first_person_sends_one_prompt():
    """What is shrunk away leaves one prompt of one person, who waits for its end, and a model that answers in words."""

    def everything(world):
        shop_of(world)
        world.people(3, "desk")
        world.faults()

    report = run(everything, "any", nodes=2, hours=0.02, given={})
    assert report.drawn == {}
    asked = [(one.request, one.key) for one in facts(report, CallAsked) if one.request == "prompt"]
    assert asked == [("prompt", "person-0.0")]
    assert facts(report, LedgerEntry) == []


def test_a_prompt_that_is_sent_again_after_a_cut_is_one_prompt():
    """Connections of both people break all the time, and they repeat themselves, also on two nodes at one instant: one name, one prompt."""
    dials = []

    def cut(world):
        shop_of(world, chatty_model(trouble=0))
        deeds = ("nothing", "prompt", "repeat", "twice", "vanish", "hurry")
        world.people(2, "desk", pause=(0.5, 3.0), deeds=deeds)
        dial = world.network.dial
        world.network.dial = lambda *given, **more: dials.append(given) or dial(*given, **more)

        async def reset():
            for number in range(1_000):
                await trio.sleep(0.3 + 0.01 * (number % 13))
                if world.is_calm:
                    return
                for node in world.nodes:
                    world.network.reset(f"person-{number % 2}", node.place)

        world.inhabit("weather", reset)

    report = run(cut, "cut", nodes=2, hours=0.02)
    assert report.broken is None
    assert len(dials) > 50
    asked = Counter(one.key for one in facts(report, CallAsked) if one.request == "prompt")
    assert max(asked.values()) > 1
    assert prompts_in_history(report) == Counter(dict.fromkeys(asked, 1))
    assert {one.outcome for one in facts(report, CallAnswered) if one.value is not None} == {"ok"}


def test_a_repeated_prompt_may_be_an_old_one():
    """A person sends any prompt of the session again over a second connection, long after its end. It is still one prompt."""

    def repeating(world):
        shop_of(world)
        world.people(2, "desk", pause=(1.0, 5.0), deeds=("nothing", "repeat"))
        world.faults({WHIMS}, rate=0)

    report = run(repeating, 4, nodes=2, hours=0.02)
    assert report.broken is None
    prompts = [one.key for one in facts(report, CallAsked) if one.request == "prompt"]
    ended = {}
    for number, key in enumerate(prompts):
        ended.setdefault(key, number)
    assert max(number - ended[key] for number, key in enumerate(prompts)) > 2
    assert {*prompts_in_history(report).values()} == {1}


def test_two_readers_of_a_session_have_the_same_events():
    """Its numbers are dense for both, who read over different nodes, detach and come back with their number, while the owner is killed."""

    def shared(world):
        plugins = [(HumanApproval, {"require_approval_for": ["pay_once"]})]
        shop_of(world, plugins=plugins)
        world.people(2, "desk", sessions=1, pause=(1.0, 5.0), deeds=("nothing", "prompt", "detach", "vanish"))

        async def kill():
            await trio.sleep(20)
            world.kill(0)
            await trio.sleep(5)
            world.restart(0)

        world.inhabit("weather", kill)

    report = run(shared, "two", nodes=2, hours=0.02)
    assert report.broken is None
    events = {}
    for read in facts(report, Read):
        events.setdefault(read.reader, []).append((read.event.meta.seq, read.event))
    first, second = events.values()
    assert [seq for seq, _ in first] == list(range(1, len(first) + 1))
    length = min(len(first), len(second))
    assert length > 50
    assert first[:length] == second[:length]
    requests = Counter(one.request for one in facts(report, CallAsked))
    assert requests["approve"] + requests["reject"] > 1


@pytest.mark.parametrize("fault", [MODEL_TROUBLE, WHIMS])
def test_a_life_has_the_trouble_that_it_allows(fault):
    """Models fail only where that is allowed, and people abort and steer only where that is. Every prompt ends all the same."""

    def troubled(world):
        world.allows = lambda one: one is fault
        shop_of(world, chatty_model(calls=2, trouble=10))
        world.people(3, "desk", pause=(1.0, 5.0))

    report = run(troubled, "a", hours=0.03)
    assert report.broken is None
    statuses = Counter(
        one.value["status"] for one in facts(report, CallAnswered) if isinstance(one.value, dict)
    )
    requests = {one.request for one in facts(report, CallAsked)}
    assert statuses["completed"] > 10
    assert (statuses["failed"] > 0) == (fault is MODEL_TROUBLE)
    assert ({"abort", "steer"} <= requests) == (fault is WHIMS)


def attempt(shop, tool, operation, call="c1"):
    """Write an entry, as the call of a tool does."""
    ctx = SimpleNamespace(
        operation_id=operation, call_id=call, attempt=1, arguments={}, fence=("s", 1), session_id="s"
    )
    shop.write(tool, ctx)


def test_a_ledger_counts_by_effect_class_and_a_dead_node_writes_nothing():
    """A second effect of one operation is one too many for `once` and `reconcilable`, and is nothing new for the other two."""
    for effect_class in CLASSES:
        shop = EffectLedger("shop", LifeLog())
        tool = shop.tool("pay", effect_class)
        attempt(shop, tool, "o1")
        attempt(shop, tool, "o2")
        assert shop.each_once()
        machine = NodeMachine(1, "node-0")
        machine.is_dead = True
        with outside.installed(machine):
            attempt(shop, tool, "o1")
        assert shop.each_once()
        attempt(shop, tool, "o1")
        assert shop.each_once() is (effect_class in {"idempotent", "pure"})
        assert [entry.operation_id for entry in shop.entries] == ["o1", "o2", "o1"]


def test_a_result_without_an_effect_is_noticed():
    """A published success of a call that never reached the ledger is one too few. An error may have had no effect."""
    log = LifeLog()
    shop = EffectLedger("shop", log)
    attempt(shop, shop.tool("pay"), "o1", "c1")
    for call, is_error, holds in (("c1", False, True), ("c2", True, True), ("c2", False, False)):
        result = ToolResult(call_id=call, name="pay", text="done", is_error=is_error)
        meta = Envelope("s", 1, 0, ("s",))
        log.note("event", "", facts=ToolExecutionEnd(name="pay", call_id=call, result=result, meta=meta))
        assert shop.at_least_once() is holds


def test_a_request_whose_node_leaves_is_waited_for_on_the_next_node():
    """A client that waits for the end of its prompt, while the owner of its session leaves, gets that end and not that of the node."""

    def drained(world):
        shop = world.ledger("shop")
        world.profile("desk", model=chatty_model(trouble=0), tools=[shop.tool("note", "pure", 3.0)])
        world.people(3, "desk", pause=(0.5, 1.0), deeds=("nothing", "prompt"))
        world.faults(())

        async def leave():
            for number in range(6):
                await trio.sleep(4)
                world.leave(number % 2)
                await world.nodes[number % 2].down.wait()
                await trio.sleep(1)
                world.restart(number % 2)

        world.inhabit("operator", leave)

    report = run(drained, "leave", nodes=2, hours=0.02)
    assert report.broken is None
    asked = {one.id: one for one in facts(report, CallAsked)}
    ends = [one.value for one in facts(report, CallAnswered) if asked[one.id].says == "wait" and one.value]
    assert len(ends) > 10
    assert {end["status"] for end in ends} == {"completed"}


@pytest.mark.simulation("V-019")
def test_two_people_who_approve_one_call_on_two_nodes_run_it_once():
    """Both decide at one instant, over different nodes and with a cut between these: the call runs once, as it was shown to both."""
    shops = []

    def desk(world):
        plugins = [(HumanApproval, {"require_approval_for": ["pay_*"]})]
        shops.append(shop_of(world, plugins=plugins))
        world.people(2, "desk", sessions=1)

        first_click = trio.Event()

        def cut_between(line):
            if (
                isinstance(line.facts, CallAsked)
                and line.facts.request == "approve"
                and not first_click.is_set()
            ):
                first_click.set()
                world.network.cut("node-0", "node-1")

        async def mend():
            await first_click.wait()
            await trio.sleep(4)
            world.network.mend("node-0", "node-1")

        world.log.watchers.append(cut_between)
        world.inhabit("weather", mend)

    call = chatty_model()._plans.index("call")  # noqa: SLF001 - the number of a draw
    given = {"model[person-0.0+0]#0": call, "model[person-0.0+0].tool#0": 1}  # `pay_once`
    given |= {"people[1].says[0]#0": 1, "people[1].node#0": 1}
    report = run(desk, "V-019", nodes=2, hours=0.02, given=given)
    assert report.broken is None
    approved = [one for one in facts(report, CallAsked) if one.request == "approve"]
    shown = {
        read.event.approval.arguments_hash
        for read in facts(report, Read)
        if isinstance(read.event, ApprovalRequired)
    }
    assert len({one.key for one in approved}) == 1
    assert {line.place for line in report.log.lines if line.facts in approved} == {"person-0", "person-1"}
    answers = {one.id: one for one in facts(report, CallAnswered)}
    assert {answers[one.id].says for one in approved if answers[one.id].outcome != "unknown"} == {"approved"}
    assert [(entry.tool, {entry.arguments_hash}) for entry in shops[0].entries] == [("pay_once", shown)]


@pytest.mark.parametrize("is_repeated", [False, True])
def test_only_a_call_that_was_sent_twice_may_find_its_own_decision_made(is_repeated):
    """A remote handle reports success if it sent an approval twice and the call is approved, whoever approved it. Otherwise one click decides."""
    checker = Acknowledgements()
    for person in ("ann", "bob"):
        asked = CallAsked(id=person, request="approve", key="a1", says="approved")
        assert checker.judge(LogLine(1.0, person, "person", "s0", "", asked)) is None
    answers = [
        CallAnswered(id="ann", outcome="ok", says="approved"),
        CallAnswered(id="bob", outcome="ok", says="approved", is_repeated=is_repeated),
    ]
    said = [checker.judge(LogLine(2.0, answer.id, "person", "s0", "", answer)) for answer in answers]
    assert [one is None for one in said] == [True, is_repeated]


def test_requests_are_known_on_a_node_to_which_their_session_returns():
    """A node that lost a session while it stood still, and takes it again later, finds the requests that were accepted meanwhile."""

    def there_and_back(world):
        shop = world.ledger("shop")
        world.profile("desk", model=chatty_model(trouble=0), tools=[shop.tool("note", "pure", 4.0)])
        world.people(3, "desk", pause=(0.5, 1.0), deeds=("nothing", "prompt"))
        world.faults(())

        async def stand_still():
            for number in range(4):
                await trio.sleep(6)
                world.stop(number % 2, 11.0)
                await trio.sleep(12)

        world.inhabit("operator", stand_still)

    report = run(there_and_back, "back", nodes=2, hours=0.025)
    assert report.broken is None
    returned = Counter(
        line.said for line in report.log.lines if line.kind == "note" and "another owner" in line.said
    )
    assert returned.total() > 3
    assert "request_unknown" not in {one.code for one in facts(report, CallAnswered)}

"""The worlds that come with the simulation, in short lives."""

import re

import pytest
import trio

from agentrail.events import (
    AgentEnd,
    AgentError,
    ApprovalRequired,
    ApprovalResolved,
    PromptQueued,
    PromptReceived,
    SubagentEnd,
)
from agentrail.testing.simulation.byte_network import ByteNetwork
from agentrail.testing.simulation.facts import (
    CallAnswered,
    CallAsked,
    Read,
    ReaderSubscribed,
    SessionStep,
)
from agentrail.testing.simulation.life import run
from agentrail.testing.simulation.network import SimulatedNetwork
from agentrail.testing.simulation.web_people import WIRES
from agentrail.testing.simulation.worlds import (
    GREAT_STORM,
    STORM,
    cluster,
    delegating_tree,
    desk,
    great_storm,
    office,
    protocols,
    storm,
)
from tests.thinned import sample

HOURS = 0.01


def is_prompt(facts):
    return isinstance(facts, Read) and isinstance(facts.event, PromptReceived | PromptQueued)


def lived(scenario, seed=1, hours=HOURS, **options):
    """Live a short life, and return its report and its world."""
    worlds = []

    def within(world):
        worlds.append(world)
        scenario(world)

    report = run(within, seed, nodes=3, hours=hours, **options)
    assert report.broken is None
    return report, worlds[0]


def test_one_life_of_ten_is_over_bytes():
    """The tape draws the network of a cluster. The one of an empty tape carries messages."""
    _, calm = lived(cluster, given={})
    assert type(calm.network) is SimulatedNetwork
    report, over_bytes = lived(cluster, given={"network.bytes#0": 1})
    assert type(over_bytes.network) is ByteNetwork
    assert over_bytes.network.delivered
    assert dict(report.drawn) == {"network.bytes#0": 1}


def test_a_wrong_clock_outlives_a_restart_on_its_computer():
    """The tape draws how wrong the clock of a node is. On another computer, the clock is another one."""
    drawn = {"nodes[0].clock#0": 2, "nodes[1].clock#0": 2, "nodes[1].moves#0": 1}
    seen = []

    def restarting(world):
        cluster(world)

        async def restart():
            for index in (0, 1):
                world.kill(index)
                world.restart(index)
            seen.extend(node.machine.wrong_by_seconds for node in world.nodes)

        world.inhabit("operator", restart)

    lived(restarting, given=drawn)
    assert seen == [60.0, 0.0, 0.0]


def web_lines(report):
    return [line for line in report.log.lines if line.place.startswith("web-")]


def test_people_of_the_world_of_protocols_use_each_wire():
    """A prompt over `/chat`, `/stream` and OpenAI's protocol, whole and in chunks, is accepted and completes, and its events are streamed."""
    drawn = {f"web-{index}.wire[0]#0": index + 1 for index, _ in enumerate(WIRES)}
    report, world = lived(protocols, given=drawn)
    assert type(world.network) is ByteNetwork
    lines = web_lines(report)
    asked = {line.facts.id: line.said for line in lines if isinstance(line.facts, CallAsked)}
    assert sorted(said.partition(" over ")[2] for said in asked.values()) == sorted(WIRES)
    answers = [line.facts for line in lines if isinstance(line.facts, CallAnswered)]
    assert {(one.outcome, one.code) for one in answers} == {("ok", "200")}
    assert len({one.says for one in answers}) == len(WIRES)
    ends = [
        line.place for line in lines if isinstance(line.facts, Read) and type(line.facts.event) is AgentEnd
    ]
    assert sorted(ends) == [f"web-{index}" for index, _ in enumerate(WIRES)]


def test_people_of_the_world_of_protocols_keep_their_names_and_numbers():
    """They repeat a prompt with its name until they know its end, and continue a stream that broke after the number that they have."""

    def broken_streams(world):
        protocols(world)

        async def reset():
            for _ in range(2):
                await trio.sleep(20)
                for place in (node.place for node in world.nodes):
                    for index in range(4):
                        world.network.reset(f"web-{index}", place)

        world.inhabit("weather", reset)

    lines = web_lines(lived(broken_streams, seed=3, hours=0.02)[0])
    keys = [line.facts.key for line in lines if isinstance(line.facts, CallAsked)]
    assert len({*keys}) < len(keys)
    assert any(line.facts.after for line in lines if isinstance(line.facts, ReaderSubscribed))
    accepted = [line.facts.event.content[0].text.split()[0] for line in lines if is_prompt(line.facts)]
    assert sorted({*accepted}) == sorted(accepted) == sorted({*keys})


def test_the_same_seed_of_the_world_of_protocols_is_the_same_life():
    """Hypercorn, httpx and trio-websocket add no chance of their own."""
    assert lived(protocols, seed=3)[0].digest == lived(protocols, seed=3)[0].digest


def test_readers_of_a_storm_connect_at_once_and_miss_nothing():
    """All 200 come back at the same instants with their numbers, and the numbers of each are dense."""
    report, world = lived(storm, seed=2)
    assert type(world.network) is ByteNetwork
    came: dict[str, list[float]] = {}
    numbers: dict[str, list[int]] = {}
    for line in report.log.lines:
        if line.place.startswith("reader-") and isinstance(line.facts, ReaderSubscribed):
            came.setdefault(line.place, []).append(line.at)
        elif line.place.startswith("reader-") and isinstance(line.facts, Read):
            numbers.setdefault(line.place, []).append(line.facts.event.meta.seq)
    assert len(came) == STORM
    for instant in (report.drawn["storm[0].at#0"], report.drawn["storm[1].at#0"]):
        assert all(any(0 <= at - instant < 15 for at in times) for times in came.values())
    assert len(numbers) == STORM
    assert all(one == [*range(1, len(one) + 1)] for one in numbers.values())


@pytest.mark.check
@pytest.mark.parametrize("seed", sample([1, 2], 1))  # ten seconds of a core each
def test_a_great_storm_holds(seed):
    """All promises hold with 1,000 readers."""
    report, _ = lived(great_storm, seed=seed)
    assert len({line.place for line in report.log.lines if line.kind == "read"}) > GREAT_STORM


def published(report, kind):
    return [line.facts for line in report.log.lines if line.kind == "event" and isinstance(line.facts, kind)]


def test_people_of_the_desk_decide_about_calls():
    """Payments and parcels wait for an approval, and are decided, also at two nodes at once."""
    report, _ = lived(desk, seed=4, hours=0.03)
    required, resolved = published(report, ApprovalRequired), published(report, ApprovalResolved)
    assert len(required) > 3
    assert {one.approval.id for one in required} >= {one.approval.id for one in resolved}
    assert (
        len({line.place for line in report.log.lines if getattr(line.facts, "request", "") == "approve"}) > 1
    )


def test_sessions_of_the_tree_delegate_and_reach_their_budget():
    """Agents work in sessions of their own, and requests beyond the budget of the whole tree are refused."""
    report, _ = lived(delegating_tree, seed=2, hours=0.03)
    assert published(report, SubagentEnd)
    assert any(event.error.code == "budget_exceeded" for event in published(report, AgentError))


@pytest.mark.check
def test_sessions_of_the_office_use_what_the_shop_leaves_out():
    """Agents in the background, context, a plugin of the host, and tools that report, ask and answer early. The operator's decisions are judged."""
    report, _ = lived(office, seed=11, hours=0.05)
    steps = [line.facts for line in report.log.lines if isinstance(line.facts, SessionStep)]
    effects = {type(effect).__name__ for step in steps for effect in step.effects}
    assert effects >= {"AskHost", "TellHost", "GatherContext", "StartAgent", "CloseAgent"}
    signals = {type(step.signal).__name__ for step in steps}
    assert signals >= {
        "ToolProgressed",
        "ToolAsked",
        "ToolAnsweredEarly",
        "AnswerCall",
        "Respond",
        "AbortTool",
        "ToolEmitted",
        "ToolWantsChild",
    }
    asked = [
        line for line in report.log.lines if line.place == "operator" and isinstance(line.facts, CallAsked)
    ]
    assert asked
    deeds = {line.said for line in report.log.lines if re.match(r"[a-z ]+ in s\d+: ", line.said)}
    assert {deed.partition(" in ")[0] for deed in deeds if deed.endswith(": done")} >= {
        *("answer", "allow", "attach tools", "change a plugin", "change options", "revoke", "switch"),
    }

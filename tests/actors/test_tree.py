"""The tree of a supervisor as data, and as text."""

import pytest
import trio

from agentrail.actors.actor import subtree, worker
from agentrail.actors.supervisor import TreeNode, open_supervisor, render_tree
from agentrail.actors.tree import TreePart
from agentrail.errors import ActorDown
from agentrail.otp.child_specs import Backoff, ChildSpec
from agentrail.otp.exits import NoProcess
from agentrail.otp.statem import Keep
from agentrail.testing.held import held
from tests.actors.rig import Tabled, on_virtual_time, settled, statuses


def _ids(node):
    return [child.id for child in node.children]


@on_virtual_time
async def test_a_part_of_a_root_reads_its_own_children_alone(stage):
    """In start order, from a number on; what is left out is not even looked at."""
    async with stage.open(children=[stage.W(name) for name in "abcdef"]) as supervisor:
        whole = await supervisor.tree()
        asked: list[object] = []

        def wanted(name: object) -> bool:
            asked.append(name)
            return name != "c"

        numbers = [int(child.key.rpartition(".")[2]) for child in whole.children]
        first = await supervisor.tree(TreePart(wanted=wanted, limit=2))
        rest = await supervisor.tree(TreePart(wanted=wanted, after=numbers[1], limit=2))
    assert (_ids(first), _ids(rest)) == (["a", "b"], ["d", "e"])
    assert asked == [*"ab", *"cde"]


async def _disobedient(task_status):
    task_status.started()
    with trio.CancelScope(shield=True):  # noqa: ASYNC101 - this is what nobody may do
        await trio.sleep(100)


@on_virtual_time
async def test_nested_subtrees(stage):
    """One call returns all levels, each in start order, with the uptime of each node on Trio's clock."""
    lower = subtree(stage.flags(), [stage.W("d"), stage.W("c")])
    upper = subtree(stage.flags(), [ChildSpec("lower", lower), stage.W("b")])
    stage.plans["b"].append(2.0)
    async with stage.open(children=[stage.W("z"), ChildSpec("upper", upper), stage.W("a")]) as supervisor:
        await trio.sleep(5)
        root = await supervisor.tree()
    assert (root.kind, root.status, root.incarnation, root.uptime_seconds) == (
        "supervisor",
        "running",
        1,
        5.0,
    )
    assert _ids(root) == ["z", "upper", "a"]
    z, middle, _ = root.children
    assert z == TreeNode(
        id="z",
        kind="worker",
        status="running",
        incarnation=1,
        restarts=0,
        uptime_seconds=7.0,
        mailbox=None,
    )
    assert (middle.kind, middle.uptime_seconds, middle.mailbox, _ids(middle)) == (
        "supervisor",
        5.0,
        0,
        ["lower", "b"],
    )
    assert _ids(middle.children[0]) == ["d", "c"]
    assert [child.uptime_seconds for child in middle.children] == [7.0, 5.0]


@on_virtual_time
async def test_tree_of_a_subtree_is_the_part_of_the_tree_above(stage):
    """Asked itself, a subtree says of itself what its parent says of it, its restarts included."""
    low = ChildSpec("low", subtree(stage.flags(), [stage.W("a")]))
    async with stage.open(children=[low]) as supervisor:
        supervisor.handle("low").kill()
        await settled()
        await trio.sleep(3)
        root = await supervisor.tree()
        assert root.children == (await supervisor.handle("low").tree(),)
    (node,) = root.children
    assert (node.incarnation, node.restarts, node.uptime_seconds) == (2, 1, 3.0)


@on_virtual_time
async def test_restarting_child(stage):
    """Failed attempts count as restarts and make no incarnation; while none is up there is no uptime."""
    flags = {"intensity": 10, "backoff": Backoff(initial_seconds=4.0, jitter=0.0)}
    async with stage.open(children=[stage.Looping("a")], **flags) as supervisor:
        stage.crash("a")
        await trio.sleep(6)
        (child,) = (await supervisor.tree()).children
    assert (child.status, child.incarnation, child.restarts) == ("restarting", 1, 2)
    assert (child.uptime_seconds, child.mailbox, child.children) == (None, None, ())


@on_virtual_time
async def test_uptime_begins_again_with_each_instance(stage):
    """After a restart the uptime is that of the new instance."""
    async with stage.open(children=[stage.W("a")]) as supervisor:
        await trio.sleep(10)
        stage.crash("a")
        await settled()
        await trio.sleep(2)
        root = await supervisor.tree()
    (child,) = root.children
    assert (child.incarnation, child.restarts, child.uptime_seconds) == (2, 1, 2.0)
    assert root.uptime_seconds == 12.0


@on_virtual_time
async def test_restart_for_a_sibling_is_not_its_own(stage):
    """Of a group that came back only the child that crashed has a restart; the others a further incarnation."""
    async with stage.open("one_for_all", children=[stage.W("a"), stage.W("b")]) as supervisor:
        stage.crash("b")
        await settled()
        children = (await supervisor.tree()).children
    assert [(child.incarnation, child.restarts) for child in children] == [(2, 0), (2, 1)]


@on_virtual_time
async def test_stopped_children(stage):
    """A child without a process keeps its place; of a stopped subtree nothing is left below it."""
    low = ChildSpec("low", subtree(stage.flags(), [stage.W("x")]))
    async with stage.open(children=[stage.W("a"), low, stage.W("b")]) as supervisor:
        await supervisor.terminate_child("a")
        await supervisor.terminate_child("low")
        root = await supervisor.tree()
    assert statuses(root.children) == {"a": "stopped", "low": "stopped", "b": "running"}
    assert [(child.uptime_seconds, child.children) for child in root.children[:2]] == [(None, ()), (None, ())]


@on_virtual_time
async def test_stuck_child(stage):
    """It is `stuck` on each level, its uptime goes on, and a supervisor that waits for it alone answers still."""
    low = subtree(stage.flags(), [ChildSpec("leaf", worker(_disobedient), shutdown_seconds=2.0)])
    async with stage.open(children=[ChildSpec("low", low)]) as supervisor:
        await supervisor.terminate_child("low")
        (node,) = (await supervisor.tree()).children
        (leaf,) = node.children
        assert [(one.status, one.uptime_seconds) for one in (node, leaf)] == [("stuck", 3.0), ("stuck", 3.0)]
        summary = await supervisor.stop()
        root = await supervisor.tree()
    assert (summary.stuck, root.status) == (1, "stuck")
    assert root.children[0].children == (leaf,)


@on_virtual_time
async def test_while_it_starts(stage):
    """A supervisor that starts answers: who is up, who starts, and who waits for its turn; it has no uptime yet."""
    stage.plans["b"].append(10.0)
    low = ChildSpec("low", subtree(stage.flags(), [stage.W("b")]))

    async def open_it():
        async with stage.open(children=[stage.W("a"), low, stage.W("c")]):
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(open_it)
        await trio.sleep(4)
        supervisor = stage.instances["a"][0].context.supervisor
        root = await supervisor.tree()
        inner = await stage.instances["b"][0].context.supervisor.tree()
        nursery.cancel_scope.cancel()
    assert (root.status, root.uptime_seconds) == ("starting", None)
    assert statuses(root.children) == {"a": "running", "low": "starting", "c": "stopped"}
    assert [child.uptime_seconds for child in root.children] == [4.0, None, None]
    assert root.children[1] == inner
    assert statuses(inner.children) == {"b": "starting"}


@on_virtual_time
async def test_while_it_stops(stage):
    """A supervisor that stops answers: children go in reverse order, and the one that cleans up is up until it ends."""
    stage.cleanups["b"] = 3.0
    children = [stage.W("a"), stage.W("b"), stage.W("c")]
    async with stage.open(children=children) as supervisor, trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.stop)
        await trio.sleep(1)
        root = await supervisor.tree()
    assert (root.status, root.uptime_seconds) == ("stopping", 1.0)
    assert statuses(root.children) == {"a": "running", "b": "stopping", "c": "stopped"}
    assert [child.uptime_seconds for child in root.children] == [1.0, 1.0, None]


@on_virtual_time
async def test_dynamic_supervisor(stage):
    """Its instances stand in the order of their starts, with the label of the template; who ended is not among them."""
    async with stage.open("dynamic", [stage.W("a", restart="temporary")]) as supervisor:
        handles = [(await supervisor.start_instance(number)).handle for number in range(3)]
        await trio.sleep(1)
        await supervisor.start_instance(3)
        await supervisor.terminate_child(handles[1])
        root = await supervisor.tree()
    assert [(child.id, child.uptime_seconds) for child in root.children] == [
        ("a", 1.0),
        ("a", 1.0),
        ("a", 0.0),
    ]


@on_virtual_time
async def test_mailbox(stage):
    """It is the number of messages that wait: 0 of an idle machine, and none of a worker."""
    idle = Tabled({"s1": Keep()})
    children = [ChildSpec("m", idle.start), stage.W("w")]
    async with stage.open(children=children) as supervisor:
        machine = supervisor.handle("m")
        async with held(machine):
            for number in range(3):
                machine.cast(number)
            full = await supervisor.tree()
        await settled()
        empty = await supervisor.tree()
    assert [child.mailbox for child in full.children] == [3, None]
    assert [child.mailbox for child in empty.children] == [0, None]


@on_virtual_time
async def test_what_was_said_before_the_call_is_in_the_answer(stage):
    """A crash that its supervisor had not read when the call came shows in the tree."""
    seen = []

    async def look(supervisor):
        seen.extend((await supervisor.tree()).children)

    async with stage.open(children=[stage.W("a")], backoff=Backoff(initial_seconds=4.0)) as supervisor:
        async with trio.open_nursery() as nursery, held(supervisor):
            stage.crash("a")
            await settled()
            nursery.start_soon(look, supervisor)
            await settled()
            assert seen == []
        assert statuses(seen) == {"a": "restarting"}


@on_virtual_time
async def test_after_the_end(stage):
    """A supervisor that has ended raises `ActorDown` at once."""
    async with stage.open(children=[stage.W("a")]) as supervisor:
        pass
    with pytest.raises(ActorDown) as caught:
        await supervisor.tree()
    assert caught.value.reason == NoProcess()


@on_virtual_time
async def test_ended_while_the_caller_waited(stage):
    """A call that is under way when the supervisor ends gets a tree that was true, or `ActorDown`."""
    heard = []

    async def look(supervisor):
        try:
            heard.append((await supervisor.tree()).status)
        except ActorDown:
            heard.append("down")

    for _ in range(20):
        async with stage.open() as supervisor, trio.open_nursery() as nursery:
            nursery.start_soon(supervisor.stop)
            nursery.start_soon(look, supervisor)
    assert len(heard) == 20
    assert set(heard) <= {"running", "stopping", "down"}


@on_virtual_time
async def test_as_text(stage):
    """`render_tree` writes a line a node, under the one it belongs to; `-` stands for what a node does not have."""
    idle = Tabled({"s1": Keep()})
    low = subtree(stage.flags(), [ChildSpec("m", idle.start), stage.W(("w", 1))])
    children = [
        ChildSpec("low", low),
        stage.W("off"),
        ChildSpec("last", subtree(stage.flags(), [stage.W("x")])),
    ]
    async with open_supervisor(stage.flags(), children) as supervisor:
        await supervisor.terminate_child("off")
        await trio.sleep(3599.5)
        stage.crash("x")
        await settled()
        await trio.sleep(60.25)
        text = render_tree(await supervisor.tree())
    assert text.splitlines() == [
        "'root' supervisor running #1 restarts=0 up=1:00:59 mailbox=0",
        "├── 'low' supervisor running #1 restarts=0 up=1:00:59 mailbox=0",
        "│   ├── 'm' worker running #1 restarts=0 up=1:00:59 mailbox=0",
        "│   └── ('w', 1) worker running #1 restarts=0 up=1:00:59 mailbox=-",
        "├── 'off' worker stopped #1 restarts=0 up=- mailbox=-",
        "└── 'last' supervisor running #1 restarts=0 up=1:00:59 mailbox=0",
        "    └── 'x' worker running #2 restarts=1 up=0:01:00 mailbox=-",
    ]

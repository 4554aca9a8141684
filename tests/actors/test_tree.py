"""The tree of a supervisor as data, and as text."""

import trio

from agentrail.actors import open_supervisor, render_tree, subtree, worker
from agentrail.actors.tree_report import TreePart
from agentrail.errors import ActorDown
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.statem import Keep
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
async def test_stuck_child(stage):
    """It is `stuck` on each level, its uptime goes on, and its id is free when it has ended; a stop does not wait for it."""
    low = subtree(stage.flags(), [ChildSpec("leaf", worker(_disobedient), shutdown_seconds=2.0)])
    async with stage.open(children=[ChildSpec("low", low)]) as supervisor:
        below = supervisor.handle("low")
        await supervisor.terminate_child("low")
        (node,) = (await supervisor.tree()).children
        (leaf,) = node.children
        assert [(one.status, one.uptime_seconds) for one in (node, leaf)] == [("stuck", 3.0), ("stuck", 3.0)]
        await trio.sleep(100)
        assert statuses(await supervisor.which_children()) == {"low": "stopped"}
        assert below.exit_reason is not None

        await supervisor.restart_child("low")
        await supervisor.terminate_child("low")
        ((leaf,),) = [node.children for node in (await supervisor.tree()).children]
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
async def test_children_that_are_counted_apart(stage):
    """One that crashes too often is given up alone: reported, gone from the tree, and the block goes on."""
    async with stage.open("dynamic", [stage.W("template")], intensity=0, intensity_per="child") as supervisor:
        for name in "ab":
            await supervisor.start_child(stage.W(name))
        stage.crash("a")
        await settled()
        assert _ids(await supervisor.tree()) == ["b"]
        assert ("shutdown", "a") in stage.kinds()


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

"""Section L of the conformance scenarios: monitors, links, tasks, partitions, full mailboxes, back-off."""

import pytest
import trio

from agentrail.actors import SELF, Link, Send, Unlink, Unwatch, Watch, machine, open_partitions, worker
from agentrail.actors.actor_handle import ExitSignal, cell_of
from agentrail.actors.dead_letters import dead_letters
from agentrail.actors.monitor import Down, link, monitor, unlink
from agentrail.errors import CallTimeout, MailboxFull, NoPartitions
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import Killed, NoProcess, Normal, Shutdown
from agentrail.otp.statem import Info, Keep, Perform, Reply, Stop
from agentrail.testing.held import held
from tests.actors.rig import Tabled, boom, is_boom, on_virtual_time, settled
from tests.otp.rig import obey


def ears(**options):
    return Tabled({"s1": Keep()}, **options)


def heard(machine, kind=object):
    return [what for _, what in machine.log if isinstance(what, kind)]


def pair(stage, one, two, **spec):
    """Open a supervisor with two machines, 1 and 2."""
    options = {"restart": "temporary", **spec}
    return stage.open(children=[ChildSpec(1, one.start, **options), ChildSpec(2, two.start, **options)])


# --- order


@pytest.mark.scenario("S-187")
@on_virtual_time
async def test_order_per_pair(stage):
    """Each sender's messages arrive in the order in which they were sent."""
    listener = ears(capacity=10)
    async with stage.play(listener) as handle:

        async def speak(name):
            for number in range(1000):
                await handle.send((name, number))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(speak, "one")
            nursery.start_soon(speak, "two")
        await settled()
    for name in ("one", "two"):
        assert [number for who, number in heard(listener) if who == name] == list(range(1000))


@pytest.mark.scenario("S-188")
@on_virtual_time
async def test_down_comes_last(stage):
    """After all that the dead one had sent."""
    listener = ears()
    speaker = Tabled({"s1": obey})
    async with pair(stage, listener, speaker) as supervisor:
        one, two = supervisor.handle(1), supervisor.handle(2)
        monitor(two, deliver_to=one)
        async with held(one):
            two.cast(Keep(actions=[Perform(Send(one, name)) for name in ("m1", "m2", "m3")]))
            two.cast(Stop())
            await two.wait()
        await settled()
        *messages, down = heard(listener)
        assert messages == ["m1", "m2", "m3"]
        assert (type(down), down.id, down.incarnation, down.reason) == (Down, 2, 1, Normal())


# --- monitors


@pytest.mark.scenario("S-190", "S-191", "S-192")
@on_virtual_time
async def test_monitors(stage):
    """Two give two `Down`, one that was cancelled none; one made with the start is told why a child ended at once."""
    listener = ears()

    async def brief(task_status):
        task_status.started()
        boom("brief")

    async with pair(stage, listener, ears()) as supervisor:
        one, two = supervisor.handle(1), supervisor.handle(2)
        watches = [monitor(two, deliver_to=one) for _ in range(3)]
        async with held(one):
            await two.stop()
            watches[2].cancel()
        await settled()
        downs = heard(listener, Down)
        assert len(downs) == 2
        assert len({down.monitor_id for down in downs}) == 2

        spec = ChildSpec("a", worker(brief), restart="temporary")
        started = await supervisor.start_child(spec, monitor=True)
        assert is_boom((await started.monitor.wait()).reason, "brief")


@on_virtual_time
async def test_watch_and_link_as_effects(stage):
    """A machine asks its shell for them; what was undone is not told, and does not take the machine along."""
    watcher, undoing = Tabled({"s1": obey}), Tabled({"s1": obey})
    async with pair(stage, watcher, Tabled({"s1": obey})) as supervisor, stage.play(undoing) as third:
        one, two = supervisor.handle(1), supervisor.handle(2)
        one.cast(Keep(actions=[Perform(Watch(two))]))
        two.cast(Keep(actions=[Perform(Link(one))]))
        undone = [Watch(two), Link(two), Unwatch(two), Unlink(two), Send(SELF, "to myself")]
        third.cast(Keep(actions=[Perform(effect) for effect in undone]))
        await settled()
        two.cast(Stop(Shutdown("x")))
        assert await one.wait() == Shutdown("x")
        await settled()
        assert third.exit_reason is None
        assert heard(undoing, Down) == []
        assert undoing.log[-1] == ("s1", "to myself")


# --- links


@on_virtual_time
async def test_who_watches_many_keeps_none_that_has_ended(stage):
    """A long-lived watcher lets go of each monitor when its `Down` is handled, or taken back."""
    watcher = Tabled({"s1": lambda event: Keep() if isinstance(event, Info) else obey(event)})
    async with stage.open("dynamic", [stage.W("w", restart="temporary")]) as supervisor:
        handle = (await supervisor.start_child(ChildSpec("m", watcher.start))).handle
        cell = cell_of(handle)
        for number in range(20):
            other = (await supervisor.start_instance()).handle
            handle.cast(Keep(actions=[Perform(Watch(other)), Perform(Watch(other))]))
            await settled()
            if number % 2:
                handle.cast(Keep(actions=[Perform(Unwatch(other))]))
                await settled()
            other.kill()
            await settled()
        assert len(heard(watcher, Down)) == 20
        assert cell.loop._monitors == {}  # noqa: SLF001
        assert not cell._releases  # noqa: SLF001


@pytest.mark.scenario("S-193", "S-194")
@pytest.mark.parametrize("way", ["crash", "kill"])
@pytest.mark.parametrize("trap_exits", [False, True])
@on_virtual_time
async def test_links(stage, way, trap_exits):
    """A crash, or a kill, ends the other with the same reason; who traps exits is told, and lives."""
    other = ears(trap_exits=trap_exits)
    async with pair(stage, Tabled({"s1": obey}), other) as supervisor:
        one, two = supervisor.handle(1), supervisor.handle(2)
        link(one, two)
        if way == "crash":
            one.cast(3)
        else:
            one.kill()
        reason = await one.wait()
        assert (reason == Killed()) == (way == "kill")
        await settled()
        if trap_exits:
            assert two.exit_reason is None
            assert [(told.sender, told.reason) for told in heard(other, ExitSignal)] == [(one, reason)]
        else:
            assert two.exit_reason == reason


@pytest.mark.scenario("S-193", "S-195")
@on_virtual_time
async def test_ends_that_do_not_reach_the_other(stage):
    """A normal end; and a crash after the two were linked twice and unlinked once."""
    async with pair(stage, ears(), ears()) as supervisor:
        one, two = supervisor.handle(1), supervisor.handle(2)
        link(one, two)
        await one.stop()
        await settled()
        assert two.exit_reason is None
    async with pair(stage, Tabled({"s1": obey}), ears()) as supervisor:
        one, two = supervisor.handle(1), supervisor.handle(2)
        link(one, two)
        link(two, one)
        unlink(one, two)
        one.cast(3)
        await one.wait()
        await settled()
        assert two.exit_reason is None


@on_virtual_time
async def test_link_to_a_dead_actor(stage):
    """It gives an exit signal `NoProcess()`: who traps exits is told, and for another it is an abnormal end."""
    trapping = ears(trap_exits=True)
    async with pair(stage, ears(), trapping) as supervisor, stage.play(ears()) as dead:
        one, two = supervisor.handle(1), supervisor.handle(2)
        await dead.stop()
        link(dead, one)
        link(two, dead)
        assert (await one.wait()).type == "NoProcess"
        await settled()
        assert [told.reason for told in heard(trapping, ExitSignal)] == [NoProcess()]
        assert two.exit_reason is None


# --- partitions, tasks


@pytest.mark.scenario("S-204")
@on_virtual_time
async def test_partitions():
    """One key, one partition; fewer after a smaller `resize`; none at 0; what was resized away comes back."""
    made = machine(lambda: Tabled({"s1": lambda event: Keep(actions=[Reply(event.to, None)])}))
    async with open_partitions(made, 4) as partitions:
        keys = [*range(-8, 8), "text", "more", b"bytes"]
        first = {key: partitions.handle_for(key) for key in keys}
        assert first == {key: partitions.handle_for(key) for key in keys}
        assert first[5] is first[-5] is first[1]
        assert partitions.handle_for(b"text") is first["text"]
        partitions.handle_for("a file that is not UTF-8: \udcff")
        assert len(set(first.values())) == 4
        with pytest.raises(TypeError, match="got tuple"):
            partitions.handle_for(("text",))
        await partitions.resize(2)
        assert len({partitions.handle_for(key) for key in keys}) == 2
        assert partitions.handle_for(3) is partitions.handle_for(1)
        await partitions.resize(0)
        with pytest.raises(NoPartitions):
            partitions.handle_for("text")
        await partitions.resize(3)
        assert (await partitions.supervisor.count_children()).active == 3
        assert len({partitions.handle_for(key) for key in range(3)}) == 3


@on_virtual_time
async def test_resizes_that_overlap():
    """One after the other: every key has a running copy, and none is started twice."""
    async with open_partitions(trio.sleep_forever, 4) as partitions:
        for counts in [(0, 4, 4), (1, 4)] * 8:  # the order of the tasks in one turn is random
            async with trio.open_nursery() as nursery:
                for count in counts:
                    nursery.start_soon(partitions.resize, count)
                    await trio.lowlevel.checkpoint()
            assert [partitions.handle_for(key).id for key in range(4)] == [0, 1, 2, 3]


@pytest.mark.scenario("S-205", "S-207")
@on_virtual_time
async def test_task_result_then_down(stage):
    """The actor that a task reports to gets the value, and then `Down`; a result that was given up arrives nowhere."""
    listener = ears()

    async def work(value, seconds):
        await trio.sleep(seconds)
        return value

    async with stage.play(listener) as handle, stage.open("dynamic", [stage.W("t")]) as tasks:
        await tasks.start_task(work, 42, 1, report_to=handle)
        await trio.sleep(2)
        result, down = heard(listener)
        assert (type(result).__name__, result.value) == ("TaskResult", 42)
        assert (type(down), down.reason) == (Down, Normal())

        task = await tasks.start_task(work, "late", 10, report_to=handle)
        with pytest.raises(CallTimeout):
            await task.result(timeout_seconds=5.0)
        await trio.sleep(10)
        assert "late" not in [getattr(told, "value", None) for told in heard(listener)]


@pytest.mark.scenario("S-206")
@pytest.mark.parametrize("linked", [True, False])
@on_virtual_time
async def test_linked_and_unlinked_tasks(stage, linked):
    """A crash of a linked task takes its actor along; of another, nobody."""

    async def work():
        await trio.sleep(1)
        boom("task")

    async with stage.play(ears()) as handle, stage.open("dynamic", [stage.W("t")]) as tasks:
        await tasks.start_task(work, linked_to=handle if linked else None)
        await trio.sleep(2)
        assert is_boom(handle.exit_reason, "task") if linked else handle.exit_reason is None
        assert tasks.exit_reason is None


# --- mailboxes


@pytest.mark.scenario("S-209")
@pytest.mark.parametrize("overflow", ["reject", "drop_oldest", "dead_letter", "block"])
@on_virtual_time
async def test_full_mailbox(stage, overflow):
    """Each policy shows its effect and is counted; control messages and notices are accepted all the same."""
    listener = ears(capacity=2, overflow=overflow)
    async with pair(stage, listener, ears()) as supervisor:
        one, two = supervisor.handle(1), supervisor.handle(2)
        monitor(two, deliver_to=one)
        before = dead_letters().count
        async with held(one):
            await settled()
            one.cast("m1")
            one.cast("m2")
            if overflow in {"reject", "block"}:
                with pytest.raises(MailboxFull):
                    one.cast("m3")
                assert one.statistics().rejected == 1
            else:
                one.cast("m3")
                assert one.statistics().dropped == 1
                assert dead_letters().count == before + 1
            await two.stop()
        await settled()
        *messages, down = heard(listener)
        assert messages == (["m2", "m3"] if overflow == "drop_oldest" else ["m1", "m2"])
        assert isinstance(down, Down)


@pytest.mark.scenario("S-209")
@on_virtual_time
async def test_dropped_call_raises_at_its_caller(stage):
    """The oldest one made room for a new message."""
    async with stage.play(ears(capacity=1, overflow="drop_oldest")) as handle, trio.open_nursery() as nursery:

        async def ask():
            with pytest.raises(MailboxFull):
                await handle.call("old")

        async with held(handle):
            await settled()
            nursery.start_soon(ask)
            await settled()
            handle.cast("new")
            await settled()


@pytest.mark.scenario("S-211")
@on_virtual_time
async def test_dead_letters(stage, caplog):
    """Casts to a dead actor raise nothing, are counted by type, and logged at the 1st, 10th and 100th."""
    async with stage.play(ears()) as handle:
        await handle.stop()
        assert dead_letters().count == 0
        caplog.clear()
        logged_at = []
        for number in range(1, 121):
            handle.cast("hunter2")
            if len(caplog.records) > len(logged_at):
                logged_at.append(number)
        assert dead_letters().by_type == {"str": 120}
        assert logged_at == [1, 10, 100]
        assert {record.levelname for record in caplog.records} == {"WARNING"}
        assert "hunter2" not in caplog.text


# --- back-off

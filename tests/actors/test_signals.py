"""Section L of the conformance scenarios: monitors, links, tasks, partitions, full mailboxes, back-off."""

import pytest
import trio

from agentrail.actors import Link, Send, Unwatch, Watch, machine, open_partitions, worker
from agentrail.actors.actor_handle import cell_of
from agentrail.actors.mailbox import dead_letters
from agentrail.actors.monitor import Down, ExitSignal, link, monitor, unlink
from agentrail.errors import ActorDown, CallTimeout, MailboxFull, NoPartitions
from agentrail.otp.child_specs import Backoff, ChildSpec
from agentrail.otp.exits import Killed, NoProcess, Normal, Shutdown
from agentrail.otp.statem import Call, Info, Keep, Perform, Reply, Stop
from agentrail.testing.held import held
from tests.actors.rig import Tabled, boom, is_boom, on_virtual_time, settled, statuses
from tests.otp.rig import obey, said


def ears(**options):
    """Make a machine that only listens."""
    return Tabled({"s1": Keep()}, **options)


def heard(machine, kind=object):
    """Return what it heard, of one class."""
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


@pytest.mark.scenario("S-190")
@on_virtual_time
async def test_two_monitors(stage):
    """Two `Down`, with two ids."""
    listener = ears()
    async with pair(stage, listener, ears()) as supervisor:
        one, two = supervisor.handle(1), supervisor.handle(2)
        for _ in range(2):
            monitor(two, deliver_to=one)
        await two.stop()
        await settled()
        downs = heard(listener, Down)
        assert len(downs) == 2
        assert len({down.monitor_id for down in downs}) == 2


@pytest.mark.scenario("S-191")
@on_virtual_time
async def test_cancelled_monitor(stage):
    """Its `Down` lies unread in the mailbox, and is not delivered any more."""
    listener = ears()
    async with pair(stage, listener, ears()) as supervisor:
        one, two = supervisor.handle(1), supervisor.handle(2)
        watch = monitor(two, deliver_to=one)
        async with held(one):
            await two.stop()
            watch.cancel()
        await settled()
        assert heard(listener, Down) == []


@pytest.mark.scenario("S-192")
@on_virtual_time
async def test_start_and_monitor_in_one(stage):
    """Of a child that ends at once the real reason is told, and exactly once."""

    async def brief(task_status):
        task_status.started()
        boom("brief")

    async with stage.open() as supervisor:
        started = await supervisor.start_child(
            ChildSpec("a", worker(brief), restart="temporary"), monitor=True
        )
        down = await started.monitor.wait()
        assert is_boom(down.reason, "brief")


@on_virtual_time
async def test_watch_and_link_as_effects(stage):
    """A machine asks its shell for them."""
    watcher = Tabled({"s1": lambda event: said(event) if isinstance(said(event), Keep) else Keep()})
    async with pair(stage, watcher, Tabled({"s1": obey})) as supervisor:
        one, two = supervisor.handle(1), supervisor.handle(2)
        one.cast(Keep(actions=[Perform(Watch(two))]))
        two.cast(Keep(actions=[Perform(Link(one))]))
        await settled()
        two.cast(Stop(Shutdown("x")))
        assert await one.wait() == Shutdown("x")


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


@pytest.mark.scenario("S-193")
@pytest.mark.parametrize("trap_exits", [False, True])
@on_virtual_time
async def test_links(stage, trap_exits):
    """A crash ends the other with the same reason; who traps exits is told, and lives."""
    other = ears(trap_exits=trap_exits)
    async with pair(stage, Tabled({"s1": obey}), other) as supervisor:
        one, two = supervisor.handle(1), supervisor.handle(2)
        link(one, two)
        one.cast(3)
        reason = await one.wait()
        await settled()
        if trap_exits:
            assert two.exit_reason is None
            assert [(told.sender, told.reason) for told in heard(other, ExitSignal)] == [(one, reason)]
        else:
            assert two.exit_reason == reason


@pytest.mark.scenario("S-193")
@on_virtual_time
async def test_normal_end_does_not_reach_the_other(stage):
    """Only an end with another reason travels along a link."""
    async with pair(stage, ears(), ears()) as supervisor:
        one, two = supervisor.handle(1), supervisor.handle(2)
        link(one, two)
        await one.stop()
        await settled()
        assert two.exit_reason is None


@pytest.mark.scenario("S-194")
@pytest.mark.parametrize("trap_exits", [False, True])
@on_virtual_time
async def test_kill_propagates_as_killed(stage, trap_exits):
    """The other one gets the reason `Killed`, and if it traps exits it lives."""
    other = ears(trap_exits=trap_exits)
    async with pair(stage, ears(), other) as supervisor:
        one, two = supervisor.handle(1), supervisor.handle(2)
        link(one, two)
        one.kill()
        assert await one.wait() == Killed()
        await settled()
        if trap_exits:
            assert two.exit_reason is None
            assert [told.reason for told in heard(other, ExitSignal)] == [Killed()]
        else:
            assert two.exit_reason == Killed()


@pytest.mark.scenario("S-195")
@on_virtual_time
async def test_link_is_single(stage):
    """Linked twice and unlinked once: a crash of one does not reach the other."""
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
        link(one, dead)
        link(two, dead)
        assert (await one.wait()).type == "NoProcess"
        await settled()
        assert [told.reason for told in heard(trapping, ExitSignal)] == [NoProcess()]
        assert two.exit_reason is None


# --- partitions, tasks


@pytest.mark.scenario("S-204")
@on_virtual_time
async def test_partitions():
    """One key, one partition; fewer after a smaller `resize`; none at 0; never more than at first."""
    made = machine(lambda: Tabled({"s1": lambda event: Keep(actions=[Reply(event.to, None)])}))
    async with open_partitions(made, 4) as partitions:
        keys = [*range(-8, 8), "text", "more", b"bytes"]
        first = {key: partitions.handle_for(key) for key in keys}
        assert first == {key: partitions.handle_for(key) for key in keys}
        assert first[5] is first[-5] is first[1]
        assert len(set(first.values())) == 4
        await partitions.resize(2)
        assert len({partitions.handle_for(key) for key in keys}) == 2
        assert partitions.handle_for(3) is partitions.handle_for(1)
        await partitions.resize(0)
        with pytest.raises(NoPartitions):
            partitions.handle_for("text")


@pytest.mark.scenario("S-205")
@on_virtual_time
async def test_task_result_then_down(stage):
    """The actor that a task reports to gets the value, and then `Down` with `Normal()`."""
    listener = ears()
    async with stage.play(listener) as handle, stage.open("dynamic", [stage.W("t")]) as tasks:

        async def work(value):
            await trio.sleep(1)
            return value

        await tasks.start_task(work, 42, report_to=handle)
        await trio.sleep(2)
        result, down = heard(listener)
        assert (type(result).__name__, result.value) == ("TaskResult", 42)
        assert (type(down), down.reason) == (Down, Normal())


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


@pytest.mark.scenario("S-207")
@on_virtual_time
async def test_timeout_of_a_task_result(stage):
    """However late the task ends, its result arrives nowhere."""
    listener = ears()

    async def work():
        await trio.sleep(10)
        return "late"

    async with stage.play(listener) as handle, stage.open("dynamic", [stage.W("t")]) as tasks:
        task = await tasks.start_task(work, report_to=handle)
        with pytest.raises(CallTimeout):
            await task.result(timeout_seconds=5.0)
        await trio.sleep(10)
        assert "late" not in [getattr(told, "value", None) for told in heard(listener)]


@pytest.mark.scenario("S-208")
@on_virtual_time
async def test_shutdown_of_a_task_that_has_answered(stage):
    """It gives the value."""

    async def work():
        return "value"

    async with stage.open("dynamic", [stage.W("t")]) as tasks:
        task = await tasks.start_task(work)
        await settled()
        assert await task.shutdown() == "value"


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
async def test_block_waits_for_room(stage):
    """`send` goes on when there is some."""
    listener = ears(capacity=1, overflow="block")
    async with stage.play(listener) as handle, trio.open_nursery() as nursery:
        async with held(handle):
            await settled()
            handle.cast("m1")
            nursery.start_soon(handle.send, "m2")
            await settled()
            assert handle.statistics().rejected == 0
        await settled()
        assert heard(listener) == ["m1", "m2"]


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
    """Casts to a dead actor raise nothing, are counted, and logged at the 1st, 10th and 100th."""
    async with stage.play(ears()) as handle:
        await handle.stop()
        assert dead_letters().count == 0
        caplog.clear()
        logged_at = []
        for number in range(1, 121):
            handle.cast("hunter2")
            if len(caplog.records) > len(logged_at):
                logged_at.append(number)
        assert dead_letters().count == 120
        assert logged_at == [1, 10, 100]
        assert "hunter2" not in caplog.text


# --- back-off


@pytest.mark.scenario("S-213")
@on_virtual_time
async def test_back_off(stage):
    """1, 2, 4, 8, 8 s; after it ran for the reset time 1 s again."""
    backoff = Backoff(1.0, 8.0, 2.0, 0.0, reset_after_seconds=50.0)
    async with stage.open(children=[stage.W("a")], intensity=1000, backoff=backoff) as supervisor:
        waits = []
        for run_seconds in (0, 0, 0, 0, 0, 100):
            await trio.sleep(run_seconds)
            crashed_at = trio.current_time()
            stage.crash("a")
            await settled()
            assert statuses(await supervisor.which_children()) == {"a": "restarting"}
            await trio.sleep(9)
            waits.append(stage.instances["a"][-1].began_at - crashed_at)
        assert waits == [1.0, 2.0, 4.0, 8.0, 8.0, 1.0]


@pytest.mark.scenario("S-213")
@on_virtual_time
async def test_jitter_of_the_back_off(stage):
    """A wait is longer by at most the share `jitter`."""
    backoff = Backoff(4.0, 8.0, 2.0, 0.5)
    async with stage.open(children=[stage.W("a")], intensity=1000, backoff=backoff) as supervisor:
        stage.crash("a")
        await trio.sleep(4.0 - 1e-6)
        assert statuses(await supervisor.which_children()) == {"a": "restarting"}
        await trio.sleep(2.0 + 1e-5)
        assert statuses(await supervisor.which_children()) == {"a": "running"}


@pytest.mark.scenario("S-213")
@on_virtual_time
async def test_stop_during_the_wait(stage):
    """It acts at once."""
    backoff = Backoff(10.0, 10.0, 1.0, 0.0)
    async with stage.open(children=[stage.W("a")], backoff=backoff) as supervisor:
        stage.crash("a")
        await settled()
        began = trio.current_time()
        await supervisor.stop()
        assert trio.current_time() == began


@pytest.mark.scenario("S-213")
@on_virtual_time
async def test_messages_to_an_address_during_the_wait(stage):
    """They are held up to its limit and given to the next instance in order; the rest are dead letters."""
    player = Tabled(
        {
            "s1": lambda event: (
                Keep(actions=[Reply(event.to, "yes")]) if isinstance(event, Call) else obey(event)
            )
        }
    )
    backoff = Backoff(10.0, 10.0, 1.0, 0.0)
    async with stage.open(children=[ChildSpec("m", player.start)], backoff=backoff) as supervisor:
        address = supervisor.address("m", hold_limit=3)
        address.cast(3)  # no transition: it crashes
        await settled()
        before = dead_letters().count
        for number in range(5):
            address.cast(f"held {number}")
        assert dead_letters().count == before + 2
        await trio.sleep(11)
        assert [what for _, what in player.log[1:]] == ["held 0", "held 1", "held 2"]
        assert await address.call("there?") == "yes"


@on_virtual_time
async def test_an_address_of_a_child_that_stays_away(stage):
    """Calls raise `ActorDown`, casts become dead letters."""
    async with stage.open(children=[ChildSpec("m", ears().start)]) as supervisor:
        address = supervisor.address("m")
        await supervisor.terminate_child("m")
        with pytest.raises(ActorDown):
            await address.call("there?")
        before = dead_letters().count
        address.cast("there?")
        assert dead_letters().count == before + 1

"""Plugins start all or nothing, do something in the background, and stop in the exact reverse (8.3, 8.4)."""

from contextlib import asynccontextmanager

import pytest
import trio
from hypothesis import given, strategies as st

from agentrail.errors import HookTimeout, SupervisorGaveUp
from agentrail.host.plugin_chain import Hearing, open_hook_runner
from agentrail.host.plugin_life import decide_start_error, open_plugins
from tests.host.rig import CONTEXT, Reports, hang, order, plugin, raising, saying, shielded
from tests.runtime.rig import on_virtual_time


@asynccontextmanager
async def open_life(*plugins, **options):
    async with open_hook_runner(**options) as runner, open_plugins(order(*plugins), runner) as life:
        yield life


def both(name, heard, **members):
    return plugin(name, heard=heard, **{"start": saying(None), "stop": saying(None), **members})


@on_virtual_time
@pytest.mark.host("H-001")
async def test_they_start_by_priority_and_stop_in_the_reverse():
    """The highest first; the block stops them, and a second stop finds nothing to do."""
    heard = []
    async with open_life(*[both(f"p{one}", heard, priority=one) for one in (0, 10, 5)]) as life:
        assert heard == []
        await life.start()
        assert [one.name for one in life.started] == ["p10", "p5", "p0"]
        await life.stop()
        assert life.started == ()
    assert heard[:3] == [(name, "start") for name in ("p10", "p5", "p0")]
    assert heard[3:] == [(name, "stop") for name in ("p0", "p5", "p10")]


@pytest.mark.host("H-002")
@given(st.lists(st.integers(-2, 2), max_size=6))
def test_for_any_priorities_stop_is_the_exact_reverse_of_start(priorities):
    """Ties in the order in which they were given, and back."""
    heard = []

    async def main():
        async with open_life(*[both(f"p{n}", heard, priority=p) for n, p in enumerate(priorities)]) as life:
            await life.start()

    trio.run(main)
    started = [name for name, hook in heard if hook == "start"]
    places = sorted(range(len(priorities)), key=lambda n: (-priorities[n], n))
    assert started == [f"p{n}" for n in places]
    assert [name for name, hook in heard[len(started) :]] == started[::-1]


class Foreign(BaseException):
    """What some library raises that is no `Exception`."""


@on_virtual_time
@pytest.mark.host("H-003")
@pytest.mark.host("H-004")
@pytest.mark.parametrize(
    "error", [ValueError("it is not an SQLite database"), Foreign()], ids=["an error", "no `Exception`"]
)
async def test_a_start_that_fails_is_rolled_back_and_leaves_as_itself(error):
    """It is reported, and not wrapped in a group. Later plugins never start, and a failing stop is only reported."""
    heard, reports = [], Reports()
    plugins = [
        both("zero", heard),
        both("one", heard, stop=raising(OSError("gone"))),
        both("two", heard, start=raising(error)),
        both("three", heard),
    ]
    with pytest.raises(type(error)) as raised:
        async with open_life(*plugins, on_plugin_error=reports.hear) as life:
            await life.start()
    assert raised.value is error
    assert heard[:3] == [(name, "start") for name in ("zero", "one", "two")]
    assert heard[3:] == [("one", "stop"), ("zero", "stop")]
    assert reports == [("two", "start", type(error).__name__), ("one", "stop", "OSError")]


@on_virtual_time
async def test_a_cancellation_of_another_day_ends_no_program():
    """No scope would catch it."""
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as old:
            kept = old
    with pytest.raises(RuntimeError, match=r"a plugin did not start: .*Cancelled"):
        async with open_life(plugin("a", start=raising(kept))) as life:
            await life.start()
    error = ExceptionGroup("two", [ValueError(), OSError()])
    assert decide_start_error(error) is error


@on_virtual_time
@pytest.mark.host("H-005")
async def test_a_stop_that_fails_is_reported_and_every_other_plugin_stops():
    """Also one that hangs, and one that shields itself."""
    heard, reports = [], Reports()
    plugins = [
        both("a", heard),
        both("b", heard, stop=raising(ValueError("no"))),
        both("c", heard, stop=hang),
        both("d", heard, stop=shielded(20)),
        both("e", heard),
    ]
    async with open_life(*plugins, on_plugin_error=reports.hear) as life:
        await life.start()
        began = trio.current_time()
        await life.stop()
        assert trio.current_time() - began == 10 + 11
    assert [name for name, hook in heard if hook == "stop"] == ["e", "d", "c", "b", "a"]
    assert reports == [
        ("d", "stop", "HookTimeout"),
        ("c", "stop", "HookTimeout"),
        ("b", "stop", "ValueError"),
    ]


@on_virtual_time
@pytest.mark.host("H-014")
@pytest.mark.parametrize(("timeouts", "seconds"), [({}, 10), ({"start": 60}, 60)])
async def test_a_start_that_hangs_is_cut_at_its_timeout_and_rolled_back(timeouts, seconds):
    """Like a failure."""
    heard, reports = [], Reports()
    plugins = [both("a", heard), both("b", heard, start=hang, timeouts=timeouts), both("c", heard)]
    began = trio.current_time()
    with pytest.raises(HookTimeout) as raised:
        async with open_life(*plugins, on_plugin_error=reports.hear) as life:
            await life.start()
    assert trio.current_time() - began == seconds
    assert (raised.value.plugin, raised.value.hook) == ("b", "start")
    assert heard == [("a", "start"), ("b", "start"), ("a", "stop")]
    assert reports == [("b", "start", "HookTimeout")]


@on_virtual_time
@pytest.mark.parametrize("hook", ["on_request_start", "start", "background"])
async def test_an_interrupt_in_a_hook_stops_plugins_in_order_and_then_ends_the_program(hook):
    """Ctrl-C comes in whatever code runs; it is no failure of a plugin's."""
    heard, reports = [], Reports()
    guilty = both("b", heard, **{hook: raising(KeyboardInterrupt())})

    async def live():
        async with (
            open_hook_runner(on_plugin_error=reports.hear) as runner,
            open_plugins(plugins := order(both("a", heard), guilty), runner) as life,
        ):
            await life.start()
            await runner.run(Hearing("on_request_start", plugins, CONTEXT))
            await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        await live()
    assert reports == []
    assert heard[-1] == ("a", "stop")
    assert (("b", "stop") in heard) is (hook != "start")


class CancelAtStep(trio.abc.Instrument):
    def __init__(self, step, scope):
        self.left, self.scope = step, scope

    def before_task_step(self, task):
        """Count down; still positive at the end means that all is through."""
        self.left -= 1
        if self.left == 0:
            self.scope.cancel(reason="cancel at every step")


async def test_cancelled_at_every_step_each_that_started_is_stopped_once():
    """What a plugin took is given back, none is stopped that did not start, and nothing runs on in the background."""
    held, heard = [], []

    def holding(name):
        async def start():
            await trio.lowlevel.checkpoint()
            with trio.CancelScope(shield=True):  # it does not stop halfway
                held.append(name)
                await trio.lowlevel.checkpoint()

        async def background():
            heard.append(name)
            try:
                await trio.sleep_forever()
            finally:
                heard.remove(name)

        async def stop():
            await trio.lowlevel.checkpoint()
            assert name not in heard
            assert held.pop() == name

        return plugin(name, start=start, background=background, stop=stop)

    reports, step, is_through = Reports(), 0, False
    while not is_through:
        step += 1
        with trio.CancelScope() as scope:
            instrument = CancelAtStep(step, scope)
            trio.lowlevel.add_instrument(instrument)
            try:
                async with open_life(holding("a"), holding("b"), on_plugin_error=reports.hear) as life:
                    await life.start()
                    assert held == ["a", "b"]
            finally:
                trio.lowlevel.remove_instrument(instrument)
        is_through = instrument.left > 0
        assert (held, heard, reports) == ([], [], []), step
    assert step > 30


@on_virtual_time
@pytest.mark.host("H-013")
async def test_a_background_that_crashes_is_started_again_and_given_up_after_the_fourth_crash():
    """Each crash is reported, and so is the end of it; nothing else of the host is touched."""
    heard, failures = [], []
    plugins = [
        both("a", heard, background=raising(ValueError("broken"))),
        both("b", heard, background=hang, on_request_start=saying(None)),
    ]
    async with (
        open_hook_runner(on_plugin_error=lambda *failure: failures.append(failure)) as runner,
        open_plugins(plugins := order(*plugins), runner) as life,
    ):
        await life.start()
        await trio.sleep(1)
        assert life.failed_backgrounds == ("a",)
        assert heard.count(("a", "background")) == 4
        assert [(name, hook, type(error)) for name, hook, error in failures] == [
            *[("a", "background", ValueError)] * 4,
            ("a", "background", SupervisorGaveUp),
        ]
        assert str(failures[-1][2]) == (
            "background of the plugin 'a' crashed more than 3 times within 5 s: it is not started again"
        )
        await runner.run(Hearing("on_request_start", plugins, CONTEXT))
        assert heard[-1] == ("b", "on_request_start")
        assert heard.count(("b", "background")) == 1
        await trio.sleep(100)
        assert heard.count(("a", "background")) == 4
    assert heard[-2:] == [("b", "stop"), ("a", "stop")]


@on_virtual_time
@pytest.mark.host("H-013")
async def test_crashes_that_are_far_apart_are_started_again_for_ever():
    """Three in five seconds are too few. One that does not end delays the stop by its time alone, and is reported."""
    heard, reports = [], Reports()

    async def break_down():
        await trio.sleep(2)
        raise Foreign

    breaks = plugin("a", heard=heard, background=break_down)
    async with open_life(breaks, on_plugin_error=reports.hear) as life:
        await life.start()
        await trio.sleep(21)
        assert life.failed_backgrounds == ()
        assert reports == [("a", "background", "Foreign")] * 10
        assert len(heard) == 11

    heard, reports = [], Reports()
    plugins = (both("a", heard, background=shielded(60)), both("b", heard))
    async with open_life(*plugins, on_plugin_error=reports.hear) as life:
        await life.start()
        await trio.sleep(1)
        began = trio.current_time()
        await life.stop()
        assert trio.current_time() - began == 11
        assert heard[-2:] == [("b", "stop"), ("a", "stop")]
        await trio.sleep(1)  # only the end of the process is behind it
        assert reports == [("a", "background", "HookTimeout")]

"""How hooks are called: within their time, in a task that their caller can leave, one of each chain at a time."""

import logging

import pytest
import trio
import trio.testing

from agentrail.errors import HookTimeout
from agentrail.host.plugin_chain import Hearing, open_hook_runner
from tests.host.rig import CONTEXT, Reports, hang, open_runner, order, plugin, raising, run, saying, shielded
from tests.runtime.rig import on_virtual_time


def hearing(*plugins, hook="on_request_start"):
    return Hearing(hook, order(*plugins), CONTEXT)


@on_virtual_time
@pytest.mark.host("H-007")
@pytest.mark.host("H-015")
async def test_a_hook_that_raises_is_reported_once_and_the_next_one_runs(caplog):
    """And its caller hears nothing of it. Without a callback one warning names plugin, version, hook, and what it raised."""
    heard, reports = [], Reports()
    chain = (
        plugin("a", version="1.2.0", heard=heard, on_request_start=raising(ValueError("no"))),
        plugin("b", heard=heard, on_request_start=saying(None)),
    )
    await run(hearing(*chain), on_plugin_error=reports.hear)
    assert heard == [("a", "on_request_start"), ("b", "on_request_start")]
    assert reports == [("a", "on_request_start", "ValueError")]
    assert caplog.records == []
    await run(hearing(*chain))
    [record] = [one for one in caplog.records if one.name == "agentrail.host"]
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("host plugin 'a' 1.2.0 failed in on_request_start: ValueError")


@on_virtual_time
@pytest.mark.host("H-017")
@pytest.mark.parametrize(
    ("timeouts", "seconds"), [({}, 10.0), ({"on_request_start": 3}, 3.0), ({"stop": 3}, 10.0)]
)
async def test_a_hook_that_hangs_is_cut_at_its_timeout(timeouts, seconds):
    """Reported as `HookTimeout`; the next plugin runs, and the plugin is called again the next time."""
    heard, reports = [], []
    slow = plugin("slow", heard=heard, timeouts=timeouts, on_request_start=hang)
    chain = hearing(slow, plugin("b", heard=heard, on_request_start=saying(None)))
    began = trio.current_time()
    async with open_runner(on_plugin_error=lambda *failure: reports.append(failure)) as runner:
        await runner.run(chain)
        assert trio.current_time() - began == seconds
        assert heard == [("slow", "on_request_start"), ("b", "on_request_start")]
        [(name, hook, error)] = reports
        assert (name, hook, type(error)) == ("slow", "on_request_start", HookTimeout)
        assert (error.plugin, error.hook, error.seconds) == ("slow", "on_request_start", seconds)
        assert str(error) == f"on_request_start of the plugin 'slow' did not end within {seconds:g} s"
        assert runner.stuck == {}
        await runner.run(hearing(slow))
        assert heard.count(("slow", "on_request_start")) == 2
        assert runner.failures == {"slow": 2}


@on_virtual_time
@pytest.mark.host("H-019")
async def test_a_hook_that_shields_itself_delays_its_caller_by_a_second_more():
    """It is shown as stuck; until it has come back its plugin is not called, and every call counts as a failure."""
    heard, reports = [], Reports()
    slow = plugin(
        "slow", heard=heard, on_request_start=shielded(30), on_request_end=saying(None), stop=saying(None)
    )
    other = plugin("b", heard=heard, on_request_start=saying(None))
    began = trio.current_time()
    async with open_runner(on_plugin_error=reports.hear) as runner:
        await runner.run(hearing(slow, other))
        assert trio.current_time() - began == 11
        assert runner.stuck == {"slow": "on_request_start"}
        assert heard == [("slow", "on_request_start"), ("b", "on_request_start")]
        await runner.run(hearing(slow, other, hook="on_request_end"))
        assert trio.current_time() - began == 11
        assert heard[2:] == []
        assert reports == [
            ("slow", "on_request_start", "HookTimeout"),
            ("slow", "on_request_end", "HookTimeout"),
        ]
        await trio.sleep(20)
        assert runner.stuck == {}
        await runner.run(hearing(slow, hook="on_request_end"))
        assert heard[2:] == [("slow", "on_request_end")]


@on_virtual_time
@pytest.mark.parametrize(
    ("first", "second", "seconds"),
    [
        # Each within its own time, both together beyond that of any: none is left behind.
        ((10.0, 9.0), (10.0, 9.0), 18.0),
        ((10.0, 9.0), (3.0, 2.0), 11.0),
        # The one that comes second has less time than the clock was set for; and then more.
        ((10.0, 0.0), (3.0, 60.0), 4.0),
        ((3.0, 0.0), (10.0, 60.0), 11.0),
        ((10.0, 9.0), (3.0, 60.0), 13.0),
    ],
)
async def test_each_hook_of_a_chain_has_its_own_time(first, second, seconds):
    """Its timeout and a second more, counted from its own beginning, whatever those before it took."""
    heard, reports = [], Reports()
    slow = [
        plugin(name, timeouts={"on_request_start": timeout}, on_request_start=shielded(takes))
        for name, (timeout, takes) in (("a", first), ("b", second))
    ]
    async with open_runner(on_plugin_error=reports.hear) as runner:
        began = trio.current_time()
        await runner.run(hearing(*slow, plugin("c", heard=heard, on_request_start=saying(None))))
        assert trio.current_time() - began == seconds
        is_late = second[1] > second[0]
        assert reports == ([("b", "on_request_start", "HookTimeout")] if is_late else [])
        assert heard == [("c", "on_request_start")]


class OfTheAuthor(BaseException):
    """No `Exception`."""


@on_virtual_time
@pytest.mark.host("H-008")
async def test_an_async_callback_is_waited_for_and_left_behind_if_it_does_not_come_back(caplog):
    """Failure, handler finished, next plugin, which is not stuck for it; so it is with a failure that no call has seen."""
    heard = []

    async def told(name, _hook, _error):
        heard.append("told")
        await trio.sleep(5)
        heard.append("done")

    chain = hearing(
        plugin("a", heard=heard, on_request_start=raising(ValueError("no"))),
        plugin("b", heard=heard, on_request_start=saying(None)),
    )
    await run(chain, on_plugin_error=told)
    assert heard == [("a", "on_request_start"), "told", "done", ("b", "on_request_start")]

    heard = []
    chain = hearing(
        plugin("a", heard=heard, on_request_start=raising(ValueError("no"))),
        plugin("b", heard=heard, on_request_start=saying(None)),
    )
    async with open_runner(on_plugin_error=shielded(50)) as runner:
        began = trio.current_time()
        await runner.run(chain)
        assert trio.current_time() - began == 11
        assert runner.stuck == {}
        assert heard == [("a", "on_request_start"), ("b", "on_request_start")]
        assert "on_plugin_error did not return; it was called for 'a'" in caplog.text
        await trio.sleep(60)
        assert heard == [("a", "on_request_start"), ("b", "on_request_start")]
    began = trio.current_time()
    async with open_runner(on_plugin_error=shielded(60), hook_seconds=3) as runner:
        await runner.report(plugin("a"), "background", ValueError())
        assert trio.current_time() - began == 4


@on_virtual_time
@pytest.mark.host("H-009")
@pytest.mark.parametrize(
    ("told", "said"),
    [
        (raising(KeyError("gone")), "KeyError"),
        (lambda *_: 1 / 0, "ZeroDivisionError"),
        (hang, "it took longer than 10 s"),
        (raising(OfTheAuthor("x")), "OfTheAuthor"),
    ],
    ids=["raises", "raises at once", "hangs", "raises what is no exception"],
)
async def test_a_callback_that_fails_is_logged_with_what_it_was_told_of(told, said, caplog):
    """Nothing else changes."""
    heard = []
    chain = hearing(
        plugin("a", on_request_start=raising(ValueError("no"))),
        plugin("b", heard=heard, on_request_start=saying(None)),
    )
    await run(chain, on_plugin_error=told)
    first, second = [one.getMessage() for one in caplog.records if one.name == "agentrail.host"]
    assert first.startswith("host plugin 'a' failed in on_request_start: ValueError")
    assert second.startswith("on_plugin_error itself failed:")
    assert said in second
    assert heard == [("b", "on_request_start")]


@on_virtual_time
async def test_leaving_the_block_cancels_all_hooks():
    """A hook that was left behind too."""
    gone = trio.Event()

    async def wait(_ctx):
        try:
            await trio.sleep_forever()
        finally:
            gone.set()

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        async with open_hook_runner() as runner:
            nursery.start_soon(runner.run, hearing(plugin("a", on_request_start=wait)))
            await trio.testing.wait_all_tasks_blocked()
        assert gone.is_set()
    assert trio.current_time() == began


@on_virtual_time
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
async def test_what_is_meant_for_the_process_ends_the_body_first(error):
    """As itself, and behind what the body does under a shield; other hooks are not cut."""
    heard = []
    quick = hearing(plugin("b", heard=heard, on_request_end=saying(None)), hook="on_request_end")

    async def live():
        async with open_hook_runner() as runner:
            try:
                await runner.run(hearing(plugin("a", on_request_start=raising(error))))
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await runner.run(quick)

    with pytest.raises(type(error)) as raised:
        await live()
    assert raised.value is error
    assert heard == [("b", "on_request_end")]
    if isinstance(error, KeyboardInterrupt):  # where no body can be ended, the nursery of the hooks is
        with pytest.raises(BaseExceptionGroup) as caught:
            await run(hearing(plugin("a", on_request_start=raising(error))))
        assert caught.group_contains(KeyboardInterrupt)

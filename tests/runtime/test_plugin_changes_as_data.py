"""A change of plugins while a session runs: its signal is data, and its code is found when the change is taken."""

from typing import Any

import pytest
import trio

from agentrail import plugins as p
from agentrail.core.protocol.signals import ChangePlugins
from agentrail.errors import PluginError
from agentrail.testing.models import FunctionModel, says
from agentrail.testing.plugins import PuppetPlugin


class Raises(p.Plugin[int]):
    def __init__(self) -> None:
        message = "no licence"
        raise RuntimeError(message)

    def init(self) -> int:
        return 0


NO_PLUGINS = (
    (object(), "is not a plugin: derive from"),
    (None, "is not a plugin: derive from"),
    ((1, 2, 3), "expected a plugin, or a pair of a plugin and its options"),
    ((PuppetPlugin((), name="a"), [1]), "expected a plugin, or a pair"),
    ((PuppetPlugin((), name="a"), {"a": {1}}), r"options.a is a set, which is not JSON"),
    ((PuppetPlugin((), name="a"), {"a": float("nan")}), r"options.a is nan, which JSON cannot represent"),
    (Raises, "cannot be made without arguments: .*no licence"),
)


async def test_what_is_no_plugin_is_refused_at_once(supervisor):
    """Also while a cycle runs: nothing is sent, and nothing is kept."""
    gate = trio.Event()

    async def answer(_: Any) -> Any:
        await gate.wait()
        return says("done")

    session = await supervisor.start_session(model=FunctionModel(answer))
    cell = session._cell  # noqa: SLF001 - what waits and what is kept show nowhere else
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.ask, "go")
        while cell.state.data.cycle is None:
            await trio.lowlevel.checkpoint()
        for entry, words in NO_PLUGINS:
            for call in (session.attach_plugin, session.reload_plugin):
                with pytest.raises(PluginError, match=words):
                    await call(entry)
            assert not [one for one in cell.state.postponed if isinstance(one, ChangePlugins)], words
            assert cell.state.data.stack.ask.coming == 0, words
        gate.set()

"""What a wrapper offers is what it hands on, on every Python."""

from functools import partial
from typing import Any

import pytest

from agentrail.abc import Provider, VectorRecall
from agentrail.abc.process import ProcessSandbox
from agentrail.abc.store import OwedStore
from agentrail.abc.versions import VersionedSandbox
from agentrail.core.stack.plugin import Plugin as Port
from agentrail.core.values.offered import offers
from agentrail.plugins.base import Plugin, is_plugin
from agentrail.sandboxes.local import LocalSandbox
from agentrail.stores.memory import MemoryStore
from agentrail.stores.recall_memory import InMemoryRecall
from agentrail.testing.models import ScriptedModel


class Wrapper:
    """Hands on each call, and has none of its own."""

    def __init__(self, behind: object) -> None:
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        """Find it behind."""
        return getattr(self._behind, name)


class Still(Plugin[None]):
    """Does nothing."""

    def init(self) -> None:
        """Keep nothing."""

    def handle(self, event: Any, state: None, ctx: Any) -> Any:
        """Leave all as it is."""


@pytest.mark.parametrize(
    ("made", "port"),
    [
        (MemoryStore, OwedStore),
        (InMemoryRecall, VectorRecall),
        (partial(ScriptedModel, []), Provider),
        (Still, Port),
    ],
)
def test_a_wrapper_offers_what_lies_behind_it(made, port):
    """By `__getattr__` as by members of its own; what lies behind a wrapper of a wrapper too."""
    behind = made()
    assert offers(behind, port)
    assert offers(Wrapper(Wrapper(behind)), port)
    assert not offers(object(), port)
    assert not offers(Wrapper(object()), port)


def test_a_part_of_a_port_is_no_port():
    """One member that is missing is enough, and so is one of a port below."""

    class Reads:
        def owed(self) -> None: ...

    class Nearest:
        def nearest(self) -> None: ...

    assert not offers(Reads(), OwedStore)
    assert not offers(Nearest(), VectorRecall)


def test_a_wrapped_sandbox_opens_processes_and_keeps_versions(tmp_path):
    """As the sandbox itself does."""
    sandbox = Wrapper(LocalSandbox(tmp_path))
    assert offers(sandbox, ProcessSandbox)
    assert offers(sandbox, VersionedSandbox)


def test_a_wrapped_plugin_stands_in_a_stack():
    """So it is on Python 3.11."""
    assert is_plugin(Wrapper(Still()))

"""The UI message stream over HTTP: each life of a request as parts, held by golden files and by a client that is strict."""

import pytest

from tests.gateway.protocols.ui_scenarios import GOLDEN, SCENARIOS, parts_of, settled
from tests.protocols.ui_client import UiClient
from tests.runtime.rig import on_bounded_time

QUICK = ("tools", "approved", "one_of_two_decided", "clients_tool", "question")
"""Those that `make test` runs; `make check` runs all."""


@on_bounded_time
@pytest.mark.host("H-115")
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.check) for name in SCENARIOS]
)
async def test_each_life_of_a_request_is_a_response_in_order(name):
    """The frames are those of the golden file, and a strict client reads them; `UiClient` says what is held."""
    streams = await SCENARIOS[name]()
    client = UiClient()
    known = set()
    for stream in streams:
        parts = parts_of(stream)
        begun = parts[0].get("messageId")
        client.read(parts, is_replay=name == "sent_again" and begun in known)
        known.add(begun)
    assert settled(name, streams) == (GOLDEN / f"{name}.txt").read_text("utf-8")

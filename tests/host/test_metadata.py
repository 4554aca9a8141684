"""What a caller says of a session besides words: kept with it, shown to plugins and in lists, and only so much of it."""

from types import MappingProxyType
from typing import Any

import pytest

from agentrail.abc import Secret
from agentrail.errors import OptionError, TooLarge
from agentrail.frozen import canonical_json
from agentrail.host import ChatRequestContext, Host, HostPlugin, Limits
from agentrail.host.agent_profiles import MAX_METADATA_LEVELS, check_metadata
from agentrail.host.identity import metadata_of_session
from tests.host.hosting import ANN, answering, asked, hosting
from tests.host.rig import plugin
from tests.runtime.rig import on_bounded_time, on_virtual_time
from tests.thinned import each

SAID = {"ticket": 4711, "tags": ["new", None], "more": {"a": 1.5}}


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def ears() -> tuple[HostPlugin, list[dict[str, Any]]]:
    """A plugin that hears what messages say besides, and what it has heard."""
    heard: list[dict[str, Any]] = []

    async def hear(ctx: ChatRequestContext) -> None:
        heard.append(ctx.as_dict()["request"]["metadata"])

    return plugin("ears", intercept_chat_request=hear), heard


async def listed(host: Host) -> dict[str, Any]:
    return {one.session_id: one.metadata for one in await host.list_sessions(ANN)}


@each(
    ("said", "error", "words"),
    [
        (["a"], OptionError, "of type list: expected a JSON object"),
        ({"a": {1}}, OptionError, r"metadata\.a"),
        ({"a": Secret("s3cret")}, OptionError, r"metadata\.a"),
        ({1: "a"}, OptionError, "; keys must be text"),
        ({"a": float("nan")}, OptionError, ", which JSON cannot represent"),
        ({"a": "x" * 4_096}, TooLarge, "more than 4,096 bytes"),
        ({"a": "\u00e4" * 2_100}, TooLarge, "more than 4,096 bytes"),
        ({str(number): {} for number in range(5_000)}, TooLarge, "more than 4,096 bytes"),
        (deep(MAX_METADATA_LEVELS + 1), TooLarge, "more deeply than 64 levels"),
        (deep(10_000), TooLarge, "more than"),
    ],
    label=lambda row: f"{row[2]}",
)
def test_what_is_no_metadata_is_refused(said: Any, error: type[Exception], words: str):
    """With where it is; a secret is no JSON, and its value stands in no message."""
    with pytest.raises(error, match=words) as raised:
        check_metadata(said, Limits())
    assert "s3cret" not in str(raised.value)


def test_metadata_may_be_so_large_and_so_deep():
    """To the byte; an operator may allow more, or none."""
    exact = {"a": "x" * (4_096 - len(canonical_json({"a": ""})))}
    for said in ({}, SAID, exact, deep(MAX_METADATA_LEVELS), MappingProxyType(SAID)):
        check_metadata(said, Limits())
    check_metadata({"a": "x" * 5_000}, Limits(max_metadata_bytes=8_000))
    with pytest.raises(TooLarge):
        check_metadata({"a": 1}, Limits(max_metadata_bytes=0))


@on_bounded_time
async def test_metadata_lives_as_long_as_its_session(tmp_path):
    """In lists, for plugins of the session, and behind a restart, asleep and woken: it stands in the first record alone."""
    store = f"sqlite:{tmp_path}/a.db"
    (hears, heard), model = ears(), answering("Hi", "Ho")
    async with hosting(model, hears, store=store) as host:
        await host.create(ANN, session_id="made", metadata=SAID)
        request = await asked(host, session_id="asked", metadata={"from": "mail"})
        await request.outcome()
        await host.create(ANN, session_id="plain")
        assert await listed(host) == {"plain": {}, "asked": {"from": "mail"}, "made": SAID}
    async with hosting(model, hears, store=store) as host:
        assert await listed(host) == {"plain": {}, "asked": {"from": "mail"}, "made": SAID}
        request = await asked(host, "And?", session_id="asked", metadata={"from": "phone"})
        await request.outcome()
        data = request.session.facts.user_data
        assert metadata_of_session(data) == {"from": "mail"}
        assert metadata_of_session((await host.session("made", ANN)).facts.user_data) == SAID
        assert "metadata" not in (await host.session("plain", ANN)).facts.user_data
        assert (await listed(host))["made"] == SAID
        fork, _ = await host.fork_session("made", ANN)
        assert metadata_of_session(fork.facts.user_data) == SAID
    assert heard == [{"from": "mail"}, {"from": "phone"}]


@on_virtual_time
async def test_metadata_is_kept_as_it_was_said_and_what_is_none_makes_no_session():
    """Metadata is copied and read-only. Invalid metadata is refused before any plugin sees it."""
    said: dict[str, Any] = {"tags": ["a"]}
    async with hosting(answering()) as host:
        session = await host.create(ANN, metadata=said)
        said["tags"].append("b")
        kept = metadata_of_session(session.facts.user_data)
        assert kept == {"tags": ["a"]}
        with pytest.raises(TypeError):
            kept["more"] = 1

    hears, heard = ears()
    async with hosting(answering(), hears) as host:
        for said in ({"a": {1}}, {"a": "x" * 5_000}):
            with pytest.raises((OptionError, TooLarge)):
                await host.create(ANN, metadata=said)
            with pytest.raises((OptionError, TooLarge)):
                await asked(host, metadata=said)
        assert await host.list_sessions(ANN) == ()
    assert heard == []

"""`EpisodicMemory`: what a user asked in earlier sessions comes back when it is about the same thing."""

import json

import attrs
import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loading import load_stack
from agentrail.errors import PluginError
from agentrail.messages import SessionId, Text, UserMessage
from agentrail.plugins.episodes import Episode, decode_episodes, encode_episode, nearest
from agentrail.plugins.episodic_memory import MAX_EPISODE_CHARACTERS, EpisodicMemory
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.plugin_request_rig import Alone, failed, said, user

PATH = "episodes/everybody.jsonl"


def opened(files, session="s", user_data=None, **options):
    """A session that has read its memory."""
    plugin = Alone(EpisodicMemory, **options)
    plugin.hears(p.SessionStarted(), session_id=SessionId(session), user_data=user_data or {})
    assert plugin.runs(files, session_id=SessionId(session)) == []
    return plugin


def lives(files, *cycles, session="s", user_data=None, **options):
    """A session of some cycles, prompt and answer each."""
    plugin = opened(files, session, user_data, **options)
    for asked, answered in cycles:
        ended = p.AfterTurn(outcome="finished", messages_diff=(user(asked), said(answered)), ended_at_ms=9)
        plugin.hears(ended, session_id=SessionId(session), user_data=user_data or {})
        plugin.runs(files)
    return plugin


def section(plugin, prompt):
    """What the next request has."""
    return plugin.hears(p.BeforeRequest(messages=(user(prompt),))).context["memory"]


def test_a_later_session_is_shown_what_is_about_the_same_thing():
    """The episodes that share words with the prompt, the best first, at most `top_k` (5.8)."""
    files = {}
    cycles = [
        ("How do we deploy?", "With the script deploy.sh."),
        ("Who wrote the parser?", "Ada."),
        ("Is the parser fast?", "The parser reads a gigabyte a second."),
    ]
    lives(files, *cycles, session="first")
    later = opened(files, top_k=2)
    assert section(later, "Make the parser fast again") == (
        "<memory>\nEarlier conversations with this user that may be about the same thing, and may be out of date:\n"
        "- Asked: Is the parser fast?\n  Answered: The parser reads a gigabyte a second.\n"
        "- Asked: Who wrote the parser?\n  Answered: Ada.\n</memory>"
    )
    assert section(later, "Please deploy").count("Asked") == 1
    assert section(later, "Hello there") is None


def test_an_episode_ends_no_section_and_no_line():
    """What looks like the end of the section, and what JSON takes for no end of a line, is a part of the episode."""
    files = {}
    lives(files, ("deploy </memory> it\u2028twice", "done"), session="first")
    shown = section(opened(files), "deploy")
    assert "- Asked: deploy &lt;/memory> it twice\n  Answered: done\n</memory>" in shown


def test_a_session_is_not_shown_what_it_knows():
    """Its own episodes are for later sessions, also after a recovery: it has them in its history."""
    files = {}
    plugin = lives(files, ("How do we deploy?", "So."))
    assert section(plugin, "deploy") is None
    plugin.hears(p.SessionStarted(recovered=True))
    plugin.runs(files)
    assert section(plugin, "deploy") is None
    assert json.loads(files[PATH]) == {
        "session_id": "s",
        "at_ms": 9,
        "asked": "How do we deploy?",
        "answered": "So.",
    }


@pytest.mark.parametrize(
    "event",
    [
        p.AfterTurn(outcome="aborted", messages_diff=(user("deploy"), said("I was"))),
        p.AfterTurn(outcome="finished", messages_diff=(user("deploy"),)),
        p.AfterTurn(outcome="finished", messages_diff=(said("deployed"),)),
        p.AfterTurn(
            outcome="finished",
            messages_diff=(UserMessage(content=(Text(text="deploy"),), origin="note"), said("deployed")),
        ),
    ],
)
def test_only_what_was_asked_and_answered_is_an_episode(event):
    """A cycle that was aborted, or without a prompt or an answer, is none."""
    plugin = opened({})
    plugin.hears(event)
    assert plugin.wanted == []


def test_users_and_tenants_have_files_of_their_own():
    """Nobody is shown what somebody else asked, whatever characters the ids have (5.8)."""
    files = {}
    ids = [
        {"user_id": "../a/b"},
        {"user_id": "everybody"},
        {"user_id": 7, "tenant_id": "x/user-7"},
        {"user_id": 7},
        None,
    ]
    for number, user_data in enumerate(ids):
        lives(files, (f"deploy{number}", "done"), session=f"s{number}", user_data=user_data)
    assert list(files) == [
        "episodes/user-..%2Fa%2Fb.jsonl",
        "episodes/user-everybody.jsonl",
        "episodes/tenant-x%2Fuser-7/user-7.jsonl",
        "episodes/user-7.jsonl",
        "episodes/everybody.jsonl",
    ]


def test_without_a_user_nothing_is_remembered_where_one_is_required():
    """`require_user_id`: neither read nor written (5.8)."""
    files = {PATH: encode_episode(Episode(session_id="x", at_ms=1, asked="deploy", answered="done"))}
    plugin = lives(files, ("deploy", "done"), require_user_id=True)
    assert files[PATH].count("\n") == 1
    assert section(plugin, "deploy") is None
    lives(files, ("deploy", "done"), user_data={"user_id": "ada"}, require_user_id=True)
    assert "episodes/user-ada.jsonl" in files


def test_the_newest_are_kept():
    """Of a file that has twice as many as `max_episodes_per_user` the older half goes; none beyond it is shown (5.8)."""
    files = {}
    lives(
        files, *((f"deploy{number}", "done") for number in range(5)), session="first", max_episodes_per_user=2
    )
    assert files[PATH].count("\n") == 5
    plugin = opened(files, max_episodes_per_user=2)
    assert [episode.asked for episode in decode_episodes(files[PATH])] == ["deploy3", "deploy4"]
    assert [episode.asked for episode in plugin.state.episodes] == ["deploy3", "deploy4"]
    before = dict(files)
    lives(files, session="third", max_episodes_per_user=1)
    assert files == before


def test_what_cannot_be_read_or_written_is_reported():
    """A failure is published with the step and the reason; the session goes on without."""
    plugin = Alone(EpisodicMemory)
    plugin.hears(p.SessionStarted())
    (event,) = plugin.gets(failed("not text")).events
    assert (event.name, event.payload["step"], event.payload["reason"]) == (
        "episodic_memory_failed",
        "read",
        "not text",
    )
    assert section(plugin, "anything") is None


def test_it_keeps_the_contract_of_plugins():
    """`check_plugin`; numbers that mean nothing refuse the start."""
    check_plugin(EpisodicMemory, options=[{}, {"require_user_id": True, "top_k": 1}])
    for wrong in ({"top_k": 0}, {"max_episodes_per_user": 0}):
        with pytest.raises(PluginError, match="are 1 or more"):
            load_stack([(EpisodicMemory, wrong)])


ANYTHING = st.text(st.characters() | st.sampled_from("\u2028\ud800<"), min_size=1)


@given(
    cycles=st.lists(st.tuples(ANYTHING, ANYTHING), max_size=5), torn=st.text() | st.just('{"session_id": "s"')
)
def test_whatever_was_said_is_read_back_and_ends_no_section(cycles, torn):
    """Each episode comes back as its beginning, also behind a line that is none; a section ends only where it ends."""
    files = {PATH: torn.replace("\n", "") + "\n"}
    lives(files, *cycles, session="first")
    later = opened(files, top_k=9)
    told = [
        tuple(text[:MAX_EPISODE_CHARACTERS].encode("utf-8", "replace").decode() for text in cycle)
        for cycle in cycles
    ]
    assert [(episode.asked, episode.answered) for episode in later.state.episodes] == told
    shown = section(later, " ".join(asked for asked, _ in told)) or ""
    assert shown.count("</memory>") == shown.count("<memory>") == bool(shown)


@given(prompts=st.lists(st.text("aä ", max_size=12), max_size=6), prompt=st.text("aä ", max_size=12))
def test_episodes_that_share_no_word_are_not_shown(prompts, prompt):
    """Those that share a word of four letters or more, and no others; among equals the newer one is first."""
    episodes = [
        Episode(session_id="x", at_ms=number, asked=asked, answered="")
        for number, asked in enumerate(prompts)
    ]
    found = nearest(episodes, prompt, len(episodes))
    words = {word for word in prompt.split() if len(word) >= 4}
    expected = {episode.at_ms for episode in episodes if words & set(episode.asked.split())}
    assert {episode.at_ms for episode in found} == expected
    twins = [episode.at_ms for episode in found if episode.asked == found[0].asked]
    assert twins == sorted(twins, reverse=True)
    assert found == nearest([attrs.evolve(episode) for episode in episodes], prompt, len(episodes))

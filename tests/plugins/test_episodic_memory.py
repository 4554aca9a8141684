"""`EpisodicMemory`: what a user asked in earlier sessions comes back when it is about the same thing."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.abc import MemoryEntry
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.errors import PluginError
from agentrail.messages import SessionId
from agentrail.plugins.episodes import MAX_EPISODE_CHARACTERS, id_of_episode, show_episodes, text_of_episode
from agentrail.plugins.episodic_memory import EpisodicMemory
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.plugin_request_rig import Alone, failed, said, user

ENDED = p.AfterTurn(outcome="finished", messages_diff=(user("How do we deploy?"), said("So.")), ended_at_ms=9)


def episode(asked, answered="done", session="first"):
    """An episode as a search gives it."""
    return {"session_id": session, "text": text_of_episode(asked, answered)}


def shown(plugin, **context):
    """What stands behind the conversation of the next request; empty for nothing."""
    messages = plugin.hears(p.BeforeRequest(messages=(user("deploy"),)), **context).messages or ()
    return "\n".join(block.text for one in messages[1:] for block in one.content)


def test_a_session_is_not_shown_what_it_knows():
    """Its own episodes are for later sessions; as many more are asked for, so that they take no other's place."""
    plugin = Alone(EpisodicMemory, top_k=1)
    for _ in range(2):
        plugin.hears(ENDED)
        plugin.gets(p.MemoryKept(entry_id="e-1"))
    plugin.hears(p.BeforePrompt(text="deploy"))
    assert plugin.wanted[0].max_entries == 3
    plugin.gets(p.Found(entries=(episode("mine", session="s"), episode("theirs"))))
    assert "theirs" in shown(plugin)
    assert "mine" not in shown(plugin)


def test_without_a_user_nothing_is_remembered_where_one_is_required():
    """`require_user_id`: neither looked up nor kept (5.8); and who works for another session starts empty (12.2)."""
    plugin = Alone(EpisodicMemory, require_user_id=True)
    for event in (p.BeforePrompt(text="deploy"), ENDED):
        plugin.hears(event)
        assert plugin.wanted == []
        plugin.hears(event, user_data={"user_id": "ada"})
        assert len(plugin.wanted) == 1
        plugin.asked.clear()
    plugin.hears(p.BeforePrompt(text="deploy"), user_data={"user_id": "ada"}, prompt_mode="task")
    assert plugin.wanted == []


def test_what_cannot_be_done_is_reported():
    """A failure is published with the step and the reason; so is that only words were compared; the session goes on."""
    plugin = Alone(EpisodicMemory)
    plugin.hears(p.BeforePrompt(text="deploy"))
    (event,) = plugin.gets(failed("away")).events
    assert (event.name, event.payload["step"], event.payload["reason"]) == (
        "episodic_memory_failed",
        "found",
        "away",
    )
    assert shown(plugin) == ""
    plugin.hears(p.BeforePrompt(text="deploy"))
    (event,) = plugin.gets(p.Found(entries=(), words_only="too slow")).events
    assert (event.name, event.payload["reason"]) == ("memory_words_only", "too slow")
    plugin.hears(p.BeforePrompt(text="deploy"))
    assert plugin.gets(p.FileText(path="x", text="of nobody")).events == ()


def test_it_keeps_the_contract_of_plugins():
    """`check_plugin`; numbers that mean nothing refuse the start."""
    check_plugin(EpisodicMemory, options=[{}, {"require_user_id": True, "top_k": 1}])
    for wrong in ({"top_k": 0}, {"max_episodes_per_user": 0}, {"max_episodes_per_user": 1_001}):
        with pytest.raises(PluginError, match="are 1 or more"):
            load_stack([(EpisodicMemory, wrong)])


ANYTHING = st.text(st.characters() | st.sampled_from("\u2028\ud800<\n")) | st.sampled_from(
    ["</episodes>", "< / EPISODES", "<episodes>", "x" * 2 * MAX_EPISODE_CHARACTERS]
)


@given(cycles=st.lists(st.tuples(ANYTHING, ANYTHING), max_size=5))
def test_whatever_was_said_can_be_kept_and_ends_no_fence(cycles):
    """Each is an entry that a store takes; what is shown ends where it ends."""
    entries = [
        MemoryEntry(id=id_of_episode("\ud800", number), text=text_of_episode(*cycle), at_ms=number)
        for number, cycle in enumerate(cycles)
    ]
    found = [{"session_id": "x", "text": one.text} for one in entries]
    text = show_episodes([*found, "no object"], SessionId("s"), 9)
    assert text.lower().count("<episodes>") == text.lower().count("</episodes>") == bool(cycles)
    assert text.count("\n- Asked: ") == len(cycles)

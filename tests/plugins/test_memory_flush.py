"""`MemoryFlush`: what is worth keeping outlives a compaction."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.values.notes_markdown import notes_about
from agentrail.errors import PluginError
from agentrail.events import MemoryFlushed
from agentrail.plugins.memory_flush import TOPIC, MemoryFlush
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.plugin_request_rig import Alone, failed, said, user

COMPACT = p.BeforeCompact(messages=(user("My name is Ada. We deploy on Fridays."), said("Noted.")))
LIST = "Here they are:\n- The user is called Ada.\n* We deploy  on Fridays.\n2. Tabs are used.\nThat is all."


FILE = {"file": "MEMORY.md"}


def flushed(answer, files, *, file="MEMORY.md", **options):
    """Compact once; what is published."""
    plugin = Alone(MemoryFlush, file=file, **options)
    plugin.hears(COMPACT)
    plugin.gets(p.ModelAnswer(text=answer))
    return plugin.runs(files)


def test_what_is_known_is_not_written_again():
    """With `dedupe` a line that differs in case, white space or its last full stop is known; without, it is added (5.8)."""
    known = "- the user is called ada\nWe deploy on Fridays.\n"
    files = {"notes.md": known}
    assert flushed(LIST, files, file="notes.md")[0].facts == ("Tabs are used.",)
    assert flushed(LIST, files, file="notes.md") == []
    files = {"MEMORY.md": known}
    assert flushed("- a\n- a", files, dedupe=False)[0].facts == ("a", "a")


def test_at_most_so_many_facts_are_kept():
    """`max_facts` holds also for a model that does not count (5.8)."""
    assert flushed("- a\n- b\n- c", {}, max_facts=2)[0].facts == ("a", "b")


def test_where_there_is_nothing_to_keep_nothing_is_written():
    """Neither a file nor an event comes of an answer without a list, nor of a compaction without messages."""
    files = {}
    assert flushed("NONE", files) == []
    assert files == {}
    plugin = Alone(MemoryFlush)
    plugin.hears(p.BeforeCompact())
    assert plugin.wanted == []


def test_two_compactions_at_a_time_lose_nothing():
    """Facts that come while others are being written are written after them."""
    plugin, files = Alone(MemoryFlush, **FILE), {}
    plugin.hears(COMPACT)
    plugin.hears(COMPACT)
    plugin.gets(p.ModelAnswer(text="- a"))  # reads
    plugin.asked.reverse()
    plugin.gets(p.FileText(path="MEMORY.md", text=None))  # writes
    plugin.gets(p.ModelAnswer(text="- b"))  # reads
    plugin.asked.reverse()
    plugin.gets(p.FileText(path="MEMORY.md", text=None))  # while the first is being written
    assert [event.facts for event in plugin.runs(files)] == [("a",), ("b",)]
    assert files == {"MEMORY.md": "- a\n- b\n"}


def test_two_compactions_at_a_time_are_noted_one_after_the_other():
    """And a failure says what was lost, all of it, and where it was to go."""
    plugin, files = Alone(MemoryFlush), {}
    plugin.hears(COMPACT)
    plugin.hears(COMPACT)
    plugin.gets(p.ModelAnswer(text="- a"))  # writes
    plugin.asked.reverse()
    held = plugin.asked.pop(0)
    plugin.gets(p.ModelAnswer(text="- b"))  # waits
    assert plugin.wanted == []
    plugin.asked.append(held)
    assert [event.facts for event in plugin.runs(files)] == [("a",), ("b",)]
    plugin.hears(COMPACT)
    plugin.gets(p.ModelAnswer(text="- c"))
    (event,) = plugin.gets(failed("no notes")).events
    assert (event.payload["file"], event.payload["facts"]) == ("NOTES.md", ["c"])


def test_it_keeps_the_contract_of_plugins():
    """`check_plugin`; less than one fact refuses the start."""
    check_plugin(MemoryFlush, options=[{}, {"file": "a.md", "max_facts": 1, "dedupe": False}])
    with pytest.raises(PluginError, match="1 or more; got 0"):
        load_stack([(MemoryFlush, {"max_facts": 0})])


@given(
    answers=st.lists(
        st.text()
        | st.lists(st.sampled_from("abcB ")).map(lambda facts: "\n".join(f"- {fact}" for fact in facts))
    )
)
def test_the_file_only_grows_by_lines_that_were_announced_and_has_none_twice(answers):
    """Whatever models answer: what is published is what was appended, each fact in one line, and none twice."""
    files = {"MEMORY.md": "- a\n"}
    announced = [fact for answer in answers for event in flushed(answer, files) for fact in event.facts]
    assert files["MEMORY.md"] == "- a\n" + "".join(f"- {fact}\n" for fact in announced)
    keys = [" ".join(fact.casefold().split()).rstrip(".") for fact in ("a", *announced)]
    assert len(set(keys)) == len(keys)


def test_facts_go_into_the_working_notes():
    """Where no file is named, under a topic of their own, and what is noted under any topic is not written again (12.5)."""
    files = {"NOTES.md": "## names\n\n- The user is called Ada\n"}
    assert flushed(LIST, files, file=None) == [
        MemoryFlushed(facts=("We deploy on Fridays.", "Tabs are used."), count=2)
    ]
    assert notes_about(files["NOTES.md"], TOPIC) == "- We deploy on Fridays.\n- Tabs are used."
    before = dict(files)
    assert flushed(LIST, files, file=None) == []
    assert files == before

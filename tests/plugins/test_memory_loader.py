"""`MemoryLoader`: what stands in memory files is in the system prompt."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loading import load_stack
from agentrail.core.stack.outcome import PluginRequest
from agentrail.core.values.instructions import MAX_FILE_CHARACTERS
from agentrail.errors import PluginError
from agentrail.plugins.memory_loader import MemoryLoader
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.plugin_request_rig import Alone, failed, result, said, user

ASK = p.BeforeRequest()


def section(plugin):
    """What the next request has."""
    return plugin.hears(ASK).context["agent_memory"]


def started(files, **options):
    """A loader that has read its files."""
    plugin = Alone(MemoryLoader, **options)
    plugin.hears(p.SessionStarted())
    assert plugin.runs(files) == []
    return plugin


def test_the_files_are_in_the_system_prompt():
    """Each file is read when the session starts, and is a section of every request, in the order of the option (5.8)."""
    files = {"AGENTS.md": "Use tabs.\n", "docs/STYLE.md": "Be calm."}
    plugin = started(files, memory_files=["docs/STYLE.md", "AGENTS.md", "missing.md"])
    both = (
        '<agent_memory name="docs/STYLE.md">\nBe calm.\n</agent_memory>\n\n'
        '<agent_memory name="AGENTS.md">\nUse tabs.\n</agent_memory>'
    )
    assert section(plugin) == both
    assert section(plugin) == both


def test_a_request_that_comes_before_the_answer_goes_without():
    """A plugin cannot wait: until the file is read there is no section, and none when there is no such file."""
    plugin = Alone(MemoryLoader)
    plugin.hears(p.SessionStarted())
    assert plugin.wanted == [p.ReadInstructions(names=("AGENTS.override.md", "AGENTS.md"))]
    assert section(plugin) is None
    plugin.runs({})
    assert section(plugin) is None


def test_a_call_that_names_a_file_has_it_read_again():
    """After a call with the name in its arguments, also within a command line, the section is what stands there now (5.8)."""
    files = {"AGENTS.md": "old"}
    plugin = started(files)
    messages = (said("", c1={"command": "echo new > ./AGENTS.md"}, c2={"command": "ls"}),)
    plugin.hears(result("", call_id="c2"), messages=messages)
    plugin.hears(result("", call_id="c3"), messages=messages)
    plugin.hears(result("", call_id="c1"))
    assert plugin.wanted == []
    files["AGENTS.md"] = "new"
    plugin.hears(result("", call_id="c1"), messages=(*messages, user("faster!")))
    plugin.runs(files)
    assert section(plugin) == '<agent_memory name="AGENTS.md">\nnew\n</agent_memory>'


def test_without_auto_reload_a_file_is_read_once():
    """`auto_reload=False` keeps the system prompt as it was at the start, and the vendor's prompt cache with it (5.8)."""
    plugin = started({"AGENTS.md": "old"}, auto_reload=False)
    plugin.hears(result("", call_id="c1"), messages=(said("", c1={"path": "AGENTS.md"}),))
    assert plugin.wanted == []


def test_an_answer_that_is_lost_is_asked_for_again():
    """A crash forgets what was under way; the next call that ends brings it."""
    plugin = Alone(MemoryLoader, auto_reload=False)
    plugin.hears(p.SessionStarted())
    plugin.asked.clear()
    plugin.hears(result("", call_id="c1"))
    plugin.runs({"AGENTS.md": "here"})
    assert "here" in section(plugin)


def test_what_cannot_be_read_is_reported_and_the_others_are_read():
    """A failure is published with file and reason; what was known of the file before stays."""
    plugin = started({"a.md": "one", "b.md": "two"}, memory_files=["a.md", "b.md"])
    plugin.hears(p.SessionStarted(recovered=True))
    (event,) = plugin.gets(failed("too large")).events
    assert (event.name, event.payload["file"], event.payload["reason"]) == (
        "memory_not_loaded",
        "a.md",
        "too large",
    )
    plugin.runs({"b.md": "three"})
    assert "one" in section(plugin)
    assert "three" in section(plugin)


def test_an_answer_for_a_file_that_is_none_of_its_own_changes_nothing():
    """After an option update an old answer may still come."""
    plugin = started({"AGENTS.md": "old"})
    plugin.asked.append(PluginRequest(effect=p.ReadFile("x"), tag="x", by="MemoryLoader"))
    plugin.gets(p.FileText(path="x", text="other"))
    assert "old" in section(plugin)
    assert "other" not in section(plugin)


def test_a_long_file_is_cut_and_says_so():
    """It is in every request, so only so much of it is."""
    plugin = Alone(MemoryLoader)
    plugin.hears(p.SessionStarted())
    (event,) = plugin.runs({"AGENTS.md": "x" * (MAX_FILE_CHARACTERS + 1)})
    assert (event.name, event.payload["cut"]) == ("memory_cut", ["AGENTS.md"])
    shown = section(plugin)
    assert shown.count("x") == MAX_FILE_CHARACTERS
    assert "The rest is in AGENTS.md.]" in shown


def test_it_keeps_the_contract_of_plugins():
    """`check_plugin`; a text in place of a list refuses the start."""
    check_plugin(
        MemoryLoader, options=[{}, {"memory_files": []}, {"memory_files": ["a", "b"], "auto_reload": False}]
    )
    with pytest.raises(PluginError, match=r"a list of paths, such as \['AGENTS.md'\]; got a text"):
        load_stack([(MemoryLoader, {"memory_files": "AGENTS.md"})])


@given(
    files=st.dictionaries(
        st.sampled_from(["a.md", 'b".md', "c/<d>.md"]), st.text() | st.just("</agent_memory>x")
    )
)
def test_each_file_that_says_something_has_one_section_that_only_ends_at_its_end(files):
    """Whatever stands in the files: as many sections begin as end, and nothing stands outside of them."""
    shown = section(started(files, memory_files=list(files))) or ""
    count = sum(bool(text.strip()) for text in files.values())
    assert shown.count("</agent_memory") == count
    assert sum(line.startswith("<agent_memory name=") for line in shown.split("\n")) >= count
    assert not shown or shown.endswith("</agent_memory>")

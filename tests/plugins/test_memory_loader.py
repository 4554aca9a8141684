"""`MemoryLoader`: what stands in memory files is in the system prompt."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.protocol.actions import malformed
from agentrail.core.stack.hook_outcome import PluginRequest
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.values.instruction_order import MAX_FILE_CHARACTERS
from agentrail.errors import PluginError
from agentrail.messages import ToolResult
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


# --- files for agents


def touching(plugin, path, *, is_error=False, **context):
    """Let a call touch a file, and its batch end."""
    plugin.hears(p.BeforeTool(name="read_file", arguments={"path": path}, call_id="c1"), **context)
    came = ToolResult(call_id="c1", name="read_file", text="x", is_error=is_error)
    return plugin.hears(p.AfterToolBatch(results=(came,)), **context)


def joins(plugin):
    """What is said before the next request."""
    return [one.prompt for one in plugin.hears(ASK).interventions]


def test_what_cannot_be_shown_is_said():
    """What is left out is named in the prompt and in an event, and so is what cannot be read (12.5)."""
    plugin = Alone(MemoryLoader)
    plugin.hears(p.SessionStarted())
    found = p.InstructionsFound(
        files=tuple(p.InstructionFile(path=f"{one}/AGENTS.md", text="x" * 40_000) for one in "abc"),
        unread=(p.UnreadInstructions(path="../AGENTS.md", reason="a link"),),
    )
    unread, cut = plugin.gets(found).events
    assert unread.payload["reason"] == "a link"
    assert (cut.payload["left_out"], cut.payload["cut"]) == (["a/AGENTS.md"], ["b/AGENTS.md"])
    assert section(plugin).startswith("[Left out, because nearer files took the room")
    assert "a/AGENTS.md.]" in section(plugin)


def test_files_of_touched_directories_join_once_and_not_in_the_prompt():
    """With the next request that is made when they are read, in its last message; a second touch brings nothing (12.5)."""
    files = {"a/AGENTS.md": "of a", "a/b/AGENTS.override.md": "of b"}
    plugin = started(files)
    touching(plugin, "f/x", is_error=True)
    assert touching(plugin, "a/b/c.py").waiting is not None  # the model goes on when they are there
    touching(plugin, "a/d.py")
    touching(plugin, "e.py")
    assert plugin.wanted == [
        p.ReadInstructions(names=("AGENTS.override.md", "AGENTS.md"), below=("a", "a/b"))
    ]
    assert joins(plugin) == []
    plugin.runs(files)
    (prompt,) = joins(plugin)
    assert prompt.index('<agent_memory name="a/AGENTS.md">\nof a\n</agent_memory>') < prompt.index("of b")
    touching(plugin, "a/b/c.py")
    assert (plugin.wanted, joins(plugin), section(plugin)) == ([], [], None)


def test_files_of_directories_below_have_room_of_their_own():
    """64 KiB of them may stand in the conversation; the next ones are named, and an event says so."""
    plugin = started({})
    for folder in ("a", "b", "c<"):
        touching(plugin, f"{folder}/x")
        events = plugin.runs({f"{folder}/AGENTS.md": "x" * 40_000})
    assert events[0].payload["left_out"] == ["c</AGENTS.md"]
    (prompt,) = joins(plugin)
    assert 65_000 < prompt.count("x") < 65_700
    assert "c&lt;/AGENTS.md.]" in prompt
    touching(plugin, "d/x")
    plugin.runs({"d/AGENTS.md": "more"})
    assert "d/AGENTS.md.]" in joins(plugin)[0]


def test_a_search_below_that_failed_is_reported():
    """And not tried again: the next call would fail as this one did."""
    plugin = started({})
    touching(plugin, "a/x")
    (event,) = plugin.gets(failed("no sandbox")).events
    assert event.payload == {"file": "directories below", "reason": "no sandbox", "user_data": {}}
    plugin.asked.append(PluginRequest(effect=p.ReadInstructions(names=()), tag="x", by="MemoryLoader"))
    plugin.gets(p.InstructionsFound(files=(p.InstructionFile(path="x", text="of nobody"),)))
    assert section(plugin) is None


@pytest.mark.parametrize("names", [(), ("README.md",), ["AGENTS.md"], "AGENTS.md", ("AGENTS.md", 7), None])
def test_no_plugin_can_ask_for_another_name(names):
    """What is asked for is looked at before anything is read: these names, and no path (12.5)."""
    wanted = p.ReadInstructions(names=names)
    fault = malformed(p.Request(wanted, "x", None))
    assert fault.endswith(
        "names is a tuple of one or more of AGENTS.override.md, AGENTS.md, CLAUDE.md, GEMINI.md"
    )
    assert malformed(p.Request(p.ReadInstructions(names=("GEMINI.md",), below=("a/b",)), "x", None)) is None


@pytest.mark.parametrize("below", ["a", ["a"], ("",), (7,), None])
def test_no_plugin_can_ask_for_what_is_no_directory(below):
    """A tuple of paths, none of them empty."""
    fault = malformed(p.Request(p.ReadInstructions(names=("AGENTS.md",), below=below), "x", None))
    assert fault.endswith("below is a tuple of paths of directories")

"""`LargeResultOffload`: large results go into files, and nothing of them is lost."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loading import load_stack
from agentrail.errors import PluginError
from agentrail.events import LargeResultOffloaded
from agentrail.messages import CallId
from agentrail.plugins.large_result_offload import FILE_TOOLS, PREVIEW_BYTES, LargeResultOffload
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.plugin_request_rig import Alone, failed, result

LINES = "".join(f"line {number}\n" for number in range(1, 1_001))
PATH = "tool-results/s-1.txt"


def test_the_model_sees_the_beginning_and_how_to_go_on():
    """A result over the limit is replaced by its first lines and the next call that shows more (5.8)."""
    shown = Alone(LargeResultOffload, token_limit=10).hears(result(LINES)).result
    assert shown.text == (
        "line 1\nline 2\nline 3\nline 4\nline 5\n\n[This is the beginning of a result of 8,893 bytes and 1,000 lines. "
        f'All of it is in {PATH}. Continue with read_file(path="{PATH}", offset=6).]'
    )


def test_what_is_not_too_large_stays_as_it_is():
    """At the limit nothing happens; neither does it to the results of file tools, which page by themselves (5.8)."""
    plugin = Alone(LargeResultOffload, token_limit=10)
    assert plugin.hears(result("x" * 40)).result is None
    assert plugin.hears(result("x" * 41)).result is not None
    assert all(plugin.hears(result(LINES, name=name)).result is None for name in FILE_TOOLS)
    assert Alone(LargeResultOffload).hears(result("x" * 80_000)).result is None
    assert Alone(LargeResultOffload, excluded_tools=["shell"]).hears(result(LINES * 99)).result is None


def test_the_file_has_all_of_it_before_the_model_is_asked_again():
    """When the batch is done, the full results are written, one after the other, and each is announced once it is there."""
    plugin = Alone(LargeResultOffload, token_limit=10)
    plugin.hears(result(LINES, call_id="c1"))
    plugin.hears(result(LINES * 2, call_id="c2"))
    assert plugin.wanted == []
    assert plugin.hears(p.AfterToolBatch(results=())).events == ()
    files = {}
    first, second = plugin.runs(files)
    assert files == {PATH: LINES, "tool-results/s-2.txt": LINES * 2}
    assert first == LargeResultOffloaded(name="shell", call_id=CallId("c1"), path=PATH, bytes=8_893)
    assert (second.call_id, second.path) == ("c2", "tool-results/s-2.txt")
    assert plugin.state.pending == ()


def test_a_batch_that_is_aborted_is_written_at_the_end_of_the_cycle():
    """`AfterTurn` comes on every path, `AfterToolBatch` does not."""
    plugin = Alone(LargeResultOffload, token_limit=10)
    plugin.hears(result(LINES))
    plugin.hears(p.AfterTurn(outcome="aborted"))
    files = {}
    plugin.runs(files)
    assert files == {PATH: LINES}


def test_an_answer_that_is_lost_is_asked_for_again():
    """A crash forgets what was under way: the next batch writes the file again, and announces it once."""
    plugin = Alone(LargeResultOffload, token_limit=10)
    plugin.hears(result(LINES))
    plugin.hears(p.AfterToolBatch(results=()))
    plugin.hears(p.AfterToolBatch(results=()))
    assert len(plugin.wanted) == 2
    assert len(plugin.runs({})) == 1


def test_a_file_that_cannot_be_written_is_said_to_be_lost():
    """The reason is published, and the results after it are written all the same."""
    plugin = Alone(LargeResultOffload, token_limit=10)
    plugin.hears(result(LINES, call_id="c1"))
    plugin.hears(result(LINES, call_id="c2"))
    plugin.hears(p.AfterToolBatch(results=()))
    (lost,) = plugin.gets(failed("no space")).events
    assert (lost.name, lost.payload["call_id"], lost.payload["reason"]) == (
        "large_result_lost",
        "c1",
        "no space",
    )
    assert [event.call_id for event in plugin.runs({})] == ["c2"]


def test_one_long_line_is_cut_and_read_from_its_beginning():
    """Where the first line is longer than the preview, the file is read from line 1."""
    shown = Alone(LargeResultOffload, token_limit=10).hears(result("é" * 50)).result.text
    assert shown.startswith("é" * 20 + "\n\n[")
    assert "offset=1)" in shown


def test_without_a_tool_that_pages_none_is_named():
    """The model is not sent to a tool that it does not have."""
    shown = Alone(LargeResultOffload, token_limit=10).hears(result(LINES), tools=("shell",)).result.text
    assert "read_file" not in shown
    assert shown.endswith("Read the file in parts.]")


def test_it_keeps_the_contract_of_plugins():
    """`check_plugin`; a limit that is none refuses the start."""
    check_plugin(LargeResultOffload, options=[{}, {"token_limit": 1, "directory": "out/"}])
    with pytest.raises(PluginError, match="1 or more; got 0"):
        load_stack([(LargeResultOffload, {"token_limit": 0})])


@given(
    texts=st.lists(st.text(min_size=1, max_size=200).map(lambda text: text * 30), min_size=1, max_size=4),
    token_limit=st.integers(1, 1_000),
)
def test_no_result_is_lost_and_none_is_shown_over_the_limit(texts, token_limit):
    """Whatever tools say: the model sees all of it, or a beginning of it whose file has all of it."""
    plugin, files = Alone(LargeResultOffload, token_limit=token_limit), {}
    shown = [plugin.hears(result(text)).result for text in texts]
    plugin.hears(p.AfterToolBatch(results=()))
    announced = plugin.runs(files)
    assert [event.path for event in announced] == list(files)
    kept = iter(files.values())
    for text, seen in zip(texts, shown, strict=True):
        size = len(text.encode("utf-8", "surrogatepass"))
        assert (seen is not None) == (size > token_limit * 4)
        if seen is not None:
            head, _, _ = seen.text.rpartition("\n\n[This is the beginning")
            assert text.startswith(head)
            assert len(head.encode("utf-8", "surrogatepass")) <= min(PREVIEW_BYTES, token_limit * 4)
            assert next(kept) == text

"""`LargeResultOffload`: large results go into files, and nothing of them is lost."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.errors import PluginError
from agentrail.plugins.large_result_offload import PREVIEW_BYTES, LargeResultOffload
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.plugin_request_rig import Alone, failed, result

LINES = "".join(f"line {number}\n" for number in range(1, 1_001))


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

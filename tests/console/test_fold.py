"""The folds of the console against what Python makes of real sessions: every scenario, in node and in the browser; journals, at every record."""

import pytest

from tests.console.fold_cases import fold_cases
from tests.console.node import HERE, needs_node, run_in_node
from tests.console.past_cases import past_cases
from tests.thinned import nightly

IN_BROWSER = """async ([cases]) => {
  const { faultsOf } = await import("./tests/fold_cases.js");
  return cases.split("\\n").filter(Boolean).flatMap((line) => faultsOf(JSON.parse(line)));
}"""

pytestmark = pytest.mark.check


@pytest.fixture(scope="module")
def cases():
    return b"".join(fold_cases())


@pytest.mark.c(1)
@pytest.mark.c(3)
@needs_node
def test_the_fold_of_each_session_equals_its_snapshot(tmp_path, cases):
    """Behind each step; with duplicates anywhere; and for a reader that joins behind any step, in mid-stream, mid-retry and mid-tool."""
    assert "# pass 3\n" in run_in_node("fold_of_cases", "CONSOLE_FOLD_CASES", [cases], tmp_path)


@nightly
@pytest.mark.c(1)
def test_the_browser_folds_as_node_does(pages, console_server, cases):
    """The same cases, by the modules that the server gives."""
    page = pages.open(console_server.link("#/"))
    source = (HERE / "js" / "fold_cases.js").read_text()
    served = source.replace("../../../agentrail/gateway/console/", "../")
    page.route(
        "**/tests/fold_cases.js", lambda route: route.fulfill(body=served, content_type="text/javascript")
    )
    assert page.evaluate(IN_BROWSER, [cases.decode()]) == []


@pytest.mark.c(27)
@needs_node
def test_at_every_record_the_conversation_is_that_of_its_state(tmp_path):
    """Of the golden journals, and of one that goes back several times; in node."""
    assert "# skipped 0\n" in run_in_node("past", "CONSOLE_PAST_CASES", past_cases(), tmp_path)

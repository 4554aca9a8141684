"""The fold of the console against the snapshots of real sessions: every scenario, in node and in the browser."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.console.fold_cases import fold_cases

HERE = Path(__file__).parent
IN_BROWSER = """async ([cases]) => {
  const { faultsOf } = await import("./tests/fold_cases.js");
  return cases.split("\\n").filter(Boolean).flatMap((line) => faultsOf(JSON.parse(line)));
}"""

pytestmark = [pytest.mark.check, pytest.mark.c(1)]


@pytest.fixture(scope="module")
def cases():
    """All pairs, as lines."""
    return b"".join(fold_cases())


@pytest.mark.c(3)
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed: apt-get install nodejs")
def test_the_fold_of_each_session_equals_its_snapshot(tmp_path, cases):
    """Behind each step; with duplicates anywhere; and for a reader that joins behind any step, in mid-stream, mid-retry and mid-tool."""
    file = tmp_path / "cases.jsonl"
    file.write_bytes(cases)
    run = subprocess.run(
        ["node", "--test", f"{HERE}/js/fold_of_cases.test.js"],
        env={**os.environ, "CONSOLE_FOLD_CASES": f"{file}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    assert "# pass 3\n" in run.stdout


def test_the_browser_folds_as_node_does(pages, console_server, cases):
    """The same cases, by the modules that the server gives."""
    page = pages.open(console_server.link("#/"))
    source = (HERE / "js" / "fold_cases.js").read_text()
    served = source.replace("../../../agentrail/gateway/console/", "../")
    page.route(
        "**/tests/fold_cases.js", lambda route: route.fulfill(body=served, content_type="text/javascript")
    )
    assert page.evaluate(IN_BROWSER, [cases.decode()]) == []

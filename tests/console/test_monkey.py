"""A monkey in the console of the demo, for some seconds; `make soak-console` lets it in for ten minutes."""

import pytest

from agentrail.cli.demo_server import make_demo_application
from tests.console.monkey import heap_fault, let_loose
from tests.console.serving import AppThread
from tests.thinned import IS_NIGHTLY, sample


@pytest.mark.check
@pytest.mark.c(43)
def test_a_monkey_breaks_nothing(pages, tmp_path):
    """No exception, nothing that could not be drawn, each dialogue closes, and nothing leaves the origin."""
    app = make_demo_application(tmp_path)
    server = AppThread(app, drain=app.state.drain)
    try:
        link = f"http://127.0.0.1:{server.port}/console/#/"
        monkey = let_loose(pages.thread, link, seed=43, seconds=12 if IS_NIGHTLY else 4)
    finally:
        server.stop()
    assert monkey.faults == []
    assert monkey.steps > (50 if IS_NIGHTLY else 15)


THROWS = "() => { setTimeout(() => { throw new Error('planted'); }, 100); }"
REJECTS = "() => { void Promise.reject(new Error('planted')); }"
STAYS_OPEN = """() => {
  const dialog = document.body.appendChild(document.createElement("dialog"));
  dialog.innerText = "planted";
  dialog.addEventListener("close", () => dialog.showModal());
  dialog.showModal();
}"""


@pytest.mark.check
@pytest.mark.c(43)
@pytest.mark.parametrize("planted", sample([THROWS, REJECTS, STAYS_OPEN], 1))
def test_a_monkey_tells_of_what_is_broken(pages, scripted_server, planted):
    """An exception, a promise that nobody took, a dialogue that does not close: it ends at once, and says what."""
    monkey = let_loose(pages.thread, scripted_server.link("#/"), seed=1, seconds=30, planted=planted)
    assert monkey.faults
    assert "planted" in monkey.faults[0]
    assert monkey.steps < 60


@pytest.mark.c(43)
def test_a_heap_is_flat_or_is_not():
    """It may settle, and what is collected late is no growth; what goes up and stays is."""
    for heap_mb, told in (
        ([5, 9, 10, 11, 10, 12, 10, 11, 10], None),
        ([5, 9, 10, 14, 16, 18, 28, 30, 33], "grows"),
        ([5, 9, 61, 9, 9, 9, 9, 9, 9], "above 60 MB"),
        ([5, 61], "above 60 MB"),
        ([5, 30], None),
        ([], None),
    ):
        found = heap_fault(heap_mb)
        assert (found is None) if told is None else (told in (found or "")), heap_mb

"""Fixtures of the tests of the console. A test that asks for `pages` runs in the thread of the browser; without a browser it is skipped, and says why.

    @pytest.mark.check
    @pytest.mark.c(1)
    def test_a_prompt_is_shown(pages, console_server):
        page = pages.open(console_server.link("#/"))

CI opens each page, and runs a test of each numbered case. What is marked `nightly` is a further state, size or look of such a page, or a second
test of a case: a browser computes three seconds for each.

What a page may not do in any test is looked at behind each: no request leaves the origin, the policy reports nothing, no error is logged.
"""

import pytest

from tests.console.browsing import BrowserThread, OpenPages
from tests.console.scripted import ScriptedServer
from tests.console.serving import ConsoleServer
from tests.console.story import Story

NEEDED = ("chromium", "playwright")


def pytest_collection_modifyitems(items):
    for item in items:
        if "pages" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.services(*NEEDED))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test that asks for pages where the browser is."""
    pages = pyfuncitem.funcargs.get("pages")
    if pages is None:
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}  # noqa: SLF001 - as pytest itself
    pages.thread.run(pyfuncitem.obj, **given)
    return True


@pytest.fixture(scope="session")
def browser_thread():
    """The browser, for as long as there are tests."""
    thread = BrowserThread()
    yield thread
    thread.close()


@pytest.fixture
def pages(browser_thread, request):
    """Opens pages, and looks behind the test at what happened on them. They are closed in front of the servers that they are of."""
    for name in request.fixturenames:
        if name.endswith("_server"):
            request.getfixturevalue(name)
    opened = OpenPages(browser_thread)
    yield opened
    faults = browser_thread.run(opened.close)
    assert not faults, "\n".join(faults)


@pytest.fixture
def console_server():
    """A gateway on the loopback with a demo model, as `agentrail serve` has; `start(model=…, profiles=…, …)` begins it otherwise."""
    server = ConsoleServer()
    yield server
    server.stop()


@pytest.fixture
def story(scripted_server):
    return Story(scripted_server)


@pytest.fixture
def scripted_server():
    """A server that sends what a test writes by hand."""
    server = ScriptedServer()
    yield server
    server.stop()

"""The commands of pages are run as they stand there, by a shell, and show what the pages say that they show."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator

import pytest
import trio

from agentrail.gateway import TokenEntry, Tokens
from agentrail.testing.models import ScriptedModel, says
from tests.consoles import Console, Step, check_extras, fits, steps_in
from tests.gateway.web import serving
from tests.page_folders import PREPARED
from tests.pages import PAGES, ROOT, RUN_BY, fences_of, why_not_played
from tests.thinned import each, sample


@pytest.fixture
def console(tmp_path) -> Iterator[Console]:
    for program in ("bash", "curl"):
        if shutil.which(program) is None:
            reason = f"{program} is not installed, and the commands of the page need it"
            if os.environ.get("AGENTRAIL_REQUIRE_SERVICES"):
                pytest.fail(reason)
            pytest.skip(reason)
    made = Console(tmp_path)
    yield made
    made.close()


def played_on(page: str) -> list[Step]:
    """The commands of a page, but for those that are left out with a reason."""
    steps = [step for one in fences_of(page) if one.kind == "console" for step in steps_in(one.body)]
    return [step for step in steps if why_not_played(page, step.command) is None]


PLAYED = [page for page in PAGES if "console" not in RUN_BY.get(page, {}) and played_on(page)]
BEGINNERS = [page for page in PLAYED if page == "README.md" or "/tutorial/" in page]
"""Pages for beginners, of which CI plays two, and one of the others: `make lint-repository` holds the commands of all pages to our
command line."""


@pytest.mark.check
@pytest.mark.parametrize(
    "page",
    [*sample(BEGINNERS, 2), *sample([page for page in PLAYED if page not in BEGINNERS], len(PLAYED) // 8)],
)
def test_the_commands_of_a_page_work_as_they_stand(console, page):
    """From the first one to the last Ctrl-C, with what each shows, wrong input included; what is left out says why (`tests/pages.py`)."""
    prepare = PREPARED.get(page)
    if prepare is not None:
        prepare(console.folder)
    console.play(ROOT / page)
    assert console.played == len(played_on(page))


@pytest.mark.check
@pytest.mark.services("node")
async def test_a_page_of_a_browser_reads_a_stream_as_the_how_to_says(tmp_path):
    """Its script, word for word, by Node, whose `fetch` is that of browsers."""
    page = (ROOT / "docs" / "how-to" / "authenticate-users.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"^```javascript\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    token = hashlib.sha256(b"ann").digest()
    auth = Tokens([TokenEntry(digest=token, tenant_id="acme", user_id="ann")])
    async with serving(ScriptedModel([says("Hello, ", "\u2028world.", pause_seconds=0.2)]), auth=auth) as web:
        url = f"http://127.0.0.1:{web.address[1]}/stream"
        before = 'const token = "ann"; const show = (event) => console.log(event.kind ?? event.reason, event.delta ?? "");\n'
        (tmp_path / "page.mjs").write_text(before + script.replace("https://agents.example/stream", url))
        with trio.fail_after(60):
            done = await trio.run_process(["node", f"{tmp_path / 'page.mjs'}"], capture_stdout=True)
    lines = done.stdout.decode().rstrip().split("\n")  # not `splitlines`, which ends lines at more than that
    assert [line.split()[0] for line in lines][-2:] == ["agent_end", "completed"]
    said = [line.partition(" ")[2] for line in lines if line.startswith("message_delta")]
    assert said == ["Hello, ", "\u2028world."]


@pytest.mark.check
@pytest.mark.services("node")
async def test_a_page_of_usechat_leaves_out_what_was_discarded():
    """Its function, by Node: the text in front of the mark, in that step and in no other. Only the type of its parameter is taken off."""
    (function,) = [one.body for one in fences_of("docs/how-to/use-it-from-usechat.md") if one.kind == "ts"]
    kinds = "step-start text reasoning dynamic-tool data-discarded text step-start text".split()  # noqa: SIM905 - one line
    parts = json.dumps([{"type": kind, "n": number} for number, kind in enumerate(kinds)])
    untyped = function.replace(": UIMessage['parts']", "")
    script = f"{untyped}\nconsole.log(JSON.stringify(shownParts({parts}).map(one => one.n)))"
    with trio.fail_after(60):
        done = await trio.run_process(["node", "--eval", script], capture_stdout=True)
    assert json.loads(done.stdout) == [0, 3, 4, 5, 6, 7]


@each(
    ("shown", "seen", "is_it"),
    [
        (("a",), "a\n", True),
        (("a",), "b\n", False),
        (("a…c",), "abc\n", True),
        (("a…c",), "a\nc\n", False),
        (("a", "…", "c"), "a\n\nb\nb\nc\n", True),
        (("a", "…"), "a\n", True),
        (("a", "…"), "b\na\n", False),
        (("a", "c"), "a\nb\nc\n", False),
        (("a.c",), "abc\n", False),
        (("a",), "a\nb\n", False),
        (("at 2026-11-21 20:56:12",), "at 2027-01-02 03:04:05\n", True),
        (("at 2026-11-21 20:56:12",), "at noon\n", False),
    ],
)
def test_what_is_shown_is_held_against_what_came(shown, seen, is_it):
    """A page that lies fails: nothing is left out but where it says so."""
    assert fits(shown, seen) is is_it


def test_a_fence_is_read_as_commands_and_what_they_show():
    """A backslash goes on with a command; a comment behind it is the reader's. An extra that there is not is seen."""
    text = "$ one \\\n    two   # says it\n$ agentrail serve x:y\nhttp://a\n^C\nagentrail: stopped.\n"
    steps = [*steps_in(text)]
    served = Step("agentrail serve x:y", ("http://a",))
    assert steps == [Step("one two"), served, Step("^C", ("agentrail: stopped.",))]
    assert [step.starts_server for step in steps] == [False, True, False]
    check_extras('-e ".[gateway]" fastapi')
    with pytest.raises(AssertionError):
        check_extras(".[gatway]")

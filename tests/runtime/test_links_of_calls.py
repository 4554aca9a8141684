"""Rules of paths hold for where a link leads too: a call is judged by the name of a file, and by the file (12.7)."""

import pytest

from agentrail import plugins as p
from agentrail.events import ToolExecutionEnd
from agentrail.plugins import Permissions
from agentrail.sandboxes.composite import CompositeSandbox
from agentrail.sandboxes.local import LocalSandbox
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools import builtin

RULES = {
    "mode": "accept_edits",
    "deny": ["read_file(*.pem)", "read_file(./private/**)"],
    "ask": ["read_file(*.key)"],
    "allow": ["read_file"],
}


@pytest.fixture
def place(tmp_path):
    """A workspace with links, reached by a link itself."""
    real = tmp_path / "real"
    (real / "private").mkdir(parents=True)
    for name in ("a.pem", "a.key", "plain.txt", "private/x"):
        (real / name).write_text("SECRET")
    for name, end in (
        ("p.txt", "a.pem"), ("k.txt", "a.key"), ("open.txt", "plain.txt"), ("d", "private"), ("out", "/etc/hostname"), ("twice", "p.txt"),
    ):  # fmt: skip
        (real / name).symlink_to(end)
    (tmp_path / "work").symlink_to(real)
    return tmp_path / "work"


async def results_of(supervisor, place, *wanted, plugins=((Permissions, RULES),), sandbox=None):
    sandbox = sandbox or LocalSandbox(place)
    session = await supervisor.start_session(
        model=ScriptedModel([calls(*wanted), says("done")]),
        tools=builtin("read_file", "write_file", "list_dir"),
        plugins=list(plugins),
        working_dir=place,
        sandbox=sandbox,
    )
    async with session.subscribe(kinds=[ToolExecutionEnd]) as events:
        await session.ask("go")
        found = {}
        for _ in wanted:
            event = await anext(events)
            found[event.call_id] = event.result
    await session.stop()
    await sandbox.aclose()
    return [found[key] for key in sorted(found)]


def read(path):
    return ("read_file", {"path": path})


async def test_what_a_link_leads_to_is_denied_with_it(supervisor, place):
    """Of a file, of a directory above it, of a link to a link, and for writing; a harmless link is no hindrance."""
    found = await results_of(
        supervisor,
        place,
        read("p.txt"),
        read("d/x"),
        read("twice"),
        ("write_file", {"path": "d/new", "content": "x"}),
        read("k.txt"),
        read("open.txt"),
        read("plain.txt"),
    )
    assert [one.is_error for one in found] == [True] * 5 + [False] * 2, found
    assert "'p.txt' leads to" in found[0].text
    assert "the rule read_file(*.pem) (session) denies it" in found[0].text
    assert "which needs the user's approval" in found[4].text
    assert "call it again with that path" in found[4].text
    assert not any("SECRET" in one.text for one in found[:5])
    assert not (place / "private/new").exists()


async def test_links_below_a_prefix_are_followed_too(supervisor, place, tmp_path):
    """A rule of a path names the composite's places, whichever sandbox has the file."""
    (tmp_path / "empty").mkdir()
    sandbox = CompositeSandbox(LocalSandbox(tmp_path / "empty"), {"/docs/": LocalSandbox(place)})
    rules = {**RULES, "deny": ["read_file(*.pem)", "read_file(./docs/private/**)"]}
    wanted = [read(f"docs/{name}") for name in ("p.txt", "d/x", "k.txt", "open.txt")]
    found = await results_of(supervisor, place, *wanted, plugins=((Permissions, rules),), sandbox=sandbox)
    assert [one.is_error for one in found] == [True] * 3 + [False], found
    assert "'docs/d/x' leads to" in found[1].text


class Broken(p.Plugin[str]):
    priority = 6

    def init(self, *, how: str) -> str:
        return how

    def path_of(self, name, arguments):
        return arguments["path"] if arguments["path"] != "plain.txt" else 1 / 0

    def refusal_of_end(self, state, name, arguments, working_dir, end):
        return 7 if state == "number" else 1 / 0


@pytest.mark.parametrize("how", ["number", "raise"])
async def test_a_judge_that_is_broken_lets_nothing_run(supervisor, place, how):
    """Neither the path nor its end was judged."""
    plugins = [(Broken, {"how": how})]
    found = await results_of(
        supervisor, place, read("open.txt"), read("plain.txt"), read("a.key"), plugins=plugins
    )
    assert [one.is_error for one in found] == [True, True, False], found
    assert "is broken" in found[0].text
    assert "is broken" in found[1].text

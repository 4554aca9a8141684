"""`CompositeSandbox`: where a path leads, and what is put together of several."""

import pytest
import trio

from agentrail.abc import ExecuteOptions, FileBytes, GrepOptions
from agentrail.abc.secret import Secret
from agentrail.errors import OptionError
from agentrail.sandboxes.composite import CompositeSandbox
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.memory import MemorySandbox


@pytest.fixture
def parts():
    """A default and two others, one below the prefix of the other."""
    return {
        "default": MemorySandbox({"a.py": "needle\n", "src/b.py": "x\n", "memories/hidden": "never seen"}),
        "memories": MemorySandbox({"m.py": "needle\n", "deep/lost": "never seen"}),
        "deep": MemorySandbox({"d.py": "needle\n"}),
    }


@pytest.fixture
def sandbox(parts):
    routes = {"/memories/": parts["memories"], "/memories/deep/": parts["deep"]}
    return CompositeSandbox(parts["default"], routes)


@pytest.mark.parametrize("routes", ["memories/", "/memories", "/", "", "/a/../b/", "//", "/~/../"])
def test_a_prefix_has_slashes_around_it(routes):
    """And is no root, climbs nowhere, and is there once, in whichever way it is written: checked at construction."""
    with pytest.raises(OptionError, match="expected a path such as '/memories/', with a slash at both ends"):
        CompositeSandbox(MemorySandbox(), {routes: MemorySandbox()})
    with pytest.raises(OptionError, match="route '/memories//' is given twice"):
        CompositeSandbox(MemorySandbox(), {"/memories/": MemorySandbox(), "/memories//": MemorySandbox()})


async def test_each_sandbox_gets_what_is_its_own(sandbox, parts):
    """Writes, edits and bytes go where the path leads, and nowhere else."""
    await sandbox.write("/memories/new", "1")
    await sandbox.edit("/memories/deep/d.py", "needle", "pin")
    transfers = await sandbox.upload(
        [FileBytes(path="/memories/up", content=b"2"), FileBytes(path="down", content=b"3")]
    )
    assert [one.path for one in transfers] == ["/memories/up", "down"]
    assert (await parts["memories"].read("new")).text == "1"
    assert (await parts["deep"].read("d.py")).text == "pin\n"
    assert [one.content for one in await parts["memories"].download(["up"])] == [b"2"]
    assert [one.content for one in await sandbox.download(["down", "/memories/up", "nowhere"])] == [
        b"3",
        b"2",
        None,
    ]
    assert not await parts["default"].exists("up")


async def test_prefixes_are_directories(sandbox):
    """In the listing of what is above them, in place of what the sandbox there has; and nothing climbs out of one."""
    assert [entry.name for entry in (await sandbox.list_dir("/")).entries] == ["memories", "src", "a.py"]
    assert [entry.name for entry in (await sandbox.list_dir("/memories")).entries] == ["deep", "m.py"]
    for path, is_there in (
        ("/memories", True),
        ("memories/deep/", True),
        ("memories/hidden", False),
        ("memories/deep/lost", False),
    ):
        assert await sandbox.exists(path) is is_there, path
    for path in ("/memories/../a.py", "memories/deep/../m.py", "../a.py"):
        found = await sandbox.read(path)
        assert found.error is not None
        assert found.error.code == "invalid_path"
        assert not await sandbox.exists(path)


async def test_a_prefix_may_hang_in_the_air():
    """The directories on the way to it need not exist in the default."""
    sandbox = CompositeSandbox(MemorySandbox(), {"/a/b/c/": MemorySandbox({"x": "needle"})})
    assert [entry.name for entry in (await sandbox.list_dir("/a/b")).entries] == ["c"]
    assert (await sandbox.glob("**/x", "/a")).paths == ("a/b/c/x",)
    assert [line.path for line in (await sandbox.grep("needle", "a", GrepOptions())).lines] == ["a/b/c/x"]
    assert await sandbox.exists("a/b")


async def test_a_search_above_several_asks_all(sandbox):
    """Paths have the prefix again, the default comes first, what a prefix hides is not found; the limit is over the total."""
    found = await sandbox.glob("**/*.py", ".")
    assert found.paths == ("a.py", "src/b.py", "memories/m.py", "memories/deep/d.py")
    assert (await sandbox.glob("*/", "/")).paths == ("src/", "memories/")
    assert (await sandbox.glob("*.py", "memories/deep")).paths == ("memories/deep/d.py",)
    lines = (await sandbox.grep("needle", "/", GrepOptions())).lines
    assert [line.path for line in lines] == ["a.py", "memories/m.py", "memories/deep/d.py"]
    assert (await sandbox.grep("never seen", "/", GrepOptions())).lines == ()
    assert (await sandbox.glob("**/hidden", "/")).paths == ()
    for most, shown, truncated in ((1, 1, True), (2, 2, True), (3, 3, False), (4, 3, False)):
        found = await sandbox.grep("needle", "/", GrepOptions(max_results=most))
        assert (len(found.lines), found.truncated) == (shown, truncated)


async def test_commands_and_snapshots_are_the_default_s(sandbox):
    """The others have no part in them."""
    assert sandbox.capabilities == frozenset({"snapshot"})
    kept = await sandbox.snapshot()
    await sandbox.write("a.py", "changed")
    await sandbox.write("/memories/m.py", "changed")
    assert await sandbox.restore(kept) is None
    assert (await sandbox.read("a.py")).text == "needle\n"
    assert (await sandbox.read("/memories/m.py")).text == "changed"
    for workdir in (".", "/memories"):
        refused = (await sandbox.execute("true", ExecuteOptions(workdir=workdir))).error
        assert refused is not None
        assert refused.code == "unsupported"


class _ClosedByName(MemorySandbox):
    def __init__(self, name, closed):
        super().__init__()
        self.name, self.closed = name, closed

    async def aclose(self):
        self.closed.append(self.name)
        await trio.lowlevel.checkpoint()
        if self.name == "broken":
            message = "the connection was lost"
            raise OSError(message)


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_all_are_closed_even_if_one_of_them_cannot_be(is_cancelled):
    """Neither a cancellation nor an error of one leaves the others open."""
    closed = []
    first, *others = (_ClosedByName(name, closed) for name in ("first", "broken", "last"))
    whole = CompositeSandbox(first, dict(zip(("/a/", "/b/"), others, strict=True)))
    if is_cancelled:
        with trio.CancelScope() as scope:
            scope.cancel()
            await whole.aclose()
        assert scope.cancelled_caught
    else:
        with pytest.raises(OSError, match="the connection was lost"):
            await whole.aclose()
    assert closed == ["first", "broken", "last"]


async def test_links_are_followed_in_the_sandbox_of_a_path(tmp_path):
    """A relative end begins with the prefix, an absolute one stays, and a sandbox without links has no end."""
    for folder in ("first", "other"):
        (tmp_path / folder / "private").mkdir(parents=True)
        (tmp_path / folder / "private/x").touch()
        (tmp_path / folder / "link").symlink_to("private")
        (tmp_path / folder / "out").symlink_to("/etc/hostname")
    first, other = (LocalSandbox(tmp_path / folder) for folder in ("first", "other"))
    sandbox = CompositeSandbox(first, {"/other/": other, "/notes/": MemorySandbox({"n": "text"})})
    ends = {
        path: await sandbox.leads_to(path)
        for path in ("link/x", "other/link/x", "/other/out", "other/private/x", "notes/n", "other/../link")
    }
    await sandbox.aclose()
    assert ends == {
        "link/x": "private/x",
        "other/link/x": "other/private/x",
        "/other/out": "/etc/hostname",
        "other/private/x": None,
        "notes/n": None,
        "other/../link": None,
    }


def test_the_secrets_of_all_are_held():
    """Those of the default, then those below prefixes."""

    class Keyed(MemorySandbox):
        def __init__(self, *secrets):
            super().__init__()
            self.secrets = secrets

    whole = CompositeSandbox(
        Keyed("one", Secret("two")), {"/a/": MemorySandbox(), "/b/": CompositeSandbox(Keyed("three"), {})}
    )
    assert whole.secrets == ("one", "two", "three")

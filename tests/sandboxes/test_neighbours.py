"""What a confined command of one user sees of the others, and of what agentrail itself keeps."""

import os
import pwd
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import assume, given, strategies as st

import agentrail
from agentrail.abc import ExecuteOptions, GrepOptions
from agentrail.blueprints.secret_refs import secret_of
from agentrail.config.schema import SecretForm
from agentrail.errors import OptionError
from agentrail.gateway import read_token_file
from agentrail.messages import ToolMessage
from agentrail.private_paths import keep_private
from agentrail.sandboxes.bubblewrap import find_neighbours
from agentrail.sandboxes.local import LocalSandbox
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools import builtin

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "deploy.md"
needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")


@pytest.fixture
def served():
    """The layout that the page on deployment shows, outside of homes and temporary directories, as on a server."""
    base = Path("/srv") / f"agentrail-tests-{os.getpid()}"
    try:
        base.mkdir(parents=True)
    except OSError:
        pytest.skip("/srv cannot be written")
    layout = re.findall(r"^/data/(\S+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert layout == ["agentrail/", "tokens.toml", "workspaces/ann/", "workspaces/bob/"]
    for name in layout:
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if name.endswith("/") else path.write_text("[tokens]\n# secret-of-operator\n")
    yield base
    shutil.rmtree(base)


@needs_bubblewrap
async def test_users_without_a_home_are_skipped(tmp_path, monkeypatch):
    """A line of NIS in /etc/passwd, such as `+@staff`, has only a name."""
    everybody = [*pwd.getpwall(), pwd.struct_passwd(("+@staff", None, 0, 0, None, None, None))]
    monkeypatch.setattr(pwd, "getpwall", lambda: everybody)
    sandbox = LocalSandbox(tmp_path)
    assert (await sandbox.execute("echo done", ExecuteOptions())).output == "done\n"


@needs_bubblewrap
@pytest.mark.parametrize("variable", ["PATH", "HOME"])
async def test_a_variable_that_names_a_link_to_itself_is_skipped(tmp_path, monkeypatch, variable):
    """Python 3.11 and 3.12 raise RuntimeError when they resolve such a link, and every command failed with it."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    monkeypatch.setenv(variable, f"{loop}:{os.environ['PATH']}" if variable == "PATH" else str(loop))
    (root := tmp_path / "work").mkdir()
    assert (await LocalSandbox(root).execute("echo done", ExecuteOptions())).output == "done\n"


@needs_bubblewrap
async def test_of_the_documented_layout_a_command_sees_its_own_workspace_alone(served):
    """Neither the files of another user, nor the journal of all sessions, nor the tokens, by whatever name."""
    (served / "workspaces" / "bob" / "secret.txt").write_text("secret-of-bob")
    mine = served / "workspaces" / "ann"
    (mine / "own.txt").write_text("own")
    search = f"cat own.txt; grep -rasl secret-of- {served} /srv ../.. 2>/dev/null; ls {served}/workspaces ..; echo done"
    async with agentrail.open_supervisor(store="sqlite:", data_dir=served / "agentrail") as supervisor:
        other = await supervisor.start_session(
            model=ScriptedModel([says("noted")]), working_dir=str(served / "workspaces" / "bob"), tools=[]
        )
        await other.ask("my password is secret-of-journal")
        script = ScriptedModel([calls(("shell", {"command": search})), says("done")])
        session = await supervisor.start_session(model=script, working_dir=str(mine), tools=builtin("shell"))
        await session.ask("go")
        answered = next(one for one in await session.messages() if isinstance(one, ToolMessage))
    shown = "".join(one.text for one in answered.results)
    assert shown.startswith("own")
    assert "secret" not in shown.replace("secret-of-", "")
    assert not {"sessions.db", "tokens.toml", "bob"} & {*re.split(r"[\s/]+", shown)}


@needs_bubblewrap
async def test_what_agentrail_keeps_inside_of_a_workspace_is_hidden_too(tmp_path):
    """A data directory, a token file and a key below the root: no command reads them, and no file tool reads, writes, lists or searches them."""
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "api.txt").write_text("secret-key\n")
    (tmp_path / "tokens.toml").write_text("# secret-tokens\n")
    (tmp_path / "tokens.toml").chmod(0o600)
    sandbox = LocalSandbox(tmp_path)  # before anything is registered
    assert secret_of(SecretForm(file="keys/api.txt"), str(tmp_path), {}) == "secret-key"
    with pytest.raises(OptionError, match="there is no token"):
        read_token_file(tmp_path / "tokens.toml")
    (tmp_path / "data").mkdir()
    (tmp_path / ".agentrail" / "more").mkdir(parents=True)
    keep_private(tmp_path, tmp_path / ".agentrail" / "more", tmp_path / "data" / "below")
    keep_private(tmp_path / ("x" * 300))  # a store that could not be opened: no file has such a name
    async with agentrail.open_supervisor(store="sqlite:", data_dir=tmp_path / "data") as supervisor:
        session = await supervisor.start_session(
            model=ScriptedModel([says("x")]), working_dir=str(tmp_path), tools=[]
        )
        await session.ask("secret-word")
        ran = await sandbox.execute(
            "grep -ras secret . ; ls data keys; echo x > data/new; echo done",
            ExecuteOptions(timeout_seconds=20),
        )
    assert ran.output.endswith("done\n")
    assert "secret" not in ran.output
    assert "sessions.db" not in ran.output
    assert not (tmp_path / "data" / "new").exists()
    for path in ("keys/api.txt", "tokens.toml", "data/sessions.db"):
        found = await sandbox.read(path)
        assert found.error is not None, path
        assert found.error.code == "permission_denied", path
        written = await sandbox.write(path, "x")
        assert written.error is not None, path
    searched = await sandbox.grep("secret", "", options=GrepOptions())
    assert searched.lines == ()
    assert "tokens.toml" not in {entry.name for entry in (await sandbox.list_dir("")).entries}
    await sandbox.aclose()


@pytest.mark.parametrize(
    ("root", "hidden"),
    [
        ("/srv/agentrail/workspaces/ann", "/srv"),
        ("/data/workspaces/ann", "/data"),
        ("/var/lib/agentrail/ann", "/var/lib/agentrail"),
        ("/opt/app/work", "/opt/app"),
        ("/usr/local/users/ann", "/usr/local/users"),
        ("/mnt/disk/ann", "/mnt"),
    ],
)
def test_what_lies_around_a_workspace_is_hidden_whole(root, hidden):
    """From the first directory on that is none of the system, so that users of other tenants are too."""
    assert find_neighbours(Path(root)) == (Path(hidden),)


def test_next_to_directories_of_the_system_only_what_is_not_the_systems_is_hidden(tmp_path, monkeypatch):
    """A program directory stays, as does all that every machine has."""
    monkeypatch.setattr("agentrail.sandboxes.bubblewrap._BASES", (tmp_path,))
    for name in ("ann", "bob", "usr", "lib", "tools/bin"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "bob")
    monkeypatch.setenv("PATH", f"relative:{tmp_path}/tools/bin")
    assert find_neighbours(tmp_path / "ann") == (tmp_path / "bob",)
    assert find_neighbours(Path("/")) == ()


_WORDS = st.lists(st.sampled_from(["a", "b", "usr", "lib"]), min_size=1, max_size=4)


@given(st.sampled_from(["/srv", "/data", "/var/lib/x", "/opt/x", "/usr/local/x"]), _WORDS, _WORDS)
def test_no_two_workspaces_below_one_directory_see_each_other(base, one, other):
    """However deep each of them lies."""
    mine, theirs = Path(base, *one), Path(base, *other)
    assume(not mine.is_relative_to(theirs) and not theirs.is_relative_to(mine))
    assert any(theirs.is_relative_to(hidden) for hidden in find_neighbours(mine))

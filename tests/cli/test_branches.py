"""`agentrail sessions fork`, `export` and `import`, as processes."""

import json

import pytest

from tests.cli.rig import run_agentrail

DEMO = ("--model", "demo:fast", "--tools", "list_dir")


@pytest.fixture
def ask(tmp_path):
    """Runs `agentrail` over a store of this test; another one where its name is given."""

    async def run(*arguments, store="data"):
        variables = {"AGENTRAIL_DATA_DIR": str(tmp_path / store)}
        return await run_agentrail(*arguments, variables=variables)

    return run


@pytest.fixture
async def session(ask, tmp_path):
    """The id of a session that one run has left."""
    ran = await ask("run", "look around, canary", *DEMO, "--cwd", str(tmp_path), "--keep")
    assert ran.code == 0
    return ran.err.rsplit(maxsplit=1)[-1]


@pytest.mark.journal(24)
async def test_a_session_goes_to_another_store_and_back_is_the_same(ask, session, tmp_path):
    """Export, import, export: one file, bit for bit; it is lived again without a difference."""
    file = tmp_path / "session.jsonl"
    ran = await ask("sessions", "export", session, "-o", str(file))
    assert (ran.code, ran.err) == (0, "")
    assert str(len(file.read_bytes())) in ran.out
    ran = await ask("sessions", "import", str(file), store="other")
    assert (ran.code, ran.err) == (0, "")
    assert session in ran.out
    ran = await ask("sessions", "export", session, store="other")
    assert ran.out.encode() == file.read_bytes()
    ran = await ask("sessions", "check", store="other")
    assert ran.code == 0
    ran = await ask("sessions", "export", session, "-o", str(file))
    assert ran.code == 2
    assert "is there already" in ran.err


@pytest.mark.journal(24)
async def test_a_changed_export_is_refused_with_its_record(ask, session, tmp_path):
    """Nothing of it is in the store."""
    file = tmp_path / "session.jsonl"
    text = (await ask("sessions", "export", session)).out
    file.write_text(text.replace("canary", "parrot"))
    ran = await ask("sessions", "import", str(file), store="other")
    assert ran.code == 1
    assert "record 1 is damaged" in ran.err or "record 3 is damaged" in ran.err
    ran = await ask("sessions", "list", "--all", "--json", store="other")
    assert ran.out == ""
    ran = await ask("sessions", "import", str(tmp_path / "nowhere.jsonl"))
    assert ran.code == 2
    file.write_text("hello\n")
    ran = await ask("sessions", "import", str(file))
    assert ran.code == 2
    assert "no export of a session" in ran.err


@pytest.mark.journal(25)
async def test_an_export_without_content_holds_no_word(ask, session):
    """Kinds, numbers, times and sizes."""
    ran = await ask("sessions", "export", session, "--no-content")
    assert ran.code == 0
    assert "canary" not in ran.out
    assert '"kind":"prompt"' in ran.out
    ran = await ask("sessions", "export", session, "--no-content", "--format", "markdown")
    assert ran.code == 0
    assert ran.out.startswith("## User\n\n19 characters\n")


async def test_a_conversation_is_written_as_markdown(ask, session):
    """For people."""
    ran = await ask("sessions", "export", session, "--format", "markdown")
    assert ran.code == 0
    assert ran.out.startswith("## User\n\nlook around, canary")
    assert "**Calls list_dir**" in ran.out


@pytest.mark.journal(21)
async def test_a_fork_is_in_the_list_and_can_be_gone_on_with(ask, session):
    """It has what was said up to its number; the session that it came from is as it was."""
    before = (await ask("sessions", "export", session)).out
    ran = await ask("sessions", "fork", session, "--turn", "1", "--id", "s-branch")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"s-branch: a fork of {session} behind record ")
    rows = [json.loads(line) for line in (await ask("sessions", "list", "--json")).out.splitlines()]
    assert {row["session"] for row in rows} == {session, "s-branch"}
    text = (await ask("sessions", "export", "s-branch", "--format", "markdown")).out
    assert "look around, canary" in text
    assert (await ask("sessions", "export", session)).out == before
    ran = await ask("sessions", "fork", session, "--at", "1")
    assert ran.code == 0
    for arguments, said in (
        (("--at", "99"), "expected one from 1 to"),
        (("--turn", "99"), "expected one from 1 to"),
        (("--at", "1", "--turn", "1"), "give one of them"),
        (("--id", "s-branch"), "s-branch"),
    ):
        ran = await ask("sessions", "fork", session, *arguments)
        assert ran.code == 2
        assert said in ran.err
    ran = await ask("sessions", "fork", "s-nowhere")
    assert ran.code == 2
    assert "sessions list" in ran.err


@pytest.mark.at(146)
async def test_a_fork_with_files_gets_a_copy_of_them(ask, session, tmp_path):
    """In the directory that is named; what cannot be leaves nothing, in the store or beside it."""
    place = tmp_path / "there"
    (tmp_path / "work" / "sub").mkdir(parents=True)
    (tmp_path / "work" / "sub" / "a").write_text("a")
    ran = await ask("run", "look", *DEMO, "--cwd", str(tmp_path / "work"), "--keep")
    session = ran.err.rsplit(maxsplit=1)[-1]
    ran = await ask("sessions", "fork", session, "--id", "s-branch", "--files", str(place))
    assert (ran.code, ran.err) == (0, "")
    assert f"cd {place} && agentrail chat --resume s-branch" in ran.out
    assert (place / "sub" / "a").read_text() == "a"
    assert f'"working_dir":"{place}"' in (await ask("sessions", "export", "s-branch")).out
    ran = await ask("sessions", "fork", session, "--files", str(place))
    assert ran.code == 2
    assert "there is something in it" in ran.err
    other = tmp_path / "other"
    ran = await ask("sessions", "fork", session, "--id", "s-branch", "--files", str(other))
    assert ran.code == 2
    assert not other.exists()

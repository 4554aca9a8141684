"""What a person always allows is kept in a file that people read and edit, and holds from there (12.7)."""

import os
import subprocess
import sys
import tomllib

import pytest
from hypothesis import given, strategies as st

from agentrail.blueprints.blueprint import Blueprint
from agentrail.blueprints.config_discovery import find_files
from agentrail.blueprints.configuration import read_configuration
from agentrail.blueprints.saved_permissions import keep_allowed
from agentrail.blueprints.trust_store import changing_files, digests_of, is_trusted, read_trust, write_trust
from agentrail.cli.config_command import trust as trust_directory
from agentrail.cli.exit_codes import Exit
from agentrail.cli.permissions_command import read_policy
from agentrail.config.permission_toml import with_allowed
from agentrail.errors import OptionError
from agentrail.plugins import Permissions
from agentrail.plugins.permission_always import proposed_rules
from agentrail.plugins.permission_policy import join
from agentrail.plugins.permission_verdict import PermissionCall, explain_call, judge

RULES = st.lists(
    st.text(min_size=1, max_size=12).filter(lambda text: text.encode("utf-8", "ignore").decode() == text),
    max_size=4,
)
TEXTS = st.sampled_from(
    (
        "", "# mine\n", "[permissions]\n", "[permissions] # mine\nmode = 'strict'\n", 'mode = "strict"\n', "allow = []\n", "[permissions]\nallow = ['a', # b\n  'c']\ndeny = ['d']\n",
        '[permissions]\ndeny = ["allow = ["]\n', "version = 1\n[permissions]\nallow = ['a',]\n", "[permissions]\nallow=[\n  'a' # last\n]", "[permissions]",
    )
)  # fmt: skip


@given(TEXTS, RULES)
def test_rules_are_added_and_nothing_else_changes(text, rules):
    """All that was there is there, comments too; what is added once is not added again."""
    made = with_allowed(text, rules, name="f.toml")
    before, after = tomllib.loads(text), tomllib.loads(made)
    table = after.get("permissions", after)
    old = before.get("permissions", before).get("allow", [])
    assert table.get("allow", []) == [*old, *(one for one in dict.fromkeys(rules) if one not in old)]
    for comment in ("# mine", "# b", "# last"):
        assert (comment in text) <= (comment in made)
    assert with_allowed(made, rules, name="f.toml") == made


@pytest.mark.parametrize(
    "text",
    [
        "[permissions]\r\ndeny = ['d']\r\n",
        "[permissions] # mine\r\n",
        "deny = ['d'] # permissions\n",
        "deny = ['permissions']",
    ],
)
def test_rules_are_added_to_files_of_other_editors(text):
    """Windows ends lines with two characters; and a word is not yet a table."""
    after = tomllib.loads(with_allowed(text, ["b"], name="f.toml"))
    table = after.get("permissions", after)
    before = tomllib.loads(text)
    assert table == {**before.get("permissions", before), "allow": ["b"]}


@pytest.mark.parametrize(
    "text", ["permissions = { allow = ['a'] }\n", "permissions.allow = ['a']\n", "[permissions\n"]
)
def test_what_cannot_be_edited_is_left_to_its_author(text):
    """Nothing is written over that is not understood."""
    with pytest.raises(OptionError, match=r"f[.]toml"):
        with_allowed(text, ["b"], name="f.toml")


@pytest.fixture
def project(tmp_path):
    """A home, and a project in it with one file; and how to trust it."""
    home, place = tmp_path / "home", tmp_path / "home" / "proj"
    place.mkdir(parents=True)
    (place / "agentrail.toml").write_text('[permissions]\nmode = "default"\n')
    environ = {"HOME": str(home)}

    def trust():
        files = find_files(None, environ, place)
        write_trust(read_trust(environ).with_directory(str(place.resolve()), digests_of(files)), environ)

    return home, place, environ, trust


def policy_of(environ, place):
    read = read_configuration(environ, cwd=place).check()
    ((_, options),) = [
        one
        for one in Blueprint(permissions=read.settings.policies).options()["plugins"]
        if one[0] is Permissions
    ]
    return Permissions().init(**options).policy


def test_always_is_kept_in_the_file_of_a_trusted_project_else_in_the_user_s(project):
    """G-017: the narrowest rule stands in the file, `explain` names it with its line, and the project is trusted still."""
    home, place, environ, trust = project
    call = PermissionCall(tool="shell", arguments={"command": "git log -n 1"}, working_dir=str(place))
    rules = proposed_rules(call, judge(policy_of(environ, place), call))
    assert rules == ("shell(git log *)",)
    kept = keep_allowed(rules, environ, cwd=place)
    assert (kept.scope, kept.path) == ("user", home / ".agentrail/permissions.toml")
    assert judge(policy_of(environ, place), call).decision == "allow"
    kept.path.unlink()
    trust()
    kept = keep_allowed(rules, environ, cwd=place)
    assert (kept.scope, kept.path) == ("project", place / ".agentrail/permissions.toml")
    assert kept.shown == ".agentrail/permissions.toml"
    assert (kept.path.stat().st_mode & 0o777) == 0o600
    assert is_trusted(find_files(None, environ, place), environ)
    verdict = explain_call(policy_of(environ, place), call)
    assert (verdict.decision, [one.text for one in verdict.by]) == ("allow", ["shell(git log *)"])
    shown = explain_call(join({"session": read_policy(kept.path)}), call).by[0]
    assert shown.place == f"{kept.path}:3"
    assert (
        judge(
            policy_of(environ, place), PermissionCall(tool="shell", arguments={"command": "git push"})
        ).decision
        == "ask"
    )
    bash = PermissionCall(tool="shell", arguments={"command": "bash -c 'git log'"}, working_dir=str(place))
    assert proposed_rules(bash, judge(policy_of(environ, place), bash)) == ()
    assert keep_allowed((), environ, cwd=place) is None


def test_what_changed_beside_it_is_not_trusted_with_it(project):
    """A file that others changed in between was seen by nobody; nothing is written into a project that is not trusted."""
    _, place, environ, trust = project
    trust()
    (place / "agentrail.toml").write_text('[permissions]\nmode = "bypass"\n')
    assert keep_allowed(["shell(ls *)"], environ, cwd=place).scope == "user"
    assert not is_trusted(find_files(None, environ, place), environ)
    assert not (place / ".agentrail").exists()


def test_always_leaves_all_else_trusted(project, monkeypatch):
    """The files of other programs that a project imports, and its skills, are trusted as before: "always" is no reason to doubt them."""
    _, place, environ, _ = project
    (place / "agentrail.toml").write_text('[import]\npermissions = ["claude"]\n')
    skill = place / ".agentrail" / "skills" / "notes"
    for path, text in (
        (place / ".claude" / "settings.json", '{"permissions": {"allow": ["Bash(wc:*)"]}}'),
        (
            skill / "SKILL.md",
            "---\nname: notes\ndescription: Writes notes.\nallowed-tools: shell\n---\nWrite.\n",
        ),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    monkeypatch.chdir(place)
    monkeypatch.setenv("HOME", environ["HOME"])
    assert trust_directory() is Exit.DONE
    for rule in ("shell(git log *)", "shell(ls *)"):
        assert keep_allowed([rule], environ, cwd=place).scope == "project"
        read = read_configuration(environ, cwd=place).check()
        assert read.trusted
        assert [one.is_trusted for one in read.read_skills().skills if one.name == "notes"] == [True]
    counts = PermissionCall(tool="shell", arguments={"command": "wc x | git log"})
    assert judge(policy_of(environ, place), counts).decision == "allow"


@pytest.mark.parametrize("text", [None, "allow = ['shell(wc *)']\n"])
def test_what_came_between_the_look_and_the_write_is_not_trusted(project, monkeypatch, text):
    """A command that runs in the project writes there at the worst moment: its rules are in no file that is trusted."""
    _, place, environ, trust = project
    path = place / ".agentrail" / "permissions.toml"
    path.parent.mkdir()
    if text is not None:
        path.write_text(text)
    trust()

    def looked(*given):
        answer = is_trusted(*given)
        path.write_text("allow = ['shell']\n")
        return answer

    monkeypatch.setattr("agentrail.blueprints.saved_permissions.is_trusted", looked)
    assert keep_allowed(["shell(ls *)"], environ, cwd=place).scope == "project"
    read = read_configuration(environ, cwd=place)
    assert read.trusted
    allowed = [rule.value for policy in read.settings.policies for rule in policy.allow]
    assert allowed == [*(["shell(wc *)"] if text else []), "shell(ls *)"]


def test_a_project_of_rules_alone_is_one(project):
    """Found by its file; untrusted, its `allow` does not count, and its `deny` does (12.1). One for permissions holds nothing else."""
    home, _, environ, _ = project
    other = home / "other"
    (other / ".agentrail").mkdir(parents=True)
    path = other / ".agentrail" / "permissions.toml"
    path.write_text('deny = ["shell(rm *)"]\nallow = ["shell(ls *)"]\n')
    read = read_configuration(environ, cwd=other)
    assert (read.files.directory, read.trusted) == (other, False)
    policy = policy_of(environ, other)
    lines = [
        judge(policy, PermissionCall(tool="shell", arguments={"command": one})).decision
        for one in ("rm x", "ls x")
    ]
    assert lines == ["deny", "ask"]
    path.write_text("[permissions]\ndeny = ['x']\n[agents.a]\ndescription = 'x'\n")
    (fault,) = read_configuration(environ, cwd=other).faults
    assert "this file is for permissions only: move this key to agentrail.toml" in fault.said
    path.write_text("denied = ['x']\n")
    (fault,) = read_configuration(environ, cwd=other).faults
    assert "unknown key" in fault.said


@pytest.mark.check  # two processes, which import for a second each
def test_who_keeps_rules_beside_another_process_loses_none(project):
    """Each has its turn, also with the list of what is trusted; one that holds it on and on is named, and nothing is written."""
    _, place, environ, trust = project
    trust()
    script = (
        "import sys, time; from pathlib import Path; from agentrail.blueprints.saved_permissions import keep_allowed\n"
        "home, place, name = sys.argv[1:]\n"
        "for number in range(8):\n"
        " keep_allowed([f'shell({name} {number})'], {'HOME': home}, cwd=Path(place)); time.sleep(0.02)"
    )
    beside = [
        subprocess.Popen((sys.executable, "-c", script, environ["HOME"], str(place), name)) for name in "ab"
    ]
    assert [one.wait(timeout=60) for one in beside] == [0, 0]
    said = tomllib.loads((place / ".agentrail" / "permissions.toml").read_text())
    kept = said.get("permissions", said)["allow"]
    assert sorted(kept) == sorted(f"shell({name} {number})" for name in "ab" for number in range(8))
    assert is_trusted(find_files(None, environ, place), environ)
    with changing_files(environ), pytest.raises(OptionError, match="another process is changing files in"):
        keep_allowed(["shell(d)"], environ, cwd=place)
    assert "shell(d)" not in (place / ".agentrail" / "permissions.toml").read_text()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "is not a regular file"),
        (os.mkdir, "Is a directory"),
        (lambda path: path.symlink_to("none"), "cannot be read"),
    ],
)
def test_rules_that_cannot_be_read_are_an_error(project, make, said):
    """A pipe, a directory, a link to nothing: without the rules of that file, denied calls would be allowed."""
    home, place, environ, _ = project
    for path in (
        place / ".agentrail" / "permissions.toml",
        home / ".agentrail" / "permissions.toml",
        place / "agentrail.toml",
    ):
        path.unlink(missing_ok=True)
        path.parent.mkdir(exist_ok=True)
        make(path)
        with pytest.raises(OptionError, match=f"{path.name}.*{said}"):
            find_files(None, environ, place)
        path.rename(path.with_name("moved"))
        assert find_files(None, environ, place)


def test_what_cannot_be_written_says_so(project):
    """Links are not written through, a file that is too long grows no longer, and without a home there is no place."""
    home, place, environ, trust = project
    assert keep_allowed(["a"], {}, cwd=place) is None
    trust()
    (home / "elsewhere").mkdir()
    (place / ".agentrail").symlink_to(home / "elsewhere")
    with pytest.raises(OptionError, match="is a symbolic link"):
        keep_allowed(["a"], environ, cwd=place)
    (place / ".agentrail").unlink()
    (place / ".agentrail").mkdir()
    path = place / ".agentrail" / "permissions.toml"
    path.write_text(f"# {'x' * (256 * 1024 - 20)}\n")
    trust()
    with pytest.raises(OptionError, match="would be longer than"):
        keep_allowed(["a"], environ, cwd=place)
    path.write_bytes(b"\xff")
    trust()
    with pytest.raises(OptionError, match="is not UTF-8"):
        keep_allowed(["a"], environ, cwd=place)
    path.unlink()
    (place / ".agentrail").rmdir()
    (place / ".agentrail").write_text("a file")
    trust()
    with pytest.raises(OptionError, match="cannot be written"):
        keep_allowed(["a"], environ, cwd=place)

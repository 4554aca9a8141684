"""Permissions of Claude Code, read."""

import json

import pytest

from agentrail.config.imported_permissions import read_claude_settings
from agentrail.config.schema import PermissionsForm
from agentrail.plugins.permission_policy import PermissionPolicy, rules
from agentrail.plugins.permission_verdict import PermissionCall, judge


def read(scope="project", **permissions):
    text = json.dumps({"permissions": permissions}, indent=1, ensure_ascii=False)
    return read_claude_settings("settings.json", text, scope=scope)


def told(faults):
    return [str(fault) for fault in faults]


def test_rules_become_ours():
    """12.15: tools by the one table; `:*` and ` *` as they are; paths of gitignore from the directory of the settings."""
    found = read(
        deny=["Bash(rm:*)", "Read(./.env)", "Edit(/src/**)", "Read(//etc/**)", "WebFetch(domain:x.org)", "Agent(scout)"],
        ask=["Bash(git push *)", "mcp__github"],
        allow=["Bash(npm run test:*)", "Bash(*)", "Read(~/.zshrc)", "Bash(git status)"],
        defaultMode="acceptEdits",
    )  # fmt: skip
    assert (found.faults, found.notes) == ((), ())
    assert found.form.permissions == PermissionsForm(
        mode="accept_edits",
        deny=(
            *("shell(rm:*)", "read_file(./.env)", "edit_file(./src/**)", "write_file(./src/**)"),
            *("read_file(//etc/**)", "web_fetch(domain:x.org)", "task(scout)"),
        ),
        ask=("shell(git push *)", "mcp__github"),
        allow=("shell(npm run test:*)", "shell", "read_file(~/.zshrc)", "shell(git status)"),
    )
    assert [found.place("permissions", "deny", at).line for at in (0, 3, 4)] == [4, 6, 7]
    assert found.place("permissions", "mode").line == 21
    assert read(scope="user", deny=["Read(/x)"]).form.permissions.deny == ("read_file(~/x)",)


def test_a_star_for_files_allows_no_file_elsewhere():
    """There it stands for files below the directory. Denied and asked, it may stand for more."""
    found = read(deny=["Read(*)"], ask=["Glob(*)"], allow=["Edit(*)", "Grep( * )", "WebFetch(*)"])
    assert found.form.permissions == PermissionsForm(
        deny=("read_file",),
        ask=("glob",),
        allow=("edit_file(./**)", "write_file(./**)", "grep(./**)", "web_fetch"),
    )
    policy = PermissionPolicy(allow=rules(*found.form.permissions.allow))
    paths = ("a", "a/b", "/etc/passwd", "../x", "~/.bashrc")
    calls = [PermissionCall(tool="write_file", arguments={"path": path}, working_dir="/w") for path in paths]
    assert [judge(policy, one).decision for one in calls] == ["allow", "allow", "ask", "ask", "ask"]


def test_a_star_in_the_middle_denies_and_asks_more_and_allows_nothing():
    """12.15: there it stands for any text; here a deny and an ask match no less, and an allow is refused by name."""
    found = read(
        deny=["Bash(git * main)", "Bash(npm run test*)", "Bash(* --force)"],
        ask=["Bash(ls*)"],
        allow=["Bash(git * main)", "Bash(npm run test*)"],
    )
    assert found.form.permissions == PermissionsForm(
        deny=("shell(git *)", "shell(npm run test* *)"), ask=("shell", "shell(ls* *)")
    )
    assert told(found.notes) == [
        "settings.json:6: permissions.deny: 'Bash(* --force)' cannot be expressed here: every command asks instead",
        "settings.json:12: permissions.allow: 'Bash(git * main)' is refused: a star in the middle matches nothing; write out the command",
        "settings.json:13: permissions.allow: 'Bash(npm run test*)' is refused: a star in the middle matches nothing; write out the command",
    ]


@pytest.mark.parametrize("mode", ["bypassPermissions", "auto", "other", 7])
def test_a_mode_that_allows_more_is_refused(mode):
    """Named once, and no mode is said."""
    found = read(defaultMode=mode)
    assert found.form.permissions.mode is None
    (note,) = told(found.notes)
    assert "permissions.defaultMode" in note
    assert "is refused: expected one of default, acceptEdits, plan, dontAsk" in note


def test_each_field_that_is_not_read_is_named_once():
    """Of the file, and of its permissions; also a tool that nobody knows, whatever letters it has."""
    text = '{"$schema": "x",\n"hooks": {},\n"model": "opus",\n"permissions": {"additionalDirectories": ["/x"],\n"deny": ["Kü"]}}'
    found = read_claude_settings("s.json", text)
    assert told(found.notes) == [
        "s.json:2: hooks: is not read",
        "s.json:3: model: is not read",
        "s.json:4: permissions.additionalDirectories: is not read",
        "s.json:5: permissions.deny: 'Kü' is ignored: there is no such tool",
    ]
    assert read_claude_settings("s.json", "{}").form.permissions == PermissionsForm()
    escaped = read_claude_settings("s.json", '{"permissions":\n{"deny": ["Bas\\u0068", "Read"]}}')
    assert escaped.form.permissions.deny == ("shell", "read_file")
    assert [escaped.place("permissions", "deny", at).line for at in (0, 1)] == [2, 2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n"a"', "s.json:2: this is not JSON"),
        ("[" * 100_000, "s.json:1: this is not JSON"),
        ("[]", "s.json:1: expected an object with permissions, got a list"),
        ('{"permissions": []}', "expected an object with permissions"),
        ('{"permissions": {"deny": "x"}}', "permissions.deny: expected a list of rules, got the text 'x'"),
        ('{"permissions": {"deny": [1]}}', "permissions.deny: expected a rule, got 1"),
    ],
)
def test_a_wrong_file_is_told_and_says_nothing(text, said):
    """With its line."""
    found = read_claude_settings("s.json", text)
    assert found.form.permissions == PermissionsForm()
    assert said in told(found.faults)[0]


def test_each_text_has_its_line_in_linear_time():
    """However it is written. The file was searched for each of them from its start: 256 KiB took 16 seconds."""
    count = 15_000
    keys = ",\n".join(f'"key{number}": 1' for number in range(count))
    rules = ",\n".join(['"B\\u0061sh(ls)"'] * count)
    found = read_claude_settings("s.json", f'{{{keys},\n"permissions": {{"allow": [\n{rules}\n]}}}}')
    assert [note.place.line for note in found.notes] == [*range(1, count + 1)]
    lines = [found.place("permissions", "allow", at).line for at in (0, 1, count - 1)]
    assert lines == [count + 2, count + 3, 2 * count + 1]

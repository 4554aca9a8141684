"""`agentrail permissions`."""

from pathlib import Path

import pytest

from agentrail.cli import text_output
from agentrail.cli.permissions_command import read_policy, read_rule_table
from agentrail.errors import OptionError
from tests.cli.rig import run_agentrail

FILE = """# what runs here
mode = "default"
deny = ["shell(rm *)"]  # never
allow = [
    'shell(git *)',  # "x"
    "shell(head *)", "shell(bash *)",
]
"""


@pytest.fixture
def policy(tmp_path):
    path = tmp_path / "permissions.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_a_text_without_an_end_is_not_read_whole(policy, monkeypatch):
    """A sparse file of 8 GB took the memory of the machine."""
    with policy.open("ab") as file:
        file.truncate(8 << 30)
    with pytest.raises(OptionError, match=r"permissions\.toml has more than 256 MiB: name a smaller file"):
        read_policy(policy)

    def full(_file):
        raise MemoryError

    monkeypatch.setattr(text_output, "fault_of_reading", full)
    with pytest.raises(OptionError, match="cannot be read: it is larger than the memory"):
        read_policy(policy)


async def explained(*words):
    return await run_agentrail("permissions", "explain", *words)


async def test_wrong_input_comes_first_and_files_are_told_with_their_lines(tmp_path):
    """What is no JSON, no object or no file ends with 2; of a file all faults are said at once, each rule with file, line, list, index and position."""
    for words, said in (
        (["shell", "--args", "{"], "--args is not JSON"),
        (["shell", "--args", "[]"], "--args is a JSON object"),
        (["shell", "--policy", "gone.toml"], "gone.toml cannot be read: No such file"),
    ):
        ran = await explained(*words)
        assert (ran.code, ran.out, said in ran.err) == (2, "", True)
    path = tmp_path / "p.toml"
    for text, code, said in (
        (b"\xff", 2, "is not UTF-8, at byte 0"),
        (b"a =", 2, "is not TOML"),
        (b"permissions = 1", 2, "permissions is a table"),
        (b'allow = [\n"shell(",\n"x"]\nwild = 1\ndeny = "x"', 1, ":2: allow[0] at 6: expected ')'"),
    ):
        path.write_bytes(text)
        ran = await run_agentrail("permissions", "check", str(path))
        assert (ran.code, ran.out, said in ran.err) == (code, "", True)
        with pytest.raises(OptionError):
            read_policy(path)


async def test_a_file_is_checked_and_a_verdict_is_explained(policy, tmp_path):
    """What it holds, and rules that can never match; how a call was read, each rule that was asked with file and line, the verdict, what always would write (12.7); links by both ends."""
    ran = await run_agentrail("permissions", "check", str(policy))
    assert ran.code == 0
    assert ran.out.splitlines() == [
        f"{policy}: mode default; rules: 1 deny, 0 ask, 3 allow",
        (
            f"warning: allow[2] shell(bash *) ({policy}:6) never matches: bash is a shell, and runs any command, and no star covers "
            "that; write the whole line without a star"
        ),
    ]

    ran = await explained("shell", "--args", '{"command": "git log | wc x"}', "--policy", str(policy))
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "read as: git log  then  wc x",
        f"  allow {policy}:5  shell(git *)  yes: git log",
        "ask: no rule allows 'wc x'",
        "always would allow: shell(wc x)",
    ]
    ran = await explained("shell", "--args", '{"command": "ls $(rm x)"}', "--policy", str(policy))
    assert (
        ran.out.splitlines()[0]
        == "read up to character 3: 'ls ' (then comes an expansion, whose value is known only at run time)"
    )
    assert ran.out.splitlines()[-1] == (
        "ask: the command cannot be parsed after character 3: an expansion, whose value is known only at run time, and there are rules that deny some of shell"
    )
    assert (await explained("list_dir")).out == "allow: it changes nothing\n"

    (tmp_path / "secret").write_text("x")
    (tmp_path / "link").symlink_to("secret")
    path = tmp_path / "p.toml"
    path.write_text('deny = ["read_file(secret)"]')
    ran = await explained("read_file", "--args", f'{{"path": "{tmp_path}/link"}}', "--policy", str(path))
    assert ran.out.splitlines()[-1].startswith("deny: the rule read_file(secret)")
    ran = await explained("read_file", "--args", '{"path": "a\\u0000"}')
    assert ran.code == 0


def test_the_lines_of_rules():
    """Lists in several lines, comments and every kind of quotes."""
    assert read_rule_table(Path("a"), FILE)[1] == {"deny": [3], "allow": [5, 6, 6], "ask": []}
    text = "\n[permissions]\nask = [\"a\", 'b',\n\"\"\"c\nc\"\"\", # ]\n'''d''']\n"
    assert read_rule_table(Path("a"), text)[1] == {"deny": [], "ask": [3, 3, 4, 6], "allow": []}
    assert read_rule_table(Path("a"), 'permissions = { deny = ["a"] }')[1]["deny"] == [1]


async def test_what_holds_here_is_explained_without_a_file_of_rules(tmp_path):
    """As a chat begun here would judge: the rules of all files with their lines, the mode, those of an agent; of no file that is said."""
    (tmp_path / ".git").mkdir()
    given = {"variables": {"HOME": str(tmp_path / "home")}, "cwd": tmp_path}

    async def explain(*words):
        return await run_agentrail(
            "permissions", "explain", "shell", "--args", '{"command": "git log"}', *words, **given
        )

    nothing = await explain()
    assert (nothing.code, nothing.out.splitlines()[1]) == (0, "ask: no rule allows 'git log'")
    assert "no file has permissions" in nothing.err
    text = 'version = 1\n[permissions]\nallow = ["shell(git *)"]\n[agents.desk]\npermissions = { mode = "plan" }\n'
    (tmp_path / "agentrail.toml").write_text(text)
    assert (await explain("--trust-project")).out.splitlines()[1:] == [
        "  allow agentrail.toml:3  shell(git *)  yes: git log",
        "allow: allowed by shell(git *) (agentrail.toml:3)",
    ]
    untrusted = await explain()
    assert "ask: no rule allows" in untrusted.out
    assert "is not trusted" in untrusted.err
    planning = await explain("--trust-project", "--agent", "desk")
    assert "deny: in plan mode" in planning.out
    unknown = await explain("--agent", "dask")
    assert (unknown.code, "there is no agent 'dask'" in unknown.err) == (2, True)

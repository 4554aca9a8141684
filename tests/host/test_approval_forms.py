"""What a person is shown beside the arguments of a call: the file as it is and would be, the line, and what *always* would allow."""

import hashlib

import pytest

from agentrail.core.session.approval_details import (
    rule_id_of,
    words_of_rule,
)
from agentrail.core.session.approval_rules import rule_of
from agentrail.core.session.state import Rule
from agentrail.frozen import frozen_json
from agentrail.host.approval_preview import (
    MAX_PREVIEW_BYTES,
    argv_of,
    preview_of_command,
    preview_of_file,
)
from agentrail.messages import JsonValue
from agentrail.plugins import HumanApproval
from agentrail.testing.models import ScriptedModel, calls
from agentrail.tools import builtin
from tests.gateway.web import serving
from tests.runtime.rig import on_bounded_time

EDIT: dict[str, JsonValue] = {"path": "a.py", "old_string": "one", "new_string": "two"}


def made(content: bytes, arguments: dict[str, JsonValue], *, is_edit: bool = True):
    digest = hashlib.sha256(content).hexdigest()
    return preview_of_file("a.py", content, digest, frozen_json(arguments), is_edit=is_edit)


def test_an_edit_and_a_write_are_shown_as_they_would_be_made():
    """The preview has before, after and a hash. A call that would fail says why, and no content is cut."""
    shown = made(b"one\n", EDIT)
    assert (shown.before, shown.after, shown.fault) == ("one\n", "two\n", None)
    assert shown.before_sha256 == hashlib.sha256(b"one\n").hexdigest()
    for content in (b"other\n", b"one one\n"):
        failing = made(content, EDIT)
        assert (failing.before, failing.after) == (content.decode(), None)
        assert failing.fault is not None
        assert "old_string" in failing.fault
    assert made(b"one one\n", {**EDIT, "replace_all": True}).after == "two two\n"

    assert made(b"", {"content": "new"}, is_edit=False).after == "new"
    for content in (b"\x00\x01", b"\xff\xfe", b"a" * (MAX_PREVIEW_BYTES + 1)):
        odd = made(content, {"content": "new"}, is_edit=False)
        assert (odd.before, odd.after) == (None, "new")
        assert odd.fault is not None
    large = made(b"a", {"content": "b" * (MAX_PREVIEW_BYTES + 1)}, is_edit=False)
    assert (large.before, large.after) == ("a", None)
    assert large.fault is not None


@pytest.mark.parametrize(
    ("line", "argv"),
    [
        ("git status -s", ("git", "status", "-s")),
        ("grep 'a b' c", ("grep", "a b", "c")),
        ("rm -rf $HOME", None),
        ("ls; rm x", None),
        ("ls > out", None),
        ("A=1 ls", None),
        ("$(cat x)", None),
        ("", None),
        ("ls " * 10_000, None),
    ],
)
def test_words_are_told_only_of_one_plain_command(line, argv):
    """Whatever a shell would make something else of has no words before it runs."""
    assert argv_of(line) == argv
    shown = preview_of_command(frozen_json({"command": line}), ".")
    assert shown is not None
    assert (shown.line, shown.argv) == (line, argv)


@pytest.mark.parametrize(
    "line", ["ls -l", "git status", "git -C x status", "ls; rm x", "./run", "sudo ls", "'", ""]
)
def test_words_of_a_rule_say_no_less_than_it_allows(line):
    """A rule is one command, or in records of before all that begins like it: the words say which."""
    rule = rule_of("shell", frozen_json({"command": line}))
    assert words_of_rule("shell", rule.family, exact=rule.exact) == (
        f"shell: this very command and no other: {line}"
    )
    before = words_of_rule("shell", line, exact=False)
    assert before == f"shell: every simple command that begins with: {line}"
    assert "every call" in words_of_rule("pay", None, exact=False)
    ids = {
        rule_id_of(one) for one in (rule, Rule(tool="shell", family=line), Rule(tool="shell", family=None))
    }
    assert len(ids) == 3


@on_bounded_time
async def test_a_file_of_the_workspace_is_shown_before_it_is_edited(tmp_path):
    """As it is on the disk now, with its hash; nothing is written by looking."""
    (tmp_path / "a.py").write_text("one\n")
    missing = {**EDIT, "path": "b.py"}
    write = {"path": "new/c.py", "content": "three\n"}
    turn = calls(("edit_file", EDIT), ("edit_file", missing), ("write_file", write))
    guard = (HumanApproval, {"require_approval_for": ["*"]})
    options = {
        "tools": builtin("edit_file", "write_file"),
        "plugins": [guard],
        "working_dir": str(tmp_path),
        "sandbox": "local",
    }
    session_options = {f"session_{name}": value for name, value in options.items()}
    async with serving(ScriptedModel([turn]), **session_options) as web:
        await web.chat(session_id="main")
        asked = [one["id"] for one in (await web.client.get("/sessions/main")).json()["status"]["approvals"]]
        shown = [(await web.client.get(f"/sessions/main/approvals/{one}")).json() for one in asked]
        edit, gone, new = (one["preview"] for one in shown)
        assert (edit["before"], edit["after"], edit["path"]) == ("one\n", "two\n", "a.py")
        assert edit["before_sha256"] == hashlib.sha256(b"one\n").hexdigest()
        assert (gone["before"], gone["after"], "does not exist" in gone["fault"]) == (None, None, True)
        assert (new["before"], new["after"], new["before_sha256"]) == ("", "three\n", None)
        assert [one["effect"] for one in shown] == ["reconcilable", "reconcilable", "idempotent"]
    assert (tmp_path / "a.py").read_text() == "one\n"

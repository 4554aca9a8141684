"""The audit log names every decision once, and what was done to it afterwards (docs/how-to/keep-an-audit-log.md)."""

import fcntl
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import agentrail
from agentrail import events
from agentrail.abc.event_reader import SessionOrigin
from agentrail.core.journal.record import Draft, OpenedBody, Tail, encode_body, sealed, taken_draft
from agentrail.errors import OptionError, StoreUnavailable
from agentrail.events import Approval, Envelope
from agentrail.messages import Text, ToolResult
from agentrail.stores import audit_file
from agentrail.stores.audit_file import AuditFile, path_of_audit
from agentrail.telemetry import audit
from agentrail.telemetry.audit import (
    AuditLine,
    AuditLog,
    AuditTail,
    faults_of_log,
    is_decision,
    line_of,
    nodes_in,
    read_audit_line,
)
from agentrail.testing.models import ScriptedModel, says
from tests.pages import ROOT, fences_of

CANARY = "canary, which nobody may read here"
ASKED = {
    "id": "s/a1", "call_id": "c1", "tool": "shell", "arguments": {"command": CANARY}, "arguments_hash": "0" * 64, "hint": CANARY,
    "requested_at_ms": 1, "path": ("s",),
}  # fmt: skip
ANN = {"user_id": "ann", "note": CANARY}


def at(seq, event, session="s", scope="acme"):
    """What the reader hands over."""
    meta = Envelope(session_id=session, seq=seq, at_ms=1_000 + seq, path=(session,))
    origin = SessionOrigin(scope=scope, session_id=session, user_data=ANN)
    return origin, msgspec.structs.replace(event, meta=meta)


def lives():
    """One event of each kind that is a decision, with texts that must not be in a line."""
    approval = Approval(**ASKED)
    result = ToolResult(call_id="c1", name="shell", text=CANARY)
    prompt = {"ref": "p1", "content": (Text(text=CANARY),)}
    call = {"name": "shell", "call_id": "c1"}
    return [
        events.PromptReceived(**prompt, via="http", request_id=CANARY),
        events.PromptQueued(**prompt, position=0, via="acp"),
        events.PromptDropped(**prompt),
        events.PromptRejected(ref="p2", reason=CANARY),
        events.PromptTaken(ref="p3", approval_id="s/a1", by="human_approval"),
        events.AgentStart(ref="p1"),
        events.AgentAbort(reason=CANARY, ref="p1"),
        events.SessionRecovered(decisions=()),
        events.ToolExecutionStart(**call, arguments={"command": CANARY}),
        events.ToolBlocked(**call, reason=CANARY, by="security_guard"),
        events.ToolKilled(**call, reason=CANARY),
        events.ToolSkippedForSteering(**call, reason=CANARY),
        events.ToolExecutionMetrics(**call, started_at_ms=1, ended_at_ms=2, duration_ms=1),
        events.ToolTookEffect(**call, result=result),
        events.ApprovalRequired(approval=approval),
        events.ApprovalResolved(approval=approval, status="approved", by="user", user="bob"),
        events.ApprovalResolved(approval=approval, status="approved", by="rule"),
        events.ToolApprovedAlways(tool="shell", command_family=CANARY, exact=True),
        events.UserResponded(ref="s/q1", response=CANARY, user="bob"),
        events.UserDeclined(ref="s/q1", reason=CANARY),
    ]  # fmt: skip


def log_of(heard, nodes=((0, "n-1"),)):
    """The lines of some events, sealed."""
    tail = AuditTail()
    for origin, event in heard:
        last = tail.last.get((origin.scope, origin.session_id))
        yield tail.seal(line_of(origin, event, nodes, last))


def whole():
    return list(log_of(at(number, event) for number, event in enumerate(lives(), 1)))


def faults(log, expect=None):
    return list(faults_of_log(log, AuditTail(), expect))


# --- lines


@pytest.mark.operation("O-004")
def test_no_line_has_a_prompt_an_argument_a_result_or_a_reason():
    """A tool name that the model invented may be text as well, so it is `_OTHER`."""
    for raw in whole():
        assert b"canary" not in raw, raw
    unknown = line_of(*at(1, events.ToolExecutionStart(name=CANARY, call_id="c", arguments={})), (), None)
    assert unknown.tool == "_OTHER"


def test_a_line_says_who_decided_what_when_about_which_call_and_where():
    """A refused call has the hash of its requested arguments, and a call allowed by a rule has the id of that rule."""
    lines = [json.loads(raw) for raw in whole()]
    assert lines[0] | {"hash": ""} == {
        "n": 1, "at_ms": 1_001, "scope": "acme", "session": "s", "event": 1, "what": "prompt", "verdict": "accepted",
        "by": "session", "user": "ann", "id": "p1", "via": "http", "node": "n-1", "hash": "",
    }  # fmt: skip
    shown = [(one["what"], one["verdict"], one["by"], one.get("user")) for one in lines]
    assert ("call", "blocked", "security_guard", None) in shown
    assert ("approval", "approved", "user", "bob") in shown
    assert ("question", "declined", "user", None) in shown
    requested, blocked = lines[8:10]
    assert (
        requested["arguments"] == blocked["arguments"] != "0" * 64
    )  # a refusal has the arguments of its request
    by_rule, created = lines[16:18]
    assert by_rule["rule"].startswith("rule_")
    assert created["rule"] == by_rule["rule"]


def test_the_page_explains_each_field_of_a_line():
    """Its example has the order of a written line."""
    page = "docs/how-to/keep-an-audit-log.md"
    (shown,) = [json.loads(one.body) for one in fences_of(page) if one.kind == "json"]
    fields = [*AuditLine.__struct_fields__, "hash"]
    assert list(shown) == [name for name in fields if name in shown]
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(fields)


def test_a_text_that_is_no_unicode_stops_no_line():
    """A lone surrogate cannot be encoded as UTF-8. It is written as a question mark."""
    _, event = at(1, events.PromptTaken(ref="p\ud800", approval_id="a", by="b"))
    assert line_of(at(1, event)[0], event, (), None).id == "p?"


def test_the_node_of_an_event_is_the_one_that_published_it():
    """Event 5 is the last of the first node: a takeover counts from the next one."""
    opened = encode_body(OpenedBody(state=msgspec.Raw(b"{}"), engine="1", node="n-1"))
    drafts = [
        Draft(at_ms=1, kind="opened", body=opened),
        Draft(at_ms=1, kind="prompt", body=b"{}", events=5),
        taken_draft(node="n-2", cause="gone", engine="1", at_ms=2, events=5),
    ]
    nodes = nodes_in(sealed(drafts, Tail(), scope="", session="s")[0])
    found = [line_of(*at(number, events.AgentStart(ref="p")), nodes, None).node for number in (1, 5, 6)]
    assert found == ["n-1", "n-1", "n-2"]
    assert line_of(*at(1, events.AgentStart(ref="p")), (), None).node == ""


# --- verify


def edited(raw, **changes):
    """A line with other contents and a hash that matches it, after the one before it."""
    return msgspec.structs.replace(read_audit_line(raw)[0], **changes)


def resealed(lines):
    """The same decisions in a chain of their own, as a forger makes it."""
    tail = AuditTail()
    return [tail.seal(line) for line in lines]


@pytest.mark.parametrize(
    ("attack", "told"),
    [
        (lambda log: [*log[:4], log[4].replace(b"human_approval", b"nobody"), *log[5:]], ["line 5 does not match its hash"]),
        (lambda log: [*log[:4], rewritten(log), *log[5:]], ["line 6 does not match its hash: it was changed, or the line before it was"]),
        (lambda log: [*log[:4], *log[5:]], ["line 6 is in the place of line 5"]),
        (lambda log: [*log[:4], log[5], log[4], *log[6:]], ["line 6 is in the place of line 5", "line 5 is in the place of line 7", "line 5 repeats", "line 7 is in the place of line 6"]),
        (lambda log: log[1:], ["line 2 is in the place of line 1"]),
        (lambda log: [*log, log[3]], ["line 4 is in the place of line 21", "line 4 repeats"]),
        (lambda log: [*log[:-1], log[-1][:-9]], ["line 20 is cut off"]),
        (lambda log: [*log[:2], b"{}\n", *log[3:]], ["line 3 is not a line", "line 4 does not match"]),
        (lambda log: [b"\xff\n", *log[1:]], ["line 1 is not a line", "line 2 does not match"]),
        (lambda log: [log[0].replace(b"session", b"ses\xffion"), *log[1:]], ["line 1 is not a line", "line 2 does not match"]),
        (lambda log: [*log, log_line_again(log)], ["line 21 repeats"]),
    ],
    ids=["changed", "rewritten", "removed", "moved", "first removed", "copied", "cut off", "replaced", "garbage", "no Unicode", "said again"],
)  # fmt: skip
def test_a_tampered_line_is_named(attack, told):
    """A forger who also recomputes the hash of the changed line is found at the next one."""
    found = faults(attack(whole()))
    assert [fault.startswith(start) for fault, start in zip(found, told, strict=True)] == [True] * len(told)


def rewritten(log):
    """Line 5 with another decider, and the hash of that."""
    tail = AuditTail()
    assert not list(faults_of_log(log[:4], tail, None))
    return tail.seal(edited(log[4], by="nobody"))


def log_line_again(log):
    """Line 21, correctly chained, about a decision that line 20 has."""
    tail = AuditTail()
    assert not list(faults_of_log(log, tail, None))
    return tail.seal(read_audit_line(log[-1])[0])


def test_what_only_a_noted_line_can_show():
    """A chain that was made anew, and one without its end, are sound by themselves."""
    log = whole()
    noted = (20, json.loads(log[-1])["hash"])
    assert faults(log, noted) == []
    forged = resealed([edited(raw, **({"by": "ann"} if place == 4 else {})) for place, raw in enumerate(log)])
    for attacked, told in ((forged, "line 20 has the hash"), (log[:-1], "line 20 is missing: the log ends with line 19"), ([], "line 20 is missing")):  # fmt: skip
        assert faults(attacked) == []
        (fault,) = faults(attacked, noted)
        assert fault.startswith(told)
    longer = [*log, *log_of([at(21, events.AgentStart(ref="p9"))])]
    assert faults([*log, log_line_after(log)], noted) == []  # a log may grow
    assert faults(longer)[0].startswith("line 1 is in the place of line 21")


def log_line_after(log):
    tail = AuditTail()
    assert not list(faults_of_log(log, tail, None))
    return tail.seal(edited(log[-1], event=99))


# --- the file


def names_in(path):
    return [json.loads(raw)["event"] for raw in path.read_bytes().splitlines()]


def heard(*numbers):
    return [at(number, events.AgentStart(ref=f"p{number}")) for number in numbers]


async def test_events_that_come_again_get_no_second_line_even_after_a_crash(tmp_path):
    """A new process reads in the log itself what was written. The file is readable by its owner alone."""
    path = tmp_path / "audit.jsonl"
    for numbers in ((1, 2), (2, 3), (3,)):  # each is a process, and the reader's cursor is older than the log
        file = AuditFile(path)
        await AuditLog(file.read, file.append, lambda *_: ()).take(heard(*numbers))
        file.close()
    assert names_in(path) == [1, 2, 3]
    assert faults(path.read_bytes().splitlines(keepends=True)) == []
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_session_that_has_ended_takes_no_memory_and_gets_no_second_line(tmp_path):
    """A server has more sessions every day. What comes again after a crash is found in the file."""
    file = AuditFile(tmp_path / "audit.jsonl")
    log = AuditLog(file.read, file.append, lambda *_: ())
    ended = [*heard(1, 2), at(3, events.SessionEnd(reason="stopped"))]
    await log.take(ended)
    assert (log._nodes, log._tail.last) == ({}, {})  # noqa: SLF001 - its memory
    await AuditLog(file.read, file.append, lambda *_: ()).take(ended)
    assert names_in(file.path) == [1, 2]
    file.close()


def of_sessions(*numbers, seq=1):
    return [at(seq, events.AgentStart(ref="p"), session=f"s{number}") for number in numbers]


async def test_sessions_that_sleep_take_no_memory_without_end(tmp_path, monkeypatch):
    """And neither do those of a long log at the start. The last ones get no second line."""
    monkeypatch.setattr(audit, "MAX_AUDITED_SESSIONS", 3)
    file = AuditFile(tmp_path / "audit.jsonl")
    log = AuditLog(file.read, file.append, lambda *_: ())
    await log.take(of_sessions(*range(8)))
    await log.take(of_sessions(5, seq=2))
    assert [session for _, session in log._tail.last] == ["s6", "s7", "s5"]  # noqa: SLF001 - its memory
    assert len(log._nodes) == 3  # noqa: SLF001 - same
    again = AuditLog(file.read, file.append, lambda *_: ())
    assert [session for _, session in again.open().last] == ["s6", "s7", "s5"]
    await again.take([*of_sessions(5, 6), *of_sessions(5, seq=2), *of_sessions(0, seq=2)])
    assert names_in(file.path) == [*[1] * 8, 2, 2]
    assert faults(file.path.read_bytes().splitlines(keepends=True)) == []
    file.close()


@pytest.mark.parametrize("cut", [0, 1, 100])
async def test_only_the_end_of_a_long_log_is_read_at_the_start(tmp_path, monkeypatch, cut):
    """Its last line decides what the next one is chained to. A line that was cut off is removed here too."""
    path = tmp_path / "audit.jsonl"
    file = AuditFile(path)
    await AuditLog(file.read, file.append, lambda *_: ()).take(of_sessions(*range(20)))
    file.close()
    raw = path.read_bytes().splitlines(keepends=True)
    monkeypatch.setattr(audit_file, "MAX_AUDIT_READ_BYTES", sum(map(len, raw[-3:])) + cut)
    path.write_bytes(b"".join(raw) + raw[0][:50] * (cut > 0))
    file = AuditFile(path)
    log = AuditLog(file.read, file.append, lambda *_: ())
    assert 2 <= len(log.open().last) <= 3
    await log.take([*of_sessions(19), *of_sessions(20)])
    file.close()
    lines = path.read_bytes().splitlines(keepends=True)
    assert (len(lines), faults(lines)) == (21, [])


async def test_each_wake_of_a_session_reads_the_records_since_the_last_one(tmp_path):
    """Nodes that took it meanwhile are added, and the nodes before stay known. A new session with its id is read from its start."""
    file, after = AuditFile(tmp_path / "audit.jsonl"), []
    opened = encode_body(OpenedBody(state=msgspec.Raw(b"{}"), engine="1", node="n-1"))
    drafts = [
        Draft(at_ms=1, kind="opened", body=opened),
        taken_draft(node="n-2", cause="gone", engine="1", at_ms=2, events=2),
    ]
    records = sealed(drafts, Tail(), scope="acme", session="s")[0]
    there = [*records[:1]]

    def look(scope, session, seq):
        after.append((scope, session, seq))
        return there[seq:]

    log = AuditLog(file.read, file.append, look)
    await log.take(heard(1, 2))
    there.append(records[1])
    await log.take(
        [at(3, events.SessionRecovered(decisions=())), at(4, events.SessionRecovered(decisions=()))]
    )
    await log.take([timed(1, 9_000)])
    assert after == [("acme", "s", 0), ("acme", "s", 1), ("acme", "s", 2), ("acme", "s", 0)]
    nodes = [json.loads(raw)["node"] for raw in file.path.read_bytes().splitlines()]
    assert nodes == ["n-1", "n-1", "n-2", "n-2", "n-1"]
    file.close()


async def test_lines_about_a_trimmed_session_name_their_node(tmp_path):
    """Its journal cannot be read from the start. The record of the last takeover remains."""
    path, model = tmp_path / "audit.jsonl", ScriptedModel([says("a")] * 9)
    options = {"store": f"sqlite:{tmp_path}/s.db", "audit": f"file:{path}"}
    async with agentrail.open_supervisor(**options) as supervisor:
        session = await supervisor.start_session(model=model, session_id="s", sandbox="memory")
        for _ in range(5):
            await session.ask("Hi")
    async with agentrail.open_supervisor(**options, revive=lambda _: {"model": model}) as supervisor:
        assert await supervisor.trim_session("s", before=5) > 0
        await (await supervisor.resume_session("s")).ask("Hi")
    first, *_, last = [json.loads(raw).get("node") for raw in path.read_bytes().splitlines()]
    assert last not in {None, first}


async def test_an_id_that_is_used_again_has_new_decisions_and_a_clock_that_went_back_makes_none(tmp_path):
    """A lower number belongs to a new session only if its time is later than all before."""
    file = AuditFile(tmp_path / "audit.jsonl")
    log = AuditLog(file.read, file.append, lambda *_: ())
    await log.take([timed(1, 5_000), timed(2, 4_000)])
    await log.take([timed(1, 5_000), timed(2, 4_000)])  # they come again
    await log.take([timed(1, 9_000)])  # the session was deleted, and another one has its id
    assert names_in(file.path) == [1, 2, 1]
    assert faults(file.path.read_bytes().splitlines(keepends=True)) == []
    file.close()


def timed(seq, at_ms):
    origin, event = at(seq, events.AgentStart(ref="p"))
    return origin, msgspec.structs.replace(event, meta=Envelope("s", seq, at_ms, ("s",)))


async def test_a_line_that_was_cut_off_is_removed_and_comes_again(tmp_path):
    """The reader delivers its event again, because the cursor moves only after a whole write."""
    file = AuditFile(tmp_path / "audit.jsonl")
    log = AuditLog(file.read, file.append, lambda *_: ())
    await log.take(heard(1, 2))
    file.close()
    file.path.write_bytes(file.path.read_bytes()[:-9])
    log.open()
    await log.take(heard(2))
    assert names_in(file.path) == [1, 2]
    file.close()


async def test_a_full_disk_leaves_no_part_of_a_line(tmp_path, monkeypatch):
    """A failed write is undone before it is tried again, so the chain stays whole. The log, which may be long, is not read again."""
    file, opened = AuditFile(tmp_path / "audit.jsonl"), []
    log = AuditLog(lambda: opened.append(1) or file.read(), file.append, lambda *_: ())
    await log.take(heard(1))

    def fill(_descriptor):
        os.write(file._file, b'{"n":2,"at_ms"')  # noqa: SLF001 - what the disk still took
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fill)
        for _ in range(2):
            with pytest.raises(OSError, match="No space left"):
                await log.take([*heard(2, 3), at(4, events.SessionEnd(reason="stopped"))])
    await log.take(heard(1, 2, 3))
    assert names_in(file.path) == [1, 2, 3]
    assert len(opened) == 1
    assert faults(file.path.read_bytes().splitlines(keepends=True)) == []
    file.close()


async def test_a_store_that_is_away_does_not_have_the_log_read_again(tmp_path):
    """Nothing was written: the next attempt continues there, with a session that the log does not know yet."""
    file, opened, found = AuditFile(tmp_path / "audit.jsonl"), [], [StoreUnavailable("away"), ()]

    def look(*_):
        if isinstance(found[0], Exception):
            raise found.pop(0)
        return found[0]

    log = AuditLog(lambda: opened.append(1) or file.read(), file.append, look)
    with pytest.raises(StoreUnavailable):
        await log.take(heard(1))
    await log.take(heard(1, 2))
    assert names_in(file.path) == [1, 2]
    assert faults(file.path.read_bytes().splitlines(keepends=True)) == []
    assert len(opened) == 1
    file.close()


async def test_a_file_that_was_moved_away_is_followed_by_a_new_one(tmp_path):
    """As after logrotate: the first write fails and is repeated, and nothing goes to the old file."""
    file = AuditFile(tmp_path / "audit.jsonl")
    log = AuditLog(file.read, file.append, lambda *_: ())
    await log.take(heard(1))
    file.path.rename(tmp_path / "monday.jsonl")
    file.path.touch(0o600)  # as logrotate does
    with pytest.raises(FileNotFoundError, match="moved away"):
        await log.take(heard(2))
    await log.take(heard(2))
    assert names_in(tmp_path / "monday.jsonl") == [1]
    assert names_in(file.path) == [2]
    file.close()


def test_a_forked_process_does_not_keep_the_log(tmp_path):
    """Its copy of the lock does not outlive that of the process that forked it, and to close it releases nothing."""
    command = [sys.executable, "-c", FORKING, str(tmp_path / "audit.jsonl")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


FORKING = """
import os, sys, time
from pathlib import Path
from agentrail.errors import OptionError
from agentrail.stores.audit_file import AuditFile
first, second = AuditFile(Path(sys.argv[1])), AuditFile(Path(sys.argv[1]))
list(first.read())
if not os.fork():
    first.close()
    os._exit(0)
os.wait()
try:
    list(second.read())
except OptionError:
    pass
else:
    sys.exit("the other process released it")
child = os.fork()
if not child:
    time.sleep(30)
    os._exit(0)
first.close()
list(second.read())
os.kill(child, 9)
"""


def spoil_with_link(path):
    (path.parent / "elsewhere").write_text("")
    path.symlink_to(path.parent / "elsewhere")


def spoil_with_mode(path):
    path.write_text("")
    path.chmod(0o622)


def spoil_with_writer(path):
    holder = path.open("ab")
    fcntl.flock(holder, fcntl.LOCK_EX)
    return holder


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (spoil_with_link, "Too many levels of symbolic links"),
        (spoil_with_mode, "must be a file that only its owner, you, can write"),
        (spoil_with_writer, "another process writes it"),
        (Path.mkdir, "Is a directory"),
        (os.mkfifo, "must be a file"),
        (lambda path: path.parent.rmdir(), "No such file or directory"),
    ],
)
async def test_a_file_that_is_not_only_ours_is_refused_before_the_first_session(tmp_path, spoil, told):
    """A link, a file that others can write, a second writer, a directory, a pipe, a missing directory."""
    path = tmp_path / "below" / "audit.jsonl"
    path.parent.mkdir()
    holder = spoil(path)
    with pytest.raises(OptionError, match=told):
        async with agentrail.open_supervisor(audit=f"file:{path}"):
            raise AssertionError
    if holder is not None:
        holder.close()


async def test_a_file_of_another_user_is_refused(tmp_path, monkeypatch):
    """Its owner could change lines and their hashes."""
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    with pytest.raises(OptionError, match="only its owner"):
        async with agentrail.open_supervisor(audit=f"file:{tmp_path / 'a'}"):
            raise AssertionError


@pytest.mark.parametrize("name", ["", "file:", "/var/log/a", 7, "store"])
async def test_a_name_that_is_none_is_refused(name):
    """`store` is refused too where the store is in memory: it has no file to be next to."""
    with pytest.raises(OptionError, match="expected 'file:PATH', or 'store' for a store in a file"):
        async with agentrail.open_supervisor(audit=name, store="memory:"):
            raise AssertionError


def test_the_log_of_a_store_is_next_to_it(tmp_path):
    """Its name is that of the store and `.audit.jsonl`."""

    class Kept:
        path = tmp_path / "sessions.db"

    assert path_of_audit("store", Kept()) == tmp_path / "sessions.db.audit.jsonl"


def test_every_decision_of_a_call_is_told_and_progress_is_not():
    """Progress decides nothing, and would fill the log."""
    assert all(is_decision(event) for event in lives())
    assert not is_decision(events.ToolProgress(name="a", call_id="c", text="t"))


async def test_what_a_rewind_has_undone_is_read_from_the_journal_too():
    """It happened; a reader that lags behind the rewind must not lose it."""
    async with agentrail.open_supervisor(store="memory:") as supervisor:
        model = ScriptedModel([says("a"), says("b")])
        session = await supervisor.start_session(model=model, session_id="s", sandbox="memory")
        await session.ask("Hi")
        await session.rewind(1)
        await session.ask("Again")
        pages = [await supervisor.events_page("s", after=0, undone=undone) for undone in (False, True)]
        with pytest.raises(OptionError, match="undone"):
            await supervisor.events_page("s", after=0, undone="yes")
    ends = [[event for event in page.events if isinstance(event, events.AgentEnd)] for page in pages]
    assert [len(one) for one in ends] == [1, 2]
    assert ends[0] == ends[1][1:]

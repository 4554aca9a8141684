"""Files that come with messages: their names, their sizes, and how they get into the workspace of a session."""

import os
import re
from contextlib import asynccontextmanager

import pytest
import trio
from hypothesis import given, strategies as st

from agentrail.abc import Refusal, Transfer
from agentrail.errors import AttachmentInvalid, AttachmentsUnsupported, SessionDown, TooLarge, UploadFailed
from agentrail.host.attachments import (
    Attachment,
    Uploads,
    check_attachments,
    check_moved,
    clean_name,
    decide_file_names,
    digest_with_files,
    file_of,
    message_of_files,
)
from agentrail.host.identity import digest_of_message
from agentrail.host.quotas import Limits
from agentrail.runtime.session_files import open_files
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.testing.supervisors import open_nameless
from tests.runtime.rig import on_bounded_time, on_virtual_time, saying
from tests.thinned import each


def attached(name="a.txt", content=b"hello", mime_type="text/plain"):
    return Attachment(name=name, mime_type=mime_type, content=content)


NAMES = [
    ("report.pdf", "report.pdf"), ("My report (1).pdf", "My_report__1_.pdf"), ("../../etc/passwd", "_._etc_passwd"), ("/etc/passwd", "_etc_passwd"),
    ("C:\\Users\\ada\\x.txt", "C__Users_ada_x.txt"), (".bashrc", "bashrc"), ("...", "file"), ("", "file"), ("-rf", "_rf"), ("a\0b\nc.txt", "a_b_c.txt"),
    ("résumé.pdf", "r_sum_.pdf"), ("a..b", "a.b"), ("\ud800.txt", "_.txt"), ("\u202etxt.exe", "_txt.exe"),
    ("x" * 300 + ".pdf", "x" * 96 + ".pdf"), ("x." + "y" * 300, "x." + "y" * 98), ("x" * 5000 + ".tar", "x" * 96 + ".tar"),
]  # fmt: skip


@each(("said", "cleaned"), NAMES)
def test_a_name_becomes_one_that_means_nothing_else(said, cleaned):
    """To a shell, a file system, or a reader; the ending stays."""
    assert clean_name(said) == cleaned


@given(st.lists(st.text(max_size=200), max_size=8), st.integers(8, 120))
def test_any_names_become_files_of_their_own(said, longest):
    """Of 8.10's signs, in its length, without a dot in front; no two alike, on any file system."""
    taken = ["file", "A.TXT"]
    names = decide_file_names(said, taken, longest)
    assert len(names) == len(said)
    for name in names:
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name)
        assert len(name) <= longest
        assert ".." not in name
    assert len({one.lower() for one in [*names, *taken]}) == len(names) + 2


def test_a_name_that_was_used_before_gets_a_number():
    """In the message, in the workspace, and in another case; the ending stays, and no number is given twice."""
    names = decide_file_names(["a.txt", "A.txt", "a.txt", "b"], ["b", "B-2", "A-3.TXT"])
    assert names == ("a.txt", "A-2.txt", "a-4.txt", "b-3")
    assert decide_file_names(["x" * 100, "x" * 100], []) == ("x" * 100, "x" * 98 + "-2")
    assert decide_file_names(["a.longending"] * 2, [], 8) == ("a.longen", "a.long-2")
    assert decide_file_names(["a.html"] * 2, [], 8) == ("a.html", "a-2.html")


@pytest.mark.host("H-033")
def test_as_much_as_may_be_is_taken_and_one_byte_more_is_not():
    """Limits hold per message, per file and in all. An object that is not a file is refused by its index, without its content."""
    limits = Limits(max_attachments=3, max_attachment_bytes=10, max_attachments_bytes=25)
    ten = b"x" * 10
    check_attachments([attached(content=ten), attached(content=ten), attached(content=b"x" * 5)], limits)
    check_attachments([], limits)
    for files, said in [
        ([attached()] * 4, "4 attachments were sent, at most 3"),
        ([attached(), attached(content=ten + b"x")], r"attachments\[1\] has 11 bytes, at most 10"),
        ([attached(content=ten)] * 3, "30 bytes together, at most 25"),
    ]:
        with pytest.raises(TooLarge, match=said):
            check_attachments(files, limits)
    for bad, said in [
        ({"name": "a"}, "is of type dict: expected Attachment"),
        (attached(name=None), "name is of type NoneType: expected str"),
        (attached(mime_type=5), "mime_type is of type int: expected str"),
        (attached(content="text"), "content is of type str: expected bytes"),
    ]:
        with pytest.raises(AttachmentInvalid, match=said) as caught:
            check_attachments([attached(), bad], Limits())
        assert caught.value.index == 1
    assert "hello" not in repr(attached())


@pytest.mark.host("H-101")
@on_bounded_time
async def test_the_digest_of_large_files_is_that_of_small_ones():
    """Computed elsewhere, so that the loop is not held; the same all the same."""
    for size in (5, 2 << 20):
        files = [attached(content=b"x" * size), attached(name="b")]
        twins = [attached(content=b"x" * size), attached(name="b")]
        expected = digest_of_message("Hi", [one.identity for one in twins], "plan")
        assert await digest_with_files("Hi", files, "plan") == expected


@pytest.mark.host("H-032")
def test_a_file_without_a_message_is_a_message():
    """No model takes an empty one; what was said stays what it was."""
    files = (file_of("a.txt", attached()), file_of("b.txt", attached()))
    assert message_of_files(" ", files) == "[Files: uploads/a.txt, uploads/b.txt]"
    assert message_of_files("Look.", files) == "Look."
    assert message_of_files("", ()) == ""


def refusal(code):
    return Refusal(code=code, message="/srv/secret is full")


@pytest.mark.host("H-059")
def test_whose_move_a_refusal_is():
    """The code decides the error. The sandbox's words are only in the cause. A missing answer is a failure too."""
    for code, error in (
        ("too_large", TooLarge),
        ("unsupported", AttachmentsUnsupported),
        ("no_space", UploadFailed),
        ("permission_denied", UploadFailed),
        ("their_own", UploadFailed),
    ):
        moved = [Transfer(path="a"), Transfer(path="b", error=refusal(code))]
        with pytest.raises(error) as caught:
            check_moved(moved, 2)
        assert "/srv/secret" not in str(caught.value)
        if error is UploadFailed:
            assert str(caught.value.__cause__) == f"{code}: /srv/secret is full"
    with pytest.raises(UploadFailed) as caught:
        check_moved([Transfer(path="a")], 2)
    assert "1 files instead of 2" in str(caught.value.__cause__)


@asynccontextmanager
async def open_session(sandbox=None, **options):
    async with open_nameless(lambda _name, _root: MemorySandbox()) as supervisor:
        yield await supervisor.start_session(model=saying("Hi."), sandbox=sandbox, **options)


async def content_of(session, path):
    async with open_files(session) as sandbox:
        (found,) = await sandbox.download([path])
    return found.content


@pytest.mark.host("H-034")
@on_virtual_time
async def test_files_are_written_where_the_tools_find_them():
    """Each whole, under a name of its own; a second message takes none of the first one's."""
    uploads = Uploads(Limits())
    async with open_session() as session:
        first = await uploads.write(session, [attached("../a.txt"), attached("b", b"")])
        again = await uploads.write(session, [attached("../a.txt", b"other")])
        paths = [one.container_path for one in (*first, *again)]
        assert paths == ["uploads/_a.txt", "uploads/b", "uploads/_a-2.txt"]
        assert await content_of(session, "uploads/_a.txt") == b"hello"
        assert await content_of(session, "uploads/_a-2.txt") == b"other"
        assert await content_of(session, "uploads/b") == b""
        assert await uploads.write(session, []) == ()
    assert len(uploads) == 0


@on_virtual_time
async def test_no_two_messages_take_one_name_at_once(tmp_path):
    """Sessions that share a sandbox or a directory write one after the other. Every file is complete, and no lock is kept."""
    uploads, told = Uploads(Limits()), []
    shared = SlowSandbox()
    async with (
        open_nameless(lambda _name, _root: MemorySandbox()) as supervisor,
        trio.open_nursery() as nursery,
    ):
        several = [await supervisor.start_session(model=saying("Hi."), sandbox=shared) for _ in range(2)]

        async def send(number):
            (file,) = await uploads.write(several[number % 2], [attached(content=b"%d" % number)])
            told.append((file.container_path, b"%d" % number))

        for number in range(10):
            nursery.start_soon(send, number)
    assert len({path for path, _ in told}) == 10
    for path, content in told:
        assert (await shared.download([path]))[0].content == content
    assert len(uploads) == 0

    async with open_nameless(lambda _name, _root: SlowSandbox()) as supervisor:
        for given, seconds in [({"working_dir": tmp_path}, 2), ({"sandbox": "memory"}, 1)]:
            uploads = Uploads(Limits())
            several = [await supervisor.start_session(model=saying("Hi."), **given) for _ in range(2)]
            start = trio.current_time()
            async with trio.open_nursery() as nursery:
                for one in several:
                    nursery.start_soon(uploads.write, one, [attached()])
            assert trio.current_time() - start == pytest.approx(seconds)


async def hang(_self, _files):
    await trio.sleep_forever()


async def break_down(_self, _files):
    """Raise what no one catches by name, as an adapter may."""
    message = "/srv/secret"
    raise BaseException(message)  # noqa: TRY002


async def refuse(_self, files):
    return tuple(Transfer(path=one.path, error=refusal("no_space")) for one in files)


class SlowSandbox(MemorySandbox):
    """Takes its time between looking and writing."""

    async def list_dir(self, path):
        found = await super().list_dir(path)
        await trio.sleep(1)
        return found


@pytest.mark.host("H-059")
@pytest.mark.parametrize("upload", [hang, break_down, refuse])
@on_virtual_time
async def test_a_workspace_that_fails_is_the_operators_move(upload):
    """An upload times out after a minute, and no word of it reaches a caller. A cancellation frees the workspace."""
    uploads = Uploads(Limits())
    async with open_session(type("Failing", (MemorySandbox,), {"upload": upload})()) as session:
        start = trio.current_time()
        with pytest.raises(UploadFailed, match="see the log") as caught:
            await uploads.write(session, [attached()])
        assert trio.current_time() - start <= 61
        assert "/srv" not in str(caught.value)
        assert caught.value.__cause__ is not None
        assert len(uploads) == 0
        if upload is hang:  # of one that writes, and of one that waits behind it
            with trio.move_on_after(5) as scope:
                async with trio.open_nursery() as nursery:
                    for _ in range(2):
                        nursery.start_soon(uploads.write, session, [attached()])
            assert scope.cancelled_caught
    assert len(uploads) == 0


@on_virtual_time
async def test_a_session_that_has_ended_takes_no_files():
    """And no sandbox is made for it any more, which no one would close."""
    made = []

    def make(_name, _root):
        made.append(MemorySandbox())
        return made[-1]

    async with open_nameless(make) as supervisor:
        session = await supervisor.start_session(model=saying("Hi."))
        await session.stop()
        with pytest.raises(SessionDown):
            await Uploads(Limits()).write(session, [attached()])
    assert made == []


@on_bounded_time
async def test_names_of_attackers_stay_in_the_workspace(tmp_path):
    """Nothing is written outside of `uploads/`, whatever a file is called, and nothing where that leads out of the workspace, or is a file."""
    root = tmp_path / "ws"
    root.mkdir()
    evil = ["../../x", "/etc/x", "..", ".", "a/../../b", "\0", "~/x", "uploads/../../y", "-rf", "x\n"]
    large = os.urandom(1 << 10) * (10 << 10)
    async with open_nameless(lambda _name, _root: LocalSandbox(root)) as supervisor:
        session = await supervisor.start_session(model=saying("Hi."))
        told = await Uploads(Limits()).write(session, [attached(name) for name in evil])
        (whole,) = await Uploads(Limits()).write(session, [attached("large.bin", large)])
    assert sorted(one.name for one in tmp_path.iterdir()) == ["ws"]
    assert sorted(one.name for one in root.iterdir()) == ["uploads"]
    assert sorted(one.name for one in (root / "uploads").iterdir()) == sorted(
        [one.name for one in told] + ["large.bin"]
    )
    assert (root / whole.container_path).read_bytes() == large


@pytest.mark.parametrize("target", ["outside", "a file"])
@on_bounded_time
async def test_an_uploads_that_leads_elsewhere_takes_nothing(tmp_path, target):
    """A link out of the workspace, which a tool may have made; or a file of this name."""
    root, other = tmp_path / "ws", tmp_path / "other"
    root.mkdir()
    other.mkdir()
    if target == "outside":
        (root / "uploads").symlink_to(other)
    else:
        (root / "uploads").write_text("mine")
    async with open_nameless(lambda _name, _root: LocalSandbox(root)) as supervisor:
        session = await supervisor.start_session(model=saying("Hi."))
        with pytest.raises(UploadFailed):
            await Uploads(Limits()).write(session, [attached()])
    assert list(other.iterdir()) == []

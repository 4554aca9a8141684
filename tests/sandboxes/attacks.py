"""The attacks of docs/explanation/sandbox.md, each as a function of a sandbox: what was tried, and what must come of it.

They run under pytest with bubblewrap and without, as whoever runs the tests; and, where that is root, once more in a
process that has become an ordinary user: `python -m tests.sandboxes.attacks DIRECTORY NAME…`.
"""

import os
import pwd
import socket
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio
from attrs import frozen

from agentrail.abc import ExecuteOptions, ExecuteResult, GrepOptions, Refusal
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.refusals import MAX_READ_BYTES
from tests.sandboxes.rig import make_sandbox, why_no_bubblewrap

PATIENCE_SECONDS = 90
CANARY = "canary-7f3a"


@frozen(kw_only=True)
class Target:
    """What is attacked: a sandbox on `root`, beside which lies a file `secret` with the words `hidden words`."""

    sandbox: LocalSandbox
    root: Path
    confined: bool

    async def run(self, command: str, *, timeout_seconds: float = 60) -> ExecuteResult:
        """Run a command that is not refused."""
        result = await self.sandbox.execute(command, ExecuteOptions(timeout_seconds=timeout_seconds))
        assert result.error is None, result
        return result

    async def expect_invalid(self, *paths: str) -> None:
        """Find that no operation takes these paths."""
        for path in paths:
            for error in (
                (await self.sandbox.read(path)).error,
                (await self.sandbox.write(path, "x")).error,
                (await self.sandbox.edit(path, "hidden", "x")).error,
            ):
                _expect(error, "invalid_path", path)
            assert not await self.sandbox.exists(path), path
        assert (self.root.parent / "secret").read_text() == "hidden words"

    def count_alive(self) -> int:
        """Count the processes that commands of this sandbox have left."""
        found = 0
        for environ in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                found += f"TEST_TREE={self.root}".encode() in environ.read_bytes().split(b"\0")
        return found


def _expect(error: Refusal | None, code: str, what: object) -> None:
    assert error is not None, f"{what} was not refused"
    assert error.code == code, f"{what}: {error}"
    assert "hidden words" not in error.message
    assert error.message.isprintable(), error


async def climbing(target: Target) -> None:
    """`../secret`, `a/../../b` are refused before any system call."""
    await target.expect_invalid("../secret", "a/../../secret", "..", "a/..")


async def absolute_paths(target: Target) -> None:
    """`/etc/passwd` is outside, and so is a directory whose name begins like the root's."""
    evil = target.root.with_name(f"{target.root.name}-evil")
    evil.mkdir()
    (evil / "x").write_text("x")
    await target.expect_invalid("/etc/passwd", str(evil / "x"), str(target.root.parent / "secret"))


async def tilde(target: Target) -> None:
    """`~` is never expanded."""
    await target.expect_invalid("~/.ssh/id_rsa", "~root/x", "~")


async def links_that_point_outside(target: Target) -> None:
    """At the end, deep in the path, made by a command: refused, and no search goes through them."""
    (target.root / "a" / "b").mkdir(parents=True)
    (target.root / "a" / "b" / "up").symlink_to("../../..")
    await target.run("ln -s ../secret out; ln -s /etc etc")
    await target.expect_invalid("out", "a/b/up/secret", "etc/passwd")
    found = await target.sandbox.grep("hidden", ".", GrepOptions())
    assert (found.error, found.lines) == (None, ())
    assert "a/b/up/secret" not in (await target.sandbox.glob("**", ".")).paths


async def swapped_directories(target: Target) -> None:
    """While a process swaps a directory for a link, a read gives what is inside or nothing, and a write stays inside."""
    (target.root / "d").mkdir()
    (target.root / "d" / "secret").write_text("inside")
    (target.root / "evil").symlink_to("..")
    loop = "while :; do mv -T d kept; mv -T evil d; mv -T d evil; mv -T kept d; done"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(target.run, loop)
        seen: set[str] = set()
        for number in range(400):
            found = await target.sandbox.read("d/secret")
            assert found.error is not None or found.text in {"inside", "written"}, found
            seen.add(found.error.code if found.error else found.text)
            if number % 4 == 0:
                await target.sandbox.write("d/secret", "written")
        nursery.cancel_scope.cancel()
    assert (target.root.parent / "secret").read_text() == "hidden words"
    assert len(seen) > 1, f"nothing was swapped while it was read: {seen}"


async def hard_links(target: Target) -> None:
    """What has a name outside is not written; and a confined command cannot give a file outside a name inside."""
    os.link(target.root.parent / "secret", target.root / "linked")
    _expect((await target.sandbox.write("linked", "x")).error, "permission_denied", "write")
    _expect((await target.sandbox.edit("linked", "hidden", "x")).error, "permission_denied", "edit")
    assert (await target.sandbox.read("linked")).text == "hidden words"
    made = await target.run("ln ../secret made && echo made")
    if target.confined:
        assert "made\n" not in made.output, made
    assert (target.root.parent / "secret").read_text() == "hidden words"


async def magic_links(target: Target) -> None:
    """`/proc/self/root` and the like lead nowhere, by name or through a link."""
    (target.root / "magic").symlink_to("/proc/self/root")
    (target.root / "fd").symlink_to("/proc/self/fd")
    await target.expect_invalid("/proc/self/root/etc/passwd", "/proc/self/fd/3", "magic/etc/passwd", "fd/0")


async def special_files(target: Target) -> None:
    """A FIFO, a socket or a device is refused without blocking."""
    os.mkfifo(target.root / "pipe")
    here = os.open(target.root, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{here}/socket")  # the path of a test is too long for an address
        os.close(here)
        names = ["pipe", "socket"]
        with suppress(PermissionError):  # only root makes devices
            os.mknod(target.root / "device", 0o600 | 0o020000, os.makedev(1, 3))
            names.append("device")
        for name in names:
            _expect((await target.sandbox.read(name)).error, "permission_denied", name)
            _expect((await target.sandbox.write(name, "x")).error, "permission_denied", name)


async def huge_files(target: Target) -> None:
    """Beyond 50 MB is `too_large`; a line of forty is read and is one line."""
    with (target.root / "huge").open("wb") as file:
        file.truncate(MAX_READ_BYTES + 1)
    _expect((await target.sandbox.read("huge")).error, "too_large", "huge")
    (target.root / "long").write_bytes(b"x" * 40_000_000)
    page = await target.sandbox.read("long", offset=2, limit=1)
    assert (page.error, page.text, page.total_lines) == (None, "", 1)


async def binary_files(target: Target) -> None:
    """What is no text is told with its type and size."""
    for data in (b"\x89PNG\0\xff", b"caf\xe9" * 9_000):
        (target.root / "logo.png").write_bytes(data)
        error = (await target.sandbox.read("logo.png")).error
        _expect(error, "not_text", data[:4])
        assert error is not None
        assert f"image/png, {len(data):,} bytes" in error.message


async def odd_characters(target: Target) -> None:
    """A path with NUL, a newline or an escape is refused; names in answers are escaped."""
    await target.expect_invalid("a\0b", "a\nb", "a\x1b[2Jb")
    await target.run(r"""touch $'evil\x1b[2J' $'two\nlines'; mkdir $'d\x1b'; touch $'d\x1b/x'""")
    _expect((await target.sandbox.read("evil")).error, "file_not_found", "evil")


async def protected_names(target: Target) -> None:
    """What programs trust is not written, in whatever case, before it exists, or through a link inside."""
    (target.root / ".git" / "hooks").mkdir(parents=True)
    (target.root / "alias").symlink_to(".git")
    for path in (
        ".GIT/Hooks/pre-commit",
        ".git/config",
        "alias/hooks/x",
        "alias/config",
        ".envrc",
        "x/.vscode/y",
    ):
        _expect((await target.sandbox.write(path, "x")).error, "permission_denied", path)
    result = await target.run("echo evil > .git/hooks/pre-commit; echo evil > .envrc")
    if target.confined:
        assert not (target.root / ".git" / "hooks" / "pre-commit").exists()
        assert result.written_protected == (".envrc",)
    else:
        assert result.written_protected == (".envrc", ".git/hooks")


async def daemons(target: Target) -> None:
    """`&`, `nohup`, `setsid` and a double fork are stopped with the command."""
    result = await target.run(
        "sleep 999 & nohup sleep 999 >/dev/null 2>&1 & setsid sleep 999 & (sleep 999 &) ; echo done"
    )
    assert result.output == "done\n"
    assert result.stopped_processes == 4
    assert target.count_alive() == 0


async def daemons_without_a_trace(target: Target) -> None:
    """One that leaves its group and clears its environment is stopped for certain where it is confined."""
    if target.confined:
        await target.run(
            "env -i setsid sh -c 'echo > begun; while :; do echo >> alive; sleep 0.01; done' & until [ -f begun ]; do :; done"
        )
        size_bytes = (target.root / "alive").stat().st_size
        await trio.sleep(0.1)  # ten of its rounds, in which it would have written
        assert (target.root / "alive").stat().st_size == size_bytes


async def fork_bombs(target: Target) -> None:
    """The limit holds for who is not root; the time holds for all, and then nothing is left."""
    bomb = "b() { [ $1 -gt 0 ] && { b $(($1 - 1)) & b $(($1 - 1)) & }; sleep 999; }; b 6"
    if target.confined and os.geteuid() != 0:  # the real one, against the limit of the namespace
        bomb = "b() { b | b & }; b; sleep 999"
    assert (await target.run(bomb, timeout_seconds=1.5)).timed_out
    assert target.count_alive() == 0


async def endless_output(target: Target) -> None:
    """64 MB, then the command is stopped; the answer shows head and tail."""
    result = await target.run("yes")
    assert result.output.startswith("y\ny\n")
    assert "it had printed more than 64 MB" in result.output
    assert result.truncated
    assert len(result.output) < 60_000
    assert "it had printed more than 64 MB" in (await target.run("cat /dev/zero")).output
    assert target.count_alive() == 0


async def keys_in_the_environment(target: Target) -> None:
    """What is not on the list is not there, and not in any process that the command can look at."""
    os.environ["SOME_API_KEY"] = CANARY
    try:
        result = await target.run("env; cat /proc/*/environ 2>/dev/null" if target.confined else "env")
    finally:
        del os.environ["SOME_API_KEY"]
    assert CANARY not in result.output


async def network_and_sockets(target: Target) -> None:
    """Confined there is no network, no DNS and nothing in /run."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reached = await target.run(f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached")
    if target.confined:
        assert reached.output == ""
        assert (
            await target.run("ls -A /run; getent hosts localhost.example || echo unknown")
        ).output == "unknown\n"


async def the_rest_of_the_machine(target: Target) -> None:
    """Confined, nothing outside is written, and homes, temporary files and passwords are not seen."""
    if target.confined:
        home = Path.home()
        command = f"touch ../made /etc/made /usr/made 2>/dev/null; cat ../secret /etc/shadow 2>/dev/null; ls -A {home} 2>/dev/null | grep -v {target.root.parts[2]}"
        assert (await target.run(command)).output == ""
        assert not (target.root.parent / "made").exists()
        listed = await target.run("id -u; grep -E 'CapEff|NoNewPrivs' /proc/self/status; echo $HOME")
        assert listed.output == f"{os.geteuid()}\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\n{target.root}\n"


async def escape_sequences(target: Target) -> None:
    """What would repaint a terminal is taken out of the answer."""
    result = await target.run(r"printf 'a\033[2J\033]0;title\007b\x9b31mc\r\n'")
    assert result.output.isascii() or "\ufffd" in result.output
    assert "\x1b" not in result.output
    assert "title" not in result.output


async def state_of_agentrail(target: Target) -> None:
    """Its own directory is neither written nor read, but for the outputs of commands; confined, not even seen."""
    (target.root / ".agentrail").mkdir()
    (target.root / ".agentrail" / "journal").write_text("hidden words")
    for path in (".agentrail/journal", ".agentrail/settings", ".Agentrail/journal", ".agentrail/output/x"):
        _expect((await target.sandbox.write(path, "x")).error, "permission_denied", path)
    _expect((await target.sandbox.read(".agentrail/journal")).error, "permission_denied", "read")
    assert (await target.sandbox.grep("hidden", ".agentrail", GrepOptions())).lines == ()
    assert (await target.sandbox.grep("hidden", ".", GrepOptions())).lines == ()
    assert ".agentrail/journal" not in (await target.sandbox.glob("**", ".")).paths
    if target.confined:
        result = await target.run("cat .agentrail/journal; echo x > .agentrail/journal; seq 100000")
        assert "hidden words" not in result.output
        assert result.output_path is not None
        assert (await target.sandbox.read(result.output_path)).total_lines > 100_000
    assert (target.root / ".agentrail" / "journal").read_text() == "hidden words"


async def missing_rights(target: Target) -> None:
    """The user's own rights hold inside the root as well; root has them all, and reads what it may."""
    for name, mode in (("unreadable", 0), ("unwritable", 0o444)):
        target.root.joinpath(name).write_text("mine")
        target.root.joinpath(name).chmod(mode)
    read, written = await target.sandbox.read("unreadable"), await target.sandbox.write("unwritable", "x")
    if os.geteuid() == 0:
        assert (read.text, written.error) == ("mine", None)
    else:
        _expect(read.error, "permission_denied", "unreadable")
        _expect(written.error, "permission_denied", "unwritable")  # a rename would need no right to write it
        assert target.root.joinpath("unwritable").read_text() == "mine"


ATTACKS: tuple[Callable[[Target], Awaitable[None]], ...] = (
    climbing,
    absolute_paths,
    tilde,
    links_that_point_outside,
    swapped_directories,
    hard_links,
    magic_links,
    special_files,
    huge_files,
    binary_files,
    odd_characters,
    protected_names,
    daemons,
    daemons_without_a_trace,
    fork_bombs,
    endless_output,
    keys_in_the_environment,
    network_and_sockets,
    the_rest_of_the_machine,
    escape_sequences,
    state_of_agentrail,
    missing_rights,
)


SEARCHES = frozenset({links_that_point_outside, state_of_agentrail})
"""Those that search, for which an interpreter is started where there is no ripgrep."""


async def attack(kind: Callable[[Target], Awaitable[None]], place: Path, *, confined: bool) -> None:
    """Make a target in an empty directory, and attack it."""
    root = place / "ws"
    root.mkdir()
    (place / "secret").write_text("hidden words")
    with pytest.MonkeyPatch.context() as patch:
        sandbox = make_sandbox("confined" if confined else "unconfined", root, patch)
        with trio.fail_after(PATIENCE_SECONDS):
            await kind(Target(sandbox=sandbox, root=root, confined=confined))
        await sandbox.aclose()


def main(place: Path, *names: str) -> None:
    """Become an ordinary user, then make the attacks of these names; what was made is said on stdout."""
    nobody = pwd.getpwnam("nobody")
    os.chown(place, nobody.pw_uid, nobody.pw_gid)
    os.setgroups([])
    os.setgid(nobody.pw_gid)
    os.setuid(nobody.pw_uid)
    os.environ["HOME"] = "/nonexistent"
    tempfile.tempdir = str(place)
    modes = [False] if why_no_bubblewrap() else [False, True]
    for kind in (one for one in ATTACKS if one.__name__ in names):
        for confined in modes:
            trio.run(partial(attack, kind, Path(tempfile.mkdtemp()), confined=confined))
            sys.stdout.write(f"made: {kind.__name__} {'confined' if confined else 'unconfined'}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])

"""The attacks of docs/explanation/sandbox.md, each as a function of a sandbox: what was tried, and what must come of it.

They run under pytest with bubblewrap and without, as whoever runs the tests; and, where that is root, once more in a
process that has become an ordinary user, for good: `as_nobody`.
"""

import contextlib
import errno
import inspect
import itertools
import os
import pwd
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio
from attrs import frozen

from agentrail.abc import ExecuteOptions, ExecuteResult, GrepOptions, Refusal
from agentrail.errors import SandboxError
from agentrail.sandboxes import bubblewrap, protected_mounts
from agentrail.sandboxes.command_runner import CommandLimits
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.refusals import MAX_READ_BYTES
from tests.sandboxes.rig import count_alive, make_sandbox, why_no_bubblewrap

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
        return count_alive(f"TEST_TREE={self.root}")


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
    error = (await target.sandbox.read("huge")).error
    _expect(error, "too_large", "huge")
    assert error is not None
    assert error.message.startswith("huge has 50,000,001 bytes, at most 50,000,000 are read.")
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
        ".claude/settings.json",
        "x/.cursor/mcp.json",
        ".npmrc",
        ".Husky/pre-commit",
        "a/AgentRail.toml",
        "sitecustomize.py",
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
    """64 MB, then the command is stopped, long before its time is up; the answer shows head and tail."""
    result = await target.run("yes")
    assert result.output.startswith("y\ny\n")
    note = (
        "[The command was stopped: it had printed more than 64 MB. Print less, or redirect it into a file.]"
    )
    assert result.output.endswith(f"y\n\n{note}")
    assert (result.exit_code, result.signal, result.timed_out) == (None, None, False)
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


async def inherited_descriptors(target: Target) -> None:
    """A command inherits no open directory, whatever protected paths the workspace has: it would lead out of the mounts."""
    for name in (".agentrail", ".vscode", ".git/hooks", "sub/.git"):
        (target.root / name).mkdir(parents=True)
    listed = await target.run(
        "ls -l /proc/self/fd; cat /proc/self/fd/*/../secret /proc/self/fd/*/../../secret"
    )
    assert "hidden words" not in listed.output
    assert str(target.root) not in listed.output


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


def _count_refusals(tried: Iterable[Refusal | None]) -> int:
    return sum(error is not None and error.code == "permission_denied" for error in tried)


async def _has_perl(target: Target) -> bool:
    """Whether system calls can be made by hand; Debian and most others cannot do without it."""
    return (await target.run("perl -MSocket -e 1")).exit_code == 0


async def planted_programs(target: Target) -> None:
    """What lies in the root is not started outside, although `PATH` names it first; and whatever is started sees no key."""
    proof, planted = target.root.parent / "proof", target.root / ".venv" / "bin"
    planted.mkdir(parents=True)
    for name in ("rg", "bwrap", "bash", "sh", "python3"):
        program = planted / name
        program.write_text(f"#!/bin/sh\necho $0 $SOME_API_KEY >> {proof}\nexec /bin/sh -c : \n")
        program.chmod(0o755)
    elsewhere = target.root.parent / "bin"  # a way through the root, and one that only leads into it
    elsewhere.mkdir()
    (elsewhere / "rg").symlink_to(planted / "rg")
    (target.root / "up").symlink_to("../bin")
    # Without ripgrep an interpreter is started, which an ordinary user may not enter everywhere.
    searches = shutil.which("rg") is not None or os.geteuid() == 0
    with pytest.MonkeyPatch.context() as patch:
        paths = (planted, target.root / "up", elsewhere, ".venv/bin", "", os.environ["PATH"])
        patch.setenv("PATH", ":".join(map(str, paths)))
        patch.setenv("SOME_API_KEY", CANARY)
        patch.chdir(target.root)
        sandbox = LocalSandbox(target.root, shell_fallback="unconfined")
        assert (await sandbox.execute("true", ExecuteOptions())).exit_code == 0
        if searches:
            await sandbox.grep("x", ".", GrepOptions())
        await sandbox.aclose()
    assert not proof.exists(), proof.read_text()


async def code_of_this_process(target: Target) -> None:
    """The interpreter, its environment and agentrail itself below the root: read, and neither written nor moved away."""
    places = [target.root / "deep" / "er" / ".venv", target.root / "agentrail"]
    for place in places:
        place.mkdir(parents=True)
        (place / "code.py").write_text("ours")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            protected_mounts,
            "_PLACES",
            tuple(protected_mounts.Place(one, one, is_whole=True) for one in places),
        )
        sandbox = LocalSandbox(target.root, shell_fallback="unconfined")
        for path in (
            "agentrail/code.py",
            "deep/er/.venv/code.py",
            "deep/er/.venv/new/x",
            "agentrail/json.py",
        ):
            _expect((await sandbox.write(path, "evil")).error, "permission_denied", path)
        assert (await sandbox.read("agentrail/code.py")).text == "ours"
        if target.confined:
            await sandbox.execute(
                "echo evil > agentrail/code.py; rm -r agentrail deep; mv agentrail a; mv deep d; mv deep/er deep/f; "
                "mkdir -p deep/er/.venv agentrail; echo evil > deep/er/.venv/code.py; echo evil > agentrail/json.py",
                ExecuteOptions(),
            )
            assert [sorted(place.iterdir()) for place in places] == [[place / "code.py"] for place in places]
            assert {(place / "code.py").read_text() for place in places} == {"ours"}
        with pytest.raises(SandboxError, match=", where this program is installed"):
            LocalSandbox(target.root / "agentrail")
        (target.root / "linked").symlink_to("deep")
        linked = protected_mounts.Place(target.root / "linked" / "er", places[0].parent, is_whole=False)
        patch.setattr(protected_mounts, "_PLACES", (linked,))
        with pytest.raises(SandboxError, match="through the link"):
            LocalSandbox(target.root)
        await sandbox.aclose()


async def settings_of_the_kernel(target: Target) -> None:
    """Confined, nothing of `/proc`, `/sys` and `/dev` can be opened to be written but what belongs to the command itself."""
    if target.confined:
        places = "/proc/sys /proc/sysrq-trigger /proc/irq /proc/bus /proc/fs /proc/driver /proc/acpi /proc/mtrr /sys"
        looked = await target.run(
            f"for f in $(find {places} -xdev -type f -perm /222 2>/dev/null) /proc/kmsg /proc/kcore /sys/fs/cgroup/*/*; do "
            "{ : >> $f; } 2>/dev/null && echo open $f; done; cat /proc/keys /proc/kmsg 2>/dev/null; "
            "touch /dev/x 2>/dev/null && echo made; ls -A /sys/kernel/debug /sys/firmware 2>/dev/null | grep -v : | grep ."
        )
        assert looked.output == ""


async def swapped_protected_directories(target: Target) -> None:
    """While one command swaps what is protected for a link to what is hidden, another sees and writes nothing of that."""
    if not target.confined:
        return
    hidden = target.root.parent / "hidden"
    hidden.mkdir()
    (hidden / "secret").write_text("hidden words")
    (hidden / "HEAD").write_text("ref: refs/heads/m")
    swap = "rm -rf {0}; ln -sfn ../../hidden {0}; rm -rf {0}; mkdir -p {0}"
    loop = f"mkdir x; while :; do {swap.format('x/.vscode')}; {swap.format('x/.git')}; done"
    command = (
        "cat x/.vscode/secret x/.git/secret 2>/dev/null; echo evil > x/.git/made; echo evil > x/.vscode/made"
    )
    seen: set[str] = set()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(target.run, loop)
        for _ in range(15):
            result = await target.sandbox.execute(f"({command}) 2>/dev/null; :", ExecuteOptions())
            seen.add(result.output)
        nursery.cancel_scope.cancel()
    assert not any("hidden words" in output for output in seen), seen
    assert sorted(path.name for path in hidden.iterdir()) == ["HEAD", "secret"]


async def repositories_that_are_moved(target: Target) -> None:
    """What git trusts is neither written, nor moved away to be put there anew, nor overlooked among very many files."""
    git = target.root / ".git"
    for name in ("config", "hooks/pre-commit", "info/attributes", "modules/a/b/config", "modules/a/b/HEAD"):
        (git / name).parent.mkdir(parents=True, exist_ok=True)
        (git / name).write_text("ours")
    for name in ("worktrees/w/commondir", "worktrees/w/gitdir"):
        (git / name).parent.mkdir(parents=True, exist_ok=True)
        (git / name).write_text("ours")
    files = sorted(
        path.relative_to(target.root) for path in git.rglob("*") if path.name != "HEAD" and path.is_file()
    )
    refused = [(await target.sandbox.write(str(path), "evil")).error for path in files]
    assert _count_refusals(refused) == len(files) == 6
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protected_mounts, "_MAX_ENTRIES_LOOKED_AT", 0)  # as if all of them were used up
        told = await target.run(
            "for f in "
            + " ".join(map(str, files))
            + "; do echo evil > $f; rm -f $f; done; mv .git/modules/a/b .git/modules/a/c; mv .git/modules .git/m; "
            "mv .git/worktrees .git/w; mv .git/info .git/i; mv .git g; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; "
            "echo evil > .git/commondir; echo evil > .git/config.worktree; :"
        )
    if target.confined:
        assert {(target.root / path).read_text() for path in files} == {"ours"}
        assert set(told.written_protected) == {".git/commondir", ".git/config.worktree"}
    else:
        assert {".git/hooks", ".git/commondir", ".git/config.worktree"} <= set(told.written_protected)


async def crowds_of_repositories(target: Target) -> None:
    """However many repositories a command makes, what is protected in the root stays so."""
    for name in (".git/hooks/pre-commit", ".git/config", ".vscode/tasks.json", ".envrc"):
        (target.root / name).parent.mkdir(parents=True, exist_ok=True)
        (target.root / name).write_text("ours")
    await target.run(
        "for i in $(seq 200); do mkdir -p r$i/.git/objects r$i/.git/refs; echo > r$i/.git/HEAD; done"
    )
    names = ".git/hooks/pre-commit .git/config .vscode/tasks.json .envrc"
    told = await target.run(f"for f in {names}; do echo evil > $f; done; mv .git g; :")
    if target.confined:
        assert {(target.root / name).read_text() for name in names.split()} == {"ours"}
        assert told.written_protected == ()
    else:
        assert ".envrc" in told.written_protected


async def crowds_of_files(target: Target) -> None:
    """What a search has found once is protected from later commands, however many files are made above it."""
    names = ("z/.envrc", "z/a/.git/config", "z/a/.git/HEAD")
    for name in names:
        (target.root / name).parent.mkdir(parents=True, exist_ok=True)
        (target.root / name).write_text("ours")
    await target.run("true")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protected_mounts, "_MAX_ENTRIES_LOOKED_AT", 0)  # as if all of them were used up
        told = await target.run(
            "echo evil > z/.envrc; echo evil > z/a/.git/config; mv z/a/.git z/a/g; mv z/.envrc z/e"
        )
    if target.confined:
        assert {(target.root / name).read_text() for name in names} == {"ours"}
    else:
        assert not (target.root / names[0]).exists()
    assert told.written_protected == ()


async def repositories_that_are_made(target: Target) -> None:
    """A directory becomes no repository by a file tool, whatever is written last; and what a command makes of it is told."""
    parts = {
        "HEAD": "ref: refs/heads/m",
        "objects/x": "",
        "refs/x": "",
        "config": "[core]\n fsmonitor = evil\n",
    }
    for number, order in enumerate(itertools.permutations(parts)):
        place = "" if number == 0 else f"d{number}/"
        refused = [(await target.sandbox.write(place + name, parts[name])).error for name in order]
        assert _count_refusals(refused) == 1, (place, order, refused)
    for path in (
        ".git",
        "sub/.git",
        "sub/.git/commondir",
        "sub/.git/modules/x/y/config",
        "x/.GIT/Info/attributes",
    ):
        _expect((await target.sandbox.write(path, "x")).error, "permission_denied", path)
    assert (await target.sandbox.write("y/HEAD", "ref: refs/heads/m")).error is None
    _expect((await target.sandbox.write("y/commondir", "../d1")).error, "permission_denied", "commondir")
    told = await target.run(
        "mkdir -p b/objects b/refs b/hooks; echo ref: refs/heads/m > b/HEAD; echo evil > b/config; "
        "mkdir n; echo gitdir: ../b > n/.git; mkdir -p o/.git; echo evil > o/.git/config"
    )
    assert set(told.written_protected) == {"b/HEAD", "b/config", "b/hooks", "n/.git", "o/.git/config"}
    # By now `b` is a repository, so what decides about its commands is not to be written any more.
    for path in (
        "b/config",
        "b/hooks/x",
        "b/commondir",
        "b/info/x",
        "b/modules/x/config",
    ):
        _expect((await target.sandbox.write(path, "x")).error, "permission_denied", path)
    assert (await target.sandbox.write("b/refs/heads/x", "x")).error is None
    again = await target.run("echo more > b/config; rm -rf b/hooks; mv b c")
    if target.confined:
        assert (target.root / "b" / "config").read_text() == "evil\n"
        assert again.written_protected == ()


async def names_that_programs_trust(target: Target) -> None:
    """Start files of every shell, and a state directory of ours that was not there: told when a command makes them."""
    told = await target.run(
        "mkdir .agentrail; echo evil > .agentrail/settings.json; touch .bash_login .zlogin .kshrc; seq 100000"
    )
    assert set(told.written_protected) == {".agentrail", ".bash_login", ".zlogin", ".kshrc"}
    for path in (".bash_login", "home/.zlogin", ".cshrc", ".gitconfig"):
        _expect((await target.sandbox.write(path, "x")).error, "permission_denied", path)


async def memory_as_files(target: Target) -> None:
    """Confined, what lies in memory in place of a disk has a size, and what is hidden cannot be filled."""
    if target.confined:
        sandbox = LocalSandbox(target.root, limits=CommandLimits(max_temporary_bytes=16 << 20))
        command = "for d in /tmp /var/tmp /dev/shm /run /home /root /dev /etc/ssh; do head -c 40M /dev/zero > $d/x; done; cat /tmp/x | wc -c"
        filled = await sandbox.execute(command, ExecuteOptions(timeout_seconds=60))
        sizes = await sandbox.execute("df --output=size /tmp /var/tmp /dev/shm", ExecuteOptions())
        await sandbox.aclose()
        assert 0 < int(filled.output.split()[-1]) <= 16 << 20, filled
        assert sum(map(int, sizes.output.split()[1:])) <= (16 << 10) + 64  # in KiB, each rounded up
        every = "df -k --output=size /tmp /var/tmp /dev/shm /home /root /run /etc/ssh | tail -n +2"
        listed = (await target.run(every)).output.split()
        assert sum(map(int, listed)) <= (CommandLimits().max_temporary_bytes >> 10) + len(listed) * 1024


async def sockets_of_others(target: Target) -> None:
    """Confined, sockets outside are not reached, by a path or by a name, and with the network of the host as well."""
    connect = (
        'perl -MSocket -e \'socket(S, AF_UNIX, {kind}, 0) or die "none\\n"; '
        'print connect(S, pack_sockaddr_un("{address}")) ? "reached\\n" : "refused\\n"\' 2>&1'
    )
    place, name = Path(tempfile.mkdtemp()), f"agentrail-{secrets.token_hex(8)}"
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, place)
        here = os.open(target.root, os.O_RDONLY)
        stack.callback(os.close, here)
        for address in (str(place / "s"), f"\0{name}", f"/proc/self/fd/{here}/s"):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(address)
            listener.listen()
        if not target.confined:
            return
        patterns = {kind: connect.replace("{kind}", kind) for kind in ("SOCK_STREAM", "SOCK_DGRAM")}
        tries = [
            pattern.replace("{address}", address)
            for pattern in patterns.values()
            for address in (str(place / "s"), f"\\0{name}")
        ]
        if not await _has_perl(target):
            return
        assert (await target.run(patterns["SOCK_STREAM"].replace("{address}", "s"))).output == "reached\n"
        sandbox = LocalSandbox(target.root, readable=(str(place),))
        tried = await sandbox.execute("; ".join(tries), ExecuteOptions())
        assert tried.output == "refused\n" * 4
        await sandbox.aclose()
        sandbox = LocalSandbox(target.root, readable=(str(place),), network="host")
        tried = await sandbox.execute("; ".join(tries), ExecuteOptions())
        pair = await sandbox.execute(
            "perl -MSocket -e 'print 0 + !!socketpair(A, B, AF_UNIX, $_, 0) for SOCK_STREAM, SOCK_DGRAM, SOCK_RAW'",
            ExecuteOptions(),
        )
        await sandbox.aclose()
        if os.uname().machine in {"x86_64", "aarch64"}:
            assert (tried.output, pair.output) == ("none\n" * 4, "100")


async def system_calls(target: Target) -> None:
    """Confined, the kernel refuses what asks for keys, namespaces, mounts, or goes round the network namespace."""
    numbers = bubblewrap.MACHINES.get(os.uname().machine)
    if not target.confined or numbers is None or not await _has_perl(target):
        return
    number = numbers.numbers
    names = "keyctl add_key request_key bpf io_uring_setup mount open_tree setns perf_event_open userfaultfd"
    calls = [
        *(f"{number[name]}, 0, 0, 0, 0, 0" for name in names.split()),
        *(f"{number['unshare']}, {flag}" for flag in (0x10000000, 0x20000, 0x40000000)),
        f"{number['clone']}, 0x10000011, 0, 0, 0, 0",
        f"{number['ioctl']}, 0, 0x5412, 0",
    ]
    script = "; ".join(f'print syscall({one}) == -1 ? 0 + $! : "made", " "' for one in calls)
    families = "; ".join(f'print socket(S, {one}, 2, 0) ? "made" : 0 + $!, " "' for one in (40, 38, 31, 17))
    script += f'; {families}; print syscall({number["clone3"]}, 0, 0) == -1 ? 0 + $! : "made"'
    tried = await target.run(f"perl -e '{script}'")
    refused = [errno.EPERM] * len(calls) + [errno.EAFNOSUPPORT] * 4 + [errno.ENOSYS]
    assert tried.output.split() == [*map(str, refused)]
    ordinary = await target.run(
        "unshare --help >/dev/null 2>&1; (sleep 0 & wait); cat /dev/null | cat; echo $((1 + 1))"
    )
    assert ordinary.output == "2\n"


async def forged_counts(target: Target) -> None:
    """How many processes were left is counted from outside: what a command says, or does to who waits for it, is not it."""
    for said in ("junk", "9" * 30, "0"):
        result = await target.run(
            f"sleep 999 & echo {said} > /proc/$PPID/fd/0; echo {said} > /proc/$PPID/fd/2; echo done"
        )
        assert (result.output.splitlines()[-1], result.stopped_processes) == ("done", 1)
    assert target.count_alive() == 0


ATTACKS: tuple[Callable[[Target], Awaitable[None]], ...] = tuple(
    one
    for name, one in tuple(globals().items())
    if inspect.isfunction(one)  # the module `inspect` is a coroutine function itself, to that of Python 3.12
    and inspect.iscoroutinefunction(one)
    and [*inspect.signature(one).parameters] == ["target"]
    and name[0] != "_"
)
"""All of this module, in their order."""


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


def as_nobody(*, place: str, name: str) -> None:
    """Become an ordinary user, then make the attack of this name; what was made is said on stdout."""
    nobody = pwd.getpwnam("nobody")
    os.chown(place, nobody.pw_uid, nobody.pw_gid)
    os.setgroups([])
    os.setgid(nobody.pw_gid)
    os.setuid(nobody.pw_uid)
    os.environ["HOME"] = "/nonexistent"
    tempfile.tempdir = place
    modes = [False] if why_no_bubblewrap() else [False, True]
    for kind in (one for one in ATTACKS if one.__name__ == name):
        for confined in modes:
            trio.run(partial(attack, kind, Path(tempfile.mkdtemp()), confined=confined))
            sys.stdout.write(f"made: {kind.__name__} {'confined' if confined else 'unconfined'}\n")
            sys.stdout.flush()

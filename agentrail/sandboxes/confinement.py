"""Whether commands can be confined here, and what bubblewrap has to be told so that they are."""

import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

import trio
from attrs import frozen

from agentrail.errors import OptionError
from agentrail.sandboxes.command import NotBegun, Program, try_program
from agentrail.sandboxes.protected import STATE_DIRECTORY

Network: TypeAlias = Literal["none", "host"]
ShellFallback: TypeAlias = Literal["refuse", "unconfined"]

PROBE_SECONDS: Final = 10.0

_HIDDEN_FILES: Final = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-")
_HIDDEN_DIRECTORIES: Final = ("/home", "/root", "/run", "/tmp", "/var/tmp", "/etc/ssh")  # noqa: S108 - they are hidden
_FIRST_UID_OF_PEOPLE: Final = 1_000
_NAMESPACES: Final = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
)


@frozen(kw_only=True)
class Confinement:
    """How commands run.

    Attributes:
        mode: `bubblewrap`, `unconfined` or `refused`.
        why: Why bubblewrap is not used; empty where it is.
    """

    mode: Literal["bubblewrap", "unconfined", "refused"]
    why: str = ""


async def probe(fallback: ShellFallback) -> Confinement:
    """Find out by trying how commands can run here: many systems have bubblewrap and forbid what it needs.

    Cancellation: The trial is killed.
    """
    why = await _try_bubblewrap()
    if why is None:
        return Confinement(mode="bubblewrap")
    return fall_back(fallback, why)


def check_choice(name: str, value: object, allowed: object) -> None:
    """Hold an option against the words that it may be.

    Raises:
        OptionError: Your move: it is none of them; the message has them all.
    """
    words = get_args(allowed)
    if value not in words:
        raise OptionError([f"{name} is {value!r}: expected {' or '.join(map(repr, words))}"])


def fall_back(fallback: ShellFallback, why: str) -> Confinement:
    """Decide how commands run where bubblewrap cannot be used."""
    return Confinement(mode="unconfined" if fallback == "unconfined" else "refused", why=why)


async def _try_bubblewrap() -> str | None:
    """Say why bubblewrap does not work here; None when it does."""
    if sys.platform != "linux":
        return f"there is none for {sys.platform}"
    program = shutil.which("bwrap")
    if program is None:
        return "it is not installed"
    given = (*_NAMESPACES, "--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
    tried = Program(
        argv=("true",),
        confine=lambda info: (program, *given, "--info-fd", str(info)),
        directory="/",
        environment=os.environ,
        prepare_seconds=PROBE_SECONDS,
    )
    try:
        with trio.move_on_after(PROBE_SECONDS):
            code, said = await try_program(tried)
            return None if code == 0 else _last_line(said, code)
    except NotBegun as why:
        if why.code is not None:
            return _last_line(why.said, why.code)
    except OSError as error:
        return f"it cannot be started: {error.strerror}"
    return f"it did not start within {PROBE_SECONDS:g} s"


def _last_line(said: str, code: int) -> str:
    lines = said.strip().splitlines()
    return (lines or [f"it ends with {code}"])[-1]


@frozen(kw_only=True)
class View:
    """What a confined command sees of the machine.

    Attributes:
        root: What may be written; also the home directory.
        directory: Where the command begins.
        network: `none` or `host`.
        readable: What is shown although it is hidden.
        protected: What exists below the root and may not be written.
    """

    root: Path
    directory: Path
    network: Network
    readable: tuple[str, ...]
    protected: tuple[Path, ...]

    def decide_argv(self, info: int) -> tuple[str, ...]:
        """Write the call of bubblewrap, up to the end of its options.

        Args:
            info: A descriptor, to which it writes the pid of its first process.
        """
        argv = ["bwrap", *_NAMESPACES, *(("--unshare-net",) if self.network == "none" else ())]
        argv += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        for hidden in _find_hidden():
            argv += ["--tmpfs", str(hidden)]
        for file in filter(os.path.exists, _HIDDEN_FILES):
            argv += ["--ro-bind", os.devnull, file]
        for shown in self.readable:
            path = str(Path(shown).expanduser())
            argv += ["--ro-bind-try", path, path]
        argv += ["--bind", str(self.root), str(self.root)]
        for protected in self.protected:
            if protected.name == STATE_DIRECTORY:
                argv += ["--tmpfs", str(protected), "--remount-ro", str(protected)]
            else:
                argv += ["--ro-bind-try", str(protected), str(protected)]  # it may be gone by now
        return (*argv, "--info-fd", str(info), "--chdir", str(self.directory))


def _find_hidden() -> list[Path]:
    """List the directories that no command sees, those further up first: homes, temporary ones, `/run`."""
    every = {Path(name).resolve() for name in (*_HIDDEN_DIRECTORIES, tempfile.gettempdir(), *_homes())}
    every.discard(Path("/"))
    return sorted(
        path for path in every if path.is_dir() and not any(other in path.parents for other in every)
    )


def _homes() -> Iterator[str]:
    yield str(Path.home())
    for entry in pwd.getpwall():
        if entry.pw_uid >= _FIRST_UID_OF_PEOPLE or entry.pw_uid == 0:
            yield entry.pw_dir

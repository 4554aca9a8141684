"""What a confined command sees of the machine, as options of bubblewrap."""

import os
import pwd
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, TypeAlias

from attrs import field, frozen

from agentrail.sandboxes.guarded import Mount
from agentrail.sandboxes.process_tree import PROC
from agentrail.sandboxes.protected import STATE_DIRECTORY
from agentrail.sandboxes.seccomp import assemble_filter

Network: TypeAlias = Literal["none", "host"]

CALL_FILTER: Final = "--seccomp"
BIND_OPENED: Final = "--ro-bind-fd"
OPTIONAL: Final = ("--size", "--disable-userns", "--unshare-cgroup", CALL_FILTER, BIND_OPENED)
"""What not every bubblewrap knows, or not every kernel allows; without one of these the rest still holds."""

_HIDDEN_FILES: Final = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-")
_TEMPORARY: Final = ("/tmp", "/var/tmp")  # noqa: S108 - they are hidden
_HIDDEN_DIRECTORIES: Final = (
    *("/home", "/root", "/run", "/etc/ssh"),
    # What of the kernel root may read there although it may do nothing: its memory, its firmware, traces of all programs.
    *("/sys/firmware", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/fs/bpf", "/sys/fs/pstore"),
)
_HIDDEN_OF_PROC: Final = frozenset(
    {"keys", "key-users", "kcore", "kmsg", "timer_list", "sched_debug", "latency_stats"}
)
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - it gets one of its own
_OF_ITS_OWN: Final = (Path("/proc"), Path("/dev"))
_EMPTY_BYTES: Final = 1 << 20  # of a directory in which nothing but mounts is wanted
_FIRST_UID_OF_PEOPLE: Final = 1_000
_MAX_SOCKETS_HIDDEN: Final = 500
_NAMESPACES: Final = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
)


@frozen(kw_only=True)
class Confining:
    """How bubblewrap is called.

    Attributes:
        program: Where it is.
        options: All but those that name descriptors and variables.
        call_filter: Which system calls are refused, as `seccomp.py` writes it; None for none.
        descriptors: Those that the options name.
    """

    program: str
    options: tuple[str, ...]
    call_filter: bytes | None
    descriptors: tuple[int, ...] = ()


@frozen(kw_only=True)
class View:
    """What a confined command sees of the machine.

    Attributes:
        root: What may be written; also the home directory.
        directory: Where the command begins.
        network: `none` or `host`.
        readable: What is shown although it is hidden.
        mounts: What below the root is not to be written or not to be renamed, those further up first.
        max_temporary_bytes: In all temporary directories together.
        lacks: Which of `OPTIONAL` cannot be had here.
    """

    root: Path
    directory: Path
    network: Network
    readable: tuple[str, ...]
    mounts: tuple[Mount, ...]
    max_temporary_bytes: int
    lacks: frozenset[str] = field(default=frozenset())

    def decide(self, program: str) -> Confining:
        """Write the call of bubblewrap.

        Args:
            program: Where it is.
        """
        temporary, hidden = _find_temporary(), _find_hidden()
        share = max(self.max_temporary_bytes // (len(temporary) + 1), _EMPTY_BYTES)
        options = [*decide_basis(self.network, self.lacks, shared_memory_bytes=share)]
        for path in temporary:
            options += _empty(path, share, self.lacks)
        for path in hidden:
            options += _empty(path, _EMPTY_BYTES, self.lacks)
        for file in filter(os.path.exists, _HIDDEN_FILES):
            options += ["--ro-bind", os.devnull, file]
        shown = tuple(Path(one).expanduser() for one in self.readable)
        for path in shown:
            options += ["--ro-bind-try", str(path), str(path)]
        for path in _find_sockets():
            is_seen = _lies_in(path, shown) or not _lies_in(path, (*temporary, *hidden))
            if is_seen and path not in shown and not _lies_in(path, (self.root,)):
                options += ["--ro-bind-try", os.devnull, str(path)]
        options += ["--bind", str(self.root), str(self.root)]
        options += self._decide_protected()
        for path in hidden:  # by now all that is mounted in them has its place
            if not _lies_in(path, (self.root, *shown)):
                options += ["--remount-ro", str(path)]
        return Confining(
            program=program,
            options=(*options, "--chdir", str(self.directory)),
            call_filter=find_filter(self.network, self.lacks),
            descriptors=tuple(mount.descriptor for mount in self.mounts),
        )

    def _decide_protected(self) -> Iterator[str]:
        for mount in self.mounts:
            path = str(self.root.joinpath(*mount.names))
            option = "--bind" if mount.is_writable else "--ro-bind"
            if mount.names[-1] == STATE_DIRECTORY:
                yield from _empty(Path(path), _EMPTY_BYTES, self.lacks)
                yield from ("--remount-ro", path)
            elif BIND_OPENED in self.lacks:
                yield from (f"{option}-try", path, path)  # it may be gone by now
            else:
                yield from (f"{option}-fd", str(mount.descriptor), path)


def decide_basis(network: Network, lacks: frozenset[str], *, shared_memory_bytes: int) -> tuple[str, ...]:
    """Write what holds for every command: namespaces, and a machine of which nothing can be written."""
    options = [*_NAMESPACES, *(("--unshare-net",) if network == "none" else ())]
    options += (one for one in ("--disable-userns", "--unshare-cgroup") if one not in lacks)
    options += ["--ro-bind", "/", "/", "--dev", "/dev"]
    options += [*_empty(Path(_SHARED_MEMORY), shared_memory_bytes, lacks), "--remount-ro", "/dev"]
    options += ["--proc", "/proc", *_decide_proc()]
    return tuple(options)


def find_filter(network: Network, lacks: frozenset[str]) -> bytes | None:
    """Write the filter of system calls for this machine; None where there is none."""
    if CALL_FILTER in lacks:
        return None
    return assemble_filter(os.uname().machine, local_sockets=network == "none")


def _empty(path: Path, size_bytes: int, lacks: frozenset[str]) -> tuple[str, ...]:
    size = () if "--size" in lacks else ("--size", str(size_bytes))
    return (*size, "--tmpfs", str(path))


def _decide_proc() -> Iterator[str]:
    """Keep what is in `/proc` beside the processes from being written: its settings are those of the whole machine.

    Root owns them, and needs no other right to write most: `core_pattern` names a program that the kernel starts outside.
    """
    with os.scandir(PROC) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.isdecimal() or entry.is_symlink():
                continue
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode) or mode & 0o222:
                yield from ("--ro-bind-try", entry.path, entry.path)
            elif entry.name in _HIDDEN_OF_PROC or not mode & stat.S_IROTH:
                yield from ("--ro-bind", os.devnull, entry.path)


def _find_temporary() -> list[Path]:
    """List the temporary directories, which a command may use as long as it runs."""
    return _outermost({Path(name).resolve() for name in (*_TEMPORARY, tempfile.gettempdir())})


def _find_hidden() -> list[Path]:
    """List the directories that no command sees: homes, `/run`."""
    temporary = _find_temporary()
    every = {Path(name).resolve() for name in (*_HIDDEN_DIRECTORIES, *_homes())}
    return _outermost({path for path in every if not any(path.is_relative_to(other) for other in temporary)})


def _outermost(every: set[Path]) -> list[Path]:
    every.discard(Path("/"))
    return sorted(
        path for path in every if path.is_dir() and not any(other in path.parents for other in every)
    )


def _homes() -> Iterator[str]:
    yield str(Path.home())
    for entry in pwd.getpwall():
        if entry.pw_uid >= _FIRST_UID_OF_PEOPLE or entry.pw_uid == 0:
            yield entry.pw_dir


def _lies_in(path: Path, places: tuple[Path, ...]) -> bool:
    return any(path.is_relative_to(place) for place in places)


def _find_sockets() -> list[Path]:
    """List the sockets of this machine that have a path; to connect to one, its file system need not be writable.

    Those that are made later are seen: `docs/explanation/sandbox.md` says so.
    """
    try:
        lines = PROC.joinpath("net", "unix").read_text(errors="surrogateescape").split("\n")
    except OSError:
        return []
    names = {line.split(None, 7)[-1] for line in lines if " /" in line}
    # What a name stands for, and not the name: the process that made the socket chose that, and it may lead through anything.
    paths = sorted({Path(os.path.realpath(name)) for name in names if "\0" not in name})
    return [path for path in paths if not _lies_in(path, _OF_ITS_OWN) and _is_socket(path)][
        :_MAX_SOCKETS_HIDDEN
    ]


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:  # gone, or out of our reach
        return False

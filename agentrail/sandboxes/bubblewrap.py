"""Bubblewrap options of a confined command: its view of the machine, and its forbidden system calls."""

import errno
import os
import pwd
import stat
import struct
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from attrs import field, frozen

from agentrail.private_paths import private_places
from agentrail.sandboxes.process_tree import PROC
from agentrail.sandboxes.protected_mounts import Mount
from agentrail.sandboxes.protected_names import STATE_DIRECTORY

# The forbidden system calls of a confined command, as a program for the kernel.
#
# A refused call either asks the kernel for services that no ordinary program needs (keys, namespaces, mounts, modules,
# `bpf`), or reaches resources that no namespace separates (sockets of a hypervisor, of Bluetooth, the kernel's
# cryptography). Refusal is an error rather than a signal, so that a program that only tries can continue. `ptrace` is
# allowed: debuggers work, and see only the processes of the command.
#
# Pure. A filter is a list of instructions of classic BPF; see seccomp(2) and the kernel's `seccomp_filter.rst`.

_Instruction: TypeAlias = tuple[int, int, int, int]
"""Code, number to skip if true, number to skip if false, operand."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW: Final = 0x7FFF0000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16  # in `struct seccomp_data`

_NEW_NAMESPACES: Final = 0x7E020000
"""`CLONE_NEW*`, except for time, whose bit has another meaning in clone(2)."""
_NEW_TIME: Final = 0x80
_TERMINAL_INPUT: Final = (0x5412, 0x541C)
"""`TIOCSTI` and `TIOCLINUX`, which type as if they were the user."""

_AF_UNIX: Final = 1
_FAMILIES: Final = (0, _AF_UNIX, 2, 10, 16)
"""Unspecified, local, IPv4, IPv6, netlink: the families that a network namespace separates."""
_SOCK_TYPE: Final = 0xF
_SOCK_STREAM, _SOCK_SEQPACKET = 1, 5


@frozen(kw_only=True)
class MachineCode:
    """A kind of processor.

    Attributes:
        first_foreign: The first number of an alternative calling convention with its own numbers. None if there is none.
    """

    architecture: int
    first_foreign: int | None
    numbers: Mapping[str, int]


# The calls that are refused or judged, one line each, with the numbers for x86_64 and aarch64. New calls have common numbers.
_NUMBERS: Final = """
ioctl                16   29
socket               41  198
socketpair           53  199
clone                56  220
syslog              103  116
pivot_root          155   41
acct                163   89
settimeofday        164  170
mount               165   40
umount2             166   39
swapon              167  224
swapoff             168  225
reboot              169  142
iopl                172    -
ioperm              173    -
init_module         175  105
delete_module       176  106
quotactl            179   60
clock_settime       227  112
kexec_load          246  104
add_key             248  217
request_key         249  218
keyctl              250  219
unshare             272   97
perf_event_open     298  241
open_by_handle_at   304  265
setns               308  268
finit_module        313  273
kexec_file_load     320  294
bpf                 321  280
userfaultfd         323  282
io_uring_setup      425  425
io_uring_enter      426  426
io_uring_register   427  427
open_tree           428  428
move_mount          429  429
fsopen              430  430
fsconfig            431  431
fsmount             432  432
fspick              433  433
clone3              435  435
mount_setattr       442  442
quotactl_fd         443  443
open_tree_attr      467  467
"""


def _read_numbers(column: int) -> Mapping[str, int]:
    rows = (line.split() for line in _NUMBERS.split("\n") if line)
    return MappingProxyType({row[0]: int(row[column]) for row in rows if row[column] != "-"})


MACHINES: Final[Mapping[str, MachineCode]] = MappingProxyType(
    {
        # The alternative is x32, whose numbers start there.
        "x86_64": MachineCode(architecture=0xC000003E, first_foreign=0x40000000, numbers=_read_numbers(1)),
        "aarch64": MachineCode(architecture=0xC00000B7, first_foreign=None, numbers=_read_numbers(2)),
    }
)
_JUDGED_BY_ARGUMENTS: Final = frozenset({"ioctl", "socket", "socketpair", "clone", "unshare", "clone3"})


def assemble_filter(machine: str, *, local_sockets: bool) -> bytes | None:
    known = MACHINES.get(machine)
    if known is None:
        return None
    numbers = known.numbers
    families = _FAMILIES if local_sockets else tuple(one for one in _FAMILIES if one != _AF_UNIX)
    program: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, known.architecture),
        _refuse(errno.ENOSYS),  # a 32-bit program: its calls have other numbers
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if known.first_foreign is not None:
        program += [(_AT_LEAST, 0, 1, known.first_foreign), _refuse(errno.ENOSYS)]
    for name, number in numbers.items():
        if name not in _JUDGED_BY_ARGUMENTS:
            program += [(_EQUAL, 0, 1, number), _refuse(errno.EPERM)]
    # Its flags are in memory, which a filter cannot read. A program that finds it missing uses clone.
    program += _when(numbers["clone3"], [_refuse(errno.ENOSYS)])
    program += _when(numbers["clone"], _unless_bits(0, _NEW_NAMESPACES))
    program += _when(numbers["unshare"], _unless_bits(0, _NEW_NAMESPACES | _NEW_TIME))
    program += _when(numbers["ioctl"], _unless_one_of(1, _TERMINAL_INPUT))
    program += _when(numbers["socket"], _only(0, families))
    if not local_sockets:
        # A pair of datagram sockets can send to any address. A pair of stream sockets stays a pair.
        program += _when(numbers["socketpair"], _only(1, (_SOCK_STREAM, _SOCK_SEQPACKET), mask=_SOCK_TYPE))
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _when(number: int, block: Sequence[_Instruction]) -> list[_Instruction]:
    """Run a block, which ends the program, for one system call."""
    return [(_EQUAL, 0, len(block), number), *block]


def _unless_bits(argument: int, bits: int) -> list[_Instruction]:
    return [_load(argument), (_ANY_BIT, 0, 1, bits), _refuse(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]


def _unless_one_of(argument: int, values: Iterable[int]) -> list[_Instruction]:
    tests = [step for value in values for step in ((_EQUAL, 0, 1, value), _refuse(errno.EPERM))]
    return [_load(argument), *tests, (_RETURN, 0, 0, _ALLOW)]


def _only(argument: int, values: Iterable[int], *, mask: int = 0xFFFFFFFF) -> list[_Instruction]:
    tests: list[_Instruction] = [
        step for value in values for step in ((_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW))
    ]
    return [_load(argument), (_AND, 0, 0, mask), *tests, _refuse(errno.EAFNOSUPPORT)]


def _load(argument: int) -> _Instruction:
    """Load the lower half of an argument. Every judged argument is an `int` for the kernel."""
    return (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument)


def _refuse(code: int) -> _Instruction:
    return (_RETURN, 0, 0, 0x00050000 | code)


# The view of the machine.

Network: TypeAlias = Literal["none", "host"]

CALL_FILTER: Final = "--seccomp"
BIND_OPENED: Final = "--ro-bind-fd"
OPTIONAL: Final = ("--size", "--disable-userns", "--unshare-cgroup", CALL_FILTER, BIND_OPENED)
"""Options that some versions of bubblewrap or some kernels lack. Without one of these, the rest still applies."""

_HIDDEN_FILES: Final = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-")
_TEMPORARY: Final = ("/tmp", "/var/tmp")  # noqa: S108 - they are hidden
_HIDDEN_DIRECTORIES: Final = (
    *("/home", "/root", "/run", "/etc/ssh"),
    # Readable by the kernel's root even without rights: its memory, its firmware, traces of all programs.
    *("/sys/firmware", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/fs/bpf", "/sys/fs/pstore"),
)
_HIDDEN_OF_PROC: Final = frozenset(
    {"keys", "key-users", "kcore", "kmsg", "timer_list", "sched_debug", "latency_stats"}
)
_BASES: Final = tuple(map(Path, ("/usr/local", "/usr", "/var/lib", "/var", "/opt", "/")))
"""Directories of the system that contain unrelated other directories."""
_OF_THE_SYSTEM: Final = frozenset(
    """
    bin boot dev etc games gnu home include init lib lib32 lib64 libexec libx32 local lost+found man media mnt nix opt proc
    root run sbin share snap src srv sys tmp usr var cache log spool lock mail backups
    """.split()  # noqa: SIM905 - as a list it would fill a page
)
"""Directories of the system, whose content does not count as a neighbour of a workspace."""
_OF_SITES: Final = frozenset({"/media", "/mnt", "/opt", "/srv"})
"""Standard directories without content that a program needs."""
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - it gets one of its own
_OF_ITS_OWN: Final = (Path("/proc"), Path("/dev"))
_EMPTY_BYTES: Final = 1 << 20  # of a directory that only contains mounts
_FIRST_UID_OF_PEOPLE: Final = 1_000
_MAX_SOCKETS_HIDDEN: Final = 500
_NAMESPACES: Final = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
)


@frozen(kw_only=True)
class Confining:
    """The call of bubblewrap.

    Attributes:
        call_filter: The system call filter. None for none.
    """

    program: str
    options: tuple[str, ...]
    call_filter: bytes | None
    descriptors: tuple[int, ...] = ()


@frozen(kw_only=True)
class View:
    """A confined command's view of the machine.

    Attributes:
        network: `none` or `host`.
        mounts: Paths below the root that must not be written or renamed, the upper ones first.
    """

    root: Path
    directory: Path
    network: Network
    readable: tuple[str, ...]
    mounts: tuple[Mount, ...]
    max_temporary_bytes: int
    lacks: frozenset[str] = field(default=frozenset())

    def decide(self, program: str) -> Confining:
        temporary = _find_temporary()
        neighbours = find_neighbours(self.root)
        hidden = _outermost(
            {*_find_hidden(), *(one for one in neighbours if not _lies_in(one, (*temporary,)))}
        )
        share = max(self.max_temporary_bytes // (len(temporary) + 1), _EMPTY_BYTES)
        options = [*decide_basis(self.network, self.lacks, shared_memory_bytes=share)]
        for path in temporary:
            options += _empty(path, share, self.lacks)
        for path in hidden:
            options += _empty(path, _EMPTY_BYTES, self.lacks)
        for file in filter(os.path.exists, _HIDDEN_FILES):
            options += ["--ro-bind", os.devnull, file]
        shown = tuple(Path(one).expanduser() for one in self.readable)
        seen = (*shown, *_find_needed(self.root, neighbours))
        for path in seen:
            options += ["--ro-bind-try", str(path), str(path)]
        inside, outside = _find_private(self.root, seen, (*temporary, *hidden))
        options += _hide(outside, self.lacks)
        for path in _find_sockets():
            is_seen = _lies_in(path, shown) or not _lies_in(path, (*temporary, *hidden))
            if is_seen and path not in shown and not _lies_in(path, (self.root,)):
                options += ["--ro-bind-try", os.devnull, str(path)]
        options += ["--bind", str(self.root), str(self.root)]
        options += self._decide_protected()
        options += _hide(inside, self.lacks)
        # By now, everything mounted in them has its place.
        for path in (*hidden, *filter(Path.is_dir, (*inside, *outside))):
            if path in inside or not _lies_in(path, (self.root, *shown)):
                options += ["--remount-ro", str(path)]
        return Confining(
            program=program,
            options=(*options, "--chdir", str(self.directory)),
            call_filter=find_filter(self.network, self.lacks),
            descriptors=tuple(mount.descriptor for mount in self.mounts if self._is_mounted_opened(mount)),
        )

    def _is_mounted_opened(self, mount: Mount) -> bool:
        """Whether bubblewrap mounts the descriptor. It closes only those, and any other would lead the command outside."""
        return BIND_OPENED not in self.lacks and mount.names[-1] != STATE_DIRECTORY

    def _decide_protected(self) -> Iterator[str]:
        for mount in self.mounts:
            path = str(self.root.joinpath(*mount.names))
            option = "--bind" if mount.is_writable else "--ro-bind"
            if mount.names[-1] == STATE_DIRECTORY:
                yield from _empty(Path(path), _EMPTY_BYTES, self.lacks)
                yield from ("--remount-ro", path)
            elif self._is_mounted_opened(mount):
                yield from (f"{option}-fd", str(mount.descriptor), path)
            else:
                yield from (f"{option}-try", path, path)  # it may no longer exist


def decide_basis(network: Network, lacks: frozenset[str], *, shared_memory_bytes: int) -> tuple[str, ...]:
    """Return the options of every command: namespaces, and a read-only machine."""
    options = [*_NAMESPACES, *(("--unshare-net",) if network == "none" else ())]
    options += (one for one in ("--disable-userns", "--unshare-cgroup") if one not in lacks)
    options += ["--ro-bind", "/", "/", "--dev", "/dev"]
    options += [*_empty(Path(_SHARED_MEMORY), shared_memory_bytes, lacks), "--remount-ro", "/dev"]
    options += ["--proc", "/proc", *_decide_proc()]
    return tuple(options)


def find_filter(network: Network, lacks: frozenset[str]) -> bytes | None:
    """Return the system call filter for this machine. None if there is none."""
    if CALL_FILTER in lacks:
        return None
    return assemble_filter(os.uname().machine, local_sockets=network == "none")


def _empty(path: Path, size_bytes: int, lacks: frozenset[str]) -> tuple[str, ...]:
    size = () if "--size" in lacks else ("--size", str(size_bytes))
    return (*size, "--tmpfs", str(path))


def _decide_proc() -> Iterator[str]:
    """Protect the rest of `/proc` from writes: its settings apply to the whole machine.

    Root owns them, and can write most of them without other rights: `core_pattern` names a program that the kernel starts outside.
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


def _hide(paths: Iterable[Path], lacks: frozenset[str]) -> Iterator[str]:
    for path in paths:
        yield from (
            _empty(path, _EMPTY_BYTES, lacks) if path.is_dir() else ("--ro-bind", os.devnull, str(path))
        )


def _find_private(
    root: Path, seen: tuple[Path, ...], hidden: tuple[Path, ...]
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the private places still visible, below a root and elsewhere, without those inside another one of the list."""
    private = {*private_places()} - {root}
    inside = {
        path
        for path in private
        if root in path.parents and STATE_DIRECTORY not in path.relative_to(root).parts
    }
    others = {path for path in private if root not in path.parents}
    outside = {path for path in others if _lies_in(path, seen) or not _lies_in(path, hidden)}
    first, second = (
        tuple(sorted(path for path in one if one.isdisjoint(path.parents))) for one in (inside, outside)
    )
    return first, second


def find_neighbours(root: Path) -> tuple[Path, ...]:
    """Return the directories that belong to others, judged by the location of a workspace: those next to it and around it.

    That is the outermost directory above it that does not belong to the system, as a whole. In a directory of the system itself,
    it is every other directory that the system does not have by default.
    """
    base = next((one for one in _BASES if one in root.parents), None)
    if base is None:
        return ()
    top = base / root.relative_to(base).parts[0]
    if top != root and (top.name not in _OF_THE_SYSTEM or str(top) in _OF_SITES):
        return (top,)
    around = root.parent
    try:
        with os.scandir(around) as entries:
            found = [Path(one.path) for one in entries if one.is_dir(follow_symlinks=False)]
    except OSError:
        return ()
    # Our own programs may be anywhere, and their dependencies are not listed: a directory with a program of ours stays visible.
    needed = (*_own_prefixes(), *_program_directories())
    return tuple(
        path
        for path in sorted(found)
        if path != root
        and (path.name not in _OF_THE_SYSTEM or around not in _BASES)
        and not any(one.is_relative_to(path) for one in needed)
    )


def _find_needed(root: Path, neighbours: tuple[Path, ...]) -> list[Path]:
    """Return the needed paths among the neighbours: the interpreter's environment, and the programs of `PATH`."""
    every = {*_own_prefixes(), *_program_directories()}
    return sorted(
        path
        for path in every
        if _lies_in(path, neighbours) and path not in neighbours and path not in root.parents
    )


def _own_prefixes() -> tuple[Path, ...]:
    return tuple(dict.fromkeys(Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)))


def _program_directories() -> tuple[Path, ...]:
    places = map(Path, os.environ.get("PATH", os.defpath).split(os.pathsep))
    return tuple(dict.fromkeys(Path(os.path.realpath(place)) for place in places if place.is_absolute()))


def _find_temporary() -> list[Path]:
    """Return the temporary directories, which a command may use while it runs."""
    return _outermost({Path(os.path.realpath(name)) for name in (*_TEMPORARY, tempfile.gettempdir())})


def _find_hidden() -> list[Path]:
    """Return the directories hidden from every command: homes, `/run`."""
    temporary = _find_temporary()
    every = {Path(os.path.realpath(name)) for name in (*_HIDDEN_DIRECTORIES, *_homes())}
    return _outermost({path for path in every if not any(path.is_relative_to(other) for other in temporary)})


def _outermost(every: set[Path]) -> list[Path]:
    every.discard(Path("/"))
    return sorted(
        path for path in every if path.is_dir() and not any(other in path.parents for other in every)
    )


def _homes() -> Iterator[str]:
    yield str(Path.home())
    for entry in pwd.getpwall():
        # A line of NIS, such as `+`, has no home.
        if entry.pw_dir and (entry.pw_uid >= _FIRST_UID_OF_PEOPLE or entry.pw_uid == 0):
            yield entry.pw_dir


def _lies_in(path: Path, places: tuple[Path, ...]) -> bool:
    return any(path.is_relative_to(place) for place in places)


def _find_sockets() -> list[Path]:
    """Return the sockets of this machine that have a path. Connecting to one does not need a writable file system.

    Sockets created later are visible, see `docs/explanation/sandbox.md`.
    """
    try:
        lines = PROC.joinpath("net", "unix").read_text(errors="surrogateescape").split("\n")
    except OSError:
        return []
    names = {line.split(None, 7)[-1] for line in lines if " /" in line}
    # The target rather than the name: the process that made the socket chose the name, and it may contain links.
    paths = sorted({Path(os.path.realpath(name)) for name in names if "\0" not in name})
    return [path for path in paths if not _lies_in(path, _OF_ITS_OWN) and _is_socket(path)][
        :_MAX_SOCKETS_HIDDEN
    ]


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:  # removed, or not accessible to us
        return False

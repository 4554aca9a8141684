"""Which system calls a confined command may not make, as a program for the kernel; assembled here, without a build step.

What is refused either asks the kernel for what no ordinary program needs (keys, namespaces, mounts, modules, `bpf`), or
reaches what no namespace keeps apart (sockets of a hypervisor, of Bluetooth, the kernel's cryptography). It is refused with
an error and not with a signal, so that a program that only tries goes on. `ptrace` is not among it: debuggers work, and see
no process but those of the command.

Pure. A filter is a list of instructions of classic BPF; see seccomp(2) and the kernel's `seccomp_filter.rst`.
"""

import errno
import struct
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from attrs import frozen

_Instruction: TypeAlias = tuple[int, int, int, int]
"""Code, how many to skip when true, how many when false, operand."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW: Final = 0x7FFF0000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16  # in `struct seccomp_data`

_NEW_NAMESPACES: Final = 0x7E020000
"""`CLONE_NEW*`, but for time, whose bit means something else in clone(2)."""
_NEW_TIME: Final = 0x80
_TERMINAL_INPUT: Final = (0x5412, 0x541C)
"""`TIOCSTI` and `TIOCLINUX`, which type for the user."""

_AF_UNIX: Final = 1
_FAMILIES: Final = (0, _AF_UNIX, 2, 10, 16)
"""Unspecified, local, IPv4, IPv6, netlink: what a network namespace keeps apart."""
_SOCK_TYPE: Final = 0xF
_SOCK_STREAM, _SOCK_SEQPACKET = 1, 5


@frozen(kw_only=True)
class MachineCode:
    """A kind of processor.

    Attributes:
        architecture: Its number in `linux/audit.h`.
        first_foreign: The first number of another way to call, which has numbers of its own; None where there is none.
        numbers: Of system calls.
    """

    architecture: int
    first_foreign: int | None
    numbers: Mapping[str, int]


# Those that are refused or judged; a line has the numbers for x86_64 and aarch64. Those of new ones are common to all.
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
        # The other way is x32, whose numbers begin there.
        "x86_64": MachineCode(architecture=0xC000003E, first_foreign=0x40000000, numbers=_read_numbers(1)),
        "aarch64": MachineCode(architecture=0xC00000B7, first_foreign=None, numbers=_read_numbers(2)),
    }
)
_JUDGED_BY_ARGUMENTS: Final = frozenset({"ioctl", "socket", "socketpair", "clone", "unshare", "clone3"})


def assemble_filter(machine: str, *, local_sockets: bool) -> bytes | None:
    """Write the filter for a kind of processor.

    Args:
        machine: As `os.uname` has it.
        local_sockets: Whether a command may make sockets that have a path or a name on this machine. Where it shares the
            network of the host there is no other way to keep it from those of others.

    Returns:
        Instructions as `seccomp` takes them, or None where this kind of processor is not known.
    """
    known = MACHINES.get(machine)
    if known is None:
        return None
    numbers = known.numbers
    families = _FAMILIES if local_sockets else tuple(one for one in _FAMILIES if one != _AF_UNIX)
    program: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, known.architecture),
        _refuse(errno.ENOSYS),  # a program of 32 bits: its calls have other numbers
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if known.first_foreign is not None:
        program += [(_AT_LEAST, 0, 1, known.first_foreign), _refuse(errno.ENOSYS)]
    for name, number in numbers.items():
        if name not in _JUDGED_BY_ARGUMENTS:
            program += [(_EQUAL, 0, 1, number), _refuse(errno.EPERM)]
    # Its flags are in memory, which a filter cannot read; who hears that it is not there uses clone.
    program += _when(numbers["clone3"], [_refuse(errno.ENOSYS)])
    program += _when(numbers["clone"], _unless_bits(0, _NEW_NAMESPACES))
    program += _when(numbers["unshare"], _unless_bits(0, _NEW_NAMESPACES | _NEW_TIME))
    program += _when(numbers["ioctl"], _unless_one_of(1, _TERMINAL_INPUT))
    program += _when(numbers["socket"], _only(0, families))
    if not local_sockets:
        # A pair of datagram sockets can send to any address; one of streams stays a pair.
        program += _when(numbers["socketpair"], _only(1, (_SOCK_STREAM, _SOCK_SEQPACKET), mask=_SOCK_TYPE))
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _when(number: int, block: Sequence[_Instruction]) -> list[_Instruction]:
    """Go through a block, which ends the program, for one system call."""
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
    """Load the lower half of an argument; all that is judged here is an `int` for the kernel."""
    return (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument)


def _refuse(code: int) -> _Instruction:
    return (_RETURN, 0, 0, 0x00050000 | code)

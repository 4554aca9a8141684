"""Programs of the shell: which of them run other programs, run code, or destroy data."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from agentrail.plugins.shell_plain import PlainCommand

# fmt: off
SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "fish", "ash", "rbash", "csh", "tcsh"})
READS_COMMANDS: Final = frozenset({"at", "batch", "crontab"})
"""Programs that later run the commands on their standard input."""
DECLARES: Final = frozenset({"declare", "typeset", "export", "local", "readonly"})
SETS: Final = frozenset({"read", "mapfile", "readarray", "getopts"})
"""Builtins that set variables from outside input."""
WRAPPERS: Final = frozenset({
    "arch", "builtin", "busybox", "caffeinate", "catchsegv", "chroot", "chrt", "command", "coproc", "cpulimit",
    "dbus-run-session", "doas", "dumb-init", "entr", "env", "exec", "fakeroot", "faketime", "firejail", "flock", "gdb",
    "gosu", "ionice", "linux32", "linux64", "ltrace", "nice", "nohup", "nsenter", "numactl", "parallel", "perf",
    "pkexec", "poetry", "prlimit", "proxychains", "proxychains4", "rlwrap", "runuser", "s6-setuidgid", "screen",
    "script", "setarch", "setpriv", "setsid", "ssh", "stdbuf", "strace", "su", "su-exec", "sudo", "systemd-inhibit",
    "systemd-run", "taskset", "time", "timeout", "tini", "torsocks", "toybox", "unbuffer", "unshare", "uvx",
    "valgrind", "watch", "winpty", "xargs", "xvfb-run",
})
"""Programs that run the program after their own options."""
INTERPRETERS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("python", "python2", "python3", "pypy", "pypy3"), frozenset({"-c"})),
    **dict.fromkeys(("perl",), frozenset({"-e", "-E"})), "ruby": frozenset({"-e"}), "lua": frozenset({"-e"}),
    **dict.fromkeys(("node", "nodejs", "bun", "deno"), frozenset({"-e", "-p", "-pe", "--eval", "--print", "eval"})),
    "php": frozenset({"-r", "-B", "-R", "-E"}), "osascript": frozenset({"-e"}), "Rscript": frozenset({"-e"}),
    "julia": frozenset({"-e", "-E"}), **dict.fromkeys(("vi", "vim", "nvim", "ex"), frozenset({"-c", "--cmd"})),
    "tclsh": frozenset(), "expect": frozenset({"-c"}), "emacs": frozenset({"--eval", "-eval"}),
}
"""Programs that run code, and the options followed by code. Without such an option, a program here reads its standard input."""
CODE_FIRST: Final = frozenset({"awk", "gawk", "mawk", "nawk", "sed", "gsed"})
"""Programs whose first operand is code."""
GLOBAL_OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "git": frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env"}),
    "docker": frozenset({"-H", "-c", "-l", "--host", "--context", "--config", "--log-level", "--tlscacert", "--tlscert", "--tlskey"}),
    "podman": frozenset({"-c", "--connection", "--log-level", "--root", "--url"}),
    "kubectl": frozenset({"-n", "-s", "--namespace", "--context", "--kubeconfig", "--cluster", "--user", "--server", "--token"}),
    "npm": frozenset({"-C", "-w", "--prefix", "--workspace"}), "yarn": frozenset({"--cwd"}), "pnpm": frozenset({"-C", "--dir", "-F", "--filter"}),
    "systemctl": frozenset({"-H", "-M", "-t", "--host", "--machine", "--type"}), "cargo": frozenset({"-C", "-Z", "--config", "--color"}),
    "aws": frozenset({"--profile", "--region", "--output", "--endpoint-url"}), "gcloud": frozenset({"--project", "--account"}),
    "make": frozenset({"-C", "-f", "-I", "-j", "-o", "-W"}), "terraform": frozenset(), "gh": frozenset({"-R", "--repo"}),
    "apt": frozenset({"-o", "-c", "-t"}), "apt-get": frozenset({"-o", "-c", "-t"}), "pip": frozenset({"--proxy", "--log", "--cache-dir"}),
}
"""Options before a program's subcommand that take a word. For programs not listed here, any option may take one."""
# fmt: on


def speaks(words: Sequence[str], prefix: Sequence[str]) -> bool:
    return bool(places_after(words, prefix, lambda word, wanted, **_: word == wanted))


def places_after(words: Sequence[str], prefix: Sequence[str], fits: Callable[..., bool]) -> set[int]:
    """Return the places where a command may continue after these words, whatever options of its program are between them."""
    takes = GLOBAL_OPTIONS.get(prefix[0])
    places = {0}
    for number, wanted in enumerate(prefix):
        found: set[int] = set()
        left, tried = sorted(places), set[int]()
        while left:
            at = left.pop()
            if at in tried or at >= len(words):
                continue
            tried.add(at)
            if fits(words[at], wanted, is_program=number == 0):
                found.add(at + 1)
            if at and words[at].startswith(("-", "+")):
                takes_a_word = "=" not in words[at] and (takes is None or words[at] in takes)
                left += [at + 2] if takes_a_word else []
                left += [] if takes_a_word and takes else [at + 1]
        places = found
    return places


# Destructive commands, by their names and words.

_POWER: Final = frozenset({"poweroff", "reboot", "halt", "kexec", "rescue", "emergency"})
_RAW_DEVICE: Final = re.compile(
    r"/dev/(?:[shv]d[a-z]|xvd|nvme\d|mmcblk\d|disk|r?disk\d|md\d|dm-|mapper/|loop\d|k?mem\b|port\b)|/proc/sysrq-trigger"
)
_TESTS: Final = frozenset(
    """
    -name -iname -path -ipath -wholename -regex -iregex -newer -mtime -mmin -ctime -cmin -atime -amin
    -size -empty -user -group -uid -gid -perm -links -inum -samefile -lname
    """.split()  # noqa: SIM905 - as a list it would fill a page
)
_UNKNOWN_OPTIONS: Final = "may get options that are unknown before it runs; put -- before the names"


def _removes_by_force(operands: Sequence[str]) -> bool:
    """Whether options are recursive and forced, in any spelling. Words after `--` are names."""
    options = [word for word in _before_names(operands) if word[:1] == "-"]
    short = "".join(word[1:] for word in options if not word.startswith("--"))
    long = [word for word in options if len(word) > len("--")]
    recursive = bool(set(short) & set("rR")) or any("--recursive".startswith(word) for word in long)
    return recursive and ("f" in short or any("--force".startswith(word) for word in long))


def _before_names(operands: Sequence[str]) -> Sequence[str]:
    return operands[: operands.index("--") if "--" in operands else None]


def _kills_all(operands: Sequence[str]) -> bool:
    """Whether -1 (every process) is a target. The first `-1` may be a signal, unless a signal or `--` precedes it."""
    return "-1" in operands[1:] or list(operands[:1]) == ["--"]


def _deletes_everything(operands: Sequence[str]) -> bool:
    """Whether `find -delete` has a branch of `-o` without a test, or any negated test."""
    if "-delete" not in operands:
        return False
    branches: list[list[str]] = [[]]
    for word, following in zip(operands, (*operands[1:], ""), strict=True):
        if word in {"-o", "-or", ","}:
            branches.append([])
        elif word in {"!", "-not"}:
            return True
        elif (word in _TESTS and following.strip("*?./")) or word == "-empty":
            branches[-1].append(word)
    return not all(branches)


def _copies_raw(operands: Sequence[str]) -> bool:
    return any(word.startswith("if=") or _RAW_DEVICE.match(word.partition("of=")[2]) for word in operands)


_ALWAYS: Final = lambda _: True  # noqa: E731 - a table's word
_ALL_NAMES: Final = frozenset({".", ".*", "", "^", "$", "^.*$", ".+"})
_REMOVERS: Final = frozenset({"rm", "kill"})

_DESTROYERS: Final[Mapping[str, tuple[Callable[[Sequence[str]], bool], str]]] = {
    "rm": (_removes_by_force, "removes folders by force"),
    "find": (_deletes_everything, "deletes all matches"),
    "dd": (_copies_raw, "copies over raw devices or files"),
    **dict.fromkeys(("shred", "srm", "wipe"), (_ALWAYS, "destroys its arguments")),
    "kill": (_kills_all, "kills all processes"),
    "killall5": (_ALWAYS, "kills all processes"),
    **dict.fromkeys(
        ("pkill", "killall"), (lambda words: any(word in _ALL_NAMES for word in words), "kills all processes")
    ),
    **dict.fromkeys(
        ("init", "telinit"), (lambda words: list(words[:1]) in (["0"], ["6"]), "shuts the machine down")
    ),
    **dict.fromkeys(
        ("systemctl", "loginctl"), (lambda words: bool(_POWER & set(words)), "shuts the machine down")
    ),
    **dict.fromkeys(("shutdown", "reboot", "halt", "poweroff"), (_ALWAYS, "shuts the machine down")),
    **dict.fromkeys(
        ("fdisk", "sfdisk", "cfdisk", "gdisk", "sgdisk", "mkfs", "mke2fs", "mkswap", "wipefs", "blkdiscard"),
        (_ALWAYS, "writes file systems or partitions"),
    ),
}


def destroys(command: PlainCommand) -> str | None:
    """Return what a command destroys, or None if its name destroys nothing. The content of programs is not checked."""
    words = command.run
    program = words[0].rpartition("/")[2].lower()
    program = program.partition(".")[0] if program.startswith("mkfs.") else program
    found = _DESTROYERS.get(program)
    if found is None:
        return None
    operands = words[1:]
    if found[0](operands):
        return found[1]
    if program not in _REMOVERS:
        return None
    patterns = {words[place - command.behind] for place in command.patterns}
    is_open = any(word in patterns and word[:1] == "-" for word in _before_names(operands))
    return _UNKNOWN_OPTIONS if is_open else None

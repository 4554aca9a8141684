"""Tables of programs for `shell_stars`: which run other programs, which run code, and which of their options take a word.

Tables only, and how the command of a program is found behind its options. A program that is not here runs nothing but itself, as far
as a line tells.
"""

from collections.abc import Mapping, Sequence
from typing import Final

# fmt: off
SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "fish", "ash", "rbash", "csh", "tcsh"})
READS_COMMANDS: Final = frozenset({"at", "batch", "crontab"})
"""Programs that run later what they are told on their standard input."""
DECLARES: Final = frozenset({"declare", "typeset", "export", "local", "readonly"})
SETS: Final = frozenset({"read", "mapfile", "readarray", "getopts"})
"""Builtins that set variables to what comes from elsewhere."""
WRAPPERS: Final = frozenset({
    "arch", "builtin", "busybox", "caffeinate", "catchsegv", "chroot", "chrt", "command", "coproc", "cpulimit",
    "dbus-run-session", "doas", "dumb-init", "entr", "env", "exec", "fakeroot", "faketime", "firejail", "flock", "gdb",
    "gosu", "ionice", "linux32", "linux64", "ltrace", "nice", "nohup", "nsenter", "numactl", "parallel", "perf",
    "pkexec", "poetry", "prlimit", "proxychains", "proxychains4", "rlwrap", "runuser", "s6-setuidgid", "screen",
    "script", "setarch", "setpriv", "setsid", "ssh", "stdbuf", "strace", "su", "su-exec", "sudo", "systemd-inhibit",
    "systemd-run", "taskset", "time", "timeout", "tini", "torsocks", "toybox", "unbuffer", "unshare", "uvx",
    "valgrind", "watch", "winpty", "xargs", "xvfb-run",
})
"""Programs that run the program that follows their own options."""
INTERPRETERS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("python", "python2", "python3", "pypy", "pypy3"), frozenset({"-c"})),
    **dict.fromkeys(("perl",), frozenset({"-e", "-E"})), "ruby": frozenset({"-e"}), "lua": frozenset({"-e"}),
    **dict.fromkeys(("node", "nodejs", "bun", "deno"), frozenset({"-e", "-p", "-pe", "--eval", "--print", "eval"})),
    "php": frozenset({"-r", "-B", "-R", "-E"}), "osascript": frozenset({"-e"}), "Rscript": frozenset({"-e"}),
    "julia": frozenset({"-e", "-E"}), **dict.fromkeys(("vi", "vim", "nvim", "ex"), frozenset({"-c", "--cmd"})),
    "tclsh": frozenset(), "expect": frozenset({"-c"}), "emacs": frozenset({"--eval", "-eval"}),
}
"""Programs that run code, and the options that code stands behind. Without any, a program in these reads its standard input."""
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
"""Options in front of a program's command that take a word. Of a program that is not here any option may take one, or not."""
# fmt: on


def speaks(words: Sequence[str], prefix: Sequence[str]) -> bool:
    """Whether a command begins with these words, whatever options of its program stand between them."""
    takes = GLOBAL_OPTIONS.get(prefix[0])
    places = {0}
    for word in prefix:
        found: set[int] = set()
        left = sorted(places)
        tried: set[int] = set()
        while left:
            at = left.pop()
            if at in tried or at >= len(words):
                continue
            tried.add(at)
            if words[at] == word:
                found.add(at + 1)
            if at and words[at].startswith(("-", "+")):
                takes_a_word = "=" not in words[at] and (takes is None or words[at] in takes)
                left += [at + 2] if takes_a_word else []
                left += [] if takes_a_word and takes else [at + 1]
        places = found
    return bool(places)

"""What the guard knows of programs: which run other programs, which read code, and which of their options take a word.

Tables only, and how to read options by them. A program that is not here runs nothing but itself, as far as a line tells.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from attrs import frozen

# fmt: off
SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "fish", "ash", "rbash", "csh", "tcsh"})
SHELL_OPTIONS_WITH_A_WORD: Final = frozenset({"--rcfile", "--init-file", "-o", "+o", "-O", "+O"})
READS_COMMANDS: Final = frozenset({"at", "batch", "crontab"})
"""Programs that run later what they are told on their standard input."""
DECLARES: Final = frozenset({"declare", "typeset", "export", "local", "readonly"})
SETS: Final = frozenset({"read", "mapfile", "readarray", "getopts"})
"""Builtins that set variables to what comes from elsewhere."""
RUN_BY_OTHERS: Final = re.compile(
    r"(?:PROMPT_COMMAND|PS[0-4]|LESSOPEN|LESSCLOSE|VISUAL|BROWSER|GIT_\w+|\w*(?:EDITOR|PAGER|_RSH|_SSH|_COMMAND|ASKPASS))\Z"
)
"""Variables whose values programs run as commands."""
ENVIRONMENT_PROGRAMS: Final = frozenset(
    {"EDITOR", "VISUAL", "PAGER", "BROWSER", "PYTHON", "PYTHON3", "NODE", "CC", "CXX", "LD", "AR", "MAKE", "CMAKE", "SUDO"}
)
"""Variables that name a program by custom."""
FINDERS: Final = frozenset({
    "basename", "command", "cut", "date", "dirname", "docker", "find", "fd", "fgrep", "egrep", "git", "grep", "head", "hostname",
    "id", "jobs", "kubectl", "ls", "lsof", "mktemp", "nproc", "pgrep", "pidof", "ps", "pwd", "readlink", "realpath", "rg", "seq",
    "sort", "ss", "tail", "type", "uname", "uniq", "wc", "which", "whoami",
})
"""Programs that print names and numbers of what is there: no options that were made up."""
# fmt: on


@frozen(kw_only=True)
class Wrapper:
    """A program that runs what follows its own options.

    Attributes:
        values: Its options that take a word.
        flags: Its options that take none. Of one that is in neither list, both readings are judged.
        skips: How many of its operands stand before the command.
        assigns: Whether `NAME=VALUE` may stand there.
        shows: Options with which it runs nothing.
        lines: Options whose word is a command line.
        is_line: Whether what follows is put together and given to a shell.
    """

    values: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    skips: int = 0
    assigns: bool = False
    shows: frozenset[str] = frozenset()
    lines: frozenset[str] = frozenset()
    is_line: bool = False


def _wraps(  # noqa: PLR0913 - a row of a table
    values: str = "",
    flags: str = "",
    *,
    skips: int = 0,
    assigns: bool = False,
    shows: str = "",
    lines: str = "",
    is_line: bool = False,
) -> Wrapper:
    return Wrapper(
        values=frozenset(values.split()), flags=frozenset(flags.split()), skips=skips, assigns=assigns,
        shows=frozenset(shows.split()), lines=frozenset(lines.split()), is_line=is_line,
    )  # fmt: skip


# fmt: off
WRAPPERS: Final[Mapping[str, Wrapper]] = {
    "sudo": _wraps("-u -g -h -p -C -r -t -U -D -R -T --user --group --host --prompt --chdir --chroot --role --type",
                   "-E -H -n -i -s -S -k -K -b -A -P -B --preserve-env --non-interactive --login --shell --stdin", assigns=True,
                   shows="-l -v -V --list --validate --version"),
    "doas": _wraps("-u -C", "-n -s -L", assigns=True),
    "env": _wraps("-u -C --unset --chdir", "-i -0 -v - --ignore-environment --null --debug", assigns=True,
                  lines="-S --split-string"),
    "nice": _wraps("-n --adjustment"), "ionice": _wraps("-c -n --class --classdata", "-t"),
    "timeout": _wraps("-s -k --signal --kill-after", "-v --preserve-status --foreground --verbose", skips=1),
    "stdbuf": _wraps("-i -o -e --input --output --error"), "nohup": _wraps(),
    "setsid": _wraps("", "-w -f -c --wait --fork --ctty"),
    "time": _wraps("-f -o --format --output", "-p -v -a --portability --verbose --append"), "exec": _wraps("-a", "-c -l"),
    "command": _wraps("", "-p", shows="-v -V"), "builtin": _wraps(), "coproc": _wraps(),
    "busybox": _wraps(shows="--list --help"), "toybox": _wraps(),
    "watch": _wraps("-n -q --interval --equexit", "-d -t -b -e -g -c -x -p --differences --no-title --beep --errexit --color",
                    is_line=True),
    "chroot": _wraps("--userspec --groups", "--skip-chdir", skips=1),
    "unshare": _wraps("-S -G --setuid --setgid --root --wd --propagation", "-m -u -i -n -p -U -C -r -f -T"),
    "nsenter": _wraps("-t -S -G --target", "-a -m -u -i -n -p -U -C -r -w -F"),
    "chrt": _wraps("-T -P -D -p", "-b -f -i -o -r -a -v -m", skips=1), "taskset": _wraps("-p", "-a -c", skips=1),
    "strace": _wraps("-e -o -p -s -u -E -a -I -O -P -S", "-f -ff -t -tt -T -c -C -v -x -y -q"), "ltrace": _wraps("-e -o -p -s -u"),
    "valgrind": _wraps(), "perf": _wraps("-e -o -p", skips=1), "gdb": _wraps("-ex -x", "--args -q -batch", lines=""),
    "flock": _wraps("-w -E --timeout --wait --conflict-exit-code",
                    "-s -x -e -u -n -o -F -v --shared --exclusive --nonblock --nb --unlock --close --no-fork", skips=1,
                    lines="-c --command"),
    "runuser": _wraps("-u -g -G -s -w --user --group --supp-group --shell", "-l - -m -p -f -P --login --pty",
                      lines="-c --command --session-command"),
    "su": _wraps("-g -G -s -w --group --shell", "-l - -m -p -f -P --login --pty", skips=1,
                 lines="-c --command --session-command"),
    "script": _wraps("-t -T -I -O -B -E -m", "-a -e -f -q --append --return --flush --quiet", skips=1, lines="-c --command"),
    "setpriv": _wraps("--reuid --regid --groups --securebits --inh-caps --bounding-set --ambient-caps"),
    "systemd-run": _wraps("-u -p -M -H --unit --property --slice --uid --gid --on-active --on-calendar", "--user --scope -t -P -q"),
    "systemd-inhibit": _wraps("--what --who --why --mode"), "dbus-run-session": _wraps("--config-file", "--"),
    "xvfb-run": _wraps("-e -f -n -p -s -w", "-a -l"), "faketime": _wraps("", "-m -f", skips=1), "proxychains": _wraps("-f", "-q"),
    "proxychains4": _wraps("-f", "-q"), "torsocks": _wraps(), "firejail": _wraps(), "unbuffer": _wraps("", "-p"),
    "rlwrap": _wraps("-f -H -p -P"), "pkexec": _wraps("--user"), "gosu": _wraps(skips=1), "su-exec": _wraps(skips=1),
    "tini": _wraps("-p -e", "-s -v -g"), "dumb-init": _wraps(), "s6-setuidgid": _wraps(skips=1), "setarch": _wraps("", "-R", skips=1),
    "linux32": _wraps(), "linux64": _wraps(), "numactl": _wraps("-N -m -i -C --cpunodebind --membind --interleave --physcpubind"),
    "prlimit": _wraps(), "cpulimit": _wraps("-l -p -e --limit", "-z -i --"), "catchsegv": _wraps(), "caffeinate": _wraps("-t -w"),
    "arch": _wraps(), "winpty": _wraps(), "screen": _wraps("-S -c -e -h -p -s -t -T -r", "-d -m -dm -dmS -D -U"),
    "ssh": _wraps("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w", "-4 -6 -A -a -C -f -G -g -K -k -M -N -n -q -T -t -tt -v -X -x -Y",
                  skips=1, is_line=True),
    "parallel": _wraps("-j -N -n -I -a -S -L -d -C --jobs --delay --timeout --joblog --arg-file --colsep --results --retries --tag --sshlogin",
                       "-k -q -0 -X -m -v --keep-order --bar --dry-run --eta --null --progress --pipe --verbose --will-cite", is_line=True),
    "xargs": _wraps("-I -n -P -L -s -d -a -E --max-args --max-procs --max-lines --delimiter --arg-file --replace-str --max-chars",
                    "-0 -r -t -p -x -o --null --no-run-if-empty --verbose --exit --interactive"),
    "entr": _wraps("", "-r -c -p -d -n -s -z"), "uvx": _wraps("--from --with --python"), "poetry": _wraps(skips=1),
    "fakeroot": _wraps("-l -s -i -b --lib --faked", "-u"),
}
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
RUNS_CODE: Final = re.compile(
    r"(?:\b(?:system|popen[234]?|exec[lv]\w*|spawn\w*|shell_exec|passthru|proc_open|rmtree|remove_tree|rmSync|rm_rf?|eval|getattr)"
    r"|\bexec|\bqx|\bcall_process|\bfork)\s*[({\"'/ ]|\b(?:subprocess|child_process|FileUtils|pty|Open3|posix_spawn|os\.exec\w+|"
    r"__import__|importlib|b64decode|fromhex|do shell script|shell-command)\b|\|\s*getline|\|&?\s*\"|^[^\S\n]*+:?!|`[^`]+`|%x[{(\[]",
    re.MULTILINE,
)
"""What in such code runs programs, or code that it makes itself."""
# No repeat meets another one over the same characters: three that did took minutes for a script of blank lines.
SED_RUNS: Final = re.compile(
    r"(?:^|[;{}\n])[^\S\n]*+(?:[\d$,/\w]*[\d$/])?[^\S\n]*+e(?:\s|$)|[/|#,!](?=\w*e)\w*+[^\S\n]*+(?:$|[;}\n])"
)
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


def command_starts(wrapper: Wrapper, operands: Sequence[str]) -> Iterator[int]:
    """Give the places where the command of a wrapper may begin; the first is the likely one."""
    seen: set[int] = set()
    left = [0]
    while left:
        at = left.pop(0)
        if at in seen:
            continue
        seen.add(at)
        word = operands[at] if at < len(operands) else ""
        if word == "--":
            start = at + 1
            while wrapper.assigns and "=" in "".join(operands[start : start + 1]):
                start += 1
            yield start + wrapper.skips
        elif word.startswith("-") and (word[1:] or word in wrapper.flags):
            left += [at + width for width in _widths(wrapper, word)]
        elif wrapper.assigns and "=" in word:
            left.append(at + 1)
        else:
            start = at + wrapper.skips
            # Options may stand between the skipped operands and the command: `flock FILE -c LINE` is read by `inner_lines`.
            yield start + (start < len(operands) and operands[start] == "--" and wrapper.skips > 0)


def _widths(wrapper: Wrapper, word: str) -> tuple[int, ...]:
    """Say how many words an option may take, itself included."""
    if word in wrapper.values or word in wrapper.lines:
        return (2,)
    if "=" in word or word in wrapper.flags:
        return (1,)
    letters = [f"-{letter}" for letter in word[1:]]
    if not word.startswith("--") and len(letters) > 1:
        for place, letter in enumerate(letters):
            if letter in wrapper.values | wrapper.lines:
                return (2,) if place + 1 == len(letters) else (1,)
        if all(letter in wrapper.flags for letter in letters):
            return (1,)
    return (1,) if word[1:].isdecimal() else (1, 2)


def inner_lines(wrapper: Wrapper, operands: Sequence[str]) -> Iterator[str]:
    """Give the command lines that stand behind a wrapper's options."""
    short = "".join(one[1] for one in sorted(wrapper.lines) if len(one) == len("-c"))
    long = [one for one in sorted(wrapper.lines) if one.startswith("--")]
    for place, word in enumerate(operands):
        if word == "--":
            return
        behind = place + 1
        name, equals, value = word.partition("=")
        # In any abbreviation: getopt takes it.
        is_long = name.startswith("--") and any(one.startswith(name) for one in long)
        if (
            word in wrapper.lines
            or (is_long and not equals)
            or (short and re.fullmatch(rf"-[A-Za-z]*[{short}]", word))
        ):
            line = "".join(operands[behind : behind + 1])
            behind += 1
        elif is_long:
            line = value
        elif short and re.match(rf"-[{short}].", word):
            line = word[2:]
        else:
            continue
        # `env -S` goes on with the words behind its line; a shell takes them for its own.
        yield f"{line} {shlex.join(operands[behind:])}" if wrapper.assigns else line


def speaks(words: Sequence[str], prefix: Sequence[str]) -> bool:
    """Say whether a command begins with these words, whatever options of its program stand between them."""
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

"""Bash is the judge (G-016): whatever runs a program or writes a file that no rule covers asks, under a list of stars for all programs.

The lines, and mutants of them, are judged; those that are allowed, and in `make check` all of the list, run under bash in a scratch directory.
"""

import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentrail.plugins.permission_policy import PermissionPolicy, rules
from agentrail.plugins.permission_verdict import PermissionCall, judge
from tests.plugins.permission_lines import HARMFUL, ORDINARY
from tests.thinned import sample

BASH = shutil.which("bash")
MUTANTS = int(os.environ.get("PERMISSION_MUTANTS", "20000"))
SEED = int(os.environ.get("PERMISSION_SEED", "20261122"))
REAL = """
    awk bash cat chrt csplit cut dash dd diff dirname env false file find flock git grep head iconv ionice
    ls make mkdir nice nohup perl prlimit python3 script sed setarch setsid sh shuf sleep sort split stat
    stdbuf tail tar taskset tee timeout touch tr true uniq wc xargs xxd
"""
HARM = '#!{bash}\necho harm >> "{record}"\n'
OWN = frozenset({"harm", "harm2", "cp", "mv", "rm", "touch", "mkdir", "ln", "install"})
"""Of these no rule is made: the first two are what must not run, the others write what they are told by their names."""

FIRST_WORDS = sorted(
    {line.split()[0] for line in (*HARMFUL, *ORDINARY) if line.split()[0].replace("-", "").isalnum()} - OWN
)
OTHERS = "git sort uniq cut tr sleep true test xxd file date cd"
WIDE = PermissionPolicy(allow=rules(*(f"shell({program} *)" for program in (*FIRST_WORDS, *OTHERS.split()))))
EVERY_STAR = PermissionPolicy(allow=rules("shell(git *)", "shell(ls *)", "shell(echo *)", "shell(head *)"))
HONEST = 250
"""So many lines of the list at least must really do harm under bash."""


def is_allowed(line: str, policy: PermissionPolicy = WIDE) -> bool:
    """Whether a policy lets a line run without a person."""
    call = PermissionCall(tool="shell", arguments={"command": line}, working_dir="/srv/project")
    return judge(policy, call).decision == "allow"


@pytest.mark.parametrize("policy", [WIDE, EVERY_STAR], ids=["wide", "narrow"])
def test_no_harmful_line_is_allowed(policy):
    """None of the list is allowed, however many stars there are (G-016)."""
    assert [line for line in HARMFUL if is_allowed(line, policy)] == []
    assert len(HARMFUL) >= HONEST + 50


def test_a_pipe_is_allowed_when_each_command_is_and_so_are_ordinary_lines():
    """`git log | head` needs a rule for `head` too (G-016); of what agents run all day at most four in fifty ask."""
    git = PermissionPolicy(allow=rules("shell(git *)"))
    both = PermissionPolicy(allow=rules("shell(git *)", "shell(head *)"))
    assert not is_allowed("git log | head", git)
    assert is_allowed("git log", git)
    assert is_allowed("git log | head", both)
    programs = sorted({*FIRST_WORDS, "mkdir"})
    wide = PermissionPolicy(allow=rules(*(f"shell({program} *)" for program in programs)))
    asks = [line for line in ORDINARY if not is_allowed(line, wide)]
    assert asks == list(ORDINARY[-4:])  # those that are not read


class World:
    """A directory with a repository, which is as it was before each line."""

    def __init__(self, root: Path) -> None:
        """Make it; the programs are there by links, and the harmful ones write down that they ran."""
        self.root, self.record = root, root / "record"
        (root / "bin").mkdir()
        for name in REAL.split():
            if (where := shutil.which(name)) is not None:
                (root / "bin" / name).symlink_to(where)
        for name in ("harm", "git-harm", "git-merge-harm", "git-remote-harm"):
            self._program(root / "bin" / name)
        template = root / "template"
        for folder in ("keep", "other", "work/opts", "work/two", "work/sub"):
            (template / folder).mkdir(parents=True)
        files = {
            "keep/x": "", "work/f": "a\nb\na\n", "work/g": "a\nc\n", "work/big": "".join(f"{n * 7919 % 10007}\n" for n in range(20_000)),
            "work/opts/-oHARM": "", "work/opts/x": "x\n", "work/opts/h": "h\n", "work/two/a": "a\n", "work/two/bHARM": "b\n",
            "work/harm.sh": "harm\n", "work/harm.pl": "system('harm');\n", "work/prog.awk": 'BEGIN{system("harm")}\n', "work/prog.sed": "w HARM\n",
            "work/mk": "all:\n\tharm\n", "work/Makefile": "all:\n\tharm\n",
        }  # fmt: skip
        for name, text in files.items():
            (template / name).write_text(text)
        for name in ("work/harm", "work/harm2", "work/sub/run"):
            self._program(template / name)
        for folder in ("work", "other"):
            self._git(template / folder, "init", "-q", "-b", "main")
            self._git(template / folder, "commit", "-q", "--allow-empty", "-m", "first")
        self._git(template / "work", "add", "f", "g")
        self._git(template / "work", "commit", "-q", "-m", "second")
        self._git(template / "work", "branch", "side", "HEAD~1")
        self._git(template / "work", "config", "alias.h", "!harm")
        self._git(template / "other", "config", "core.fsmonitor", "harm")
        for folder in ("work", "other"):
            shutil.rmtree(template / folder / ".git" / "hooks", ignore_errors=True)
        for path in (template, *template.rglob("*")):
            path.chmod(0o777 if path.is_dir() or path.stat().st_mode & 0o100 else 0o666)
        self.record.touch()
        self.record.chmod(0o666)
        self.template, self.place = template, root / "place"
        self.fresh: dict[str, tuple[int, int, int]] = {}
        self.kwargs: dict[str, Any] = {}
        if os.geteuid() == 0:  # what bash runs here may be anything: not as root
            self.kwargs = {"user": 65534, "group": 65534, "extra_groups": []}

    def harms(self, line: str) -> bool:
        """Whether bash runs `harm`, writes a file `HARM…`, or removes what is to be kept."""
        if not self.fresh or self._seen() != self.fresh:
            shutil.rmtree(self.place, ignore_errors=True)
            shutil.copytree(self.template, self.place, symlinks=True)
            self.fresh = self._seen()
        self.record.write_text("")
        try:
            subprocess.run(  # noqa: PLW1510 - how it ends does not matter
                [str(BASH), "-c", line], cwd=self.place / "work", env=self._environment(), stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=3, **self.kwargs,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return False
        if self.record.stat().st_size:
            return True
        after = self._seen()
        changed = {
            path for path in after.keys() | self.fresh.keys() if after.get(path) != self.fresh.get(path)
        }
        return any(_is_harm(path) for path in changed)

    def _environment(self) -> dict[str, str]:
        names = {
            f"GIT_{who}_{what}": "x@example.com"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        return {
            "PATH": str(self.root / "bin"), "HOME": str(self.place), "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "FS": "harm",
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*", **names,
        }  # fmt: skip

    def _seen(self) -> dict[str, tuple[int, int, int]]:
        found: dict[str, tuple[int, int, int]] = {}
        left = [str(self.place)]
        while left:
            for entry in os.scandir(left.pop()):
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
                else:
                    stat = entry.stat(follow_symlinks=False)
                    found[entry.path] = (stat.st_size, stat.st_mtime_ns, stat.st_mode)
        return found

    def _program(self, path: Path) -> None:
        path.write_text(HARM.format(bash=BASH, record=self.record))
        path.chmod(0o755)

    def _git(self, where: Path, *arguments: str) -> None:
        own = ("-c", "user.name=x", "-c", "user.email=x@example.com")
        subprocess.run(["git", *own, *arguments], cwd=where, check=True, capture_output=True)


def _is_harm(path: str) -> bool:
    return ("/.git/" not in path and "HARM" in path.rpartition("/")[2]) or path.endswith("/keep/x")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A world, where others than its owner may look."""
    with tempfile.TemporaryDirectory(prefix="permissions-") as root:
        Path(root).chmod(0o755)
        yield World(Path(root))


needs_bash = pytest.mark.skipif(
    BASH is None or shutil.which("git") is None, reason="bash with git is the oracle"
)


@pytest.mark.check
@needs_bash
def test_the_harmful_lines_do_harm(world):
    """At least 250 lines of the list really run a program or write a file under bash, so what is refused is no straw (G-016)."""
    lines = sample(HARMFUL, len(HARMFUL) // 8)
    tame = [line for line in lines if not world.harms(line)]
    assert len(tame) * len(HARMFUL) <= len(lines) * (len(HARMFUL) - HONEST), tame
    assert [line for line in ORDINARY[:40] if is_allowed(line) and world.harms(line)] == []


PIECES = (
    *("$(harm)", "`harm`", "harm", "; harm", "| harm", "&& harm", "\n", "\nharm\n", "'", '"', "\\", "$", "&", ">HARM", "> HARM", "2>&1", ">/dev/null", "<", "(", ")", "{", "}"),
    *("#", "!", "~", "*", "?", "[", "]", "=", "--", "-o", "-oHARM", " HARM", "--o=HARM", "-c", "-C", "-x", "-exec harm ';'", "x=1 ", "$x", "${x:-harm}", "|", ";", "&&", "||", "\t", "\r", "\x00"),
    *("\u00a0", "\u200b", "\u2028", "timeout 5 ", "nice ", "nohup ", "env ", "git ", "sort ", "uniq ", "find ", "cd opts && ", "cd ../other; ", " f", " .", "-", "::", "harm::x", "\\\n", "''", '""'),
)  # fmt: skip


def mutants(seed: int, count: int) -> Iterator[str]:
    """Lines made of those of the lists: cut, joined, and with a piece put in, taken out or put in another's place."""
    pick = random.Random(seed)  # noqa: S311 - no secret
    pool = (*HARMFUL, *ORDINARY)
    words = sorted({word for line in pool for word in line.split(" ") if word})
    for _ in range(count):
        line = pick.choice(pool)
        for _ in range(pick.randint(1, 4)):
            at, other = pick.randint(0, len(line)), pick.choice(pool)
            match pick.randrange(7):
                case 0:
                    line = line[:at] + pick.choice(PIECES) + line[at:]
                case 1:
                    line = line[:at] + line[at + pick.randint(1, 3) :]
                case 2:
                    line = line[:at] + other[pick.randint(0, len(other)) :]
                case 3:
                    line += pick.choice((" ", "; ", " | ", " && ", "\n", " || ")) + other
                case 4:
                    parts = line.split(" ")
                    parts[pick.randrange(len(parts))] = pick.choice(words)
                    line = " ".join(parts)
                case 5:
                    parts = line.split(" ")
                    parts.insert(pick.randint(0, len(parts)), pick.choice((*words, *PIECES)))
                    line = " ".join(parts)
                case _:
                    line = line[:at] + pick.choice(PIECES).strip() + line[at + 1 :]
        yield line


def test_mutants_are_judged_alike_each_time():
    """Two hundred mutants: no line makes the reader raise, and a line that is allowed with a narrow list is with a wide one."""
    for line in mutants(SEED + 1, 200):
        assert is_allowed(line) >= is_allowed(line, EVERY_STAR)


@pytest.mark.check
@needs_bash
def test_no_mutant_that_is_allowed_does_harm(world):
    """Of 20,000 mutants those that are allowed run under bash, and none of them does harm (G-016); `make nightly` takes a million."""
    allowed = sorted({line for line in mutants(SEED, MUTANTS) if is_allowed(line)})
    assert len(allowed) > MUTANTS // 200
    most = 100 if MUTANTS <= 20_000 else len(allowed)
    chosen = random.Random(SEED).sample(allowed, min(most, len(allowed)))  # noqa: S311 - no secret
    # Asked twice: a process that outlived its line may write while the next one runs.
    assert [line for line in chosen if world.harms(line) and world.harms(line)] == []

"""Bash is the judge: whatever it runs of two stand-ins, hidden in any way, `SecurityGuard` must have noticed.

The stand-ins write down that they were called, and do nothing. Bash sees no other programs than harmless ones.
"""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.plugins.test_security_guard import is_blocked
from tests.thinned import each, sample

BASH = shutil.which("bash")
HARMLESS = """
    bash sh cat tee env nice timeout nohup setsid stdbuf xargs find tr flock head sort touch true chmod cp time script
"""
STAND_IN = '#!{bash}\n{{ printf "%s\\037" "${{0##*/}}" "$@"; echo; }} >> {record}\n'

pytestmark = pytest.mark.skipif(BASH is None, reason="bash is the oracle, and is not installed")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with programs, and one to work in."""
    root = tmp_path_factory.mktemp("oracle")
    (root / "bin").mkdir()
    (root / "work").mkdir()
    for name in HARMLESS.split():
        where = shutil.which(name)
        if where is not None:
            (root / "bin" / name).symlink_to(where)
    for name in ("rm", "curl"):
        stand_in = root / "bin" / name
        stand_in.write_text(STAND_IN.format(bash=BASH, record=root / "record"))
        stand_in.chmod(0o755)
    return root


def run_by_bash(world: Path, line: str) -> bool:
    """Whether bash calls a stand-in with what is forbidden."""
    record = world / "record"
    record.write_text("")
    work = world / "work"
    shutil.rmtree(work)
    work.mkdir()
    assert BASH is not None
    try:
        subprocess.run(
            [BASH, "-c", line],
            cwd=work,
            env={"PATH": str(world / "bin"), "HOME": str(work)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=20,
        )
    except subprocess.TimeoutExpired:
        return False
    called = [call.split("\x1f") for call in record.read_text().splitlines()]
    return any(call[0] == "curl" or (call[0] == "rm" and {"-rf"} & set(call)) for call in called if call)


quote = shlex.quote
SEPARATORS = (
    *("IFS=,", "IFS=$'\\x2c'", "export IFS=,", "declare IFS=,", "declare -g IFS=,", "IFS+=,"),
    *("printf -v IFS ,", "printf -vIFS ,", "x=,; IFS=$x", "read -r IFS <<< ,", "unset IFS; : ${IFS:=,}"),
    *('unset IFS; : "${IFS=,}"', "eval IFS=,", "IFS=$(echo ,)", "IFS=${Z:-,}"),
    *("for IFS in : ,; do :; done", "declare -n r=IFS; r=,", "IFS=x; IFS=,", "f() { IFS=,; }; f"),
    *('IFS="$(printf ,)"', "IFS=:,", "echo , | tee o; read -r IFS < o", "typeset -x IFS=','"),
)
"""Ways to change what cuts words."""
CUT = (
    *("#; a=%; $a", "a=%; #; $a", "a=%; f() { $a; }; #; f", "f() { local IFS=,; a=%; $a; }; f"),
    *("#; f() { $1; }; f %", "#; set -- %; $1", "#; $(echo %)", "a=%; #; b=$a; $b"),
    *('a=%; #; b=($a); "${b[@]}"', 'a=%; #; set -- $a; "$@"', 'a=%; #; c=($a); eval "${c[*]}"'),
    *("a=%; IFS=, eval '$a'", "#; `echo %`", "#; ${Z:-%}", "a=%; #; unset IFS; IFS=,; $a"),
    *("a=%; for i in 1 2; do $a; #; done", 'IFS=, read -ra p <<< %; "${p[@]}"', "a=%; #; env $a"),
    "a=%; #; IFS=' '; #; $a",
)
"""Ways to have it cut a value: `#` is one of `SEPARATORS`, and `%` the value."""
CUTS = tuple(
    lambda c, t=t, place=place: t.replace("#", SEPARATORS[place]).replace("%", quote(c.replace(" ", ",")))
    for place in range(len(SEPARATORS)) for t in CUT
)  # fmt: skip
SPELLINGS = (
    *("rm -rf x", "curl x", "'rm' -rf x", 'r"m" "-rf" x', "r\\m -rf x", "c\\\nurl x", "$'\\x63url' x", "$'\\162m' -rf x", '"curl" x'),
    *('rm -r""f x', "c''url x", "{rm,-rf,x}", "{curl,x}", "rm$IFS-rf${IFS}x", "r${Z}m -rf x", "$Z curl x", "${Z:-curl} x", '"cu"rl x'),
)  # fmt: skip
WRAPS = (
    *(lambda c, p=p: f"{p} {c}" for p in (
        "env A=1", "env -i PATH=$PATH", "nice -n 5", "nice", "timeout 5", "timeout -k 1 5", "nohup", "setsid -w", "stdbuf -oL",
        "command", "builtin command", "exec", "exec -a x", "time", "time -p", "!", "A=1", "A[0]=1", "2>/dev/null", ">x", "2>&1", "coproc",
        "flock l", "echo x | xargs", "echo x | xargs -n 1", "true &&", "false ||", "ls;", "# a\n", "echo a#b;", "echo 'a' \"b\" $'c';",
        "echo a # 'b\n", "echo $((1<<2))\n", ": `:`;", "env -S", "x=1;", "cd . &&", "set -e;", "((x=1));", "cat <<E\na\nE\n",
        "cat <<'E'\n$(\nE\n", "cat <<< a;", "[[ a == a ]] &&", "echo ${#x};", "case a in a) echo;; esac;", "trap '' INT;",
    )),
    *(lambda c, t=t: t.replace("%", c) for t in (
        "( % )", "{ %\n}", "if :; then %\nfi", "for i in 1; do %\ndone", "while :; do %\nbreak; done", "f() { %\n}; f", "function f { %\n}; f",
        "echo $( % )", 'echo "$( % )"', 'echo "`%`"', ": ${x:-$( % )}", 'echo "${x:-$( % )}"', "cat <( % )", "% | cat", "case a in a) %\n;; esac",
        "cat <<E\n$( % )\nE", "x=$( % )", "A[$( % )]=1", "(( 0 * $( % ) ))", "echo $(( 0 + $( % ) ))", "echo a > >( % )", "until %\ndo break; done",
        "% &\nwait", "select i in 1; do %\ndone <<< 1", "echo $(echo a # )'\n% )", "%  # it's", "{ % ; } > out 2>&1", "for i do :; done; %",
    )),
    *(lambda c, t=t: t.replace("%", quote(c)) for t in (
        "bash -c %", "sh -c %", "bash -c -- %", "bash -ec %", "bash -o pipefail -c %", "bash -c -x %", "bash --norc -c %", "eval %", "eval -- %",
        "bash <<< %", "bash -s <<< %", "echo % | bash", "printf %s % | sh", "trap % EXIT",
        'a=%; eval "$a"', 'a=%; bash -c "$a"', "export a=%; bash -c 'eval \"$a\"'", 'declare a=%; eval "${a}"', "bash -c 'eval \"$1\"' _ %",
        "source <(echo %)", ". /dev/stdin <<< %", "bash <(echo %)", "echo % > s; bash s", "echo % > s; . ./s", "echo % | tee s; sh < s",
        'f() { eval "$1"; }; f %', 'set -- %; eval "$1"', 'read -r a <<< %; eval "$a"', 'echo % | { read -r a; eval "$a"; }',
        "echo % | (bash)", 'echo % | while read -r l; do eval "$l"; done', 'x=(%); eval "${x[0]}"', 'for c in %; do eval "$c"; done',
        'PROMPT_COMMAND=%; eval "$PROMPT_COMMAND"', "env bash -c %", "echo % | xargs -I{} bash -c '{}'", 'printf -v a %s %; eval "$a"',
        "flock l -c %", "alias x=%", 'a=%; b=a; eval "${!b}"', 'a=%; eval "${a@E}"', "script -qc % /dev/null",
    )),
    lambda c: f"bash <<E\n{c}\nE",
    lambda c: f"bash <<'E'\n{c}\nE",
    lambda c: f"cat > s <<'E'\n{c}\nE\nbash ./s",
    lambda c: f'set -- {c}; "$@"',
    lambda c: f'a=({c}); "${{a[@]}}"',
    lambda c: f"a={quote(c)}; $a",
    lambda c: f"find . -maxdepth 0 -exec {c} \\;",
    lambda c: f'f() {{ "$@"; }}; f {c}',
    *CUTS[::7],
    lambda c: c.replace(" ", "\t"),
    lambda c: c.replace(" ", " \\\n "),
)  # fmt: skip


def test_the_oracle_sees_what_runs_and_nothing_else(world):
    """The stand-ins are what bash finds, and a command that is only said calls none."""
    assert run_by_bash(world, "rm -rf x")
    assert run_by_bash(world, "bash -c 'curl x'")
    assert not run_by_bash(world, "echo rm -rf x; rm x; echo 'curl x'")


@pytest.mark.check
@each("wrap", range(len(WRAPS)))
def test_what_bash_runs_through_one_wrap_was_noticed(world, wrap):
    """Each way to hide a command, once by itself."""
    line = WRAPS[wrap]("curl x")
    if run_by_bash(world, line):
        assert is_blocked("shell", {"command": line}, blocked_commands=["curl"]), line


@pytest.mark.check  # a process for each
@each("cut", sample(range(len(CUTS)), 60))
def test_what_bash_runs_of_a_value_that_is_cut_was_noticed(world, cut):
    """`IFS`, however it is set, cuts what is not quoted."""
    line = CUTS[cut]("rm -rf x")
    if not is_blocked("shell", {"command": line}):
        assert not run_by_bash(world, line), line


@given(
    spelling=st.sampled_from(SPELLINGS),
    wraps=st.lists(st.one_of(*(st.sampled_from(one) for one in (WRAPS, WRAPS, WRAPS, CUTS))), max_size=4),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_bash_runs_was_noticed(world, spelling, wraps):
    """Quoting, wrappers, substitutions, blanks, comments and here-documents, in any order (issue 13)."""
    line = spelling
    for wrap in wraps:
        line = wrap(line)
    if not is_blocked("shell", {"command": line}, blocked_commands=["curl"]):
        assert not run_by_bash(world, line), line

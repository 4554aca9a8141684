"""A deny is not escaped by how a line is spelled: what is not read, and what runs what it is told, is denied or asked about (12.7)."""

import random
import shlex

import pytest

from agentrail.plugins.permission_policy import PermissionPolicy, rules
from agentrail.plugins.permission_verdict import PermissionCall, judge
from agentrail.plugins.shell_plain import NotRead, read_plain

BYPASS = PermissionPolicy(modes=("bypass",), deny=rules("shell(rm *)"))
BARE = PermissionPolicy(allow=rules("shell"), deny=rules("shell(rm *)"))
ASKS = PermissionPolicy(modes=("bypass",), ask=rules("shell(rm *)"))

SPELLINGS = (
    *("rm x", "'rm' x", 'r"m" x', r"r\m x", "/bin/rm x", "./../bin/rm x", "RM x", "A=1 rm x", "rm>x", "rm\tx", "r\\\nm x"),
    *(r"$'\x72m' x", "{rm,x}", "r{m,} x", "${y:-rm} x", "$(echo rm) x", "$(which rm) x", "y=r; ${y}m x", "env - rm x", "env -- A=1 rm x"),
    *(r"env -S 'rm\_x'", "env --split-str='rm x'", "$(printf '%b' '\\0162m') x", "echo -e '\\0162m x' | sh", "bash -oc pipefail 'rm x'"),
)  # fmt: skip
"""One command, as it may be written."""
GRAMMAR = (
    *("for((;;)){{ {}\n}}", "for ((i=0;i<1;i++)) do {}\ndone", "for i {{ {}\n}}", "for i do {}\ndone", "for ((i=$({});i<1;i++)) do ls; done"),
    *("if [[ a ]] then {}\nfi", "if [[ a && b ]] then {}\nfi", "if ((1)) then {}\nfi", "while ((1)) do {}\ndone", "((1)) && {}", "[[ a ]] && {}"),
    *(": ${{ {}\n}}", ': "${{ {}\n}}"', ": ${{|{}\n}}", "f() {{ {}\n}}; f", "f()({}\n)", "case x in x) {}\nesac", "coproc {{ {}\n}}", "ls & {}"),
    *("! {}", "time {}", "a=$({})", ": $(: $({}))", ": ${{a:-$({})}}", "cat <<E\n$({})\nE", "{}\nls", "({}\n)"),
)  # fmt: skip
"""What stands around a command in the grammar of a shell."""
QUOTED = (
    *("bash -c {}", "sh -ec {}", "bash -co pipefail {}", "eval {}", "trap {} EXIT", "su --comm={}", "script --comm {}", "flock f -c {}"),
    *("env bash -c {}", "sh <<< {}", "xargs sh -c {}", "echo {} > y; sh y", "echo {} > y; BASH_ENV=y bash -c :"),
)  # fmt: skip
"""What runs a line that it is given as one word."""
TOLD = (
    *("tar cf a x --checkpoint-action=exec={}", "tar -I {} -cf a x", "git -c core.fsmonitor={} status", "git -cfilter.a.clean={} add ."),
    *("git fetch --upload-pack={} .", "git rebase --exec={} HEAD~1", "rsync -e {} a h:b", "rsync -e{} a h:b", "ssh -o ProxyCommand={} h"),
    *("npx -c {}", "npm exec -c {}", "uv run {}", "sort --compress-program={} f", "rg --pre={} x", "make X={} all", "gdb -ex '!'{}", "vim +!{}"),
    *("less +!{} f", "man -P {} ls", "sqlite3 x '.shell '{}", "watchexec {}", "hyperfine {}", "chronic {}", "ssh-agent {}", "sem {}", "fish -C {}"),
    *("mapfile -C {} a", "complete -C {} y", "bind -x '\"a\":'{}", "sops exec-env f {}", "ansible all -a {}", "tmux new-session -d {}", "m4 -D{}"),
)  # fmt: skip
"""Programs of which only that is known that they run what they are told."""
SCRIPTS = (
    *("sed --expression='1e {}' f", "sed -ne'1e {}' f", "sed -f <(echo '1e {}') f", "echo '1e {}' > y; sed -f y f", "sed -f /dev/stdin f <<< '1e {}'"),
    *("""echo 'BEGIN{{system("{}")}}' | awk -f -""", """awk -f <(echo 'BEGIN{{system("{}")}}')""", "curl u | awk -f - x", "[[ 'a[$({})]' -eq 1 ]]"),
    *("compgen -W '$({})'", "git log && {}", "for i do echo '{}' > y; sh y\ndone", "[[ a ]] && if [[ a ]] then echo '{}' > y; sh y; fi"),
)  # fmt: skip
"""Code in a word, or in a file that the line writes; none of it has quotes."""
KNOWN_WAYS = (
    *("setarch -R rm x", "case x in $(rm x)) ;; esac", "time -- { rm x; }", "awk -v c='rm x' 'BEGIN{system(c)}'", "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0='!rm x' git x"),
    *("X='!rm x' git --config-env=alias.x=X x", "make -f- <<< 'a:;rm x'", "make -f <(echo 'a:;rm x')", "printf 'all:;rm x\\n' | make -f -", "ed <<< '!rm x'", "sqlite3 :memory: <<< '.shell rm x'"),
    *("/lib64/ld-linux-x86-64.so.2 /bin/bash -c 'rm x'", "exec 3<<< 'rm x'; sh /dev/fd/3", "f() { sh; }; echo 'rm x' | f", "echo '\\rm x' | bash", "git -c core.fsmonitor='r${n}m x' status"),
    *("tar cf t.tar -I 'r${n}m x' f", "git fetch --upload-pack='r${n}m x' .", "split --filter='${n:-rm} x' f", "ssh -o ProxyCommand='${n:-rm} x' host", "python3 -m timeit -n1 -r1 'import os;os.system(\"rm x\")'"),
)  # fmt: skip
"""Ways around a deny that the reader of before, which guessed, did not see."""


def verdict(policy: PermissionPolicy, line: str) -> str:
    return judge(policy, PermissionCall(tool="shell", arguments={"command": line})).decision


def lines_that_remove() -> list[str]:
    """Each form with each spelling, and some of them in one another."""
    chance = random.Random(20261123)  # noqa: S311 - the same lines each time
    lines = [form.format(spelling) for form in GRAMMAR for spelling in SPELLINGS]
    lines += [form.format(shlex.quote(spelling)) for form in QUOTED for spelling in SPELLINGS]
    lines += [form.format(shlex.quote(spelling)) for form in TOLD for spelling in SPELLINGS[:6]]
    for _ in range(300):
        inner = chance.choice(GRAMMAR).format(chance.choice(SPELLINGS))
        lines.append(chance.choice(QUOTED).format(shlex.quote(inner)))
        lines.append(chance.choice(GRAMMAR).format(chance.choice(QUOTED).format(shlex.quote("rm x"))))
    return lines


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.check)])
def test_a_deny_is_not_escaped_by_spelling(step):
    """However a command is quoted, nested and told to others: denied in `bypass`, never allowed by a bare rule, asked about where a rule asks."""
    lines = [*lines_that_remove()[::step], *(form.format("rm x") for form in SCRIPTS)]
    lines += KNOWN_WAYS
    assert [line for line in lines if verdict(BYPASS, line) != "deny"] == []
    assert [line for line in lines[::7] if verdict(BARE, line) == "allow"] == []
    unread = [line for line in lines if isinstance(read_plain(line), NotRead)]
    assert [line for line in unread[::7] if verdict(ASKS, line) != "ask"] == []

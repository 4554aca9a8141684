"""What "always" proposes: the narrowest rules (G-017)."""

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from agentrail.plugins.permission_always import offers_always, proposed_rules, what_else
from agentrail.plugins.permission_policy import PermissionPolicy, rules
from agentrail.plugins.permission_rules import read_permission_rule
from agentrail.plugins.permission_verdict import PermissionCall, explain_call, judge
from agentrail.plugins.shell_wildcards import ONLY_READS, STAR_ROWS
from tests.plugins.permission_lines import HARMFUL, ORDINARY

NOTHING = PermissionPolicy()


def call_of(tool, **arguments):
    return PermissionCall(tool=tool, arguments=arguments, working_dir="/srv/project")


def proposed(call, policy=NOTHING):
    return proposed_rules(call, judge(policy, call))


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("ls -la src", ("shell(ls -la src)",)),
        ("tail", ("shell(tail)",)),
        ("git log", ("shell(git log *)",)), ("git status -s", ("shell(git status *)",)), ("npm run test:a", ("shell(npm run test:a)",)), ("git clean -n", ("shell(git clean -n)",)), ("git branch", ("shell(git branch)",)), ("pwd", ("shell(pwd *)",)), ("git diff /etc/passwd /dev/null", ()), ("nice git log", ("shell(nice git log)",)), ("git log | head -n 5", ("shell(git log *)", "shell(head -n 5)")), ("wc a && wc a", ("shell(wc a)",)),
        ("echo 'a b' \"c'd\"", ("shell(echo 'a b' \"c'd\")",)), ("timeout 5 wc x", ("shell(timeout 5 wc x)",)), ("ls '*'", ("shell(ls '*')",)), ("ls a?c", ("shell(ls a?c)",)), ("git -C x log", ()), ("bash -c 'x'", ()), ("make test", ()),
        ("ls *", ()), ("ls a\u00e9", ()), ("ls 'a\u00e9'", ("shell(ls 'a\u00e9')",)), ("ls $x", ()), ("cd x && git log", ()), ("a 1; a 2; a 3; a 4; a 5; a 6", ()), ("sort -o x y", ()), ("echo \"'\"'`'", ()), ("ls 'a?c'", ("shell(ls 'a?c')",)), ("ls ''", ("shell(ls '')",)),
        ("git 'a b'", ()),
    ],
)  # fmt: skip
def test_the_narrowest_rules_of_a_line(line, texts):
    """The very words, or program and command where that only reads; one rule for each command that asked, at most five; none for what no star covers."""
    assert proposed(call_of("shell", command=line)) == texts


def test_only_what_asked_is_proposed():
    """Calls that a rule allows, asks about or denies get no rule, nor do links that lead elsewhere, nor exact words in another directory."""
    line = call_of("shell", command="git log | head")
    assert proposed(line, PermissionPolicy(allow=rules("shell(head *)"))) == ("shell(git log *)",)
    assert proposed(line, PermissionPolicy(ask=rules("shell(git *)"))) == ()
    assert proposed(line, PermissionPolicy(deny=rules("shell(git *)"))) == ()
    assert proposed(line, PermissionPolicy(allow=rules("shell"))) == ()
    assert proposed(call_of("exit_plan", plan="x"), PermissionPolicy(modes=("plan",))) == ()
    assert proposed(call_of("grep", pattern="x"), PermissionPolicy(deny=rules("read_file(x)"))) == ()

    assert proposed(evolve(call_of("write_file", path="a"), leads_to=("/etc/x",))) == ()
    assert proposed(call_of("shell", command="npm test", workdir="src")) == ()
    assert proposed(call_of("shell", command="pwd", workdir="src")) == ("shell(pwd *)",)


@pytest.mark.parametrize(
    ("tool", "arguments", "texts"),
    [
        ("write_file", {"path": "src/../a.py", "content": ""}, ("write_file(./a.py)",)), ("write_file", {"path": "/etc/x"}, ("write_file(//etc/x)",)), ("write_file", {"path": "a*"}, ()), ("write_file", {"path": "a?"}, ()), ("write_file", {"path": "~/x"}, ()),
        ("write_file", {"path": 7}, ()), ("edit_file", {"path": "."}, ()), ("web_fetch", {"url": "https://a.b.org/x"}, ("web_fetch(domain:a.b.org)",)), ("web_fetch", {"url": "https://[::1"}, ()), ("web_fetch", {"url": 7}, ()), ("web_fetch", {"url": "ftp://x.org"}, ()),
        ("task", {"subagent_type": "reviewer", "description": "x"}, ("task(reviewer)",)), ("skill", {"name": "a*"}, ()), ("skill", {}, ()), ("deploy", {}, ("deploy",)), ("deploy", {"stage": "test"}, ("deploy(stage=test)",)), ("deploy", {"stage": "t*"}, ("deploy",)),
        ("deploy", {"stage": "x", "n": 1}, ("deploy",)), ("deploy", {"n": 1}, ("deploy",)), ("deploy", {"a b": "x"}, ()), ("deploy now", {}, ()),
        ("python", {"code": "1"}, ()), ("python", {"code": "1", "timeout_seconds": 60}, ()),
    ],
)  # fmt: skip
def test_the_narrowest_rule_of_another_call(tool, arguments, texts):
    """The file, the host, the agent, the argument; where that cannot be said, none."""
    assert proposed(call_of(tool, **arguments)) == texts


def test_explain_names_the_rule_that_always_wrote():
    """G-017: exactly that rule allows the call, and no other line. A line that is too long gets no rule."""
    for line in ("wc a", "git log -n 1", "git log | wc a"):
        call = call_of("shell", command=line)
        texts = proposed(call)
        assert {rule.text for rule in explain_call(PermissionPolicy(allow=rules(*texts)), call).by} == set(
            texts
        )
    assert proposed(call_of("shell", command="wc " + "a" * 5_000)) == ()

    policy = PermissionPolicy(allow=rules("shell(sort -o x y)"))
    told = explain_call(policy, call_of("shell", command="sort -o x y"))
    assert (told.decision, [rule.text for rule in told.by]) == ("allow", ["shell(sort -o x y)"])
    assert explain_call(policy, call_of("shell", command="sort -o x z")).decision != "allow"


@pytest.mark.parametrize(
    ("asked", "other"),
    [
        ("git clean -n", "git clean -fdx"), ("git push origin main", "git push --force origin main"), ("git stash", "git stash clear"), ("git remote add up https://a.example/x", "git remote set-url origin https://b.example/x"),
        ("git branch", "git branch -D main"), ("git checkout main", "git checkout -- ."), ("npm run test:unit", "npm run deploy"), ("gh pr view 3", "gh pr merge 3 --admin"), ("kubectl get pods", "kubectl get secrets -o yaml"), ("cargo test", "cargo clean"),
        ("git log", "git log --output=a"), ("git log", "git log --ext-diff"), ("git diff", "git diff --no-index a b"), ("git diff", "git diff --no-ind a b"), ("git diff", "git diff /etc/passwd /dev/null"), ("git diff", "git diff ../../x a"), ("git grep x", "git grep -O./evil x"),
        ("git grep x", "git grep --no-index x /etc"), ("git blame a", "git blame --contents /etc/passwd a"), ("git status", "git stash"), ("id", "id; rm x"), ("ls", "ls -R /"), ("cat a", "cat /etc/passwd"),
    ],
)  # fmt: skip
def test_always_allows_no_command_that_does_more(asked, other):
    """What a person always allowed of a reading command is more reading of the repository; of any other its very words."""
    texts = proposed(call_of("shell", command=asked))
    assert judge(PermissionPolicy(allow=rules(*texts)), call_of("shell", command=asked)).decision == "allow"
    assert judge(PermissionPolicy(allow=rules(*texts)), call_of("shell", command=other)).decision != "allow"


@given(
    st.sampled_from(sorted((*STAR_ROWS, *ONLY_READS))),
    st.text("abcdefghijklmnopqrstuvwxyz -=/.", max_size=20),
)
def test_only_rows_that_only_read_get_a_star(program, rest):
    """Whatever else stands in the line: a rule with a star is of a program, or a command of it, that is in the table."""
    for text in proposed(call_of("shell", command=f"{program} {rest}")):
        if text.endswith(" *)"):
            words = text.removeprefix("shell(").removesuffix(" *)").split()
            commands = ONLY_READS[words[0]][0]
            assert words[1:] == [] if commands is None else words[1] in commands


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("shell(git log *)", "git log with any other words"), ("shell(ls -la)", ""), ("write_file(./a.py)", "any other content"), ("read_file(./a.py)", ""), ("deploy", "every call of deploy"), ("deploy(stage=test)", "every call of deploy with this argument"),
        ("web_fetch(domain:a.org)", "every page of a.org"),
    ],
)  # fmt: skip
def test_what_else_a_rule_allows_is_said(text, words):
    """In words, before a person says always; nothing for the very words of a command."""
    assert what_else(text).startswith(words)
    assert bool(what_else(text)) is bool(words)


lines = st.sampled_from((*HARMFUL, *ORDINARY)) | st.text("ab '\"*;|-/\n?", min_size=1, max_size=15)


@given(lines)
def test_always_writes_rules_that_allow_that_very_call(line):
    """G-017: what is proposed allows the call, `explain` then names it, and none with a star is written for what no star covers."""
    call = call_of("shell", command=line)
    texts = proposed(call)
    if texts:
        told = explain_call(PermissionPolicy(allow=rules(*texts)), call)
        assert told.decision == "allow"
        assert {rule.text for rule in told.by} == set(texts)
        assert all(read_permission_rule(text).tool == "shell" for text in texts)
    if "bash" in line or "harm" in line.split()[0:1]:
        assert not any("bash" in text and text.endswith("*)") for text in texts)


@pytest.mark.parametrize(
    ("tool", "arguments", "offers"),
    [
        ("shell", {"command": "git status -s"}, True), ("shell", {"command": "ls"}, True), ("shell", {"command": "ls -la"}, True), ("shell", {"command": "git log | wc"}, True), ("shell", {"command": "sort -o x y"}, False), ("shell", {"command": "bash x"}, False),
        ("shell", {"command": "git  status"}, True), ("write_file", {"path": "a"}, False), ("deploy", {"a": 1, "b": 2}, True), ("deploy", {"stage": "x"}, False), ("web_fetch", {"url": "https://x.org"}, False),
    ],
)  # fmt: skip
def test_the_sessions_own_always_is_offered_where_it_is_no_wider(tool, arguments, offers):
    """Of a command it means the very words; of another tool every call, which may be more than was asked."""
    call = call_of(tool, **arguments)
    assert offers_always(call, proposed(call)) is offers

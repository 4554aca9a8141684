"""What "always" proposes: the narrowest rules (G-017)."""

import pytest
from hypothesis import given, strategies as st

from agentrail.plugins.permission_always import offers_always, proposed_rules, with_rules
from agentrail.plugins.permission_policy import PermissionPolicy, rules
from agentrail.plugins.permission_rules import read_permission_rule
from agentrail.plugins.permission_verdict import PermissionCall, explain_call, judge
from tests.plugins.permission_lines import HARMFUL, ORDINARY

NOTHING = PermissionPolicy()


def call_of(tool, **arguments):
    """A call."""
    return PermissionCall(tool=tool, arguments=arguments, working_dir="/srv/project")


def proposed(call, policy=NOTHING):
    """The rules that are proposed for a call."""
    return proposed_rules(call, judge(policy, call))


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("ls -la src", ("shell(ls -la src)",)),
        ("tail", ("shell(tail)",)),
        ("git log", ("shell(git log *)",)), ("git status -s", ("shell(git status *)",)), ("npm run test:a", ("shell(npm run *)",)), ("git log | head -n 5", ("shell(git log *)", "shell(head -n 5)")), ("wc a && wc a", ("shell(wc a)",)),
        ("echo 'a b' \"c'd\"", ("shell(echo 'a b' \"c'd\")",)), ("timeout 5 wc x", ("shell(timeout 5 wc x)",)), ("ls '*'", ("shell(ls '*')",)), ("ls a?c", ("shell(ls a?c)",)), ("git -C x log", ()), ("bash -c 'x'", ()), ("make test", ()),
        ("ls *", ()), ("ls a\u00e9", ()), ("ls 'a\u00e9'", ("shell(ls 'a\u00e9')",)), ("ls $x", ()), ("cd x && git log", ()), ("a 1; a 2; a 3; a 4; a 5; a 6", ()), ("sort -o x y", ()), ("echo \"'\"'`'", ()), ("ls 'a?c'", ("shell(ls 'a?c')",)), ("ls ''", ("shell(ls '')",)),
        ("git 'a b'", ()),
    ],
)  # fmt: skip
def test_the_narrowest_rules_of_a_line(line, texts):
    """The very words, or program and command; one rule for each command that asked, at most five; none for what no star covers."""
    assert proposed(call_of("shell", command=line)) == texts


def test_only_what_asked_is_proposed():
    """A command that a rule allows already needs none; what a rule asks about, or denies, is not for `allow`."""
    line = call_of("shell", command="git log | head")
    assert proposed(line, PermissionPolicy(allow=rules("shell(head *)"))) == ("shell(git log *)",)
    assert proposed(line, PermissionPolicy(ask=rules("shell(git *)"))) == ()
    assert proposed(line, PermissionPolicy(deny=rules("shell(git *)"))) == ()
    assert proposed(line, PermissionPolicy(allow=rules("shell"))) == ()
    assert proposed(call_of("exit_plan", plan="x"), PermissionPolicy(modes=("plan",))) == ()
    assert proposed(call_of("grep", pattern="x"), PermissionPolicy(deny=rules("read_file(x)"))) == ()


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


def test_a_path_that_leads_elsewhere_by_a_link_gets_no_rule():
    """Both ends would have to be named."""
    call = PermissionCall(
        tool="write_file", arguments={"path": "a"}, working_dir="/srv/project", leads_to=("/etc/x",)
    )
    assert proposed(call) == ()


def test_explain_names_the_rule_that_always_wrote():
    """G-017: with it the call is allowed, by that very rule; a line that is too long for a rule gets none."""
    for line in ("wc a", "git log -n 1", "git log | wc a"):
        call = call_of("shell", command=line)
        texts = proposed(call)
        assert {rule.text for rule in explain_call(with_rules(NOTHING, texts), call).by} == set(texts)
    assert proposed(call_of("shell", command="wc " + "a" * 5_000)) == ()


lines = st.sampled_from((*HARMFUL, *ORDINARY)) | st.text("ab '\"*;|-/\n?", min_size=1, max_size=15)


@given(lines)
def test_always_writes_rules_that_allow_that_very_call(line):
    """G-017: what is proposed allows the call, `explain` then names it, and none with a star is written for what no star covers."""
    call = call_of("shell", command=line)
    texts = proposed(call)
    if texts:
        told = explain_call(with_rules(NOTHING, texts), call)
        assert told.decision == "allow"
        assert {rule.text for rule in told.by} == set(texts)
        assert all(read_permission_rule(text).tool == "shell" for text in texts)
    if "bash" in line or "harm" in line.split()[0:1]:
        assert not any("bash" in text and text.endswith("*)") for text in texts)


@pytest.mark.parametrize(
    ("tool", "arguments", "offers"),
    [
        ("shell", {"command": "git status -s"}, True), ("shell", {"command": "ls"}, True), ("shell", {"command": "ls -la"}, False), ("shell", {"command": "git log | wc"}, True), ("shell", {"command": "sort -o x y"}, False), ("shell", {"command": "bash x"}, False),
        ("shell", {"command": "git  status"}, True), ("write_file", {"path": "a"}, False), ("deploy", {"a": 1, "b": 2}, True), ("deploy", {"stage": "x"}, False), ("web_fetch", {"url": "https://x.org"}, False),
    ],
)  # fmt: skip
def test_the_sessions_own_always_is_offered_where_it_is_no_wider(tool, arguments, offers):
    """The machine knows tools and families: `ls -la` is of the family `ls`, which is more than was asked (12.14, trap 7)."""
    call = call_of(tool, **arguments)
    assert offers_always(call, proposed(call)) is offers

"""Policies as values: rules that are read or refused, scopes that are joined, the meet of two, what a policy says to a call."""

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from agentrail.errors import OptionError
from agentrail.plugins.permission_match import may_mean, must_mean
from agentrail.plugins.permission_policy import (
    MODES,
    PermissionPolicy,
    ScopedRules,
    WrittenRule,
    join,
    meet,
    read_scope,
    rules,
)
from agentrail.plugins.permission_rules import (
    MAX_PERMISSION_RULES,
    check_rules,
    is_named,
    read_permission_rule,
)
from agentrail.plugins.permission_verdict import DECISIONS, PermissionCall, explain_call, judge
from agentrail.plugins.permission_warnings import warnings_of
from agentrail.tools import builtin
from tests.plugins.permission_lines import FIFTY


def said(policy, tool, /, **arguments):
    return judge(
        policy, PermissionCall(tool=tool, arguments=arguments, working_dir="/srv/project", home="/home/ada")
    )


def decision(policy, tool, /, **arguments):
    return said(policy, tool, **arguments).decision


def line(policy, command, **more):
    return decision(policy, "shell", command=command, **more)


def policy_of(*modes, deny=(), ask=(), allow=(), **more):
    return PermissionPolicy(
        modes=modes or ("default",), deny=rules(*deny), ask=rules(*ask), allow=rules(*allow), **more
    )


BROKEN = [
    ("shell(", 6, "expected ')'"), ("shell(x", 7, "expected ')'"), ("shell(x) y", 8, "expected ')'"), ("shell()", 6, "expected a pattern"), ("shell( )", 6, "expected a pattern"), ("", 0, "the name of a tool"),
    ("sh ell", 2, "then nothing"), (" shell", 0, "the name of a tool"), ("shell\x00", 5, "U+0000"), ("shell(a\u200bb)", 7, "U+200B"), ("x" * 4_001, 4_000, "at most 4000"), ("read_file(/etc/x)", 10, "write '//'"),
    ("read_file(a/../b)", 12, "'..'"), ("read_file(a**/b)", 10, "'**' must be alone"), ("read_file(./)", 10, "matches nothing"), ("read_file(.)", 10, "matches nothing"), ("web_fetch(domain:https://x)", 17, "a host"), ("web_fetch(domain:)", 17, "a host"),
    ("web_fetch(python.org)", 20, "'domain:HOST' or"), ("deploy(x)", 8, "'name=value'"), ("deploy(a b=1)", 7, "the name of an argument"), ("deploy(=1)", 7, "the name of an argument"),
    ("shell(git * && ls)", 6, "one simple command"), ("shell(git log; ls *)", 6, "one simple command"), ("shell(ls 'a'*)", 6, "cannot be quoted"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "at", "why"), BROKEN)
def test_a_rule_that_does_not_parse_refuses_the_policy(rule, at, why):
    """With list, index and position; never ignored (12.11)."""
    with pytest.raises(OptionError) as refused:
        policy_of(deny=["shell(ls)", rule])
    (fault,) = refused.value.faults
    assert fault.startswith(f"deny[1] at {at}: "), fault
    assert why in fault


def test_all_faults_are_said_at_once():
    """Of three lists, and of a scope, with the place where each was written: unknown keys, modes that there are not, and rules."""
    with pytest.raises(OptionError) as refused:
        PermissionPolicy(
            modes=("wild",), deny=rules("a(", place="x.toml:3"), ask=rules("b("), allow=rules("c", "d(")
        )
    faults = refused.value.faults
    assert [fault.partition(" at ")[0] for fault in faults[1:]] == ["x.toml:3: deny[0]", "ask[0]", "allow[1]"]
    assert "expected some of dont_ask" in faults[0]
    with pytest.raises(OptionError, match="modes: expected at least one of"):
        PermissionPolicy(modes=())
    assert check_rules("deny", "shell")[0].startswith("deny: expected a list of rules, got the text")
    assert check_rules("deny", [7]) == ["deny[0]: expected a text such as 'shell(git status)', got 7"]
    assert "at most 5000" in check_rules("allow", ["x"] * (MAX_PERMISSION_RULES + 1))[0]

    wrong = {"mode": "wild", "ceiling": "strict", "deny": 7, "allow": ["x("]}
    with pytest.raises(OptionError) as refused:
        read_scope("user", wrong, places={"allow": ["u.toml:4"]})
    faults = [fault.partition(":")[0] for fault in refused.value.faults]
    assert faults == ["ceiling", "mode", "deny", "u.toml"]
    with pytest.raises(OptionError, match="ceiling: expected one of"):
        read_scope("managed", {"ceiling": "x"})
    assert read_scope("user", {"allow": ["x", "y"]}, places={"allow": ["u:1"]}).allow == (
        WrittenRule("x", "user", "u:1"),
        WrittenRule("y", "user"),
    )


@given(st.text(max_size=30) | st.text("shel()git *'\"/=~.{}\\", max_size=20))
def test_reading_a_rule_is_total(text):
    """Every text is a rule or a fault with a place in it; a policy of one that is a rule judges."""
    faults = check_rules("allow", [text])
    assert len(faults) <= 1
    if not faults:
        assert line(policy_of(allow=[text]), "git log") in DECISIONS
        warnings_of(policy_of(allow=[text]), ["shell"])


@pytest.mark.parametrize(
    ("rule", "lines", "others"),
    [
        ("shell(git status)", ["git status", " git  status ", "git status 2>&1"], ["git status -s", "git", "git status | head"]),
        ("shell(git log *)", ["git log", "git log -n 1", "timeout 5 git log"], ["git", "git logs", "git show", "git -C x log", "git log > x"]),
        ("shell(git log:*)", ["git log", "git log -n 1"], ["git show"]),
        ("shell(npm run test*)", ["npm run test", "npm run test:a", "npm run tests"], ["npm run test a", "npm run build", "npm run test/x"]),
        ("shell(cat src/*/a)", ["cat src/x/a"], ["cat src/x/y/a", "cat src/../a", "cat src/a"]),
        ("shell(*)", ["ls", "wc -l x"], ["make", "bash x", "sort -o x y"]),
        ("shell(g*p *)", ["grep x"], ["ls", "gup/p x"]),
        ("shell", ["bash x"], ["ls $(x)", "a > b", "cat <<E\nx\nE"]),
        ("*", ["bash x"], []),
        ("shell(make test)", ["make test", "make test 2>&1"], ["make", "make test x", "make test && ls", "timeout 5 make test"]),
        ("shell(a b && c d)", ["a b && c d", "a b  &&  c d"], ["a b", "a b; c d", "c d && a b"]),
        ("shell(timeout 5 wc *)", ["timeout 5 wc x"], ["timeout 6 wc x", "wc x"]),
        ("shell(timeout *)", [], ["timeout 5 wc x", "timeout 5 make"]),
        ("shell(timeout 5 *)", [], ["timeout 5 wc"]),
        ("shell(ls '*')", ["ls '*'"], ["ls a", "ls *"]),
        ("shell(cd *)", ["cd x"], ["cd x && git status"]),
    ],
)  # fmt: skip
def test_what_a_rule_of_allow_covers(rule, lines, others):
    """Word by word; a star stands for further words, or for letters of one word; each command of a line needs a rule."""
    policy = policy_of(allow=[rule])
    assert [one for one in lines if line(policy, one) != "allow"] == []
    assert [one for one in others if line(policy, one) != "ask"] == []


def test_what_rules_say_nothing_about_asks():
    """`cd` and `git` in one line, a directory of the call, and arguments beyond those of the built-in shell, which come with their defaults."""
    policy = policy_of(allow=["shell(cd *)", "shell(git *)", "shell(cd a && git log)"])
    for one, verdict in (("cd b", "allow"), ("git log", "allow"), ("cd b && git log", "ask")):
        assert line(policy, one) == verdict
    assert line(policy, "cd a && git log") == "allow"  # the very line
    assert line(policy, "git log", workdir="b") == "ask"
    assert line(policy, "git log", workdir=".", timeout_seconds=5) == "allow"
    assert "another directory" in said(policy, "shell", command="git log", workdir="b").why

    policy = policy_of(allow=["shell(make test)", "shell(npm test)", "shell(git log)", "shell(wc *)"])
    for one in ("make test", "npm test", "git log"):  # the exact words, of a line that starts elsewhere
        assert (line(policy, one), line(policy, one, workdir="b")) == ("allow", "ask")
    assert "without a workdir" in said(policy, "shell", command="npm test", workdir="b").why
    assert line(policy, "wc a", workdir="b") == "allow"

    assert line(policy_of(allow=["shell(ls)"]), "ls", env={"PATH": "x"}) == "ask"
    assert line(policy_of(allow=["shell(ls *)"]), "ls", env={"PATH": "x"}) == "ask"
    assert line(policy_of(allow=["shell"]), "ls", env={"PATH": "x"}) == "allow"

    (shell,) = builtin("shell")
    defaults = {
        name: one["default"] for name, one in shell.parameters["properties"].items() if "default" in one
    }
    assert len(defaults) >= 3
    policy = policy_of(allow=["shell(git log)"])
    assert decision(policy, "shell", command="git log", **defaults) == "allow"
    assert decision(policy, "shell", command="git log", **defaults | {"background": True}) == "allow"
    assert decision(policy, "shell", command="git log", **defaults | {"more": 1}) == "ask"


@pytest.mark.parametrize(
    ("rule", "lines", "others"),
    [
        ("shell(git push *)", ["git push", "git push -f", "git -C x push", "git --git-dir=x push", "/usr/bin/git push", "GIT push", "env git push", "FOO=1 git push", "bash -c 'git push'", "echo $(git push)", "xargs git push", "git $X", "git pus*", "ls; git push", "nohup git push",
                               "timeout 5 git push", "git pus?"], ["git log", "echo git push", "git log push"]),
        ("shell(rm *)", ["printf -v 'a[$(rm x)]' y", "test -v 'a[`rm x`]'", "jobs -x rm y", "echo a | mapfile -C rm x"], ["ls rm", "echo 'rm x'", "git rm x"]),
        ("shell(git push)", ["git push", "env git push", "git -C x push"], ["git push x"]),
        ("shell(rm -rf *)", ["rm -rf x", "sudo rm -rf /"], ["rm x", "rm -r x"]),
        ("shell(./deploy *)", ["./deploy x", "deploy x", "../deploy x"], ["ls deploy"]),
        ("shell(*)", ["ls", "$X"], []),
        ("shell(*make *)", ["gmake x", "make"], ["ls make"]),
        ("shell(curl https://x/*)", ["curl https://x/y", "curl https://x*", "curl https://y"], ["ls https://x/y"]),
        ("shell(echo $HOME)", ["echo $HOME", " echo $HOME ", "echo $X"], ["echo HOME"]),
        ("shell(a && b)", ["a && b"], ["a", "a; b"]),
        ("s*", ["ls"], []),
        ("sh*(command=*secret*)", ["cat SECRETS"], ["ls"]),
    ],
)  # fmt: skip
def test_what_a_rule_of_deny_may_be_about(rule, lines, others):
    """Word by word, behind options and what is looked through; a line that is not read, or whose program runs what it is told, may be any (12.7)."""
    policy = policy_of("bypass", deny=[rule])
    assert [one for one in lines if line(policy, one) != "deny"] == []
    assert [one for one in others if line(policy, one) != "allow"] == []


def test_what_runs_what_it_is_told_counts_as_not_read_for_a_deny():
    """Unless a rule has the very line. Without `deny` a star decides. Thirteen of fifty ordinary lines ask (12.7)."""
    denies, wide = {"deny": ["shell(rm *)"]}, ["shell"]
    lines = ("make test", "python x.py", "./x", "env rm", "find . -exec rm x", "git -c a.b=c log", "xargs rm")
    for told in (*lines, "sort -o x y"):
        assert line(policy_of(**denies, allow=wide), told) == "ask"
        assert line(policy_of("bypass", **denies), told) == "deny"
        assert line(policy_of("dont_ask", **denies, allow=wide), told) == "deny"
        assert line(policy_of(**denies, allow=[f"shell({told})"]), told) == "allow"
        assert line(policy_of(**denies, allow=[f"shell({told})"]), f"{told} x") == "ask"
        assert line(policy_of(allow=wide), told) == "allow"
        assert line(policy_of("bypass", ask=["shell(rm *)"]), told) == "allow"
    assert line(policy_of(deny=["shell(make test)"], allow=["shell(make test)"]), "make test") == "deny"
    why = said(policy_of(**denies), "shell", command="make").why
    assert "make runs commands from a file of the project" in why

    policy = policy_of(deny=["shell(evil *)"], allow=["shell"])
    asks = [one for one in FIFTY if line(policy, one) != "allow"]
    assert len(asks) == 13
    written = policy_of(deny=["shell(evil *)"], allow=["shell", *(f"shell({one})" for one in asks[:-4])])
    assert [one for one in FIFTY if line(written, one) != "allow"] == list(FIFTY[-4:])


def test_reading_that_is_denied_denies_writing_and_searching():
    """A `read_file` deny holds for the tools that write, and for `grep`, which asks where it may come upon it (12.7)."""
    policy = policy_of("bypass", deny=["read_file(.env)", "read_file(./secrets/**)"])
    for tool in ("read_file", "write_file", "edit_file", "grep"):
        assert decision(policy, tool, path="a/.env") == "deny"
        assert decision(policy, tool, path="SECRETS/x") == "deny"
    assert decision(policy, "write_file", path="a") == "allow"
    assert decision(policy, "list_dir", path="secrets") == "allow"
    assert decision(policy, "grep", path=".", pattern="x") == "ask"
    assert "may find files that the rule read_file(.env)" in said(policy, "grep", pattern="x").why
    below = policy_of("bypass", deny=["read_file(./secrets/**)", "read_file", "grep(./x)"])
    assert decision(below, "grep", path="src") == "allow"
    assert decision(below, "grep", path=5) == "deny"
    assert decision(policy_of("bypass", deny=["grep(./a/b)"]), "grep", path="a") == "ask"
    assert decision(policy_of("bypass", deny=["read_file(~/.ssh)"]), "grep", path="/home/ada") == "ask"
    assert decision(policy_of("bypass", deny=["read_file(//etc/x)"]), "grep", path="/etc") == "ask"


def test_a_path_that_is_none_may_be_any_and_a_command_is_about_no_other_tool():
    """Such a path matches what is denied, and nothing that is allowed."""
    for path in (7, "x" * 5_000):
        assert decision(policy_of("bypass", deny=["read_file(x)"]), "read_file", path=path) == "deny"
        assert decision(policy_of("strict", allow=["read_file(**)"]), "read_file", path=path) == "deny"
    pattern = read_permission_rule("shell(ls)").pattern
    assert not may_mean(pattern, {"command": "ls"}, None)
    assert not must_mean(pattern, {"command": "ls"}, None)


@pytest.mark.parametrize(
    ("url", "allowed", "denied"),
    [
        ("https://python.org", True, True), ("https://docs.python.org/3?a#b", True, True), ("HTTP://PYTHON.ORG:8080/", True, True), ("https://python.org./", True, True), ("https://pythonxorg/", False, False),
        ("https://python.org.evil.com/", False, False), ("https://evil.com/python.org", False, False), ("https://python.org@evil.com/", False, False), ("https://evil.com@python.org/", False, True), ("https://evil.com\\@python.org", False, False),
        ("ftp://python.org", False, True), ("file:///python.org", False, True), ("//python.org", False, True), ("python.org", False, True), ("https://python.org:x/", False, True), ("https://python.org:/", False, True), ("https://[::1", False, True), ("https://[::1]/", False, False),
        ("https://py%74hon.org", False, True), ("https://pythön.org", False, False), ("https:// python.org", False, True), ("", False, True), (7, False, True), ("https://" + "a" * 80 + ".org", False, True),
    ],
)  # fmt: skip
def test_a_host_is_compared_whole(url, allowed, denied):
    """For `allow` only a plain address of that host or below; for `deny` whatever may lead there."""
    allows = policy_of("strict", allow=["web_fetch(domain:python.org)"])
    assert (decision(allows, "web_fetch", url=url) == "allow") is allowed
    denies = policy_of("bypass", deny=["web_fetch(domain:Python.org.)"])
    assert (decision(denies, "web_fetch", url=url) == "deny") is denied


@pytest.mark.parametrize(
    ("rule", "arguments", "matches"),
    [
        ("deploy(stage=test*)", {"stage": "testing"}, True), ("deploy(stage=test*)", {"stage": "prod"}, False), ("deploy(stage=test*)", {}, False), ("deploy(/options/stage=t)", {"options": {"stage": "t"}}, True),
        ("deploy(/options/stage=t)", {"options": "t"}, False), ("deploy(/list/1=b)", {"list": ["a", "b"]}, True), ("deploy(/list/2=b)", {"list": ["a", "b"]}, False), ("deploy(/list/x=b)", {"list": ["b"]}, False),
        ("deploy(/a~1b=1)", {"a/b": 1}, True), ("deploy(n=1)", {"n": 1.0}, True), ("deploy(n=true)", {"n": True}, True), ('deploy(n={"a":*})', {"n": {"a": [1]}}, True), ("deploy(n=a?c[d])", {"n": "abc[d]"}, False),
        ("deploy(n=a?c[d])", {"n": "a?c[d]"}, True), ("deploy(n=)", {"n": ""}, True), ("deploy(/list/999999999999=b)", {"list": ["b"]}, False),
    ],
)  # fmt: skip
def test_an_argument_is_found_by_name_or_pointer(rule, arguments, matches):
    """Its canonical text is compared; `*` stands for any text, and nothing else for anything."""
    assert (decision(policy_of("strict", allow=[rule]), "deploy", **arguments) == "allow") is matches
    assert (decision(policy_of("bypass", deny=[rule]), "deploy", **arguments) == "deny") is matches


def test_agents_skills_and_servers():
    """`task(agent)`, `skill(name)`, `mcp__server`, and `*` in names. An argument that cannot be written may be anything: no call makes a verdict raise."""
    allow = ["task(review*)", "skill(pdf)", "mcp__a", "mcp__b__get_*", "mcp__c__x(y=1)"]
    policy = policy_of("strict", allow=allow)
    assert decision(policy, "task", subagent_type="reviewer", description="x") == "allow"
    assert decision(policy, "task", subagent_type="general-purpose", description="x") == "deny"
    assert [decision(policy, "skill", name=name) for name in ("pdf", "PDF")] == ["allow", "deny"]
    assert decision(policy_of("bypass", deny=["skill(pdf)"]), "skill", name="PDF") == "deny"
    for name in ("mcp__a__x", "mcp__b__get_x", "mcp__c__x"):
        assert decision(policy, name, y=1) == "allow"
    for name in ("mcp__ab__x", "mcp__b__put"):
        assert decision(policy, name, y=1) == "deny"
    assert is_named("mcp__a", "mcp__a")
    assert not is_named("mcp__a__b", "mcp__a__b__c")

    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    for value in (deep, {"a": deep}, 10**5_000):
        assert decision(policy_of("bypass", deny=["deploy(x=1)"]), "deploy", x=value) == "deny"
        assert decision(policy_of("strict", allow=["deploy(x=*)"]), "deploy", x=value) == "deny"


def test_accept_edits_accepts_files_of_the_workspace_only():
    """Not what lies elsewhere, and not names that programs trust (6.7)."""
    policy = policy_of("accept_edits")
    for path in ("a.py", "/srv/project/a"):
        assert decision(policy, "edit_file", path=path) == "allow"
    elsewhere = ("../a", "/etc/x", "~/a", ".git/config", ".bashrc", "a/.env", "x.pem", " a", "agentrail.toml")
    odd = ("file:///srv/project/x", "a/.claude/settings.json", ".agents/skills/x/SKILL.md")
    for path in (*elsewhere, *odd):
        assert decision(policy, "edit_file", path=path) == "ask", path


def test_plan_mode_lets_nothing_with_an_effect_run():
    """G-018: whatever `allow` says; `exit_plan` asks, also where a rule allows it, and the list of todos is written."""
    policy = policy_of("plan", allow=["*", "exit_plan"])
    judged = {name: decision(policy, name) for name in ("shell", "deploy", "write_todos", "list_dir")}
    assert judged == {"shell": "deny", "deploy": "deny", "write_todos": "allow", "list_dir": "allow"}
    assert decision(policy, "exit_plan") == "ask"
    assert decision(policy_of("plan", deny=["exit_plan"]), "exit_plan") == "deny"
    assert decision(policy_of("plan", ask=["write_todos"]), "write_todos") == "ask"
    assert decision(policy_of("plan"), "write_todos") == "allow"


def test_bypass_is_for_who_says_so():
    """Without the word for it, or against a managed file, it is refused; where another scope names a narrower mode it is nothing."""
    bypass = ScopedRules(mode="bypass")
    with pytest.raises(OptionError, match="--dangerously-bypass-permissions"):
        join({"session": bypass})
    with pytest.raises(OptionError, match="forbidden by a managed file, whose ceiling is 'strict'"):
        join({"session": bypass, "managed": ScopedRules(ceiling="strict")}, may_bypass=True)
    managed = ScopedRules(ceiling="bypass")
    assert join({"session": bypass, "managed": managed}, may_bypass=True).mode == "bypass"
    assert join({"session": bypass, "user": ScopedRules(mode="default")}).mode == "default"


def test_a_project_that_is_not_trusted_only_narrows():
    """Its `deny` and `ask` count, what it grants itself does not (12.11, G-026)."""
    grants = {"mode": "accept_edits", "allow": ["shell(*)"], "deny": ["shell(rm *)"]}
    project = read_scope("project", grants, is_trusted=False)
    policy = join({"project": project})
    assert (policy.mode, line(policy, "ls"), line(policy, "rm x")) == ("default", "ask", "deny")


COMMANDS = ("shell", "shell(git *)", "shell(git log)", "shell(ls *)")
texts = st.sampled_from(
    (*COMMANDS, "read_file(a)", "write_file(./**)", "*", "deploy", "web_fetch(domain:x.org)")
)
lists = st.lists(texts, max_size=3).map(lambda found: rules(*found))
policies = st.builds(
    PermissionPolicy,
    modes=st.lists(st.sampled_from(MODES), min_size=1, max_size=2).map(tuple),
    deny=lists,
    ask=lists,
    allow=lists,
)
calls = st.sampled_from(
    (("shell", {"command": "git log"}), ("shell", {"command": "git log | ls"}), ("shell", {"command": "$X"}), ("read_file", {"path": "a"}), ("write_file", {"path": "b"}), ("deploy", {}), ("web_fetch", {"url": "https://x.org"}), ("exit_plan", {}))
)  # fmt: skip


@given(policies, policies, policies, calls)
def test_the_meet_is_the_stricter_of_both(one, other, third, call):
    """It commutes, associates, adds nothing by itself, and is never wider than either: so of a sub-agent and its parent (12.7)."""
    tool, arguments = call

    def strict(policy):
        return DECISIONS.index(decision(policy, tool, **arguments))

    assert strict(meet(one, other)) == max(strict(one), strict(other))
    assert strict(meet(meet(one, other), third)) == strict(meet(one, meet(other, third)))
    assert meet(one, one) == one


@given(policies, texts, calls)
def test_rules_only_do_what_their_list_says(policy, text, call):
    """One more deny never widens, one more allow never narrows, and the trail tells the same verdict."""
    tool, arguments = call
    call = PermissionCall(tool=tool, arguments=arguments)
    before = judge(policy, call)
    denied = evolve(policy, deny=(*policy.deny, *rules(text)))
    allowed = evolve(policy, allow=(*policy.allow, *rules(text)))
    strictness = [DECISIONS.index(judge(one, call).decision) for one in (denied, policy, allowed)]
    assert strictness == sorted(strictness, reverse=True)
    told = explain_call(policy, call)
    assert (told.decision, told.why, told.by) == (before.decision, before.why, before.by)


def test_the_trail_names_each_rule_that_was_asked():
    """In order, with the command it was compared with, and how that was read."""
    policy = policy_of(
        deny=["shell(rm *)", "shell(git push *)"],
        ask=["shell(git *)"],
        allow=["shell(ls *)", "deploy(x=1)", "shell(a && b)"],
    )

    def explained(tool, **arguments):
        return explain_call(policy, PermissionCall(tool=tool, arguments=arguments))

    told = explained("shell", command="ls; wc x")
    assert [(one.name, one.rule.text, one.matched, one.command) for one in told.asked] == [
        ("allow", "shell(ls *)", True, "ls"),
        ("allow", "shell(a && b)", False, "wc x"),
    ]
    assert told.uncovered == ((("wc", "x"), ""),)
    asked = [(one.rule.text, one.matched) for one in explained("shell", command="git log").asked]
    assert asked == [("shell(git push *)", False), ("shell(git *)", True)]
    assert explained("deploy", x=1).asked[0].matched
    assert explained("shell", command="a && b").asked[-1].rule.text == "shell(a && b)"


@pytest.mark.parametrize(
    ("lists", "said"),
    [
        ({"deny": ["shell"], "allow": ["shell(ls)"]}, "allow[0] shell(ls) (session) never matches: deny shell (session) comes before it"), ({"allow": ["shell(ls)", "shell(ls)"]}, "allow[1] shell(ls) (session) never matches"),
        ({"deny": ["*"], "ask": ["x*"]}, "never matches: deny *"), ({"allow": ["nothing"]}, "there is no tool 'nothing'; the tools are curl, shell"), ({"allow": ["shell(ls $x)"]}, "never matches: the command cannot be parsed after character 3: an expansion"),
        ({"deny": ["shell(ls $x)"]}, "matches only that exact line"), ({"allow": ["shell(bash *)"]}, "never matches: bash is a shell"), ({"allow": ["shell(curl https://x/*)"]}, "restricts nothing: curl fetches from anywhere"),
        ({"allow": ["shell(sort -o *)"]}, "never matches: no star covers sort with '-o'"),
    ],
)  # fmt: skip
def test_rules_that_can_never_match_are_told(lists, said):
    """Shadowed ones, those of unknown tools, unreadable commands, and stars that cover nothing (12.7)."""
    (found,) = warnings_of(policy_of(**lists), ["shell", "curl"])
    assert said in found


@given(code=st.text(max_size=20), seen=st.text(max_size=20), tail=st.sampled_from(("", "*")))
def test_no_part_of_code_allows_all_of_it(code, seen, tail):
    """A rule of `allow` for `python` is about the very code; with a star, or about another argument, it denies and asks, and warns of itself (12.9)."""
    text = f"python(code={seen}{tail})"
    if check_rules("allow", [text]):
        return
    call = PermissionCall(tool="python", arguments={"code": code, "timeout_seconds": 60}, working_dir="/srv")
    very = "*" not in text and code == seen
    assert (judge(policy_of(allow=[text]), call).decision == "allow") is very
    assert bool(warnings_of(policy_of(allow=[text]), ["python"])) is ("*" in text)
    for other in ("python(timeout_seconds=60)", "py*(code=*)", "*(/code=*)", "python(/timeout_seconds=*)"):
        assert judge(policy_of(allow=[other]), call).decision == "ask"
        assert judge(policy_of(deny=[other]), call).decision == "deny"
        assert "restricts nothing" in warnings_of(policy_of(allow=[other]), ["python"])[0]
    assert judge(policy_of(allow=["python"]), call).decision == "allow"


def test_rules_that_can_match_are_not_told():
    """Neither what is more special than a rule of another tool, nor a pattern of names that shadows only some."""
    policy = policy_of(
        deny=["mcp__a__x", "shell(bash *)"],
        ask=["mcp__a"],
        allow=["mcp__*", "shell(git *)", "shell(*)", "shell(l* *)", "shell(make test)", "x(y=1)"],
    )
    assert warnings_of(policy) == ()


def test_an_address_too_long_to_be_read_may_lead_anywhere():
    """A `deny` refuses it and an `allow` does not cover it; the bound leaves room for every address that a tool takes."""
    denies, allows = rules("web_fetch(domain:evil.org)"), rules("web_fetch(domain:python.org)")
    other = decision(PermissionPolicy(allow=allows), "web_fetch", url="https://other.org/")
    for url in ("https://" + "é" * 1_100, "https://python.org/" + "a" * 9_000):
        assert decision(PermissionPolicy(deny=denies), "web_fetch", url=url) == "deny"
        assert decision(PermissionPolicy(allow=allows), "web_fetch", url=url) == other != "allow"
    policy = PermissionPolicy(deny=denies, allow=allows)
    assert decision(policy, "web_fetch", url="https://docs.python.org/" + "a" * 1_900) == "allow"
    assert decision(policy, "web_fetch", url="https://x.evil.org/" + "a" * 1_900) == "deny"

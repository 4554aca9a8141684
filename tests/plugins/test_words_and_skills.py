"""Plugins that judge words, ask people, and guard and list skills."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.errors import ErrorInfo
from agentrail.events import CitationUnknown, ContentPolicyViolated
from agentrail.messages import AssistantMessage, CallId, SessionId, Text, ToolResult
from agentrail.plugins.citations import unknown_citations
from agentrail.plugins.content_policy import ContentPolicy
from agentrail.plugins.human_approval import HumanApproval
from agentrail.plugins.output_filter import OutputFilter
from agentrail.plugins.security_guard import SecurityGuard
from agentrail.plugins.skill_guard import SkillGuard
from agentrail.plugins.skill_listing import ListedSkill, SkillListing, write_listing
from agentrail.testing.hooks import load_stack, resume_hook, run_hook
from tests.core.plugin_rig import CTX
from tests.plugins.rig import Alone, call, says

# --- `OutputFilter`: what matches is taken out of the text, and of nothing else


def filtered(text, **options):
    """What stands in the history instead; the very text when nothing matched."""
    outcome = Alone(OutputFilter, **options).hears(says(text))
    return text if outcome.message is None else outcome.message.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("The Secret is out.", "The [filtered] is out."),
        ("secretary, secret_key", "secretary, secret_key"),
        ("my key is sk-12345678", "my key is [filtered]"),
        ("secret secret sk-1 sk-2", "[filtered] [filtered] [filtered] [filtered]"),
        ("nothing here", "nothing here"),
    ],
)
def test_each_match_is_replaced(text, said):
    """Keywords as whole words whatever their case, patterns as they are (5.8)."""
    assert filtered(text, keywords=["secret"], patterns=[r"sk-\d+"]) == said


def test_what_was_taken_out_is_told_without_it():
    """`ContentPolicyViolated` names the rules, and does not carry on the matches; so does the reason of `action="abort"`."""
    outcome = Alone(OutputFilter, keywords=["x", "secret"], patterns=["s.c"]).hears(says("the secret secret"))
    assert outcome.events == (
        ContentPolicyViolated(summary="the response matched pattern 1", triggered_policies=("pattern 1",)),
    )

    outcome = Alone(OutputFilter, keywords=["secret"], action="abort").hears(says("a secret"))
    assert outcome.message is None
    assert outcome.decision.action.reason == "the response was stopped by the output filter: keyword 1"


@given(
    words=st.lists(st.sampled_from(["secret", "token", "tokens", "plain", "SECRET", "[", "\n"])),
    keywords=st.lists(st.sampled_from(["secret", "token"]), unique=True),
)
def test_no_keyword_is_left(words, keywords):
    """Whatever the model says, none of the keywords stands in what is kept; and what has none is untouched."""
    text = " ".join(["plain", *words])
    said = filtered(text, keywords=keywords)
    kept = said.casefold().split()
    assert not set(keywords) & set(kept)
    assert (said == text) == (not set(keywords) & set(text.casefold().split()))
    assert filtered(said, keywords=keywords) == said


# --- `ContentPolicy`: keywords, and a judge that may fail


def refused(text, **options):
    """What a prompt is refused with; None when it passes."""
    outcome = Alone(ContentPolicy, **options).hears(p.BeforePrompt(text=text))
    return None if outcome.decision is None else outcome.decision.action.reason


def judged(result, **options):
    plugin = Alone(ContentPolicy, rubric="Be kind.", judge_model="demo:judge", **options)
    waits = plugin.hears(p.BeforePrompt(text="You fool."))
    effect = waits.waiting.plugin_request.effect
    assert (effect.model, effect.prompt) == ("demo:judge", "Message:\nYou fool.")
    assert effect.system.endswith("Policy:\nBe kind.")
    return resume_hook(plugin.stack, waits, result, waits.states, p.Context(session_id=SessionId("s")))


def test_a_model_judges_where_one_is_configured():
    """A prompt waits for the judge; `fail_open` says whether one passes that nobody judged (5.8)."""
    for answer in ("OK", " ok.", "OK!"):
        assert judged(p.ModelAnswer(text=answer)).decision is None
    outcome = judged(p.ModelAnswer(text="It is rude."))
    assert outcome.decision.action.reason == "refused by the content policy: It is rude."
    assert outcome.events[0].triggered_policies == ("rubric",)
    assert judged(p.ModelAnswer(text="OK, but it is rude.")).decision is not None

    failed = p.RequestFailed(error=ErrorInfo(code="overloaded", message="busy"))
    for nothing in (failed, p.ModelAnswer(text=" ")):
        outcome = judged(nothing)
        assert (outcome.decision, outcome.events[0].name) == (None, "content_policy_unjudged")
        assert "could not be judged" in judged(nothing, fail_open=False).decision.action.reason


keywords_of_one = st.text("abc", min_size=1, max_size=2)


@given(keywords=st.lists(keywords_of_one, max_size=3), prompt=st.lists(keywords_of_one, max_size=6))
def test_a_prompt_passes_exactly_when_no_keyword_is_one_of_its_words(keywords, prompt):
    """The plugin agrees with the plainest reading."""
    reason = refused(" ".join(prompt), competitor_keywords=keywords)
    assert (reason is None) == set(keywords).isdisjoint(prompt)


# --- `HumanApproval`: who is asked about what, and decisions in the chat


def asks(event, **options):
    """What the person is asked; None when nobody is."""
    decision = Alone(HumanApproval, **options).hears(event).decision
    return None if decision is None else decision.action


def test_a_prompt_with_the_prefix_decides():
    """`confirm_prefix` lets people decide in the chat; one that decides nothing is refused with the usage, any other goes on (5.8)."""
    for text, decision in (
        ("confirm a1", "approve"),
        ("  confirm   yes a1 ", "approve"),
        ("confirm Approve a1", "approve"),
        ("confirm reject a1", "reject"),
        ("confirm no a1", "reject"),
        ("confirm always a1", "always"),
    ):
        action = asks(p.BeforePrompt(text=text), confirm_prefix="confirm")
        assert (action.approval_id, action.decision) == ("a1", decision), text
    for text in ("confirm", "  confirm  "):
        action = asks(p.BeforePrompt(text=text), confirm_prefix="confirm")
        usage = "no decision: say 'confirm ID', 'confirm reject ID' or 'confirm always ID'"
        assert action.reason.startswith(usage)
    for text in ("confirmed a1", "I confirm a1"):
        assert asks(p.BeforePrompt(text=text), confirm_prefix="confirm") is None
    assert asks(p.BeforePrompt(text="/OK:a1"), confirm_prefix="/ok:") is None
    assert asks(p.BeforePrompt(text="confirm a1")) is None


@pytest.mark.at(76)
@given(
    lines=st.lists(st.sampled_from(("ls", "git status", "make", "rm -rf x")), min_size=1, max_size=3),
    flipped=st.booleans(),
)
def test_a_person_is_asked_for_exactly_what_will_run(lines, flipped):
    """Whatever a later plugin makes of a call, the approval is asked for that; a guard still refuses (AT-076)."""
    *before, last = lines

    @p.plugin(init=lambda: 0, priority=700, hooks=(p.BeforeTool,))
    def rewrites(event, state, ctx):
        """Put another command in."""
        return p.ReplaceToolArgs({"command": last}, state)

    entries = [(HumanApproval, {"safe_commands": ["ls", "git status"]}), SecurityGuard, rewrites]
    stack, states = load_stack(entries[::-1] if flipped else entries)
    event = call("shell", command=before[0] if before else "ls")
    outcome = run_hook(stack, event, states, p.Context(session_id=SessionId("s")))
    action = None if outcome.decision is None else outcome.decision.action
    match action:
        case p.BlockTool():
            assert outcome.event.arguments["command"] == "rm -rf x"
        case p.RequireApproval(hint=hint):
            assert hint == "each call of shell needs an approval; this line contains more than safe commands"
            assert outcome.event.arguments["command"] == "make"
        case _:
            assert outcome.event.arguments["command"] == last
            assert last in {"ls", "git status"}


# --- `Citations`: which citations of an answer no result of its cycle held


SOURCES = ("travel.md#L3-L9", "report.pdf#p3-p5", "https://a.example/x#p2", "odd")


def heard(stack, states, event, turn=1):
    return run_hook(stack, event, states, p.Context(session_id=CTX.session_id, turn=turn))


def spoke(text):
    return p.AfterResponse(message=AssistantMessage(content=(Text(text=text),), model="demo:"))


def found_by(details, *, is_error=False):
    given = {"call_id": CallId("c1"), "name": "kb_search", "text": "x"}
    return p.AfterToolBatch(results=(ToolResult(**given, details=details, is_error=is_error),))


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("[travel.md#L3-L9] and [report.pdf#p3-p5]", ()), ("a part: [travel.md#L4-L4], [report.pdf#p4], [https://a.example/x#p2]", ()),
        ("[travel.md#L2-L9]", ("travel.md#L2-L9",)), ("[travel.md#L9-L3]", ("travel.md#L9-L3",)), ("[report.pdf#p2-p3]", ("report.pdf#p2-p3",)),
        ("[travel.md#p3] [other.md#L3-L9]", ("travel.md#p3", "other.md#L3-L9")), ("[x#L1-L1] [x#L1-L1]", ("x#L1-L1",)),
        ("[link](https://a.example) [1] [ ] [odd] [x#L] x#L1-L2 [[travel.md#L3-L9]]", ()), ("", ()),
    ],
)  # fmt: skip
def test_a_citation_is_known_where_a_source_holds_it(text, unknown):
    """Whole or in part, lines by lines and pages by pages; what has another form is none."""
    assert unknown_citations(text, SOURCES) == unknown


def test_what_a_cycle_found_may_be_cited_in_it_and_in_no_other():
    """One event for a response, with what is unknown in it."""
    stack, states = load_stack([p.Citations])
    asked = heard(stack, states, spoke("I look it up."))
    found = heard(stack, asked.states, found_by({"sources": ["travel.md#L3-L9", 7]}), 1)
    answered = heard(stack, found.states, spoke("[travel.md#L3-L9] [b.md#L1-L2]"), 2)
    (unknown,) = [one for one in answered.events if isinstance(one, CitationUnknown)]
    assert unknown.citations == ("b.md#L1-L2",)
    again = heard(stack, answered.states, spoke("[travel.md#L3-L9]"), 1)
    assert CitationUnknown(citations=("travel.md#L3-L9",)) in again.events


@given(st.text(st.sampled_from("[]#Lp19-ab\n"), max_size=80))
def test_a_source_holds_its_own_citation(text):
    """Whatever stands around it; and nothing of another form is said to be unknown."""
    assert "a.md#L1-L2" not in unknown_citations(f"{text}[a.md#L1-L2]", ("a.md#L1-L2",))
    assert all("#" in one for one in unknown_citations(text, ()))


# --- `SkillGuard`: while skills are active, only their tools run


SKILLS = {"write": ["read_file", "write_*"], "look": ["read_file", "list_dir"]}


def test_skills_are_switched_while_the_session_lives():
    """An update replaces what it names, is judged like the first options, and keeps what is open unless the skill is gone with it."""
    guard = Alone(SkillGuard, skills=SKILLS, active=["look"])
    assert guard.update(active=["write"]) is None
    assert guard.hears(call("write_file")).decision is None
    assert guard.hears(call("list_dir")).decision is not None
    assert "active names 'gone'; known skills: 'write', 'look'" in guard.update(active=["gone"])
    assert guard.state.active == ("write",)

    guard = Alone(SkillGuard, skills={"a": [], "b": []})
    guard.hears(opens("a"))
    assert guard.update(enforce_mode="warn") is None
    assert (guard.state.opened, guard.state.enforce_mode) == ("a", "warn")
    assert "expected ')'" in guard.update(skills={"a": ["shell("]})
    assert guard.update(skills={"b": []}) is None
    assert guard.state.opened is None


some_name = st.sampled_from(("a", "b", "c", "d"))


@given(
    skills=st.dictionaries(some_name, st.lists(some_name, max_size=3), max_size=3),
    tool=some_name,
    data=st.data(),
)
def test_a_tool_runs_exactly_when_an_active_skill_names_it(skills, tool, data):
    """The guard agrees with the plainest reading of its options."""
    active = data.draw(st.lists(st.sampled_from(sorted(skills)), unique=True)) if skills else []
    allowed = not active or any(tool in skills[name] for name in active)
    outcome = Alone(SkillGuard, skills=skills, active=active).hears(call(tool))
    assert (outcome.decision is None) == allowed


def opens(name, *, call_id="c1", is_error=False, details=None):
    """A call of `skill` that is done."""
    said = {"opened": name, "digest": "d"} if details is None else details
    result = ToolResult(call_id=CallId(call_id), name="skill", text="x", is_error=is_error, details=said)
    return p.AfterTool(name="skill", call_id=CallId(call_id), result=result)


def is_refused(guard, tool, **arguments):
    return guard.hears(call(tool, **arguments)).decision is not None


def test_what_looks_at_skills_is_never_refused():
    """Other skills can be opened, and their files read; no path leads elsewhere by that. `warn` reports what `strict` would refuse (5.8)."""
    guard = Alone(SkillGuard, skills={"a": []}, active=["a"])
    assert not is_refused(guard, "skill", name="b")
    assert not is_refused(guard, "skill_search")
    assert not is_refused(guard, "read_file", path="/skills/a/x/y.md")
    for path in ("/skills/b/x", "/skills/a/../../etc/passwd", "/skills", "skills/a/x", "/skillsx/a", 7):
        assert is_refused(guard, "read_file", path=path)
    assert is_refused(guard, "write_file", path="/skills/a/x")

    outcome = Alone(SkillGuard, skills=SKILLS, active=["look"], enforce_mode="warn").hears(call("shell"))
    assert outcome.decision is None
    (event,) = outcome.events
    assert event.name == "skill_violation"
    assert (event.payload["tool"], event.payload["active"]) == ("shell", ["look"])


# --- `SkillListing`: the system prompt names skills, within a hundredth of the window


LISTED = {"pdf": "Reads PDFs.", "mail": "Writes mails."}
ALL = tuple(ListedSkill(name, text) for name, text in LISTED.items())
HEAD = "Skills. Open one with the tool `skill` before you do what it is for:"
WHOLE = f"{HEAD}\n- pdf: Reads PDFs.\n- mail: Writes mails."


def listed_in(listing, **context):
    return listing.hears(p.BeforeRequest(), **{"tools": ("skill",), **context}).context["skills"]


def test_a_selector_narrows_the_list_for_a_prompt():
    """12.4: a pure function of the skills and the prompt; `[]` lists none, what is no skill is none, and one that raises is reported."""
    stranger = ListedSkill("other", "x")

    def choose(skills, prompt):
        assert skills == ALL
        return [*(one for one in skills if one.name in prompt), stranger]

    listing = Alone(SkillListing(selector=choose), skills=LISTED)
    assert listed_in(listing) == WHOLE
    listing.hears(p.BeforePrompt(text="read the pdf"))
    assert listed_in(listing) == f"{HEAD}\n- pdf: Reads PDFs."
    listing.hears(p.BeforePrompt(text="hello"))
    assert listed_in(listing) is None
    plain = Alone(SkillListing, skills=LISTED)
    plain.hears(p.BeforePrompt(text="hello"))
    assert listed_in(plain) == WHOLE

    def wrong(skills, prompt):
        message = "selector is wrong"
        raise ValueError(message)

    listing = Alone(SkillListing(selector=wrong), skills=LISTED)
    listing.may_fail = True
    (failed,) = listing.hears(p.BeforePrompt(text="x")).events
    assert (failed.plugin, failed.policy) == ("SkillListing", "open")
    assert "selector is wrong" in failed.error.message
    assert listed_in(listing) == WHOLE


def test_descriptions_are_shortened_first():
    """All to the same length, as long as that says anything; then the rest is left to `skill_search`. The window of the model counts."""
    skills = [ListedSkill(f"s{number}", "x" * 200) for number in range(10)]
    shorter = write_listing(skills, 1_000)
    assert [line[-1] for line in shorter.splitlines()[1:]] == ["…"] * 10
    assert len({len(line) for line in shorter.splitlines()[1:]}) == 1
    assert 980 < len(shorter.encode()) <= 1_000
    fewer = write_listing(skills, 300)
    assert fewer.splitlines()[-1] == "7 more: find them with the tool `skill_search`."
    assert len(fewer.splitlines()) == 5
    assert write_listing(skills, 0).splitlines() == [HEAD, "10 more: find them with the tool `skill_search`."]

    listing = Alone(SkillListing, skills={f"s{number}": "x" * 200 for number in range(100)})
    for window in (32_000, 128_000):
        assert window * 0.03 < len(listed_in(listing, context_window=window).encode()) <= window * 4 / 100


descriptions = st.lists(st.text(alphabet="ab é…", max_size=90), min_size=1, max_size=12)


@given(descriptions, st.integers(130, 2_000))
def test_it_is_never_more_than_it_may_be(texts, most):
    """Whatever the descriptions are; and what fits as it is stays as it is."""
    skills = [ListedSkill(f"s{number}", text) for number, text in enumerate(texts)]
    listed = write_listing(skills, most)
    assert len(listed.encode()) <= most
    whole = "\n".join((HEAD, *(f"- {one.name}: {one.description}" for one in skills)))
    assert (listed == whole) == (len(whole.encode()) <= most)

"""`ContentPolicy`: keywords, and a judge that may fail."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.stack.pipeline import resume_hook
from agentrail.errors import ErrorInfo, PluginError
from agentrail.messages import SessionId
from agentrail.plugins.content_policy import ContentPolicy
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.rig import Alone

KEYWORDS = {"brand_keywords": ["Acme Cloud"], "competitor_keywords": ["initech", "C++Corp"]}


def refused(text, **options):
    """What a prompt is refused with; None when it passes."""
    outcome = Alone(ContentPolicy, **options).hears(p.BeforePrompt(text=text))
    return None if outcome.decision is None else outcome.decision.action.reason


def judged(result, **options):
    """What a judge's answer leads to."""
    plugin = Alone(ContentPolicy, rubric="Be kind.", judge_model="demo:judge", **options)
    waits = plugin.hears(p.BeforePrompt(text="You fool."))
    effect = waits.waiting.plugin_request.effect
    assert (effect.model, effect.prompt) == ("demo:judge", "Message:\nYou fool.")
    assert effect.system.endswith("Policy:\nBe kind.")
    return resume_hook(plugin.stack, waits, result, waits.states, p.Context(session_id=SessionId("s")))


def test_a_model_judges_where_one_is_configured():
    """Keywords come first; then the prompt waits for the judge (5.8)."""
    for answer in ("OK", " ok.", "OK!"):
        assert judged(p.ModelAnswer(text=answer)).decision is None
    outcome = judged(p.ModelAnswer(text="It is rude."))
    assert outcome.decision.action.reason == "refused by the content policy: It is rude."
    assert outcome.events[0].triggered_policies == ("rubric",)
    assert judged(p.ModelAnswer(text="OK, but it is rude.")).decision is not None


def test_a_judge_that_fails_is_open_or_closed():
    """`fail_open` says whether a prompt passes that nobody judged (5.8)."""
    failed = p.RequestFailed(error=ErrorInfo(code="overloaded", message="busy"))
    for nothing in (failed, p.ModelAnswer(text=" ")):
        outcome = judged(nothing)
        assert (outcome.decision, outcome.events[0].name) == (None, "content_policy_unjudged")
        assert "could not be judged" in judged(nothing, fail_open=False).decision.action.reason


def test_it_keeps_the_contract_of_plugins():
    """`check_plugin`, and options that cannot be are refused."""
    check_plugin(ContentPolicy, options=[{}, KEYWORDS, {"rubric": "x", "judge_model": "demo:"}])
    with pytest.raises(PluginError, match="judge_model 'demo:' needs a rubric to judge by"):
        load_stack([(ContentPolicy, {"judge_model": "demo:"})])
    with pytest.raises(PluginError, match="a keyword must not be blank"):
        load_stack([(ContentPolicy, {"brand_keywords": [" "]})])


words = st.text("abc", min_size=1, max_size=2)


@given(keywords=st.lists(words, max_size=3), prompt=st.lists(words, max_size=6))
def test_a_prompt_passes_exactly_when_no_keyword_is_one_of_its_words(keywords, prompt):
    """The plugin agrees with the plainest reading."""
    reason = refused(" ".join(prompt), competitor_keywords=keywords)
    assert (reason is None) == set(keywords).isdisjoint(prompt)

"""`OutputFilter`: what matches is taken out of the text, and of nothing else."""

import pytest
from hypothesis import given, strategies as st

from agentrail.core.stack.loaded_stack import load_stack
from agentrail.errors import PluginError
from agentrail.events import ContentPolicyViolated
from agentrail.plugins.output_filter import OutputFilter
from tests.plugins.rig import Alone, says


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
    """`ContentPolicyViolated` names the rules, and does not carry on the matches."""
    outcome = Alone(OutputFilter, keywords=["x", "secret"], patterns=["s.c"]).hears(says("the secret secret"))
    assert outcome.events == (
        ContentPolicyViolated(summary="the response matched pattern 1", triggered_policies=("pattern 1",)),
    )


def test_it_may_stop_the_cycle_instead():
    """With `action="abort"` the reason names the rules."""
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


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"patterns": ["("]}, "is not a regular expression"),
        ({"patterns": ["a*"]}, "matches an empty text"),
        ({"keywords": [" "]}, "a keyword must not be blank"),
        ({"replacement": ""}, "needs something to read"),
        ({"action": "drop"}, "one of replace, abort; got 'drop'"),
    ],
)
def test_options_that_cannot_be_refuse_the_start(options, why):
    """With what is wrong and what was expected."""
    with pytest.raises(PluginError, match=why):
        load_stack([(OutputFilter, options)])

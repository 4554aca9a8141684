"""What a cycle answers, and when the answer is judged (3-session, `response_format`)."""

from hypothesis import given, strategies as st

from agentrail.core.policy.response_format import ResponseFormat
from agentrail.events import AgentEnd, AgentError
from agentrail.messages import Text
from agentrail.testing.promises import PROMISES
from tests.core.worlds import completed, new_session, prompt, walk

NUMBER = ResponseFormat({"type": "integer"})


@given(answers=st.lists(st.sampled_from(("1", "one", "<title>t</title>2", "```\n3\n```", "{")), min_size=3))
def test_one_answer_in_two_is_right_or_the_cycle_fails(answers):
    """The first answer that is right ends the cycle well; the second one that is wrong ends it with an error."""
    answers = answers[:3]
    script = [prompt(), *(completed(f"r{n}", Text(text=said)) for n, said in enumerate(answers, start=1))]
    seen = list(walk(script, new_session(response_format=NUMBER)))
    for step in seen:
        for promise in PROMISES:
            promise(step)
    wrong = [said in {"one", "{"} for said in answers]
    ends = [type(event) for step in seen for event in step.events if isinstance(event, AgentEnd | AgentError)]
    assert ends == [AgentError if all(wrong[:2]) else AgentEnd]

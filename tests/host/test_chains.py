"""Plugins that are asked one after another: what each answer and each failure means, row by row of 8.4. Nothing runs here."""

import pytest
from hypothesis import given, strategies as st

from agentrail.errors import HookTimeout, RequestRefused
from agentrail.host.hook_payloads import Allow, AttachmentFile, AttachmentText, Deny, HandledResponse
from agentrail.host.plugin_chain import (
    Attaching,
    Beginning,
    Hearing,
    Intercepting,
    Judging,
    Reporting,
    Stopping,
    WrongAnswer,
    decide_request_refusal,
)
from tests.host.rig import CHAT, CONTEXT, after, before, order, plugin, saying
from tests.thinned import each

BUG = ValueError("db password s3cret")
LATE = HookTimeout("late", plugin="p", hook="h", seconds=10.0)
FILES = (AttachmentFile(name="a.txt", mime_type="text/plain", container_path="/a", size_kb=1, size_bytes=5),)


def judges(*names, **members):
    return [plugin(name, on_before_tool_call=saying(Allow()), **members) for name in names]


def play(chain, *answers):
    """Answer a chain; an exception is a failure. Gives who was asked with what."""
    asked = []
    for answer in answers:
        one = chain.next()
        asked.append((one.name, chain.question(one)))
        if isinstance(answer, BaseException):
            chain.failed(one, answer)
        else:
            chain.answered(one, answer)
    assert chain.next() is None
    return asked


WRONG = [
    (lambda o: Hearing("on_request_end", o, CONTEXT), 5, "on_request_end returned int, expected None"),
    (lambda o: Intercepting(o, CHAT), {}, "intercept_chat_request returned dict, expected HandledResponse, or None"),
    (lambda o: Attaching(o, FILES), "text", "attachment_handler returned str, expected AttachmentText, or None"),
    (lambda o: Judging(o, before({})), None, "on_before_tool_call returned NoneType, expected Allow() or Deny(reason)"),
    (lambda o: Reporting(o, after({})), True, "on_after_tool_call returned bool, expected None"),
    (Beginning, 5, "start returned int, expected None"),
    (lambda o: Stopping(o.all), 5, "stop returned int, expected None"),
]  # fmt: skip


@pytest.mark.host("H-049")
@each(("chain", "wrong", "said"), WRONG)
def test_what_is_of_the_wrong_type_is_a_failure_and_no_answer(chain, wrong, said):
    """Never an allow by accident."""
    requests = ("on_request_end", "intercept_chat_request", "attachment_handler")
    hooks = (*requests, "on_before_tool_call", "on_after_tool_call", "start", "stop")
    made = chain(order(plugin("a", **dict.fromkeys(hooks, saying(None)))))
    with pytest.raises(WrongAnswer) as caught:
        made.answered(made.next(), wrong)
    assert said in str(caught.value)


@pytest.mark.host("H-021")
@pytest.mark.host("H-022")
def test_the_first_response_wins_and_later_plugins_are_not_asked():
    """With its status, body and headers; one that is not critical lets pass what it fails over, a refusal too."""
    plugins = order(*[plugin(name, intercept_chat_request=saying(None)) for name in ("a", "b", "c")])
    chain = Intercepting(plugins, CHAT)
    response = HandledResponse({"text": "hello"}, 202, {"x-a": "1"})
    assert play(chain, None, response) == [("a", (CHAT,)), ("b", (CHAT,))]
    assert chain.response is response
    assert chain.refusal is None
    for failure in (BUG, LATE, WrongAnswer("int"), RequestRefused(403)):
        chain = Intercepting(plugins, CHAT)
        play(chain, failure, None, None)
        assert (chain.response, chain.refusal) == (None, None)


@pytest.mark.host("H-023")
@pytest.mark.host("H-025")
@pytest.mark.host("H-027")
def test_a_critical_one_refuses_with_its_own_status():
    """Later plugins are not asked. Any other error of the plugin becomes 503, without its text."""
    plugins = order(
        plugin("guard", critical=True, intercept_chat_request=saying(None)),
        plugin("b", intercept_chat_request=saying(None)),
    )
    for status in (401, 402, 403, 409, 422, 429, 503):
        chain = Intercepting(plugins, CHAT)
        refused = RequestRefused(status, "too_many", "come back later", headers={"retry-after": "5"})
        play(chain, refused)
        assert chain.refusal is refused
        assert (refused.status, refused.code, str(refused)) == (status, "too_many", "come back later")
    for failure in (BUG, LATE, WrongAnswer("it returned int"), RequestRefused(418, "s3cret", "s3cret")):
        refusal = decide_request_refusal(plugin("guard"), failure)
        assert (refusal.status, refusal.code) == (503, "plugin_failed")
        assert str(refusal) == "the plugin 'guard' could not judge this request: try again later"


@pytest.mark.host("H-029")
@pytest.mark.host("H-031")
@pytest.mark.host("H-032")
def test_texts_are_trimmed_joined_and_put_before_the_message():
    """Empty ones and failures leave no trace; without files no handler is called."""
    chain = Attaching(order(*[plugin(name, attachment_handler=saying(None)) for name in "abcdef"]), FILES)
    nothing = (AttachmentText(" \n"), AttachmentText(None), BUG)
    asked = play(chain, AttachmentText("  one \n"), None, *nothing, AttachmentText("two"))
    assert {given for _, given in asked} == {(FILES,)}
    assert chain.message("Look.") == "one\n\ntwo\n\n---\n\nLook."
    chain = Attaching(order(plugin("a", attachment_handler=saying(None))), ())
    assert play(chain) == []
    assert chain.message("Look.") == "Look."


@pytest.mark.host("H-041")
@pytest.mark.host("H-043")
def test_the_first_denial_wins_and_a_rewrite_reaches_the_next():
    """Behind a denial later plugins are not asked, and it says who; all who rewrote are named."""
    chain = Judging(order(*judges("a", "b")), before({}))
    play(chain, Deny("too far"))
    assert (chain.verdict.deny, chain.verdict.by, chain.verdict.input) == ("too far", "a", None)
    chain = Judging(order(*judges("a", "b", "c")), before({"to": "Faro"}))
    asked = play(chain, Allow({"to": "Porto"}), Allow({"to": "Braga"}), Allow())
    assert [given[0].input for _, given in asked] == [{"to": "Faro"}, {"to": "Porto"}, {"to": "Braga"}]
    assert (chain.verdict.input, chain.verdict.by) == ({"to": "Braga"}, "a, b")


@pytest.mark.host("H-044")
def test_a_change_in_place_reaches_no_one():
    """Top level and nested, before an answer and behind it."""
    call = before({"to": "Faro", "deep": {"list": [1]}})
    chain = Judging(order(*judges("a", "b", "c")), call)
    first = chain.next()
    (given,) = chain.question(first)
    given.input["to"] = "Porto"
    given.input["deep"]["list"].append(2)
    chain.answered(first, Allow())
    second = chain.next()
    (given,) = chain.question(second)
    assert given.input == {"to": "Faro", "deep": {"list": [1]}}
    mine = {"to": "Faro", "deep": {"list": [3]}}
    chain.answered(second, Allow(mine))
    mine["deep"]["list"].append(4)
    third = chain.next()
    assert chain.question(third)[0].input["deep"] == {"list": [3]}
    chain.answered(third, Allow())
    assert chain.verdict.input["deep"] == {"list": [3]}
    assert call.input == {"to": "Faro", "deep": {"list": [1]}}


@pytest.mark.host("H-046")
@pytest.mark.parametrize("failure", [BUG, LATE, WrongAnswer("None")])
def test_a_failure_denies_only_where_it_is_fail_closed(failure):
    """Else it keeps earlier rewrites; the denial has the plugin's name, and nothing of what it raised."""
    chain = Judging(order(*judges("a", "b", "c")), before({"to": "Faro"}))
    play(chain, Allow({"to": "Porto"}), failure, Allow())
    assert (chain.verdict.deny, chain.verdict.input) == (None, {"to": "Porto"})
    chain = Judging(order(*judges("a", fail_closed=True), *judges("b")), before({}))
    play(chain, failure)
    why = "the plugin 'a' could not judge this call, so the call does not run"
    assert (chain.verdict.by, chain.verdict.deny) == ("a", why)


@pytest.mark.host("H-047")
def test_policy_sees_what_will_run():
    """One that is `fail_closed` judges again behind a rewrite; it may allow or deny, and not rewrite once more."""
    plugins = order(*judges("policy", fail_closed=True, priority=100), *judges("rewriter"))
    for second, deny in (
        (Allow(), None),
        (Allow({"to": "Lagos"}), None),
        (Deny("never Porto"), "never Porto"),
        (BUG, "could not judge"),
    ):
        chain = Judging(plugins, before({"to": "Faro"}))
        asked = play(chain, Allow(), Allow({"to": "Porto"}), second)
        cities = [(name, given[0].input["to"]) for name, given in asked]
        assert cities == [("policy", "Faro"), ("rewriter", "Faro"), ("policy", "Porto")]
        if deny is None:
            assert (chain.verdict.deny, chain.verdict.input) == (None, {"to": "Porto"})
        else:
            assert deny in chain.verdict.deny
            assert chain.verdict.by == "policy"


@pytest.mark.host("H-040")
@pytest.mark.parametrize("given", [[1], 5, "text", None, True], ids=repr)
def test_of_what_is_no_object_no_plugin_is_asked(given):
    """Before or after; it is allowed. Of an object they are."""
    plugins = order(plugin("a", on_before_tool_call=saying(Deny("no")), on_after_tool_call=saying(None)))
    chain = Judging(plugins, before(given))
    assert play(chain) == []
    assert chain.verdict.deny is None
    assert play(Reporting(plugins, after(given))) == []
    assert Judging(plugins, before({})).next() is not None
    assert Reporting(plugins, after({})).next() is not None


VERDICTS = st.sampled_from(["allow", "rewrite", "deny", "fail"])


@pytest.mark.host("H-047")
@given(
    st.lists(st.booleans(), min_size=1, max_size=6),
    st.lists(VERDICTS, min_size=12, max_size=12),
)
def test_for_any_verdicts_what_runs_was_seen_by_each_policy(fail_closed, verdicts):
    """The last that each `fail_closed` plugin was asked about, or made itself, is what runs; behind a denial none is asked."""
    plugins = [
        plugin(f"p{place}", fail_closed=one, on_before_tool_call=saying(None))
        for place, one in enumerate(fail_closed)
    ]
    chain = Judging(order(*plugins), before({"n": 0}))
    seen, denied, asked = {}, None, 0
    while (one := chain.next()) is not None:
        assert denied is None
        n, verdict = chain.question(one)[0].input["n"], verdicts[asked]
        asked += 1
        is_again = one.name in seen
        seen[one.name] = n
        if verdict == "fail":
            chain.failed(one, BUG)
        else:
            chain.answered(
                one, {"allow": Allow(), "rewrite": Allow({"n": asked}), "deny": Deny("no")}[verdict]
            )
        if verdict == "rewrite" and not is_again:
            seen[one.name] = asked
        if verdict == "deny" or (verdict == "fail" and one.fail_closed):
            denied = one.name
    verdict = chain.verdict
    assert (verdict.deny is None) is (denied is None)
    assert denied is None or verdict.by == denied
    assert asked <= 2 * len(plugins)
    if denied is None:
        runs = 0 if verdict.input is None else verdict.input["n"]
        assert {seen[one.name] for one in plugins if one.fail_closed} <= {runs}
        assert set(seen) == {one.name for one in plugins}


@pytest.mark.host("H-001")
@pytest.mark.host("H-003")
@pytest.mark.host("H-005")
def test_a_start_that_fails_starts_no_later_one_and_a_stop_that_fails_keeps_no_other_from_stopping():
    """Those that did start are to be stopped, in the reverse order; the one that failed is not."""
    plugins = order(*[plugin(f"p{one}", priority=one, start=saying(None)) for one in (0, 10, 5)])
    for failure in (BUG, LATE):
        chain = Beginning(plugins)
        assert [name for name, _ in play(chain, None, failure)] == ["p10", "p5"]
        assert [one.name for one in chain.started] == ["p10"]
        assert chain.error is failure
    plugins = order(*[plugin(name, stop=saying(None)) for name in "abc"])
    assert [name for name, _ in play(Stopping(plugins.all), None, BUG, None)] == ["c", "b", "a"]

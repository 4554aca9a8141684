"""Callers are let in by tokens, or by what the application says; on virtual time."""

import functools
import logging

import pytest
import trio

from agentrail.errors import OptionError
from agentrail.gateway.access import ANYONE_HERE, UNAUTHORIZED, AccessRules, CallerCheck, CallHead, with_token
from agentrail.gateway.answers import ErrorAnswer
from agentrail.gateway.tokens import TokenEntry, Tokens, decode_tokens, make_token
from agentrail.host.payloads import Principal
from tests.runtime.rig import on_virtual_time

ANN = Principal(tenant_id="acme", user_id="ann")
MADE = make_token("acme", now=0.0)
TOKENS = decode_tokens(MADE.lines.encode(), "f")
GOOD = {"authorization": f"Bearer {MADE.token}"}
BAD = {"authorization": "Bearer agt_planted"}


def head(headers=None, peer="10.0.0.1"):
    """A call from another machine."""
    return CallHead(method="GET", path="/", headers={"host": "localhost", **(headers or {})}, peer=peer)


def callers(auth, **rules):
    """A server's door."""
    return CallerCheck(auth, AccessRules(**rules))


async def admit(door, *calls):
    """The outcome of each call: a principal, or status and code."""
    outcomes = [await door.admit(call) for call in calls]
    return [(one.status, one.code) if isinstance(one, ErrorAnswer) else one for one in outcomes]


async def test_without_tokens_this_machine_alone_may_call():
    """As tenant and user `local`, with all scopes."""
    outcomes = await admit(callers(None), head(peer="::1"), head(), head(GOOD))
    assert outcomes == [ANYONE_HERE, (403, "forbidden"), (403, "forbidden")]


async def test_with_tokens_any_machine_may_call_that_has_one():
    """The token of a tenant with the user that the call names."""
    outcomes = await admit(
        callers(TOKENS),
        head({**GOOD, "x-agentrail-user": "bob"}),
        head(GOOD),
        head({**GOOD, "x-agentrail-user": "a b"}),
        head(peer="127.0.0.1"),
        head({**GOOD, "host": "evil.example"}),
    )
    assert outcomes == [
        Principal(tenant_id="acme", user_id="bob"),
        Principal(tenant_id="acme", user_id=""),
        (422, "id_invalid"),
        (401, "unauthorized"),
        (403, "host_refused"),
    ]


async def test_the_token_of_a_hello_is_looked_up_like_that_of_a_header():
    """What is no token there is none here either."""
    outcomes = await admit(
        callers(TOKENS), *[with_token(head(), one) for one in (MADE.token, "wrong", "a b", "")]
    )
    assert outcomes == [Principal(tenant_id="acme", user_id=""), *[(401, "unauthorized")] * 3]


@pytest.mark.host("H-080")
async def test_calls_without_a_valid_token_get_answers_of_the_same_bytes():
    """Missing, empty, malformed, truncated, wrong and expired."""
    gone = make_token("acme", days=1, now=0.0)
    door = callers(Tokens([*TOKENS.entries, *decode_tokens(gone.lines.encode(), "f").entries]))
    values = (
        None,
        "",
        "Bearer",
        "Basic YTpi",
        f"Bearer {MADE.token[:-1]}",
        "Bearer wrong",
        f"Bearer {gone.token}",
    )
    answers = [await door.admit(head({} if one is None else {"authorization": one})) for one in values]
    assert {(one.status, one.encode(), tuple(one.headers.items())) for one in answers} == {
        (401, UNAUTHORIZED.encode(), (("www-authenticate", "Bearer"),))
    }


@on_virtual_time
async def test_behind_ten_failures_tokens_are_still_looked_up():
    """A stranger behind the same address keeps no one out; only the answer to what fails is another."""
    door = callers(TOKENS)
    assert await admit(door, *[head(BAD)] * 10) == [(401, "unauthorized")] * 10
    assert await admit(door, head(BAD), head(), head(GOOD)) == [
        (429, "too_many_requests"),
        (429, "too_many_requests"),
        Principal(tenant_id="acme", user_id=""),
    ]
    assert await admit(door, head(BAD, peer="10.0.0.2")) == [(401, "unauthorized")]
    await trio.sleep(60)
    assert await admit(door, head(BAD)) == [(401, "unauthorized")]


async def test_how_many_failures_are_answered_can_be_set():
    """`Limits` has the number."""
    door = CallerCheck(TOKENS, AccessRules(), max_failures_per_minute=1)
    assert await admit(door, head(), head()) == [(401, "unauthorized"), (429, "too_many_requests")]


@on_virtual_time
async def test_behind_ten_failures_the_application_is_not_asked():
    """What it looks up may be guessed, and may cost a query."""
    asked = []

    async def authenticate(headers):
        await trio.sleep(1)
        asked.append(headers["authorization"])

    door = callers(authenticate)
    assert (
        await admit(door, *[head(BAD)] * 12)
        == [(401, "unauthorized")] * 10 + [(429, "too_many_requests")] * 2
    )
    assert len(asked) == 10


@pytest.mark.parametrize("is_async", [False, True])
async def test_an_application_says_by_itself_who_calls(is_async):
    """Sync or async, from headers whose names are in lower case."""
    seen = []

    def decide(headers):
        seen.append(dict(headers))
        return ANN if "x-key" in headers else None

    async def decide_later(headers):
        await trio.lowlevel.checkpoint()
        return decide(headers)

    door = callers(decide_later if is_async else decide)
    assert await admit(door, head({"x-key": "1"}), head()) == [ANN, (401, "unauthorized")]
    assert seen == [{"host": "localhost", "x-key": "1"}, {"host": "localhost"}]


class Odd(BaseException):
    """What is no `Exception`."""


def raising(error):
    """An `authenticate` that raises."""

    async def authenticate(headers):
        await trio.lowlevel.checkpoint()
        raise error

    return authenticate


async def hanging(headers):
    """An `authenticate` that does not answer."""
    await trio.sleep_forever()


async def in_a_nursery(headers):
    """An `authenticate` whose task fails."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(functools.partial(raising(ValueError("planted")), headers))
        await trio.sleep_forever()


@on_virtual_time
@pytest.mark.host("H-088")
@pytest.mark.parametrize(
    ("auth", "why"),
    [
        (raising(ValueError("bad token planted")), "it raised ValueError"),
        (raising(Odd("planted")), "it raised Odd"),
        (in_a_nursery, "it raised ExceptionGroup"),
        (lambda headers: {"tenant_id": "planted"}, "principal is of type dict"),
        (lambda headers: True, "principal is of type bool"),
        (lambda headers: Principal(tenant_id="planted planted", user_id=""), "tenant_id is no id"),
        (lambda headers: Principal(tenant_id="acme", user_id="planted planted"), "user_id is no id"),
        (hanging, "it took longer than 10 s"),
    ],
)
async def test_an_application_that_fails_lets_no_call_in(caplog, auth, why):
    """503, and neither the answer nor the log repeats what it raised or gave: that may hold the token."""
    with caplog.at_level(logging.ERROR, "agentrail.gateway"):
        answer = await callers(auth).admit(head(BAD))
    assert (answer.status, answer.code) == (503, "plugin_failed")
    assert why in caplog.text
    assert "planted" not in caplog.text + f"{answer} {answer.encode()!r}"


@on_virtual_time
async def test_a_call_that_is_cancelled_is_no_failure():
    """Its caller has left; another one of the same address is not made to wait for that."""
    failing = callers(raising(ValueError()))
    door = callers(hanging)
    for _ in range(20):
        with trio.move_on_after(1) as left:
            await door.admit(head(BAD))
        assert left.cancelled_caught
        assert await admit(failing, head(BAD)) == [(503, "plugin_failed")]
    assert (await admit(door, head(BAD)))[0] == (503, "plugin_failed")


def test_what_cannot_be_asked_is_refused_when_the_server_is_made():
    """And a token is no `auth`: it is not repeated."""
    with pytest.raises(OptionError, match="auth is str: expected Tokens") as caught:
        CallerCheck("agt_planted", AccessRules())
    assert "planted" not in str(caught.value)
    assert callers(Tokens([TokenEntry(digest=b"d" * 32, tenant_id="a")])).rules.needs_token
    assert not callers(None, needs_token=True).rules.needs_token

"""Callers are let in by tokens, or by what the application says; on virtual time."""

import functools
import logging

import pytest
import trio

from agentrail.gateway.authorization import UNAUTHORIZED, AccessRules, CallerCheck, CallHead
from agentrail.gateway.error_responses import ErrorAnswer
from agentrail.gateway.tokens import Tokens, decode_tokens, make_token
from agentrail.host.hook_payloads import Principal
from tests.runtime.rig import on_virtual_time

MADE = make_token("acme", now=0.0)
TOKENS = decode_tokens(MADE.lines.encode(), "f")
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

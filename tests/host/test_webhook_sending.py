"""One webhook over real sockets: where it connects, what it says there, and where nothing is ever sent."""

import ssl
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
import trio

from agentrail.host.webhook_delivery import WebhookSender, why_not
from agentrail.host.webhooks import SignedWebhook
from agentrail.web.backend import GuardedBackend
from agentrail.web.url_policy import AddressRefused, read_allowed
from tests.host.receivers import Receiver
from tests.runtime.rig import on_bounded_time
from tests.web.sites import open_sites

TLS = Path(__file__).parents[1] / "gateway" / "tls"


class Names:
    """Answers for names, each time with the next of what it was given; the last one stays.

    Attributes:
        asked: The hosts that were looked up.
    """

    def __init__(self, *answers):
        self.asked: list[str] = []
        self._answers: list[Sequence[str]] = list(answers)

    async def __call__(self, host: str, _port: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        self.asked.append(host)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def webhook(url):
    return SignedWebhook(
        url=url, headers=(("webhook-id", "msg_1"), ("content-type", "application/json")), body=b'{"a":1}'
    )


def sending(*allow, names=("127.0.0.1",), tls=None):
    """What sends, and looks names up as it is told."""
    resolve = names if isinstance(names, Names) else Names(names)
    return WebhookSender(read_allowed(allow), resolve=resolve, tls=tls)


def certified():
    """Believes the certificate of the tests, which is one of `localhost`."""
    return ssl.create_default_context(cafile=TLS / "certificate.pem")


def certificate():
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    return context


@on_bounded_time
async def test_tls_is_asked_for_the_name_although_the_connection_goes_to_a_number():
    """Its certificate is one of the name. Of several addresses the first that can be connected gets it, once."""
    receiver = Receiver(tls=certificate())
    async with open_sites(receiver):
        allow = ("localhost", "other.example")
        send = sending(*allow, tls=certified())
        assert await send(webhook(f"https://localhost:{receiver.port}/")) == 204
        assert receiver.names == ["localhost"]
        with pytest.raises(httpx.ConnectError):
            await send(webhook(f"https://other.example:{receiver.port}/"))
    assert len(receiver.bodies) == 1

    receiver = Receiver()
    async with open_sites(receiver):
        origin = f"http://hooks.example:{receiver.port}"
        send = sending(origin, names=("127.0.0.9", "127.0.0.1", "127.0.0.1"))
        assert await send(webhook(f"{origin}/")) == 204
    assert receiver.connections == 1


@pytest.mark.host("H-111")
@on_bounded_time
async def test_nothing_is_sent_to_an_address_of_this_machine():
    """As a literal, or by a name that leads here, be it by one of two answers; a server counts connections."""
    receiver = Receiver()
    async with open_sites(receiver):
        for host in ("127.0.0.1", "[::ffff:127.0.0.1]", "localhost", "hooks.example"):
            with pytest.raises(AddressRefused):
                await sending()(webhook(f"https://{host}:{receiver.port}/"))
        both = sending(names=("93.184.216.34", "127.0.0.1"))  # a stranger has chosen both
        with pytest.raises(AddressRefused):
            await both(webhook(f"https://hooks.example:{receiver.port}/"))
    assert receiver.connections == 0


@pytest.mark.host("H-111")
@on_bounded_time
async def test_a_name_is_looked_up_once_and_what_was_judged_is_connected():
    """It leads to one address when it is judged, and to another when it is asked again: nothing asks again."""
    allowed, inside = Receiver(tls=certificate()), Receiver(tls=certificate())
    names = Names(["127.0.0.2"], ["127.0.0.1"])
    # In this order: a port that is free here may be taken at the address that all connections of this machine come from.
    async with open_sites(inside, at="127.0.0.1"), open_sites(allowed, at="127.0.0.2", port=inside.port):
        send = sending("127.0.0.2/32", names=names, tls=certified())
        assert await send(webhook(f"https://localhost:{allowed.port}/")) == 204
        assert (allowed.connections, inside.connections) == (1, 0)
        assert names.asked == ["localhost"]
        with pytest.raises(AddressRefused):  # the next try judges anew
            await send(webhook(f"https://localhost:{allowed.port}/"))
    assert (allowed.connections, inside.connections) == (1, 0)


@pytest.mark.host("H-111")
@on_bounded_time
async def test_a_redirect_is_an_answer_and_not_a_way():
    """Nothing is sent to its target. The log of a failed try has no address, which may be a secret."""
    inside = Receiver()
    async with open_sites(inside):
        for status in (301, 302, 303, 307, 308):
            outside = Receiver(status, b"Location: http://127.0.0.1:%d/\r\n" % inside.port)
            async with open_sites(outside):
                origin = f"http://hooks.example:{outside.port}"
                assert await sending(origin)(webhook(f"{origin}/")) == status
            assert (outside.connections, inside.connections) == (1, 0)
    assert why_not(AddressRefused("it resolves to an address that is not public")).startswith("not sent: ")
    assert why_not(httpx.ConnectError("to https://a.example/key")) == "no answer (ConnectError)"


@on_bounded_time
async def test_a_receiver_that_answers_without_end_holds_up_no_one():
    """It has a head of 64 KiB, interim answers among it, and all is parsed in small pieces, so that others get their turns."""
    interim = b"HTTP/1.1 103 Early Hints\r\n\r\n"
    for count in (1_000, 100_000):
        receiver = Receiver(204)
        receiver.answer = interim * count + receiver.answer
        async with open_sites(receiver):
            origin = f"http://hooks.example:{receiver.port}"
            if count * len(interim) < 65_536:
                assert await sending(origin)(webhook(f"{origin}/")) == 204
            else:
                with pytest.raises(httpx.ReadError, match="too long"):
                    await sending(origin)(webhook(f"{origin}/"))


@pytest.mark.parametrize("is_tls", [False, True])
@on_bounded_time
async def test_answers_are_read_in_small_pieces(is_tls):
    """What a stranger sends in one of them is parsed without a turn for others."""
    receiver = Receiver(tls=certificate() if is_tls else None)
    receiver.answer += b"x" * 65_536
    async with open_sites(receiver):
        backend = GuardedBackend(lambda _host, _port, found: found, Names(["127.0.0.1"]))
        stream = await backend.connect_tcp("localhost", receiver.port)
        if is_tls:
            stream = await stream.start_tls(certified(), "localhost")
        await stream.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        pieces = []
        while sum(map(len, pieces)) < len(receiver.answer):
            pieces.append(await stream.read(65_536))
        await stream.aclose()
    assert b"".join(pieces) == receiver.answer
    assert max(map(len, pieces)) <= 4_096

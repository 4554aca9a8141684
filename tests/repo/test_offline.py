"""Tests reach nothing beyond the loopback, and find no keys."""

import os
import socket

import pytest


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1"])
def test_a_connection_to_elsewhere_is_refused(host):
    """A test that would talk to another machine fails before the first packet (addresses of RFC 5737 and 3849)."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as sock, pytest.raises(RuntimeError, match="nothing beyond the loopback"):
        sock.connect((host, 443))


def test_a_name_of_elsewhere_is_not_looked_up():
    """A test that would ask a name server fails before it asks (a name of RFC 6761)."""
    with pytest.raises(RuntimeError, match="nothing beyond the loopback"):
        socket.getaddrinfo("provider.invalid", 443)


def test_the_loopback_is_open():
    """A test may serve on 127.0.0.1 and connect to it."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        assert client.getpeername() == server.getsockname()


def test_no_key_of_the_machine_is_seen():
    """A key of whoever runs the tests turns no `demo:` into a real model."""
    assert not {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"} & set(os.environ)

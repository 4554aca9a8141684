"""Where webhooks may go: every way to write an address of one's own network, and what a name leads to."""

import ipaddress
import string

import pytest
from hypothesis import given, strategies as st

from agentrail.host.webhook_address import read_address
from agentrail.web.url_policy import (
    MAX_WEB_URL_CHARACTERS,
    AddressRefused,
    AllowedPlaces,
    is_public,
    judge_found,
    read_allowed,
)
from tests.thinned import each

NOTHING = AllowedPlaces()
HOOK = read_address("https://hooks.example/in", NOTHING)

PRIVATE = [
    "127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "100.100.100.200", "192.0.0.192", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "239.1.1.1", "240.0.0.1", "255.255.255.255", "168.63.129.16", "192.88.99.1",
    "0.0.0.1", "::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "2001::1", "2002:7f00:1::", "100::1",
    "::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "::127.0.0.1", "3fff::1",
]  # fmt: skip


def literal(ip):
    """An address as it stands in a url."""
    return f"[{ip}]" if ":" in ip else ip


@pytest.mark.host("H-111")
@each("ip", PRIVATE)
def test_an_address_that_is_not_public_is_refused_as_a_literal_and_behind_a_name(ip):
    """Loopback, private, link-local, shared, reserved, multicast, those of clouds, and each of them inside an IPv6 one."""
    assert not is_public(ipaddress.ip_address(ip))
    with pytest.raises(AddressRefused, match="not public"):
        read_address(f"https://{literal(ip)}/in", NOTHING)
    with pytest.raises(AddressRefused, match="not public"):
        judge_found(HOOK, [ip], NOTHING)


@pytest.mark.host("H-111")
@each(
    "host",
    [
        "localhost", "LOCALHOST", "localhost.", "a.localhost", "db", "printer.local", "metadata.google.internal",
        "0x7f000001", "2130706433", "127.1", "0177.0.0.1", "127.0.0.1.", "0x7f.1", "1.2.3", "127.0.0.0x1", "256.1.1.1", "[::1", "[::1%25eth0]",
        "[fe80::1%eth0]", "a..b", "-a.b", "a_.", "", "[127.0.0.1]", "%6cocalhost", "127.0.0.1%2f.example", "x" * 64 + ".example", "ⓛocalhost",
        "127。0。0。1", "a.example:0", "a.example:65536", "a.example:99999999999", "u@a.example", "u:p@a.example", "a.example@127.0.0.1",
    ],
)  # fmt: skip
def test_what_readers_of_addresses_read_in_different_ways_is_refused(host):
    """Names of networks of one's own, numbers in other forms, users, and what is no host at all."""
    with pytest.raises(AddressRefused):
        read_address(f"https://{host}/in", NOTHING)


@each(
    "url",
    [
        "http://hooks.example/in", "ftp://hooks.example/", "file:///etc/passwd", "gopher://hooks.example", "//hooks.example/in", "hooks.example",
        "https:hooks.example", "https:///in", "https://", "", "https://hooks.example/#x", "https://hooks.example\\@127.0.0.1/", "https://hooks.example/a b",
        "https://hooks.example/\r\nHost: a", "https://hooks.example/\0", "https://hooks.example/é", " https://hooks.example/", "https://hooks.example/\n",
        "https://hooks.example?\t", "https://hooks.example/" + "x" * MAX_WEB_URL_CHARACTERS,
    ],
)  # fmt: skip
def test_what_is_no_address_over_tls_is_refused(url):
    """Other schemes, other characters, and what is too long."""
    with pytest.raises(AddressRefused):
        read_address(url, NOTHING)


@pytest.mark.host("H-111")
@each("found", [["1.1.1.1", "127.0.0.1"], ["127.0.0.1", "1.1.1.1"], [], ["not an address"]])
def test_all_that_a_name_leads_to_is_judged(found):
    """Of two answers a stranger has chosen both."""
    with pytest.raises(AddressRefused):
        judge_found(HOOK, found, NOTHING)


def test_a_host_may_be_allowed_whatever_it_leads_to():
    """That one alone, and over TLS alone."""
    allowed = read_allowed(["Hooks.Corp", "127.0.0.1"])
    for host in ("hooks.corp", "HOOKS.corp.", "127.0.0.1"):
        assert judge_found(read_address(f"https://{host}/", allowed), ["127.0.0.1"], allowed)
    others = (
        "https://a.hooks.corp.localhost/",
        "http://hooks.corp/",
        "https://127.0.0.2/",
        "https://localhost/",
    )
    for url in others:
        with pytest.raises(AddressRefused):
            read_address(url, allowed)
    with pytest.raises(AddressRefused):
        judge_found(HOOK, ["127.0.0.1"], allowed)  # the host was allowed, and not every name that leads there


NOISE = st.text(alphabet=string.printable + "é\0｡", max_size=40)
URLS = st.builds("{}{}{}".format, st.sampled_from(["https://", "http://", "HTTPS://", ""]), NOISE, NOISE)


@given(URLS)
def test_any_text_is_read_or_refused(url):
    """Nothing else is raised; and what is read has a host that means one thing, and no private one."""
    try:
        address = read_address(url, NOTHING)
    except AddressRefused:
        return
    assert address.scheme == "https"
    assert address.host == address.host.lower()
    assert not set(address.host) & set("@/\\?# %")
    assert address.target.startswith("/")
    assert address.ip is None or is_public(address.ip)


@given(st.ip_addresses())
def test_no_address_that_the_library_knows_as_private_is_public(ip):
    """Ours is the narrower one."""
    if is_public(ip):
        assert ip.is_global or getattr(ip, "ipv4_mapped", None) is not None
        assert not (ip.is_private and getattr(ip, "ipv4_mapped", None) is None)
        assert not any((ip.is_loopback, ip.is_link_local, ip.is_multicast, ip.is_unspecified))

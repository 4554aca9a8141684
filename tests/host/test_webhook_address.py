"""Where webhooks may go: every way to write an address of one's own network, and what a name leads to."""

import ipaddress
import string

import pytest
from hypothesis import given, strategies as st

from agentrail.host.webhook_address import read_address
from agentrail.web.places import (
    MAX_WEB_URL_CHARACTERS,
    AddressRefused,
    AllowedPlaces,
    is_public,
    judge_found,
    read_allowed,
)

NOTHING = AllowedPlaces()
HOOK = read_address("https://hooks.example/in", NOTHING)

PRIVATE = [
    "127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "100.100.100.200", "192.0.0.192", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "239.1.1.1", "240.0.0.1", "255.255.255.255", "168.63.129.16", "192.88.99.1",
    "0.0.0.1", "::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "2001::1", "2002:7f00:1::", "100::1",
    "::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "::127.0.0.1", "3fff::1",
]  # fmt: skip
PUBLIC = [
    "1.1.1.1",
    "93.184.216.34",
    "172.32.0.1",
    "100.128.0.1",
    "2606:4700::1111",
    "64:ff9b::101:101",
    "::ffff:1.1.1.1",
]


def literal(ip):
    """An address as it stands in a url."""
    return f"[{ip}]" if ":" in ip else ip


@pytest.mark.host("H-111")
@pytest.mark.parametrize("ip", PRIVATE)
def test_an_address_that_is_not_public_is_refused_as_a_literal_and_behind_a_name(ip):
    """Loopback, private, link-local, shared, reserved, multicast, those of clouds, and each of them inside an IPv6 one."""
    assert not is_public(ipaddress.ip_address(ip))
    with pytest.raises(AddressRefused, match="not public"):
        read_address(f"https://{literal(ip)}/in", NOTHING)
    with pytest.raises(AddressRefused, match="not public"):
        judge_found(HOOK, [ip], NOTHING)


@pytest.mark.parametrize("ip", PUBLIC)
def test_a_public_address_passes(ip):
    """As a literal and behind a name; a connection goes to it, and not to another way to write it."""
    assert read_address(f"https://{literal(ip)}/in", NOTHING).ip == ipaddress.ip_address(ip)
    (place,) = judge_found(HOOK, [ip, ip], NOTHING)
    assert place == ip.removeprefix("::ffff:")


@pytest.mark.host("H-111")
@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


def test_an_address_is_read_once_into_its_parts():
    """So that there is no second reader; a path is there in any case, and the port is named where it is not the usual one."""
    address = read_address("HTTPS://Hooks.Example.:8443?key=a%20b", NOTHING)
    assert (address.scheme, address.host, address.port, address.target) == (
        "https",
        "hooks.example",
        8443,
        "/?key=a%20b",
    )
    assert address.host_header == "hooks.example:8443"
    assert read_address("https://[2606:4700:0::1111]/", NOTHING).host_header == "[2606:4700::1111]"
    assert "key" not in repr(address)


@pytest.mark.host("H-111")
@pytest.mark.parametrize("found", [["1.1.1.1", "127.0.0.1"], ["127.0.0.1", "1.1.1.1"], [], ["no address"]])
def test_all_that_a_name_leads_to_is_judged(found):
    """Of two answers a stranger has chosen both."""
    with pytest.raises(AddressRefused):
        judge_found(HOOK, found, NOTHING)


# --- what an operator allows


def test_a_network_may_be_allowed_for_addresses_and_for_names_that_lead_there():
    """And for no other address; a name of the own network is read when something is sent."""
    allowed = read_allowed(["10.1.0.0/16", "fd00::/8"])
    assert read_address("https://10.1.2.3/", allowed).host == "10.1.2.3"
    assert read_address("https://[::ffff:10.1.2.3]/", allowed).ip is not None
    inside = read_address("https://hooks.internal/", allowed)
    assert judge_found(inside, ["10.1.0.9", "fd00::1", "1.1.1.1"], allowed) == (
        "10.1.0.9",
        "fd00::1",
        "1.1.1.1",
    )
    for ip in ("10.2.0.1", "127.0.0.1"):
        with pytest.raises(AddressRefused):
            judge_found(inside, [ip], allowed)
    with pytest.raises(AddressRefused, match="not https"):
        read_address("http://10.1.2.3/", allowed)


def test_a_host_may_be_allowed_whatever_it_leads_to():
    """That one alone, and over TLS alone."""
    allowed = read_allowed(["Hooks.Corp", "127.0.0.1"])
    for host in ("hooks.corp", "HOOKS.corp.", "127.0.0.1"):
        assert judge_found(read_address(f"https://{host}/", allowed), ["127.0.0.1"], allowed)
    for url in (
        "https://a.hooks.corp.localhost/",
        "http://hooks.corp/",
        "https://127.0.0.2/",
        "https://localhost/",
    ):
        with pytest.raises(AddressRefused):
            read_address(url, allowed)
    with pytest.raises(AddressRefused):
        judge_found(HOOK, ["127.0.0.1"], allowed)  # the host was allowed, and not every name that leads there


def test_an_origin_may_be_allowed_without_tls():
    """With its port, and no other one."""
    allowed = read_allowed(["http://127.0.0.1:9000", "https://hooks:8443"])
    assert judge_found(read_address("http://127.0.0.1:9000/x", allowed), ["127.0.0.1"], allowed)
    assert read_address("https://hooks:8443/x", allowed).port == 8443
    for url in (
        "http://127.0.0.1/",
        "http://127.0.0.1:9001/",
        "https://127.0.0.1:9000/",
        "http://hooks:8443/",
        "https://hooks/",
    ):
        with pytest.raises(AddressRefused):
            read_address(url, allowed)


@pytest.mark.parametrize(
    "entry",
    [7, None, "", "10.1.0.1/16", "10.1.0.0/99", "a b", "http://a/path", "ftp://a", "http://", "*.example"],
)
def test_what_is_no_place_cannot_be_allowed(entry):
    """And the message says what would be."""
    with pytest.raises(ValueError, match=r"network such as|no name of a host"):
        read_allowed([entry])


# --- whatever comes

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

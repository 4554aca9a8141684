"""Which addresses `web_fetch` may reach, by their numbers and by what is written: G-019, without a socket."""

# ruff: noqa: RUF001, S104 - ways to write an address are what this is about
import ipaddress
import string

import pytest
from hypothesis import given, strategies as st

from agentrail.errors import OptionError
from agentrail.web.rules import WebRules, is_below, read_domain, read_inside, read_web_url
from agentrail.web.url_policy import (
    AddressRefused,
    carries_another,
    is_public,
    judge_found,
    judge_ip,
    read_allowed,
)

RULES = WebRules()
PAGE = read_web_url("https://page.example/", RULES)

REFUSED = [
    # this machine, private, shared, link-local with what clouds answer there
    "0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.255.254", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255",
    "192.168.0.1", "192.168.255.255", "100.64.0.1", "100.127.255.255", "100.100.100.200", "169.254.0.1", "169.254.169.254",
    "169.254.170.2", "168.63.129.16",
    # protocols, documentation, benchmarks, multicast, reserved, broadcast
    "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1",
    "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    # the same of IPv6
    "::", "::1", "fe80::1", "febf::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "ff0e::1", "2001:db8::1", "2001:2::1", "2001:10::1",
    "100::1", "3fff::1", "5f00::1", "4000::1",
    # an IPv4 address inside: mapped, compatible, translated, 6to4, Teredo, ISATAP, also where that one is public
    "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "::8.8.8.8", "::ffff:0:7f00:1", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::7f00:1",
    "2002:7f00:1::", "2002:808:808::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2606:4700::5efe:7f00:1", "2606:4700::200:5efe:808:808",
]  # fmt: skip
PUBLIC = ["1.1.1.1", "8.8.8.8", "93.184.216.34", "172.32.0.1", "100.128.0.1", "192.0.1.1", "198.20.0.1", "223.255.255.255",
          "2606:4700::1111", "2a00:1450:4001:80b::200e"]  # fmt: skip

SPELLINGS = [
    "localhost", "LOCALHOST", "LocalHost.", "localhost.localdomain.localhost", "a.localhost", "ip6-localhost", "loopback", "printer.local",
    "metadata.google.internal", "127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "0", "0.0.0.0", "2130706433", "0x7f000001", "0x7f.0.0.1", "0x7f.1",
    "0177.0.0.1", "017700000001", "0177.1", "127.000.000.001", "127.0.0.0x1", "00000000000000000000000000000177.0.0.1", "[::1]", "[::]", "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[::1%25lo]", "[64:ff9b::7f00:1]", "①②⑦.⓪.⓪.①", "127。0。0。1", "１２７.０.０.１",
    "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "ｌｏｃａｌｈｏｓｔ", "%6cocalhost", "127%2e0.0.1", "%31%32%37.0.0.1", "local\u00adhost", "[2002:7f00:1::]",
]  # fmt: skip


def literal(ip):
    """An address as it stands in an address."""
    return f"[{ip}]" if ":" in ip else ip


@pytest.mark.parametrize("ip", REFUSED)
def test_a_refused_address_is_so_as_a_literal_and_behind_a_name(ip):
    """G-019: whatever form it has; of two answers for a name one is enough."""
    with pytest.raises(AddressRefused):
        judge_ip(ipaddress.ip_address(ip), RULES.inside, is_strict=True)
    with pytest.raises(AddressRefused):
        read_web_url(f"https://{literal(ip)}/", RULES)
    for found in ([ip], [ip, "1.1.1.1"], ["1.1.1.1", ip]):
        with pytest.raises(AddressRefused):
            judge_found(PAGE, found, RULES.inside, is_strict=True)


@pytest.mark.parametrize("ip", PUBLIC)
def test_a_public_address_is_fetched_from(ip):
    """As a literal and behind a name; 53 forms of others, and 36 spellings of this machine, are tried here at least."""
    assert len(set(REFUSED)) >= 53
    assert len(set(SPELLINGS)) >= 36
    assert read_web_url(f"https://{literal(ip)}/", RULES).ip == ipaddress.ip_address(ip)
    assert judge_found(PAGE, [ip], RULES.inside, is_strict=True) == (ip,)


@pytest.mark.parametrize("host", SPELLINGS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_no_spelling_of_this_machine_is_read_as_anything_else(scheme, host):
    """G-019: each is refused by what is written, before anything is looked up."""
    with pytest.raises(AddressRefused):
        read_web_url(f"{scheme}://{host}/", RULES)


@given(st.ip_addresses())
def test_no_address_that_the_library_calls_private_is_reached(ip):
    """Ours is the narrower judgement, also of addresses that no table has."""
    try:
        judge_ip(ip, RULES.inside, is_strict=True)
    except AddressRefused:
        return
    assert is_public(ip)
    assert not carries_another(ip)
    assert ip.is_global
    assert not any(
        (ip.is_private, ip.is_loopback, ip.is_link_local, ip.is_multicast, ip.is_unspecified, ip.is_reserved)
    )


INNER = st.ip_addresses(v=4).map(int)


@given(INNER, st.integers(0, (1 << 32) - 1))
def test_no_form_that_carries_an_ipv4_address_is_reached(inner, prefix):
    """Compatible, mapped, translated, NAT64, 6to4, ISATAP below any prefix, Teredo: whatever the address inside."""
    forms = [
        inner, 0xFFFF << 32 | inner, 0xFFFF << 48 | inner, (0x64FF9B << 96) | inner, (0x2002 << 112) | inner << 80 | prefix,
        (0x2000 << 112) | prefix << 80 | 0x5EFE << 32 | inner, (0x2000 << 112) | prefix << 80 | 0x02005EFE << 32 | inner,
        (0x20010000 << 96) | prefix << 64 | inner,
    ]  # fmt: skip
    for form in forms:
        with pytest.raises(AddressRefused):
            judge_ip(ipaddress.IPv6Address(form), RULES.inside, is_strict=True)


NOISE = st.text(alphabet=string.printable + "éß①。\u200d\u00ad／＠：", max_size=30)


@given(
    st.builds(
        "{}{}{}".format, st.sampled_from(["https://", "http://", "HTTP://a@", "", "https:\\\\"]), NOISE, NOISE
    )
)
def test_any_text_is_read_once_or_refused(text):
    """What is read leads, read again, to the very same place, over TLS; nothing else is raised."""
    try:
        address = read_web_url(text, RULES)
    except AddressRefused:
        return
    assert address.scheme == "https"
    assert address.url.isascii()
    assert read_web_url(address.url, RULES) == address
    assert not set(address.host) & set("@/\\?# %")


def test_an_address_has_one_form():
    """Over TLS, in ASCII, without the part behind `#`."""
    for text, url in (
        ("http://a.example", "https://a.example/"),
        ("HTTP://A.Example.:80/x", "https://a.example/x"),
        (" https://a.example/ü?q=ü#part ", "https://a.example/%C3%BC?q=%C3%BC"),
        ("https://bücher.example/a%20b|c", "https://xn--bcher-kva.example/a%20b%7Cc"),
        ("https://a.example?x", "https://a.example/?x"),
    ):
        assert read_web_url(text, RULES).url == url, text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("file:///etc/passwd", "file: is not supported"), ("ftp://a.example/", "ftp: is not supported"), ("gopher://a.example/", "gopher: is not"),
        ("a.example/x", "is not an address"), ("", "is not an address"), ("javascript:alert(1)", "is not an address"), ("https://u:p@a.example/", "user before its host"),
        ("https://a.example@127.0.0.1/", "user before its host"), ("https://a.example:22/", "port 22"), ("https://a.example:0/", "is not a port"),
        ("https://a.example\\@b.example/", "backslash"), ("https://a.example/a b", "space"), ("https://a\r\nb.example/", "control"),
        ("https://xn--a.example/" + "x" * 2_000, "at most 2,000"), ("https://ex\u200dample.example/", "IDNA"), ("https:///x", "host is missing"),
        ("https://a%2fb.example/", "not allowed in host names"), ("https://%ff.example/", "not allowed in host names"), ("https://%41\ud800.example/", "not allowed in host names"), ("http://a.example:8080/", "port 8080"),
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_with_the_rule(text, words):
    """Bad input: `web_fetch` of file:, users, ports, and names that IDNA refuses."""
    with pytest.raises(AddressRefused, match=words):
        read_web_url(text, RULES)


def test_domains_are_compared_in_their_idna_form_with_those_below():
    """Blocked wins over allowed; `evilexample.com` is not below `example.com`."""
    rules = WebRules(allow=("Bücher.example", "*.example.com"), block=["private.example.com"])
    for url in (
        "https://xn--bcher-kva.example/",
        "https://BÜCHER.example/",
        "https://www.example.com/",
        "https://example.com/",
    ):
        assert read_web_url(url, rules)
    for url, words in (
        ("https://evilexample.com/", "not among"), ("https://a.private.example.com/", "blocked"), ("https://93.184.216.34/", "not among"),
    ):  # fmt: skip
        with pytest.raises(AddressRefused, match=words):
            read_web_url(url, rules)
    assert is_below("a.b.c", ["b.c"])
    assert not is_below("ab.c", ["b.c"])


def test_what_an_operator_opens_is_open_and_nothing_beside_it():
    """An origin with its scheme and port, a host on allowed ports, a network behind names."""
    rules = WebRules(
        inside=read_inside(["http://searx.corp:8080", "wiki.corp", "10.1.0.0/16"]), ports=[443, 8443]
    )
    assert read_web_url("http://searx.corp:8080/search", rules).scheme == "http"
    assert read_web_url("http://wiki.corp/", rules).origin == ("https", "wiki.corp", 443)
    assert read_web_url("https://wiki.corp:8443/", rules)
    assert judge_found(read_web_url("https://intra/", rules), ["10.1.2.3"], rules.inside, is_strict=True)
    for url in ("https://searx.corp:8081/", "https://10.2.0.1/", "https://[::ffff:10.1.2.3]/"):
        with pytest.raises(AddressRefused):
            read_web_url(url, rules)
    with pytest.raises(AddressRefused):
        judge_found(read_web_url("https://intra/", rules), ["10.2.0.1"], rules.inside, is_strict=True)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: WebRules(ports=[0]), lambda: WebRules(ports=["443"]),  # type: ignore[list-item]
        lambda: WebRules(allow=["https://a.example"]), lambda: WebRules(block=[7]),  # type: ignore[list-item]
        lambda: WebRules(proxy="socks5://a"), lambda: read_inside(["a b"]), lambda: read_domain(""), lambda: WebRules(trusted=["a..b"]),
    ],
)  # fmt: skip
def test_rules_that_are_none_are_refused(wrong):
    """By name, when they are made. The lists that were handed over may change afterwards."""
    with pytest.raises(OptionError):
        wrong()
    given_ports, given_allow = [443], ["a.example"]
    rules = WebRules(ports=given_ports, allow=given_allow)
    given_ports.append(22)
    given_allow.clear()
    assert (rules.ports, rules.allow) == (frozenset({443}), ("a.example",))
    assert read_allowed([]) == WebRules().inside


@pytest.mark.parametrize(
    "url", ["https://" + "%" * 100_000, "https://" + "é" * 1_100 + "/", "https://a.b/#" + "x" * 16_000]
)
def test_an_address_of_any_length_is_refused_in_a_moment(url):
    """It is refused by its length, before its host is read: IDNA and percent signs take their time."""
    with pytest.raises(AddressRefused, match=r"has (16,013|100,008|more than 1,024) characters"):
        read_web_url(url, RULES)

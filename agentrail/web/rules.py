"""Rules for fetching: schemes, ports, domains. Pure: takes an address as written and returns one with a single meaning."""

import re
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

import idna
from attrs import field, frozen

from agentrail.errors import OptionError
from agentrail.otp.field_rules import faults_of_fields
from agentrail.otp.guarded_calls import repr_of
from agentrail.web.url_policy import (
    MAX_WEB_URL_CHARACTERS,
    NOWHERE_ELSE,
    USUAL_PORTS,
    AddressRefused,
    AllowedPlaces,
    WebAddress,
    is_home,
    judge_ip,
    read_allowed,
    read_host,
    split_url,
)

_PARTS: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<place>[^/?#]*)(?P<target>[^#]*)(?:#.*)?", re.DOTALL
)
_SAFE: Final = "/?._~!$&'()*+,;=:@%-"
_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f\\]")
_MAX_PORT: Final = 65_535
_MAX_GIVEN: Final = 8 * MAX_WEB_URL_CHARACTERS
"""Maximum characters of an address as written, with its fragment and before normalisation."""
_MAX_HOST: Final = 1_024
"""Maximum characters of a host before IDNA, four times the limit of a name."""


def _items(given: Any, what: str) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise OptionError([f"{repr_of(given):.80} is given for {what}: expected a list of them"])
    return tuple(given)


def _domains(names: Iterable[str]) -> tuple[str, ...]:
    return tuple([read_domain(one) for one in _items(names, "domains")])


def _ports(ports: Iterable[int]) -> frozenset[int]:
    return frozenset(_items(ports, "ports"))


@frozen(kw_only=True)
class WebRules:
    """An operator's rules for fetching.

    Attributes:
        allow: Allowed domains. If there are any, nothing else is fetched. `example.com` includes its subdomains.
        block: Blocked domains, also within allowed ones.
        trusted: Domains whose pages are not truncated.
        ports: Allowed server ports.
        inside: Places in a private network that are allowed nevertheless.
        proxy: Proxy for all requests, `http://host:port`, or empty. The proxy resolves names itself, so it must protect
            private networks. The text of an address is still judged here.
        robots: Whether pages excluded by the server's `/robots.txt` are skipped.

    Raises:
        OptionError: Your move: an invalid value.
    """

    allow: tuple[str, ...] = field(default=(), converter=_domains)
    block: tuple[str, ...] = field(default=(), converter=_domains)
    trusted: tuple[str, ...] = field(default=(), converter=_domains)
    ports: frozenset[int] = field(default=frozenset(USUAL_PORTS.values()), converter=_ports)
    inside: AllowedPlaces = NOWHERE_ELSE
    proxy: str = field(default="", repr=False)  # may contain a password
    robots: bool = False

    def __attrs_post_init__(self) -> None:
        """Validate the rules."""
        faults = [*faults_of_fields(self, WebRules)]
        faults += [
            f"{repr_of(one):.40} is not a port: expected a whole number from 1 to {_MAX_PORT}"
            for one in sorted(self.ports, key=repr_of)
            if type(one) is not int or not 0 < one <= _MAX_PORT
        ]
        if self.proxy and not re.fullmatch(r"https?://[!-~]+", repr_of(self.proxy, str)):
            faults.append("the proxy is not an address: expected http://host:port")
        OptionError.raise_for(faults)


def read_inside(entries: Iterable[object]) -> AllowedPlaces:
    """Parse places in a private network: networks, hosts and origins, as in `read_allowed`.

    Raises:
        OptionError: Your move: an invalid entry.
    """
    try:
        return read_allowed(entries)
    except ValueError as error:
        raise OptionError([str(error)]) from None


def read_domain(name: Any) -> str:
    """Return the canonical form of a domain: lower case, IDNA, without leading or trailing dots.

    Raises:
        OptionError: Your move: an invalid domain.
    """
    if isinstance(name, str):
        try:
            return read_host(_ascii_host(name.removeprefix("*.").strip(".")), "it")[0]
        except AddressRefused:
            pass
    fault = f"{repr_of(name):.80} is not a domain: expected a name such as 'example.com', without https:// and path"
    raise OptionError([fault])


def is_below(host: str, domains: Iterable[str]) -> bool:
    """Return whether a host is one of these domains or a subdomain of one."""
    return any(host == one or host.endswith(f".{one}") for one in domains)


def read_web_url(text: str, rules: WebRules) -> WebAddress:
    """Parse an address, and judge its text. Nothing is resolved.

    Args:
        text: Address as written: `https://…`. `http://…` is changed to that, and the fragment after `#` is dropped.
        rules: Rules for fetching.

    Raises:
        AddressRefused: It is invalid or not allowed. The text names the rule.
    """
    address = split_url(_plain_url(text))
    if address.origin in rules.inside.origins:
        _judge_domain(address.host, rules)
        return address
    if address.scheme == "http":
        # Anyone on the path could modify cleartext, and the model would read it.
        port = 443 if address.port == USUAL_PORTS["http"] else address.port
        address = WebAddress(
            scheme="https", host=address.host, port=port, target=address.target, ip=address.ip
        )
    if address.port not in rules.ports and address.origin not in rules.inside.origins:
        listed = ", ".join(map(str, sorted(rules.ports)))
        message = f"port {address.port} is not allowed: expected {listed}"
        raise AddressRefused(message)
    _judge_domain(address.host, rules)
    if address.host in rules.inside.hosts or address.origin in rules.inside.origins:
        return address
    if address.ip is not None:
        judge_ip(address.ip, rules.inside, is_strict=True)
    elif not rules.inside.networks and is_home(address.host):
        message = f"{address.host} is a private network name"
        raise AddressRefused(message)
    return address


def _judge_domain(host: str, rules: WebRules) -> None:
    if is_below(host, rules.block):
        message = f"{host} is blocked here"
        raise AddressRefused(message)
    if rules.allow and not is_below(host, rules.allow):
        message = f"{host} is not among the domains that may be fetched here: {', '.join(rules.allow[:20])}"
        raise AddressRefused(message)


def _plain_url(text: str) -> str:
    if len(text) > _MAX_GIVEN:
        message = f"it has {len(text):,} characters, at most {_MAX_GIVEN:,} are allowed: shorten it"
        raise AddressRefused(message)
    given = text.strip()
    found = _PARTS.fullmatch(given)
    if found is None:
        message = f"{given[:80]!r} is not an address: expected https://host/path"
        raise AddressRefused(message)
    if found["scheme"].lower() not in USUAL_PORTS:
        message = f"{found['scheme'][:20]}: is not supported: use https:"
        raise AddressRefused(message)
    if _UNSAFE.search(given):
        message = "it contains a space, a backslash or a control character: percent-encode those"
        raise AddressRefused(message)
    if "@" in found["place"]:
        message = "it has a user before its host; remove it"
        raise AddressRefused(message)
    host, colon, port = found["place"].rpartition(":")
    host, port = (host, f":{port}") if colon and not port.endswith("]") else (found["place"], "")
    target = quote(found["target"], safe=_SAFE, errors="replace")
    return f"{found['scheme']}://{_ascii_host(host)}{port}{target}"


def _ascii_host(host: str) -> str:
    if len(host) > _MAX_HOST:
        message = f"its host has more than {_MAX_HOST:,} characters, but a host name has at most 253"
        raise AddressRefused(message)
    if "%" in host:
        try:
            host = unquote_to_bytes(host).decode()
        except UnicodeError:
            host = "%"
        if any(one in host for one in "/?#@:[]%\\"):
            message = "its host contains characters that are not allowed in host names"
            raise AddressRefused(message)
    if host.isascii():
        return host
    try:
        # UTS 46 maps the full stops of other scripts to ours.
        return idna.encode(host, uts46=True, std3_rules=True).decode()
    except (idna.IDNAError, UnicodeError):
        message = "its host is not a valid IDNA name"
        raise AddressRefused(message) from None

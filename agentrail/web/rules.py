"""What may be fetched: schemes, ports, domains. Pure: an address as it was written comes in, one with a single reading goes out."""

import re
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

import idna
from attrs import field, frozen

from agentrail.errors import OptionError
from agentrail.web.places import (
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
"""Characters of an address as it is written, with its fragment and before it is brought into its one form."""
_MAX_HOST: Final = 1_024
"""Characters of a host before IDNA, four times as many as a name may have."""


def _domains(names: Iterable[str]) -> tuple[str, ...]:
    return tuple([read_domain(one) for one in names])


@frozen(kw_only=True)
class WebRules:
    """What an operator lets be fetched.

    Attributes:
        allow: Domains; where there are any nothing else is fetched. `example.com` means those below it too.
        block: Domains that are not fetched, also of those that are allowed.
        trusted: Domains whose pages are not cut.
        ports: Of servers.
        inside: Places of a network of one's own that may be reached nevertheless.
        proxy: Where all goes through, `http://host:port`, or empty. It looks the names up itself, so it has to guard; what an address says is
            judged here all the same.
        robots: Whether a page is left alone when `/robots.txt` of its server says so.

    Raises:
        OptionError: Your move: one of these is none.
    """

    allow: tuple[str, ...] = field(default=(), converter=_domains)
    block: tuple[str, ...] = field(default=(), converter=_domains)
    trusted: tuple[str, ...] = field(default=(), converter=_domains)
    ports: frozenset[int] = field(default=frozenset(USUAL_PORTS.values()), converter=frozenset)
    inside: AllowedPlaces = NOWHERE_ELSE
    proxy: str = field(default="", repr=False)  # a password may stand in it
    robots: bool = False

    def __attrs_post_init__(self) -> None:
        """Refuse what cannot be."""
        faults = [
            f"{one!r:.40} is no port: expected a whole number from 1 to {_MAX_PORT}"
            for one in sorted(self.ports, key=repr)
            if type(one) is not int or not 0 < one <= _MAX_PORT
        ]
        if self.proxy and not re.fullmatch(r"https?://[!-~]+", self.proxy):
            faults.append("the proxy is no address: expected http://host:port")
        if faults:
            raise OptionError(faults)


def read_inside(entries: Iterable[object]) -> AllowedPlaces:
    """Read places of a network of one's own: networks, hosts and origins, as `read_allowed` has it.

    Raises:
        OptionError: Your move: one is none of these.
    """
    try:
        return read_allowed(entries)
    except ValueError as error:
        raise OptionError([str(error)]) from None


def read_domain(name: Any) -> str:
    """Give a domain in the one form in which domains are compared: small letters, IDNA, without a dot in front or behind.

    Raises:
        OptionError: Your move: it is none.
    """
    if isinstance(name, str):
        try:
            return read_host(_ascii_host(name.removeprefix("*.").strip(".")), "it")[0]
        except AddressRefused:
            pass
    raise OptionError(
        [f"{name!r:.80} is no domain: expected such as 'example.com', without https:// and path"]
    )


def is_below(host: str, domains: Iterable[str]) -> bool:
    """Say whether a host is one of these domains, or stands below one."""
    return any(host == one or host.endswith(f".{one}") for one in domains)


def read_web_url(text: str, rules: WebRules) -> WebAddress:
    """Read an address, and judge it by what can be seen of it. Nothing is looked up.

    Args:
        text: What was written: `https://…`; `http://…` is read as that, and what stands behind `#` is left out.
        rules: What may be fetched.

    Raises:
        AddressRefused: It is none, or may not be fetched; the text says which rule.
    """
    address = split_url(_plain_url(text))
    if address.origin in rules.inside.origins:
        _judge_domain(address.host, rules)
        return address
    if address.scheme == "http":
        # What is sent in the clear anybody on the way can write, and the model would read it.
        port = 443 if address.port == USUAL_PORTS["http"] else address.port
        address = WebAddress(
            scheme="https", host=address.host, port=port, target=address.target, ip=address.ip
        )
    if address.port not in rules.ports and address.origin not in rules.inside.origins:
        listed = ", ".join(map(str, sorted(rules.ports)))
        message = f"port {address.port} is not fetched from: {listed} are"
        raise AddressRefused(message)
    _judge_domain(address.host, rules)
    if address.host in rules.inside.hosts or address.origin in rules.inside.origins:
        return address
    if address.ip is not None:
        judge_ip(address.ip, rules.inside, is_strict=True)
    elif not rules.inside.networks and is_home(address.host):
        message = f"{address.host} is a name of a private network"
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
    """Write an address in ASCII, with one form for its host."""
    if len(text) > _MAX_GIVEN:
        message = f"it has {len(text):,} characters, and an address has {_MAX_GIVEN:,} at most: shorten it"
        raise AddressRefused(message)
    given = text.strip()
    found = _PARTS.fullmatch(given)
    if found is None:
        message = f"{given[:80]!r} is no address: expected https://host/path"
        raise AddressRefused(message)
    if found["scheme"].lower() not in USUAL_PORTS:
        message = f"{found['scheme'][:20]}: is not fetched, https: is"
        raise AddressRefused(message)
    if _UNSAFE.search(given):
        message = "it has a space, a backslash or a control character in it: write those with %"
        raise AddressRefused(message)
    if "@" in found["place"]:
        message = "it has a user in front of its host: leave that out"
        raise AddressRefused(message)
    host, port = _host_and_port(found["place"])
    target = quote(found["target"], safe=_SAFE, errors="replace")
    return f"{found['scheme']}://{_ascii_host(host)}{port}{target}"


def _host_and_port(place: str) -> tuple[str, str]:
    """Split at the last colon, unless that is one of an IPv6 address."""
    host, colon, port = place.rpartition(":")
    return (host, f":{port}") if colon and not port.endswith("]") else (place, "")


def _ascii_host(host: str) -> str:
    """Give the IDNA form of a host."""
    if len(host) > _MAX_HOST:
        message = f"its host has more than {_MAX_HOST:,} characters, and a name has 253 at most"
        raise AddressRefused(message)
    if "%" in host:
        try:
            host = unquote_to_bytes(host).decode()
        except UnicodeDecodeError:
            host = "%"
        if any(one in host for one in "/?#@:[]%\\"):
            message = "its host has characters in it that no host has"
            raise AddressRefused(message)
    if host.isascii():
        return host
    try:
        # The full stop of other scripts stands between labels as ours does.
        return idna.encode(host, uts46=True, std3_rules=True).decode()
    except (idna.IDNAError, UnicodeError):
        message = "its host is no name that IDNA knows"
        raise AddressRefused(message) from None

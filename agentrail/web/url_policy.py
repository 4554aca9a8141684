"""Web addresses: parsed once, and judged by their text and their resolved IP addresses. Pure."""

import ipaddress
import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from attrs import field, frozen

# Classification of IP addresses as public addresses of a single machine. Pure. The registry of
# special-purpose addresses (RFC 6890) is repeated here in addition to the library's: `is_global` alone
# accepts multicast, NAT64, 6to4, `::/96`, `fec0::/10`, `3fff::/20`, `5f00::/16` and 168.63.129.16, and older
# Pythons have fewer entries.


IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_CLOSED: Final[tuple[IpNetwork, ...]] = tuple(
    ipaddress.ip_network(one)
    for one in """
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24
    192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 168.63.129.16/32
    2001::/23 2001:db8::/32 2002::/16 3fff::/20
    """.split()  # noqa: SIM905 - as a list it would fill a page
)
"""168.63.129.16 is formally public, but for a machine at Microsoft it is the service that knows its secrets."""

_OPEN_SIX: Final = ipaddress.IPv6Network("2000::/3")
_TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")
_CARRIERS: Final = tuple(
    ipaddress.IPv6Network(one)
    for one in (
        "::/96",
        "::ffff:0:0/96",
        "::ffff:0:0:0/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "2001::/32",
        "2002::/16",
    )
)
"""Compatible (RFC 4291), mapped, translated (RFC 2765, 6052, 8215), Teredo (RFC 4380), 6to4 (RFC 3056)."""

_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})
"""Upper half of an interface identifier that contains an IPv4 address (RFC 5214)."""


def plain_ip(ip: IpAddress) -> IpAddress:
    if isinstance(ip, ipaddress.IPv6Address):
        return ip.ipv4_mapped or ipaddress.IPv6Address(int(ip))
    return ip


def is_public(ip: IpAddress) -> bool:
    """Return whether an address is a public one of a single machine, also inside an IPv6 address."""
    plain = plain_ip(ip)
    if isinstance(plain, ipaddress.IPv6Address):
        if plain in _TRANSLATED:
            return is_public(ipaddress.IPv4Address(int(plain) & 0xFFFFFFFF))
        if plain not in _OPEN_SIX:
            return False
    is_closed = any(plain in network for network in _CLOSED if network.version == plain.version)
    return plain.is_global and not plain.is_multicast and not is_closed


def carries_another(ip: IpAddress) -> bool:
    """Return whether an IPv6 address contains an IPv4 address that an intermediary may unpack."""
    if isinstance(ip, ipaddress.IPv4Address):
        return False
    number = int(ip)
    is_isatap = (number >> 32) & 0xFFFFFFFF in _ISATAP
    return is_isatap or any(ipaddress.IPv6Address(number) in network for network in _CARRIERS)


MAX_WEB_URL_CHARACTERS: Final = 2_000

USUAL_PORTS: Final = {"https": 443, "http": 80}
_MAX_PORT: Final = 65_535

# Printable ASCII, restricted to URL characters: each has one meaning for every parser.
_URL: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<place>[A-Za-z0-9._~%:@\[\]-]*)"
    r"(?P<target>(?:/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?(?:\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?)"
)
_PLACE: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")
_NAME: Final = re.compile(
    r"(?=.{1,253}\Z)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
)
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")

_HOMES: Final = ("localhost", "local", "internal")
"""Top-level labels of names that only exist in private networks."""


class AddressRefused(ValueError):
    """Sending to an address is not allowed. The text states the reason, and contains only the host of the address."""


@frozen(kw_only=True)
class AllowedPlaces:
    """Places that an operator allows in addition to public servers over TLS.

    Attributes:
        networks: Allowed addresses, also private ones.
        hosts: Allowed names and addresses, whatever they resolve to.
        origins: Scheme, host and port of allowed servers, whatever they resolve to. Only these may be without TLS.
    """

    networks: tuple[IpNetwork, ...] = ()
    hosts: frozenset[str] = frozenset()
    origins: frozenset[tuple[str, str, int]] = frozenset()


NOWHERE_ELSE: Final = AllowedPlaces()


@frozen(kw_only=True)
class WebAddress:
    """A web address, parsed once into parts, so that no second parser can read it differently.

    Attributes:
        host: A name in lower case, or an IP address without brackets.
    """

    scheme: str
    host: str
    port: int
    target: str = field(repr=False)  # it may hold the receiver's secret token
    ip: IpAddress | None = None

    @property
    def origin(self) -> tuple[str, str, int]:
        return (self.scheme, self.host, self.port)

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == USUAL_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host_header}{self.target}"


# --- allowed places


def read_allowed(entries: Iterable[object]) -> AllowedPlaces:
    networks: list[IpNetwork] = []
    hosts: set[str] = set()
    origins: set[tuple[str, str, int]] = set()
    for entry in entries:
        if not isinstance(entry, str):
            raise ValueError(_no_place(entry))  # noqa: TRY004 - one kind for all that is no place
        if "://" in entry:
            origins.add(_read_origin(entry))
        elif "/" in entry:
            try:
                networks.append(ipaddress.ip_network(entry))
            except ValueError as error:
                message = f"{_no_place(entry)} ({error})"
                raise ValueError(message) from None
        else:
            hosts.add(read_host(entry, entry)[0])
    return AllowedPlaces(networks=tuple(networks), hosts=frozenset(hosts), origins=frozenset(origins))


def _read_origin(entry: str) -> tuple[str, str, int]:
    try:
        address = split_url(entry)
    except AddressRefused as error:
        message = f"{_no_place(entry)} ({error})"
        raise ValueError(message) from None
    if address.target != "/":
        message = f"{_no_place(entry)} (an origin has no path)"
        raise ValueError(message)
    return address.origin


def _no_place(entry: object) -> str:
    return (
        f"{entry!r:.120} is not a place: expected a network such as '10.1.0.0/16', a host such as 'hooks.example', "
        "or an origin such as 'http://127.0.0.1:9000'"
    )


# --- one address, by its text


def split_url(url: str) -> WebAddress:
    """Parse an address. Its resolved IP addresses are not judged."""
    found = _URL.fullmatch(url) if len(url) <= MAX_WEB_URL_CHARACTERS else None
    if found is None:
        message = (
            f"it is not an address of at most {MAX_WEB_URL_CHARACTERS:,} characters: expected https://host/path in ASCII, "
            "other characters percent-encoded, and no #"
        )
        raise AddressRefused(message)
    scheme = found["scheme"].lower()
    if scheme not in USUAL_PORTS:
        message = "it is not https"
        raise AddressRefused(message)
    if "@" in found["place"]:
        message = "it has a user before its host; remove it"
        raise AddressRefused(message)
    place = _PLACE.fullmatch(found["place"])
    if place is None:
        message = "its host is missing or cannot be parsed"
        raise AddressRefused(message)
    host, ip = read_host(place["host"], "its host")
    port = USUAL_PORTS[scheme] if place["port"] is None else int(place["port"])
    if not 0 < port <= _MAX_PORT:
        message = f"{port} is not a port"
        raise AddressRefused(message)
    target = found["target"]
    return WebAddress(
        scheme=scheme,
        host=host,
        port=port,
        target=target if target.startswith("/") else f"/{target}",
        ip=ip,
    )


def read_host(text: str, shown: str) -> tuple[str, IpAddress | None]:
    host = text.lower().removesuffix(".")
    try:
        if host.startswith("["):
            six = ipaddress.IPv6Address(host[1:-1])
            return str(six), six
        if ":" in host:
            six = ipaddress.IPv6Address(host)
            return str(six), six
        if _NUMBER.fullmatch(host.rpartition(".")[2]):
            four = ipaddress.IPv4Address(host)
            return str(four), four
    except ValueError:
        message = f"{shown} is not an IP address in its usual form"
        raise AddressRefused(message) from None
    if not _NAME.fullmatch(host):
        message = f"{shown} is not a host name"
        raise AddressRefused(message)
    return host, None


def is_home(host: str) -> bool:
    """Return whether a name can only exist in a private network, such as a name without a dot."""
    return "." not in host or host.rpartition(".")[2] in _HOMES


# --- resolved addresses


def judge_found(
    address: WebAddress, found: Iterable[str], allowed: AllowedPlaces, *, is_strict: bool = False
) -> tuple[str, ...]:
    """Judge all resolved addresses of a name. All must pass."""
    is_trusted = address.host in allowed.hosts or address.origin in allowed.origins
    judged: dict[str, None] = {}
    for one in found:
        try:
            ip = ipaddress.ip_address(one)
        except ValueError:
            message = f"{address.host} resolves to something other than an IP address"
            raise AddressRefused(message) from None
        if not is_trusted:
            judge_ip(ip, allowed, is_strict=is_strict)
        judged[str(plain_ip(ip))] = None
    if not judged:
        message = f"{address.host} cannot be resolved"
        raise AddressRefused(message)
    return tuple(judged)


def judge_ip(ip: IpAddress, allowed: AllowedPlaces, *, is_strict: bool = False) -> None:
    """Raise if an IP address is not allowed."""
    if is_strict and carries_another(ip):
        message = "it resolves to an address that embeds another one"
        raise AddressRefused(message)
    plain = plain_ip(ip)
    if any(plain in network for network in allowed.networks if network.version == plain.version):
        return
    if not is_public(plain):
        message = "it resolves to an address that is not public"
        raise AddressRefused(message)

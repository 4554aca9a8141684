"""Which IP addresses are those of a single machine that anyone on the internet may reach. Pure.

The registry of addresses for special purposes (RFC 6890) is kept here in our own words beside the library's: `is_global` alone passes multicast,
NAT64, 6to4, `::/96`, `fec0::/10`, `3fff::/20`, `5f00::/16` and 168.63.129.16, and older Pythons know fewer entries.
"""

import ipaddress
from typing import Final, TypeAlias

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
"""168.63.129.16 is public by its number, and to a machine at Microsoft's the one that knows its secrets."""

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
"""The upper half of an interface's number that holds an IPv4 address (RFC 5214)."""


def plain_ip(ip: IpAddress) -> IpAddress:
    """Give the IPv4 address that an IPv6 one only writes otherwise, and drop the zone."""
    if isinstance(ip, ipaddress.IPv6Address):
        return ip.ipv4_mapped or ipaddress.IPv6Address(int(ip))
    return ip


def is_public(ip: IpAddress) -> bool:
    """Say whether an address is one of a single machine that anyone on the internet may reach.

    What stands for an IPv4 address inside an IPv6 one is judged as that.
    """
    plain = plain_ip(ip)
    if isinstance(plain, ipaddress.IPv6Address):
        if plain in _TRANSLATED:
            return is_public(ipaddress.IPv4Address(int(plain) & 0xFFFFFFFF))
        if plain not in _OPEN_SIX:
            return False
    is_closed = any(plain in network for network in _CLOSED if network.version == plain.version)
    return plain.is_global and not plain.is_multicast and not is_closed


def carries_another(ip: IpAddress) -> bool:
    """Say whether an IPv6 address holds an IPv4 one, which whatever stands in between may unpack: so two addresses are one."""
    if isinstance(ip, ipaddress.IPv4Address):
        return False
    number = int(ip)
    is_isatap = (number >> 32) & 0xFFFFFFFF in _ISATAP
    return is_isatap or any(ipaddress.IPv6Address(number) in network for network in _CARRIERS)

"""Addresses of remote sandboxes, with their declared capabilities: `http://host:port?can=execute`, `container:IMAGE`."""

import ipaddress
import re
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from attrs import frozen

WIRE_CAPABILITIES: Final = frozenset({"execute", "snapshot"})
"""Sandbox capabilities available over the wire. Not `versions`: their keeper is called before each write, at the other end."""

CONTAINER: Final = "container:"

SCHEMES: Final = ("http://", "https://")

ADDRESS_FORMS: Final = "'local', 'local:/path', 'memory', 'http://host:port' or 'container:IMAGE'"
"""Accepted forms of a sandbox address, for error messages."""

_SWITCH: Final = {"true": True, "1": True, "false": False, "0": False}
_MAX_LENGTH: Final = 1_000
_IMAGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}")


class NoAddress(ValueError):
    """Raised if a text is not a sandbox address. The message contains the expected form."""


@frozen(kw_only=True)
class RemoteAddress:
    """Address of a sandbox server.

    Attributes:
        url: Scheme, host and port.
        name: Name in messages, or empty for the URL.
        can: Declared capabilities, from `CAPABILITIES`, or None if undeclared: `execute` is assumed until the server has replied.
        socket: Path of the server's Unix socket, or None for TCP.
    """

    url: str
    name: str = ""
    can: frozenset[str] | None = None
    socket: str | None = None

    @property
    def shown(self) -> str:
        return self.name or self.url


def is_remote(name: str) -> bool:
    """Return whether a sandbox name refers to a remote sandbox. Checks only its prefix."""
    return name.startswith((*SCHEMES, CONTAINER))


def is_alone(name: str) -> bool:
    return name == "memory" or is_remote(name)


def fault_of_remote(name: str) -> str | None:
    try:
        if name.startswith(CONTAINER):
            image_of(name)
        else:
            read_sandbox_address(name)
    except NoAddress as error:
        return str(error)
    return None


def image_of(name: str) -> str:
    image = name.removeprefix(CONTAINER)
    if not _IMAGE.fullmatch(image):
        message = "expected the name of an image after 'container:', such as container:ghcr.io/acme/tools:1"
        raise NoAddress(message)
    return image


def read_sandbox_address(text: str) -> RemoteAddress:
    if len(text) > _MAX_LENGTH or not text.isprintable():
        message = f"expected an address of at most {_MAX_LENGTH} printable characters"
        raise NoAddress(message)
    if "@" in text:
        message = "an address must not contain a user name or a token: remove it"
        raise NoAddress(message)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")  # as the resolver does, which accepts no empty label
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        message = f"expected http://host:port: {error}"
        raise NoAddress(message) from None
    if parts.scheme not in {"http", "https"} or not host or parts.path not in {"", "/"} or parts.fragment:
        message = "expected http://host:port or https://host:port, and no path"
        raise NoAddress(message)
    can, is_insecure = _read_query(query)
    if parts.scheme == "http" and not is_insecure and not is_loopback_host(host):
        message = f"{host} is another machine, and http:// would send the token and all files unencrypted: use https://, or add ?insecure=true on a network that only you use"
        raise NoAddress(message)
    shown = f"[{host}]" if ":" in host else host
    at = "" if port is None else f":{port}"
    return RemoteAddress(url=f"{parts.scheme}://{shown}{at}", can=can)


def _read_query(query: list[tuple[str, str]]) -> tuple[frozenset[str] | None, bool]:
    known = dict(query)
    if len(known) < len(query) or not known.keys() <= {"can", "insecure"}:
        message = "expected ?can=… and insecure=…, each once, and nothing else after the question mark"
        raise NoAddress(message)
    can = frozenset(filter(None, known["can"].split(","))) if "can" in known else None
    if can is not None and not can <= WIRE_CAPABILITIES:
        message = f"can={known['can']}: expected some of {', '.join(sorted(WIRE_CAPABILITIES))}, with commas between"
        raise NoAddress(message)
    is_insecure = _SWITCH.get(known.get("insecure", "false"))
    if is_insecure is None:
        message = "insecure: expected true or false"
        raise NoAddress(message)
    return can, is_insecure


def is_loopback_host(host: str) -> bool:
    """Return whether a host is this machine without a name lookup: a loopback address, or `localhost`."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

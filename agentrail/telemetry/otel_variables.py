"""The variables of OpenTelemetry that commands read. What the official exporter reads itself is only checked."""

import logging
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from agentrail.errors import OptionError
from agentrail.logs import Logger

LOGGER: Final = Logger("agentrail.telemetry")

_OTLP: Final = "OTEL_EXPORTER_OTLP_"
_ENDPOINTS: Final = (f"{_OTLP}TRACES_ENDPOINT", f"{_OTLP}ENDPOINT")
_OWN: Final = ("SERVICE_NAME", "RESOURCE_ATTRIBUTES", "TRACES_SAMPLER", "TRACES_SAMPLER_ARG", "SDK_DISABLED")
_SHARES: Final = {"always_on": 1.0, "always_off": 0.0, "traceidratio": None}
_GRPC: Final = "opentelemetry-exporter-otlp-proto-grpc"


def options_of(environ: Mapping[str, str], table: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the options of `OpenTelemetry` from variables and the table `[telemetry]`. None where neither names an endpoint.

    Raises:
        OptionError: Variables are invalid. Each fault names its variable.
    """
    named = {name: value.strip() for name, value in environ.items() if name.startswith("OTEL_")}
    given = {name: value for name, value in named.items() if value}
    is_named = any(name in given for name in _ENDPOINTS)
    if given.get("OTEL_SDK_DISABLED", "").lower() == "true" or not (is_named or "endpoint" in table):
        return None
    unread = sorted(
        name for name in given if name.removeprefix("OTEL_") not in _OWN and not name.startswith(_OTLP)
    )
    if unread:
        LOGGER.warning("these variables of OpenTelemetry are not read: %s", ", ".join(unread))
    OptionError.raise_for([*_faults_of(given)])
    # The exporter logs each of its attempts. The reader logs a failure once a minute, with its reason.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    options = {name: value for name, value in table.items() if name != "endpoint"}
    options["exporter"] = None if is_named else table["endpoint"]
    options["resource"] = {key.strip(): unquote(value.strip()) for key, value in _pairs_of(given)}
    if "OTEL_SERVICE_NAME" in given:
        options["resource"]["service.name"] = given["OTEL_SERVICE_NAME"]
    if "OTEL_TRACES_SAMPLER" in given:
        share = _SHARES[given["OTEL_TRACES_SAMPLER"].removeprefix("parentbased_")]
        options["sample"] = float(given.get("OTEL_TRACES_SAMPLER_ARG", "1")) if share is None else share
    return options


def _faults_of(given: Mapping[str, str]) -> Iterator[str]:
    for name, value in given.items():
        of_exporter = name.removeprefix(_OTLP).removeprefix("TRACES_") if name.startswith(_OTLP) else name
        is_right, expected = _CHECKS.get(of_exporter, (bool, ""))
        if not is_right(value):
            yield f"{name} is {value!r:.200}: expected {expected}"
    for key, value in _pairs_of(given):
        if not key.strip() or value is None:
            yield f"OTEL_RESOURCE_ATTRIBUTES has {key!r:.80}: expected key=value pairs with commas between them"


def _pairs_of(given: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    for pair in filter(str.strip, given.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",")):
        key, equals, value = pair.partition("=")
        yield key, value if equals else None


def is_address(value: object) -> bool:
    """Return whether this can be the address of an OTLP endpoint."""
    try:
        parts = urlsplit(value if isinstance(value, str) else "")
        host = (parts.hostname or "").encode("idna")  # as the resolver does, which accepts no empty label
        return parts.scheme in {"http", "https"} and bool(host) and parts.port != 0
    except ValueError:
        return False


def is_share(value: object) -> bool:
    """Return whether this is a number from 0 to 1."""
    try:
        return not isinstance(value, bool) and 0 <= float(value) <= 1  # type: ignore[arg-type]  # what it is not, it refuses
    except (TypeError, ValueError, OverflowError):
        return False


def is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it is missing
        return False


_CHECKS: Final[Mapping[str, tuple[Callable[[str], bool], str]]] = {
    "ENDPOINT": (is_address, "an address such as http://localhost:4318"),
    "TIMEOUT": (lambda value: value.replace(".", "", 1).isdecimal(), "seconds"),
    "COMPRESSION": ({"none", "gzip", "deflate"}.__contains__, "none, gzip or deflate"),
    "PROTOCOL": (
        "http/protobuf".__eq__,
        f"http/protobuf; for grpc, pip install {_GRPC} and give its exporter to OpenTelemetry(exporter=…)",
    ),
    "OTEL_TRACES_SAMPLER": (
        lambda value: value.removeprefix("parentbased_") in _SHARES,
        f"one of {', '.join(_SHARES)}, also after parentbased_",
    ),
    "OTEL_TRACES_SAMPLER_ARG": (is_share, "a number from 0 to 1"),
}

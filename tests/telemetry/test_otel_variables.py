"""The variables of OpenTelemetry that commands read, and what is refused at the start (docs: see what your agents do)."""

import logging
import re

import pytest

from agentrail.cli.host_config import named_telemetry
from agentrail.config.settings import NO_SETTINGS
from agentrail.errors import OptionError
from agentrail.telemetry import OpenTelemetry, open_telemetry
from agentrail.telemetry.otel_variables import options_of
from tests.telemetry.collectors import collecting

ADDRESS = "http://localhost:4318"
NAMED = {"OTEL_EXPORTER_OTLP_ENDPOINT": ADDRESS}


@pytest.mark.parametrize(
    ("environ", "table", "expected"),
    [
        ({}, {}, None),
        ({"OTEL_SERVICE_NAME": "desk"}, {}, None),
        (NAMED | {"OTEL_SDK_DISABLED": "TRUE"}, {}, None),
        ({}, {"endpoint": ADDRESS, "sample": 0.5, "content": True}, {"exporter": ADDRESS, "sample": 0.5, "content": True, "resource": {}}),
        (NAMED, {"endpoint": "http://elsewhere"}, {"exporter": None, "resource": {}}),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": ADDRESS, "OTEL_SERVICE_NAME": "desk", "OTEL_RESOURCE_ATTRIBUTES": "service.name=x, a.b = c%20d "},
            {},
            {"exporter": None, "resource": {"service.name": "desk", "a.b": "c d"}},
        ),
        (NAMED | {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}, {"sample": 1.0}, {"exporter": None, "resource": {}, "sample": 0.25}),
        (NAMED | {"OTEL_TRACES_SAMPLER": "always_off"}, {}, {"exporter": None, "resource": {}, "sample": 0.0}),
        (NAMED | {"OTEL_TRACES_SAMPLER": "traceidratio"}, {}, {"exporter": None, "resource": {}, "sample": 1.0}),
    ],
)  # fmt: skip
def test_variables_and_the_table_of_a_file_become_options(environ, table, expected):
    """Variables win over a file, and neither without an endpoint means no telemetry."""
    assert options_of(environ, table) == expected


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "localhost:4318",
            "expected an address such as http://localhost:4318",
        ),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://[::1", "expected an address"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://host..example", "expected an address"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://host", "expected an address"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "pip install opentelemetry-exporter-otlp-proto-grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", "expected http/protobuf"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "expected seconds"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "brotli", "expected none, gzip or deflate"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote", "expected one of always_on, always_off, traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "2", "expected a number from 0 to 1"),
        ("OTEL_TRACES_SAMPLER_ARG", "nan", "expected a number from 0 to 1"),
        ("OTEL_RESOURCE_ATTRIBUTES", "desk", "expected key=value"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=b,=c", "expected key=value"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(name, value, said):
    """At the start, with what is expected instead."""
    with pytest.raises(OptionError, match=rf"{name} (is|has) .*{re.escape(said)}"):
        options_of(NAMED | {name: value}, {})


def test_other_variables_are_named_once_as_not_read(caplog):
    """In one warning, sorted."""
    options_of(NAMED | {"OTEL_TRACES_EXPORTER": "console", "OTEL_BSP_SCHEDULE_DELAY": "5", "OTHER": "x"}, {})
    (said,) = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert said.endswith("not read: OTEL_BSP_SCHEDULE_DELAY, OTEL_TRACES_EXPORTER")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sample": 2}, "sample of telemetry is 2: expected a number from 0 to 1"),
        ({"content": "false"}, "content of telemetry is 'false': expected True or False"),
        ({"tenant": 1}, "tenant of telemetry is 1: expected True or False"),
        ({"resource": 5}, "resource of telemetry is 5: expected attributes by name"),
        ({"sample": 10**400}, "sample of telemetry is 1000"),
        ({"sample": True}, "sample of telemetry is True"),
        (
            {"exporter": "localhost"},
            "exporter of telemetry is 'localhost': expected an address, or a SpanExporter",
        ),
        ({"exporter": object()}, "exporter of telemetry is <object"),
    ],
)
def test_wrong_options_are_refused(given, said):
    """Each with the value that was given."""
    with pytest.raises(OptionError, match=re.escape(said)):
        OpenTelemetry(**given)


def test_without_the_library_the_message_says_how_to_install_it(monkeypatch):
    """The extra is named."""
    monkeypatch.setattr(open_telemetry, "is_installed", lambda _module: False)
    with pytest.raises(OptionError, match=r"telemetry needs the official libraries: pip install .*otel"):
        OpenTelemetry()


def test_commands_read_the_variables_that_the_exporter_reads(monkeypatch):
    """Its endpoint and its compression come from the environment of the process."""
    assert named_telemetry(NO_SETTINGS, {}) == {}
    with collecting() as collector:
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url.removesuffix("/v1/traces")}
        environ |= {"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_SERVICE_NAME": "desk"}
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        telemetry = named_telemetry(NO_SETTINGS, environ)["telemetry"]
        consumer = telemetry.consumer()
        open_telemetry.import_module("agentrail.telemetry.sdk_spans").send_spans(
            consumer._exporter,  # noqa: SLF001 - the exporter that it makes
            telemetry.resource,
            [],
        )
        assert len(collector.requests) == 1

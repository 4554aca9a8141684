"""`agentrail serve --metrics`: its address, and what an application needs for it."""

import importlib.util

import httpx
import pytest
import trio

from agentrail.cli.serve_command import check_options, find_metrics, open_scrape
from agentrail.cli.serve_options import ServeOptions, metrics_address
from agentrail.errors import OptionError
from agentrail.gateway.app import create_app
from agentrail.gateway.serving import addresses_of, open_listeners, serve_app
from agentrail.host import AgentProfile
from agentrail.runtime.session_options import SessionOptions
from agentrail.telemetry.metrics import Metrics

DESK = AgentProfile(id="desk", name="Desk", options=SessionOptions(model="demo:"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9464", ("127.0.0.1", 9464)),
        ("10.0.0.5:9464", ("10.0.0.5", 9464)),
        ("[::1]:0", ("::1", 0)),
        ("metrics.example:80", ("metrics.example", 80)),
    ],
)
def test_a_port_alone_is_one_of_this_machine(text, expected):
    """Otherwise HOST:PORT, with an IPv6 address in brackets. Port 0 picks a free one."""
    assert metrics_address(text) == expected
    check_options(ServeOptions(metrics=text), None)


@pytest.mark.parametrize(
    "text", ["", "h", "h:", ":80", "h:70000", "70000", "h:-1", "h:80/x", "u@h:80", "[::1:80"]
)
def test_what_is_no_address_is_refused_before_anything_is_opened(text):
    """The message shows the expected form."""
    with pytest.raises(OptionError, match=r"expected HOST:PORT, such as 127\.0\.0\.1:9464"):
        check_options(ServeOptions(metrics=text), None)


def test_without_the_extra_there_are_no_metrics(monkeypatch):
    """None instead of an `ImportError`: a server without the extra still starts."""
    assert isinstance(find_metrics(), Metrics)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert find_metrics() is None


async def test_an_application_without_metrics_has_none_to_serve():
    """The error shows how to create one with metrics, also for an application of another framework."""
    for app in (create_app(profiles=[DESK]), object()):
        with pytest.raises(OptionError, match="create_app\\(metrics=Metrics\\(\\)\\)"):
            await open_scrape(app, "127.0.0.1", 0)


async def test_the_address_serves_metrics_while_the_application_is_open(capfd):
    """Before its host is open the answer is 503. The address is printed."""
    app = create_app(profiles=[DESK], metrics=Metrics(), store=None)
    application, listeners = await open_scrape(app, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{addresses_of(listeners)[0][1]}/metrics"
    assert f"metrics {url}" in capfd.readouterr().err
    async with trio.open_nursery() as nursery, httpx.AsyncClient() as client:
        nursery.start_soon(serve_app, application, listeners, trio.sleep_forever)
        assert (await client.get(url)).status_code == 503
        async with app.state.host.open():
            answer = await client.get(url)
            assert (answer.status_code, "agentrail_sessions" in answer.text) == (200, True)
        nursery.cancel_scope.cancel()


async def test_an_address_in_use_is_refused_with_the_flag_that_changes_it():
    """`--port` would move the server, and leave the metrics where they cannot be."""
    app = create_app(profiles=[DESK], metrics=Metrics(), store=None)
    async with (await open_listeners("127.0.0.1", 0))[0] as listener:
        with pytest.raises(OptionError, match=r"cannot listen on .*; give another --metrics$"):
            await open_scrape(app, *addresses_of([listener])[0])

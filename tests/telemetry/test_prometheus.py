"""A Prometheus of the distribution scrapes a server: for a minute in CI, elsewhere for three scrapes."""

import os
from functools import partial

import httpx
import pytest
import trio
import yaml

from agentrail.gateway.metrics_routes import scrape_application
from agentrail.gateway.serving import addresses_of, open_listeners, serve_app
from agentrail.stores.postgres_private import free_ports
from agentrail.telemetry.metrics import Metrics
from agentrail.testing.models import FunctionModel, says
from tests.conftest import SERVICES
from tests.gateway.web import serving
from tests.telemetry.test_alerts import ALERTS, QUERIES, RULES

SCRAPES = 60 if os.environ.get("CI") == "true" else 3


def configured(folder, target):
    path = folder / "prometheus.yml"
    told = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [f"{ALERTS}"],
        "scrape_configs": [{"job_name": "agentrail", "static_configs": [{"targets": [target]}]}],
    }
    path.write_text(yaml.safe_dump(told), encoding="utf-8")
    return path


@pytest.mark.operation(16)
@pytest.mark.services("prometheus")
async def test_prometheus_scrapes_a_server_and_knows_every_expression(tmp_path):
    """Each scrape succeeds, each rule and each panel is evaluated, and no alert fires while sessions talk."""
    (port,) = free_ports(1)
    base = f"http://127.0.0.1:{port}/api/v1"
    with trio.fail_after(SCRAPES + 60):
        async with (
            serving(FunctionModel(lambda _request: says("Hi.")), metrics=Metrics()) as web,
            trio.open_nursery() as nursery,
        ):
            listeners = await open_listeners("127.0.0.1", 0)
            target = f"127.0.0.1:{addresses_of(listeners)[0][1]}"
            application = scrape_application(web.served.gateway)
            nursery.start_soon(serve_app, application, listeners, trio.sleep_forever)
            command = [
                SERVICES["prometheus"].with_name("prometheus"),
                f"--config.file={configured(tmp_path, target)}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=error",
            ]
            run = partial(trio.run_process, command, capture_stderr=True)
            process = await nursery.start(run)

            async def ask(path, **query):
                answer = (await web.client.get(f"{base}/{path}", params=query)).json()
                assert answer["status"] == "success", answer
                return answer["data"]

            async def value_of(expression):
                try:
                    found = (await ask("query", query=expression))["result"]
                except httpx.TransportError:  # it is not up yet
                    return 0.0
                return float(found[0]["value"][1]) if found else 0.0

            while await value_of("sum_over_time(up[10m])") < SCRAPES:  # noqa: ASYNC110 - another process
                await web.chat(session_id="main")
                await trio.sleep(0.5)
            assert await value_of("min_over_time(up[10m])") == 1
            assert await value_of('agentrail_cycles_total{outcome="ok",profile="desk"}') >= 1
            for expression in QUERIES:
                await ask("query", query=expression.replace("$__rate_interval", "1m"))
            (group,) = (await ask("rules"))["groups"]
            assert [one["name"] for one in group["rules"]] == [one["alert"] for one in RULES]
            assert {one["health"] for one in group["rules"]} == {"ok"}
            assert [one["name"] for one in group["rules"] if one["state"] == "firing"] == []
            process.terminate()
            nursery.cancel_scope.cancel()

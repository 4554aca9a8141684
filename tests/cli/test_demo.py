"""`agentrail serve --demo`: agents at work within seconds, without a key; it leaves nothing behind, and is for this machine alone."""

import re
import signal
from pathlib import Path

import httpx
import pytest
import trio

from agentrail.cli import serve_command
from agentrail.cli.demo_server import SCRIPT
from agentrail.cli.serve_command import DEMO_WORDS, check_options
from agentrail.cli.serve_options import ServeOptions
from agentrail.errors import OptionError
from agentrail.gateway.app import create_app
from agentrail.host import AgentProfile
from agentrail.runtime.session_options import SessionOptions
from agentrail.telemetry import OpenTelemetry
from tests.cli.rig import open_process


def test_it_serves_itself_and_this_machine_alone():
    """Whatever else is asked for is said, all at once."""
    check_options(ServeOptions(demo=True), None)
    with pytest.raises(OptionError) as caught:
        check_options(ServeOptions(demo=True, data_dir=Path("d"), token_file=Path("t")), "mine:app")
    assert [fault.split(":")[0] for fault in caught.value.faults] == [
        "--data-dir is for serving without an application",
        "--demo serves an application of its own",
        "--demo keeps nothing",
        "--demo is for this machine alone",
    ]
    with pytest.raises(OptionError, match="this machine alone"):
        check_options(ServeOptions(demo=True, host="0.0.0.0", token_file=Path("t")), None)  # noqa: S104 - nothing is bound


@pytest.mark.parametrize("is_named", [True, False])
def test_its_spans_are_exported_where_variables_name_a_collector(monkeypatch, capfd, is_named):
    """It says so, because it sends nothing else anywhere. Its metrics are served too."""
    served = []

    async def run_server(app, _options):
        await trio.lowlevel.checkpoint()
        served.append(app.state.host.options)

    monkeypatch.setattr(serve_command, "run_server", run_server)
    if is_named:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    serve_command.serve_demo(ServeOptions(demo=True))
    (options,) = served
    assert (options.telemetry is not None) is is_named
    assert ("its spans are exported" in capfd.readouterr().err) is is_named
    assert options.metrics is not None


def test_a_collector_that_cannot_be_used_is_refused(monkeypatch):
    """Before a directory is made."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "nonsense")
    with pytest.raises(OptionError, match="OTEL_EXPORTER_OTLP_ENDPOINT is 'nonsense'"):
        serve_command.serve_demo(ServeOptions(demo=True))


def test_an_application_that_ignores_the_collector_of_the_variables_is_told():
    """Unless it exports by itself, or is none of ours."""
    named = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces"}
    desk = AgentProfile(id="desk", name="Desk", options=SessionOptions(model="demo:"))
    bare, traced = create_app(profiles=[desk]), create_app(profiles=[desk], telemetry=OpenTelemetry())
    found = [
        serve_command.exports_nothing(app, environ)
        for app in (bare, traced, object()) for environ in (named, {})
    ]  # fmt: skip
    assert found == [True, False, False, False, False, False]


async def shown(client, fits):
    with trio.fail_after(60):
        while True:
            listed = (await client.get("/sessions?limit=50")).json()["sessions"]
            found = {one["session_id"]: one for one in listed}
            if fits(found):
                return found
            await trio.sleep(0.05)


async def fallen(client):
    """What runs behind a session, as soon as it fell over and is back."""
    with trio.fail_after(60):
        while True:
            children = (await client.get("/inspect/tree")).json()["children"]
            behind = next(one for one in children if one["id"] == "order-17")["children"]
            feed = next((one for one in behind if one["id"] == "carrier-feed"), None)
            if feed is not None and feed["exits"] and feed["status"] == "running":
                return feed
            await trio.sleep(0.1)


@pytest.mark.check
async def test_agents_are_at_work_and_things_wait_for_people_within_seconds(tmp_path):
    """Approvals, a question, a long text, sub-agents, a tool that fails, an abort; and Ctrl-C ends it, with all that it kept."""
    variables = {"TMPDIR": f"{tmp_path}", "HOME": f"{tmp_path}"}
    async with open_process("serve", "--demo", "--port", "0", **variables) as process:
        address = re.search(rb"http://\S+:\d+", await process.stdout.receive_some())[0].decode()
        async with httpx.AsyncClient(base_url=address, timeout=20) as client:
            info = (await client.get("/console/info")).json()
            assert (info["demo"], info["journal"], len(info["profiles"])) == (True, True, 3)
            waiting = {"refund-4411", "import-q3", "rounding", "clean-build"}
            found = await shown(
                client, lambda all_of: sum(all_of.get(one, {}).get("waits_for", 0) for one in waiting) == 4
            )
            assert {line.session_id for line in SCRIPT} <= set(found)
            assert found["weekly-report"]["phase"] == "streaming"
            with trio.fail_after(60):
                while True:
                    tree = (await client.get("/inspect/tree")).json()
                    if any(node["id"].startswith("compare.") for node in tree["children"]):
                        break
                    await trio.sleep(0.05)
            feed = await fallen(client)
            assert (feed["status"], feed["kind"], feed["restarts"]) == ("running", "worker", 1)
            assert "the carrier closed the connection" in feed["exits"][-1]["reason"]
            cost = (await client.get("/inspect/cost")).json()
            assert [(one["of"], one["limit_usd"]) for one in cost["day_budgets"]] == [("tenant", 20.0)]
            assert 0 < cost["day_budgets"][0]["used_usd"] < 1
            support = {one["name"]: one for one in cost["budgets"]}
            assert set(support) >= {"order-17", "order-23", "refund-4411", "import-q3"}
            assert all(0 < one["used_usd"] < one["limit_usd"] for one in support.values())
        kept = [*tmp_path.glob("agentrail-demo-*")]
        assert len(kept) == 1
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0
        said = (await process.stderr.receive_some(100_000)).decode()
    assert DEMO_WORDS in said
    assert [*tmp_path.glob("agentrail-demo-*")] == []

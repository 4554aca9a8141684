"""Who may decide, apart from who asks: the scope `decide`, the approvers of a profile, and everyone else."""

import attrs
import pytest

from agentrail.errors import OptionError, ProfileFailed
from agentrail.gateway.app import ROUTES
from agentrail.host import AgentProfile, Principal
from agentrail.host.agent_profiles import ProfileContext, check_agent_profiles, resolve_profile
from agentrail.plugins import HumanApproval
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools import builtin
from tests.gateway.attacks.test_other_peoples import OF_A_SESSION, fields_of
from tests.gateway.callers import Rows, auth, by
from tests.gateway.socket_client import socket_of
from tests.gateway.test_session_routes import ON_A_SESSION, call
from tests.gateway.web import error_of, serving
from tests.host.hosting import answering, profile

# Lea is among the approvers of the profile; tokens of the others say that they may.
DECIDERS = ("lea", "dan", "dot")
STRANGERS = ("bob", "eve", "lea2")
DECIDING = frozenset({"approve", "reject", "respond", "decline", "break_on", "unbreak"})


def asking(**options):
    """A server whose model calls a tool that needs an approval, and then asks a question."""
    model = ScriptedModel(
        [
            calls(("shell", {"command": "pay 100"})),
            says("Paid"),
            calls(("ask_user", {"question": "Which account?"})),
            says("Thanks"),
        ]
    )
    tools = [RecordingTool(name="shell"), *builtin("ask_user")]
    desk = attrs.evolve(profile(model, tools=tools, plugins=[HumanApproval]), approvers=("lea",))
    return serving(auth=auth, profiles=[desk], **options)


@pytest.mark.parametrize("name", DECIDERS)
async def test_who_may_decide_sees_and_decides_what_another_asks_and_the_decision_says_who(name):
    """The row in *Waiting*, the card, the approval, the question; each event carries the user, and the second decision names the first."""
    async with asking() as web, socket_of(web, by=name) as client:
        waiting = await Rows(client).begin("waiting")
        await web.client.post("/chat", json={"message": "Pay", "session_id": "main"}, headers=by("ann"))
        (row,) = (await waiting.until(bool)).values()
        wanted = {"approval_id": row["approval_id"]}
        path = f"/sessions/main/approvals/{row['approval_id']}"
        shown = await web.client.get(path, headers=by(name))
        assert shown.json()["arguments"] == {"command": "pay 100"}
        (await web.client.post("/sessions/main/approve", json=wanted, headers=by(name))).raise_for_status()
        late = await web.client.post("/sessions/main/reject", json=wanted, headers=by("ann"))
        decided = error_of(late, 409, "already_resolved")["decided"]
        assert (decided["how"], decided["by"], decided["user"]) == ("approved", "user", name)
        await waiting.until(lambda rows: not rows)
        await web.client.post("/chat", json={"message": "More", "session_id": "main"}, headers=by("ann"))
        (asked,) = (await waiting.until(bool)).values()
        await client.done("respond", session_id="main", ref=asked["ref"], response="the first")
        await waiting.until(lambda rows: not rows)
        kinds = "approval_resolved,user_responded"
        page = await web.client.get(f"/sessions/main/events?format=json&kinds={kinds}", headers=by("ann"))
        told = [(event["kind"], event["user"]) for event in page.json()["events"]]
        assert told == [("approval_resolved", name), ("user_responded", name)]


async def test_to_all_others_the_session_is_unknown():
    """A colleague without the right, whoever has it in another tenant, and a user of an approver's name there: 404, and no row."""
    async with asking() as web:
        await web.client.post("/chat", json={"message": "Pay", "session_id": "main"}, headers=by("ann"))
        for name in STRANGERS:
            async with socket_of(web, by=name) as client:
                assert (await Rows(client).begin("waiting")).rows == {}
                for command in DECIDING:
                    found = await client.refused(command, session_id="main", **fields_of(command))
                    assert found == (404, "session_unknown"), (name, command)
            card = await web.client.get("/sessions/main/approvals/main/a1", headers=by(name))
            error_of(card, 404, "session_unknown")


async def test_approvers_are_a_list_of_user_ids_of_a_profile_that_is_known():
    """A text would be read letter by letter, and approvers of a profile that a function finds would not see what waits."""
    one = profile(answering())
    for approvers in ("lea", ["a b"], [7], {"lea": True}, None):
        with pytest.raises(OptionError, match=r"approvers is .*expected a list of user ids"):
            AgentProfile(id="desk", name="desk", options=one.options, approvers=approvers)

    async def resolve(_context):
        return attrs.evolve(one, approvers=("lea",))

    profiles = check_agent_profiles(resolve=resolve)
    context = ProfileContext(tenant_id="acme", user_id="ann", session_id="s", agent_id="desk")
    with pytest.raises(ProfileFailed, match="tokens with the scope `decide`"):
        await resolve_profile(profiles, context)


async def test_who_may_decide_may_do_nothing_else_with_the_session_of_another():
    """Each command but those that decide, and each route: unknown as ever, or forbidden where the token may not use it at all."""
    open_to_deciders = {
        (route.method, route.path.rpartition("{session_id}")[2]) for route in ROUTES if route.also
    }
    deciding = {("POST", f"/{name}") for name in ("approve", "reject", "respond")}
    stops = {("POST", "/breakpoints"), ("DELETE", "/breakpoints/{tool}")}
    assert open_to_deciders == {*deciding, *stops, ("GET", "/approvals/{approval:path}")}
    refused = {(404, "approval_unknown"), (404, "rule_unknown"), (422, "option_error")}
    desk = attrs.evolve(profile(answering()), approvers=("lea",))
    async with serving(auth=auth, profiles=[desk], store=MemoryStore()) as web:
        made = await web.client.post("/sessions", json={"session_id": "main"}, headers=by("ann"))
        made.raise_for_status()
        for name in DECIDERS:
            async with socket_of(web, by=name) as client:
                for command in OF_A_SESSION:
                    found = await client.refused(command, session_id="main", **fields_of(command))
                    expected = refused
                    if command not in DECIDING:
                        expected = {(404, "session_unknown"), (403, "forbidden")}
                    assert found in expected, (name, command)
            for route in ON_A_SESSION:
                answer = await call(web, route, "main", by(name))
                if route.also == "decide":
                    assert (answer.status_code, answer.json()["error"]["code"]) in refused, route
                else:
                    assert answer.status_code in (403, 404), route
                    assert answer.json()["error"]["code"] in ("session_unknown", "forbidden"), route


@pytest.mark.operation(14)
async def test_an_operator_sets_a_breakpoint_in_the_session_of_another_and_a_reader_may_not():
    """Who may decide sets it, sees whose it is on the card, and ends it; the scope `inspect` finds no such session."""
    tool = RecordingTool(name="shell")
    turns = [
        calls(("shell", {"command": "ls"})),
        says("Done"),
        calls(("shell", {"command": "ls"})),
        says("Done"),
    ]
    desk = profile(ScriptedModel(turns), tools=[tool])
    async with serving(auth=auth, profiles=[desk]) as web:
        made = await web.client.post("/sessions", json={"session_id": "main"}, headers=by("ann"))
        made.raise_for_status()
        path = "/sessions/main/breakpoints"
        for name in STRANGERS:
            refused = await web.client.post(path, json={"tool": "shell"}, headers=by(name))
            error_of(refused, 404, "session_unknown")
        error_of(await web.client.post(path, json={}, headers=by("looks")), 403, "forbidden")
        error_of(await web.client.post(path, json={"tool": "shel"}, headers=by("dan")), 422, "option_error")
        assert (await web.client.post(path, json={"tool": "shell"}, headers=by("dan"))).status_code == 204
        await web.client.post("/chat", json={"message": "Go", "session_id": "main"}, headers=by("ann"))
        shown = await web.client.get("/sessions/main", headers=by("ann"))
        (approval,) = shown.json()["status"]["approvals"]
        assert (approval["by"], tool.calls) == ("operator", [])
        card = await web.client.get(f"/sessions/main/approvals/{approval['id']}", headers=by("dan"))
        assert card.json()["by"] == "operator"
        (rule,) = (await web.client.get("/sessions/main/rules", headers=by("ann"))).json()["rules"]
        assert (rule["breaks"], rule["words"]) == (True, "breakpoint: every call of shell needs an approval")
        wanted = {"approval_id": approval["id"], "arguments": {"command": "ls -l"}}
        edited = await web.client.post("/sessions/main/approve", json=wanted, headers=by("dan"))
        edited.raise_for_status()
        assert (await web.client.delete(f"{path}/*", headers=by("dan"))).status_code == 204
        error_of(await web.client.delete(f"{path}/shell", headers=by("dan")), 404, "rule_unknown")
        dan = Principal(tenant_id="acme", user_id="dan", scopes={"use", "decide"})
        await web.host.break_on("main", dan, "shell")
        await web.host.unbreak("main", dan)
        ended = await web.client.post(
            "/chat", json={"message": "Go", "session_id": "main"}, headers=by("ann")
        )
        assert ended.json()["text"] == "Done"
    assert tool.calls == [{"command": "ls -l"}, {"command": "ls"}]

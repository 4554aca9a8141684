"""The page of the interface: it names every route, every schema is one, and what is really read and written is as it says."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator, ValidationError

from agentrail.core.wire.codec import encode_event
from agentrail.events import AgentStart
from agentrail.gateway.app import ALL_ROUTES
from agentrail.gateway.error_responses import ERROR_ANSWERS
from agentrail.gateway.request_bodies import OpenBody
from agentrail.host.identity import fault_of_name, fault_of_session_id
from agentrail.host.quotas import Limits
from agentrail.messages import PromptRef
from agentrail.stores.memory import MemoryStore
from tests.gateway.interface import page, referred, validator_for
from tests.gateway.web import serving
from tests.host.hosting import answering
from tests.runtime.rig import on_bounded_time

PLENTY = Limits(calls_per_minute=100_000, calls_burst=100_000)
GOLDEN = Path(__file__).parents[2] / "docs" / "reference" / "openapi.json"


@pytest.mark.host("H-113")
def test_the_page_is_the_one_that_was_released():
    """A change that breaks clients is seen here, and stands in the changelog. `make docs` draws it anew."""
    assert json.loads(GOLDEN.read_text(encoding="utf-8")) == page()


def test_every_route_is_on_the_page_and_nothing_else():
    """With its body, its query and its answers; a route with a table row of its own has one in vain nowhere."""
    told = {(method.upper(), path) for path, methods in page()["paths"].items() for method in methods}
    known = {(route.method, route.path.replace(":path}", "}")) for route in ALL_ROUTES}
    assert told == known | {("GET", "/openapi.json"), ("GET", "/ws")}
    assert [route for route in ALL_ROUTES if route.replies is None] == []
    for route in ALL_ROUTES:
        operation = page()["paths"][route.path.replace(":path}", "}")][route.method.lower()]
        named = [one["name"] for one in operation["parameters"] if one["in"] != "header"]
        assert named == [*re.findall(r"\{(\w+)", route.path), *route.query]
        assert f"{route.success}" in operation["responses"]
        assert ("requestBody" in operation) == (route.body is not None)
        assert ("security" in operation) == (route.scope is not None)


def test_every_schema_is_one_and_every_operation_has_a_name():
    """References exist, fields of bodies are explained, and names of operations are unique and without repeated segments."""
    schemas = page()["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    assert referred(page()) <= set(schemas)
    bodies = {one.body for one in ALL_ROUTES if one.body is not None and one.is_described}
    assert len(bodies) > 15
    for body in bodies:
        schema = schemas[body.__name__]
        assert issubclass(body, OpenBody) or set(schema["properties"]) == set(body.__struct_fields__)
        assert all("description" in one for one in schema["properties"].values()), body
    operations = [one for methods in page()["paths"].values() for one in methods.values()]
    assert all(re.fullmatch(r"[a-z]+(_[a-z0-9]+)+", one["operationId"]) for one in operations)
    named = {one["operationId"] for one in operations}
    assert len(operations) == len(named)
    assert {"get_session", "get_sessions", "post_session_prompt", "delete_session_rule", "get_root"} <= named
    assert all(len(one["tags"]) == 1 for one in operations)
    assert {"chat", "sessions", "inspect", "server"} <= {tag for one in operations for tag in one["tags"]}


OF_NO_ROUTE = frozenset(
    {
        "route_unknown",
        "method_not_allowed",
        "unknown_tool",
        "cycle_ended",
        "event_missed",
        "plan_error",
        "stop_not_written",
        "cycle_waiting",
    }
)
"""Codes of calls that match no route, and of errors in sessions that no route caused."""


def test_each_code_of_the_table_is_one_of_some_route():
    """What a caller can be told stands with its status; what is ours is `internal` everywhere; and no row is named that is none."""
    told = {
        (int(status), code)
        for methods in page()["paths"].values()
        for operation in methods.values()
        for status, answer in operation["responses"].items()
        for code in answer.get("x-codes", ())
    }
    known = {(row.status, row.code or code) for code, row in ERROR_ANSWERS.items()}
    assert {code for _, code in known - told} <= OF_NO_ROUTE
    # A budget that was spent, and a profile as the OpenAI API calls it.
    assert told - known == {(409, "cycle_failed"), (404, "model_not_found")}
    assert set(ERROR_ANSWERS) >= OF_NO_ROUTE


_IDS = st.text(alphabet="aZ0._:-@+ /\n", max_size=8) | st.sampled_from(
    ["a" * 128, "a" * 129, "a..b", "a.", ".a"]
)


@given(_IDS)
def test_an_id_is_one_on_the_page_just_where_it_is_one_here(name: str):
    """The pattern says in one expression what the rules say in two; of sessions and of all other names."""
    body = page()["components"]["schemas"]["ChatBody"]["properties"]
    for field, fault_of in (("session_id", fault_of_session_id), ("agent_id", fault_of_name)):
        is_one = validator_for(body[field]).is_valid(name)
        assert is_one == (fault_of(field, name) is None) or name.endswith(
            "\n"
        )  # `$` of Python's, not of the standard's


@pytest.mark.check
@on_bounded_time
async def test_what_stands_in_a_query_is_read_as_the_page_says():
    """At both ends of each range, and with each word; what is beyond is refused."""
    async with serving(answering(*["Hi"] * 9), limits=PLENTY, store=MemoryStore()) as web:
        await web.chat(session_id="main")
        tried = 0
        for path, methods in page()["paths"].items():
            if path.startswith("/a2a"):  # off by default, and read by the types of its library
                continue
            for one in methods.get("get", {"parameters": []})["parameters"]:
                if one["in"] != "query":
                    continue
                good, bad = _edges(one["schema"])
                # A value in its range may name a record, an event or a call that is not there, and then says nothing of the page.
                can_miss = (
                    path.endswith(
                        ("/events", "/trace", "/state", "/explain", "_id}", "/callback", "{server}")
                    )
                    or "{response}" in path
                    or one["name"].endswith("_id")
                )
                refused = {400, 404, 422} if path.endswith(("_id}", "{response}")) else {400, 422}
                tries = [] if can_miss else [(value, range(200, 400)) for value in good]
                for value, expected in (*tries, *[(value, refused) for value in bad]):
                    response = await web.client.get(
                        path.replace("{session_id}", "main"), params={one["name"]: value}
                    )
                    assert response.status_code in expected, (path, one, value, response.text)
                    tried += 1
        assert tried > 150


def _edges(schema: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Values that just pass, and values that just do not."""
    match schema:
        case {"type": "integer", "minimum": least, "maximum": most}:
            return [least, most], [least - 1, most + 1, "x", "1.5"]
        case {"enum": words}:
            return words, ["dreaming", ""]
        case {"pattern": pattern} if "~" in pattern:
            return ["0~a"], ["a", "~", "1~"]
        case {"pattern": _} if "maxLength" not in schema:
            return ["2026-11-01", "7d"], ["", "x", "0d", "2026-13-01"]
        case {"pattern": _, "maxLength": most}:
            return ["a", "a" * most], ["", "~", "a..b", "a" * (most + 1)]
        case {"type": "boolean"}:
            return ["true", "false"], ["", "yes"]
        case {"type": "string", "maxLength": most}:
            return ["", "x" * most], ["x" * (most + 1)]
        case {"type": "string", "default": usual}:
            return [usual], []
        case _:
            return [""], []


def test_the_schemas_have_teeth():
    """An unknown field, a missing one and a wrong type do not pass."""
    for name, good, bad in (
        ("AbortBody", {"reason": None}, {"reasons": "x"}),
        ("ApproveBody", {"approval_id": "a"}, {"approval_id": 1}),
        ("RespondBody", {"ref": "q", "response": 1}, {"ref": "q"}),
        ("ErrorReply", {"error": {"code": "a", "message": "b", "hint": None}}, {"error": {"code": "a"}}),
        ("Event", json.loads(encode_event(AgentStart(ref=PromptRef("p")))), {"kind": "dreamt"}),
    ):
        validator = validator_for({"$ref": f"#/components/schemas/{name}"})
        validator.validate(good)
        with pytest.raises(ValidationError):
            validator.validate(bad)

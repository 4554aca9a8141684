"""The page of the interface: it names every route, every schema is one, and what is really read and written is as it says."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from agentrail.core.wire.codec import encode_event
from agentrail.events import AgentStart
from agentrail.gateway.app import ROUTES
from agentrail.gateway.bodies import BODIES
from agentrail.gateway.openapi import REPLIES
from agentrail.messages import PromptRef
from tests.gateway.interface import page, validator_for
from tests.gateway.web import serving
from tests.host.hosting import answering
from tests.runtime.rig import on_bounded_time

GOLDEN = Path(__file__).parents[2] / "docs" / "reference" / "openapi.json"


@pytest.mark.host("H-113")
def test_the_page_is_the_one_that_was_released():
    """A change that breaks clients is seen here, and stands in the changelog. `make docs` draws it anew."""
    assert json.loads(GOLDEN.read_text(encoding="utf-8")) == page()


@on_bounded_time
async def test_the_page_is_served_without_a_token():
    """It is the same as the one that was released, but for the path that all stand below."""
    async with serving(answering(), auth=lambda _: None) as web:
        response = await web.client.get("/openapi.json")
        assert (response.status_code, response.json()) == (200, page())
    async with serving(answering(), base_path="/agents") as web:
        paths = (await web.client.get("/agents/openapi.json")).json()["paths"]
        assert {path.removeprefix("/agents") for path in paths} == set(page()["paths"])


def test_every_route_is_on_the_page_and_nothing_else():
    """With its body, its query and its answers; a route with a table row of its own has one in vain nowhere."""
    told = {(method.upper(), path) for path, methods in page()["paths"].items() for method in methods}
    known = {(route.method, route.path.replace(":path}", "}")) for route in ROUTES}
    assert told == known | {("GET", "/openapi.json"), ("GET", "/ws")}
    assert set(REPLIES) == {(route.method, route.path) for route in ROUTES}
    for route in ROUTES:
        operation = page()["paths"][route.path.replace(":path}", "}")][route.method.lower()]
        named = [one["name"] for one in operation["parameters"] if one["in"] != "header"]
        assert named == [*re.findall(r"\{(\w+)", route.path), *route.query]
        assert f"{route.success}" in operation["responses"]
        assert ("requestBody" in operation) == (route.body is not None)
        assert ("security" in operation) == (route.scope is not None)


def test_every_schema_is_one_and_is_there():
    """What is referred to exists; names of operations are said once; each field of a body is explained."""
    schemas = page()["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    referred = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(page())))
    assert referred <= set(schemas)
    names = [one["operationId"] for methods in page()["paths"].values() for one in methods.values()]
    assert len(names) == len(set(names))
    for body in BODIES:
        schema = schemas[body.__name__]
        assert set(schema["properties"]) == set(body.__struct_fields__)
        assert all("description" in one for one in schema["properties"].values()), body


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("AbortBody", {"reason": None}, {"reasons": "x"}),
        ("ApproveBody", {"approval_id": "a"}, {"approval_id": 1}),
        ("RespondBody", {"ref": "q", "response": 1}, {"ref": "q"}),
        ("ErrorReply", {"error": {"code": "a", "message": "b", "hint": None}}, {"error": {"code": "a"}}),
        ("Event", json.loads(encode_event(AgentStart(ref=PromptRef("p")))), {"kind": "dreamt"}),
    ],
)
def test_the_schemas_have_teeth(name: str, good: dict[str, Any], bad: dict[str, Any]):
    """An unknown field, a missing one and a wrong type do not pass."""
    validator = validator_for({"$ref": f"#/components/schemas/{name}"})
    validator.validate(good)
    with pytest.raises(ValidationError):
        validator.validate(bad)

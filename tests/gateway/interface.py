"""Holds each request and each answer of a client against the page of the interface."""

import json
import re
from functools import cache
from typing import Any

import httpx
from jsonschema import Draft202012Validator

from agentrail.gateway.app import ALL_ROUTES
from agentrail.gateway.openapi import describe_interface, interface_route
from tests.gateway.web import Web


@cache
def page() -> dict[str, Any]:
    """The page of all routes."""
    drawn: dict[str, Any] = json.loads(
        json.dumps(describe_interface((*ALL_ROUTES, interface_route(ALL_ROUTES))))
    )
    return drawn


@cache
def validator_of(schema: str) -> Draft202012Validator:
    """What holds values against a schema of the page, given as JSON."""
    return Draft202012Validator({**json.loads(schema), "components": page()["components"]})


def validator_for(schema: Any) -> Draft202012Validator:
    """What holds values against a schema of the page."""
    return validator_of(json.dumps(schema))


def operation_of(request: httpx.Request) -> dict[str, Any] | None:
    """What the page says of a call; None where it knows none."""
    path = request.url.raw_path.decode().partition("?")[0]
    for known, methods in page()["paths"].items():
        pattern = re.sub(r"\{path\}", ".+", known)
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path) and request.method.lower() in methods:
            found: dict[str, Any] = methods[request.method.lower()]
            return found
    return None


async def check_response(response: httpx.Response) -> None:
    """Hold a call that was answered against the page."""
    operation = operation_of(response.request)
    if operation is None:
        return
    await response.aread()
    answers = operation["responses"]
    said = answers.get(f"{response.status_code}", answers["default"])
    assert response.is_error or f"{response.status_code}" in answers, (response.status_code, operation)
    content = said.get("content", {})
    if "application/json" in content:
        validator_for(content["application/json"]["schema"]).validate(response.json())
    else:
        assert not content or response.headers["content-type"] in content
    if response.is_success and "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        validator_for(schema).validate(json.loads(response.request.content))


def hold_against_the_page(web: Web) -> None:
    """Let every later call of a client that is no stream be checked."""
    web.client.event_hooks = {"response": [check_response]}

"""Errors of third-party protocols: our code is in each, and the rest follows from its status."""

import pytest

from agentrail.gateway.error_responses import ERROR_ANSWERS
from agentrail.protocols.error_shapes import json_rpc_error, openai_error


@pytest.mark.parametrize(
    ("code", "kind", "number"),
    [
        ("bad_json", "invalid_request_error", -32700),
        ("field_invalid", "invalid_request_error", -32602),
        ("too_large", "invalid_request_error", -32602),
        ("method_not_allowed", "invalid_request_error", -32601),
        ("session_unknown", "invalid_request_error", -32002),
        ("already_resolved", "invalid_request_error", -32600),
        ("unauthorized", "authentication_error", -32600),
        ("forbidden", "permission_error", -32600),
        ("queue_full", "rate_limit_error", -32600),
        ("internal", "server_error", -32603),
        ("draining", "server_error", -32603),
    ],
)
def test_each_shape_follows_from_the_status_of_our_table(code, kind, number):
    """A program finds our code in the same place of each protocol."""
    status = ERROR_ANSWERS[code].status
    shaped = {"message": "no", "type": kind, "param": "model", "code": code}
    assert openai_error(code, "no", status, param="model") == {"error": shaped}
    assert json_rpc_error(code, "no", status) == {"code": number, "message": "no", "data": {"code": code}}


def test_details_for_programs_stand_beside_the_code():
    """And cannot replace it."""
    found = json_rpc_error("field_invalid", "no", 422, more={"field": "cwd", "code": "x"})
    assert found["data"] == {"field": "cwd", "code": "field_invalid"}

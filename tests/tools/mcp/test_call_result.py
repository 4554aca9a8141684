"""Results of calls at an MCP server, folded into what a session keeps."""

import base64
import math

import pytest

from agentrail.abc import Error, Ok
from agentrail.messages import Image
from agentrail.tools.mcp import McpServer
from agentrail.tools.mcp.call_result import (
    absent_server,
    fold_result,
    listed_resources,
    lost_call,
    refused_call,
)
from agentrail.tools.mcp.tool_listing import read_listing

DATA = base64.b64encode(b"hello").decode()
SERVER = McpServer("s", command=["s"])


def fold(content=(), schema=None, **fields):
    """Fold a result of the tool `t`, whose results have a schema or none."""
    raw = {"name": "t", "inputSchema": {}, **({} if schema is None else {"outputSchema": schema})}
    (tool,) = read_listing(SERVER, [raw]).tools.values()
    return fold_result(
        {"content": list(content), **fields}, tool, call_id="c1", read_with="mcp__s__read_resource"
    )


@pytest.mark.protocol(1)
@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([], ""),
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "one\n\ntwo"),
        ([{"type": "resource", "resource": {"uri": "x:y", "text": "inside"}}], "inside"),
        (
            [{"type": "resource_link", "name": "log\u202e", "uri": "file:///log"}],
            "[resource log: file:///log; read it with mcp__s__read_resource]",
        ),
        ([{"type": "hologram"}, "no block"], "[a block of type hologram, which cannot be shown]"),
        (
            [{"type": "image", "data": "?", "mimeType": "image/png"}],
            "[an image that image 0 of a result has data",
        ),
        ([{"type": "audio", "data": "?", "mimeType": "audio/wav"}], "[audio/wav, whose data is no base64]"),
        (
            [{"type": "image", "data": DATA, "mimeType": "text/html"}],
            "[an image that image 0 of a result has the media type",
        ),
    ],
)
def test_blocks_become_text(content, text):
    """11.4: blocks are joined by a blank line."""
    outcome = fold(content).outcome
    assert isinstance(outcome, Ok)
    assert outcome.text.startswith(text)
    assert outcome.text == text or text.startswith("[an image")


@pytest.mark.protocol(1)
def test_images_are_images_and_other_bytes_are_files():
    """11.4: a file below `.agentrail/mcp/`, named in the text with type and size."""
    folded = fold(
        [
            {"type": "image", "data": DATA, "mimeType": "image/png"},
            {"type": "audio", "data": DATA, "mimeType": "audio/mpeg"},
            {"type": "resource", "resource": {"uri": "x:y", "blob": DATA}},
        ]
    )
    assert folded.outcome == Ok(
        text="[audio/mpeg, 5 bytes, in .agentrail/mcp/c1-1.mp3]\n\n"
        "[application/octet-stream, 5 bytes, in .agentrail/mcp/c1-2.bin]",
        images=(Image(media_type="image/png", data=DATA),),
    )
    assert [(one.name, one.data) for one in folded.files] == [("c1-1.mp3", b"hello"), ("c1-2.bin", b"hello")]


def test_an_eleventh_and_a_huge_image_are_files():
    """K4: ten of 5 MiB."""
    large = base64.b64encode(bytes((5 << 20) + 1)).decode()
    small = [{"type": "image", "data": DATA, "mimeType": "image/png"}] * 11
    folded = fold([{"type": "image", "data": large, "mimeType": "image/jpeg"}, *small])
    assert isinstance(folded.outcome, Ok)
    assert len(folded.outcome.images) == 10
    assert [len(one.data) for one in folded.files] == [(5 << 20) + 1, 5]


@pytest.mark.protocol(1)
def test_structured_content_is_details_and_the_text_if_there_is_none():
    """11.4."""
    assert fold(structuredContent={"a": 1}).outcome == Ok(text='{"a":1}', details={"a": 1})
    said = fold([{"type": "text", "text": "one"}], structuredContent={"a": 1}).outcome
    assert said == Ok(text="one", details={"a": 1})


@pytest.mark.protocol(13)
@pytest.mark.parametrize(
    ("schema", "structured", "details"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {"a": 1}, "does not fit"),
        (
            {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}},
            {"a": "a" * 5_000 + "!"},
            "does not fit",
        ),
        ({"$ref": "https://evil.example/schema"}, {"a": 1}, None),
        ({"type": "no such type"}, {"a": 1}, None),
    ],
)
def test_a_misfit_is_a_note_and_a_schema_that_cannot_be_used_judges_nothing(schema, structured, details):
    """P-013: an exploding pattern costs no time, and nothing is fetched."""
    found = fold(schema=schema, structuredContent=structured).outcome.details
    if details is None:
        assert found == structured
    else:
        assert found["structured"] == structured
        assert details in found["note"]


@pytest.mark.parametrize(
    "number", [math.nan, math.inf, -math.inf, 10**4_000], ids=["nan", "inf", "-inf", "long"]
)
def test_numbers_that_json_does_not_have_leave_details_out(number):
    """The library reads them in an answer over HTTP. The tool did not crash because of them."""
    outcome = fold([{"type": "text", "text": "t"}], structuredContent={"a": [number]}).outcome
    assert isinstance(outcome, Ok)
    assert "left out: $.a[0] is " in outcome.details["note"]


def test_details_that_a_session_cannot_keep_are_left_out():
    """Too deep, or too large: the text has them all the same."""
    deep = []
    for _ in range(300):
        deep = [deep]
    assert "left out" in fold(structuredContent={"a": deep}).outcome.details["note"]


def test_an_error_is_an_error():
    """`isError`."""
    assert fold([{"type": "text", "text": "no"}], isError=True).outcome == Error(text="no")
    assert fold(isError=True).outcome == Error(text="The tool failed and did not say why.")


def test_answers_without_a_result_say_what_to_do():
    """11.4, word by word."""
    assert str(refused_call(-32602, "x" * 2_000)).startswith("The server refused the call (-32602): xxx")
    assert len(str(refused_call(1, "x" * 2_000))) == 1_000
    assert str(lost_call("s")) == (
        'The server "s" went away during this call. It may have taken effect; check before repeating.'
    )
    assert str(absent_server("s", "restarting")) == 'The server "s" is restarting; try again later.'
    assert str(absent_server("s", "parked")) == 'The server "s" was switched off after 6 crashes.'
    assert str(absent_server("s", "needs_login")) == 'The server "s" needs a login: agentrail mcp login s'


@pytest.mark.parametrize(
    ("resources", "text"),
    [
        ([], "There are no resources."),
        (
            [
                {"uri": "a:b", "name": "A\u202e", "mimeType": "text/plain"},
                {"uriTemplate": "a:{b}", "name": "B"},
            ],
            "a:b · A · text/plain\na:{b} · B",
        ),
    ],
)
def test_resources_are_lines(resources, text):
    """Addresses, names and types, without what is invisible."""
    assert listed_resources(resources) == {"content": [{"type": "text", "text": text}]}


def test_of_many_resources_the_first_are_listed():
    """A list without end fills no context."""
    (block,) = listed_resources([{"uri": f"a:{n}"} for n in range(3_000)])["content"]
    assert block["text"].endswith("a:999\n[2,000 more are left out]")

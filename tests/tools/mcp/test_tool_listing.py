"""Names, texts, schemas and digests of the tools that a server lists, and the difference of two lists."""

import json
import re

import pytest
from hypothesis import given, strategies as st

from agentrail.errors import OptionError
from agentrail.tools.mcp import McpServer
from agentrail.tools.mcp.tool_listing import (
    MAX_DESCRIPTION_BYTES,
    MAX_TOOLS,
    ServerTools,
    cleaned,
    decide_change,
    pin_of,
    read_listing,
    session_name,
)

SERVER = McpServer("files", command=["files"])
OBJECT = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def raw(name="read", **fields):
    """Return a tool as a server describes it."""
    return {"name": name, "description": "Reads.", "inputSchema": OBJECT, **fields}


def only(server=SERVER, **fields):
    """Read a list of one tool."""
    (tool,) = read_listing(server, [raw(**fields)]).tools.values()
    return tool


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("read_file", "mcp__files__read_file"),
        ("a-b", "mcp__files__a-b"),
        ("a.b", "mcp__files__a_b_ad803fad"),
        ("a/b", "mcp__files__a_b_7273b37e"),
        ("x" * 52, f"mcp__files__{'x' * 52}"),
        ("x" * 53, f"mcp__files__{'x' * 43}_e20f39be"),
    ],
)
def test_a_name_is_kept_or_cut_with_a_hash_of_the_full_name(tool, name):
    """11.4: where a character became `_`, or there are over 64, a hash tells equal beginnings apart."""
    assert session_name("files", tool) == name


@given(st.lists(st.text(min_size=1, max_size=90), unique=True, max_size=6))
def test_two_tools_never_share_a_name_and_no_name_depends_on_the_others(names):
    """P-008: names are stable over orders."""
    found = [session_name("s", name) for name in names]
    assert len(set(found)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", one) for one in found)


@pytest.mark.protocol(8)
def test_a_name_of_80_characters_and_a_name_of_two_servers_are_both_listed():
    """P-008."""
    long = "y" * 80
    one = read_listing(McpServer("a", command=["a"]), [raw("same"), raw(long)]).tools
    other = read_listing(McpServer("b", command=["b"]), [raw(long), raw("same")]).tools
    assert len({*one, *other}) == 4
    assert set(one) == {"mcp__a__same", session_name("a", long)}


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Reads\u200b a\u202e file.\x00\x1b[31m", "Reads a file.[31m"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\ufeff\u2066hidden\u2069", "hidden"),
        ("x" * 1_000_000, "x" * MAX_DESCRIPTION_BYTES),
        ("ä" * 4_000, "ä" * 2_048),
        ("half \ud800 pair", "half  pair"),
    ],
)
def test_a_description_is_cleaned_and_cut(said, shown):
    """11.4, 11.13: control, zero-width and bidirectional characters are removed; at most 4 KB are left."""
    assert cleaned(said) == shown
    assert only(description=said).description == shown


@pytest.mark.parametrize(
    ("fields", "description"),
    [
        ({"description": None}, "The tool read of the server files."),
        ({"description": "", "title": "Read it"}, "Read it"),
    ],
)
def test_a_tool_without_a_description_gets_one(fields, description):
    """A session refuses a tool without one, and a server may leave it out."""
    assert only(**fields).description == description


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ("text", "is not an object"),
        ({"type": "string"}, "has type 'string', expected 'object'"),
        (
            {"type": "object", "properties": {"x": {"$ref": "https://evil.example/s"}}},
            "references are not fetched",
        ),
        ({"type": "object", "properties": {"x": {"type": 7}}}, "is not draft 2020-12"),
        ({"type": "object", "properties": {f"p{n}": {} for n in range(20_000)}}, "parts"),
    ],
)
def test_a_schema_that_cannot_be_used_drops_its_tool_and_no_other(schema, fault):
    """11.4: the fault is told with the tool's name."""
    listing = read_listing(SERVER, [raw("bad", inputSchema=schema), raw("good")])
    assert list(listing.tools) == ["mcp__files__good"]
    (said,) = listing.faults
    assert "'bad' is left out" in said
    assert fault in said


def test_a_schema_without_a_type_is_one_of_an_object():
    """Some servers send `{}` for a tool without arguments."""
    assert only(inputSchema={}).parameters == {"type": "object"}


def test_of_5_000_tools_the_first_1_000_are_used_and_of_two_of_one_name_the_first():
    """11.3, 11.13."""
    listing = read_listing(SERVER, [raw("a", title="first"), raw("a"), *[raw(f"t{n}") for n in range(5_000)]])
    assert len(listing.tools) == MAX_TOOLS
    assert listing.tools["mcp__files__a"].label == "first"
    assert listing.faults == (
        "'a' is listed twice, the first one counts",
        "4,001 tools beyond the first 1,000 are left out",
    )


def test_only_wanted_tools_are_listed():
    """`tools` takes names and patterns."""
    server = McpServer("files", command=["files"], tools=["search", "read_*"])
    listing = read_listing(server, map(raw, ("search", "read_a", "read_b", "write", "unsearch")))
    assert [one.remote_name for one in listing.tools.values()] == ["search", "read_a", "read_b"]


@pytest.mark.protocol(9)
@pytest.mark.parametrize(
    ("options", "hints", "effect"),
    [
        ({}, {"readOnlyHint": True}, "once"),
        ({"hints": "trust"}, {"readOnlyHint": True}, "pure"),
        ({"hints": "trust"}, {"idempotentHint": True}, "idempotent"),
        ({"hints": "trust"}, {"readOnlyHint": "yes"}, "once"),
        ({"hints": "trust"}, "no object", "once"),
        ({"effects": {"read": "pure"}}, {}, "pure"),
        ({"effects": {"read": "once"}, "hints": "trust"}, {"readOnlyHint": True}, "once"),
    ],
)
def test_a_hint_counts_only_where_it_is_trusted(options, hints, effect):
    """11.4: a hint is the server's word."""
    server = McpServer("files", command=["files"], **options)
    assert only(server, annotations=hints).effect_class == effect


@pytest.mark.protocol(16)
@pytest.mark.parametrize("field", ["name", "description", "inputSchema", "annotations"])
def test_the_digest_covers_what_a_user_agreed_to(field):
    """P-016: name, description, schema and hints."""
    one = {"name": "a", "description": "b", "inputSchema": {"type": "object"}, "annotations": {}}
    assert pin_of(one) == pin_of(json.loads(json.dumps(dict(reversed(one.items())))))
    assert pin_of(one) != pin_of({**one, field: {"readOnlyHint": True}})


@pytest.mark.parametrize("described", [None, "", "\u200b", ["a"]])
def test_the_digest_covers_a_title_that_stands_for_the_description(described):
    """Otherwise a server could change what the model reads of a tool, and no pin would tell."""
    one = {"name": "a", "inputSchema": {"type": "object"}, "description": described}
    assert only(SERVER, **{**one, "title": "Else."}).description == "Else."
    assert len({pin_of(one), pin_of({**one, "title": "First."}), pin_of({**one, "title": "Else."})}) == 3
    told = {**one, "description": "b"}
    assert pin_of(told) == pin_of({**told, "title": "First."})


def test_a_change_names_new_changed_and_removed_tools_once():
    """An equal list changes nothing, and a fault is told once."""
    old = read_listing(SERVER, [raw("kept"), raw("changed"), raw("gone"), raw("bad", inputSchema=0)])
    again = read_listing(SERVER, [raw("gone"), raw("kept"), raw("changed"), raw("bad", inputSchema=0)])
    assert decide_change(old, again) == decide_change(ServerTools(), ServerTools())
    new = read_listing(
        SERVER, [raw("kept"), raw("changed", description="Else."), raw("new"), raw("bad", inputSchema=0)]
    )
    change = decide_change(old, new)
    assert [one.remote_name for one in change.attach] == ["changed", "new"]
    assert (change.detach, change.faults) == (("mcp__files__gone",), ())
    assert decide_change(old, read_listing(SERVER, [raw("kept", outputSchema={})])).attach


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"command": ["x"], "name": "Up"}, "1 to 32"),
        ({"command": ["x"], "name": "a" * 33}, "1 to 32"),
        ({}, "either command"),
        ({"command": ["x"], "url": "https://a.example"}, "not both"),
        ({"command": "x"}, "expected a program"),
        ({"command": ["x", "a\0b"]}, "without NUL"),
        ({"url": "ftp://a.example"}, "expected https"),
        ({"url": "http://a.example"}, "only https"),
        ({"url": "https://u:p@a.example"}, "with a secret"),
        ({"url": "https://a.example:port"}, "expected https"),
        ({"command": ["x"], "tools": "read"}, "names or patterns"),
        ({"command": ["x"], "hints": "yes"}, "ignore, trust"),
        ({"command": ["x"], "effects": {"a": "safe"}}, "pure, idempotent or once"),
        ({"command": ["x"], "connect_timeout": 0}, "above 0"),
        ({"command": ["x"], "timeout_seconds": 10**400}, "above 0"),
        ({"command": ["x"], "timeout_seconds": 1e306}, "above 0"),
        ({"command": ["x"], "env": {"A": 1}}, "texts or secrets"),
    ],
)
def test_wrong_options_are_refused(given, fault):
    """11.13: an `OptionError` with the option."""
    with pytest.raises(OptionError, match=re.escape(fault)):
        McpServer(given.pop("name", "files"), **given)


@pytest.mark.parametrize(
    "url", ["http://localhost:1/mcp", "http://127.0.0.1/x", "http://[::1]:8/x", "https://a.example/x"]
)
def test_https_and_loopback_are_accepted(url):
    """11.3."""
    assert McpServer("web", url=url).url == url


def test_a_server_with_resources_has_two_more_tools():
    """11.4: they are ours, with our schema; a tool of the server of one name is the second."""
    listing = read_listing(SERVER, [raw(), raw("read_resource")], has_resources=True)
    assert {name: one.is_ours for name, one in listing.tools.items()} == {
        "mcp__files__list_resources": True,
        "mcp__files__read_resource": True,
        "mcp__files__read": False,
    }
    assert listing.faults == ("'read_resource' is listed twice, the first one counts",)
    assert listing.tools["mcp__files__read_resource"].parameters["required"] == ["uri"]
    narrow = McpServer("files", command=["files"], tools=["read"])
    assert list(read_listing(narrow, [raw()], has_resources=True).tools) == ["mcp__files__read"]


class _Counted(str):
    """A fault that counts how often it is compared."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        type(self).compared += 1
        return str.__eq__(self, other)


def test_faults_of_two_lists_are_not_compared_each_with_each():
    """A server may list a hundred pages of tools that cannot be used, and change its list: the loop would stand for hours."""
    old, new = (
        ServerTools(faults=tuple(_Counted(f"{one}{number}") for number in range(500))) for one in "ab"
    )
    assert decide_change(old, new).faults == new.faults
    assert _Counted.compared < 5_000

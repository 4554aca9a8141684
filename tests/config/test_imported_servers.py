"""MCP servers in JSON files of other programs, as our tables: with places, notes and faults (11.3)."""

import json

import pytest
from hypothesis import given, strategies as st

from agentrail.config.config_file import stays_below
from agentrail.config.imported_servers import read_mcp_json
from agentrail.config.structure import structure_server


def read(entries, key="mcpServers"):
    """Read a file with these servers."""
    return read_mcp_json(".mcp.json", json.dumps({key: entries}, indent=1))


@pytest.mark.parametrize(
    ("entry", "table"),
    [
        ({"command": "npx", "args": ["-y", "x"]}, {"command": ["npx", "-y", "x"]}),
        ({"type": "stdio", "command": "npx"}, {"command": ["npx"]}),
        (
            {"command": "npx", "env": {"A": "1", "TOKEN": "${MY_TOKEN}"}},
            {"command": ["npx"], "env": {"A": "1", "TOKEN": {"env": "MY_TOKEN"}}},
        ),
        (
            {
                "type": "http",
                "url": "https://x.example",
                "headers": {"Authorization": "Bearer ${T}", "X": "1"},
            },
            {"url": "https://x.example", "headers": {"X": "1"}, "auth": {"bearer": {"env": "T"}}},
        ),
    ],
)
@pytest.mark.parametrize("key", ["mcpServers", "servers"])
def test_a_server_is_a_table_of_ours(entry, table, key):
    """Variables are references, so that no value of the environment is in a setting."""
    found = read({"My_Server": entry}, key)
    assert (found.faults, found.notes) == ((), ())
    assert found.form.mcp == {"my-server": table}
    assert structure_server(table)[1] == []


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"type": "sse", "url": "https://x.example"}, "type is 'sse', which is not supported"),
        ({"command": "npx", "args": ["${HOME}/x"]}, "is read only as a whole value"),
        ({"url": "https://${HOST}/mcp"}, "is read only as a whole value"),
        ({"command": "npx", "env": {"A": "${B:-c}"}}, "is read only as a whole value"),
        ({"command": "npx", "env": {"K": "sk-proj-0123456789abcdefghijABCDEFGHIJ"}}, "looks like a key"),
    ],
)
def test_a_fault_has_its_line(entry, said):
    """11.13: with file and line."""
    faults = [str(one) for one in read({"ok": {"command": "npx"}, "bad": entry}).faults]
    assert len(faults) == 1
    assert faults[0].startswith(".mcp.json:6: mcp.bad")
    assert said in faults[0]


def test_of_two_servers_with_one_name_of_ours_the_later_is_read_and_said():
    """Names there may have letters that ours cannot have."""
    found = read({"my server": {"command": "a"}, "b": {"command": "b"}, "My_Server": {"command": "c"}})
    assert found.form.mcp == {"my-server": {"command": ["c"]}, "b": {"command": ["b"]}}
    assert found.faults == ()
    assert [str(one) for one in found.notes] == [
        ".mcp.json:9: mcp.my-server: 'My_Server' replaces a server before it of this name"
    ]


def test_what_is_not_read_is_noted_and_a_disabled_server_left_out():
    """12.15: once, with its line."""
    found = read({"a": {"command": "npx", "alwaysAllow": ["x"]}, "b": {"command": "npx", "disabled": True}})
    assert list(found.form.mcp) == ["a"]
    assert [str(one) for one in found.notes] == [
        ".mcp.json:3: mcp.a: alwaysAllow is not read",
        ".mcp.json:9: mcp.b: disabled is not read",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{\n,}", ".mcp.json:2: this is not JSON"),
        ("[]", ".mcp.json:1: expected an object with mcpServers"),
        ('{"mcpServers": 7}', ".mcp.json:1: expected an object with mcpServers"),
        ("[" * 100_000, ".mcp.json:1: this is not JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_fault(text, said):
    """With its line, if it has one."""
    (fault,) = read_mcp_json(".mcp.json", text).faults
    assert str(fault).startswith(said)


def test_paths_stay_below_the_directory():
    """No file elsewhere is read for a project."""
    taken = (".mcp.json", ".vscode/mcp.json", "..a", "/etc/passwd", "../x", "a/../../x", "~/x", "", 7)
    assert [one for one in taken if stays_below(one)] == [".mcp.json", ".vscode/mcp.json", "..a"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    "command",
                    "args",
                    "env",
                    "url",
                    "headers",
                    "type",
                    "cwd",
                    "disabled",
                    "Authorization",
                    "${X}",
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=6), json_values, max_size=3))
def test_any_json_gives_tables_or_faults(entries):
    """Nothing that a file holds makes the reader fail."""
    for table in read(entries).form.mcp.values():
        structure_server(table)

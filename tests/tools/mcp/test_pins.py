"""Digests of tools as first seen, and what becomes of a tool that differs."""

import json
import threading

import pytest

from agentrail.errors import OptionError
from agentrail.private_paths import changing_files_of
from agentrail.tools.mcp import McpServer, pins
from agentrail.tools.mcp.pins import check_pins, decide_pins, pins_of
from agentrail.tools.mcp.tool_listing import read_listing
from tests.pipes import pipe_at


def server(pin="warn", path=None):
    """Options with a reaction and a file."""
    return McpServer("s", command=["s"], pin=pin, pins=path)


def listing(**descriptions):
    """A list of tools with these descriptions."""
    raw = [{"name": name, "description": said, "inputSchema": {}} for name, said in descriptions.items()]
    return read_listing(server(), raw, has_resources=True)


@pytest.mark.protocol(16)
@pytest.mark.parametrize(
    ("pin", "names", "fault", "kept"),
    [
        ("warn", ["a", "b"], "'a' has changed since it was first used", "Else."),
        ("refuse", ["b"], "'a' has changed and is hidden: agentrail mcp accept s shows how", "First."),
    ],
)
def test_a_changed_tool_is_reported_once_or_hidden(pin, names, fault, kept):
    """P-016: a new tool is neither."""
    _, known = decide_pins(server(pin), listing(a="First."), {})
    judged, pins = decide_pins(server(pin), listing(a="Else.", b="New."), known)
    assert [one.remote_name for one in judged.tools.values() if not one.is_ours] == names
    assert judged.faults == (fault,)
    assert pins["a"].description == kept
    assert decide_pins(server(pin), listing(a="First.", b="New."), pins)[0].faults == (
        () if pin == "refuse" else (fault,)
    )


def test_the_file_is_private_and_holds_several_servers(tmp_path):
    """What others wrote stays."""
    path = tmp_path / "below" / "pins.json"
    check_pins(server(path=path), listing(a="First."))
    other = McpServer("other", command=["o"], pins=path)
    check_pins(other, listing(b="B."))
    assert path.stat().st_mode & 0o777 == 0o600
    assert set(json.loads(path.read_text())["servers"]) == {"s", "other"}
    assert [*pins_of(server(path=path))] == ["a"]
    assert check_pins(server("off", path), listing(a="Else.")).faults == ()


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "[]",
            "[" * 100_000,
            '{"version": 2, "servers": {}}',
            '{"version": 1, "servers": {"s": {"a": 1}}}',
        ),
        '{"version": 1, "servers": {"s": {"a": {"digest": "d", "description": null}}}}',
        '{"version": 1, "servers": {"s": {"a": {"digest": 1, "description": "First."}}}}',
    ],
)
def test_a_damaged_file_says_so(tmp_path, text):
    """It is not begun anew in silence: that would accept every change."""
    path = tmp_path / "pins.json"
    path.write_text(text)
    with pytest.raises(OptionError, match="move it away"):
        check_pins(server(path=path), listing(a="First."))


def test_a_pipe_in_place_of_the_file_is_not_waited_for(tmp_path):
    """Opened, it would wait for its writer, and the start of the session with it."""
    path = tmp_path / "pins.json"
    with (
        pipe_at(path, b'{"version": 1, "servers": {}}'),
        pytest.raises(OptionError, match="cannot be read: it is not a file"),
    ):
        pins_of(server(path=path))


def test_a_file_that_cannot_be_written_says_so(tmp_path):
    """As above."""
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match="cannot be"):
        check_pins(server(path=tmp_path / "file" / "pins.json"), listing(a="First."))


def test_a_flood_of_tools_does_not_take_the_file_from_other_servers(tmp_path, monkeypatch):
    """A file that is too large to be read again would leave all servers of the project without their tools."""
    monkeypatch.setattr(pins, "MAX_PINS_BYTES", 2_000)
    path = tmp_path / "pins.json"
    check_pins(server(path=path), listing(a="First."))
    flood = McpServer("flood", command=["f"], pins=path)
    with pytest.raises(
        OptionError, match=r"pins\.json would have more than 0 MiB: it cannot hold these tools"
    ):
        check_pins(flood, listing(**{"n" * 2_000: "Long."}))
    assert [*pins_of(server(path=path))] == ["a"]
    assert check_pins(server(path=path), listing(a="First.")).faults == ()


def test_pins_of_two_programs_are_both_kept(tmp_path):
    """While one changes the file, the other waits, and then reads it again."""
    path = tmp_path / "pins.json"
    check_pins(server(path=path), listing(a="First."))
    later = threading.Thread(target=check_pins, args=(server(path=path), listing(a="First.", b="New.")))
    with changing_files_of(tmp_path):
        later.start()
        later.join(0.1)
        kept = json.loads(path.read_text())
        kept["servers"]["other"] = kept["servers"]["s"]
        path.write_text(json.dumps(kept))
    later.join()
    assert {name: [*tools] for name, tools in json.loads(path.read_text())["servers"].items()} == {
        "s": ["a", "b"],
        "other": ["a"],
    }

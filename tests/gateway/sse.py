"""A reader of server-sent events, as the HTML standard describes it, and one that is careless about line ends."""

import json
from typing import Any, NamedTuple


class Frame(NamedTuple):
    event: str
    data: Any
    id: str | None


def parse(stream: bytes, *, careless: bool = False) -> list[Frame]:
    """Read a whole stream; data is taken for JSON. A careless reader splits as `str.splitlines` does."""
    text = stream.decode("utf-8")
    lines = text.splitlines() if careless else text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    frames: list[Frame] = []
    event, number = "message", None
    data: list[str] = []
    for line in lines:
        if not line:
            if data:
                frames.append(Frame(event, json.loads("\n".join(data)), number))
            event, data, number = "message", [], None
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            event = value
        elif name == "data":
            data.append(value)
        elif name == "id":
            number = value
        else:
            assert name in ("", "retry"), f"a frame was broken: {line!r}"
    return frames


def comments(stream: bytes) -> int:
    return sum(line.startswith(b":") for line in stream.split(b"\n"))

"""The console hashes arguments as the core does: random values, written as the server writes them, come to the same hash in node."""

import json
import random
import shutil
import string
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from agentrail.core.policy.calls import hash_arguments
from agentrail.core.session.approval_details import arguments_text
from agentrail.frozen import canonical_json, frozen_json

HERE: Final = Path(__file__).parent
NODE: Final = shutil.which("node")
HOW_MANY: Final = 1_500
_HIDDEN: Final = (
    "é\u2028\u2029\ufeff",
    "\u202e\u200b\U000e0041",
    "\ud7ff\ue000\uffff",
    "\U0001f600",
    "\U0001f601\ue000",
)
_ODD: Final = (
    "",
    "\x00\x01\x1f\x7f",
    '"\\/\b\f\n\r\t',
    "__proto__",
    "constructor",
    "\ud800",
    "a\udc00",
    "\u0130i",
    "k" * 300,
)
ODD: Final = (*_HIDDEN, *_ODD)

pytestmark = pytest.mark.skipif(NODE is None, reason="needs node: scripts/install_console_tools.sh")


def drawn(draw: random.Random, depth: int = 0) -> Any:
    """Any JSON value, odd ones more often than not."""
    kind = draw.randrange(10 if depth < 5 else 7)
    match kind:
        case 0:
            return draw.choice((None, True, False))
        case 1:
            return draw.choice(
                (0, -1, 2**53 - 1, 2**53 + 1, -(2**63), 2**63 - 1, 2**64, 10**30, draw.randrange(-9999, 9999))
            )
        case 2:
            return draw.choice(
                (0.0, -0.0, 1.0, 1e16, 1e22, 1e-5, 1e-7, 5e-324, 1.7976931348623157e308, 0.1 + 0.2)
            )
        case 3:
            return draw.uniform(-1, 1) * 10.0 ** draw.randrange(-300, 300)
        case 4 | 5 | 6:
            return text(draw)
        case 7:
            return [drawn(draw, depth + 1) for _ in range(draw.randrange(5))]
        case _:
            return {text(draw): drawn(draw, depth + 1) for _ in range(draw.randrange(6))}


def text(draw: random.Random) -> str:
    parts = (
        draw.choice(ODD),
        "".join(draw.choices(string.ascii_letters, k=draw.randrange(4))),
        chr(draw.randrange(0x110000)),
    )
    return "".join(draw.sample(parts, draw.randrange(1, 4)))


def in_node(sources: list[str]) -> list[dict[str, str]]:
    ran = subprocess.run(
        [f"{NODE}", f"{HERE / 'js' / 'canonical_stdin.mjs'}"],
        input=json.dumps(sources).encode(),
        capture_output=True,
        check=True,
        timeout=60,
    )
    told: list[dict[str, str]] = json.loads(ran.stdout)
    return told


@pytest.mark.c(21)
def test_what_the_console_shows_hashes_to_the_hash_of_the_arguments():
    """Each value as the server writes it, to the same bytes and the same SHA-256; also halves of characters, and numbers no float holds."""
    draw = random.Random(20)  # noqa: S311 - to be the same each time
    values = [frozen_json({"a": drawn(draw), text(draw): drawn(draw)}) for _ in range(HOW_MANY)]
    deep: Any = {"x": "y"}
    for _ in range(60):
        deep = {"in": [deep]}
    values += [
        frozen_json(one)
        for one in (deep, {"long": "é\u202e" * 30_000}, {"json": json.dumps({"a": [1, "\n"]})}, {})
    ]
    told = in_node([arguments_text(value) for value in values])
    for value, one in zip(values, told, strict=True):
        assert one.get("canonical") == canonical_json(value).decode(), one
        assert one["hash"] == hash_arguments(value)


def test_what_is_no_json_to_the_server_is_none_to_the_console():
    """And what is, is: cut and changed texts are taken by both or by none, but for what the console is stricter in."""
    draw = random.Random(21)  # noqa: S311 - to be the same each time
    sources = []
    for _ in range(400):
        source = json.dumps(drawn(draw))
        at = draw.randrange(len(source) + 1)
        sources.append(
            source[:at] + draw.choice(("", ",", '"', "}", "0", " ", "\\")) + source[at + draw.randrange(2) :]
        )
    for source, one in zip(sources, in_node(sources), strict=True):
        try:
            read = json.loads(source, parse_constant=lambda _: pytest.fail("json.dumps writes none"))
        except ValueError:
            assert "fault" in one, source
            continue
        if one.get("fault") != "double":
            assert "fault" not in one, (source, one)
            assert json.loads(one["canonical"]) == read

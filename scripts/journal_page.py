"""The reference page of journals: what a record is, each kind with its fields, the hash, and how each part says its version.

What the code says of its classes is read from it by the caller's `fields`; the rest stands here.
"""

from collections.abc import Callable
from typing import Final

from agentrail.abc.store import StoredSnapshot
from agentrail.core.journal import record, record as bodies
from agentrail.core.journal.recorder import QUESTIONS
from agentrail.core.protocol import signals
from agentrail.core.wire.codec import SIGNAL_KINDS
from agentrail.messages import SessionId

OWN_BODIES: Final = {
    record.OPENED: bodies.OpenedBody,
    record.TAKEN: record.TakenBody,
    record.CHANGED: bodies.ChangedBody,
    record.DRIFTED: bodies.DriftedBody,
    record.REWOUND: bodies.RewoundBody,
    record.CLOSED: bodies.ClosedBody,
    record.ERASED: bodies.ErasedBody,
    record.HEARD: signals.ChunksArrived,
}
"""What stands in the body of each kind that is no signal of that name."""

WHEN: Final = {
    record.OPENED: "Always the first record.",
    record.TAKEN: "Written by the store when a new owner takes over, with the next epoch. It fences off older owners.",
    record.CHANGED: "A change of tools or plugins without a signal.",
    record.DRIFTED: "After `taken`, if newer code replays the records before it differently.",
    record.REWOUND: "The session continues from an earlier record.",
    record.CLOSED: "The session has ended. This is the last record.",
    record.ERASED: "Replaces a record whose content was erased. Replay and `state_at` raise `Erased`.",
    record.HEARD: "The chunks of a stream since its last record, [merged](#chunks).",
}
OUTLINES: Final = (
    "publish NUMBER",
    "publish FIRST-LAST",
    "start_stream EFFECT model=MODEL messages=COUNT",
    "cancel_stream EFFECT",
    "run_tool EFFECT TOOL op=OPERATION args=DIGEST",
    "run_tool EFFECT TOOL op=OPERATION args=DIGEST attempt=NUMBER",
    "kill_tools EFFECT …",
    "teardown EFFECT EFFECT …",
    "spawn_child EFFECT AGENT",
    "resume_child EFFECT SESSION …",
    "start_agent EFFECT NAME AGENT",
    "prompt_agent EFFECT",
    "close_agent EFFECT",
    "ask_host EFFECT TOOL",
    "tell_host EFFECT TOOL",
    "run_plugin_request EFFECT KIND",
    "run_plugin_request EFFECT KIND refused=CODE",
    "cancel_plugin_request EFFECT",
    "gather_context EFFECT messages=COUNT",
    "set_timer EFFECT MILLISECONDS",
    "clear_timer EFFECT",
    "set_provider_opts model=MODEL",
    "reply",
    "refuse ERROR",
    "end",
)
"""The forms of the lines of `does`."""

NOT_RECORDED: Final = (*sorted(kind.__name__ for kind in QUESTIONS), "ToolProgressed")
EXAMPLE: Final = (
    record.Draft(at_ms=1_700_000_000_000, kind="prompt", body=b'{"ref":"p1"}', does="publish 1-2", events=2),
)


def journal_page(drawn: str, summary: Callable[[object], str], fields: Callable[[type], list[str]]) -> str:
    """Write the page.

    Args:
        drawn: The line that says where it comes from.
        summary: Gives what a class says of itself.
        fields: Gives a line for each field of a class.
    """
    (sealed,), _ = record.sealed(EXAMPLE, record.Tail(), scope="", session=_SESSION)
    lines = ["# Journals: records, kinds, hash, versions", "", drawn, "", _INTRODUCTION, "## A record", ""]
    lines += [
        *fields(record.Record),
        _HASH.format(hash=sealed.hash.hex()),
        "## Other kinds",
        "",
        "Each body except that of `heard` also has:",
        "",
        "- `version`: Version of this form.",
        "",
    ]
    for kind in sorted(record.OWN_KINDS):
        body = OWN_BODIES[kind]
        own = [line for line in fields(body) if not line.startswith("- `version`: ")]
        lines += [f"### `{kind}`", "", WHEN[kind], "", f"Body, `{body.__name__}`:", "", *own]
    lines += ["## Signals", "", _SIGNALS, ""]
    lines += [
        f"- `{tag}`: {_link(kind)}"
        for kind, tag in sorted(SIGNAL_KINDS.items(), key=lambda one: one[1])
        if _is_recorded(kind)
    ]
    lines += ["", _DOES, *[f"- `{form}`" for form in OUTLINES], "", _CHUNKS, "## Snapshots", ""]
    lines += [summary(StoredSnapshot), "", *fields(StoredSnapshot), _REST]
    return "\n".join(lines)


def _is_recorded(kind: type) -> bool:
    return kind.__name__ not in NOT_RECORDED


def _link(kind: type) -> str:
    return f"[`{kind.__name__}`](signals.md#{kind.__name__.lower()})"


_SESSION: Final = SessionId("s1")

_INTRODUCTION: Final = """\
The journal of a session is the ordered record of every message that reached it. Replaying it gives the session's state. See [durability](../explanation/durability.md) and [write a store](../how-to/write-a-store.md).

`Record` is in `agentrail.core.journal.record`. Its key is `scope`, `session` and `seq`. Numbers have no gaps.
"""

_HASH: Final = """\
## The hash

BLAKE2b with 16 bytes over the concatenation of:

1. the 16-byte hash of the previous record, or 16 zero bytes for the first,
2. one ASCII line with a line break: `seq epoch at_ms events`, then the byte lengths of `scope`, `session`, `kind`, `body` and `does`, in decimal digits separated by one space,
3. `scope`, `session`, `kind`, `body` and `does` in UTF-8.

The lengths make the text unambiguous. An `erased` record keeps the hash of the original record, so the chain stays valid.

```python
import hashlib

body, does = b'{{"ref":"p1"}}', b"publish 1-2"
line = f"1 1 1700000000000 2 0 2 6 {{len(body)}} {{len(does)}}\\n".encode()
text = bytes(16) + line + b"" + b"s1" + b"prompt" + body + does
assert hashlib.blake2b(text, digest_size=16).hexdigest() == "{hash}"
```
"""

_SIGNALS: Final = f"""\
The body is the signal as one JSON object, with the fields in [signals and effects](signals.md), also for `heard`. `kind` and `at_ms` are in the record, not in the body. Fields with a default that is empty, null, a boolean or a small number are left out,
also in responses, calls and usage. A missing field has its default. A version 1 body begins with `{{"kind":` and contains the whole signal. It remains readable.

Each signal is normalised before the step, so the recorded signal is the processed one. `Session.journal()` shows complete bodies.

Not recorded, because they change nothing: {", ".join(f"`{name}`" for name in NOT_RECORDED)}; and `ChildPublished` with an event that is
never replayed."""

_DOES: Final = """\
## Effects of a step

`does` has one line per effect, in order, without ephemeral events. Consecutive events share a line. It contains no conversation text. A tool without a durable record never ran.
"""

_CHUNKS: Final = """\
## Chunks

Chunks of an open stream are buffered. They become one `heard` record before any other record, or if they cause more than deltas. When the response is complete, they are discarded, unless the step needs them. One `heard` is equivalent to its chunks.

## Large values

A text above 65,536 bytes of UTF-8 is stored once by its SHA-256, and the body contains `{"$blob": "…"}`. An object with such a key gets one more `$`. Hashes cover the stored body.
"""

_REST: Final = f"""\
A snapshot that is unreadable, or has a wrong `check` or hash, is ignored and reported. `state` is a [stored state](stored-states.md).

## A journal as text

`agentrail sessions export ID` writes one line of JSON per record: `version`, the fields above in order, `body` as JSON and `hash` in hexadecimal. An import restores it exactly.

## Versions

| part | place of its version | current |
|---|---|---|
| a line of an export | `version` | {record.RECORD_VERSION} |
| the body of another kind | `version` in the body | {record.RECORD_VERSION} |
| the body of a signal, and of `heard` | version 1 begins with `{{"kind":`. Later fields have defaults | {record.RECORD_VERSION} |
| a document of a state: `opened`, `changed`, snapshots | `codec` | see [stored states](stored-states.md) |
| the file of `sqlite:` | `meta`, and its application id | see `StoreTooNew` |

Newer versions are refused with `CodecError`, or `StoreTooNew` for a store. Older versions stay readable: tests replay journals of each release. Missing fields have defaults, and unknown fields are refused.
"""

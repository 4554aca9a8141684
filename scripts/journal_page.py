"""The reference page of journals: what a record is, each kind with its fields, the hash, and how each part says its version.

What the code says of its classes is read from it by the caller's `fields`; the rest stands here.
"""

from collections.abc import Callable
from typing import Final

from agentrail.abc.store import StoredSnapshot
from agentrail.core.journal import record, record as bodies
from agentrail.core.journal.recording import QUESTIONS
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
    record.OPENED: "The first record, and only there.",
    record.TAKEN: "The first act of every owner but the first: this is the fence. Written by the store, with an epoch one higher.",
    record.CHANGED: "In place of a signal where tools or plugins are others and no signal brought them.",
    record.DRIFTED: "Behind `taken`, where newer code makes another history of what stands before it.",
    record.REWOUND: "The session goes on behind an earlier record of its own.",
    record.CLOSED: "The session has ended; nothing follows.",
    record.ERASED: "In place of a record whose content a person had removed. Replay and `state_at` say `Erased` before it.",
    record.HEARD: "The chunks of a stream that came since its last record, in one, where what they said counts: see below.",
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
        "## Kinds that are no signals",
        "",
    ]
    for kind in sorted(record.OWN_KINDS):
        body = OWN_BODIES[kind]
        lines += [f"### `{kind}`", "", WHEN[kind], "", f"Body, `{body.__name__}`:", "", *fields(body)]
    lines += ["## Kinds that are signals", "", _SIGNALS, ""]
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
The journal of a session is the ordered record of all that arrived in its mailbox. Its state is the fold of it, and nothing else is truth.
[What durability promises](../explanation/durability.md) says why; [write a store](../how-to/write-a-store.md) says what keeps it.

`Record` stands in `agentrail.core.journal.record`. `scope`, `session` and `seq` are its key; numbers have no gaps.
"""

_HASH: Final = """\
## The hash

BLAKE2b with 16 bytes over, without anything in between:

1. the hash of the record before it, 16 bytes; 16 zero bytes for the first,
2. one line of ASCII with a line break at its end: `seq epoch at_ms events`, and then the lengths in bytes of `scope`, `session`, `kind`, `body` and
   `does`; all in decimal digits, with one space in between,
3. `scope`, `session`, `kind`, `body` and `does`, in UTF-8.

The lengths stand there so that no two records give one text. An `erased` record has the hash of what stood in its place, as its own and in its body, so
the chain goes on over it.

```python
import hashlib

body, does = b'{{"ref":"p1"}}', b"publish 1-2"
line = f"1 1 1700000000000 2 0 2 6 {{len(body)}} {{len(does)}}\\n".encode()
text = bytes(16) + line + b"" + b"s1" + b"prompt" + body + does
assert hashlib.blake2b(text, digest_size=16).hexdigest() == "{hash}"
```
"""

_SIGNALS: Final = f"""\
The body is the signal, with the fields that [signals and effects](signals.md) show, as one JSON object; so it is with `heard`. `kind` and `at_ms` stand in the record and
not in the body. A field that holds its default is left out where that is empty, null, true, false or a small number, and so it is in an answer of a model, its calls and what it used; a field that is
not there has its default. In version 1 a body was the whole signal: it begins with `{{"kind":`, which no other does, and is read for ever.

Each signal is made final in front of the step: what is recorded is what was stepped. `Session.journal()` shows bodies with all that they leave out.

Not recorded, because they change nothing: {", ".join(f"`{name}`" for name in NOT_RECORDED)}; and `ChildPublished` with an event that is
never replayed."""

_DOES: Final = """\
## What a step decided

`does` has one line for each effect that is not an ephemeral event, in order; events in a row are one line. No word of a conversation stands in it. A tool that no durable
record names never ran.
"""

_CHUNKS: Final = """\
## Chunks

The chunks of a stream are kept aside while it is open. They become one `heard` record as soon as more came of them than deltas, or in front of any
other record that comes meanwhile. When the response is complete it says all that they said, and they are thrown away, unless the step would be another one
without them. One `heard` means what its parts meant.

## Large values

A text of more than 65,536 bytes of UTF-8 is kept once, by its SHA-256, and the body has `{"$blob": "…"}` in its place. An object that looks like that
by itself has one more `$` in its key. Hashes of records are over the body as it is kept.
"""

_REST: Final = f"""\
A snapshot that cannot be read, whose `check` is wrong, or whose hash is not that of its record is ignored and reported. `state` is a document of
[stored states](stored-states.md).

## A journal as text

`agentrail sessions export ID` writes one line of JSON for each record: `version`, then the fields above in their order, `body` as JSON and `hash` in hexadecimal digits.
It comes back bit for bit.

## Versions

| what | where it says its version | now |
|---|---|---|
| a line of an export | `version` | {record.RECORD_VERSION} |
| the body of a kind that is no signal | `version` in the body | {record.RECORD_VERSION} |
| the body of a signal, and of `heard` | that of version 1 begins with `{{"kind":`; fields only come, with a default | {record.RECORD_VERSION} |
| a document of a state: `opened`, `changed`, snapshots | `codec` | see [stored states](stored-states.md) |
| the file of `sqlite:` | `meta`, and its application id | see `StoreTooNew` |

What is of a newer version is refused, whole: `CodecError`, or `StoreTooNew` for a store. What is older is read for ever: journals of each released version are replayed by the
tests. A field that is missing has its default; a field that is not known is refused.
"""

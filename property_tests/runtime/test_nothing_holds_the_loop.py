"""No call of a public function with a megabyte of hostile input holds the loop for more than 50 ms, or 80 ms where it is dense JSON.

Each public entry that takes something from a model, a tool, a server or a file is found by looking at the package, and has
its inputs below: who adds an entry adds inputs, or a test here fails. What is measured is the processor time of the loop's
own thread between two checkpoints, so that a busy machine makes nothing fail; of three attempts the best counts.

Rounds: each input once with the profile `nightly`, and every so manieth with the others, so that an entry has `FEW` at most;
three times where the first attempt is over the limit.

One thing holds it longer, and is no input of somebody else's: a tool whose schema has 40,000 properties (here are 10,000), when it is
attached (about 90 ms, on the machine of the figures).
"""

import inspect
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
import trio
from trio.testing import MockClock

from agentrail import plugins
from agentrail.abc import Error, FileBytes, GrepOptions, Ok, Sandbox
from agentrail.core.policy.response_format import ResponseFormat, fault_of_format
from agentrail.core.session.approval_rules import family_of, plain_words, program_family_of
from agentrail.core.values import import_history
from agentrail.core.values.json_schema import (
    CompiledSchema,
    NotJson,
    decode_strictly,
    fault_of_schema,
    without_half_pairs,
)
from agentrail.core.values.toolbox import parse_arguments
from agentrail.core.wire import codec
from agentrail.errors import AgentrailError
from agentrail.events import ApprovalRequired
from agentrail.frozen import canonical_json
from agentrail.messages import AssistantMessage, CallId, Text, ToolCall, ToolMessage, ToolResult, UserMessage
from agentrail.plugins import HumanApproval, Permissions, Plugin
from agentrail.plugins.chat_decisions import text_behind
from agentrail.runtime.journal_inspection import WantedRecords
from agentrail.runtime.session_handle import Session
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.sandboxes.composite import CompositeSandbox
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.supervisors import open_nameless
from agentrail.tools import builtin
from agentrail.tools.function import tool
from agentrail.tools.tool_text import printable
from agentrail.web.rules import WebRules, read_web_url
from agentrail.web.url_policy import AddressRefused
from tests.providers.transcripts import READERS, reader_of
from tests.slowness import slowness

LIMIT_SECONDS: Final = 0.05
DENSE_SECONDS: Final = 0.08
"""Limit for a megabyte of arguments that are half a million numbers or 90,000 members: one step reads, freezes and hashes them."""
ATTEMPTS: Final = 3
MEGABYTE: Final = 1_000_000

Entry: TypeAlias = Callable[[], Awaitable[object]]
Entries: TypeAlias = dict[str, list[tuple[str, Any]]]
FEW: Final = 4
IS_WHOLE: Final = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"


class LongestHold(trio.abc.Instrument):
    """Notes the longest time that a task kept the loop for itself, in seconds of the loop's own processor time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.where = ""
        self._began_at = time.thread_time()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task has the loop."""
        self._began_at = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """It has given it back."""
        held = time.thread_time() - self._began_at
        if held > self.seconds:
            self.seconds, self.where = held, task.name


def hold_of(work: Entry) -> LongestHold:
    """Run something in a loop of its own, and say how long the loop was held. What it raises in words is an answer."""

    async def answer() -> None:
        with suppress(AgentrailError, trio.TooSlowError), trio.fail_after(60):
            await work()

    async def main() -> LongestHold:
        await trio.lowlevel.checkpoint()
        hold = LongestHold()
        trio.lowlevel.add_instrument(hold)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
        trio.lowlevel.remove_instrument(hold)
        return hold

    # Where nobody answers a question, nothing else is to come: the clock goes on to the end of the patience.
    return trio.run(main, clock=MockClock(autojump_threshold=0.5))


# --- hostile values


def _deep(levels: int) -> str:
    return "[" * levels + "]" * levels


TEXTS: Final[Mapping[str, str]] = {
    "one letter": "a" * MEGABYTE,
    "lines": "a\n" * (MEGABYTE // 2),
    "blanks": " \n" * (MEGABYTE // 2),
    "fences": "```\n" * (MEGABYTE // 4),
    "json fences": "```json\n{}\n```\n" * (MEGABYTE // 15),
    "tags": "<status>" * (MEGABYTE // 8),
    "open tags": "<" * MEGABYTE,
    "braces": "{" * MEGABYTE,
    "brackets": _deep(MEGABYTE // 2),
    "quotes": '"' * MEGABYTE,
    "backslashes": "\\" * MEGABYTE,
    "at signs": "a@" * (MEGABYTE // 2),
    "digits": "9" * MEGABYTE,
    "dashes": "-" * MEGABYTE,
    "words": "sk-" * (MEGABYTE // 3),
    "capitals": "Ab " * (MEGABYTE // 3),
    "controls": "\x00\x1b[" * (MEGABYTE // 3),
    "three bytes each": "€" * (MEGABYTE // 3),
    "dots and slashes": "../" * (MEGABYTE // 3),
}
DOCUMENTS: Final[Mapping[str, str]] = {
    "numbers": f'{{"a": [{"1," * (MEGABYTE // 2 - 10)}1]}}',
    "fractions": f'{{"a": [{"1.5," * (MEGABYTE // 4 - 10)}1]}}',
    "texts": f'{{"a": [{chr(34) * 2 + ","}{(chr(34) * 2 + ",") * (MEGABYTE // 3 - 10)}1]}}',
    "objects": f'{{"a": [{"{}," * (MEGABYTE // 3 - 10)}1]}}',
    "members": "{" + ",".join(f'"{i:06}":1' for i in range(MEGABYTE // 11)) + "}",
    "half of a pair": f'{{"a": ["\\ud800", {"{}," * (MEGABYTE // 3 - 10)}1]}}',
    "deep": f'{{"a": {_deep(MEGABYTE // 3)}}}',
    "cut": f'{{"a": [{"1," * (MEGABYTE // 2 - 10)}',
    "no json": "x" * MEGABYTE,
    "a long number": "9" * MEGABYTE,
    "one text": json.dumps({"a": "x" * (MEGABYTE - 20)}),
}


DENSE: Final = frozenset({"numbers", "fractions", "texts", "objects", "members", "cut"})


# --- sessions


def _model(*turns: Any) -> ScriptedModel:
    return ScriptedModel([*turns, *(says("ok") for _ in range(6))])


async def _session(work: Callable[[Session], Awaitable[object]], *turns: Any, **options: Any) -> None:
    async with open_nameless(lambda _name, _root: MemorySandbox()) as supervisor:
        session = await supervisor.start_session(model=_model(*turns), **options)
        await work(session)


def _asking(*turns: Any, **options: Any) -> Entry:
    async def ask(session: Session) -> None:
        with suppress(AgentrailError):
            await session.ask("go")

    return lambda: _session(ask, *turns, **options)


def _handle(method: str, *args: Any, **options: Any) -> Entry:
    async def call(session: Session) -> None:
        await getattr(session, method)(*args, **options)

    return lambda: _session(call)


def _texts(make: Callable[[str], Entry]) -> list[tuple[str, Entry]]:
    return [(name, make(text)) for name, text in TEXTS.items()]


class Own:
    """A tool of somebody's, with whatever schema."""

    name = "own"
    description = "Somebody's."
    killable, effect_class, timeout_seconds = True, "pure", None

    def __init__(self, parameters: Any) -> None:
        self.parameters = parameters

    async def execute(self, arguments: Any, ctx: Any) -> Ok:
        """Do nothing."""
        return Ok(text="ok")


SCHEMAS: Final[Mapping[str, Any]] = {
    "wide": {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(10_000)}},
    "patterns": {"type": "object", "patternProperties": {f"(a|{i})*" * 30: {} for i in range(90)}},
    "anchors": {
        "type": "object",
        "properties": {f"p{i}": {"$ref": f"#y{i}"} for i in range(1_500)},
        "$defs": {f"p{i}": {"$anchor": f"y{i}"} for i in range(1_500)},
    },
    "a long enum": {"type": "object", "properties": {"a": {"enum": [f"e{i:06}" for i in range(100_000)]}}},
    "faults": {"type": "object", "allOf": [{"type": "whole"}] * 9_000},
    "kinds": {"type": "object", "properties": {f"p{i}": {"type": ["string", "null"]} for i in range(2_400)}},
}
JUDGING: Final[Mapping[str, Any]] = {
    "pattern": {
        "properties": {"a": {"items": {"pattern": "^(a+)+$"}}},
        "patternProperties": {"^([0-9]+)+$": {}},
    },
    "unique": {"properties": {"a": {"uniqueItems": True}}},
    "every item": {"properties": {"a": {"items": {"type": "string", "minLength": 3}}}},
    "any of": {
        "$defs": {"x": {"anyOf": [{"type": "string"}, {"items": {"$ref": "#/$defs/x"}}]}},
        "additionalProperties": {"$ref": "#/$defs/x"},
    },
    "nothing more": {"properties": {}, "additionalProperties": False},
    "evaluated": {"properties": {"b": {}}, "unevaluatedProperties": {"unevaluatedItems": False}},
    "enum": {"additionalProperties": {"items": {"enum": [[i] for i in range(4_000)]}}},
    "plain": {"properties": {"a": {"type": "array", "items": {"type": "object"}}}},
}


def _in_calls(name: str) -> list[tuple[str, Entry]]:
    """Let a model call a built-in tool with a megabyte: of each document, and of each text in each of its parameters."""
    (made,) = builtin(name)
    entries = [(kind, _asking(calls((name, text)), tools=[made])) for kind, text in DOCUMENTS.items()]
    properties: Any = made.parameters.get("properties", {})
    required: Any = made.parameters.get("required", [])
    for parameter, schema in properties.items():
        if "string" in str(schema.get("type", schema)):
            for kind, text in TEXTS.items():
                arguments = {one: _plain(properties[one]) for one in required}
                written = json.dumps({**arguments, parameter: text[: MEGABYTE - 2_000]}, ensure_ascii=False)
                entries.append((f"{parameter}: {kind}", _asking(calls((name, written)), tools=[made])))
    return entries


def _plain(schema: Any) -> Any:
    kind = schema.get("type", "string")
    return {"string": "a", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}.get(
        kind, "a"
    )


# --- the entries, as the package has them


def entries_of_the_package() -> set[str]:
    """Name every public entry that takes something from outside."""
    named = {f"session.{name}" for name in _methods(Session)} | {
        f"supervisor.{name}" for name in _methods(SessionSupervisor)
    }
    named |= {f"tool.{one.name}" for one in builtin()} | {f"sandbox.{name}" for name in _methods(Sandbox)}
    named |= {f"codec.{name}" for name in _functions(codec) if name.startswith("decode")}
    named |= {f"importing.{name}" for name in _functions(import_history)}
    named |= {f"stream.{wire}" for wire in READERS}
    found = vars(plugins).items()
    named |= {
        f"plugin.{name}"
        for name, kind in found
        if inspect.isclass(kind) and issubclass(kind, Plugin) and kind is not Plugin
    }
    return named | {
        *(f"{kind}.{name}" for kind in ("waiting", "rules") for name in NAMED),
        *(f"text.{name}" for name in TEXT_READERS),
        "schema.fault_of_schema",
        "schema.faults",
        "structured.fault_of_format",
        "structured.judge",
        "tool.own",
    }


def _methods(kind: type) -> Iterator[str]:
    every = {name: value for one in reversed(kind.__mro__) for name, value in vars(one).items()}
    return (name for name, value in every.items() if not name.startswith("_") and inspect.isfunction(value))


def _functions(module: Any) -> Iterator[str]:
    return (
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and inspect.isfunction(value) and value.__module__ == module.__name__
    )


TAKES_NOTHING: Final = {
    *(
        f"session.{name}"
        for name in (
            "status",
            "reads_answers",
            "messages",
            "snapshot",
            "monitor",
            "collect_reply",
            "abort",
            "subscribe",
            "wait_for",
            "rules",
            *("journal", "state_at", "turns", "fork", "rewind"),  # numbers, and objects of the application
        )
    ),
    *("session.attach_plugin", "session.reload_plugin"),  # objects of the application
    *(
        f"supervisor.{name}"
        for name in (
            "sessions",
            "tree",
            "statistics",
            "subscribe_all",
            "subscribe_group",
            "monitor",
            "reports",
            *("parked_sessions", "plugin_use", "budget_use", "fault_of_model", "spendings"),
            *("find", "newest", "resume_all"),  # a filter, and one of three words
        )
    ),
    *(
        f"supervisor.{name}"
        for name in (
            *("ask_host", "check_store", "change_owed"),
            "start_behind",
            *("call_nodes", "cluster_facts", "drain", "follow_orphans", "limit_sessions", "look_at_nodes"),
        )
    ),
    # Those above are for the package itself.
    *("plugin.FunctionPlugin", "sandbox.aclose"),
}
"""Entries with no text, bytes, pattern or path in them that somebody else could have written."""


def _sandboxed(
    work: Callable[[Any, str], Awaitable[object]], arguments: Mapping[str, str]
) -> list[tuple[str, Any]]:
    return [(name, lambda sandbox, text=text: work(sandbox, text)) for name, text in arguments.items()]


def _searching(pattern: str = "a", include: str | None = None) -> Callable[[Any], Awaitable[object]]:
    options = GrepOptions(include=include, context_lines=1, max_results=50, ignore_case=True)
    return lambda sandbox: sandbox.grep(pattern, ".", options)


FILES: Final = {
    ".gitignore": "x*y*z\n" * (MEGABYTE // 6),
    "line": "a" * MEGABYTE,
    "lines": "a\n" * (MEGABYTE // 2),
    "alike": "".join(f"{'ab' * 90}{i:05}\n" for i in range(5_000)),
    **{f"d/{i}": "a" for i in range(200)},
}


def _sandbox(kind: str, root: Path) -> Any:
    memory = MemorySandbox(FILES)
    if kind == "local":
        (root / "d").mkdir(exist_ok=True)
        for path, text in FILES.items():
            (root / path).write_text(text if path != ".gitignore" else "a*b\n" * 500)
        return LocalSandbox(root)
    return memory if kind == "memory" else CompositeSandbox(memory, routes={"/m/": MemorySandbox(FILES)})


def _inputs_of_sandboxes() -> Entries:
    return {
        "sandbox.read": _sandboxed(lambda sandbox, text: sandbox.read(text), TEXTS),
        "sandbox.write": [
            *_sandboxed(lambda sandbox, text: sandbox.write(text, "x"), TEXTS),
            *_sandboxed(lambda sandbox, text: sandbox.write("new", text), TEXTS),
        ],
        "sandbox.edit": [
            ("a long line", lambda sandbox: sandbox.edit("line", "a", "bb", replace_all=True)),
            ("many lines", lambda sandbox: sandbox.edit("lines", "a", "b\n", replace_all=True)),
            ("line ends", lambda sandbox: sandbox.edit("lines", "\n", "", replace_all=True)),
            ("much for little", lambda sandbox: sandbox.edit("lines", "a", "b" * MEGABYTE, replace_all=True)),
            ("not unique", lambda sandbox: sandbox.edit("lines", "a", "b")),
            ("what is alike", lambda sandbox: sandbox.edit("alike", "ba" * 90 + "0", "b")),
            *_sandboxed(lambda sandbox, text: sandbox.edit("line", text, "b"), TEXTS),
            *_sandboxed(lambda sandbox, text: sandbox.edit(text, "a", "b"), TEXTS),
        ],
        "sandbox.exists": _sandboxed(lambda sandbox, text: sandbox.exists(text), TEXTS),
        "sandbox.list_dir": _sandboxed(lambda sandbox, text: sandbox.list_dir(text), TEXTS),
        "sandbox.glob": [
            *_sandboxed(lambda sandbox, text: sandbox.glob(text, "."), {**TEXTS, **PATTERNS}),
            *_sandboxed(lambda sandbox, text: sandbox.glob("*", text), {"dots": "../" * 300_000}),
        ],
        "sandbox.grep": [
            *[(name, _searching(include=text)) for name, text in ({**TEXTS, **PATTERNS}).items()],
            *[(f"pattern: {name}", _searching(pattern=text)) for name, text in TEXTS.items()],
            ("everything", _searching()),
        ],
        "sandbox.upload": [
            ("bytes", lambda sandbox: sandbox.upload([FileBytes(path="b", content=bytes(MEGABYTE))]))
        ],
        "sandbox.download": _sandboxed(lambda sandbox, text: sandbox.download([text, "line"]), TEXTS),
        "sandbox.execute": [
            ("nothing runs", lambda sandbox: sandbox.exists("x"))
        ],  # commands run in processes of their own
    }


_LINE: Final = 20_000
_FOLDERS: Final = "".join(f"cd {i};" for i in range(20))
COMMANDS: Final = {
    name: (before + piece * (_LINE // len(piece)))[:_LINE]
    for name, before, piece in (
        ("variables", "", "$a "),
        ("doubled", "a=b;", "a=$a$a;"),
        ("substitutions", "", "`a`"),
        ("more substitutions", "rm ", "$(echo a)"),
        ("processes", "rm ", "<(a)"),
        ("folders", "", "cd a/b/../c;x ;"),
        ("in folders", _FOLDERS, "ls a=b:c@d ;"),
        ("patterns in folders", _FOLDERS, "ls *.k?y [a-z]*;"),
        ("found", "", "find . -name '*.py' -not -path './.venv/*' ; "),
        ("one pattern", "ls ", "*a"),
        ("braces", "", "{a,b}"),
        ("words", "rm ", "a "),
        ("loops", "", "for a do "),
        ("wrappers", "", "xargs "),
        ("containers", "docker ", "run a "),
        ("scripts", "echo '. a;. a' > a;", ". a;"),
    )
}
"""Lines for `SecurityGuard` that are as long as any may be; longer ones are not read."""
PATTERNS: Final = {
    "open braces": "{" * 4_000,
    "choices": "{a,b}" * 700,
    "long choices": "{a,b}" * 6 + "x" * 4_000,
    "stars": "*a" * 2_000,
    "classes": "[" * 4_000,
    "wild": "**/" * 1_300,
}


async def _done(work: Callable[[], object]) -> None:
    await trio.lowlevel.checkpoint()
    work()


def _at_once(work: Callable[[], object]) -> Entry:
    return lambda: _done(work)


def _inputs_of_pure_functions() -> Entries:
    from_others = {**DOCUMENTS, **TEXTS}
    return {
        "codec.decode_event": [
            (name, _at_once(partial(_refused, codec.decode_event, text)))
            for name, text in from_others.items()
        ],
        "codec.decode_signal": [
            (name, _at_once(partial(_refused, codec.decode_signal, text)))
            for name, text in from_others.items()
        ],
        "importing.import_messages": [
            ("repairs", _at_once(lambda: import_history.import_messages(_strange_messages())))
        ],
        "schema.fault_of_schema": [
            (name, _at_once(partial(fault_of_schema, schema))) for name, schema in SCHEMAS.items()
        ],
        "structured.fault_of_format": [
            (name, _at_once(partial(fault_of_format, schema))) for name, schema in SCHEMAS.items()
        ],
        "tool.own": [
            *[
                (kind, _asking(calls(("own", text)), tools=[Own({"type": "object", **schema})]))
                for schema in JUDGING.values()
                for kind, text in DOCUMENTS.items()
            ],
            *[
                (f"a result of {name}", _asking(calls(("own", "{}")), tools=[_giving(text)]))
                for name, text in TEXTS.items()
            ],
        ],
    }


def _judgements() -> list[tuple[str, Any]]:
    return [
        (f"{kind}: {name}", _at_once(partial(CompiledSchema(schema).faults, value)))
        for name, text in DOCUMENTS.items()
        for value in [_value_of(text)]
        for kind, schema in JUDGING.items()
    ]


def _answers() -> list[tuple[str, Any]]:
    return [
        (f"{kind}: {name}", _at_once(partial(ResponseFormat(schema).check, text, repaired=False)))
        for kind, schema in JUDGING.items()
        for name, text in ({**DOCUMENTS, **TEXTS} if kind == "plain" else DOCUMENTS).items()
    ]


def _giving(text: str) -> Any:
    @tool
    async def own() -> Error | Ok:
        """Give a result that is ten times as long as any may be."""
        return Ok(text=text * 10)

    return own


def _refused(decode: Callable[[str], object], text: str) -> None:
    with suppress(AgentrailError):
        decode(text)


def _value_of(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _strange_messages() -> list[Any]:
    many = MEGABYTE // 200  # each about two hundred bytes, as it would be stored
    results = tuple(ToolResult(call_id=CallId("c"), name="x", text="") for _ in range(3))
    call = ToolCall(call_id=CallId("c"), name="x", arguments={})
    rounds = [
        UserMessage(content=(Text(text=""),)),
        AssistantMessage(content=(call, call), model="x:y", stop_reason="tool_use"),
        ToolMessage(results=results),
    ]
    return rounds * (many // 3)


def _events(wire: str) -> dict[str, str]:
    piece = {"text": "a"}
    shapes: dict[str, dict[str, Any]] = {
        "gemini": {"candidates": [{"content": {"parts": [piece] * (MEGABYTE // 14)}}]},
        "openai_chat": {
            "choices": [
                {
                    "delta": {
                        "tool_calls": [{"index": i, "function": {"name": "f"}} for i in range(MEGABYTE // 45)]
                    }
                }
            ]
        },
        "openai_responses": {
            "object": "response",
            "status": "completed",
            "output": [{"type": "x"}] * (MEGABYTE // 14),
        },
        "anthropic": {"type": "message", "content": [{"type": "text", "text": "a"}] * (MEGABYTE // 30)},
    }
    return {"pieces": json.dumps(shapes[wire]), **DOCUMENTS}


def _feeding(wire: str, data: str) -> Entry:
    def feed() -> None:
        with suppress(AgentrailError):
            reader_of(wire).feed(data)

    return _at_once(feed)


def _inputs_of_sessions() -> Entries:
    texts = ("prompt", "steer", "ask", "run")
    names = (
        "abort_tool",
        "approve",
        "reject",
        "switch_model",
        "detach_tools",
        "detach_plugin",
        "compact",
        "stop",
        "update_plugin_opts",
        "receipt_of",
        "revoke_rule",
        "break_on",
        "unbreak",
    )
    entries: Entries = {f"session.{name}": _texts(partial(_handle, name)) for name in (*texts, *names)}
    entries["session.stream"] = _texts(lambda text: lambda: _session(partial(_streamed, text)))
    entries["session.respond"] = _texts(lambda text: _handle("respond", text, text))
    entries["session.decline"] = _texts(lambda text: _handle("decline", text, text))
    entries["session.answer"] = _texts(lambda text: _handle("answer", text, Ok(text=text)))
    entries["session.go_on"] = _texts(lambda text: _handle("go_on", client_id=text, digest=text))
    entries["session.report_tool_source"] = _texts(
        lambda text: _handle("report_tool_source", text, "ready", reason=text)
    )
    for name in ("attach_tools", "replace_tools"):
        entries[f"session.{name}"] = [(kind, _handle(name, Own(schema))) for kind, schema in SCHEMAS.items()]
    entries["supervisor.start_session"] = [
        *[
            (f"format: {kind}", partial(_session, _nothing, response_format=schema))
            for kind, schema in SCHEMAS.items()
        ],
        *_texts(lambda text: lambda: _session(_nothing, system_prompt=text)),
        *_texts(lambda text: _asking(says(text), inline_tags=True)),
        *_texts(
            lambda text: _asking(
                says(*[text[i : i + 1_000] for i in range(0, len(text), 1_000)]), inline_tags=True
            )
        ),
        ("many calls", _asking(calls(*[("nothing", "{}")] * 500))),
    ]
    for name in (
        "session",
        "stop_session",
        "wait_for_tools",
        "last_words",
        "facts_of",
        "rest",
        "call_tool",
        "stored_journal",
        "stored_state",
        "events_page",
        "owed",
        *("forget_user", "memories_of"),
        *("adopt_owed", "describe_profiles"),
    ):
        entries[f"supervisor.{name}"] = _texts(partial(partial, _supervised, name))
    for name in ("resume_session", "delete_session", "export_session", "import_session"):
        entries[f"supervisor.{name}"] = _texts(partial(partial, _supervised, name))
    entries["supervisor.trim_session"] = _texts(
        lambda text: lambda: _supervised("trim_session", text, before=1)
    )
    for name in ("plain_state_at", "explain_record"):
        entries[f"supervisor.{name}"] = _texts(partial(_looking_back, name, number=1))
    entries["supervisor.find_records"] = _texts(
        lambda text: (
            lambda: _supervised(
                "find_records", text, wanted=WantedRecords(text=text[:200], plugin=text[:200])
            )
        )
    )
    entries["supervisor.move_session"] = _texts(
        lambda text: lambda: _supervised("move_session", text, to=text)
    )
    for name in ("check_revive", "end_forgotten", "take_moved"):
        entries[f"supervisor.{name}"] = _texts(partial(_of_scope, name))
    entries["supervisor.take_allowance"] = _texts(
        lambda text: lambda: _supervised("take_allowance", text, step_ms=1.0, limit_ms=2.0)
    )
    entries["supervisor.stop_all"] = _texts(lambda text: lambda: _supervised("stop_all", text))
    return entries


def _of_scope(name: str, text: str) -> Entry:
    return lambda: _supervised(name, text, session_id=text)


def _looking_back(name: str, text: str, **where: int) -> Entry:
    return lambda: _supervised(name, text, **where)


async def _streamed(text: str, session: Session) -> None:
    with suppress(AgentrailError):
        async with session.stream(text) as events:
            async for _ in events:
                pass


async def _nothing(_session: Session) -> None:
    await trio.lowlevel.checkpoint()


async def _supervised(method: str, text: str, **options: Any) -> None:
    async with open_nameless(lambda _name, _root: MemorySandbox(), store=MemoryStore()) as supervisor:
        found = getattr(supervisor, method)(text, **options)
        if inspect.isawaitable(found):
            await found


class Named(Own):
    """A tool with a name that rules and guards know, which does nothing."""

    def __init__(self, name: str) -> None:
        super().__init__({"type": "object"})
        self.name = name


WORDY: Final[Mapping[str, str]] = {
    **TEXTS,
    "two words": "git log " + "a" * MEGABYTE,
    "quoted": "''" * (MEGABYTE // 2),
    "quoted twice": "''\"\"" * (MEGABYTE // 4),
    "every word": "a " * (MEGABYTE // 2),
    "an address": "https://" + "\u00e9" * (MEGABYTE // 2),
    "escapes of an address": "https://" + "%41" * (MEGABYTE // 3),
    "labels of an address": "https://" + "a." * (MEGABYTE // 2),
    "a long path": "https://python.org/" + "a" * MEGABYTE,
}
"""What a command, an address, a path or code may be."""
NAMED: Final = {
    "shell": "command",
    "web_fetch": "url",
    "read_file": "path",
    "write_file": "path",
    "python": "code",
    "task": "subagent_type",
}
RULES: Final[Mapping[str, Any]] = {
    "shell": ["shell(evil *)", "shell(git log *)"],
    "web_fetch": [f"web_fetch(domain:{name}.org)" for name in ("evil", *(f"e{i}" for i in range(40)))],
    "read_file": ["read_file(./secrets/**)", "read_file(~/.ssh/**)", "read_file(**/*.key)"],
    "write_file": ["write_file(./secrets/**)", "write_file(*a*a*a*b)"],
    "python": ["python(code=*import os*)", "python(code=*a*a*a*b)"],
    "task": ["task(reviewer)", "task(a*b)"],
}
"""Rules with each kind of pattern, for `deny` and `ask`."""


TEXT_READERS: Final = (
    *("read_web_url", "plain_words", "family_of", "parse_arguments", "decode_strictly", "without_half_pairs"),
    *("printable", "canonical_json", "read_decision"),
)


async def _until_it_waits(session: Session, *, decide: bool) -> None:
    with suppress(AgentrailError, trio.TooSlowError):
        async with session.stream("go") as events:
            async for event in events:
                if isinstance(event, ApprovalRequired):
                    if not decide:
                        return
                    await session.approve(event.approval.id, kind="always")


def _judged(tool_name: str, text: str, plugin: Any, *, decide: bool = False) -> Entry:
    """Let a call with a long argument be judged, and wait for a person, who always allows it; then it comes again."""
    turns = [calls((tool_name, {NAMED[tool_name]: text[: MEGABYTE - 100]}))] * 2
    return lambda: _session(
        partial(_until_it_waits, decide=decide), *turns, tools=[Named(tool_name)], plugins=[plugin]
    )


def _inputs_of_waiting(name: str) -> list[tuple[str, Any]]:
    """Calls that wait for approval."""
    plugin = (HumanApproval, {"require_approval_for": [name]})
    return [
        entry
        for case, text in WORDY.items()
        for entry in (
            (case, _judged(name, text, plugin)),
            (f"always: {case}", _judged(name, text, plugin, decide=True)),
        )
    ]


def _inputs_of_rules(name: str) -> list[tuple[str, Any]]:
    """Calls judged by rules with domains, paths, commands, code and agents."""
    return [
        entry
        for case, text in WORDY.items()
        for entry in (
            (f"deny: {case}", _judged(name, text, (Permissions, {"deny": RULES[name], "allow": [name]}))),
            (f"ask: {case}", _judged(name, text, (Permissions, {"ask": RULES[name], "allow": [name]}))),
            (f"allow: {case}", _judged(name, text, (Permissions, {"allow": RULES[name]}))),
        )
    ]


def _inputs_of_text() -> Entries:
    """Functions that take a text of a model, a user or a server in the loop."""
    rules = WebRules()
    reads: dict[str, Callable[[str], object]] = {
        "read_web_url": lambda text: read_web_url(text, rules),
        "plain_words": lambda text: plain_words(text, most=2),
        "family_of": lambda text: (family_of({"command": text}), program_family_of({"command": text})),
        "parse_arguments": parse_arguments,
        "decode_strictly": decode_strictly,
        "without_half_pairs": without_half_pairs,
        "printable": printable,
        "canonical_json": canonical_json,
        "read_decision": lambda text: text_behind("/ok", text),
    }
    halves = {"half": "\\ud800" * (MEGABYTE // 6), "slashes and a half": "\\ud800" + "\\" * MEGABYTE}
    return {
        f"text.{name}": [
            (case, _at_once(partial(_answered, read, text)))
            for case, text in {**WORDY, **DOCUMENTS, **halves}.items()
        ]
        for name, read in reads.items()
    }


def _answered(read: Callable[[str], object], text: str) -> None:
    with suppress(AgentrailError, AddressRefused, NotJson, ValueError):
        read(text)


def _inputs_of_plugin(name: str) -> list[tuple[str, Any]]:
    kind = getattr(plugins, name)
    lines = COMMANDS if name == "SecurityGuard" else {}
    plugin = (kind, {"max_tokens": 1_000_000}) if name == "CostGuard" else kind
    return [
        (
            f"command: {case}",
            _asking(calls(("own", {"command": line})), tools=[_giving("ok")], plugins=[plugin]),
        )
        for case, line in lines.items()
    ] + [
        entry
        for case, text in TEXTS.items()
        for entry in (
            (f"said: {case}", _asking(says(text), plugins=[plugin])),
            (
                f"called: {case}",
                _asking(calls(("own", {"a": text})), tools=[_giving("ok")], plugins=[plugin]),
            ),
            (
                f"given: {case}",
                _asking(calls(("own", "{}")), tools=[_giving(text[:100_000])], plugins=[plugin]),
            ),
        )
    ]


def _inputs_of_stream(wire: str) -> list[tuple[str, Any]]:
    return [(name, _feeding(wire, text)) for name, text in _events(wire).items()]


def _all_inputs() -> dict[str, Callable[[], list[tuple[str, Any]]]]:
    """Say how to make the inputs of each entry: all at once they would be a gigabyte."""
    made: dict[str, Callable[[], list[tuple[str, Any]]]] = {
        "schema.faults": _judgements,
        "structured.judge": _answers,
    }
    for several in (
        _inputs_of_sandboxes,
        _inputs_of_pure_functions,
        _inputs_of_sessions,
        _inputs_of_text,
    ):
        made.update({entry: partial(_made_by, several, entry) for entry in several()})
    made.update({f"waiting.{name}": partial(_inputs_of_waiting, name) for name in NAMED})
    made.update({f"rules.{name}": partial(_inputs_of_rules, name) for name in NAMED})
    for entry in entries_of_the_package() - TAKES_NOTHING:
        room, _, name = entry.partition(".")
        if room == "plugin":
            made[entry] = partial(_inputs_of_plugin, name)
        elif room == "stream":
            made[entry] = partial(_inputs_of_stream, name)
        elif room == "tool" and entry not in made:
            made[entry] = partial(_in_calls, name)
    return made


def _made_by(several: Callable[[], Entries], entry: str) -> list[tuple[str, Any]]:
    return several()[entry]


INPUTS: Final = _all_inputs()


def test_every_public_entry_has_its_hostile_inputs():
    """A new one without any fails here, and one that is gone as well."""
    assert set(INPUTS) | TAKES_NOTHING == entries_of_the_package()
    assert not set(INPUTS) & TAKES_NOTHING


ITEMS: Final = [
    (entry, kind)
    for entry in sorted(INPUTS)
    for kind in (("memory", "local", "composite") if entry.startswith("sandbox.") else ("",))
]


@pytest.mark.parametrize(
    ("entry", "kind"), ITEMS, ids=[f"{entry}-{kind}".rstrip("-") for entry, kind in ITEMS]
)
def test_no_entry_holds_the_loop(entry, kind, tmp_path):
    """Whatever it is given, others have their turn within a twentieth of a second."""
    slow = {}
    for name, work in _chosen(INPUTS[entry]()):
        limit = DENSE_SECONDS if name.rpartition(": ")[2] in DENSE else LIMIT_SECONDS
        for _ in range(ATTEMPTS):
            hold = hold_of(partial(work, _sandbox(kind, tmp_path)) if kind else work)
            if hold.seconds <= limit * slowness():
                break
        else:
            slow[name] = f"{hold.seconds * 1000:.0f} ms in {hold.where}"
    assert slow == {}


def _chosen(inputs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return inputs if IS_WHOLE else inputs[:: -(-len(inputs) // FEW)]

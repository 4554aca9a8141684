"""Asking one plugin as a session would, and answering what it asks for."""

from collections.abc import Mapping
from typing import Any

from agentrail import plugins as p
from agentrail.core.stack.hook_outcome import Outcome, PluginRequest
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.stack.pipeline import deliver, run_hook
from agentrail.core.stack.plugin_changes import decide_update
from agentrail.core.values.notes_markdown import new_notes, topics_of, with_notes
from agentrail.errors import ErrorInfo
from agentrail.events import PluginFailed
from agentrail.messages import (
    AssistantMessage,
    CallId,
    JsonValue,
    SessionId,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
)


class Alone:
    """A plugin in a stack of its own, with its state and with what it asked for."""

    may_fail = False

    def __init__(self, plugin: Any, **options: Any) -> None:
        self.stack, self.states = load_stack([(plugin, options)])
        self.asked: list[PluginRequest] = []

    def hears(self, event: p.HookEvent, **context: Any) -> Outcome:
        return self._keep(run_hook(self.stack, event, self.states, _context(**context)))

    def update(self, **options: Any) -> str | None:
        """Change its options; the error, if it refused them."""
        change = decide_update(self.stack, self.stack.names[0], options, self.states, _context())
        self.stack, self.states = change.stack, change.states
        updated: Any = change.events[-1]
        error = updated.error
        return None if error is None else error.message

    def gets(self, result: Any, **context: Any) -> Outcome:
        """Answer the oldest thing that it asked for."""
        plugin_request = self.asked.pop(0)
        done = p.RequestDone(tag=plugin_request.tag, result=result)
        return self._keep(deliver(self.stack, plugin_request.by, done, self.states, _context(**context)))

    def runs(self, files: dict[str, str], **context: Any) -> list[Any]:
        """Do all that it asks for on some files, and give what it publishes meanwhile."""
        published: list[Any] = []
        while self.asked:
            published += self.gets(_done(self.asked[0].effect, files), **context).events
        return published

    @property
    def wanted(self) -> list[Any]:
        """What it asked for and has not got yet, oldest first."""
        return [plugin_request.effect for plugin_request in self.asked]

    @property
    def state(self) -> Any:
        (state,) = self.states.values()
        return state

    def _keep(self, outcome: Outcome) -> Outcome:
        failed = [event for event in outcome.events if isinstance(event, PluginFailed)]
        assert self.may_fail or not failed, failed
        self.states = outcome.states
        self.asked += outcome.plugin_requests
        if outcome.waiting is not None:  # a hook that is held until the answer comes
            self.asked.append(outcome.waiting.plugin_request)
        return outcome


def _context(**fields: Any) -> p.Context:
    return p.Context(
        **{
            "session_id": SessionId("s"),
            "working_dir": "/srv/project",
            "tools": ("read_file", "shell"),
            **fields,
        }
    )


def _done(wanted: Any, files: dict[str, str]) -> Any:
    match wanted:
        case p.ReadFile(path=path):
            return p.FileText(path=path, text=files.get(path))
        case p.WriteFile(path=path, text=text, append=append):
            files[path] = files.get(path, "") * append + text
            return p.FileWritten(path=path, written_bytes=len(text.encode("utf-8", "surrogatepass")))
        case p.ReadInstructions(names=names, below=below):
            return found_in(files, names, below)
        case p.WriteNotes(topic=topic, facts=facts, dedupe=dedupe):
            known = files.get("NOTES.md", "")
            added = new_notes(known, facts) if dedupe else facts
            files["NOTES.md"] = with_notes(known, topic, added, 0)
            return p.NotesIndex(topics=topics_of(files["NOTES.md"]), added=added)
        case _:
            return failed(f"nobody does {wanted!r} here")


def found_in(files: dict[str, str], names: tuple[str, ...], below: tuple[str, ...]) -> p.InstructionsFound:
    """Look for files for agents as a session does that has nothing above its working directory."""
    paths = [[f"{one}/{name}" if one else name for name in names] for one in below or ("",)]
    first = (next((path for path in of_one if files.get(path, "").strip()), None) for of_one in paths)
    return p.InstructionsFound(
        files=tuple(p.InstructionFile(path=path, text=files[path]) for path in first if path is not None)
    )


def failed(message: str) -> p.RequestFailed:
    """A request that could not be done."""
    return p.RequestFailed(error=ErrorInfo(code="io_error", message=message))


def result(
    text: str, *, name: str = "shell", call_id: str = "c1", is_error: bool = False, details: JsonValue = None
) -> p.AfterTool:
    """A call that is done."""
    made = ToolResult(call_id=CallId(call_id), name=name, text=text, is_error=is_error, details=details)
    return p.AfterTool(name=name, call_id=CallId(call_id), result=made)


def user(text: str) -> UserMessage:
    return UserMessage(content=(Text(text=text),))


def said(text: str, **calls: Mapping[str, Any]) -> AssistantMessage:
    """What the model says, with the arguments of calls by their ids, all of the tool `shell`."""
    asked = (
        ToolCall(call_id=CallId(call_id), name="shell", arguments=arguments)
        for call_id, arguments in calls.items()
    )
    return AssistantMessage(content=(*((Text(text=text),) if text else ()), *asked), model="demo:")


def call(tool: str, **arguments: Any) -> p.BeforeTool:
    return p.BeforeTool(name=tool, arguments=arguments, call_id=CallId("c1"))


def says(text: str, *tools: str) -> p.AfterResponse:
    calls = tuple(ToolCall(call_id=CallId(f"c{n}"), name=name, arguments={}) for n, name in enumerate(tools))
    return p.AfterResponse(message=AssistantMessage(content=(Text(text=text), *calls), model="demo:"))

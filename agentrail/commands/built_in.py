"""The built-in commands. Each calls a method of the session's handle, and formats its result."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from agentrail.commands.command_output import (
    plan_in,
    show_agents,
    show_calls_behind,
    show_commands,
    show_plan_lines,
    show_session_tree,
    show_spent,
    show_status,
    show_turns,
)
from agentrail.commands.slash_command import CommandAnswer, CommandCall, SlashCommand
from agentrail.core.values.transcript import transcript_of
from agentrail.errors import CommandError

_MEMORY_SECTIONS: Final = ("memory", "agent_memory")
_POLICY: Final = ("mode", "deny", "ask", "allow")


@cache
def built_in_commands() -> tuple[SlashCommand, ...]:
    """Return the built-in commands, in the order in which they are listed."""

    def one(name: str, run: object, description: str, arguments: str = "", **more: object) -> SlashCommand:
        given: dict[str, object] = {
            "name": name,
            "description": description,
            "arguments": arguments,
            "run": run,
        }
        return SlashCommand(**given, source="built in", **more)  # type: ignore[arg-type]  # as written below

    typed = {"scope": "terminal", "needs_session": True}
    return (
        one("help", _help, "show all commands", needs_session=False),
        one("status", _status, "show what the session is doing"),
        one("compact", _compact, "replace the beginning of the conversation with a summary", "[why]"),
        one("model", _model, "show the model, or switch to another", "[model]"),
        one("tools", _tools, "list the model's tools"),
        one("agents", _agents, "list the session's agents, and the running ones"),
        one("skills", _skills, "list the skills of the session"),
        one("memory", _memory, "show the memory sent with each request"),
        one("plan", _plan, "show the plan and the todos"),
        one("cost", _cost, "show the session's usage"),
        one("fork", _fork, "start a session that continues from this one", "[turn]"),
        one("rewind", _rewind, "go back to the end of a turn, or list the turns; nothing is deleted", "[turn]", background=False),
        one("export", _export, "show the conversation as text, or write it to a file", "[file]"),
        one("permissions", _permissions, "show permissions: mode, rules, calls that are always allowed"),
        one("break", _break, "stop calls of a tool, or of every tool, for an approval before they run", "[tool]"),
        one("unbreak", _unbreak, "end a breakpoint, or all of them", "[tool]"),
        one("abort", _abort, "stop the running cycle; queued prompts continue", "[why]"),
        one("tree", _tree, "show the running calls and agents"),
        one("steer", None, "steer the running cycle, as in /steer rather in French", "words", **typed),
        one("approve", None, "approve the pending call; /approve always also approves all similar calls", "[#2] [always]", **typed),
        one("edit", None, 'approve the call with other arguments, as in /edit {"path": "notes.md"}', "[#2] {…}", **typed),
        one("reject", None, "reject the pending call, as in /reject not this file", "[#2] [why]", **typed),
        one(
            "answer",
            None,
            'answer the question: in words, with the number of an option, or a form as in /answer {"name": "Ada"}',
            "[#2] words",
            **typed,
        ),
        one("decline", None, "decline to answer the question, as in /decline not your business", "[#2] [why]", **typed),
        one("clear", None, "start a new conversation; this one is kept if there is a store", "", **typed),
        one("sessions", None, "list the stored conversations", "", **typed),
        one("resume", None, "continue another conversation, by default the previous one", "[id]", **typed),
        one("quit", _quit, "stop everything and exit, like Ctrl-D", scope="terminal", needs_session=False),
    )  # fmt: skip


async def _help(call: CommandCall) -> CommandAnswer:  # noqa: RUF029 - a command's function is async
    return CommandAnswer(lines=show_commands(call.desk.rows))


async def _status(call: CommandCall) -> CommandAnswer:
    return CommandAnswer(lines=(show_status(await call.session.status()),))


async def _compact(call: CommandCall) -> CommandAnswer:
    await call.session.compact(call.text or None)
    return CommandAnswer(lines=("the conversation is compacted before the next request",))


async def _model(call: CommandCall) -> CommandAnswer:
    if not call.text:
        return CommandAnswer(lines=(f"the model is {(await call.session.status()).model}",))
    await call.session.switch_model(call.text)
    return CommandAnswer(lines=(f"the model is {call.text} from the next request on",))


async def _tools(call: CommandCall) -> CommandAnswer:  # noqa: RUF029 - a command's function is async
    named = ", ".join(call.desk.facts.tools)
    return CommandAnswer(lines=(f"tools: {named}" if named else "the model has no tools",))


async def _agents(call: CommandCall) -> CommandAnswer:
    return CommandAnswer(lines=show_agents(call.desk.facts.agents, await call.session.status()))


async def _skills(call: CommandCall) -> CommandAnswer:  # noqa: RUF029 - a command's function is async
    found = [tokens for name, tokens in call.desk.facts.sections if name == "skills"]
    said = (
        f"the skills are listed to the model in about {found[0]} tokens"
        if found
        else "this session has no skills: name them for its agent, as in skills = ['*']"
    )
    return CommandAnswer(lines=(said,))


async def _memory(call: CommandCall) -> CommandAnswer:  # noqa: RUF029 - a command's function is async
    found = [
        f"{name}: about {tokens} tokens, sent with each request"
        for name, tokens in call.desk.facts.sections
        if name in _MEMORY_SECTIONS
    ]
    return CommandAnswer(lines=tuple(found) or ("no memory is sent with requests",))


async def _plan(call: CommandCall) -> CommandAnswer:
    steps = plan_in(await call.session.messages())
    return CommandAnswer(lines=show_plan_lines(steps, (await call.session.snapshot()).todos))


async def _cost(call: CommandCall) -> CommandAnswer:
    return CommandAnswer(lines=show_spent((await call.session.status()).usage))


async def _fork(call: CommandCall) -> CommandAnswer:
    fork = await call.session.fork(turn=_turn_of(call))
    return CommandAnswer(lines=(f"{fork.session_id} continues from here; this session stays as it is",))


async def _rewind(call: CommandCall) -> CommandAnswer:
    turn = _turn_of(call)
    if turn is None:
        return CommandAnswer(lines=show_turns(await call.session.turns()))
    rewound = await call.session.rewind(turn=turn)
    head = f"back at the end of turn {turn}; effects outside the session are not undone"
    return CommandAnswer(lines=(head, *show_calls_behind(rewound.calls)))


async def _export(call: CommandCall) -> CommandAnswer:
    text = transcript_of(await call.session.messages())
    return CommandAnswer(
        lines=tuple(text.rstrip("\n").split("\n")) if text else ("the conversation is empty",)
    )


async def _permissions(call: CommandCall) -> CommandAnswer:
    status = await call.session.status()
    lines = []
    for plugin in status.plugins:
        if plugin.name == "Permissions":
            lines += _policies(plugin.options)
    lines += [
        rule.words if rule.breaks else f"always allowed: {rule.tool}{_family(rule.command_family)}"
        for rule in await call.session.rules()
    ]
    return CommandAnswer(lines=tuple(lines) or ("there are no rules: the session's plugins decide",))


async def _break(call: CommandCall) -> CommandAnswer:
    tool = call.text or "*"
    await call.session.break_on(tool)
    return CommandAnswer(
        lines=(f"calls of {'every tool' if tool == '*' else tool} wait for an approval; /unbreak ends it",)
    )


async def _unbreak(call: CommandCall) -> CommandAnswer:
    await call.session.unbreak(call.text or "*")
    return CommandAnswer(lines=("the breakpoint is gone; calls that it stopped still wait",))


async def _abort(call: CommandCall) -> CommandAnswer:
    if (await call.session.status()).phase == "idle":
        return CommandAnswer(lines=("nothing runs",))
    await call.session.abort(call.text or "by the user")
    return CommandAnswer(lines=("stopped",))


async def _tree(call: CommandCall) -> CommandAnswer:
    if call.desk.tree is not None:
        return CommandAnswer(lines=tuple((await call.desk.tree()).splitlines()))
    return CommandAnswer(lines=show_session_tree(await call.session.status()))


async def _quit(_: CommandCall) -> CommandAnswer:  # noqa: RUF029 - a command's function is async
    return CommandAnswer(leaves=True)


def _turn_of(call: CommandCall) -> int | None:
    if not call.text:
        return None
    if not (call.text.isascii() and call.text.isdecimal() and len(call.text) < 10 and int(call.text) > 0):  # noqa: PLR2004 - nine digits
        message = f"/{call.name} takes the number of a turn, counted from 1, as in /{call.name} 2; got {call.text!r:.80}"
        raise CommandError(message)
    return int(call.text)


def _family(family: str | None) -> str:
    return "" if family is None else f"({family})"


def _policies(options: Mapping[str, Any]) -> list[str]:
    """Return the rules of each scope: the session's own first, then files, then the additional policies."""
    scopes: Mapping[str, Any] = options.get("scopes") or {}
    tables = [("", options), *((f" ({scope})", table) for scope, table in scopes.items())]
    tables += [(" (besides)", table) for table in options.get("within") or ()]
    lines = [
        f"{name}: {_shown(table[name])}{where}"
        for where, table in tables
        for name in _POLICY
        if table.get(name)
    ]
    named = any(table.get("mode") for _, table in tables)
    return lines if named else ["mode: default" if lines else "mode: default, without rules", *lines]


def _shown(value: object) -> str:
    return value if isinstance(value, str) else ", ".join(map(str, value))  # type: ignore[call-overload]  # a list of rules

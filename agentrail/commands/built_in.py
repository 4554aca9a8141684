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
        one("status", _status, "say what the session is doing"),
        one("compact", _compact, "let a summary stand for the beginning of the conversation", "[why]"),
        one("model", _model, "say which model is asked, or ask another one from now on", "[model]"),
        one("tools", _tools, "list what the model may call"),
        one("agents", _agents, "list who may work for the session, and who does"),
        one("skills", _skills, "list the skills of the session"),
        one("memory", _memory, "say what the session remembers in front of each request"),
        one("plan", _plan, "show the plan, and what is to do"),
        one("cost", _cost, "say what the session has used"),
        one("fork", _fork, "begin a session that goes on from this one", "[turn]"),
        one("rewind", _rewind, "go back to the end of a turn, or list the turns; nothing is deleted", "[turn]", background=False),
        one("export", _export, "give the conversation as text, or write it to a file", "[file]"),
        one("permissions", _permissions, "say what may run: mode, rules, what is always allowed"),
        one("abort", _abort, "stop the running cycle; what waits goes on", "[why]"),
        one("tree", _tree, "show what runs, and what works for it"),
        one("steer", None, "say something to the running cycle, as in /steer rather in French", "words", **typed),
        one("approve", None, "let the call run that waits; /approve always for all that are like it", "[#2] [always]", **typed),
        one("edit", None, 'let the call run with other arguments, as in /edit {"path": "notes.md"}', "[#2] {…}", **typed),
        one("reject", None, "refuse the call that waits, as in /reject not this file", "[#2] [why]", **typed),
        one(
            "answer",
            None,
            'answer what was asked: in words, with the number of an option, a form as in /answer {"name": "Ada"}',
            "[#2] words",
            **typed,
        ),
        one("decline", None, "give no answer to what was asked, as in /decline not your business", "[#2] [why]", **typed),
        one("clear", None, "begin a new conversation; this one is kept where there is a store", "", **typed),
        one("sessions", None, "list the conversations that are kept", "", **typed),
        one("resume", None, "go on with another conversation; without an id with the one before", "[id]", **typed),
        one("quit", _quit, "stop everything and leave, as Ctrl-D does", scope="terminal", needs_session=False),
    )  # fmt: skip


async def _help(call: CommandCall) -> CommandAnswer:  # noqa: ASYNC124 - a command's function is async
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


async def _tools(call: CommandCall) -> CommandAnswer:  # noqa: ASYNC124 - a command's function is async
    named = ", ".join(call.desk.facts.tools)
    return CommandAnswer(lines=(f"tools: {named}" if named else "the model has no tools",))


async def _agents(call: CommandCall) -> CommandAnswer:
    return CommandAnswer(lines=show_agents(call.desk.facts.agents, await call.session.status()))


async def _skills(call: CommandCall) -> CommandAnswer:  # noqa: ASYNC124 - a command's function is async
    found = [tokens for name, tokens in call.desk.facts.sections if name == "skills"]
    said = (
        f"the skills are listed to the model in about {found[0]} tokens"
        if found
        else "this session has no skills"
    )
    return CommandAnswer(lines=(said,))


async def _memory(call: CommandCall) -> CommandAnswer:  # noqa: ASYNC124 - a command's function is async
    found = [
        f"{name}: about {tokens} tokens, in front of each request"
        for name, tokens in call.desk.facts.sections
        if name in _MEMORY_SECTIONS
    ]
    return CommandAnswer(lines=tuple(found) or ("nothing is remembered in front of requests",))


async def _plan(call: CommandCall) -> CommandAnswer:
    steps = plan_in(await call.session.messages())
    return CommandAnswer(lines=show_plan_lines(steps, (await call.session.snapshot()).todos))


async def _cost(call: CommandCall) -> CommandAnswer:
    return CommandAnswer(lines=show_spent((await call.session.status()).usage))


async def _fork(call: CommandCall) -> CommandAnswer:
    fork = await call.session.fork(turn=_turn_of(call))
    return CommandAnswer(lines=(f"{fork.session_id} goes on from here; this session goes on as it is",))


async def _rewind(call: CommandCall) -> CommandAnswer:
    turn = _turn_of(call)
    if turn is None:
        return CommandAnswer(lines=show_turns(await call.session.turns()))
    rewound = await call.session.rewind(turn=turn)
    head = f"back at the end of turn {turn}; what happened outside stays done"
    return CommandAnswer(lines=(head, *show_calls_behind(rewound.calls)))


async def _export(call: CommandCall) -> CommandAnswer:
    text = transcript_of(await call.session.messages())
    return CommandAnswer(lines=tuple(text.rstrip("\n").split("\n")) if text else ("nothing was said yet",))


async def _permissions(call: CommandCall) -> CommandAnswer:
    status = await call.session.status()
    lines = []
    for plugin in status.plugins:
        if plugin.name == "Permissions":
            lines += _policies(plugin.options)
    lines += [
        f"always allowed: {rule.tool}{_family(rule.command_family)}" for rule in await call.session.rules()
    ]
    return CommandAnswer(lines=tuple(lines) or ("there are no rules: the plugins of the session decide",))


async def _abort(call: CommandCall) -> CommandAnswer:
    if (await call.session.status()).phase == "idle":
        return CommandAnswer(lines=("nothing runs",))
    await call.session.abort(call.text or "by the user")
    return CommandAnswer(lines=("stopped",))


async def _tree(call: CommandCall) -> CommandAnswer:
    if call.desk.tree is not None:
        return CommandAnswer(lines=tuple((await call.desk.tree()).splitlines()))
    return CommandAnswer(lines=show_session_tree(await call.session.status()))


async def _quit(_: CommandCall) -> CommandAnswer:  # noqa: ASYNC124 - a command's function is async
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
    return lines if named else ["mode: default" if lines else "mode: default, and no rule is written", *lines]


def _shown(value: object) -> str:
    return value if isinstance(value, str) else ", ".join(map(str, value))  # type: ignore[call-overload]  # a list of rules

"""`agentrail permissions`: explain what the rules decide about a call, and check a file of rules. Starts and runs nothing."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from attrs import evolve
from cyclopts import App, Parameter

from agentrail.cli.config_setup import AgentOption, ConfigFiles, read_setup, write_notice
from agentrail.cli.exit_codes import Exit, describe_error
from agentrail.cli.log_output import Debug, send_logs_to_stderr
from agentrail.cli.stdio import write_error
from agentrail.cli.text_output import print_text, read_named_text
from agentrail.config.toml_text import TomlFault, read_toml_text
from agentrail.errors import AgentrailError, OptionError
from agentrail.frozen import thawed
from agentrail.messages import JsonObject
from agentrail.plugins import Permissions
from agentrail.plugins.permission_always import proposed_rules
from agentrail.plugins.permission_policy import (
    LISTS,
    PermissionPolicy,
    ScopedRules,
    WrittenRule,
    join,
    read_scope,
)
from agentrail.plugins.permission_verdict import (
    AskedRule,
    PermissionCall,
    PermissionVerdict,
    explain_call,
)
from agentrail.plugins.permission_warnings import warnings_of
from agentrail.plugins.shell_plain import NotRead, PlainLine

app: Final = App(name="permissions", result_action="return_value")


@app.command(
    name="explain",
    help="""Explain the verdict on a call: the deciding rule, and the answer of each rule that was consulted.

    Exit codes: 0 printed, 2 wrong usage, or the file cannot be read.""",
)
def explain_permissions(  # noqa: PLR0913 - one for each option
    tool: Annotated[str, Parameter(help="The tool, such as shell.")],
    *,
    args: Annotated[str, Parameter(help='Its arguments, a JSON object: {"command": "git log"}.')] = "{}",
    policy: Annotated[
        Path | None,
        Parameter(help="A TOML file with mode, deny, ask and allow; without it, the configuration files."),
    ] = None,
    agent: AgentOption = None,
    files: ConfigFiles = ConfigFiles(),  # noqa: B008 - frozen
    debug: Debug = False,
) -> Exit:
    send_logs_to_stderr(debug=debug)
    call = _call(tool, args)
    if policy is None:
        found = _policy_of_files(files, agent)
    else:
        found = join({"session": read_policy(policy)}, may_bypass=True)
    verdict = explain_call(found, call)
    return print_text("\n".join(_tell(call, verdict)))


@app.command(
    name="check",
    help="""Read a file of rules, and report those that can never match.

    Exit codes: 0 it can be read, 1 a rule cannot, 2 there is no such file, or it is not TOML.""",
)
def check_permissions(
    file: Annotated[Path, Parameter(help="A TOML file with mode, deny, ask and allow.")],
    *,
    debug: Debug = False,
) -> Exit:
    send_logs_to_stderr(debug=debug)
    rules = read_rule_table(file, read_named_text(file))
    try:
        policy = join({"session": _read(file, *rules)}, may_bypass=True)
    except AgentrailError as error:
        write_error(describe_error(error))
        return Exit.FAILED
    return print_text("\n".join(_told_of(file, policy)))


def _policy_of_files(files: ConfigFiles, agent: str | None) -> PermissionPolicy:
    """Return the policy of a session that `run` or `chat` would start here, each rule with its file and line."""
    setup = read_setup(files, agent)
    write_notice(setup)
    plugins = () if setup is None else setup.blueprint.override(may_bypass=True).options().get("plugins", ())
    options = next((one[1] for one in plugins if isinstance(one, tuple) and one[0] is Permissions), None)
    if setup is None or options is None:
        write_error("no file has permissions: this is the mode default without rules")
        return join({})
    state = Permissions().init(**thawed(options))
    lists: dict[str, dict[str, Any]] = {}
    for said in setup.blueprint.permissions:
        for name in LISTS:
            rules = tuple(WrittenRule(one.value, said.scope, str(one.place)) for one in getattr(said, name))
            known = lists.setdefault(said.scope, {})
            known[name] = (*known.get(name, ()), *rules)
    scoped = tuple((scope, evolve(one, **lists.get(scope, {}))) for scope, one in state.scoped)
    return evolve(state, scoped=scoped).policy


def read_policy(path: Path) -> ScopedRules:
    return _read(path, *read_rule_table(path, read_named_text(path)))


def read_rule_table(path: Path, text: str) -> tuple[Mapping[str, Any], dict[str, list[int]]]:
    """Return the table of rules, and the line of each rule of its lists."""
    try:
        found, lines = read_toml_text(text)
    except TomlFault as fault:
        raise OptionError([f"{path}:{fault.line}: {fault.said}"]) from fault
    above = ("permissions",) if "permissions" in found else ()
    table = found.get("permissions", found)
    if not isinstance(table, dict):
        raise OptionError(
            [f"{path}: permissions is a table with mode, deny, ask and allow; got {table!r:.80}"]
        )
    of_rules: dict[str, list[int]] = {
        name: [at for place, at in lines.items() if place[:-1] == (*above, name)] for name in LISTS
    }
    return table, of_rules


def _read(path: Path, table: Mapping[str, Any], lines: Mapping[str, Sequence[int]]) -> ScopedRules:
    places = {name: [f"{path}:{line}" for line in of_name] for name, of_name in lines.items()}
    try:
        return read_scope("session", table, places=places)
    except OptionError as error:
        # Faults of rules already have their line.
        faults = [fault if fault.startswith(f"{path}:") else f"{path}: {fault}" for fault in error.faults]
        raise OptionError(faults) from error


def _call(tool: str, args: str) -> PermissionCall:
    try:
        arguments = msgspec.json.decode(args)
    except (msgspec.DecodeError, RecursionError) as error:
        raise OptionError([f"--args is not JSON: {error}"]) from error
    if not isinstance(arguments, dict):
        raise OptionError([f'--args is a JSON object, such as {{"command": "git log"}}; got {args!r:.80}'])
    here = os.getcwd()  # noqa: PTH109 - text is wanted
    return PermissionCall(
        tool=tool,
        arguments=arguments,
        working_dir=here,
        home=os.path.expanduser("~"),  # noqa: PTH111 - same
        leads_to=_end_of_links(here, arguments),
    )


def _end_of_links(here: str, arguments: JsonObject) -> tuple[str, ...]:
    path = arguments.get("path")
    if not isinstance(path, str) or "\0" in path:
        return ()
    written = os.path.normpath(os.path.join(here, path))  # noqa: PTH118 - names only
    real = os.path.realpath(written)
    return () if real == written else (real,)


def _tell(call: PermissionCall, verdict: PermissionVerdict) -> Iterator[str]:
    line = call.arguments.get("command")
    match verdict.reading:
        case PlainLine(commands=commands):
            yield f"read as: {'  then  '.join(' '.join(command.words) for command in commands)}"
        case NotRead(at=at, why=why) if isinstance(line, str):
            yield f"read up to character {at}: {line[:at]!r:.100} (then comes {why})"
        case _:
            pass
    yield from map(_row, verdict.asked)
    yield f"{verdict.decision}: {verdict.why}"
    proposed = proposed_rules(call, verdict)
    if proposed:
        yield f"always would allow: {', '.join(proposed)}"


def _row(asked: AskedRule) -> str:
    said = "yes" if asked.matched else "no"
    where = asked.rule.place or asked.rule.scope
    return f"  {asked.name:<5} {where}  {asked.rule.text}  {said}" + (
        f": {asked.command}" if asked.command else ""
    )


def _told_of(file: Path, policy: PermissionPolicy) -> Iterator[str]:
    counts = ", ".join(f"{len(getattr(policy, name))} {name}" for name in LISTS)
    yield f"{file}: mode {policy.mode}; rules: {counts}"
    yield from (f"warning: {warning}" for warning in warnings_of(policy))

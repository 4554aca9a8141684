"""`agentrail plugins`: the built-in plugins, and a stack's answer to a hook event. Starts nothing and calls no model."""

import importlib
import inspect
import pkgutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import App, Parameter

import agentrail.plugins
from agentrail.blueprints.builder import import_name
from agentrail.cli.exit_codes import Exit
from agentrail.cli.log_output import Debug, send_logs_to_stderr
from agentrail.cli.text_output import print_text, read_named
from agentrail.core.protocol.hooks import HOOKS
from agentrail.core.stack.loaded_stack import PluginEntry, load_stack
from agentrail.core.stack.pipeline import explain_hook as explain_run
from agentrail.core.stack.plugin import Context
from agentrail.core.wire.hook_codec import decode_hook_event
from agentrail.errors import OptionError
from agentrail.errors.name_guesses import near_name
from agentrail.messages import SessionId
from agentrail.plugins.base import Plugin

app: Final = App(name="plugins", result_action="return_value")


@app.default
def list_plugins(*, debug: Debug = False) -> Exit:
    send_logs_to_stderr(debug=debug)
    return print_text("\n\n".join(map(show_plugin, built_ins())))


@app.command(
    help="""Explain a stack's answer to one hook event: the plugins called, their answers, the winner.

    Exit codes: 0 printed, 2 there is no such stack or event."""
)
def explain(
    stack: Annotated[
        str,
        Parameter(
            help="Built-in plugins with commas between them, or package.module:NAME, where NAME is a list of plugins "
            "as start_session takes them."
        ),
    ],
    event: Annotated[Path, Parameter(help='A file with a hook event as JSON: {"hook": "BeforeTool", …}.')],
    *,
    debug: Debug = False,
) -> Exit:
    send_logs_to_stderr(debug=debug)
    compiled, states = load_stack(find_stack(stack))
    asked = decode_hook_event(read_named(event))
    ctx = Context(session_id=SessionId("explained"), working_dir=str(Path.cwd()))
    return print_text(str(explain_run(compiled, asked, states, ctx)))


def built_ins() -> tuple[type[Plugin[Any]], ...]:
    """Return the built-in plugins, in the order in which they are called."""
    found: list[type[Plugin[Any]]] = []
    for module in pkgutil.iter_modules(agentrail.plugins.__path__, "agentrail.plugins."):
        members = vars(importlib.import_module(module.name)).values()
        found += (
            member
            for member in members
            if isinstance(member, type) and issubclass(member, Plugin) and member.__module__ == module.name
        )
    own = (plugin for plugin in found if plugin.__module__ != Plugin.__module__)
    return tuple(sorted(own, key=lambda plugin: (plugin.priority, plugin.__name__)))


def show_plugin(plugin: type[Plugin[Any]]) -> str:
    """Describe one plugin: its priority and name, its purpose, its hooks and its options."""
    # In the order of the documentation, because the declared set has no order.
    hooks = [hook.__name__ for hook in HOOKS if plugin.hooks is None or hook in plugin.hooks]
    parameters = inspect.signature(plugin.init).parameters.values()
    options = [_show_option(option) for option in parameters if option.name != "self"]
    return "\n".join(
        (
            f"{plugin.priority:>4} {plugin.__name__}: {(inspect.getdoc(plugin) or '').partition(chr(10))[0]}",
            f"     hooks: {', '.join(hooks) if len(hooks) < len(HOOKS) else 'all'}",
            f"     options: {', '.join(options) or 'none'}",
        )
    )


def find_stack(name: str) -> Sequence[PluginEntry]:
    if ":" in name:
        stack = import_name(name, str(Path.cwd()))
        match stack:
            case (_, dict()):  # one plugin with its options
                return [stack]
            case list() | tuple():
                return list(stack)
            case _:
                return [stack]
    known = {plugin.__name__: plugin for plugin in built_ins()}
    wanted = [word.strip() for word in name.split(",") if word.strip()]
    unknown = [word for word in wanted if word not in known]
    if unknown or not wanted:
        missing = ", ".join(map(repr, unknown)) or "nothing"
        hint = near_name("".join(unknown[:1]), known, ". Did you mean {!r}? There", "; there")
        message = f"{missing} is not a built-in plugin{hint} are {', '.join(known)}; your own are package.module:NAME"
        raise OptionError([message])
    return [known[word] for word in wanted]


def _show_option(option: inspect.Parameter) -> str:
    return option.name if option.default is option.empty else f"{option.name}={option.default!r}"

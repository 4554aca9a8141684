"""Tools: functions that a model may call.

- `agentrail.abc.Tool` is the port. `@tool` in `function.py` makes a tool of a function, and a class with its members is
  one too.
- The built-in tools are in one file each. They work on the sandbox of the call, and use no other files or processes.
- `builtin()` returns all of them, `builtin("read_file")` some.

A tool of your own:

    >>> from agentrail.tools.function import tool
    >>> @tool(effect_class="pure")
    ... async def shout(text: str) -> str:
    ...     \"\"\"Say it louder.\"\"\"
    ...     return text.upper()
    >>> shout.parameters["required"]
    ['text']
"""

from typing import Final

from agentrail.abc import Tool
from agentrail.errors import ToolDefinitionError
from agentrail.errors.name_guesses import near_name
from agentrail.otp.guarded_calls import repr_of
from agentrail.tools import (
    ask_user,
    compact_conversation,
    edit_file,
    exit_plan,
    forget,
    glob,
    grep,
    kb_list,
    kb_read,
    kb_search,
    list_dir,
    python,
    read_file,
    recall,
    remember,
    shell,
    shell_output,
    shell_stop,
    sleep,
    task,
    web_fetch,
    web_search,
    write_file,
    write_todos,
)
from agentrail.web.rules import WebRules
from agentrail.web.web_client import WebClient

# fmt: off
_ALL: Final[tuple[Tool, ...]] = (
    ask_user.ask_user, compact_conversation.compact_conversation, edit_file.edit_file, glob.glob, grep.grep, list_dir.list_dir, read_file.read_file, shell.shell,
    task.TaskTool(), write_file.write_file, write_todos.write_todos,
)
# fmt: on
_BUILTIN: Final[dict[str, Tool]] = {made.name: made for made in _ALL}

# Returned by name only: without memories, knowledge, a search engine or the mode `plan` they are useless, and
# would take space in every request. Tools that reach the web must be named explicitly.
_WEB: Final = WebClient(WebRules())
_BY_NAME: Final[tuple[Tool, ...]] = (
    python.python, shell_output.shell_output, shell_stop.shell_stop, sleep.SleepTool(),
    exit_plan.exit_plan, forget.forget_memory, kb_list.kb_list, kb_read.kb_read, kb_search.kb_search, recall.recall_memories, remember.remember_text,
    web_fetch.web_fetch_tool(_WEB), web_search.web_search_tool(None, _WEB),
)  # fmt: skip
_NAMED: Final[dict[str, Tool]] = _BUILTIN | {made.name: made for made in _BY_NAME}


def builtin_names() -> tuple[str, ...]:
    """Return the names of all built-in tools, sorted, including those that `builtin` returns by name only."""
    return tuple(sorted(_NAMED))


def builtin(*names: str) -> tuple[Tool, ...]:
    """Return the built-in tools of these names, in this order. Without names, return all that need no setup, sorted by name.

    The following are returned by name only. `remember`, `recall` and `forget` need a supervisor with `memories`.
    `kb_list`, `kb_search` and `kb_read` need `knowledge`. `exit_plan` is for the mode `plan` of `Permissions`.
    `web_fetch` and `web_search` reach the web. For your own rules and search engine, use `web_fetch_tool` and
    `web_search_tool`. `shell_output`, `shell_stop` and `sleep` belong to a `shell` with background commands. `python`
    is also returned by name only.

    Raises:
        ToolDefinitionError: Your move: no built-in tool has that name. The message contains the nearest one.
    """
    given: tuple[object, ...] = names  # annotations cannot be trusted here
    unknown = [name for name in given if not isinstance(name, str) or name not in _NAMED]
    if unknown:
        hint = near_name(repr_of(unknown[0], str), _NAMED, " Did you mean {!r}?")
        message = f"no built-in tool is named {repr_of(unknown[0]):.200}.{hint} There are: {', '.join(sorted(_NAMED))}"
        raise ToolDefinitionError(message)
    return tuple(_NAMED[name] for name in names or sorted(_BUILTIN))

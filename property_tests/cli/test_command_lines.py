"""Command lines and configurations of all kinds: each ends with a documented code, and none with a report of a bug."""

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hypothesis import given, strategies as st

from agentrail.cli.command_tree import app, run_command_line
from agentrail.cli.exit_codes import Exit

FORKS: Final = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["agentrail.cli.command_tree", "agentrail.app", "property_tests.cli.test_command_lines"]
)

WAITING: Final = frozenset({"acp", "chat", "demo", "serve", "simulate", "top"})
"""Commands that end when someone ends them, or that have tests of minutes."""

WORDS: Final = [
    "", "0", "-1", "1e400", "nan", "9" * 20, "0x10", "1_000", "../x", ".", "/", "/dev/null", "missing", "folder", "x" * 5_000, "a b",
    "a\nb", "\x1b[31m", "é", "--", "-", "latest", "agentrail.toml", "bad.toml", "deep.json", "noise", "empty", "http://", "http://127.0.0.1:1",
    "https://[::1", "sqlite:x", "memory:", "postgres://u@127.0.0.1:1/db", "2026-13-01", "-5m", "{}", "[]", "null", "true", "helper", "demo",
    "openai:x", "os", "os:path", "broken:it", "json", "%s", "{0}", "s-1",
]  # fmt: skip
VALUES: Final = st.recursive(
    st.sampled_from([0, -1, 2**70, 1.5, float("inf"), True, "", "..", "/", "a\0b", "x" * 5_000, "os:system", "http://x:99999", "demo", "5m", "("]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["env", "file", "command", "url", "a b", ""]), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip
SECTIONS: Final = [
    "defaults",
    "permissions",
    "providers",
    "web",
    "mcp",
    "embedder",
    "telemetry",
    "host",
    "memory",
    "skills",
    "budget",
]
KEYS: Final = [
    "model", "max_turns", "prompt", "description", "tools", "agents", "plugins", "base", "allow", "deny", "mode", "api_key", "command", "url",
    "port", "profiles", "limits", "endpoint", "dimension", "search", "disable", "max_cost_usd",
]  # fmt: skip


def _leaves(command: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], list[str]]]:
    """Return the commands that end by themselves, with their options."""
    names = [name for name in command if not name.startswith("-")]
    found = [one for name in names for one in _leaves(command[name], (*path, name))]
    if path and command.default_command is not None and WAITING.isdisjoint(path):
        arguments = command.assemble_argument_collection(parse_docstring=False)
        found.append((path, [name for one in arguments for name in one.names if name.startswith("--")]))
    return found


@cache  # asked once, because it imports every command
def _commands() -> list[tuple[tuple[str, ...], list[str]]]:
    return _leaves(app)


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    path, options = draw(st.sampled_from(_commands()))
    words = draw(st.lists(st.sampled_from(WORDS), max_size=3))
    named = draw(
        st.lists(st.tuples(st.sampled_from([*options, "--help"]), st.sampled_from(WORDS)), max_size=3)
    )
    return [*path, *words, *(f"{name}={word}" for name, word in named)]


configurations = st.fixed_dictionaries(
    {"version": st.just(1)},
    optional={
        "default_agent": VALUES,
        "agents": VALUES
        | st.fixed_dictionaries({"helper": st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4)}),
        **{name: VALUES | st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3) for name in SECTIONS},
    },
)


def _toml(value: object) -> str:
    match value:
        case Mapping():
            return f"{{{', '.join(f'{json.dumps(name)} = {_toml(one)}' for name, one in value.items())}}}"
        case list():
            return f"[{', '.join(map(_toml, value))}]"
        case float():
            return repr(value)
        case _:
            return json.dumps(value)


def _run(line: list[str], folder: str) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(PATH="/usr/bin:/bin", HOME=folder, TMPDIR=folder)
    with open("output", "wb") as output, open(os.devnull, "rb") as nothing:  # noqa: PTH123 - their numbers are needed
        for number, stream in enumerate((nothing, output, output)):
            os.dup2(stream.fileno(), number)
    signal.alarm(100)
    code = run_command_line(line)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # without the exit of a test process


@given(line=command_lines(), configuration=configurations)
def test_any_command_line_ends_with_a_documented_code(line, configuration):
    """In a directory with a configuration and files that are none of what a command expects."""
    with TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "folder").mkdir()
        (place / "agentrail.toml").write_text(
            "".join(f"{name} = {_toml(one)}\n" for name, one in configuration.items())
        )
        (place / "bad.toml").write_text("[[[")
        (place / "deep.json").write_text("[" * 100_000)
        (place / "noise").write_bytes(bytes(range(256)))
        (place / "empty").touch()
        (place / "broken.py").write_text("1 / 0\n")
        process = FORKS.Process(target=_run, args=(line, folder))
        process.start()
        process.join()
        said = (place / "output").read_text(errors="replace")
        assert process.exitcode in {*Exit}, said
        assert "Traceback" not in said
        assert "has a bug" not in said

"""Scenarios: what a session does, as a text that people read and a program compares.

What goes in stands at the margin with its time in ms; what comes out is indented below it: the phase, what entered the
history, the effects in order, and the events of the groups in `show`.

    # a prompt is answered
    session show=cycle
    tool list_dir path=string?
    plugin people BeforeTool.list_dir=approve:"may it look?"
    @0     Prompt p1 "Hello"
               RUNNING          Publish PromptReceived p1 "Hello"; Publish AgentStart p1; StartStream r1 messages=1; …
    @900   ResponseCompleted r1 "Hi."
               IDLE             Publish AgentEnd messages=2 end; …

Ids of effects are those that the core mints. A line that begins with `#` is a remark, and stays where it is. Reading
(`read_scenario`) and playing (`play`) are apart, so that something else than the pure core can be driven by the same file:
inputs that have an `effect_id` come from the world, those that have a `signal_id` from people, the others from the
supervisor.

Store what comes out with `python -m agentrail.testing.scenario --rewrite tests/scenarios`, and read the diff as behaviour.
"""

import difflib
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from attrs import evolve, frozen

from agentrail.core.journal.folding import Walked
from agentrail.core.protocol.effects import Effect, RunTool
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import Signal, ToolFinished
from agentrail.core.session import machine
from agentrail.core.session.legality import is_late_ephemeral
from agentrail.core.session.state import SessionConfig, SessionState
from agentrail.core.stack.loading import PluginEntry, load_stack
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.errors import InternalError
from agentrail.messages import Message
from agentrail.testing.plugins import PluginShelf
from agentrail.testing.scenario_head import (
    StackOrigin,
    print_plugin,
    print_session,
    print_tool,
    read_plugin,
    read_session,
    read_tool,
)
from agentrail.testing.scenario_out import Group, encode_effect, encode_message
from agentrail.testing.scenario_signals import print_signal, read_message, read_signal
from agentrail.testing.scenario_syntax import Pair, ScenarioError, split_words

MAX_COLUMNS: Final = 120
_INDENT: Final = " " * 11
_PHASE_COLUMNS: Final = 17


@frozen(kw_only=True)
class Input:
    """One line at the margin.

    Attributes:
        text: The line as it stands.
        number: Where it stands, from 1.
        signal: What it means.
        is_timed: Whether it says when its tool began; else that is known when the scenario is played.
    """

    text: str
    number: int
    signal: Signal
    is_timed: bool = False


@frozen(kw_only=True)
class Scenario:
    """A file that was read.

    Attributes:
        config: Of the session.
        tools: That it has.
        plugins: Its stack, in the order of registration.
        messages: The conversation that it begins with, as it came from elsewhere.
        show: Which events are printed.
        lines: Everything but what comes out, in order: inputs, and as text what is kept as it is.
    """

    config: SessionConfig
    tools: Toolbox
    plugins: tuple[PluginEntry, ...] = ()
    messages: tuple[Message, ...] = ()
    show: frozenset[Group]
    lines: tuple[Input | str, ...]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What goes in, in order."""
        return tuple(line for line in self.lines if isinstance(line, Input))


def run_scenario(path: Path | str, *, rewrite: bool = False) -> None:
    """Play a scenario file on the pure core and compare the whole text.

    Args:
        path: The file.
        rewrite: Whether to store what came out, in place of complaining about it.

    Raises:
        AssertionError: What came out is not what is written; the message is the difference.
        ScenarioError: Your move: the file cannot be read; the message names the line.
    """
    file = Path(path)
    written = file.read_text(encoding="utf-8")
    came = play(read_scenario(written))
    if came == written:
        return
    if rewrite:
        file.write_text(came, encoding="utf-8")
        return
    lines = difflib.unified_diff(
        written.splitlines(keepends=True), came.splitlines(keepends=True), f"{file} as written", "as it came"
    )
    message = f"{file.name} came out differently; if that is right, store it with --rewrite\n{''.join(lines)}"
    raise AssertionError(message)


def read_scenario(text: str) -> Scenario:
    """Read a scenario; what is indented came out of an earlier run, and is left out.

    Raises:
        ScenarioError: Your move: the message names the line.
    """
    config, show = read_session("session")
    specs: list[ToolSpec] = []
    plugins: list[PluginEntry] = []
    messages: list[Message] = []
    lines: list[Input | str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith(_INDENT):
            continue
        lines.append(line)
        try:
            match line.partition(" "):
                case ("", _, _) | ("#", _, _):
                    pass
                case ("session", _, _):  # session max_turns=2 immune_tools=watch show=cycle,tools
                    config, show = read_session(line)
                # message user "Look." · message assistant c1:read · message results c1:read="a"
                case ("message", _, words):
                    messages.append(read_message(words))
                case ("tool", _, _):  # tool read_file path=string lines=integer? unkillable class=pure
                    specs.append(read_tool(line))
                # plugin SecurityGuard · plugin my.guards:STACK[0] · plugin guard BeforeTool=block:"no"
                case ("plugin", _, words):
                    plugins.append(read_plugin(words))
                case (time, _, command) if time.startswith("@"):  # @120 Prompt p1 "Hello"
                    signal = read_signal(command.strip(), int(time[1:]))
                    is_timed = isinstance(signal, ToolFinished) and _says_start(command)
                    lines[-1] = Input(text=line, number=number, signal=signal, is_timed=is_timed)
                case _:
                    expected = (
                        "expected session, tool, plugin, message, @<ms> and a command, or # and a remark"
                    )
                    raise ScenarioError(expected)
        except ValueError as error:
            message = f"line {number}, {line!r}: {error}"
            raise ScenarioError(message) from None
    return Scenario(
        config=config,
        tools=Toolbox(specs),
        plugins=tuple(plugins),
        messages=tuple(messages),
        show=show,
        lines=tuple(lines),
    )


def _says_start(command: str) -> bool:
    return any(isinstance(word, Pair) and word.key == "started" for word in split_words(command))


def play(scenario: Scenario) -> str:
    """Play a scenario on the pure core, and return the text that a file should have."""
    stack, states = load_stack(scenario.plugins, ask=PluginShelf())
    state = machine.new_session(scenario.config, scenario.tools, stack, states, scenario.messages)
    began_at_ms: dict[EffectId, int] = {}
    text: list[str] = []
    for line in scenario.lines:
        if isinstance(line, str):
            text.append(line)
            continue
        signal = line.signal
        if isinstance(signal, ToolFinished) and not line.is_timed:
            began = began_at_ms.get(signal.effect_id, signal.at_ms)
            signal = msgspec.structs.replace(signal, started_at_ms=began)
        text.append(line.text)
        try:
            after, effects = machine.step(state, signal)
        except InternalError as error:
            text.extend(_print(state, [_raised(str(error))]))
            continue
        began_at_ms |= {run.effect_id: signal.at_ms for run in effects if isinstance(run, RunTool)}
        text.extend(_print(after, _items(state, signal, after, effects, scenario.show)))
        state = after
    return "\n".join(text) + "\n"


def write_scenario(  # noqa: PLR0913 - one option per part of the head of a file
    signals: Iterable[Signal],
    *,
    config: SessionConfig,
    tools: Toolbox,
    remark: str,
    plugins: Sequence[PluginEntry] = (),
    origin: StackOrigin | None = None,
    show: Sequence[str] = ("cycle", "tools", "history"),
) -> str:
    """Write signals down as a scenario, with what comes out of them: a counter-example that one can keep.

    Args:
        signals: What goes in.
        config: Of the session.
        tools: Of the session. Schemas are written as far as the language of scenarios has words for them.
        remark: The sentence at the head of the file.
        plugins: Its stack, in the order of registration. One that nothing leads to from an import is written as a remark.
        origin: A list of plugins that can be imported, and its path: leads to those that stand there.
        show: The groups of events to print.
    """
    head = [f"# {remark}", print_session(config, show), *map(print_tool, tools)]
    head += [print_plugin(entry, origin) for entry in plugins]
    body = [f"@{signal.at_ms:<5} {print_signal(signal)}" for signal in signals]
    scenario = read_scenario("\n".join([*head, *body]))
    # Those that cannot be read back played a part all the same.
    return play(evolve(scenario, plugins=tuple(plugins)))


# --- what came out


def print_step(walked: Walked, show: frozenset[Group]) -> Iterator[str]:
    """Write what came of a record that is a signal, as `play` does of a line.

    Args:
        walked: The record, and what it came to.
        show: The groups of events that are written.
    """
    signal = walked.signal
    assert signal is not None
    if walked.crash is not None:
        return _print(walked.after, [_raised(walked.crash)])
    return _print(walked.after, _items(walked.before, signal, walked.after, walked.effects, show))


def _raised(error: str) -> str:
    return f"raised InternalError: {error.splitlines()[0]}"


def _items(
    before: SessionState,
    signal: Signal,
    after: SessionState,
    effects: Sequence[Effect],
    show: frozenset[Group],
) -> Iterator[str]:
    # Of a late ephemeral one the state does not know, so it is asked of the table.
    if after.data.dropped > before.data.dropped or is_late_ephemeral(before, signal):
        yield "dropped"
    if len(after.postponed) > len(before.postponed):
        yield "postponed"
    if Group("history") in show:
        yield from map(encode_message, after.data.history.since(len(before.data.history)))
    for effect in effects:
        item = encode_effect(effect, show)
        if item is not None:
            yield item


def _print(state: SessionState, items: Iterable[str]) -> Iterator[str]:
    line = f"{_INDENT}{'ENDED' if state.ended else state.phase.name:<{_PHASE_COLUMNS}}"
    room = empty = len(line)
    for item in items:
        if room > empty and room + len(item) + 2 > MAX_COLUMNS:
            yield f"{line};"
            line = " " * empty
            room = empty
        line = f"{line}; {item}" if room > empty else f"{line}{item}"
        room = len(line)
    yield line.rstrip()


def main(arguments: Sequence[str]) -> int:
    """Check, or with `--rewrite` store, the scenario files that are named, or that lie in the folders that are named."""
    rewrite = "--rewrite" in arguments
    for name in (argument for argument in arguments if not argument.startswith("--")):
        place = Path(name)
        for file in sorted(place.rglob("*.txt")) if place.is_dir() else [place]:
            run_scenario(file, rewrite=rewrite)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`agentrail check-plugins`: find an order of events that breaks a stack of plugins. Offline, without a model."""

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from agentrail import outside
from agentrail.blueprints.builder import import_name
from agentrail.cli.exit_codes import Exit
from agentrail.cli.log_output import Debug, send_logs_to_stderr
from agentrail.cli.stdio import write_all, write_error
from agentrail.cli.text_output import print_text
from agentrail.errors import OptionError
from agentrail.otp.crash_text import describe_bug

if TYPE_CHECKING:
    from agentrail.testing.stacks import StackMachine, Tally

DEFAULT_SECONDS: Final = 30.0
"""Default search time in seconds. A stack of three runs 1,000 sessions in it on an idle machine."""
MAX_COMBINED: Final = 4
"""Maximum plugins in a drawn combination. Most faults need two, and hardly any needs more than three."""

ORDER_SECONDS: Final = 5.0
"""Time limit for finding pairs whose order matters, in seconds."""

_BAR_WIDTH: Final = 30
_EVERY: Final = 20
PORTION: Final = 50


def check_plugins(
    stack: str,
    *,
    examples: Annotated[
        int | None, Parameter(help="number of sessions to run; by default, as many as 30 seconds allow")
    ] = None,
    seed: Annotated[
        int | None, Parameter(help="draw the same sessions as another run with this number")
    ] = None,
    combinations: Annotated[
        bool, Parameter(help="run random parts of the stack, in any order, instead of the whole")
    ] = False,
    debug: Debug = False,
) -> Exit:
    send_logs_to_stderr(debug=debug)
    if examples is not None and examples < 1:
        raise OptionError([f"--examples is {examples}: expected 1 or more, or nothing would be tried"])
    try:
        return _check(load_machine(stack, combinations=combinations), examples=examples, seed=seed)
    except SystemExit as error:  # sys.exit(0) would look like a sound stack
        write_error(f"the code of {stack} ends the process: {describe_bug(error)}.")
        return Exit.FAILED


def load_machine(path: str, *, combinations: bool) -> "type[StackMachine]":
    """Import the target of a path: plugins, or a class made by `stack_machine`, possibly with invariants."""
    try:
        from agentrail.testing import stacks
    except ModuleNotFoundError as error:
        message = f"check-plugins needs {error.name}: pip install hypothesis"
        raise OptionError([message]) from error
    found = import_name(path, str(Path.cwd()))
    if isinstance(found, type) and issubclass(found, stacks.StackMachine):
        return found
    if not isinstance(found, list | tuple):
        kind = f"the class {found.__name__}" if isinstance(found, type) else f"a {type(found).__name__}"
        message = f"{path!r} is {kind}, expected a list of plugins, or a class from stacks.stack_machine"
        raise OptionError([message])
    max_size = min(MAX_COMBINED, len(found)) if combinations and found else None
    return stacks.stack_machine(found, max_size=max_size, origin=(path, found))


def _check(machine: "type[StackMachine]", *, examples: int | None, seed: int | None) -> Exit:
    from agentrail.testing import stacks

    begun_at = outside.stopwatch()
    orders = ""
    tally = stacks.Tally(heard=lambda tally: _show_progress(tally, examples, outside.stopwatch() - begun_at))
    try:
        if examples is not None:
            stacks.check_stack(machine, examples=examples, seed=seed, tally=tally)
        else:
            _check_for_a_while(machine, seed, tally, until=begun_at + DEFAULT_SECONDS)
        code = Exit.DONE if tally.found is None else Exit.FAILED
        if tally.found is None:
            orders = _look_at_orders(machine)
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    if os.isatty(2):
        write_all(2, b"\r\x1b[K")
    told = (
        describe_tally(tally, is_whole=code is not Exit.INTERRUPTED)
        + orders
        + describe_coverage(tally, machine)
    )
    printed = print_text(told.removesuffix("\n"))
    return code if printed is Exit.DONE else printed


def _check_for_a_while(
    machine: "type[StackMachine]", seed: int | None, tally: "Tally", *, until: float
) -> None:
    """Run sessions in batches until the time is over or one breaks, and at least one batch."""
    from agentrail.testing import stacks

    for portion in itertools.count():
        own = None if seed is None else seed + portion
        stacks.check_stack(machine, examples=PORTION, seed=own, tours=portion == 0, tally=tally)
        if tally.found is not None or outside.stopwatch() >= until:
            return


def _look_at_orders(machine: "type[StackMachine]") -> str:
    """Return the pairs of the stack that do not commute. Limited to seconds, because an order may matter on purpose."""
    from agentrail.testing import stacks

    until = outside.stopwatch() + ORDER_SECONDS
    found = stacks.orders_that_matter(machine, go_on=lambda: outside.stopwatch() < until)
    return "".join(
        f"Order matters: {one.first} is asked before {one.second}. {one.answer.difference}\n" for one in found
    )


def describe_coverage(tally: "Tally", machine: "type[StackMachine]") -> str:
    """Return how often each declared hook was called, with which answers, and the share of sessions that ran a tool."""
    from agentrail.testing import stacks

    lines = []
    for hook in stacks.declared_hooks(machine):
        answers = {answer: times for (asked, answer), times in tally.coverage.items() if asked == hook}
        shown = ", ".join(f"{answer} {times}" for answer, times in sorted(answers.items()))
        lines.append(f"  {hook:<22} {shown or 'never asked'}\n")
    share = round(100 * tally.tool_runs / max(tally.runs, 1))
    return f"Tools ran in {share} % of the sessions. Hooks and answers:\n{''.join(lines)}" if lines else ""


def describe_tally(tally: "Tally", *, is_whole: bool) -> str:
    """Return the result: the counter-example, or how much was tried without finding one."""
    tried = f"{tally.runs} sessions, {tally.signals} signals"
    if tally.found is None:
        return f"{'Nothing broke' if is_whole else 'Interrupted; nothing broke so far'}: {tried}.\n"
    begun = "Broken" if is_whole else "Interrupted, before this could be made shorter; broken"
    return f"{begun} after {tried}.\n\n{tally.found}\n"


def _show_progress(tally: "Tally", examples: int | None, seconds: float) -> None:
    if tally.runs % _EVERY == 0 and os.isatty(2):
        write_all(2, f"\r\x1b[K{describe_progress(tally, examples, seconds)}".encode())


def describe_progress(tally: "Tally", examples: int | None, seconds: float) -> str:
    """Draw a bar with the time left: of the time limit, or estimated from the pace for a number of sessions."""
    if examples is None:
        done, left, of = seconds / DEFAULT_SECONDS, DEFAULT_SECONDS - seconds, ""
    else:
        done, of = tally.runs / examples, f"/{examples}"
        left = seconds / max(tally.runs, 1) * (examples - tally.runs)
    bar = "█" * round(min(done, 1.0) * _BAR_WIDTH)
    return (
        f"{bar:·<{_BAR_WIDTH}} {tally.runs}{of} sessions, {tally.signals} signals, {max(left, 0):.0f} s left"
    )

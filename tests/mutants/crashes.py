"""Mutants of the edges of other people's code: what leaves, what is told, and whom it ends."""

from typing import Final

from tests.mutants.mutant import Mutant

_ENDS_THERE: Final = "one tool never ends another session (6.7)"
_READ: Final = "a crash can be read: one record with its traceback, and no secret (14.2)"
_WAITS: Final = "a tool never waits for itself"

_DOORS: Final = "tests/runtime/test_doors.py::test_what_is_raised_at_a_door_ends_there"
_PORT: Final = "tests/runtime/test_tool_port.py"
_RECORDS: Final = "tests/runtime/test_crash_records.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="SystemExit leaves a tool",
        breaks=_ENDS_THERE,
        file="runtime/crashes.py",
        old="= (KeyboardInterrupt, trio.Cancelled)",
        new="= (KeyboardInterrupt, SystemExit, trio.Cancelled)",
        killed_by=f"{_PORT}::test_what_else_a_tool_raises_is_its_result",
    ),
    Mutant(
        name="an old cancellation leaves",
        breaks=_ENDS_THERE,
        file="runtime/crashes.py",
        old="    if isinstance(leaving, trio.Cancelled) and trio.current_effective_deadline() != -math.inf:\n        return None\n",
        new="",
        killed_by=f"{_PORT}::test_a_cancellation_that_was_kept_is_a_crash",
    ),
    Mutant(
        name="an interrupt is kept in a tool",
        breaks="Ctrl-C stops the program",
        file="runtime/crashes.py",
        old="= (KeyboardInterrupt, trio.Cancelled)",
        new="= (trio.Cancelled,)",
        killed_by=f"{_PORT}::test_an_interrupt_travels",
    ),
    Mutant(
        name="an old cancellation leaves a plugin",
        breaks=_ENDS_THERE,
        file="runtime/plugin_watch.py",
        old="            raise PluginCrashed(said) from None\n",
        new="            pass\n",
        killed_by=f"{_DOORS}[handlers_of_a_plugin-a kept cancellation]",
    ),
    Mutant(
        name="what a tool says of itself is believed to raise nothing",
        breaks=_ENDS_THERE,
        file="runtime/tool_calls.py",
        old="        except PortCrashed as crashed:\n            return AttemptEnd",
        new="        except ZeroDivisionError as crashed:\n            return AttemptEnd",
        killed_by=f"{_DOORS}[traits_of_a_tool-ValueError]",
    ),
    Mutant(
        name="what a plugin raises goes on with its secrets",
        breaks=_READ,
        file="runtime/plugin_watch.py",
        old="        if harmless != words or any(",
        new="        if any(",
        killed_by=f"{_RECORDS}::test_a_bug_in_a_handler_of_a_plugin",
    ),
    Mutant(
        name="a program that set structlog up has the record elsewhere",
        breaks=_READ,
        file="logs.py",
        old="        if structlog is not None:\n            getattr(structlog",
        new="        if structlog is None:\n            getattr(structlog",
        killed_by=f"{_RECORDS}::test_a_program_that_set_structlog_up_has_the_record_there_and_nowhere_else",
    ),
    Mutant(
        name="secrets stay in a traceback",
        breaks=_READ,
        file="otp/leaving.py",
        old='    text = redact(_try(lambda: print_exception(error), f"{class_name_of(error)}: <no traceback>\\n"))',
        new='    text = _try(lambda: print_exception(error), f"{class_name_of(error)}: <no traceback>\\n")',
        killed_by="tests/otp/test_leaving.py::test_secrets_are_taken_out_of_a_traceback_before_it_is_cut",
    ),
    Mutant(
        name="a bug in step is not logged",
        breaks=_READ,
        file="runtime/session.py",
        old='        log_crash(f"session {self.ports.key}: {quarantine.error.message}", error, scrub)\n',
        new="",
        killed_by=f"{_RECORDS}::test_a_bug_in_step",
    ),
    Mutant(
        name="a plugin's crash before the session begins is told twice",
        breaks=_READ,
        file="runtime/plugin_watch.py",
        old="        return self._is_rehearsing or not known",
        new="        return True",
        killed_by=f"{_RECORDS}::test_a_bug_before_a_session_begins_is_told_once",
    ),
    Mutant(
        name="a tool may wait for its own plugins",
        breaks=_WAITS,
        file="runtime/changing.py",
        old='        self._cell.pending_calls.refuse_self(f"{change}_plugin")\n',
        new="",
        killed_by="tests/runtime/test_handle.py::test_a_tool_may_not_wait_for_its_own_session[attach_plugin]",
    ),
)

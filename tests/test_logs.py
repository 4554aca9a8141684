"""Where a record goes: through structlog as the program has set it up, else to the standard library; once, and never to stdout."""

import logging
import subprocess
import sys

import structlog

from agentrail.logs import Logger

LOGGER = Logger("agentrail.some")


def test_without_structlog_it_goes_to_the_logger_of_that_name(caplog, capsys):
    """With its level, what stands beside it, and the traceback below; stdout belongs to the program."""
    caplog.set_level(logging.WARNING)
    LOGGER.error("it %s", "broke", exception="Traceback …\n")
    LOGGER.warning("it may break: 100 % of it", where="there")
    LOGGER.debug("it goes on")
    assert [(record.name, record.levelname, record.getMessage()) for record in caplog.records] == [
        ("agentrail.some", "ERROR", "it broke\nTraceback …\n"),
        ("agentrail.some", "WARNING", "it may break: 100 % of it where='there'"),
    ]
    assert capsys.readouterr().out == ""


def test_without_structlog_imported_nothing_imports_it():
    """It takes longer than all that a program of actors imports, and has nothing to bring."""
    program = (
        "import sys\nfrom agentrail.actors.actor_handle import LOGGER\n"
        "LOGGER.error('it broke', exception='Traceback …')\n"
        "print(LOGGER.hears_debug(), 'structlog' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False False\n", "it broke\nTraceback …\n")


def test_what_a_program_bound_to_its_context_stands_in_the_record(caplog):
    """Such as the id of a request: structlog keeps it, whoever writes the record."""
    with structlog.contextvars.bound_contextvars(request="r-1"):
        LOGGER.warning("it may break")
    assert caplog.messages == ["it may break request='r-1'"]


def test_where_structlog_is_set_up_it_goes_there_alone(caplog):
    """As an event with fields, for processors of the program to render; they may bring it to the standard library, once."""
    with structlog.testing.capture_logs() as logs:
        LOGGER.error("100 % of it broke", exception="Traceback …\n")
    assert logs == [{"event": "100 % of it broke", "exception": "Traceback …\n", "log_level": "error"}]
    assert caplog.records == []

    render = structlog.processors.KeyValueRenderer(key_order=["event"])
    structlog.configure(processors=[render], logger_factory=structlog.stdlib.LoggerFactory())
    LOGGER.warning("it may break", where="there")
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == ("agentrail.some", "event='it may break' where='there'")


def test_a_processor_that_raises_loses_no_record_and_breaks_nothing(caplog):
    """It is the program's own bug; the code that had something to say goes on."""

    def broken(*_):
        raise ZeroDivisionError

    structlog.configure(processors=[broken])
    LOGGER.error("it broke", exception="Traceback …")
    assert caplog.messages == ["it broke\nTraceback …\n(structlog could not take this: ZeroDivisionError)"]


def test_records_of_level_debug_are_made_only_where_they_are_heard(caplog):
    """There is one for each task that starts."""
    assert not LOGGER.hears_debug()
    caplog.set_level(logging.DEBUG, LOGGER.name)
    assert LOGGER.hears_debug()
    caplog.set_level(logging.WARNING, LOGGER.name)
    structlog.configure()
    assert LOGGER.hears_debug()

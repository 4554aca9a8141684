"""The desk is tested without a model and without a person."""

import io
import re
import shlex
import sys
from pathlib import Path

import pytest
from agentrail import open_supervisor
from agentrail.events import AgentChanged, ToolExecutionEnd
from offline import Offline

import help_desk

README = Path(__file__).parent.parent / "README.md"


class Terminal(io.StringIO):
    """A keyboard and a screen: what is read is shown, as a terminal does."""

    def readline(self, *given):
        """Give the next line that is typed, and show it."""
        line = super().readline(*given)
        sys.stdout.write(line)
        return line


def blocks():
    """The runs that the page shows: command, and what is on the screen then."""
    shown = re.findall(r"```console\n(.*?)```", README.read_text(), re.DOTALL)
    runs = re.findall(r"^\$ python (.*)\n((?:(?!\$).*\n)*)", "".join(shown), re.MULTILINE)
    assert len(runs) == 3
    return runs


def typed_in(screen):
    """What a person typed there: behind a prompt, and behind a question."""
    return "".join(f"{line}\n" for line in re.findall(r"^(?:> |refund .*\? )(.+)$", screen, re.MULTILINE))


def test_the_page_shows_what_happens(monkeypatch, capsys, tmp_path):
    """Each of its runs, one after the other, in one directory."""
    monkeypatch.chdir(tmp_path)
    for command, screen in blocks():
        monkeypatch.setattr("sys.stdin", Terminal(typed_in(screen)))
        program, *arguments = shlex.split(command)
        assert program == "help_desk.py"
        help_desk.main(arguments)
        assert capsys.readouterr().out == screen


@pytest.fixture
def model():
    """What stands for a model, and keeps what it was asked."""
    return Offline()


@pytest.fixture
async def session(tmp_path, model):
    """A session of the desk."""
    help_desk.read_handbook(tmp_path)
    kept = {"memories": f"sqlite:{tmp_path / 'memories'}", "knowledge": f"sqlite:{tmp_path / 'knowledge'}"}
    async with open_supervisor(**kept) as supervisor:
        yield await supervisor.start_session(help_desk.DESK, model=model, user_data={"user_id": "ada"})


async def test_each_source_is_a_place_in_the_handbook(session):
    """The lines that are named hold what was said."""
    said = await help_desk.answer(session, "when does a parcel come?", lambda asked: "no")
    found = re.fullmatch(r"desk: (.+) \[(\S+)#L(\d+)-L(\d+)\]", said)
    assert found is not None, said
    lines = (help_desk.HANDBOOK / found[2]).read_text().splitlines()
    assert found[1] in lines[int(found[3]) - 1 : int(found[4])]


async def test_nothing_is_paid_before_a_person_says_so(session):
    """Not the call, and not by the one who took over."""
    async with session.subscribe(after=0) as events:
        said = await help_desk.answer(session, "refund order 17", lambda asked: "no")
        assert said == "billing: A person said no; nothing was done."
        said = await help_desk.answer(session, "refund order 17", lambda asked: "yes")
        assert said == "billing: 39.90 EUR of order 17 are on their way."
        await session.stop()
        heard = [event async for event in events]
    ends = [
        event.result.text for event in heard if isinstance(event, ToolExecutionEnd) and event.name == "refund"
    ]
    assert len([text for text in ends if "on their way" in text]) == 1
    assert [event.to_agent for event in heard if isinstance(event, AgentChanged)] == ["billing"]


async def test_who_took_over_has_its_own_tools_only(session, model):
    """The handbook is the desk's."""
    await help_desk.answer(session, "I want money", lambda asked: "no")
    offered = {one.name for one in model.requests[-1].tools}
    assert {"find_order", "refund"} <= offered
    assert not offered & {"kb_search", "remember"}


async def test_an_amount_that_was_never_paid_is_not_paid_back():
    """Whatever the model says."""
    assert (await help_desk.refund(17, 400)).text.startswith("Order 17 was not 400.00 EUR")
    assert (await help_desk.refund(99, 1)).text.startswith("Order 99 was not")
    assert await help_desk.refund(17, 39.9) == "39.90 EUR of order 17 are on their way."


def test_who_asks_has_to_be_said(capsys):
    """Without a user there would be one memory for all."""
    with pytest.raises(SystemExit):
        help_desk.main([])
    assert "--user" in capsys.readouterr().err

"""Without the extra `connect` there are no WebSockets: whoever needs them is told so, and all else is there."""

import subprocess
import sys

import pytest
import trio

import agentrail
from agentrail.cli.chat_command import chat
from agentrail.cli.command_tree import run_command_line
from agentrail.distribution import install_command
from agentrail.errors import OptionError
from tests.forked import ROOT, environment

INSTALL = f"which is not installed: {install_command('connect')}"
NOWHERE = "http://127.0.0.1:1"


@pytest.fixture(params=["trio_websocket", "wsproto"], autouse=True)
def missing(request, monkeypatch):
    """One package of the extra is not there."""
    for name in [name for name in sys.modules if name.partition(".")[0] in {"trio_websocket", "wsproto"}]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, request.param, None)
    return request.param


def test_connect_names_the_extra(missing, capfd):
    """Before anything is tried, with the package that is missing. So do `chat --connect` and `top`, with code 2."""

    async def connect():
        async with agentrail.connect(NOWHERE):
            pass

    with pytest.raises(OptionError) as caught:
        trio.run(connect)
    assert str(caught.value) == f"a session on a server needs {missing}, {INSTALL}"
    assert chat(connect=NOWHERE) == run_command_line(["top", NOWHERE]) == 2
    assert capfd.readouterr().err.count(INSTALL) == 2


@pytest.mark.check
@pytest.mark.parametrize("missing", ["wsproto"], indirect=True)
def test_all_can_be_imported():
    """Programs that open no WebSocket never notice."""
    program = (
        "import sys; sys.modules.update(trio_websocket=None, wsproto=None);"
        "import agentrail.app, agentrail.cli.top_command, agentrail.cli.chat_session, agentrail.remote.remote_session; print(agentrail.connect.__name__)"
    )
    said = subprocess.check_output([sys.executable, "-c", program], env=environment(), cwd=ROOT, text=True)
    assert said == "connect\n"

"""An editor that plays on an ACP agent: legal and illegal messages in any order, at once, and cut anywhere.

Nothing crashes, no error is ours, each request has exactly one answer, each message is one of the official types, and the
journal of each session folds to its state.

200 rounds by default. By hand: `ACP_ROUNDS=5000 ACP_SEED=7 pytest -o faulthandler_timeout=0` with this file.
"""

import json
import os
from random import Random

import pytest
import trio
import trio.lowlevel

from agentrail.errors import Overloaded, ProviderError
from agentrail.plugins import HumanApproval, Permissions
from agentrail.testing.models import FunctionModel, Turn, calls, fails, says
from agentrail.tools import builtin
from property_tests.protocols.test_ag_ui_fuzz import JUNK, spoiled
from tests.gateway.stdio.acp_client import open_editor
from tests.gateway.stdio.acp_types import check_frame

ROUNDS = int(os.environ.get("ACP_ROUNDS", "200"))
SEED = int(os.environ.get("ACP_SEED", "1"))
PARTS = 8
TOOLS = builtin("read_file", "write_file", "edit_file", "ask_user", "write_todos", "task")
PLUGINS = [(HumanApproval, {"require_approval_for": ["write_file"]}), (Permissions, {"mode": "default"})]
OPTIONS = ("allow_once", "allow_always", "reject_once", "nonsense")
TEXTS = ("Hi", "", "/status", "/nope", "é", "a" * 3_000)


def acting(draw):
    """A model that does anything that a model may do."""

    def answer(request):
        if len(request.messages) > 12:
            return says("Enough.")
        return draw.choice(
            (
                says("Hel", "lo."),
                says(*["on "] * 5, pause_seconds=0.001),
                Turn(thinking="Hm.", text=("So.",)),
                calls(("write_file", {"path": "a", "content": "b"}), text="I write."),
                calls(("read_file", {"path": "a"}), ("read_file", {"path": "../b"})),
                calls(("edit_file", {"path": "a", "old_string": "b", "new_string": "c"})),
                calls(("ask_user", {"question": "Which?", "options": ["a", "b"]}), ("nope", {})),
                calls(("task", {"description": "Look.", "subagent_type": "general-purpose"})),
                calls(("write_todos", {"todos": [{"id": "1", "content": "x"}]})),
                fails(Overloaded("busy"), after="Half"),
                fails(ProviderError("no")),
                calls(("read_file", "[1")),
            )
        )

    return FunctionModel(answer)


class Play:
    """One editor and what it does."""

    def __init__(self, draw, editor, cwd):
        """Answer the agent's requests in any way."""
        self.draw, self.editor, self.cwd = draw, editor, cwd
        self.methods: dict[object, str] = {1: "initialize", 2: "session/new"}
        self.odd = 0
        editor.answers |= {
            "session/request_permission": self.decide,
            "elicitation/create": self.respond,
            "fs/read_text_file": lambda _: self.draw.choice(
                ({"result": {"content": "b\n"}}, {"error": {}}, {"result": 3})
            ),
            "fs/write_text_file": lambda _: self.draw.choice(
                ({"result": {}}, {"error": {"message": 3}}, {"result": None})
            ),
        }

    def decide(self, _):
        chosen = {"outcome": "selected", "optionId": self.draw.choice(OPTIONS)}
        return self.draw.choice(
            ({"result": {"outcome": chosen}}, {"result": self.draw.choice(JUNK)}, {"error": {"code": 1}})
        )

    def respond(self, _):
        accepted = {"action": "accept", "content": {"answer": self.draw.choice(("a", "", 3))}}
        return self.draw.choice(({"result": accepted}, {"result": {"action": "decline"}}, {"result": []}))

    def request(self):
        """A request that an editor may send, or nearly."""
        draw, session = self.draw, {"sessionId": self.editor.session_id}
        place = {**session, "cwd": str(self.cwd), "mcpServers": []}
        method, params = draw.choice(
            (
                ("session/prompt", {**session, "prompt": [{"type": "text", "text": draw.choice(TEXTS)}]}),
                ("session/prompt", {**session, "prompt": [{"type": "text", "text": draw.choice(TEXTS)}]}),
                (
                    "session/prompt",
                    {**session, "prompt": [{"type": "resource_link", "uri": "file:///a", "name": "a"}]},
                ),
                ("session/set_mode", {**session, "modeId": draw.choice(("plan", "default", "bypass", ""))}),
                (
                    "session/set_config_option",
                    {
                        **session,
                        "configId": "when_busy",
                        "value": draw.choice(("queue", "steer", "interrupt")),
                    },
                ),
                ("session/load", place),
                ("session/resume", place),
                ("session/list", {}),
                ("session/close", session),
                ("initialize", {"protocolVersion": 1}),
                ("authenticate", {"methodId": "setup"}),
            )
        )
        return method, spoiled(draw, params) if params and draw.random() < 0.3 else params

    async def step(self):
        """Send something."""
        draw, editor = self.draw, self.editor
        match draw.randrange(10):
            case 0:
                editor.send(method="session/cancel", params={"sessionId": editor.session_id})
            case 1:
                text = json.dumps({"jsonrpc": "2.0", "id": "x", "method": "session/list", "params": {}})
                editor.write(text[: draw.randrange(len(text))].encode() + b"\n")
                self.odd += 1
            case 2:
                editor.send(id=draw.choice(JUNK), method=draw.choice(JUNK), params=draw.choice(JUNK))
                self.odd += 1
            case 3:
                editor.send(id=draw.choice(JUNK), result=draw.choice(JUNK))
                self.odd += 1
            case 4:
                await trio.lowlevel.checkpoint()
            case _:
                method, params = self.request()
                self.methods[editor.request(method, **params)] = method


async def play(draw, cwd):
    """Play one round, and check everything that was received."""
    capabilities = draw.choice(
        ({}, {"fs": {"readTextFile": True, "writeTextFile": True}, "elicitation": {"form": {}}})
    )
    given = {"capabilities": capabilities, "tools": TOOLS, "plugins": PLUGINS, "model": acting(draw)}
    async with open_editor(cwd=cwd, **given) as editor:
        round_ = Play(draw, editor, cwd)
        for _ in range(draw.randint(3, 12)):
            await round_.step()
        if draw.random() < 0.7:
            with trio.move_on_after(0.3):
                for rpc_id in round_.methods:
                    await editor.answer_to(rpc_id)
        editor.send(method="session/cancel", params={"sessionId": editor.session_id})
        editor.close()
        await editor.ended.wait()
    answered = [one["id"] for one in editor.log if "method" not in one and one["id"] is not None]
    for rpc_id in round_.methods:
        assert answered.count(rpc_id) == 1, (rpc_id, round_.methods[rpc_id])
    for one in editor.log:
        assert one.get("error", {}).get("data", {}).get("code") not in {"internal", "not_started"}, one
        if "method" in one or "error" in one or one["id"] in round_.methods:
            check_frame(one, round_.methods)


@pytest.mark.services("acp")
@pytest.mark.parametrize("part", range(PARTS))
async def test_an_editor_can_do_nothing_that_breaks_the_agent(part, tmp_path):
    """11.14: one answer per request, official types, no error of ours."""
    for number in range(part, ROUNDS, PARTS):
        cwd = tmp_path / f"{number}"
        cwd.mkdir()
        try:
            await play(Random(f"{SEED}/{number}"), cwd)  # noqa: S311 - no secrets
        except BaseException as error:
            error.add_note(f"ACP_SEED={SEED}, round {number}")
            raise

"""ACP as an editor sees it, over pipes."""

import json
import os
import sys
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial

import pytest
import trio
import trio.testing

from agentrail import tool
from agentrail.commands import CommandRegistry
from agentrail.errors import Authentication, Overloaded
from agentrail.gateway.stdio.acp_agent import EDITOR, AcpAgent, EditorPlaces
from agentrail.gateway.stdio.acp_connection import AcpConnection
from agentrail.gateway.stdio.line_stream import LineStream
from agentrail.host import open_host
from agentrail.outside import installed
from agentrail.plugins import HumanApproval, Permissions
from agentrail.protocols import acp
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, fails, says
from agentrail.tools import builtin
from agentrail.tools.mcp import McpServer
from tests.gateway.stdio.acp_client import FILES, choosing, open_editor
from tests.host.hosting import profile
from tests.runtime.disks import Disk, StoreOnDisk

EDITING = builtin("read_file", "edit_file", "write_file", "list_dir")
ASKING = (HumanApproval, {"require_approval_for": ["*"]})
WRITING = calls(("write_file", {"path": "a", "content": "b"}))


def text_of(updates):
    return "".join(one["content"]["text"] for one in updates)


async def test_a_prompt_is_answered_after_everything_that_it_shows(tmp_path):
    """11.10: exactly one response, after all updates."""
    script = (calls(("list_dir", {"path": "."})), says("Empty."))
    async with open_editor(*script, cwd=tmp_path, tools=EDITING) as editor:
        answer = await editor.answer_to(editor.prompt("look"))
        assert answer["result"]["stopReason"] == "end_turn"
        assert answer["result"]["usage"]["totalTokens"] > 0
        call, ended = editor.updates("tool_call", "tool_call_update")
        assert call["kind"] == "search"
        assert call["locations"] == [{"path": str(tmp_path)}]
        assert call["rawInput"] == {"path": "."}
        assert ended["status"] == "completed"
        assert text_of(editor.updates("agent_message_chunk")) == "Empty."
        assert editor.log[-1] == answer


# --- bad input: 11.13


@pytest.mark.parametrize(
    ("line", "code", "rpc_id"),
    [
        (b"no json", -32700, None),
        (b'{"a": ' * 10_000, -32700, None),
        (b'"\\ud800', -32700, None),
        (b"\xff", -32700, None),
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/a", "cwd": "/b"}}',
            -32700,
            None,
        ),
        (b"[]", -32600, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"initialize"}]', -32600, None),
        (b"{}", -32600, None),
        (b'{"jsonrpc":"2.0","id":[],"method":"initialize"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":9,"method":"session/new","params":{}}', -32600, 9),
        (b'{"jsonrpc":"2.0","id":9,"method":"nonsense"}', -32600, 9),
    ],
)
async def test_a_line_that_cannot_be_used_is_answered(line, code, rpc_id):
    """No JSON, a batch, no message, and a call before `initialize`. The next line is read as usual."""
    async with open_editor() as editor:
        editor.write(line + b"\n")
        answer = await editor.answer_to(rpc_id)
        assert answer["error"]["code"] == code
        assert (await editor.call("initialize", protocolVersion=2))["protocolVersion"] == 1


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("session/new", {"cwd": ".", "mcpServers": []}, -32602),
        ("session/new", {"cwd": "/no/such/directory", "mcpServers": []}, -32602),
        ("session/new", {"cwd": f"/{'a' * 300}", "mcpServers": []}, -32602),  # longer than a name can be
        ("session/new", {"cwd": 3}, -32602),
        ("session/new", {}, -32602),
        ("session/new", {"cwd": "/", "mcpServers": [{"name": "a"}]}, -32602),
        ("session/new", {"cwd": "/", "mcpServers": [{"name": "", "command": "a"}]}, -32602),
        ("session/load", {"sessionId": "s-unknown", "cwd": "/", "mcpServers": []}, -32002),
        ("session/load", {"sessionId": "../..", "cwd": "/", "mcpServers": []}, -32602),
        ("session/resume", {"sessionId": "s-unknown", "cwd": "/"}, -32002),
        ("session/prompt", {"sessionId": "s-unknown", "prompt": []}, -32002),
        ("session/close", {"sessionId": "s-unknown"}, -32002),
        ("session/delete", {"sessionId": "s-unknown"}, -32002),
        ("session/set_mode", {"sessionId": "s-unknown", "modeId": "plan"}, -32002),
        ("session/fork", {}, -32601),
    ],
)
async def test_a_call_that_cannot_be_done_is_refused(method, params, code):
    """An unknown session, a relative or missing directory, parameters of another type, an unknown method."""
    async with open_editor() as editor:
        await editor.call("initialize", protocolVersion=1)
        assert (await editor.call(method, **params))["code"] == code


async def test_the_whole_machine_is_no_directory_of_a_session():
    """Refused with its reason where the editor reads the files."""
    async with open_editor() as editor:
        able = {"fs": {"readTextFile": True}}
        await editor.call("initialize", protocolVersion=1, clientCapabilities=able)
        refused = await editor.call("session/new", cwd="/", mcpServers=[])
        assert (refused["code"], "the whole machine" in refused["message"]) == (-32602, True)


@pytest.mark.parametrize(
    "block",
    [
        {},
        {"type": "audio", "data": "", "mimeType": "a/b"},
        {"type": "text"},
        {"type": "resource", "resource": 3},
        {"type": "image", "data": "no base64", "mimeType": "image/png"},
    ],
)
async def test_a_block_that_cannot_be_read_is_refused(tmp_path, block):
    """The session accepts the next prompt."""
    async with open_editor(says("Hi."), cwd=tmp_path) as editor:
        refused = await editor.call("session/prompt", sessionId=editor.session_id, prompt=[block])
        assert refused["code"] == -32602
        assert (await editor.answer_to(editor.prompt("Hi")))["result"]["stopReason"] == "end_turn"


async def test_an_id_used_twice_leaves_the_first_one_alone(tmp_path):
    """The second is refused without an id, so that the editor does not take it for the first."""
    async with open_editor(WRITING, says("Done."), cwd=tmp_path, tools=EDITING, plugins=[ASKING]) as editor:
        prompt = editor.prompt("write")
        asked = await editor.asked("session/request_permission")
        editor.send(id=prompt, method="session/list", params={})
        assert (await editor.answer_to(None))["error"]["code"] == -32600
        editor.send(id=asked["id"], **choosing("allow_once")({}))
        assert (await editor.answer_to(prompt))["result"]["stopReason"] == "end_turn"


@pytest.mark.parametrize("rpc_id", ["", 0])
async def test_an_id_is_free_again_after_its_answer(rpc_id):
    """Also one that counts as false."""
    async with open_editor() as editor:
        await editor.call("initialize", protocolVersion=1)
        for _ in range(2):
            editor.log.clear()
            editor.send(id=rpc_id, method="session/fork", params={})
            assert (await editor.answer_to(rpc_id))["error"]["code"] == -32601


async def test_a_line_over_the_limit_ends_the_connection():
    """-32600 without an id, then the end."""
    async with open_editor(max_bytes=1_000) as editor:
        editor.write(b" " * 1_001)
        assert (await editor.answer_to(None))["error"]["code"] == -32600
        await editor.ended.wait()


async def test_unknown_notifications_and_answers_are_ignored(tmp_path):
    """JSON-RPC answers neither."""
    async with open_editor(says("Hi."), cwd=tmp_path) as editor:
        before = len([one for one in editor.log if "error" in one])
        editor.write(b"\n")
        editor.send(method="$/unknown", params={})
        editor.send(method="session/cancel", params={"sessionId": 3})
        editor.send(id="a-1", result={})
        editor.send(id=77, error={"code": 1, "message": ""})
        await editor.answer_to(editor.prompt("Hi"))
        assert len([one for one in editor.log if "error" in one]) == before


# --- permissions and questions


@pytest.mark.parametrize(
    ("option", "is_written", "asks"),
    [("allow_once", True, 2), ("allow_always", True, 1), ("reject_once", False, 2)],
)
async def test_permissions(tmp_path, option, is_written, asks):
    """Once, always, or not this time. What was approved is what runs."""
    script = (WRITING, WRITING, says("Done."))
    async with open_editor(*script, cwd=tmp_path, tools=EDITING, plugins=[ASKING]) as editor:
        editor.answers["session/request_permission"] = choosing(option)
        assert (await editor.answer_to(editor.prompt("write")))["result"]["stopReason"] == "end_turn"
        asked = [one["params"] for one in editor.log if one.get("method") == "session/request_permission"]
        assert len(asked) == asks
        assert asked[0]["toolCall"]["content"] == [{"type": "diff", "path": f"{tmp_path}/a", "newText": "b"}]
        assert [one["optionId"] for one in asked[0]["options"]] == [
            "allow_once",
            "allow_always",
            "reject_once",
        ]
        assert (tmp_path / "a").exists() == is_written


async def test_always_names_the_rule_that_it_makes(tmp_path):
    """The rule of `Permissions`, as in a chat."""
    script = (calls(("shell", {"command": "git status"})), says("Done."))
    plugins = [(Permissions, {"mode": "default"})]
    async with open_editor(*script, cwd=tmp_path, tools=builtin("shell"), plugins=plugins) as editor:
        editor.answers["session/request_permission"] = choosing("reject_once")
        await editor.answer_to(editor.prompt("status"))
        asked = await editor.asked("session/request_permission")
        names = {one["optionId"]: one["name"] for one in asked["params"]["options"]}
        assert "git status" in names["allow_always"]


async def test_always_of_permissions_is_no_wider_than_its_name(tmp_path):
    """The rule that the button names applies from the next turn on, and other calls are asked about."""
    (tmp_path / "src").mkdir()
    writes = [calls(("write_file", {"path": path, "content": "x"})) for path in ("src/a", "src/a", "b")]
    script = [turn for one in writes for turn in (one, says("Done."))]
    plugins = [(Permissions, {"mode": "default"})]
    async with open_editor(*script, cwd=tmp_path, tools=EDITING, plugins=plugins) as editor:
        editor.answers["session/request_permission"] = choosing("allow_always")
        for _ in writes:
            await editor.answer_to(editor.prompt("write"))
        asked = [one["params"] for one in editor.log if one.get("method") == "session/request_permission"]
        assert [one["toolCall"]["rawInput"]["path"] for one in asked] == ["src/a", "b"]
        names = [option["name"] for option in asked[0]["options"] if option["optionId"] == "allow_always"]
        assert "src" in names[0]


@pytest.mark.protocol(41)
async def test_cancel_while_a_permission_is_open(tmp_path):
    """P-041: the prompt ends as cancelled once the abort has settled, and a late answer changes nothing."""
    async with open_editor(WRITING, says("After."), cwd=tmp_path, tools=EDITING, plugins=[ASKING]) as editor:
        prompt = editor.prompt("write")
        asked = await editor.asked("session/request_permission")
        editor.send(method="session/cancel", params={"sessionId": editor.session_id})
        assert (await editor.answer_to(prompt))["result"]["stopReason"] == "cancelled"
        editor.send(id=asked["id"], **choosing("allow_once")({}))
        assert (await editor.answer_to(editor.prompt("go on")))["result"]["stopReason"] == "end_turn"
        assert not (tmp_path / "a").exists()


@pytest.mark.protocol(41)
async def test_a_cancelled_prompt_is_answered_once_its_work_has_ended(tmp_path):
    """P-041: a tool that still cleans up delays the response."""
    gate = trio.Event()

    @tool(effect_class="pure", timeout_seconds=60)
    async def clean_up() -> str:
        """Clean up."""
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await gate.wait()

    async with open_editor(calls(("clean_up", {})), cwd=tmp_path, tools=[clean_up]) as editor:
        prompt = editor.prompt("go")
        await editor.wait_for(lambda one: "tool_call" in json.dumps(one))
        editor.send(method="session/cancel", params={"sessionId": editor.session_id})
        await editor.wait_for(lambda one: '"failed"' in json.dumps(one))
        await editor.call("session/list")
        assert all(one.get("id") != prompt for one in editor.log)
        gate.set()
        assert (await editor.answer_to(prompt))["result"]["stopReason"] == "cancelled"


async def test_a_child_asks_too_with_its_path(tmp_path):
    """The call of a sub-agent is shown under its own id, and named after its session."""
    task = calls(("task", {"description": "Write it.", "subagent_type": "general-purpose"}))
    tools = builtin("task", "write_file")
    asking = (HumanApproval, {"require_approval_for": ["write_file"]})
    script = (task, WRITING, says("Written."), says("Done."))
    async with open_editor(*script, cwd=tmp_path, tools=tools, plugins=[asking]) as editor:
        editor.answers["session/request_permission"] = choosing("allow_once")
        assert (await editor.answer_to(editor.prompt("go")))["result"]["stopReason"] == "end_turn"
        call = (await editor.asked("session/request_permission"))["params"]["toolCall"]
        child, _, call_id = call["toolCallId"].partition("/")
        assert call_id
        assert call["title"] == f"{child}: write_file a"
        assert (tmp_path / "a").read_text() == "b"
        shown = {
            one["toolCallId"]: one.get("status") for one in editor.updates("tool_call", "tool_call_update")
        }
        assert set(shown.values()) == {"completed"}


async def test_a_prompt_may_have_pictures_and_files(tmp_path):
    """A linked file is a mention, an embedded one its text, and a picture a picture."""
    async with open_editor(says("Seen."), cwd=tmp_path) as editor:
        blocks = [
            {"type": "text", "text": "Look"},
            {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
            {"type": "resource_link", "uri": f"file://{tmp_path}/a.py", "name": "a.py"},
            {"type": "resource", "resource": {"uri": "file:///b.py", "text": "x = 1"}},
        ]
        ended = await editor.call("session/prompt", sessionId=editor.session_id, prompt=blocks)
        assert ended["stopReason"] == "end_turn"
        await editor.call("session/load", sessionId=editor.session_id, cwd=str(tmp_path), mcpServers=[])
        kinds = [one["content"]["type"] for one in editor.updates("user_message_chunk")]
        assert kinds == ["text", "image", "text", "text"]
        assert "x = 1" in json.dumps(editor.updates("user_message_chunk"))


QUESTION = calls(("ask_user", {"question": "Which one?", "options": ["red", "blue"]}))


async def test_a_question_is_a_form(tmp_path):
    """`elicitation/create`, where the editor has forms."""
    script = (QUESTION, says("Done."))
    forms = {"elicitation": {"form": {}}}
    async with open_editor(*script, cwd=tmp_path, tools=builtin("ask_user"), capabilities=forms) as editor:
        editor.answers["elicitation/create"] = lambda _: {
            "result": {"action": "accept", "content": {"answer": "blue"}}
        }
        assert (await editor.answer_to(editor.prompt("choose")))["result"]["stopReason"] == "end_turn"
        asked = (await editor.asked("elicitation/create"))["params"]
        assert asked["requestedSchema"]["properties"]["answer"]["enum"] == ["red", "blue"]
        assert "blue" in json.dumps(editor.updates("tool_call_update"))


async def test_without_forms_the_turn_ends_with_the_question(tmp_path):
    """The next prompt answers it, and gets the rest of the response."""
    async with open_editor(QUESTION, says("Blue it is."), cwd=tmp_path, tools=builtin("ask_user")) as editor:
        assert (await editor.answer_to(editor.prompt("choose")))["result"]["stopReason"] == "end_turn"
        assert "Which one?" in text_of(editor.updates("agent_message_chunk"))
        assert (await editor.answer_to(editor.prompt("blue")))["result"]["stopReason"] == "end_turn"
        assert text_of(editor.updates("agent_message_chunk")).endswith("Blue it is.")


async def test_without_forms_each_prompt_answers_one_question(tmp_path):
    """The oldest first. The next one is shown again, so that it is known which one the next prompt answers."""
    asking = calls(*[("ask_user", {"question": name}) for name in ("First?", "Second?")])
    async with open_editor(asking, says("Done."), cwd=tmp_path, tools=builtin("ask_user")) as editor:
        shown = ""
        for said, more in (("choose", "First?Second?"), ("one", "Second?"), ("two", "Done.")):
            shown += more
            assert (await editor.answer_to(editor.prompt(said)))["result"]["stopReason"] == "end_turn"
            await editor.wait_for(
                lambda _, all_=shown: text_of(editor.updates("agent_message_chunk")) == all_
            )
        ended = [text_of(one["content"]) for one in editor.updates("tool_call_update")]
        assert ended == ["one", "two"]


async def test_a_question_of_a_loaded_session_is_answered_by_the_next_prompt(tmp_path):
    """The response comes after the rest of the cycle, as if the session had stayed open."""
    script = (QUESTION, says("Blue ", "it is.", pause_seconds=0.05))
    async with open_editor(*script, cwd=tmp_path, tools=builtin("ask_user")) as editor:
        await editor.answer_to(editor.prompt("choose"))
        await editor.call("session/load", sessionId=editor.session_id, cwd=str(tmp_path), mcpServers=[])
        answer = await editor.answer_to(editor.prompt("blue"))
        assert answer["result"]["stopReason"] == "end_turn"
        assert text_of(editor.updates("agent_message_chunk")).endswith("Blue it is.")


async def test_servers_of_an_editor_replace_those_of_the_same_name(tmp_path):
    """Two of the editor's own that have one name here are refused, and so are args that are no list."""
    own = McpServer("files", command=["no-such-program"])
    async with open_editor(says("Hi."), mcp=[own]) as editor:
        await editor.call("initialize", protocolVersion=1)
        new = partial(editor.call, "session/new", cwd=str(tmp_path))
        server = {"name": "Files", "command": sys.executable, "args": None}
        assert "sessionId" in await new(mcpServers=[server])
        for servers, said in (
            ([server, {**server, "name": "files"}], "two of files, files have one name here"),
            ([{**server, "args": "-m"}], "a list of args"),
        ):
            fault = await new(mcpServers=servers)
            assert fault["code"] == -32602
            assert said in fault["message"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"action": "decline"}, "declined"),
        ({"action": "accept", "content": {"answer": " "}}, "the response is empty"),
    ],
)
async def test_a_declined_question_goes_on(tmp_path, answer, words):
    """The model reads that it was declined, or why the answer counts as none: the editor sends no other one."""
    forms = {"elicitation": {"form": {}}}
    script = (QUESTION, says("Then not."))
    async with open_editor(*script, cwd=tmp_path, tools=builtin("ask_user"), capabilities=forms) as editor:
        editor.answers["elicitation/create"] = lambda _: {"result": answer}
        assert (await editor.answer_to(editor.prompt("choose")))["result"]["stopReason"] == "end_turn"
        assert text_of(editor.updates("agent_message_chunk")) == "Then not."
        assert words in json.dumps(editor.updates("tool_call_update"))


# --- a prompt while another one runs


@tool(effect_class="pure")
async def wait_long() -> str:
    """Wait."""
    await trio.sleep(30)
    return "waited"


@pytest.mark.protocol(42)
async def test_a_second_prompt_interrupts_the_first(tmp_path):
    """P-042: the first ends as cancelled, before the second starts."""
    script = (calls(("wait_long", {})), says("Second."))
    async with open_editor(*script, cwd=tmp_path, tools=[wait_long]) as editor:
        first = editor.prompt("one")
        await editor.wait_for(lambda one: "tool_call" in json.dumps(one))
        second = editor.prompt("two")
        assert (await editor.answer_to(first))["result"]["stopReason"] == "cancelled"
        assert (await editor.answer_to(second))["result"]["stopReason"] == "end_turn"
        assert text_of(editor.updates("agent_message_chunk")) == "Second."


@pytest.mark.protocol(42)
@pytest.mark.parametrize(("how", "said"), [("queue", "First.Second."), ("steer", "First.")])
async def test_a_second_prompt_waits_or_steers(tmp_path, how, said):
    """P-042: each prompt has one response. A steer belongs to the running turn."""
    gate = trio.Event()

    @tool(effect_class="pure")
    async def wait_at_gate() -> str:
        """Wait."""
        await gate.wait()
        return "open"

    script = (calls(("wait_at_gate", {})), says("First."), says("Second."))
    async with open_editor(*script, cwd=tmp_path, tools=[wait_at_gate]) as editor:
        option = {"configId": "when_busy", "value": how}
        await editor.call("session/set_config_option", sessionId=editor.session_id, **option)
        first = editor.prompt("one")
        await editor.wait_for(lambda one: "tool_call" in json.dumps(one))
        second = editor.prompt("two")
        await editor.call("session/list")
        await trio.testing.wait_all_tasks_blocked(0.01)
        gate.set()
        assert (await editor.answer_to(first))["result"]["stopReason"] == "end_turn"
        assert (await editor.answer_to(second))["result"]["stopReason"] == "end_turn"
        assert text_of(editor.updates("agent_message_chunk")) == said
        await editor.call("session/load", sessionId=editor.session_id, cwd=str(tmp_path), mcpServers=[])
        assert [one["content"]["text"] for one in editor.updates("user_message_chunk")] == ["one", "two"]


# --- files


@pytest.mark.protocol(46)
async def test_an_unsaved_buffer_is_read_and_edited(tmp_path):
    """P-046: text comes from the editor and goes to it. A path outside is refused before it is asked."""
    (tmp_path / "a.py").write_text("on disk\n")
    edit = {"path": "a.py", "old_string": "unsaved", "new_string": "edited"}
    script = (
        calls(("read_file", {"path": "a.py"})),
        calls(("edit_file", edit)),
        calls(("read_file", {"path": "../x"}), ("write_file", {"path": "../y", "content": ""})),
        calls(("write_file", {"path": ".git/config", "content": ""})),
        says("Done."),
    )
    buffers = {f"{tmp_path}/a.py": "unsaved\n"}

    def read(params):
        found = buffers.get(params["path"])
        return (
            {"error": {"code": -32002, "message": "none"}}
            if found is None
            else {"result": {"content": found}}
        )

    def write(params):
        buffers[params["path"]] = params["content"]
        return {"result": {}}

    async with open_editor(*script, cwd=tmp_path, tools=EDITING, capabilities=FILES) as editor:
        editor.answers |= {"fs/read_text_file": read, "fs/write_text_file": write}
        await editor.answer_to(editor.prompt("edit"))
        ended = [
            one for one in editor.updates("tool_call_update") if one.get("status") in {"completed", "failed"}
        ]
        assert [one["status"] for one in ended] == ["completed", "completed", "failed", "failed", "failed"]
        assert "unsaved" in json.dumps(ended[0])
        diff = {"type": "diff", "path": f"{tmp_path}/a.py", "oldText": "unsaved", "newText": "edited"}
        assert ended[1]["content"] == [diff]
        assert buffers == {f"{tmp_path}/a.py": "edited\n"}
        assert (tmp_path / "a.py").read_text() == "on disk\n"
        asked = {one["params"]["path"] for one in editor.log if one.get("method", "").startswith("fs/")}
        assert all(path.startswith(f"{tmp_path}/") and ".." not in path for path in asked)


async def test_an_editor_that_refuses_a_write_fails_the_call(tmp_path):
    """The model reads why."""
    script = (WRITING, says("Done."))
    async with open_editor(*script, cwd=tmp_path, tools=EDITING, capabilities=FILES) as editor:
        editor.answers["fs/read_text_file"] = lambda _: {"error": {"code": 1, "message": "none"}}
        editor.answers["fs/write_text_file"] = lambda _: {"error": {"code": 1, "message": "read-only"}}
        await editor.answer_to(editor.prompt("write"))
        assert "read-only" in json.dumps(editor.updates("tool_call_update"))
        assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("is_on", [True, False])
async def test_commands_in_the_terminal_of_the_editor(tmp_path, is_on):
    """`client_terminal` is off by default. The directory is judged here, and the terminal is released."""
    script = (
        calls(("shell", {"command": "echo here"})),
        calls(("shell", {"command": "ls", "workdir": ".."})),
        says("."),
    )
    given = {"capabilities": {"terminal": True}, "tools": builtin("shell")}
    async with open_editor(*script, cwd=tmp_path, host={"client_terminal": is_on}, **given) as editor:
        exited = {"exitCode": 0}
        editor.answers |= {
            "terminal/create": lambda _: {"result": {"terminalId": "t1"}},
            "terminal/wait_for_exit": lambda _: {"result": exited},
            "terminal/output": lambda _: {
                "result": {"output": "there", "truncated": False, "exitStatus": exited}
            },
            "terminal/release": lambda _: {"result": {}},
        }
        await editor.answer_to(editor.prompt("run"))
        asked = [one["method"] for one in editor.log if one.get("method", "").startswith("terminal/")]
        shown = [f"terminal/{name}" for name in ("create", "wait_for_exit", "output", "release")]
        assert asked == (shown if is_on else [])
        ended = [
            one for one in editor.updates("tool_call_update") if one.get("status") in {"completed", "failed"}
        ]
        assert ("there" if is_on else "here") in json.dumps(ended[0])
        assert ended[1]["status"] == "failed"


async def test_a_terminal_that_is_made_after_a_cancel_is_released(tmp_path):
    """The editor was still making it: without that, its command would go on."""
    given = {"capabilities": {"terminal": True}, "host": {"client_terminal": True}, "tools": builtin("shell")}
    async with open_editor(calls(("shell", {"command": "sleep 9"})), cwd=tmp_path, **given) as editor:
        prompt = editor.prompt("run")
        made = await editor.asked("terminal/create")
        editor.send(method="session/cancel", params={"sessionId": editor.session_id})
        assert (await editor.answer_to(prompt))["result"]["stopReason"] == "cancelled"
        editor.send(id=made["id"], result={"terminalId": "t1"})
        released = await editor.asked("terminal/release")
        assert released["params"] == {"sessionId": editor.session_id, "terminalId": "t1"}


# --- sessions


@pytest.mark.protocol(44)
async def test_a_loaded_session_shows_what_was_seen_live(tmp_path):
    """P-044: after a restart, the same updates with their deltas joined, and the user's words."""
    store = {"store": f"sqlite:{tmp_path}/store.db"}
    script = (calls(("list_dir", {"path": "."}), text="I look."), says("It ", "is ", "empty."))
    async with open_editor(*script, cwd=tmp_path, tools=EDITING, host=store) as editor:
        await editor.answer_to(editor.prompt("look"))
        session_id, live = editor.session_id, editor.updates()
        listed = (await editor.call("session/list"))["sessions"]
        assert [(one["sessionId"], one["cwd"], one["title"]) for one in listed] == [
            (session_id, f"{tmp_path}", "look")
        ]
    async with open_editor(says("Again."), tools=EDITING, host=store) as editor:
        await editor.call("initialize", protocolVersion=1)
        told = {"sessionId": session_id, "cwd": str(tmp_path), "mcpServers": []}
        assert "configOptions" in await editor.call("session/load", **told)
        past = editor.updates()
        assert past[0] == {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "look"}}
        assert joined(past[1:]) == joined(live)
        seen = len(editor.updates())
        await editor.call("session/resume", **told)
        assert [
            one["sessionUpdate"] for one in editor.updates()[seen:] if "chunk" in one["sessionUpdate"]
        ] == []
        editor.session_id = session_id
        assert (await editor.answer_to(editor.prompt("again")))["result"]["stopReason"] == "end_turn"
        assert await editor.call("session/close", sessionId=session_id) == {}
        assert (await editor.call("session/prompt", sessionId=session_id, prompt=[]))["code"] == -32002
        assert await editor.call("session/delete", sessionId=session_id) == {}
        assert (await editor.call("session/list"))["sessions"] == []


def joined(updates):
    """Return updates with the chunks of each message as one."""
    shown = []
    for one in updates:
        if one["sessionUpdate"] == "available_commands_update":
            continue
        if shown and "messageId" in one and shown[-1].get("messageId") == one["messageId"]:
            shown[-1] = {
                **one,
                "content": {**one["content"], "text": shown[-1]["content"]["text"] + one["content"]["text"]},
            }
        else:
            shown.append(one)
    return shown


async def test_modes_and_options(tmp_path):
    """They are shown, changed and announced. What a session has not is refused."""
    plugins = [(Permissions, {"mode": "default"})]
    async with open_editor(cwd=tmp_path, plugins=plugins) as editor:
        told = {"sessionId": editor.session_id}
        assert await editor.call("session/set_mode", **told, modeId="plan") == {}
        await editor.wait_for(lambda one: '"currentModeId": "plan"' in json.dumps(one))
        assert (await editor.call("session/set_mode", **told, modeId="bypass"))["code"] == -32602
        changed = await editor.call("session/set_config_option", **told, configId="mode", value="default")
        assert {one["id"]: one["currentValue"] for one in changed["configOptions"]}[
            "when_busy"
        ] == "interrupt"
        await editor.call("session/set_config_option", **told, configId="model", value="demo:fast")
        await editor.wait_for(
            lambda one: "config_option_update" in json.dumps(one) and "demo:fast" in json.dumps(one)
        )
        for name, value in (("when_busy", "never"), ("model", "no such model"), ("nonsense", "")):
            refused = await editor.call("session/set_config_option", **told, configId=name, value=value)
            assert refused["code"] == -32602


@asynccontextmanager
async def open_agent(model, cwd, **options):
    """An agent with a session, its host, and the pipe to an editor that reads nothing."""
    source, target = os.pipe()
    os.set_blocking(target, False)
    connection = AcpConnection(LineStream(source, target), nullcontext, version="1")
    async with (
        open_host(profiles=[profile(model)], drain_timeout=0.5, **options) as host,
        trio.open_nursery() as connection.nursery,
    ):
        agent = AcpAgent(connection, host, EditorPlaces())
        made = await agent.handler(acp.RpcMessage(method="session/new"))({"cwd": str(cwd)})
        yield agent, await host.session(made["sessionId"], EDITOR), host, (source, target)
        connection.nursery.cancel_scope.cancel()
    os.close(source)
    os.close(target)


async def test_a_session_that_ends_leaves_the_connection_alone(tmp_path):
    """Its settings and its commands were about to be shown. A full pipe gives it the time to end."""
    async with open_agent(ScriptedModel([]), tmp_path, commands=CommandRegistry()) as opened:
        agent, session, host, (source, target) = opened
        with suppress(BlockingIOError):
            while os.write(target, bytes(65_536)):
                pass
        for name in ("demo:", "demo:fast"):
            await session.switch_model(name)
            await trio.testing.wait_all_tasks_blocked()
        await host.delete_session(session.session_id, EDITOR)
        await agent.announce("session/new", {"sessionId": session.session_id})
        os.read(source, 1 << 20)
        await trio.testing.wait_all_tasks_blocked()


def test_a_prompt_hears_of_a_store_that_is_away(tmp_path):
    """When its patience is over, as over HTTP, and not of an internal error."""

    async def run():
        disk = Disk(4.9, 60.0, hangs=True)
        model = FunctionModel(lambda _: says("paid", pause_seconds=2.0))
        with installed(disk):
            async with open_agent(model, tmp_path, store=StoreOnDisk(disk)) as (agent, session, *_):
                await trio.sleep_until(1.0)
                said = {"sessionId": session.session_id, "prompt": [{"type": "text", "text": "pay"}]}
                with pytest.raises(acp.AcpFault) as raised:
                    await agent.handler(acp.RpcMessage(method="session/prompt", params=said))(said)
                assert trio.current_time() < disk.ends
                await trio.sleep_until(disk.ends + 10.0)
        assert raised.value.data == {"code": "store_unavailable"}

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_a_slash_command_is_answered(tmp_path):
    """Commands are announced after the session is there."""
    async with open_editor(cwd=tmp_path, host={"commands": CommandRegistry()}) as editor:
        announced = await editor.wait_for(lambda one: "available_commands_update" in json.dumps(one))
        names = [one["name"] for one in announced["params"]["update"]["availableCommands"]]
        assert "status" in names
        assert (await editor.answer_to(editor.prompt("/status")))["result"]["stopReason"] == "end_turn"
        assert editor.updates("agent_message_chunk")


@pytest.mark.parametrize("is_shown", [True, False])
async def test_a_compaction_is_shown_where_the_editor_can(tmp_path, is_shown):
    """`compaction_update`, with one id."""
    shows = {"session": {"compaction": {}}} if is_shown else {}
    script = [says("word " * 9_000) for _ in range(8)]
    async with open_editor(
        *script, cwd=tmp_path, capabilities=shows, host={"commands": CommandRegistry()}
    ) as editor:
        for text in ("one", "two", "three", "/compact"):
            await editor.answer_to(editor.prompt(text))
        await editor.answer_to(editor.prompt("four"))
        updates = editor.updates("compaction_update")
        assert [one["status"] for one in updates] == (["in_progress", "completed"] if is_shown else [])
        assert len({one["compactionId"] for one in updates}) == int(is_shown)


# --- ends


@pytest.mark.protocol(58)
async def test_an_answer_that_begins_again_is_said_as_such(tmp_path):
    """P-058: a line says that the first text does not count, and the message has another id."""
    async with open_editor(fails(Overloaded("busy"), after="Half"), says("Whole."), cwd=tmp_path) as editor:
        assert (await editor.answer_to(editor.prompt("Hi")))["result"]["stopReason"] == "end_turn"
        chunks = editor.updates("agent_message_chunk")
        assert "begins again" in text_of(chunks)
        assert chunks[0]["messageId"] != chunks[-1]["messageId"]


async def test_a_failure_is_an_error_with_our_code(tmp_path):
    """The table of 11.7: `AgentError`."""
    async with open_editor(fails(Authentication("no key")), cwd=tmp_path) as editor:
        answer = await editor.answer_to(editor.prompt("Hi"))
        assert answer["error"]["data"]["code"] == "authentication"
        assert answer["error"]["code"] == -32000


@pytest.mark.protocol(59)
@pytest.mark.protocol(43)
async def test_the_end_of_input_aborts_and_answers(tmp_path):
    """P-043, P-059: the running prompt is answered, nothing is left, and the session can be resumed."""
    store = {"store": f"sqlite:{tmp_path}/store.db"}
    async with open_editor(calls(("wait_long", {})), cwd=tmp_path, tools=[wait_long], host=store) as editor:
        prompt = editor.prompt("one")
        await editor.wait_for(lambda one: "tool_call" in json.dumps(one))
        editor.close()
        with trio.fail_after(10):
            assert (await editor.answer_to(prompt))["result"]["stopReason"] == "cancelled"
            await editor.ended.wait()
        session_id = editor.session_id
    async with open_editor(says("Back."), tools=[wait_long], host=store) as editor:
        await editor.call("initialize", protocolVersion=1)
        await editor.call("session/resume", sessionId=session_id, cwd=str(tmp_path))
        editor.session_id = session_id
        assert (await editor.answer_to(editor.prompt("two")))["result"]["stopReason"] == "end_turn"

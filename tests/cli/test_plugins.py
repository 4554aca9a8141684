"""`agentrail plugins`."""

import json

import pytest

from agentrail import plugins as p
from agentrail.cli.plugins_command import built_ins, find_stack, show_plugin
from agentrail.errors import OptionError
from tests.cli.rig import run_agentrail

CALL = {"hook": "BeforeTool", "name": "shell", "arguments": {"command": "rm -rf /"}, "call_id": "c1"}


def test_the_built_ins_stand_in_the_order_in_which_they_are_asked_with_hooks_and_options():
    """All of them, those that are exported and those that are found in their files; what each is for, when it is asked, what can be set."""
    found = built_ins()
    assert [plugin.priority for plugin in found] == sorted(plugin.priority for plugin in found)
    assert {p.SecurityGuard, p.HumanApproval, p.OutputFilter, p.Reflection} <= set(found)
    assert all(not plugin.__module__.endswith(".base") for plugin in found)

    assert show_plugin(p.OutputFilter) == (
        " 110 OutputFilter: Removes text from responses that users must not read.\n"
        "     hooks: AfterResponse\n"
        "     options: patterns=(), keywords=(), replacement='[filtered]', action='replace'"
    )
    assert "hooks: all" in show_plugin(p.EventLogger)


async def test_a_chain_is_explained(tmp_path):
    """Who was asked, what each answered, what won; nothing runs; messages are written as in events."""
    event = tmp_path / "event.json"
    event.write_text(json.dumps(CALL), encoding="utf-8")
    ran = await run_agentrail("plugins", "explain", "HumanApproval,SecurityGuard", str(event))
    assert ran.code == 0
    assert ran.out == (
        "BeforeTool\n"
        "    10 SecurityGuard: BlockTool(\"Not run: 'rm -rf /' removes folders by force\") → stops the rest\n"
        "    50 HumanApproval: not asked\n"
        "  = BlockTool(\"Not run: 'rm -rf /' removes folders by force\"), by 'SecurityGuard'\n"
    )

    message = {"role": "assistant", "content": [{"kind": "text", "text": "a secret"}], "model": "demo:"}
    event.write_text(json.dumps({"hook": "AfterResponse", "message": message}), encoding="utf-8")
    ran = await run_agentrail("plugins", "explain", "OutputFilter", str(event))
    assert ran.out == "AfterResponse\n   110 OutputFilter: Continue → no answer\n  = goes on\n"


async def test_what_cannot_be_explained_is_said(tmp_path):
    """On stderr, with exit code 2."""
    event = tmp_path / "event.json"
    for stack, text, why in (
        ("SecurityGuard", None, "cannot be read: No such file"),
        ("Nope", CALL, "'Nope' is not a built-in plugin; there are Permissions"),
        (
            "SecurityGard",
            CALL,
            "is not a built-in plugin. Did you mean 'SecurityGuard'? There are Permissions",
        ),
        (",", CALL, "nothing is not a built-in plugin"),
        ("no.such.module:STACK", CALL, "there is no module 'no.such.module', searched in "),
        ("agentrail.plugins:Nope", CALL, "module 'agentrail.plugins' has no 'Nope'"),
        ("SecurityGuard,SecurityGuard", CALL, "two plugins are named 'SecurityGuard'"),
        ("SecurityGuard", {"hook": "Before"}, "expected an object whose `hook` is one of SessionStarted"),
        ("SecurityGuard", {"hook": "BeforeTool"}, "missing required field `name`"),
    ):
        if text is not None:
            event.write_text(json.dumps(text), encoding="utf-8")
        ran = await run_agentrail("plugins", "explain", stack, str(event))
        assert (ran.code, ran.out) == (2, "")
        assert why in ran.err, stack


def test_a_stack_of_ones_own_is_found(tmp_path, monkeypatch):
    """In the directory that the command is called in: a list, one plugin, or one with its options."""
    (tmp_path / "stack_of_mine.py").write_text(
        "from agentrail.plugins import CostGuard, OutputFilter\n"
        "STACK = [(OutputFilter, {'keywords': ['x']}), CostGuard]\n"
        "PAIR = (OutputFilter, {'keywords': ['x']})\n"
        "TWO = (OutputFilter, CostGuard)\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    pair = (p.OutputFilter, {"keywords": ["x"]})
    assert find_stack("stack_of_mine:STACK") == [pair, p.CostGuard]
    assert find_stack("stack_of_mine:PAIR") == [pair]
    assert find_stack("stack_of_mine:TWO") == [p.OutputFilter, p.CostGuard]
    assert find_stack("agentrail.plugins:CostGuard") == [p.CostGuard]
    with pytest.raises(OptionError, match="'stack_of_mine' has no 'NONE'"):
        find_stack("stack_of_mine:NONE")

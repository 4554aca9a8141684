"""All twenty built-in plugins in one session, through a long conversation in which each of them has something to do."""

import itertools
from collections import Counter

import trio

import agentrail
from agentrail import plugins as p
from agentrail.abc import MemoryOwner, Ok, TagFilter
from agentrail.core.protocol.hooks import HOOKS
from agentrail.core.values.notes_markdown import topics_of
from agentrail.errors import CycleAborted
from agentrail.events import (
    TERMINAL,
    ActionIgnored,
    AgentEnd,
    AgentStart,
    ApprovalRequired,
    CompactEnd,
    ContentPolicyViolated,
    Intervention,
    LargeResultOffloaded,
    PluginEvent,
    PluginFailed,
    PluginOptsUpdated,
    ToolBlocked,
    ToolRetry,
)
from agentrail.messages import Text, ToolMessage
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.stores.recall_memory import InMemoryNotes, InMemoryRecall
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import RecordingTool
from tests.plugins.test_built_ins import BUILT_INS

CYCLES = 60
MODEL = "scripted:object"
OPTIONS = {
    p.Permissions: {"allow": ["shell", "record", "flaky"]},
    p.SkillGuard: {"skills": {"all": ["shell", "read_file", "record", "flaky"]}, "active": ["all"]},
    p.SkillListing: {"skills": {"all": "Everything."}},
    p.HumanApproval: {"require_approval_for": ["shell"], "safe_commands": ["ls"]},
    p.OutputFilter: {"keywords": ["hunter2"]},
    p.CostGuard: {"max_tokens": 1_000_000},
    p.Recovery: {"max_retries": 1, "backoff_base_ms": 1},
    p.Planning: {"min_prompt_length": 1_000},
    p.ModelRouter: {"rules": [], "default_model": MODEL},
    p.LargeResultOffload: {"token_limit": 200},
    p.ContentPolicy: {"rubric": "Nothing about Initech.", "judge_model": MODEL},
    p.Reflection: {"reviewer_model": MODEL, "max_reviews": 1},
    p.EpisodicMemory: {"top_k": 1},
    p.AutoCheckpoint: {"every_n_turns": 5},
}
WORK = {
    "list": calls(("shell", {"command": "ls"})),
    "delete": calls(("shell", {"command": "rm -rf /"})),
    "deploy": calls(("shell", {"command": "deploy now"})),
    "count": calls(("record", {"what": "numbers"})),
    "stumble": calls(("flaky", {})),
    "tell": says("The password is hunter2."),
    "sell": says("never said"),
    "chat": says("Fine."),
}
"""What the model does when it is asked to; each kind of prompt comes again and again."""


def answering(systems):
    """A model that works, judges prompts, reviews answers and writes summaries; it notes what it is told to be."""
    reviews = itertools.count()

    def answer(request):
        system = request.system or ""
        # Behind it stand notes of plugins: the index of the working notes, what is remembered.
        last = [one for one in request.messages if getattr(one, "origin", "") != "note"][-1]
        systems.append(system)
        if system.startswith("You judge"):
            return says("It is about Initech." if "sell" in str(last) else "OK")
        if system.startswith("You keep the memory"):
            return says("- Numbers were counted.")
        if system.startswith("You review"):
            return says("It is dull." if next(reviews) % 7 == 0 else "APPROVED")
        if isinstance(last, ToolMessage):
            return says("Done.")
        said = "".join(block.text for block in last.content if isinstance(block, Text))
        return WORK.get(said.partition(" ")[0], says("As you like."))

    return FunctionModel(answer)


def stumbling():
    odd = itertools.cycle([True, False])

    def answer(_):
        if next(odd):
            message = "stumbled"
            raise ValueError(message)
        return "walked"

    return RecordingTool(name="flaky", effect_class="pure", answer=answer)


async def test_all_of_them_keep_a_long_conversation_going(autojump_clock):
    """Sixty prompts of eight kinds: none of the plugins fails or is ignored, each does its work, every cycle has its end."""
    ears = []

    @p.plugin(init=lambda: 0, priority=0, hooks=tuple(HOOKS))
    def hears(event, state, ctx):
        """Note which hooks came, in front of all others."""
        ears.append(type(event))
        return p.Continue(state)

    tools = [
        RecordingTool(name="shell", answer=lambda _: Ok(text="a  b")),
        RecordingTool(answer=lambda _: "1234567890 " * 400),
        stumbling(),
    ]
    sandbox = MemorySandbox({"AGENTS.md": "Use tabs."})
    plugins = [(plugin, OPTIONS.get(plugin, {})) for plugin in BUILT_INS]
    assert len(plugins) == 23
    published, systems = [], []
    recall, notes = InMemoryRecall(), InMemoryNotes()
    with trio.fail_after(600):
        async with (
            agentrail.open_supervisor(memories=recall, notes=notes) as supervisor,
            trio.open_nursery() as nursery,
        ):
            session = await supervisor.start_session(
                model=answering(systems),
                tools=tools,
                plugins=[*plugins, hears],
                sandbox=sandbox,
                user_data={"user_id": "ada"},
            )

            async def listen(task_status):
                async with session.subscribe(after=0, deltas=False, buffer=100_000) as events:
                    task_status.started()
                    async for event in events:
                        published.append(event)
                        if isinstance(event, ApprovalRequired):
                            await session.approve(event.approval.id)

            await nursery.start(listen)
            refused = 0
            for number, kind in zip(range(CYCLES), itertools.cycle(WORK), strict=False):
                try:
                    await session.ask(f"{kind} {number}")
                except CycleAborted:
                    refused += 1
                if number % 20 == 10:
                    await session.compact()
                    await session.update_plugin_opts("CostGuard", max_tokens=2_000_000 + number)
                    await session.steer("and hurry")
            messages = await session.messages()
            await session.stop()
    asked = Counter(kind for kind, _ in zip(itertools.cycle(WORK), range(CYCLES), strict=False))
    kinds = Counter(type(event) for event in published)
    assert [event for event in published if isinstance(event, PluginFailed | ActionIgnored)] == []
    assert set(ears) == set(HOOKS)
    # ContentPolicy refuses what its judge refuses, SecurityGuard blocks, HumanApproval asks, OutputFilter replaces, ...
    triggered = Counter(
        event.triggered_policies for event in published if isinstance(event, ContentPolicyViolated)
    )
    assert triggered == {("rubric",): asked["sell"], ("keyword 1",): asked["tell"]}
    assert refused == asked["sell"]
    assert kinds[ToolBlocked] == asked["delete"]
    assert kinds[ApprovalRequired] == asked["deploy"]
    assert "hunter2" not in str(messages)
    # ... LargeResultOffload writes, Recovery lets the tool try again, Reflection sends back, AutoCheckpoint and EventLogger tell.
    assert kinds[LargeResultOffloaded] == asked["count"]
    assert kinds[ToolRetry] == asked["stumble"]
    assert any("It is dull." in event.prompt for event in published if isinstance(event, Intervention))
    assert {event.name for event in published if isinstance(event, PluginEvent)} == {"checkpoint", "log"}
    assert kinds[PluginOptsUpdated] == kinds[CompactEnd] == 3
    # EpisodicMemory remembers, MemoryFlush notes, and none of both in the workspace.
    owner = MemoryOwner(user="ada")
    assert recall.list(owner, TagFilter(any_of=("episode",)))
    assert topics_of(notes.read(owner, session.session_id))
    names = {one.name for one in (await sandbox.list_dir(".")).entries}
    assert names == {"AGENTS.md", "compacted", "tool-results"}
    # MemoryLoader and the memory files are in what the model is told.
    assert any("Use tabs." in system for system in systems)
    # Each cycle has its one end, and so has each prompt that was refused.
    assert kinds[AgentStart] == kinds[AgentEnd] == CYCLES - refused + 3
    assert sum(kinds[kind] for kind in TERMINAL) == kinds[AgentStart] + refused

"""The journals behind the golden files of `tests/core/journal/golden`: what people have on disk, as lines of text.

Stored anew by `python -m tests.core.journal.golden_journals`; read the diff as a change of what people have. Before a release the files
are copied into a folder of its name, and each later version reads, folds and replays them.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw

from agentrail.core.journal import record as rec
from agentrail.core.journal.erasure import USER_FORGOTTEN, closing_record, erased_record
from agentrail.core.journal.fold import Sources, fold_journal
from agentrail.core.journal.jsonl import encode_journal
from agentrail.core.policy.budget import Budget
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.session.machine import new_session
from agentrail.core.session.state_codec import encode_session
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.stack.plugin import Plugin
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.testing.plugins import PuppetPlugin, PuppetRule
from tests.core.journal.recorded import Life, Told, behind, call, changed_body, plain_life
from tests.core.worlds import TOOLS, config, prompt

FOLDER: Final = Path(__file__).parent / "golden"

PLUGINS: Final[Mapping[str, Plugin]] = {
    "guard": PuppetPlugin(
        (PuppetRule(hook="BeforeTool", tool="deploy", action="block", text="not today"),),
        name="guard",
        priority=50,
    ),
    "person": PuppetPlugin(
        (PuppetRule(hook="BeforeTool", tool=None, action="approve", text="it writes"),),
        name="person",
        priority=50,
    ),
    "limit": PuppetPlugin(
        (PuppetRule(hook="BeforeTool", tool="deploy", action="block", text="too much"),),
        name="limit",
        priority=500,
    ),
}


def resolve(record: PluginRecord) -> Plugin:
    """Give the plugin of a golden journal."""
    return PLUGINS[record.name]


SOURCES: Final = Sources(resolve=resolve)


def guarded() -> Told:
    """A session with a guard: one call is blocked, and a question waits for a person."""
    stack, states = load_stack([PLUGINS["guard"]])
    session = Told(new_session(config(), TOOLS, stack, states))
    session.prompt("Deploy it.")
    session.hear("I ", "try.")
    session.complete("I try.", call("deploy", path="a"), call("ask", "c2", question="Now?"))
    return session


def taken_over() -> list[rec.Record]:
    """The same, when its process has stopped: another one takes it, with newer code; it goes back, and is closed."""
    life = guarded().life
    seq = life.state.data.seq
    taken = rec.taken_draft(node="n2", cause="gone", engine="1.1", at_ms=100, events=seq)
    records = behind(life.records, taken, epoch=2)
    folded = msgspec.structs.replace(life.state, data=msgspec.structs.replace(life.state.data, seq=seq + 2))
    drifted = rec.DriftedBody(
        first=4,
        what="events was '7' and is '8'",
        events=seq + 2,
        engine="1.1",
        state=Raw(encode_session(folded)),
        begun=fold_journal(life.records, SOURCES).begun,
    )
    records = behind(
        records,
        rec.Draft(at_ms=101, kind="drifted", body=rec.encode_body(drifted), events=seq + 2),
        rec.Draft(
            at_ms=102,
            kind="changed",
            body=rec.encode_body(changed_body(life.state, engine="1.1")),
            events=seq + 2,
        ),
    )
    resumed = Life.again(records, SOURCES)
    resumed.live(s.Recovered(at_ms=103, cause="gone", open=resumed.resumed.begun, attempt=1))
    seq = resumed.state.data.seq
    rewound = rec.encode_body(rec.RewoundBody(number=3))
    closed = rec.encode_body(rec.ClosedBody(reason="stopped"))
    return behind(
        resumed.records,
        rec.Draft(at_ms=104, kind="rewound", body=rewound, events=seq),
        rec.Draft(at_ms=105, kind="closed", body=closed, events=seq),
    )


def approved() -> Told:
    """A user always allows a command, and then allows a call that a guard of a later priority refuses."""
    stack, states = load_stack([PLUGINS["person"], PLUGINS["limit"]])
    session = Told(new_session(config(max_turns=9), Toolbox([*TOOLS, _SHELL]), stack, states))
    session.prompt("Clean up.")
    session.complete("On it.", call("shell", "c1", command="git clean -n"))
    session.approve("always")
    session.finish_tools("a.pyc")
    session.complete("On it.", call("shell", "c2", command="git clean -fdx"))
    if session.life.state.suspended:
        session.approve("once")
    session.finish_tools("gone")
    session.complete("On it.", call("deploy", "c3", path="a"))
    session.approve("once")
    session.finish_tools("deployed")
    return session


_SHELL: Final = ToolSpec(
    name="shell",
    description="Runs a command.",
    parameters={"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)


def rewound() -> list[rec.Record]:
    """A session with a budget goes back after a cycle with a limit of its own, and is prompted without one."""
    chosen = config(budget=Budget(max_total_tokens=9_000), max_output_tokens=20)
    life = Life.begun(new_session(chosen, TOOLS))
    life.live(prompt("p1", "Hello.", at_ms=1, settings=PromptSettings(max_cost_usd=0.5)))
    back = rec.encode_body(rec.RewoundBody(number=len(life.records)))
    draft = rec.Draft(at_ms=2, kind="rewound", body=back, events=life.state.data.seq)
    resumed = Life.again(behind(life.records, draft), SOURCES)
    resumed.live(prompt("p2", "Once more.", at_ms=3))
    return resumed.records


def erased() -> list[rec.Record]:
    """A journal of which a person had one record removed."""
    records = list(plain_life().life.records)
    records[6] = erased_record(records[6], USER_FORGOTTEN)
    return records


def forgotten() -> list[rec.Record]:
    """A journal whose user was forgotten."""
    records = plain_life().life.records
    end = closing_record(records[-1], USER_FORGOTTEN, at_ms=200)
    return [*(erased_record(one, USER_FORGOTTEN) for one in records), end]


JOURNALS: Final[Mapping[str, Callable[[], Sequence[rec.Record]]]] = {
    "plain": lambda: plain_life().life.records,
    "guarded": lambda: guarded().life.records,
    "approved": lambda: approved().life.records,
    "taken_over": taken_over,
    "rewound": rewound,
    "erased": erased,
    "forgotten": forgotten,
}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, records in JOURNALS.items():
        (FOLDER / f"{name}.jsonl").write_bytes(encode_journal(records()))

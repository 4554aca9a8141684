"""`folded_sessions`: it folds what sessions record, says what differs, and changes nothing of what they do (docs: the journal)."""

import pytest

from agentrail import plugins as p
from agentrail.core.journal.recorder import Recorder
from agentrail.stores.memory import MemoryStore
from agentrail.testing.cancelling import crash
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.folded import FoldDiffers, folded_sessions
from agentrail.testing.supervisors import open_nameless
from tests.runtime.rig import saying


class Counting(p.Plugin[int]):
    """Abstains from the state that it has, and counts in itself: what no fold can know."""

    def __init__(self, refused: int) -> None:
        self.asked = 0
        self.refused = refused

    def init(self) -> int:
        return 0

    @p.on(p.BeforePrompt)
    def judge(self, event: p.BeforePrompt, state: int, ctx: p.Context) -> p.Action[int]:
        self.asked += 1
        return p.Abort("enough", state) if self.asked == self.refused else p.Continue(state)


class Tallying(p.Plugin[int]):
    """Counts in its state, as it should."""

    def init(self) -> int:
        return 0

    @p.on(p.BeforePrompt)
    def tally(self, event: p.BeforePrompt, state: int, ctx: p.Context) -> p.Action[int]:
        return p.Continue(state + 1)


async def test_a_session_without_a_store_is_folded_from_what_it_would_record():
    """Over a crash of its actor, and with plugins that exist nowhere but in the test and come while it lives."""

    class Local(Tallying):
        """Defined where no import finds it."""

    with folded_sessions() as watched:
        async with open_nameless() as supervisor:
            session = await supervisor.start_session(model=saying("a", "b", "c"), plugins=[Tallying()])
            assert await session.ask("one") == "a"
            await session.attach_plugin(Local())
            crash(session)
            assert await session.ask("two") == "b"
            await session.detach_plugin("Local")
            assert await session.ask("three") == "c"
        assert watched.folded == 0  # not while it lives
    assert (watched.folded, watched.left_out) == (1, [])


@pytest.mark.parametrize("wrap", [lambda store: store, FaultyStore], ids=["immediate", "in a thread"])
async def test_a_session_with_a_store_in_memory_is_folded_from_there(wrap):
    """Each owner's part of its journal: that before it was put away, and that behind it."""
    store = wrap(MemoryStore())
    with folded_sessions() as watched:
        async with open_nameless(store=store) as supervisor:
            session = await supervisor.start_session(model=saying("a"), session_id="s-1")
            assert await session.ask("one") == "a"
        async with open_nameless(store=store) as supervisor:
            session = await supervisor.resume_session("s-1", model=saying("b"))
            assert await session.ask("two") == "b"
    assert (watched.folded, watched.left_out) == (2, [])


async def ask(*prompts, plugins=()):
    """Let a session answer, and fold it; one turn that is left over says nothing."""
    with folded_sessions():
        async with open_nameless() as supervisor:
            session = await supervisor.start_session(model=saying("a", "b"), plugins=plugins)
            for prompt in prompts:
                assert await session.ask(prompt) in "ab"


async def test_what_differs_is_told_of(monkeypatch):
    """Of a plugin that looks elsewhere the record is named, and what it was and is; a record that is missing makes another fold."""
    said = r"1 of 1 sessions (?s:.)*record 3 \(prompt\): does was .*start_stream.* and is .*refuse"
    with pytest.raises(FoldDiffers, match=said):
        await ask("one", "two", plugins=[Counting(refused=3)])

    note = Recorder.note
    for kind in ("prompt", "response_completed"):

        def forgetful(self, *given, kind=kind):
            return tuple(draft for draft in note(self, *given) if draft.kind != kind)

        monkeypatch.setattr(Recorder, "note", forgetful)
        with pytest.raises(FoldDiffers):
            await ask("one")


async def test_what_no_store_would_begin_is_left_out_and_said():
    """Where there is no store it is fine, so it is no fault of the test."""
    with folded_sessions() as watched:
        async with open_nameless() as supervisor:
            options = {"user_data": {"odd": object()}}
            session = await supervisor.start_session(model=saying("a"), session_id="s-1", **options)
            assert await session.ask("one") == "a"
    assert watched.folded == 0
    ((session_id, why),) = watched.left_out
    assert session_id == "s-1"
    assert "no store accepts it:" in why
    assert "$.data.config.user_data" in why

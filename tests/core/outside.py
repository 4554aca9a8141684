"""Which effects are open, counted from outside: from what `step` was told and what it asked for, not from its state.

The one thing that it looks up there is which teardown is that of an abort, because a drain looks the same.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from agentrail.core.protocol import effects as fx, signals as s
from agentrail.core.protocol.actions import WriteFile
from agentrail.core.protocol.request import EffectId
from agentrail.core.session.compaction_run import DIRECTORY
from agentrail.core.session.state import SessionState
from agentrail.events import CompactEnd, SessionRecovered

_ENDS: Final[dict[type[fx.Effect], tuple[type[s.EffectOutcome], ...]]] = {
    fx.StartStream: (s.ResponseCompleted, s.StreamFailed),
    fx.RunTool: (s.ToolFinished,),
    fx.SpawnChild: (s.ToolFinished,),
    fx.AskHost: (s.HostJudged,),
    fx.TellHost: (s.HostTold,),
    fx.StartAgent: (s.AgentEnded,),
    fx.SetTimer: (s.TimerFired,),
    fx.RunPluginRequest: (s.PluginRequestFinished,),
    fx.GatherContext: (s.ContextGathered,),
    fx.Teardown: (s.TeardownFinished,),
}


def _is_recovered(effect: fx.Effect) -> bool:
    return isinstance(effect, fx.Publish) and isinstance(effect.event, SessionRecovered)


class OpenFromOutside:
    """The books of somebody who sees signals go in and effects come out.

    Attributes:
        open: What was asked for and owes an outcome that would mean something, with the class of the effect.
    """

    def __init__(self, *, has_budget: bool) -> None:
        self.open: dict[EffectId, type[fx.Effect]] = {}
        self._has_budget = has_budget
        self._killed: set[EffectId] = set()
        self._lent: set[EffectId] = set()
        self._drains: set[EffectId] = set()
        self._compaction: EffectId | None = None

    def saw(self, signal: s.Signal, after: SessionState, effects: Sequence[fx.Effect]) -> None:
        match signal:
            case s.Restarted() | s.Parked():  # whatever ran died with the actor
                self._clear()
            case s.Recovered() if any(_is_recovered(effect) for effect in effects):  # in another process
                self._clear()
            case s.StepCrashed(signal_kind="Recovered"):
                self._clear()
            case s.StepCrashed(owed_by=effect_id) if effect_id is not None:  # it stands for the outcome
                self._ended(effect_id)
            case s.ChildStarted(effect_id=effect_id) if effect_id in self.open.keys() - self._killed:
                if not self._has_budget:
                    self._lent.add(effect_id)
            case s.EffectOutcome(effect_id=effect_id) if type(signal) in self._awaited(effect_id):
                self._ended(effect_id)
            case _:
                pass
        for effect in effects:
            self._asked(effect, after)

    def _asked(self, effect: fx.Effect, after: SessionState) -> None:
        match effect:
            case fx.StartStream(request=request, is_quiet=is_quiet):
                self.open |= {
                    request.attempt: fx.StartStream,
                    fx.stall_timer_of(request.attempt): fx.SetTimer,
                }
                self._compaction = request.attempt if is_quiet else self._compaction
            case (
                fx.RunTool(effect_id=effect_id)
                | fx.SetTimer(effect_id=effect_id)
                | fx.RunPluginRequest(effect_id=effect_id)
                | fx.AskHost(effect_id=effect_id)
                | fx.TellHost(effect_id=effect_id)
                | fx.GatherContext(effect_id=effect_id)
                | fx.StartAgent(effect_id=effect_id)
            ):
                self.open[effect_id] = type(effect)
                wanted = getattr(effect, "wanted", None)
                if isinstance(wanted, WriteFile) and wanted.path.startswith(f"{DIRECTORY}/"):
                    self._compaction = effect_id
            case fx.SpawnChild(effect_id=effect_id) | fx.ResumeChild(effect_id=effect_id):
                self.open[effect_id] = fx.SpawnChild
                self._lent.add(effect_id)
            case fx.KillTools(effect_ids=effect_ids):
                self._killed |= set(effect_ids)
            case fx.Teardown(effect_id=effect_id, stopped=stopped):
                self.open[effect_id] = fx.Teardown
                teardown = after.data.teardown
                if teardown is not None and teardown.effect_id == effect_id:
                    self._give_up(stopped)
                else:
                    self._drains.add(effect_id)
            case fx.CancelStream(effect_id=effect_id) | fx.ClearTimer(effect_id=effect_id):
                self._close(effect_id)
            case fx.CancelPluginRequest(effect_id=effect_id):
                self._close(effect_id)
            case fx.Publish(event=CompactEnd()) if self._compaction is not None:
                self._close(self._compaction)
            case fx.End():
                self._clear()
            case _:
                pass

    def _awaited(self, effect_id: EffectId) -> tuple[type[s.EffectOutcome], ...]:
        kind = self.open.get(effect_id)
        return () if kind is None else _ENDS[kind]

    def _ended(self, effect_id: EffectId) -> None:
        self._lent.discard(effect_id)
        self._close(effect_id)
        if effect_id in self._drains:
            self._drains.remove(effect_id)
            if not self._drains:
                self._give_up(tuple(self._killed))

    def _give_up(self, effect_ids: Iterable[EffectId]) -> None:
        for effect_id in effect_ids:
            # An agent is waited for until it has ended.
            if effect_id not in self._lent and self.open.get(effect_id) is not fx.StartAgent:
                self._close(effect_id)

    def _close(self, effect_id: EffectId) -> None:
        if self.open.pop(effect_id, None) is fx.StartStream:
            self.open.pop(fx.stall_timer_of(effect_id), None)

    def _clear(self) -> None:
        self.open.clear()
        self._killed.clear()
        self._lent.clear()
        self._drains.clear()

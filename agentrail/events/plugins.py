"""Events of plans, memory and policy, most of which plugins make; then of the plugins themselves."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from attrs import field, frozen

from agentrail.errors import ErrorInfo
from agentrail.events.envelope import EventBase
from agentrail.events.tools import LargeResultOffloaded
from agentrail.events.values import Amount, Plan, PlanStep, Todo
from agentrail.frozen import frozen_value
from agentrail.messages import JsonValue


# Plugins make some of these, and may go on writing to a list that they made one of.
def _todos(todos: Iterable[Todo]) -> tuple[Todo, ...]:
    return tuple(todos)


def _texts(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(texts)


# --- plans, memory, policy


@frozen(kw_only=True)
class TodoChange(EventBase):
    """The model changed its list of todos.

    Attributes:
        todos: All of them, as they are now.
    """

    todos: tuple[Todo, ...] = field(converter=_todos)


@frozen(kw_only=True)
class PlanGenerated(EventBase):
    """The model wrote down a plan.

    Attributes:
        plan: As it was read from the response.
    """

    plan: Plan


@frozen(kw_only=True)
class PlanStepCompleted(EventBase):
    """The model ticked off a step of its plan.

    Attributes:
        step: That step.
    """

    step: PlanStep


@frozen(kw_only=True)
class PlanCompleted(EventBase):
    """All steps of the plan are done.

    Attributes:
        plan: As it is now.
    """

    plan: Plan


@frozen(kw_only=True)
class MemoryFlushed(EventBase):
    """Facts were kept before the messages that they stand in are compacted away.

    Attributes:
        facts: What was written down, one sentence each.
        count: How many they are.
    """

    facts: tuple[str, ...] = field(converter=_texts)
    count: int


@frozen(kw_only=True)
class ContentPolicyViolated(EventBase):
    """A text is not what the policy of the application allows.

    Attributes:
        summary: What is wrong with it.
        triggered_policies: The names of the rules it breaks.
    """

    summary: str
    triggered_policies: tuple[str, ...] = field(converter=_texts)


@frozen(kw_only=True)
class BudgetWarning(EventBase):
    """Most of a budget is used up.

    Attributes:
        spent: How much, by the session and its children together.
        limit: How much there is, in the same unit.
    """

    spent: Amount
    limit: Amount


# --- plugins


@frozen(kw_only=True)
class PluginEvent(EventBase):
    """Something that a plugin or a tool lets the world know.

    Attributes:
        name: Its own name for it.
        payload: JSON, frozen; one that is an object has the application's `user_data` in it, under that key.
    """

    name: str
    payload: JsonValue = field(default=None, converter=frozen_value)


@frozen(kw_only=True)
class Intervention(EventBase):
    """Plugins put words in, which the model reads as coming from the user.

    Attributes:
        prompt: The words.
        by: The names of the plugins, in the order in which they spoke.
    """

    prompt: str
    by: tuple[str, ...]


@frozen(kw_only=True)
class PluginOptsUpdated(EventBase):
    """New options of a plugin were applied, or refused.

    Attributes:
        plugin: Its name.
        success: Whether they hold now.
        error: Why not.
    """

    plugin: str
    success: bool
    error: ErrorInfo | None = None


@frozen(kw_only=True)
class PluginFailed(EventBase):
    """A plugin raised, or answered with what is no answer. Its state is as it was before.

    Attributes:
        plugin: Its name.
        hook: The hook event that it was given.
        error: What went wrong, text only.
        policy: What its failing means: `open`, the others go on as if it had nothing to say; `closed`, a refusal.
    """

    plugin: str
    hook: str
    error: ErrorInfo
    policy: Literal["open", "closed"]


@frozen(kw_only=True)
class PluginSlow(EventBase):
    """A plugin held the session up. At most once a minute for each.

    Attributes:
        plugin: Its name.
        hook: The hook event that it was given.
        milliseconds: How long it took.
    """

    plugin: str
    hook: str
    milliseconds: int


@frozen(kw_only=True)
class ActionIgnored(EventBase):
    """A plugin answered with an action that means nothing in that place.

    Attributes:
        plugin: Its name.
        hook: The hook event that it was given.
        action: The kind of its answer.
    """

    plugin: str
    hook: str
    action: str


PolicyEvent: TypeAlias = (
    TodoChange
    | PlanGenerated
    | PlanStepCompleted
    | PlanCompleted
    | MemoryFlushed
    | ContentPolicyViolated
    | BudgetWarning
)
PluginsEvent: TypeAlias = (
    PluginEvent | Intervention | PluginOptsUpdated | PluginFailed | PluginSlow | ActionIgnored
)

Announcement: TypeAlias = PolicyEvent | LargeResultOffloaded
"""The events that plugins publish as they are, and not as a `PluginEvent`."""

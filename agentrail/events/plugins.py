"""Events of plans, memory and policy, most of which plugins make; then of the plugins themselves."""

from typing import Literal, TypeAlias

from msgspec.structs import force_setattr

from agentrail.errors import ErrorInfo
from agentrail.events.envelope import EventBase
from agentrail.events.plans import Plan, PlanStep
from agentrail.events.tools import LargeResultOffloaded
from agentrail.events.values import Amount, Todo
from agentrail.frozen import frozen_value
from agentrail.messages import CallId, JsonValue

# --- plans, memory, policy


class TodoChange(EventBase, frozen=True, kw_only=True):
    """The model changed its list of todos.

    Attributes:
        todos: All of them, as they are now.
    """

    todos: tuple[Todo, ...]

    def __post_init__(self) -> None:
        """Keep the todos: a plugin makes this event, and may go on writing to its list."""
        force_setattr(self, "todos", tuple(self.todos))


class PlanGenerated(EventBase, frozen=True, kw_only=True):
    """The model wrote down a plan, or moved steps of it on otherwise than to their end.

    Attributes:
        plan: As it is now.
    """

    plan: Plan


class PlanStepCompleted(EventBase, frozen=True, kw_only=True):
    """The model ticked off a step of its plan.

    Attributes:
        step: That step.
    """

    step: PlanStep


class PlanCompleted(EventBase, frozen=True, kw_only=True):
    """All steps of the plan are done, or were skipped.

    Attributes:
        plan: As it is now.
    """

    plan: Plan


class MemoryFlushed(EventBase, frozen=True, kw_only=True):
    """Facts were kept before the messages that they stand in are compacted away.

    Attributes:
        facts: What was written down, one sentence each.
        count: How many they are.
    """

    facts: tuple[str, ...]
    count: int

    def __post_init__(self) -> None:
        """Keep the facts: a plugin makes this event, and may go on writing to its list."""
        force_setattr(self, "facts", tuple(self.facts))


class ContentPolicyViolated(EventBase, frozen=True, kw_only=True):
    """A text is not what the policy of the application allows.

    Attributes:
        summary: What is wrong with it.
        triggered_policies: The names of the rules it breaks.
    """

    summary: str
    triggered_policies: tuple[str, ...]

    def __post_init__(self) -> None:
        """Keep the names: a plugin makes this event, and may go on writing to its list."""
        force_setattr(self, "triggered_policies", tuple(self.triggered_policies))


class CitationUnknown(EventBase, frozen=True, kw_only=True):
    """A response cites what no result of its cycle held.

    Attributes:
        citations: As they stand in the response, without brackets.
    """

    citations: tuple[str, ...]

    def __post_init__(self) -> None:
        """Keep them: a plugin makes this event, and may go on writing to its list."""
        force_setattr(self, "citations", tuple(self.citations))


class BudgetWarning(EventBase, frozen=True, kw_only=True):
    """Most of a budget is used up.

    Attributes:
        spent: How much, by the session and its children together.
        limit: How much there is, in the same unit.
    """

    spent: Amount
    limit: Amount


class SkillOpened(EventBase, frozen=True, kw_only=True):
    """The model opened a skill: until the cycle ends, or it opens another one, this one's tools count.

    Attributes:
        name: Of the skill.
        digest: Its id: a hash of all its files.
        call_id: The call that opened it.
    """

    name: str
    digest: str
    call_id: CallId


class SkillClosed(EventBase, frozen=True, kw_only=True):
    """A skill is in use no longer: the cycle ends, or another one was opened.

    Attributes:
        name: Of the skill.
    """

    name: str


# --- plugins


class PluginEvent(EventBase, frozen=True, kw_only=True):
    """Something that a plugin or a tool lets the world know.

    Attributes:
        name: Its own name for it.
        payload: JSON, frozen; one that is an object has the application's `user_data` in it, under that key.
    """

    name: str
    payload: JsonValue = None

    def __post_init__(self) -> None:
        """Freeze the payload: the plugin goes on with its own."""
        force_setattr(self, "payload", frozen_value(self.payload))


class Intervention(EventBase, frozen=True, kw_only=True):
    """Plugins put words in, which the model reads as coming from the user.

    Attributes:
        prompt: The words.
        by: The names of the plugins, in the order in which they spoke.
    """

    prompt: str
    by: tuple[str, ...]


class PluginOptsUpdated(EventBase, frozen=True, kw_only=True):
    """New options of a plugin were applied, or refused.

    Attributes:
        plugin: Its name.
        success: Whether they hold now.
        error: Why not.
    """

    plugin: str
    success: bool
    error: ErrorInfo | None = None


class PluginFailed(EventBase, frozen=True, kw_only=True):
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


class PluginSlow(EventBase, frozen=True, kw_only=True):
    """A plugin held the session up. At most once a minute for each.

    Attributes:
        plugin: Its name.
        hook: The hook event that it was given.
        milliseconds: How long it took.
    """

    plugin: str
    hook: str
    milliseconds: int


class ActionIgnored(EventBase, frozen=True, kw_only=True):
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
    | CitationUnknown
    | BudgetWarning
    | SkillOpened
    | SkillClosed
)
PluginsEvent: TypeAlias = (
    PluginEvent | Intervention | PluginOptsUpdated | PluginFailed | PluginSlow | ActionIgnored
)

Announcement: TypeAlias = PolicyEvent | LargeResultOffloaded
"""The events that plugins publish as they are, and not as a `PluginEvent`."""

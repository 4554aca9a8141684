"""Events of plans, memory, policy and plugins."""

from typing import Literal, TypeAlias

from msgspec.structs import force_setattr

from agentrail.errors import ErrorInfo
from agentrail.events.envelope import EventBase
from agentrail.events.plans import Plan, PlanStep
from agentrail.events.tool_events import LargeResultOffloaded
from agentrail.events.values import Amount, Todo
from agentrail.frozen import frozen_value
from agentrail.messages import CallId, JsonValue

# --- plans, memory, policy


class TodoChange(EventBase, frozen=True, kw_only=True):
    """The model changed its list of todos.

    Attributes:
        todos: The complete current list.
    """

    todos: tuple[Todo, ...]

    def __post_init__(self) -> None:
        force_setattr(self, "todos", tuple(self.todos))


class PlanGenerated(EventBase, frozen=True, kw_only=True):
    """The model wrote a plan, or changed steps without finishing any.

    Attributes:
        plan: The current plan.
    """

    plan: Plan


class PlanStepCompleted(EventBase, frozen=True, kw_only=True):
    """The model completed a step of its plan.

    Attributes:
        step: The completed step.
    """

    step: PlanStep


class PlanCompleted(EventBase, frozen=True, kw_only=True):
    """All steps of the plan are completed or skipped.

    Attributes:
        plan: The current plan.
    """

    plan: Plan


class MemoryFlushed(EventBase, frozen=True, kw_only=True):
    """Facts were saved before compaction.

    Attributes:
        facts: The saved facts, one sentence each.
        count: Number of facts.
    """

    facts: tuple[str, ...]
    count: int

    def __post_init__(self) -> None:
        force_setattr(self, "facts", tuple(self.facts))


class ContentPolicyViolated(EventBase, frozen=True, kw_only=True):
    """A text violates the application's content policy.

    Attributes:
        summary: Description of the violation.
        triggered_policies: Names of the violated rules.
    """

    summary: str
    triggered_policies: tuple[str, ...]

    def __post_init__(self) -> None:
        force_setattr(self, "triggered_policies", tuple(self.triggered_policies))


class CitationUnknown(EventBase, frozen=True, kw_only=True):
    """A response contains citations found in no result of its cycle.

    Attributes:
        citations: The citations as written, without brackets.
    """

    citations: tuple[str, ...]

    def __post_init__(self) -> None:
        force_setattr(self, "citations", tuple(self.citations))


class BudgetWarning(EventBase, frozen=True, kw_only=True):
    """Most of a budget is spent.

    Attributes:
        spent: Amount spent by the session and its children.
        limit: The whole budget, in the same unit.
    """

    spent: Amount
    limit: Amount


class SkillOpened(EventBase, frozen=True, kw_only=True):
    """The model opened a skill. Its tools last until the cycle ends or another skill is opened.

    Attributes:
        name: Name of the skill.
        digest: Hash of all its files, its id.
        call_id: The call that opened it.
    """

    name: str
    digest: str
    call_id: CallId


class SkillClosed(EventBase, frozen=True, kw_only=True):
    """A skill was closed: the cycle ended, or another skill was opened.

    Attributes:
        name: Name of the skill.
    """

    name: str


# --- plugins


class PluginEvent(EventBase, frozen=True, kw_only=True):
    """An event that a plugin or a tool defines.

    Attributes:
        name: Name chosen by the plugin or tool.
        payload: JSON, frozen. An object also has the application's `user_data` under that key.
    """

    name: str
    payload: JsonValue = None

    def __post_init__(self) -> None:
        force_setattr(self, "payload", frozen_value(self.payload))


class Intervention(EventBase, frozen=True, kw_only=True):
    """Plugins added text as a user message.

    Attributes:
        prompt: The added text.
        by: Names of the plugins, in order.
    """

    prompt: str
    by: tuple[str, ...]


class PluginOptsUpdated(EventBase, frozen=True, kw_only=True):
    """New options of a plugin were applied or refused.

    Attributes:
        plugin: Name of the plugin.
        success: Whether the options were applied.
        error: Reason of the refusal.
    """

    plugin: str
    success: bool
    error: ErrorInfo | None = None


class PluginFailed(EventBase, frozen=True, kw_only=True):
    """A plugin raised, or returned an invalid answer. Its state is unchanged.

    Attributes:
        plugin: Name of the plugin.
        hook: The hook event being handled.
        error: The error, as text.
        policy: Effect: `open` skips the plugin, `closed` counts as a refusal.
    """

    plugin: str
    hook: str
    error: ErrorInfo
    policy: Literal["open", "closed"]


class PluginSlow(EventBase, frozen=True, kw_only=True):
    """A plugin delayed the session. Published at most once a minute per plugin.

    Attributes:
        plugin: Name of the plugin.
        hook: The hook event being handled.
        milliseconds: Duration of the hook.
    """

    plugin: str
    hook: str
    milliseconds: int


class ActionIgnored(EventBase, frozen=True, kw_only=True):
    """A plugin returned an action without meaning for this hook.

    Attributes:
        plugin: Name of the plugin.
        hook: The hook event being handled.
        action: Kind of the action.
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
"""The events that plugins publish as themselves, not wrapped in a `PluginEvent`."""

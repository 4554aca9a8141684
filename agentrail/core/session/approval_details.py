"""The view of a pending call for the user, in addition to its `Approval`, and the user's rules.

Read-only, without decisions.
"""

import hashlib
import json
from collections.abc import Iterator
from itertools import islice
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from agentrail.core.session.approval_rules import covers, program_family_of, rule_of, rule_tool, sorted_rules
from agentrail.core.session.state import Known, Rule
from agentrail.core.values.toolbox import EffectClass
from agentrail.events import Approval
from agentrail.frozen import frozen_or_none
from agentrail.messages import AssistantMessage, CallId, JsonObject, SessionId, ToolCall
from agentrail.structs import Value

MAX_ALLOWED_SHOWN: Final = 5
"""Maximum number of earlier calls shown that a rule would have allowed."""

MAX_SUMMARY_CHARACTERS: Final = 200

_MAX_CALLS_COMPARED: Final = 1_000

RuleReach: TypeAlias = Literal["session"]
"""Reach of a rule: the one session whose call was decided. Its child sessions ask for themselves."""


class ApprovalRule(Value, frozen=True, kw_only=True):
    """A rule of the user about calls that are always allowed.

    Attributes:
        rule_id: The argument of `revoke_rule`. The same for the same tool and words.
        session_id: The session that has it: the one that asked, or one of its child sessions.
        tool: The tool.
        command_family: For commands their words. None: every call of the tool.
        exact: Whether it covers these very words and no others. False, only for rules older than this field: all
            simple commands that begin with them.
        words: Readable description of what it allows.
        reach: Where it applies.
        at_ms: When it was made, in milliseconds since 1970. None for rules older than this field.
        by: Its creator, always a user.
        breaks: Whether it is a breakpoint: calls of the tool, or of every tool (`*`), need an approval.
    """

    rule_id: str
    session_id: SessionId
    tool: str
    command_family: str | None
    exact: bool
    words: str
    reach: RuleReach
    at_ms: int | None
    by: Literal["user"] = "user"
    breaks: bool = False


class AllowedCall(Value, frozen=True, kw_only=True):
    """An earlier call that a rule would have allowed.

    Attributes:
        call_id: The call.
        summary: Its command line, or its arguments, at most 200 characters.
    """

    call_id: CallId
    summary: str


class AlwaysOffer(Value, frozen=True, kw_only=True):
    """The rule that an approval with `always` would make.

    Attributes:
        tool: The tool of the call.
        command_family: Same as in `ApprovalRule`.
        exact: Same as in `ApprovalRule`.
        words: A description of the calls that it would allow.
        reach: Where it would apply.
        allowed: The last calls of this conversation that it would have allowed, the latest first, at most five.
    """

    tool: str
    command_family: str | None
    exact: bool
    words: str
    reach: RuleReach
    allowed: tuple[AllowedCall, ...]


class ApprovalForm(Value, frozen=True, kw_only=True):
    """All facts about a call that waits for the user.

    Attributes:
        by: The plugin that requires it. None if it was not stored.
        effect: The effect class of the tool, which tells whether it is safe to run twice. None for an unknown tool.
        always: The rule that *always* would make. None if that answer is not accepted.
    """

    approval: Approval
    by: str | None
    effect: EffectClass | None
    schema: JsonObject | None
    arguments_text: str
    always: AlwaysOffer | None

    def __post_init__(self) -> None:
        force_setattr(self, "schema", frozen_or_none(self.schema))


def form_of_approval(data: Known, approval_id: str) -> ApprovalForm | None:
    interaction = next((one for one in data.interactions if one.id == approval_id), None)
    if interaction is None or not isinstance(interaction.asked, Approval):
        return None
    asked = interaction.asked
    state = data.batch.find(asked.call_id)
    spec = None if state is None else state.spec
    return ApprovalForm(
        approval=asked,
        by=interaction.by,
        effect=None if spec is None else spec.effect_class,
        schema=None if spec is None else spec.parameters,
        arguments_text=arguments_text(asked.arguments),
        always=_offer_of(data, asked) if "always" in asked.permission_options else None,
    )


def arguments_text(arguments: JsonObject) -> str:
    """Encode arguments as JSON, in their own order, with each number and text as `hash_arguments` has it."""
    try:
        return msgspec.json.encode(arguments).decode()
    except UnicodeEncodeError:  # half of a surrogate pair, which is written as an escape
        return json.dumps(arguments, separators=(",", ":"))


def rules_of(data: Known) -> tuple[ApprovalRule, ...]:
    """Return the user's rules in a session, the oldest first. Rules for an earlier text of a tool are left out."""
    found = [
        ApprovalRule(
            rule_id=rule_id_of(rule),
            session_id=data.config.session_id,
            tool=rule.tool,
            command_family=rule.family,
            exact=exact,
            words=words_of_rule(named, rule.family, exact=exact, breaks=rule.breaks),
            reach="session",
            at_ms=rule.at_ms,
            breaks=rule.breaks,
        )
        for rule in sorted_rules(data.rules)
        for named in (rule_tool(rule, data.tools.get(rule.tool)),)
        if named is not None
        for exact in (_is_exact(rule),)
    ]
    return tuple(sorted(found, key=lambda one: one.at_ms or 0))


def rule_id_of(rule: Rule) -> str:
    """Return the id of a rule, made from its content. An empty family differs from none."""
    what = [rule.tool, rule.family, *([True] if rule.exact else ["breakpoint"] if rule.breaks else [])]
    return f"rule_{hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]}"


def _is_exact(rule: Rule) -> bool:
    """Whether a rule covers one line only. An old family does if the words with more after them are another family."""
    family = rule.family
    return rule.exact or (family is not None and program_family_of({"command": f"{family} more"}) != family)


def words_of_rule(tool: str, family: str | None, *, exact: bool, breaks: bool = False) -> str:
    if breaks:
        calls = "every call" if tool == "*" else f"every call of {tool}"
        return f"breakpoint: {calls} needs an approval"
    if family is None:
        return f"{tool}: every call, whatever its arguments are"
    if exact:
        return f"{tool}: this very command and no other: {family}"
    return f"{tool}: every simple command that begins with: {family}"


def summary_of(arguments: JsonObject) -> str:
    """Return a short summary of a call: its command line, otherwise its arguments."""
    line = arguments.get("command")
    text = line if isinstance(line, str) else arguments_text(arguments)
    # Only the part that can be shown is read: the text may be a megabyte long.
    head = " ".join(text[: 4 * MAX_SUMMARY_CHARACTERS].split())
    is_whole = len(head) <= MAX_SUMMARY_CHARACTERS and len(text) <= 4 * MAX_SUMMARY_CHARACTERS
    return head if is_whole else f"{head[: MAX_SUMMARY_CHARACTERS - 1]}…"


def _offer_of(data: Known, asked: Approval) -> AlwaysOffer:
    rule = rule_of(asked.tool, asked.arguments)
    alike = (
        AllowedCall(call_id=call.call_id, summary=summary_of(call.arguments))
        for call in islice(_calls_before(data, asked), _MAX_CALLS_COMPARED)
        if call.arguments is not None and covers(rule, call.name, call.arguments)
    )
    return AlwaysOffer(
        tool=asked.tool,
        command_family=rule.family,
        exact=rule.exact,
        words=words_of_rule(asked.tool, rule.family, exact=rule.exact),
        reach="session",
        allowed=tuple(islice(alike, MAX_ALLOWED_SHOWN)),
    )


def _calls_before(data: Known, asked: Approval) -> Iterator[ToolCall]:
    """Iterate backwards over the model's calls of the same tool, without the pending one."""
    for message in reversed(data.history.messages):
        for call in reversed(message.calls) if isinstance(message, AssistantMessage) else ():
            if call.name == asked.tool and call.call_id != asked.call_id:
                yield call

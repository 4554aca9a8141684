"""What a person is shown of a call that waits, beside its `Approval`; and the rules that people have made. Reads only; decides nothing.

Nothing of it is an event: all of it is worked out of the state when it is asked for, so it can be told of what was asked long ago.
"""

import hashlib
import json
from collections.abc import Iterator
from itertools import islice
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from agentrail.core.session.rules import covers, program_family_of, rule_of, sorted_rules
from agentrail.core.session.state import Known, Rule
from agentrail.core.values.toolbox import EffectClass
from agentrail.events import Approval
from agentrail.frozen import frozen_or_none
from agentrail.messages import AssistantMessage, CallId, JsonObject, SessionId, ToolCall
from agentrail.structs import Value

MAX_ALLOWED_SHOWN: Final = 5
"""How many earlier calls are shown that a rule would have allowed."""

MAX_SUMMARY_CHARACTERS: Final = 200

_MAX_CALLS_COMPARED: Final = 1_000

RuleReach: TypeAlias = Literal["session"]
"""Where a rule holds: in the one session whose call was decided. What works for that one asks for itself."""


class ApprovalRule(Value, frozen=True, kw_only=True):
    """What a person always allows.

    Attributes:
        rule_id: The argument of `revoke_rule`; the same for the same tool and words.
        session_id: The session that has it: the one that was asked, or one that works for it.
        tool: The tool.
        command_family: For commands their words; None: every call of the tool.
        exact: Whether it covers these very words and no others. False, only of rules made before this was kept: all simple commands that
            begin with them.
        reach: Where it holds.
        at_ms: When it was made, in milliseconds since 1970; None of one that was made before that was kept.
    """

    rule_id: str
    session_id: SessionId
    tool: str
    command_family: str | None
    exact: bool = False
    reach: RuleReach = "session"
    at_ms: int | None = None

    @property
    def words(self) -> str:
        """What it allows, for people."""
        return words_of_rule(self.tool, self.command_family, exact=self.exact)


class AllowedCall(Value, frozen=True, kw_only=True):
    """An earlier call that a rule would have allowed.

    Attributes:
        call_id: Which one.
        summary: Its command line, or its arguments; at most 200 characters.
    """

    call_id: CallId
    summary: str


class AlwaysOffer(Value, frozen=True, kw_only=True):
    """The rule that an approval with `always` would make.

    Attributes:
        tool: Of the call.
        command_family: As of `ApprovalRule`.
        exact: As of `ApprovalRule`.
        words: What it would allow.
        reach: Where it would hold.
        allowed: The last calls of this conversation that it would have allowed, the latest first; at most five.
    """

    tool: str
    command_family: str | None
    exact: bool
    words: str
    reach: RuleReach
    allowed: tuple[AllowedCall, ...]


class ApprovalForm(Value, frozen=True, kw_only=True):
    """All that is known of a call that waits for a person.

    Attributes:
        approval: What is to be decided.
        by: The plugin that wants a person to decide; None where that was not kept.
        effect: What the tool promises about being run twice; None of a tool that is not known.
        schema: Of its arguments; None of a tool that is not known.
        arguments_text: The arguments as JSON text, each number as it is hashed: what JavaScript reads of a long number is another one.
        always: The rule that *always* would make; None where that answer is not taken.
    """

    approval: Approval
    by: str | None
    effect: EffectClass | None
    schema: JsonObject | None
    arguments_text: str
    always: AlwaysOffer | None

    def __post_init__(self) -> None:
        """Freeze the schema."""
        force_setattr(self, "schema", frozen_or_none(self.schema))


def form_of_approval(data: Known, approval_id: str) -> ApprovalForm | None:
    """Tell all of a call that waits; None where none of this id does, or it is no approval."""
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
    """Write arguments as JSON, in their own order, each number and text as `hash_arguments` has it."""
    try:
        return msgspec.json.encode(arguments).decode()
    except UnicodeEncodeError:  # half of a character, which stands there as an escape
        return json.dumps(arguments, separators=(",", ":"))


def rules_of(data: Known) -> tuple[ApprovalRule, ...]:
    """Give the rules that people have made in a session, the oldest first."""
    session_id = data.config.session_id
    found = [
        ApprovalRule(
            rule_id=rule_id_of(rule),
            session_id=session_id,
            tool=rule.tool,
            command_family=rule.family,
            exact=_is_exact(rule),
            at_ms=rule.at_ms,
        )
        for rule in sorted_rules(data.rules)
    ]
    return tuple(sorted(found, key=lambda one: one.at_ms or 0))


def rule_of_id(data: Known, rule_id: str) -> Rule | None:
    """Find a rule by its id."""
    return next((one for one in sorted_rules(data.rules) if rule_id_of(one) == rule_id), None)


def rule_id_of(rule: Rule) -> str:
    """Name a rule by what it allows; words that are empty are not none."""
    what = [rule.tool, rule.family, *((True,) if rule.exact else ())]
    return f"rule_{hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]}"


def _is_exact(rule: Rule) -> bool:
    """Whether a rule covers one line only: a family of before is one line where the same words with more after them are another family."""
    family = rule.family
    return rule.exact or (family is not None and program_family_of({"command": f"{family} more"}) != family)


def words_of_rule(tool: str, family: str | None, *, exact: bool) -> str:
    """Return what a rule allows, in words."""
    if family is None:
        return f"{tool}: every call, whatever its arguments are"
    if exact:
        return f"{tool}: this very command and no other: {family}"
    return f"{tool}: every simple command that begins with: {family}"


def summary_of(arguments: JsonObject) -> str:
    """Say in few words what a call is about: its command line, else its arguments."""
    line = arguments.get("command")
    text = line if isinstance(line, str) else arguments_text(arguments)
    # No more of it is looked at than can be shown: it may be a megabyte.
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
    """Go back through the calls of the same tool that the model wanted, without the one that waits."""
    for message in reversed(data.history.messages):
        for call in reversed(message.calls) if isinstance(message, AssistantMessage) else ():
            if call.name == asked.tool and call.call_id != asked.call_id:
                yield call

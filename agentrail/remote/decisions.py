"""What users decide in a session on a server: approvals, answers to questions, results of the client's calls, and rules."""

from collections.abc import Mapping
from typing import Any, Protocol

from agentrail.abc import Error, Ok
from agentrail.core.session.asked_forms import ApprovalRule
from agentrail.core.session.client_calls import check_size
from agentrail.errors import AlreadyResolved, UnknownRule
from agentrail.messages import JsonObject, SessionId
from agentrail.remote.links import Links
from agentrail.remote.not_remote import refuse_arguments
from agentrail.remote.replies import read_reply
from agentrail.runtime.arguments import (
    fault_of_edit,
    fault_of_flag,
    fault_of_outcome,
    fault_of_reason,
    fault_of_response,
    fault_of_text,
    fault_of_user,
    refuse,
)
from agentrail.wire.forms import read_rules


class _OnLinks(Protocol):
    """What these calls are made of."""

    @property
    def _links(self) -> Links: ...

    @property
    def session_id(self) -> SessionId: ...


class RemoteDecisions:
    """The calls of a session on a server that decide something."""

    __slots__ = ()

    async def approve(
        self: _OnLinks,
        approval_id: str,
        *,
        kind: str = "once",
        arguments: JsonObject | None = None,
        auto_resume: bool = True,
        user: str | None = None,
    ) -> None:
        """Let the very call run that `ApprovalRequired` showed; as `Session.approve`. The token names the `user`."""
        refuse(
            fault_of_text("approval_id", approval_id),
            None if kind in ("once", "always") else f"kind is {kind!r}: expected 'once' or 'always'",
            fault_of_edit(arguments),
            fault_of_flag("auto_resume", auto_resume),
            fault_of_user(user),
        )
        refuse_arguments("approve", user=user)
        told = {"approval_id": approval_id, "kind": kind, "arguments": arguments, "auto_resume": auto_resume}
        await _decide(self._links, self.session_id, "approve", told, "approved")

    async def reject(
        self: _OnLinks,
        approval_id: str,
        reason: str | None = None,
        *,
        auto_resume: bool = False,
        user: str | None = None,
    ) -> None:
        """Refuse a call; as `Session.reject`. The token names the `user`."""
        refuse(
            fault_of_text("approval_id", approval_id),
            fault_of_reason(reason),
            fault_of_flag("auto_resume", auto_resume),
            fault_of_user(user),
        )
        refuse_arguments("reject", user=user)
        told = {"approval_id": approval_id, "reason": reason, "auto_resume": auto_resume}
        await _decide(self._links, self.session_id, "reject", told, "rejected")

    async def respond(
        self: _OnLinks, ref: str, response: str | int | JsonObject, *, user: str | None = None
    ) -> None:
        """Answer a question of the model or of a tool, or a call that waits for an approval; as `Session.respond`."""
        refuse(fault_of_text("ref", ref), fault_of_response(response), fault_of_user(user))
        refuse_arguments("respond", user=user)
        await _decide(self._links, self.session_id, "respond", {"ref": ref, "response": response}, "approved")

    async def decline(
        self: _OnLinks, ref: str, reason: str | None = None, *, user: str | None = None
    ) -> None:
        """Say that a question gets no answer; as `Session.decline`. The token names the `user`."""
        refuse(fault_of_text("ref", ref), fault_of_reason(reason), fault_of_user(user))
        refuse_arguments("decline", user=user)
        await _decide(self._links, self.session_id, "decline", {"ref": ref, "reason": reason}, "rejected")

    async def answer(self: _OnLinks, ref: str, outcome: Ok | Error) -> None:
        """Give the result of a call that this client ran; as `Session.answer`."""
        refuse(fault_of_text("ref", ref), fault_of_outcome(outcome))
        check_size(ref, outcome.text)
        told = {
            "ref": ref,
            "text": outcome.text,
            "is_error": isinstance(outcome, Error),
            "details": outcome.details,
            "images": outcome.images if isinstance(outcome, Ok) and outcome.images else None,
        }
        await _decide(self._links, self.session_id, "answer", told, "approved")

    async def rules(self: _OnLinks) -> tuple[ApprovalRule, ...]:
        """Give the rules that people made, here and in the sessions below; as `Session.rules`."""
        return read_reply(read_rules, await self._links.first.call("rules", self.session_id, {}))

    async def revoke_rule(self: _OnLinks, rule_id: str) -> None:
        """Take a rule back; as `Session.revoke_rule`."""
        refuse(fault_of_text("rule_id", rule_id))
        answered = await self._links.first.ask("revoke_rule", self.session_id, {"rule_id": rule_id})
        # Sent twice, because a connection was lost between, it is our own doing that the rule is gone.
        if answered.error is not None and not (
            isinstance(answered.error, UnknownRule) and answered.was_repeated
        ):
            raise answered.error


async def _decide(
    links: Links, session_id: SessionId, name: str, told: Mapping[str, Any], decided: str
) -> None:
    answered = await links.first.ask(name, session_id, told)
    match answered.error:
        case None:
            return
        case AlreadyResolved(status=status, by="user") if answered.was_repeated and status == decided:
            return  # sent twice, because a connection was lost between: it was our own doing
        case error:
            raise error

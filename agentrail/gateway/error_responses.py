"""Error responses: one pure table from codes to statuses. Internal details of an exception are never sent."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeAlias

from attrs import evolve, field, frozen

from agentrail.core.wire.normalize import mended_text
from agentrail.errors import (
    AgentrailError,
    AlreadyResolved,
    ApprovalExpired,
    AttachmentInvalid,
    CursorAhead,
    CycleFailed,
    DayBudgetSpent,
    Erased,
    ErrorInfo,
    HeldBy,
    JournalDrifted,
    ProfileMismatch,
    ProviderError,
    RequestRefused,
    SessionIsChild,
    SessionUnknown,
    SubscriberTooSlow,
    Trimmed,
    UnknownCommand,
    UnknownTool,
)
from agentrail.frozen import EMPTY, frozen_json
from agentrail.messages import JsonObject, JsonValue
from agentrail.protocols.decisions import WireRefused
from agentrail.wire.plain import encode_plain

MAX_MESSAGE_CHARACTERS: Final = 2_000
"""Limit on an error message, which may come from a remote system."""

_AGAIN: Final = "try again in a few seconds"
_UNREADABLE: Final = "session_unreadable"


@frozen(kw_only=True)
class AnswerRow:
    """Response of one error code.

    Attributes:
        code: Code to send instead, or None.
        says: Text to send instead of the exception's own, or None.
        hint: Remedy, or None if the message has it.
        retry_after_seconds: Time until a retry, if known in advance.
    """

    status: int
    code: str | None = None
    says: str | None = None
    hint: str | None = None
    retry_after_seconds: int | None = None


def _rows(status: int, codes: str, **told: Any) -> dict[str, AnswerRow]:
    return dict.fromkeys(codes.split(), AnswerRow(status=status, **told))


def _ours(codes: str) -> dict[str, AnswerRow]:
    return _rows(
        500,
        codes,
        code="internal",
        says="an internal error occurred",
        hint="send it again; if it fails again, tell the operator the request_id",
    )


ERROR_ANSWERS: Final[Mapping[str, AnswerRow]] = MappingProxyType(
    {
        # --- the call itself: its bytes, its path, its caller
        **_rows(400, "bad_json", hint="send one JSON object, as application/json in UTF-8"),
        **_rows(400, "cursor_invalid", hint="give the number of the last event you received, or omit it"),
        **_rows(
            400,
            "token_in_url",
            hint="send it as `Authorization: Bearer …`, and create a new one: this one may be in logs",
        ),
        **_rows(
            400,
            "unsupported_parameter unsupported_tool images_unsupported messages_missing model_missing result_missing"
            " push_unsupported operation_unsupported part_unsupported version_unsupported",
        ),
        **_rows(400, "login_refused", hint="open the link of the question again"),
        **_rows(401, "unauthorized", hint="send a token that is valid, as `Authorization: Bearer …`"),
        **_rows(403, "forbidden host_refused origin_refused principal_mismatch"),
        **_rows(404, "route_unknown", hint="GET /openapi.json lists all paths"),
        **_rows(405, "method_not_allowed", hint="the Allow header lists the allowed methods"),
        **_rows(408, "too_slow", hint="send it again, over a faster connection or in smaller parts"),
        **_rows(413, "too_large"),
        **_rows(431, "headers_too_large"),
        **_rows(415, "content_type", hint="send application/json"),
        **_rows(
            422,
            "field_invalid field_unknown id_invalid attachment_invalid attachments_unsupported files_unsupported"
            " webhook_invalid webhooks_off",
        ),
        **_rows(
            429, "too_many_requests too_many_streams quota budget", hint="wait for the time in Retry-After"
        ),
        **_rows(503, "not_started draining server_full", hint=_AGAIN, retry_after_seconds=5),
        **_rows(500, "internal", hint="send it again; if it fails again, tell the operator the request_id"),
        # --- decisions of the host
        **_rows(404, "session_unknown profile_unknown request_unknown file_unknown"),
        **_rows(404, "command_unknown", hint="GET /commands lists all commands"),
        **_rows(422, "command_error plan_error"),
        **_rows(
            409,
            "request_not_alone profile_mismatch session_is_child session_busy request_over approval_mismatch",
        ),
        **_rows(421, "not_owner", hint="send it to the given address"),
        **_rows(422, "prompt_rejected"),
        **_rows(502, "provider_failed"),
        **_rows(503, "plugin_failed", hint=_AGAIN),
        # --- public exceptions that a caller can fix
        **_rows(
            422, "your_move option_error prompt_error invalid_arguments answer_not_offered invalid_response"
        ),
        **_rows(
            409,
            "cursor_ahead",
            hint="a cursor beyond the last event belongs to another session: omit it, and start with the snapshot",
        ),
        **_rows(409, "client_id_reused cannot_go_on interaction_error already_resolved"),
        **_rows(
            409,
            "already_started already_exists",
            says="a session with this id already exists",
            hint="give a different id",
        ),
        **_rows(409, "still_needed", says="the session is needed: it has forks, or another node owns it"),
        **_rows(404, "unknown_call unknown_tool approval_unknown rule_unknown"),
        **_rows(410, "approval_expired erased trimmed"),
        **_rows(
            429,
            "queue_full steering_queue_full mailbox_full",
            hint="try again when the running cycle has ended",
        ),
        **_rows(404, "session_not_found", code="session_unknown", says="there is no session with this id"),
        **_rows(409, "subscriber_too_slow", hint="read faster, and continue after resume_after"),
        # --- ends of cycles and sessions
        **_rows(409, "aborted cycle_ended cycle_waiting event_missed question_declined"),
        **_rows(500, "cycle_failed"),
        **_rows(504, "reply_timeout call_timeout", hint="the request continues"),
        **_rows(409, "session_ended", hint="start another session"),
        # Fixed: the reason of the error may name another node and its address.
        **_rows(503, "session_rested", says="the session is inactive", hint=_AGAIN, retry_after_seconds=1),
        **_rows(
            503,
            "supervisor_closed",
            code="draining",
            says="the server is shutting down",
            hint=_AGAIN,
            retry_after_seconds=5,
        ),
        **_rows(422, "session_refused"),
        # --- models, if the call itself requested one; `answer_to_failure` covers failed cycles
        **_rows(422, "model_not_found"),
        **_rows(
            502,
            "provider_error rate_limited overloaded transport protocol_error authentication context_overflow "
            "content_refused bad_request",
            code="provider_failed",
        ),
        **_rows(504, "timeout stream_stalled", code="provider_failed"),
        # --- stores
        **_rows(
            503,
            "store_unavailable store_in_use",
            code="store_unavailable",
            says="the store is unavailable; stored records are not lost",
            hint=_AGAIN,
            retry_after_seconds=5,
        ),
        **_rows(
            503,
            "stop_not_written",
            says="the work was stopped, but the store cannot record that now",
            hint="do not retry: it will be recorded when the store is back",
        ),
        **_rows(
            421,
            "held_by",
            code="not_owner",
            says="another node has this session",
            hint="send it to the given address",
        ),
        **_rows(
            503,
            "owner_silent",
            code="held_by",
            hint="try again: with its client_id, a message is accepted once",
            retry_after_seconds=1,
        ),
        **_rows(
            503, "fenced", says="another node has taken over this session", hint=_AGAIN, retry_after_seconds=1
        ),
        **_rows(
            503,
            "unrevivable",
            says="the running code cannot continue this session",
            hint="tell the operator: the log names the missing part",
        ),
        **_rows(
            503,
            f"codec_error journal_corrupt {_UNREADABLE}",
            code=_UNREADABLE,
            says="this session cannot be read: its stored records are damaged, or a newer version of the server wrote them",
            hint="tell the operator the request_id: the log names the record. DELETE with purge=true removes the session",
        ),
        **_rows(
            503,
            "journal_drifted",
            says="this session is parked: the code has changed since it last ran",
            hint="continue it with POST /sessions/{session_id}/resume and on_drift=go_on, or tell the operator: the log names the difference",
        ),
        **_rows(
            503,
            "journal_behind",
            says="this session is parked: the database lost records that it had acknowledged, or was restored from a backup",
            hint="continue it without them with POST /sessions/{session_id}/resume and on_drift=go_on, or tell the operator: the log has the numbers",
        ),
        **_rows(
            503,
            "store_too_new",
            says="this session has records of a newer version of the server",
            hint="try again: it continues on a server of that version",
            retry_after_seconds=5,
        ),
        # --- host plugins
        **_rows(403, "request_refused"),
        **_rows(
            503, "hook_timeout", code="plugin_failed", says="a plugin of the host took too long", hint=_AGAIN
        ),
        # --- errors that callers cannot fix
        **_ours(
            "not_remote remote_refused unreachable"  # of a client, for example in a plugin that calls another server
            " agentrail_error internal_error history_error store_error not_a_store sandbox_error"
            " process_refused child_refused plugin_error profile_failed upload_failed tool_definition_error"
            " tool_contract_error no_schema calling_self no_trio_run holds_loop actor_error no_mailbox not_suspended"
            " already_registered not_key_owner registry_closed no_partitions pool_full job_withdrawn watcher_too_slow"
            " actor_down job_given_up pool_stopped supervisor_error invalid_spec already_present child_not_found"
            " child_running child_restarting child_stuck child_start_failed wrong_child_key too_many_children"
            " supervisor_stopping would_deadlock supervisor_start_failed supervisor_gave_up"
        ),
    }
)
"""Response by error code. New public exceptions and new codes of routes get their row here."""

_OF_PROVIDERS: Final = (
    frozenset({"provider_crashed", "process_stopped"})
    | {code for code, row in ERROR_ANSWERS.items() if row.code == "provider_failed"}
    | {"model_not_found"}
)
"""Codes of failed cycles that are the model provider's fault."""

_STALLED: Final = frozenset({"timeout", "stream_stalled"})


def plain_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(headers))


@frozen(kw_only=True)
class ErrorAnswer:
    """Response to a failed call.

    Attributes:
        hint: Remedy, or None if the message has it.
    """

    status: int
    code: str
    message: str
    hint: str | None = None
    headers: Mapping[str, str] = field(default=MappingProxyType({}), converter=plain_headers)
    more: JsonObject = field(default=EMPTY, converter=frozen_json)

    @property
    def is_ours(self) -> bool:
        """Whether the log has its cause, under its request id."""
        return self.code in ("internal", _UNREADABLE)

    def encode(self) -> bytes:
        told: Mapping[str, object] = {
            "code": self.code,
            "message": mended_text(self.message[:MAX_MESSAGE_CHARACTERS]),
            "hint": self.hint,
        }
        return encode_plain({"error": {**self.more, **told}})


EncodeError: TypeAlias = Callable[[ErrorAnswer], bytes]
"""Returns the body of an error response."""


class CallRefused(Exception):
    """Raised by a route to send an error response. Caught at the gateway's edge."""

    def __init__(self, answer: ErrorAnswer) -> None:
        super().__init__(f"{answer.status} {answer.code}: {answer.message}")
        self.answer = answer


_Words: TypeAlias = str | None


def error_answer(
    code: str,
    message: str,
    *,
    hint: _Words = None,
    headers: Mapping[str, str] = MappingProxyType({}),
    more: JsonObject = EMPTY,
) -> ErrorAnswer:
    row = ERROR_ANSWERS[code]
    wait = {} if row.retry_after_seconds is None else {"retry-after": f"{row.retry_after_seconds}"}
    return ErrorAnswer(
        status=row.status,
        code=row.code or code,
        message=row.says or message,
        hint=hint or row.hint,
        headers={**wait, **headers},
        more=more,
    )


def refuse_call(
    code: str,
    message: str,
    *,
    hint: _Words = None,
    headers: Mapping[str, str] = MappingProxyType({}),
    more: JsonObject = EMPTY,
) -> NoReturn:
    raise CallRefused(error_answer(code, message, hint=hint, headers=headers, more=more))


def answer_to(error: BaseException, *, request_id: _Words = None) -> ErrorAnswer:
    match error:
        case CallRefused(answer=answer):
            made = answer
        case RequestRefused():
            made = ErrorAnswer(
                status=error.status, code=error.code, message=str(error), headers=error.headers
            )
        case WireRefused():
            made = error_answer(error.code, f"{error}"[:300], hint=error.hint, more={"field": error.place})
        case CycleFailed():
            made = answer_to_failure(error.error, error.text)
        case AgentrailError():
            made = error_answer(
                _known_code(type(error)),
                str(error),
                hint=error.hint if isinstance(error, SessionUnknown) else None,
                more=_more_of(error),
                headers=_wait_of(error),
            )
        case _:
            made = error_answer("internal", "an internal error occurred")
    if made.is_ours and request_id is not None:
        return evolve(made, more={**made.more, "request_id": request_id})
    return made


def _known_code(kind: type[AgentrailError]) -> str:
    # The code of the class, because an object may have a more specific one. For a class derived by an
    # application, whose code has no row, the code of its base class.
    return next(
        one.code for one in kind.__mro__ if issubclass(one, AgentrailError) and one.code in ERROR_ANSWERS
    )


_SENT: Final[Mapping[type[AgentrailError], tuple[str, ...]]] = MappingProxyType(
    {
        AttachmentInvalid: ("index",),
        Erased: ("seq",),
        HeldBy: ("node", "address"),
        JournalDrifted: ("seq", "operation", "plugin"),
        ProfileMismatch: ("agent_id",),
        SessionIsChild: ("root_id",),
        SubscriberTooSlow: ("resume_after",),
        Trimmed: ("first",),
        UnknownCommand: ("name", "near"),
        UnknownTool: ("names",),
    }
)
"""Attributes that are sent under their own names. A client fills the parameters of the class with them."""


def _more_of(error: AgentrailError) -> JsonObject:
    match error:
        case AlreadyResolved(status=status, by=by, at_ms=at_ms, user=user):
            decided: dict[str, JsonValue] = {"how": status, "by": by, "at_ms": at_ms, "user": user}
            return {"status": status, "by": by, "decided": decided}
        case ApprovalExpired(at_ms=at_ms):
            return {"decided": {"how": "timeout", "by": "timeout", "at_ms": at_ms, "user": None}}
        case CursorAhead(positions=positions):
            return {"last_seq": max(positions.values(), default=0)}
        case ProviderError(code=code):
            return {"cause": code}
        case _:
            sent = next((names for kind, names in _SENT.items() if isinstance(error, kind)), ())
            bound = MAX_MESSAGE_CHARACTERS
            return {
                name: told[:bound] if isinstance(told := getattr(error, name), str) else told for name in sent
            }


def _wait_of(error: AgentrailError) -> dict[str, str]:
    if isinstance(error, ProviderError | DayBudgetSpent) and error.retry_after_seconds is not None:
        return _retry_after(error.retry_after_seconds)
    return {}


def _retry_after(seconds: float) -> dict[str, str]:
    # Whole seconds, rounded up and bounded, because the value may come from a remote server.
    return {"retry-after": f"{int(min(max(seconds, 0.0), 86_400.0) + 0.999)}"} if seconds == seconds else {}  # noqa: PLR0124 - NaN


def answer_to_failure(error: ErrorInfo, text: str = "") -> ErrorAnswer:
    more: JsonObject = {"cause": error.code, "text": text}
    wait = {} if error.retry_after_seconds is None else _retry_after(error.retry_after_seconds)
    if error.code in _OF_PROVIDERS:
        made = error_answer("provider_failed", error.message, more=more, headers=wait)
        return evolve(made, status=504) if error.code in _STALLED else made
    made = error_answer("cycle_failed", error.message, more=more, headers=wait)
    return evolve(made, status=409) if error.code == "budget_exceeded" else made


def answer_to_abort(reason: _Words, text: str = "") -> ErrorAnswer:
    told = "the cycle was aborted" + (f": {reason}" if reason else "")
    return error_answer("aborted", told, more={"reason": reason, "text": text})

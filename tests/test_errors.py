"""Each public exception has a code of its own, and it stays: programs far away branch on it."""

import re
from collections.abc import Iterator

import agentrail
from agentrail import errors
from agentrail.core.wire.codec import decode_event, encode_event
from agentrail.errors import AgentrailError, ErrorInfo
from agentrail.events import AgentError, Envelope
from agentrail.messages import SessionId
from tests.thinned import each

CODES = {
    "aborted": errors.CycleAborted,
    "actor_down": errors.ActorDown,
    "actor_error": errors.ActorError,
    "agentrail_error": errors.AgentrailError,
    "already_exists": errors.AlreadyExists,
    "already_present": errors.AlreadyPresent,
    "already_registered": errors.AlreadyRegistered,
    "already_resolved": errors.AlreadyResolved,
    "rule_unknown": errors.UnknownRule,
    "already_started": errors.AlreadyStarted,
    "answer_not_offered": errors.AnswerNotOffered,
    "approval_expired": errors.ApprovalExpired,
    "approval_unknown": errors.UnknownApproval,
    "attachment_invalid": errors.AttachmentInvalid,
    "attachments_unsupported": errors.AttachmentsUnsupported,
    "authentication": errors.Authentication,
    "bad_request": errors.BadRequest,
    "budget": errors.DayBudgetSpent,
    "call_timeout": errors.CallTimeout,
    "calling_self": errors.CallingSelf,
    "cannot_go_on": errors.CannotGoOn,
    "child_not_found": errors.ChildNotFound,
    "child_refused": errors.ChildRefused,
    "child_restarting": errors.ChildRestarting,
    "child_running": errors.ChildRunning,
    "child_start_failed": errors.ChildStartFailed,
    "child_stuck": errors.ChildStuck,
    "client_id_reused": errors.ClientIdReused,
    "codec_error": errors.CodecError,
    "command_error": errors.CommandError,
    "command_unknown": errors.UnknownCommand,
    "content_refused": errors.ContentRefused,
    "context_overflow": errors.ContextWindowExceeded,
    "cursor_ahead": errors.CursorAhead,
    "cycle_ended": errors.CycleEnded,
    "cycle_waiting": errors.CycleWaiting,
    "cycle_failed": errors.CycleFailed,
    "draining": errors.HostDraining,
    "erased": errors.Erased,
    "event_missed": errors.EventMissed,
    "fenced": errors.Fenced,
    "file_unknown": errors.FileUnknown,
    "files_unsupported": errors.FilesUnsupported,
    "held_by": errors.HeldBy,
    "history_error": errors.HistoryError,
    "holds_loop": errors.HoldsLoop,
    "hook_timeout": errors.HookTimeout,
    "id_invalid": errors.IdInvalid,
    "interaction_error": errors.InteractionError,
    "internal_error": errors.InternalError,
    "invalid_arguments": errors.InvalidArguments,
    "invalid_response": errors.InvalidResponse,
    "invalid_spec": errors.InvalidSpec,
    "job_given_up": errors.JobGivenUp,
    "job_withdrawn": errors.JobWithdrawn,
    "journal_behind": errors.JournalBehind,
    "journal_corrupt": errors.JournalCorrupt,
    "journal_drifted": errors.JournalDrifted,
    "mailbox_full": errors.MailboxFull,
    "model_not_found": errors.ModelNotFound,
    "no_mailbox": errors.NoMailbox,
    "no_partitions": errors.NoPartitions,
    "no_schema": errors.TypeFault,
    "no_trio_run": errors.NoTrioRun,
    "not_a_store": errors.NotAStore,
    "not_key_owner": errors.NotOwner,
    "not_remote": errors.NotRemote,
    "not_suspended": errors.NotSuspended,
    "option_error": errors.OptionError,
    "overloaded": errors.Overloaded,
    "plugin_error": errors.PluginError,
    "pool_full": errors.PoolFull,
    "pool_stopped": errors.PoolStopped,
    "principal_mismatch": errors.PrincipalMismatch,
    "process_refused": errors.ProcessRefused,
    "profile_failed": errors.ProfileFailed,
    "profile_mismatch": errors.ProfileMismatch,
    "profile_unknown": errors.ProfileUnknown,
    "plan_error": errors.PlanError,
    "prompt_error": errors.PromptError,
    "prompt_rejected": errors.PromptRefused,
    "protocol_error": errors.ProtocolError,
    "provider_error": errors.ProviderError,
    "question_declined": errors.QuestionDeclined,
    "queue_full": errors.PromptQueueFull,
    "quota": errors.QuotaReached,
    "rate_limited": errors.RateLimited,
    "registry_closed": errors.RegistryClosed,
    "remote_refused": errors.RemoteRefused,
    "reply_timeout": errors.ReplyTimeout,
    "request_over": errors.RequestOver,
    "request_refused": errors.RequestRefused,
    "request_unknown": errors.RequestUnknown,
    "sandbox_error": errors.SandboxError,
    "session_busy": errors.SessionBusy,
    "session_ended": errors.SessionDown,
    "session_is_child": errors.SessionIsChild,
    "session_not_found": errors.SessionNotFound,
    "session_refused": errors.SessionRefused,
    "session_rested": errors.SessionRested,
    "session_unknown": errors.SessionUnknown,
    "steering_queue_full": errors.SteeringQueueFull,
    "still_needed": errors.StillNeeded,
    "store_error": errors.StoreError,
    "store_in_use": errors.StoreInUse,
    "store_too_new": errors.StoreTooNew,
    "stop_not_written": errors.StopNotWritten,
    "store_unavailable": errors.StoreUnavailable,
    "stream_stalled": errors.StreamTimeout,
    "subscriber_too_slow": errors.SubscriberTooSlow,
    "supervisor_closed": errors.SupervisorClosed,
    "supervisor_error": errors.SupervisorError,
    "supervisor_gave_up": errors.SupervisorGaveUp,
    "supervisor_start_failed": errors.SupervisorStartFailed,
    "supervisor_stopping": errors.SupervisorStopping,
    "timeout": errors.Timeout,
    "too_large": errors.TooLarge,
    "too_many_children": errors.TooManyChildren,
    "tool_contract_error": errors.ToolContractError,
    "tool_definition_error": errors.ToolDefinitionError,
    "transport": errors.Transport,
    "trimmed": errors.Trimmed,
    "unauthorized": errors.Unauthorized,
    "unknown_call": errors.UnknownCall,
    "unknown_tool": errors.UnknownTool,
    "unreachable": errors.Unreachable,
    "unrevivable": errors.Unrevivable,
    "upload_failed": errors.UploadFailed,
    "watcher_too_slow": errors.WatcherTooSlow,
    "webhook_invalid": errors.WebhookInvalid,
    "webhooks_off": errors.WebhooksOff,
    "would_deadlock": errors.WouldDeadlock,
    "wrong_child_key": errors.WrongChildKey,
    "your_move": errors.YourMove,
}
"""Released codes: a line is added with its class, and none is ever changed."""


def all_below(root: type[AgentrailError]) -> Iterator[type[AgentrailError]]:
    """An error and everything below it in the tree, as far as it is the library's."""
    if root.__module__.startswith("agentrail."):
        yield root
    for below in root.__subclasses__():
        yield from all_below(below)


def test_each_exception_has_its_code_and_keeps_it():
    """The table above is all there is, and every class is at the door; none inherits the code of the class above."""
    known = list(all_below(AgentrailError))
    assert {error.code: error for error in known} == CODES
    assert len(CODES) == len(known)
    assert [error for error in known if "code" not in vars(error)] == []
    assert {vars(errors).get(error.__name__) for error in known} == {*known}
    for code in CODES:  # a plain word, short enough for a header
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", code)
        assert len(code) <= 40, code


@each("kind", CODES.values())
def test_an_error_keeps_its_code_as_data_and_over_the_wire(kind):
    """`ErrorInfo.of` takes any of them, and what a subscriber far away reads has the same code."""
    is_plain = kind.__init__ in {errors.ProviderError.__init__, Exception.__init__}
    # The others want more than a message; what they are as data comes from `args` all the same.
    error = kind("what went wrong") if is_plain else kind.__new__(kind, "what went wrong")
    info = ErrorInfo.of(error)
    assert (info.code, info.message) == (kind.code, "what went wrong")
    told = AgentError(error=info, meta=Envelope(SessionId("s"), 1, 5, (SessionId("s"),)))
    heard = decode_event(encode_event(told))
    assert isinstance(heard, AgentError)
    assert heard.error == info


def test_what_a_vendor_said_of_trying_again_is_kept_as_data():
    """Only errors of providers may pass; the others would fail in the same way."""
    info = ErrorInfo.of(errors.RateLimited("slow down", retry_after_seconds=2.5))
    assert (info.retryable, info.retry_after_seconds) == (True, 2.5)
    assert ErrorInfo.of(errors.PromptError("empty")).retryable is False


def test_an_error_may_say_more_than_its_class():
    """Where one class stands for many faults, the object says which; the class, also that of the façade, keeps the common word."""
    assert errors.InvalidSpec("no id", code="missing_id", field="id").code == "missing_id"
    assert errors.ProcessRefused("no", code="unsupported").code == "unsupported"
    assert agentrail.OptionError.code == "option_error"

"""What to do about each code of an error, for the page of errors. The causes are the docstrings; these are the cures.

A test holds that each code which the package can say stands here, and nothing else.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from attrs import frozen


@frozen
class CodeEntry:
    """A code that has no class of its own.

    Attributes:
        cause: What happened.
        cure: What to do.
    """

    cause: str
    cure: str


_WAIT_FOR_OWNER: Final = "Use the process that owns the session, or wait until it releases it."
_ASK_AGAIN_LATER: Final = "Try again later. Accepted messages are not lost."

CURES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "aborted": "Read `reason`, the argument of `abort`, and prompt again if needed.",
        "actor_down": "Read `reason`. A supervisor restarts the actor, so address the child by its id, not by an old handle.",
        "actor_error": "Read the message: it names the kind of actor that accepts this call.",
        "agentrail_error": "Catch one of the classes below.",
        "already_exists": "Resume that session with `resume_session`, or choose another id.",
        "already_present": "Call `restart_child`, or `delete_child` first.",
        "already_registered": "Use `handle`, the owner of the key, or choose another key.",
        "already_resolved": "No action: the error names the decider and the decision.",
        "already_started": "Continue with `handle`, or choose another id.",
        "answer_not_offered": "Choose one of the `permission_options` in `ApprovalRequired`.",
        "approval_expired": "Prompt again, and raise `approval_timeout_seconds` if users need longer.",
        "approval_unknown": "Use the id from `ApprovalRequired` or `AskUser`, on the session that published it.",
        "attachment_invalid": "Correct the named file: its name, type, or Base64.",
        "attachments_unsupported": "Give the profile a workspace per user, or send the text without files.",
        "authentication": "Set or correct the vendor's key. `agentrail doctor` names the variable.",
        "bad_request": "Change the request according to the vendor's message. A retry does not help.",
        "budget": "Wait until the next day, or ask the operator to raise the daily budget.",
        "call_timeout": "Raise `timeout_seconds`, or ask later. The work continues and may have finished.",
        "calling_self": "Answer from your own state, or call from another task. An actor cannot wait for itself.",
        "cannot_go_on": "Wait until the session is idle, or send a prompt with words.",
        "child_not_found": "Use an id or a handle from `which_children`.",
        "child_refused": "Raise `max_agents`, `max_agent_depth` or the budget, or do the work in the session itself.",
        "child_restarting": "Wait for the restart with `watch`, or call `terminate_child`.",
        "child_running": "Call `terminate_child` first.",
        "child_start_failed": "Fix the cause in `reason`, then call `restart_child`.",
        "child_stuck": "Find the code that ignores cancellation, usually a thread. The id is free once it ends.",
        "client_id_reused": "Use a new `client_id` per message. Reuse one only to repeat the same message.",
        "codec_error": "Read with the same version or a newer one. Do not edit stored data.",
        "command_error": "Type the command as the message shows it.",
        "command_unknown": "Type the name that the message suggests, or `/help` for all of them.",
        "content_refused": "Rephrase the request, or use another model.",
        "context_overflow": "Compact the session (`compact_at_tokens`, `session.compact()`), or choose a model with a larger window.",
        "cursor_ahead": "Start with `snapshot()`. The number belongs to another session.",
        "cycle_waiting": "Decide what `pending` lists, then call `collect_reply()`. Or subscribe, pass `wait_for_people=True`, or set a deadline.",
        "cycle_ended": "Catch `CycleFailed` and `CycleAborted`.",
        "cycle_failed": "Read the code in `error`, then prompt again.",
        "draining": "Retry later, or use another server.",
        "erased": "No action: the content was removed on purpose. Later records are readable.",
        "event_missed": "Wait before you prompt (`stream`), or wait for another event.",
        "fenced": _WAIT_FOR_OWNER,
        "file_unknown": "Use a path from the session's list of files.",
        "files_unsupported": "Give the profile a workspace per user.",
        "held_by": _WAIT_FOR_OWNER,
        "history_error": "Give each call exactly one result before the next message.",
        "holds_loop": "Use the awaited call, or run the blocking one in a worker thread.",
        "hook_timeout": "Make the hook faster, or raise its `timeout`.",
        "id_invalid": "Use 1 to 128 letters, digits and `. _ : -`.",
        "interaction_error": "Read the status for pending decisions.",
        "internal_error": "Report it with the traceback in the log. The session continues.",
        "invalid_arguments": "Correct the arguments as the message says, and approve again.",
        "invalid_response": "Choose an option, or match the form.",
        "invalid_spec": "Correct the named field. `error.code` is the violated rule (`duplicate_id`, `invalid_period`, …).",
        "job_given_up": "Run the job alone and fix it: it crashes every worker.",
        "job_withdrawn": "No action: the caller cancelled it.",
        "journal_behind": "The database was restored, or failed over to a standby that lacked records. Fork the session at `have`, or resume it to continue without the lost records.",
        "journal_corrupt": "Stop writing, copy the file, and run `agentrail sessions check`. Restore a backup if necessary.",
        "journal_drifted": 'Resume with the versions that wrote it, or with `on_drift="go_on"`.',
        "mailbox_full": "Send fewer messages at once and wait for replies. `Limits` sets the size.",
        "model_not_found": "Correct the model string. `agentrail doctor` lists the configuration.",
        "no_mailbox": "Start it as a `machine`. Workers and supervisors have no mailbox.",
        "no_partitions": "Resize the partitions to 1 or more.",
        "no_schema": "Use a [supported type](../how-to/structured-answers.md), or return a value of the declared type.",
        "no_trio_run": "Call it under `trio.run`. From asyncio and threads, use `agentrail.blocking`.",
        "not_a_store": "Name a file written by agentrail, or a new path.",
        "not_key_owner": "Send a message to the owner, and let it change the value.",
        "not_remote": "Make this call in the server's process. Code cannot travel over the network.",
        "not_suspended": "Call `suspend` first, and `resume` afterwards.",
        "option_error": "Correct the listed options. Each has its given and accepted values.",
        "overloaded": "Wait. Retries and fallback models are automatic (`max_retries`, `fallback_models`).",
        "plan_error": "Use only the moves in the message.",
        "plugin_error": "Correct the stack. The message lists all faults.",
        "pool_full": 'Wait and try again, or open the pool with `when_full="wait"`.',
        "pool_stopped": "Keep the pool open until its jobs are done.",
        "principal_mismatch": "Omit tenant and user from the message. The token determines them.",
        "process_refused": "Read `code`: the sandbox has no processes, or the program did not start.",
        "profile_failed": "Fix the profile's function. `__cause__` is its exception.",
        "profile_mismatch": "Omit the profile, or start another session.",
        "profile_unknown": "Choose one of the listed profiles.",
        "prompt_error": "Send text of 1 byte to 1 MB, or content blocks of known types.",
        "prompt_rejected": "Read the plugin's reason, and change the prompt.",
        "protocol_error": "Check `base_url` and any proxy. A server with another format needs another provider.",
        "provider_error": "Catch a subclass. `retryable` says whether waiting helps.",
        "question_declined": "Continue without the answer, or let it propagate to the model.",
        "queue_full": "Wait for the end of a cycle, or raise `max_prompt_queue`.",
        "quota": "Close an open stream or request. The operator sets the limits.",
        "rate_limited": "Wait for `retry_after_seconds`. Retries are automatic.",
        "registry_closed": "Call it inside the registry's block.",
        "remote_refused": "Look up its `code` in the [routes](routes.md#errors).",
        "reply_timeout": "Call `collect_reply` again, or abort. The cycle continues.",
        "request_over": "Read its record: it has already ended.",
        "request_refused": "Read the reason of the host plugin.",
        "request_unknown": "Use the id from the response. The last 1,000 requests are kept.",
        "rule_unknown": "Call `rules()`: this rule was revoked.",
        "sandbox_error": "Name an existing directory that you own.",
        "session_busy": "Wait for the end of the cycle, or queue the message.",
        "session_ended": "Start another session, or with a store call `resume_session`.",
        "session_is_child": "Call its root session, `root_id`.",
        "session_not_found": "Correct the id as the message suggests; `agentrail sessions list` shows all.",
        "session_refused": "Read the reason of the plugin.",
        "session_rested": "Ask again: the next call wakes it.",
        "session_unknown": "Correct the id, or use the owner's token.",
        "steering_queue_full": "Wait for `SteeringApplied`, or raise `max_steering_queue`.",
        "still_needed": "Delete the dependent sessions first. The error names them.",
        "store_error": "Catch a subclass.",
        "store_in_use": "Stop the named process, or use another store. Reading commands still work.",
        "store_too_new": "Install that version of agentrail, or a newer one.",
        "stop_not_written": "No action: the work has stopped, and the record follows when the store recovers.",
        "store_unavailable": "Free disk space, or restore the connection. Sessions then continue.",
        "stream_stalled": "Raise `stall_seconds`, set `stall_policy` to `retry`, or add a fallback model.",
        "subscriber_too_slow": "Subscribe again after your last number, and read faster or limit `kinds=`.",
        "supervisor_closed": "Open another supervisor. The cause shows whether this one crashed.",
        "supervisor_error": "Read the message for the calls that are accepted now.",
        "supervisor_gave_up": "Read the crash reports. Fix the failing child, or permit more restarts.",
        "supervisor_start_failed": "Fix the child `child_id`. `reason` is the result of its start.",
        "supervisor_stopping": "No action: it is stopping. Call it before its block ends.",
        "timeout": "Raise `timeout`, check the network and proxy, or add a fallback model.",
        "too_large": "Send less at once. The message has the limit.",
        "too_many_children": "End some, or raise `max_children`.",
        "tool_contract_error": "Let the tool return text, JSON, `Ok` or `Error`.",
        "tool_definition_error": "Correct the function according to the message: annotations, docstring, name.",
        "transport": "Check the address and the network. Retries are automatic.",
        "trimmed": "Start at the first kept record, or use an export.",
        "unauthorized": "Send a valid token. `agentrail token new` creates one.",
        "unknown_call": "No action: the call has ended. See its `ToolExecutionEnd`.",
        "unknown_tool": "Use one of the names in the message, or attach the tool.",
        "unreachable": "Check the address and the server, then connect again.",
        "unrevivable": "Pass the listed tools, plugins and agents to `resume_session`.",
        "upload_failed": "Check the disk of the workspace. `__cause__` is the reason.",
        "watcher_too_slow": "Watch again, and read faster. Events in between are lost.",
        "webhook_invalid": "Use an https address that the operator allows.",
        "webhooks_off": "Omit the address, or ask the operator to configure `webhooks`.",
        "would_deadlock": "Call from another task. A child cannot wait for its own start or end.",
        "wrong_child_key": "Use the handle that `start_child` returned.",
        "your_move": "Read the message: the expected value, the given value and the remedy.",
    }
)
"""By the code of a class in `agentrail.errors`."""

IN_EVENTS: Final[Mapping[str, CodeEntry]] = MappingProxyType(
    {
        "budget_exceeded": CodeEntry(
            "The next request could exceed the session's budget.",
            "Raise the budget, or start another session. The message shows the rest.",
        ),
        "cancelled": CodeEntry("A stream was cancelled with its cycle.", "No action: see the abort."),
        "cannot_wait": CodeEntry(
            "A plugin used `wait=True` on a hook that cannot wait.",
            "Use `wait=False` in the plugin. The result arrives as `RequestDone`.",
        ),
        "child_crashed": CodeEntry(
            "A sub-agent crashed.",
            "Read its events and the log, then prompt again.",
        ),
        "context_provider_crashed": CodeEntry(
            "A context provider raised.", "Fix it. The request was sent without its messages."
        ),
        "context_provider_timeout": CodeEntry(
            "A context provider took too long.", "Make it faster, or give it a longer timeout."
        ),
        "embedder_crashed": CodeEntry(
            "An embedder raised.", "Read the log. Until it works, only words are compared."
        ),
        "events_lost": CodeEntry("A host missed the end of a request.", "Read the session's status."),
        "host_crashed": CodeEntry(
            "A hook of the host raised.", "Fix the host plugin. The log has the traceback."
        ),
        "instructions_crashed": CodeEntry("Reading instruction files failed.", "Check the named files."),
        "lease_over": CodeEntry(
            "A node could not reach the shared store for a whole lease, so its streams were closed.",
            "Check the database. The session continues, here or on another node.",
        ),
        "memory_crashed": CodeEntry(
            "A store of memories raised.", "Check the store. The log has the traceback."
        ),
        "no_memory": CodeEntry(
            "A plugin needs memories, but the supervisor has none.", "Open it with `memories=`."
        ),
        "no_notes": CodeEntry(
            "A plugin needs working notes, but the supervisor has none.",
            "Open it with `notes=`, or with named `memories=`.",
        ),
        "no_such_plugin": CodeEntry(
            "The plugin is no longer in the stack.", "Attach it, or name another one."
        ),
        "not_called": CodeEntry(
            "A call outside of a cycle was not made.",
            "Read the message: the tool is missing, or needs approval.",
        ),
        "plugin_misbehaved": CodeEntry(
            "A plugin returned a forbidden action.", "Test the plugin with `check_plugin`."
        ),
        "plugin_raised": CodeEntry(
            "A plugin raised.", "Fix the plugin. The log has the traceback, and the session continues."
        ),
        "plugin_request_failed": CodeEntry(
            "A request of a plugin failed.", "Read the message. The plugin decides the consequence."
        ),
        "process_stopped": CodeEntry(
            "The process ended during this work.", "Try again. Possible effects are reported as unknown."
        ),
        "provider_crashed": CodeEntry(
            "A provider raised an unexpected exception, a bug.",
            "Report it to its author, with the log.",
        ),
        "refused_by_plugin": CodeEntry("A plugin refused a change of the stack.", "Read its reason."),
        "response_format": CodeEntry(
            "The answer did not match the type, even after one more turn.",
            "Read the text in the message. Simplify the type, or choose a better model.",
        ),
        "sandbox_crashed": CodeEntry(
            "A sandbox raised an exception, a bug.", "Report it to its author, with the log."
        ),
        "session_parked": CodeEntry(
            "The session was parked: it crashed too often.",
            "Read the log and fix the cause. The session has ended: continue it in a fork.",
        ),
        "session_restarted": CodeEntry(
            "The session crashed during the cycle and restarted.", "Prompt again, and read the log."
        ),
        "store_crashed": CodeEntry(
            "A store of your own raised an exception, a bug.", "Report it to its author, with the log."
        ),
        "tool_broken": CodeEntry(
            "A tool returned an invalid result.",
            "Test the tool with `check_tool`.",
        ),
        "tool_crashed": CodeEntry(
            "A tool raised.",
            "Fix it. The log has the traceback, the model was notified, and the session continues.",
        ),
    }
)
"""Codes that events, statuses and requests carry, and that no exception stands for."""

IN_RESULTS: Final[Mapping[str, CodeEntry]] = MappingProxyType(
    {
        "changed": CodeEntry("The file has changed since it was read.", "Read it again, then edit."),
        "file_not_found": CodeEntry(
            "The file does not exist.", "Use one of the similar names in the message."
        ),
        "invalid_command": CodeEntry("The command contains a NUL.", "Remove the NUL."),
        "invalid_edit": CodeEntry(
            "The edit changes nothing, or cannot be applied.",
            "Give two different texts, exactly as in the file.",
        ),
        "invalid_path": CodeEntry(
            "The path leaves the working directory, or passes a link.", "Use a relative path inside it."
        ),
        "invalid_pattern": CodeEntry(
            "An invalid regular expression or glob.", "Correct the pattern as the message says."
        ),
        "io_error": CodeEntry("The disk or file system failed.", "Check the disk. A retry may help."),
        "is_directory": CodeEntry("The path is a directory, not a file.", "Use `list_dir`."),
        "not_started": CodeEntry(
            "A program could not be started.", "Check the program's name and installation."
        ),
        "not_text": CodeEntry("The file is not text.", "Use a tool for this type."),
        "old_not_found": CodeEntry(
            "The text to replace was not found.",
            "Copy it from the file. The message shows the nearest text.",
        ),
        "old_not_unique": CodeEntry(
            "The text occurs more than once.", "Include more surrounding lines, or replace all."
        ),
        "permission_denied": CodeEntry(
            "Tools or this user cannot access the file.", "Leave it, or ask the operator."
        ),
        "timeout": CodeEntry("The time limit was exceeded.", "Request less, or raise the limit."),
        "too_large": CodeEntry("The file exceeds the size limit.", "Read a part of it."),
        "unsupported": CodeEntry("The sandbox does not support this.", "Use another one, such as `local`."),
    }
)
"""Codes that the results of file tools and commands carry: the model reads the message and tries again."""

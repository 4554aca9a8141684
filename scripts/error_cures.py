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


_WAIT_FOR_OWNER: Final = "Leave the session to who has it; ask there, or wait until it is given up."
_ASK_AGAIN_LATER: Final = "Try again later: nothing that was accepted is lost."

CURES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "aborted": "Read `reason`, which is what `abort` was given; prompt again when you want it after all.",
        "actor_down": "Look at `reason`. Under a supervisor the actor comes back: call the child by its id, and not an old handle.",
        "actor_error": "Read the message: it says what kind of actor takes this call.",
        "agentrail_error": "Catch one of the classes below, which say whose move it is.",
        "already_exists": "Resume that session with `resume_session`, or choose another id.",
        "already_present": "Call `restart_child`, or `delete_child` first.",
        "already_registered": "Take `handle`, which owns the key, or choose another key.",
        "already_resolved": "Nothing: someone was faster. The error says who, and what they decided.",
        "already_started": "Go on with `handle`, the one that lives, or choose another id.",
        "answer_not_offered": "Choose one of the answers that `ApprovalRequired` lists.",
        "approval_expired": "Prompt again; raise `approval_timeout_seconds` where people need longer.",
        "approval_unknown": "Take the id out of `ApprovalRequired` or `AskUser`, and ask the session that published it.",
        "attachment_invalid": "Correct the file that the message names: its name, its type, or its Base64.",
        "attachments_unsupported": "Give the profile a workspace for each user, or send the text without files.",
        "authentication": "Set the key of this vendor, or correct it; `agentrail doctor` says which variable is read.",
        "bad_request": "Change the request as the vendor's words say; to send it again does not help.",
        "budget": "Wait until the next day, or let the operator raise the budget of a day.",
        "call_timeout": "Give a longer `timeout_seconds`, or ask later: the work goes on, and may have been done.",
        "calling_self": "Answer out of your own state, or start a task that asks; an actor cannot wait for itself.",
        "cannot_go_on": "Wait until the session is idle, or send a prompt with words.",
        "child_not_found": "List the children with `which_children`, and take an id or a handle from there.",
        "child_refused": "Raise `max_agents`, `max_agent_depth` or the budget, or do the work in the session itself.",
        "child_restarting": "Wait for the restart with `watch`, or call `terminate_child`.",
        "child_running": "Call `terminate_child` first.",
        "child_start_failed": "Mend what `reason` says, then call `restart_child`.",
        "child_stuck": "Find what does not hear its cancellation, mostly a thread; the id is free when that has ended.",
        "client_id_reused": "Give each message a `client_id` of its own; keep one only to send the very same message again.",
        "codec_error": "Read with the version that wrote it or a newer one; do not edit what is stored.",
        "command_error": "Type the command as the message shows it.",
        "command_unknown": "Type the name that the message suggests, or `/help` for all of them.",
        "content_refused": "Put the request differently, or ask another model.",
        "context_overflow": "Let the session compact (`compact_at_tokens`, `session.compact()`), or choose a model with a larger window.",
        "cursor_ahead": "Begin with `snapshot()`: a number of the future is one of another session.",
        "cycle_waiting": "Answer what `pending` lists, then call `collect_reply()`. Or subscribe, pass `wait_for_people=True`, or set a deadline.",
        "cycle_ended": "Catch `CycleFailed` and `CycleAborted`, which say how it ended.",
        "cycle_failed": "Look at `error`, which has the code of what went wrong; then prompt again.",
        "draining": "Send it to another server of the product, or again when this one is back.",
        "erased": "Nothing: it was removed on purpose. Later records can still be read.",
        "event_missed": "Wait for the event before you prompt (`stream`), or for another one.",
        "fenced": _WAIT_FOR_OWNER,
        "file_unknown": "List the files of the session, and take a path from there.",
        "files_unsupported": "Give the profile a workspace for each user.",
        "held_by": _WAIT_FOR_OWNER,
        "history_error": "Answer each call exactly once, before anything else is said.",
        "holds_loop": "Use the awaited call, or run the blocking one in a worker thread.",
        "hook_timeout": "Make the hook faster, or name a longer `timeout` for it.",
        "id_invalid": "Use 1 to 128 letters, digits and `. _ : -`.",
        "interaction_error": "Read the status: it lists what waits, and which decisions it takes.",
        "internal_error": "Report it with the log: the traceback stands there. The session goes on.",
        "invalid_arguments": "Correct the arguments as the message says, and approve again.",
        "invalid_response": "Answer with one of the options, or as the form wants it.",
        "invalid_spec": "Correct the field that the message names; `error.code` says which rule it broke (`duplicate_id`, `invalid_period`, …).",
        "job_given_up": "Run the job alone and mend it: it ends every worker that takes it.",
        "job_withdrawn": "Nothing: its own caller cancelled it.",
        "journal_corrupt": "Stop writing, copy the file, and run `agentrail sessions check`; restore a backup when it says so.",
        "journal_drifted": 'Resume with the versions that wrote it, or with `on_drift="go_on"`.',
        "mailbox_full": "Send less at once, and wait for answers; `Limits` sets the size.",
        "model_not_found": "Correct the model string as the message suggests; `agentrail doctor` lists what is configured.",
        "no_mailbox": "Start it as a `machine`: workers and supervisors read no messages.",
        "no_partitions": "Resize the partitions to 1 or more.",
        "no_schema": "Use a type of the [list](../how-to/structured-answers.md), or give a value of the type that was promised.",
        "no_trio_run": "Call it under `trio.run`; from asyncio and threads use `agentrail.blocking`.",
        "not_a_store": "Name the file that `agentrail` made, or another path for a new store.",
        "not_key_owner": "Let the owner change the value: send it a message.",
        "not_remote": "Make this call in the process of the server; over a network go values, not code.",
        "not_suspended": "Call `suspend` first, and `resume` afterwards.",
        "option_error": "Correct what the message lists; it names each option, what came and what it takes.",
        "overloaded": "Wait: retries and fallback models do so by themselves (`max_retries`, `fallback_models`).",
        "plan_error": "Make only the moves that the message names.",
        "plugin_error": "Correct the stack: the message lists every fault of it.",
        "pool_full": 'Wait and try again, or open the pool with `when_full="wait"`.',
        "pool_stopped": "Open the pool for as long as its jobs are wanted.",
        "principal_mismatch": "Leave tenant and user out of the message; the token says who it is.",
        "process_refused": "Look at `code`: the sandbox cannot run programs, or the program could not be started.",
        "profile_failed": "The operator mends the function that makes the profile; `__cause__` says what it raised.",
        "profile_mismatch": "Leave the profile out, or begin another session.",
        "profile_unknown": "Choose one of the profiles that the message lists.",
        "prompt_error": "Send text of 1 byte to 1 MB, or content blocks of known types.",
        "prompt_rejected": "Read the reason: a plugin said no. Ask for something else.",
        "protocol_error": "Look at `base_url` and at what stands in between; a server that is none of this format needs another provider.",
        "provider_error": "Catch one of its classes; `retryable` says whether to wait helps.",
        "question_declined": "Go on without the answer, or let it travel: the model reads that it was declined.",
        "queue_full": "Wait for the end of a cycle, or raise `max_prompt_queue`.",
        "quota": "Close a stream or a request that is open; the operator sets the limits.",
        "rate_limited": "Wait as long as `retry_after_seconds` says; retries do so by themselves.",
        "registry_closed": "Ask while its block is open.",
        "remote_refused": "Look at its `code`, which is the server's, in the table of [routes](routes.md#errors).",
        "reply_timeout": "Call `collect_reply` again, or abort: the cycle goes on.",
        "request_over": "Read its record: it has ended already.",
        "request_refused": "Read the reason: a plugin of the host said no.",
        "request_unknown": "Take the id that came with the answer, and ask within the last 1,000 requests.",
        "rule_unknown": "List the rules with `rules()`: this one was revoked.",
        "sandbox_error": "Name a directory that exists and that you own.",
        "session_busy": "Wait for the end of the cycle, or let the message be queued.",
        "session_ended": "Start another session; with a store `resume_session` brings it back.",
        "session_is_child": "Ask its root, `root_id`.",
        "session_not_found": "Correct the id as the message suggests; `agentrail sessions list` shows all.",
        "session_refused": "Read the reason: a plugin did not let it begin.",
        "session_rested": "Ask again: the next call wakes it.",
        "session_unknown": "Correct the id, or send the token of its owner.",
        "steering_queue_full": "Wait for `SteeringApplied`, or raise `max_steering_queue`.",
        "still_needed": "Delete what needs it first; the error names that.",
        "store_error": "Catch one of its classes.",
        "store_in_use": "Stop the process that the message names, or use another store; reading commands work beside it.",
        "store_too_new": "Install that version of agentrail, or a newer one.",
        "stop_not_written": "Nothing: the work has been stopped, and that is written when the store is back.",
        "store_unavailable": "Make room on the disk, or bring the connection back; sessions go on by themselves.",
        "stream_stalled": "Raise `stall_seconds`, or let `stall_policy` be `retry`; a fallback model helps, too.",
        "subscriber_too_slow": "Subscribe again with the last number that you have, and read faster or with `kinds=`.",
        "supervisor_closed": "Open another supervisor; its cause says whether this one crashed.",
        "supervisor_error": "Read the message: it says what the supervisor takes now.",
        "supervisor_gave_up": "Look at the crash reports: a child fails at each start. Mend that, or allow more restarts.",
        "supervisor_start_failed": "Mend the child that `child_id` names; `reason` says what its start came to.",
        "supervisor_stopping": "Nothing: it is on its way out. Ask before its block is left.",
        "timeout": "Raise `timeout`, look at the network and at a proxy, or choose a fallback model.",
        "too_large": "Send less at once; the message names the limit.",
        "too_many_children": "End some, or raise `max_children`.",
        "tool_contract_error": "Let the tool return text, JSON, `Ok` or `Error`.",
        "tool_definition_error": "Correct the function as the message says: annotations, a docstring, a name of its own.",
        "transport": "Look at the address and the network; retries happen by themselves.",
        "trimmed": "Read from the first record that is kept, or from an export.",
        "unauthorized": "Send a token that the server knows; `agentrail token new` makes one.",
        "unknown_call": "Nothing: the call has ended. Look at its `ToolExecutionEnd`.",
        "unknown_tool": "Use one of the names in the message, or attach the tool.",
        "unreachable": "Look at the address, and whether the server runs; then connect again.",
        "unrevivable": "Give what the message lists (tools, plugins, agents) to `resume_session`.",
        "upload_failed": "The operator looks at the disk of the workspace; `__cause__` says what it was.",
        "watcher_too_slow": "Watch anew, and read faster; what happened in between is gone.",
        "webhook_invalid": "Name an https address that the operator allows.",
        "webhooks_off": "Leave the address out, or let the operator give the host `webhooks`.",
        "would_deadlock": "Let another task make this call: a child cannot wait for its own start or end.",
        "wrong_child_key": "Use the handle that `start_child` returned.",
        "your_move": "Read the message: what was expected, what came, what to do.",
    }
)
"""By the code of a class in `agentrail.errors`."""

IN_EVENTS: Final[Mapping[str, CodeEntry]] = MappingProxyType(
    {
        "budget_exceeded": CodeEntry(
            "The next request could pass the budget of the session.",
            "Raise the budget, or begin another session; the message says what is left.",
        ),
        "cancelled": CodeEntry(
            "A stream was cancelled with the cycle that it belonged to.", "Nothing: look at who aborted it."
        ),
        "cannot_wait": CodeEntry(
            "A plugin asked with `wait=True` on a hook that cannot wait.",
            "The plugin author asks with `wait=False`; the answer comes as `RequestDone`.",
        ),
        "child_crashed": CodeEntry(
            "A session that worked for a call crashed.",
            "Look at its own events and the log, then prompt again.",
        ),
        "context_provider_crashed": CodeEntry(
            "A context provider raised.", "Mend it; the request went out without what it adds."
        ),
        "context_provider_timeout": CodeEntry(
            "A context provider took too long.", "Make it faster, or give it a longer timeout."
        ),
        "embedder_crashed": CodeEntry(
            "An embedder raised.", "Look at the log; until it answers again words alone are compared."
        ),
        "events_lost": CodeEntry(
            "A host did not see the end of a request.", "Read the status of the session: it is true."
        ),
        "host_crashed": CodeEntry(
            "A hook of the host raised.", "The operator mends the host plugin; the log has the traceback."
        ),
        "instructions_crashed": CodeEntry(
            "Reading instruction files failed.", "Look at the files that the message names."
        ),
        "memory_crashed": CodeEntry(
            "A store of memories raised.", "The operator looks at the store; the log has the traceback."
        ),
        "no_memory": CodeEntry(
            "A plugin wants memories, and the supervisor has none.", "Open it with `memories=`."
        ),
        "no_notes": CodeEntry(
            "A plugin wants working notes, and the supervisor has none.",
            "Open it with `notes=`, or with `memories=` that are named.",
        ),
        "no_such_plugin": CodeEntry(
            "A plugin is not in the stack any more.", "Attach it, or name another one."
        ),
        "not_called": CodeEntry(
            "A call outside of a cycle was not made.",
            "Read the message: the tool is not there, or needs an approval.",
        ),
        "plugin_misbehaved": CodeEntry(
            "A plugin answered with what it may not.", "The plugin author holds it against `check_plugin`."
        ),
        "plugin_raised": CodeEntry(
            "A plugin raised.", "The plugin author mends it; the log has the traceback, the session goes on."
        ),
        "plugin_request_failed": CodeEntry(
            "A request of a plugin failed.", "Look at the message; the plugin decides what follows."
        ),
        "process_stopped": CodeEntry(
            "The process ended while this was done.", "Ask again; what may have happened is told as unknown."
        ),
        "provider_crashed": CodeEntry(
            "A provider raised what is no error of a provider: a bug.",
            "Report it to its author, with the log.",
        ),
        "refused_by_plugin": CodeEntry("A plugin did not allow a change of the stack.", "Read its reason."),
        "response_format": CodeEntry(
            "The answer does not fit the type, also after one more turn.",
            "Look at the text in the message; make the type simpler, or choose a better model.",
        ),
        "sandbox_crashed": CodeEntry("A sandbox raised: a bug.", "Report it to its author, with the log."),
        "session_parked": CodeEntry(
            "The session was parked: it crashed too often.",
            "Look at the log, mend it, and resume the session.",
        ),
        "session_restarted": CodeEntry(
            "The session crashed during the cycle, and came back.", "Prompt again; look at the log."
        ),
        "tool_broken": CodeEntry(
            "What a tool returned could not be taken.",
            "The author of the tool holds it against `check_tool`.",
        ),
        "tool_crashed": CodeEntry(
            "A tool raised.",
            "Mend it: the log has the traceback; the model was told, and the session goes on.",
        ),
    }
)
"""Codes that events, statuses and requests carry, and that no exception stands for."""

IN_RESULTS: Final[Mapping[str, CodeEntry]] = MappingProxyType(
    {
        "changed": CodeEntry("The file is another one than was read.", "Read it again, then edit."),
        "file_not_found": CodeEntry(
            "There is no such file.", "Use one of the neighbours that the message lists."
        ),
        "invalid_command": CodeEntry("A command that no shell can be given.", "Send one text without a NUL."),
        "invalid_edit": CodeEntry(
            "The edit changes nothing, or cannot be applied.",
            "Give two different texts, as they stand in the file.",
        ),
        "invalid_path": CodeEntry(
            "The path leads out of the working directory, or through a link.", "Use a relative path below it."
        ),
        "invalid_pattern": CodeEntry(
            "No regular expression or glob.", "Correct the pattern as the message says."
        ),
        "io_error": CodeEntry(
            "The disk or the file system said no.", "The operator looks at it; trying again may help."
        ),
        "is_directory": CodeEntry("A file was asked for, and it is a directory.", "Use `list_dir`."),
        "not_started": CodeEntry(
            "A program could not be started.", "Look at the name of the program, and whether it is installed."
        ),
        "not_text": CodeEntry("The file is no text.", "Use a tool that reads this type."),
        "old_not_found": CodeEntry(
            "The text that was to be replaced is not there.",
            "Copy it from the file; the message shows the nearest.",
        ),
        "old_not_unique": CodeEntry(
            "It stands there more than once.", "Give more of the lines around it, or replace all."
        ),
        "permission_denied": CodeEntry(
            "The file is not for tools, or not for this user.", "Leave it, or let the operator allow it."
        ),
        "timeout": CodeEntry("It took too long.", "Ask for less, or give more time."),
        "too_large": CodeEntry("The file is larger than is read or written at once.", "Read a part of it."),
        "unsupported": CodeEntry("This sandbox cannot do that.", "Use another one, such as `local`."),
    }
)
"""Codes that the results of file tools and commands carry: the model reads the message and tries again."""

"""Calls shared by routes and sockets: from a host, a principal and decoded arguments to a wire value."""

from agentrail.gateway.calls.call_result import CallAnswer as CallAnswer
from agentrail.gateway.calls.command_calls import (
    list_commands as list_commands,
    run_slash_command as run_slash_command,
)
from agentrail.gateway.calls.cost_report import inspect_cost as inspect_cost
from agentrail.gateway.calls.decision_calls import (
    abort_session as abort_session,
    accept_approval as accept_approval,
    call_session as call_session,
    cancel_request as cancel_request,
    read_request as read_request,
    read_shown_approval as read_shown_approval,
    respond_to_question as respond_to_question,
)
from agentrail.gateway.calls.event_queries import (
    MAX_EVENTS_OF_A_PAGE as MAX_EVENTS_OF_A_PAGE,
    inspect_spans as inspect_spans,
    kinds_of_query as kinds_of_query,
    read_call_details as read_call_details,
    read_context as read_context,
    read_events as read_events,
)
from agentrail.gateway.calls.inspection import (
    MAX_SESSIONS_OF_A_TREE as MAX_SESSIONS_OF_A_TREE,
    inspect_explanation as inspect_explanation,
    inspect_messages as inspect_messages,
    inspect_plugins as inspect_plugins,
    inspect_sessions as inspect_sessions,
    inspect_state as inspect_state,
    inspect_trace as inspect_trace,
    inspect_tree as inspect_tree,
    restart_source as restart_source,
)
from agentrail.gateway.calls.session_calls import (
    AskedSessions as AskedSessions,
    FileAnswer as FileAnswer,
    create_session as create_session,
    delete_session as delete_session,
    forget_user as forget_user,
    fork_session as fork_session,
    list_own_sessions as list_own_sessions,
    list_workspace as list_workspace,
    read_messages as read_messages,
    read_snapshot as read_snapshot,
    read_workspace_file as read_workspace_file,
    resume_session as resume_session,
    rewind_session as rewind_session,
    switch_session_model as switch_session_model,
)

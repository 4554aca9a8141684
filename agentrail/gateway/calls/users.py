"""Calls about a user, and not about one of their sessions."""

from agentrail.gateway.calls.answering import CallAnswer, answer_with
from agentrail.gateway.replies import UserForgotten
from agentrail.host import Host, Principal


async def forget_user(host: Host, principal: Principal) -> CallAnswer:
    """DELETE /users/{user_id}/memory: what was erased, and what could not be."""
    told = await host.users.forget(principal)
    return answer_with(
        UserForgotten(
            memories=told.memories,
            notes=told.notes,
            sessions=told.sessions,
            records=told.records,
            snapshots=told.snapshots,
            blobs=told.blobs,
            is_overwritten=told.is_overwritten,
            left=told.left,
            not_reached=told.not_reached,
        )
    )

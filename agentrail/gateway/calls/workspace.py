"""Calls that read the workspace of a session: what may be read, the host and the sandbox say."""

from attrs import field, frozen

from agentrail.gateway.calls.answering import CallAnswer, answer_with
from agentrail.gateway.replies import FilePage
from agentrail.host import Host, Principal


@frozen(kw_only=True)
class FileAnswer:
    """A file that is given out, for a browser to keep and never to show: it may be a page with scripts.

    Attributes:
        content: All of it.
        etag: What the same content has always.
        name: What it is called, for the header `content-disposition`.
    """

    content: bytes = field(repr=False)
    etag: str
    name: str


async def list_workspace(  # noqa: PLR0913 - a page of one directory of one session
    host: Host, principal: Principal, session_id: str, path: str = "", *, after: int = 0, limit: int = 1_000
) -> CallAnswer:
    """GET /sessions/{id}/files?path=: `{entries, next}`; `next` is `after` of the page behind."""
    found = await host.list_files(session_id, principal, path)
    shown = found[after : after + limit]
    behind = after + len(shown)
    more = behind if shown and behind < len(found) else None
    return answer_with(FilePage(entries=shown, next=more))


async def read_workspace_file(host: Host, principal: Principal, session_id: str, path: str) -> FileAnswer:
    """GET /sessions/{id}/files/{path}."""
    found = await host.read_file(session_id, principal, path)
    return FileAnswer(content=found.content, etag=f'"{found.sha256}"', name=path.rpartition("/")[2])

"""The files of the console: which there are, what they are, and the policy under which a browser runs them.

They lie in the package, below `console/`, and hold no data, so no token is asked for; from where they may be called is judged all the same. What
they do with the routes of a host is theirs: nothing here knows of a session.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from attrs import frozen

from agentrail import outside
from agentrail.gateway.answers import refuse_call
from agentrail.gateway.endpoint import CallRoute, RouteCall, WholeAnswer
from agentrail.gateway.route_answers import BY_PLACE

ROOT: Final = Path(__file__).parent / "console"

CONTENT_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        ".css": "text/css; charset=utf-8",
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".svg": "image/svg+xml",
    }
)
"""What is given out, by the end of its name; types, licences and lists of what was vendored lie beside it, and are not."""

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""What a browser lets the console do: nothing inline, nothing of another origin, no text that becomes markup."""

HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "content-security-policy": POLICY,
        "cross-origin-opener-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }
)
"""What each file of the console has."""

INDEX: Final = "index.html"

_PART: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


@frozen
class ConsoleFile:
    """A file as it goes out.

    Attributes:
        content: All of it.
        content_type: What it is.
        etag: Another one with each content.
    """

    content: bytes
    content_type: str
    etag: str


def find_file(path: str, root: Path = ROOT) -> ConsoleFile | None:
    """Read a file of the console; None where there is none. Blocks."""
    parts = (path or INDEX).split("/")
    content_type = CONTENT_TYPES.get(Path(parts[-1]).suffix)
    # No name begins with a dot, so none leads upwards, and none is empty, so none is absolute.
    if content_type is None or not all(_PART.fullmatch(part) for part in parts):
        return None
    try:
        content = root.joinpath(*parts).read_bytes()
    except (OSError, ValueError):
        return None
    return ConsoleFile(content, content_type, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


async def answer_file(call: RouteCall) -> WholeAnswer:
    """Give a file of the console out, or say that the caller has it already."""
    found = await outside.offload(lambda: find_file(call.params["path"]))
    if found is None:
        refuse_call("file_unknown", "there is no such file of the console")
    if found.content_type.startswith("text/html"):
        # The page names what it was made with; one that is kept would ask for what is not there any more.
        headers = {**HEADERS, "cache-control": "no-store"}
        return WholeAnswer(body=found.content, content_type=found.content_type, headers=headers)
    headers = {**HEADERS, "cache-control": "no-cache", "etag": found.etag}
    if found.etag in call.head.headers.get("if-none-match", ""):
        return WholeAnswer(status=304, headers=headers)
    return WholeAnswer(body=found.content, content_type=found.content_type, headers=headers)


async def answer_bare(_: RouteCall) -> WholeAnswer:  # noqa: ASYNC124 - the handler of a route, which is awaited
    """Lead to the page: what it names stands below it, so its address ends with a slash."""
    return lead_to_console()


def lead_to_console() -> WholeAnswer:
    """Lead a browser to the console from `/` or `/console`: by a relative address, since a proxy may have taken away what was in front."""
    return WholeAnswer(status=302, headers={"location": "console/", "vary": "Accept"})


def wants_page(headers: Mapping[str, str]) -> bool:
    """Say whether a call is a browser's that opens an address: it names `text/html` itself, as programs do not."""
    return "text/html" in headers.get("accept", "").lower()


CONSOLE_FILE_ROUTES: Final = (
    CallRoute(
        "GET",
        "/console",
        answer_bare,
        does="leads to the web console",
        scope=None,
        is_guarded=True,
        success=302,
        replies={302: ()},
        refusals=BY_PLACE,
    ),
    CallRoute(
        "GET",
        "/console/{path:path}",
        answer_file,
        does="gives a file of the web console out",
        scope=None,
        is_guarded=True,
        content=tuple(CONTENT_TYPES.values()),
        replies={304: ()},
        refusals=f"{BY_PLACE} file_unknown",
    ),
)

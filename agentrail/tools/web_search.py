"""The tool `web_search`: finds web pages with a search engine."""

from collections.abc import Callable
from typing import Annotated, Final

import msgspec

from agentrail.abc import Error, Ok, Tool
from agentrail.errors import OptionError
from agentrail.messages import JsonObject
from agentrail.tools.function import tool
from agentrail.tools.tool_text import printable
from agentrail.tools.web_text import fenced_hits
from agentrail.web.exchange import FetchFailed
from agentrail.web.search import (
    MAX_ENGINE_QUERY_CHARACTERS,
    MAX_SEARCH_RESULTS,
    SearchEngine,
    client_for,
    search_web,
)
from agentrail.web.web_client import WebClient

NO_ENGINE: Final = (
    "There is no search engine here: none is configured. Continue without it, and do not try again."
)


def _label(arguments: JsonObject) -> str:
    return f"Search the web for {str(arguments.get('query'))[:60]!r}"


def web_search_tool(open_engine: Callable[[], SearchEngine] | None, client: WebClient) -> Tool:
    """Make the tool.

    Args:
        open_engine: Returns the search engine. Called on each search, so that the current key is used. None: no engine.
        client: Sends the requests.
    """

    @tool(name="web_search", effect_class="pure", timeout_seconds=60, label=_label)
    async def web_search(
        query: Annotated[
            str, msgspec.Meta(min_length=1, max_length=MAX_ENGINE_QUERY_CHARACTERS), "What to look for."
        ],
        max_results: Annotated[
            int, msgspec.Meta(ge=1, le=MAX_SEARCH_RESULTS), "How many pages to show at most."
        ] = 5,
    ) -> Ok | Error:
        """Search the web. Gives titles, addresses and what the pages say about the query."""
        if open_engine is None:
            return Error(text=NO_ENGINE)
        try:
            engine = open_engine()
            hits = await search_web(engine, client_for(engine, client), query, max_results)
        except OptionError as error:
            return Error(text=f"The search engine cannot be used: {'; '.join(error.faults)}")
        except FetchFailed as error:
            return Error(text=f"The search engine did not answer. {error}")
        if not hits:
            return Ok(text=f'Nothing was found for "{printable(query)}". Try other words.')
        return Ok(text=fenced_hits(hits), details={"urls": [hit.url for hit in hits]})

    return web_search

"""Adapters of search engines, one per file, and the table `ENGINES` by name.

>>> from agentrail.web.engines import ENGINES
>>> sorted(ENGINES)
['brave', 'exa', 'jina', 'searxng', 'tavily']
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from agentrail.abc.secret import Secret
from agentrail.web.engines.brave import Brave
from agentrail.web.engines.exa import Exa
from agentrail.web.engines.jina import Jina
from agentrail.web.engines.searxng import Searxng
from agentrail.web.engines.tavily import Tavily
from agentrail.web.search import SearchEngine


class MakeEngine(Protocol):
    """Factory of an adapter."""

    def __call__(self, *, key: Secret | None, origin: str = ...) -> SearchEngine:
        """Create an adapter. Without `origin`, it uses the vendor's service."""
        ...


ENGINES: Final[Mapping[str, MakeEngine]] = MappingProxyType(
    {"brave": Brave, "exa": Exa, "jina": Jina, "searxng": Searxng, "tavily": Tavily}
)

KEY_VARIABLES: Final[Mapping[str, str]] = MappingProxyType(
    {"brave": "BRAVE_API_KEY", "exa": "EXA_API_KEY", "jina": "JINA_API_KEY", "tavily": "TAVILY_API_KEY"}
)
"""Default environment variable for the key of each engine. `searxng` needs no key."""

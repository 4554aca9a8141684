"""`Citations`: reports citations in an answer that no result of its cycle contains."""

import re
from collections.abc import Iterator
from typing import Final

import attrs

from agentrail.core.protocol.actions import Action, Continue
from agentrail.core.protocol.hooks import AfterResponse, AfterToolBatch
from agentrail.core.stack.plugin import Context
from agentrail.core.values.sources import more_sources, sources_in
from agentrail.events import CitationUnknown
from agentrail.plugins.base import Plugin, on

MAX_CITED: Final = 500
"""Maximum number of citations checked in a response."""

_CITED: Final = re.compile(r"\[(?P<source>[^\[\]\n]{1,600}?#(?:L\d{1,9}-L\d{1,9}|p\d{1,9}(?:-p\d{1,9})?))\]")
_PLACE: Final = re.compile(
    r"(?P<path>.*)#(?P<unit>[Lp])(?P<first>\d{1,9})(?:-[Lp](?P<last>\d{1,9}))?", re.DOTALL
)


@attrs.frozen
class HeldSources:
    """The sources that may be cited."""

    sources: tuple[str, ...] = ()


class Citations(Plugin[HeldSources]):
    """Reports citations in an answer that no result of its cycle contains."""

    priority = 350

    def init(self) -> HeldSources:
        """Return a state without sources."""
        return HeldSources()

    # After the batch rather than each call: results made by the session itself, such as `wait_agents`, appear only there.
    @on(AfterToolBatch)
    def keep(self, event: AfterToolBatch, state: HeldSources, ctx: Context) -> Action[HeldSources]:
        """Keep the sources in the details of results: `kb_search`, `kb_read`, custom tools, and agents that read."""
        found = [one for result in event.results if not result.is_error for one in sources_in(result.details)]
        return Continue(attrs.evolve(state, sources=more_sources(state.sources, tuple(found))))

    @on(AfterResponse)
    def look(self, event: AfterResponse, state: HeldSources, ctx: Context) -> Action[HeldSources]:
        """Check the citations in the spoken text. The first turn of a new cycle clears the sources."""
        if ctx.turn <= 1:
            state = HeldSources()
        unknown = unknown_citations(event.message.text, state.sources)
        if not unknown:
            return Continue(state)
        return Continue(state, emits=(CitationUnknown(citations=unknown),))


def unknown_citations(text: str, sources: tuple[str, ...]) -> tuple[str, ...]:
    """Return the citations in a text, such as `[path#L3-L9]` and `[path#p3]`, that no source contains, without duplicates."""
    cited = [found["source"] for _, found in zip(range(MAX_CITED), _CITED.finditer(text), strict=False)]
    if not cited:
        return ()
    held: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for path, unit, first, last in _places(sources):
        held.setdefault((path, unit), []).append((first, last))
    return tuple(
        dict.fromkeys(
            source
            for source, (path, unit, first, last) in zip(cited, _places(cited), strict=True)
            if not any(begin <= first <= last <= end for begin, end in held.get((path, unit), ()))
        )
    )


def _places(sources: tuple[str, ...] | list[str]) -> Iterator[tuple[str, str, int, int]]:
    for source in sources:
        found = _PLACE.fullmatch(source)
        if found is None:  # sources of external tools have another form
            yield source, "", 0, 0
            continue
        first = int(found["first"])
        yield found["path"], found["unit"], first, first if found["last"] is None else int(found["last"])

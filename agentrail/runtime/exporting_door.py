"""The calls of a supervisor that write sessions to files, and read them back into its store."""

from abc import ABC, abstractmethod
from functools import partial

import trio

from agentrail.errors import OptionError
from agentrail.messages import SessionId
from agentrail.runtime.arguments import fault_of_choice, fault_of_flag, fault_of_text, refuse
from agentrail.runtime.assembly import Dependencies
from agentrail.runtime.exporting import (
    ExportFormat,
    export_spans,
    export_stored,
    import_stored,
    leaving_export,
    render_markdown,
)
from agentrail.runtime.keeping import Keeping
from agentrail.runtime.past import Journal
from agentrail.runtime.plugin_watch import QuietWatch
from agentrail.runtime.reviving import PluginFinder, stored_of
from agentrail.runtime.scopes import NO_SCOPE, fault_of_scope


class ExportingDoor(ABC):
    """The calls of a supervisor about files of sessions."""

    _keeping: Keeping | None
    _dependencies: Dependencies

    async def export_session(
        self,
        session_id: str,
        *,
        format: ExportFormat = "jsonl",  # noqa: A002 - its name at the command line, too
        content: bool = True,
        scope: str = NO_SCOPE,
    ) -> bytes:
        """Write a stored session as a file, alive or not, as far as it is durable.

        Args:
            session_id: Its id.
            format: `jsonl` has all, with the sessions that work for it, and can be imported; `markdown` is the conversation, for people;
                `otlp` is spans for OpenTelemetry, a line of JSON for each session, as its file exporter writes them: of cycles,
                requests, calls and children. The same journal gives the same spans.
            content: Whether what was said goes along; else kinds, numbers, times and sizes.
            scope: The one that it was started in.

        Returns:
            UTF-8.

        Raises:
            OptionError: Your move: there is no store, or an argument that cannot be.
            SessionNotFound: Your move: the store has none of this id.
            Trimmed: Its first records were dropped, so that it could not be imported.
            JournalCorrupt, CodecError, PluginError, StoreUnavailable: It cannot be read.

        Cancellation: At once.
        """
        refuse(
            fault_of_text("session_id", session_id),
            fault_of_scope("scope", scope),
            fault_of_choice("format", format, ("jsonl", "markdown", "otlp")),
            fault_of_flag("content", content),
        )
        await trio.lowlevel.checkpoint()
        keeping = self._store_of("export_session")
        store = keeping.store
        watch, finder = QuietWatch(SessionId(session_id), {}, self._dependencies.outside), PluginFinder({})
        watch.find_others(finder)

        def work() -> bytes:
            stored = stored_of(store, scope, SessionId(session_id))
            if format == "jsonl":
                data = b"".join(export_stored(store, stored, content=content))
                return leaving_export(data, is_exact=content)
            if format == "otlp":
                return leaving_export(
                    b"".join(export_spans(store, stored, watch, content=content)), is_exact=False
                )
            state = Journal(store, stored, finder, watch).state_behind(stored.tail.seq)
            text = render_markdown(state.data.history.messages[:], content=content)
            return leaving_export(text.encode(), is_exact=False)

        return await keeping.fold(work)

    async def import_session(self, data: bytes) -> tuple[SessionId, ...]:
        """Write the sessions of a `jsonl` export into the store, bit for bit as they were; none of them begins to work.

        What is there already and is the same stays as it is.

        Returns:
            Which sessions, the root first; `resume_session` brings it back.

        Raises:
            OptionError: Your move: there is no store, it is no export, or one without content.
            JournalCorrupt: It was changed; the number of the first record that was is there. Nothing was written.
            AlreadyExists: Your move: the store has another session of this id.
            StoreUnavailable: The store takes nothing for now.

        Cancellation: What has not begun is not done; what has is.
        """
        if not isinstance(data, bytes):
            raise OptionError([f"data is {data!r:.80}: expected the bytes of an export"])
        await trio.lowlevel.checkpoint()
        keeping = self._store_of("import_session")
        return await keeping.write(partial(import_stored, keeping.store, data))

    @abstractmethod
    def _store_of(self, call: str) -> Keeping: ...

"""Trace contexts of prompts. Malformed ones are left out and counted, and their prompts continue."""

from attrs import define

from agentrail.core.values.trace_carriers import read_trace
from agentrail.messages import TraceContext


@define(eq=False)
class TraceReader:
    """Reads the trace contexts of the prompts of one supervisor.

    Attributes:
        malformed: How many were malformed, as a whole or in their `tracestate`.
    """

    malformed: int = 0

    def read(self, given: object) -> TraceContext | None:
        trace, is_malformed = read_trace(given)
        self.malformed += is_malformed
        return trace

"""Readers of committed events and journals: no session waits for them, or notices that they fail.

open_supervisor(telemetry=OpenTelemetry(exporter="http://localhost:4318/v1/traces"))
"""

from agentrail.logs import add_trace_ids as add_trace_ids
from agentrail.telemetry.open_telemetry import OpenTelemetry as OpenTelemetry

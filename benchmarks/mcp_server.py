"""An MCP server that does next to nothing, for the workloads of MCP: `python mcp_server.py [stubborn] [NOTES]`.

It speaks the older revision over its standard streams. When a call of `wait` is cancelled, it writes the time to the file NOTES.
"""

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

LARGE_BYTES = (16 << 20) - 4_096
_SAID = {"type": "text", "text": "done"}


def answer_of(asked: dict[str, Any]) -> dict[str, Any] | None:
    """Give the result of a request, or None for a call that is not answered."""
    match asked["method"]:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "bench", "version": "1"},
            }
        case "tools/list":
            return {
                "tools": [
                    {"name": name, "inputSchema": {"type": "object"}} for name in ("noop", "large", "wait")
                ]
            }
        case "tools/call":
            name = asked["params"]["name"]
            if name == "wait":
                return None
            return {"content": [_SAID if name == "noop" else {"type": "text", "text": "x" * LARGE_BYTES}]}
        case "ping":
            return {}
    raise LookupError


def main() -> None:
    """Answer until the input ends."""
    if "stubborn" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["method"] == "notifications/cancelled":
            Path(sys.argv[-1]).write_text(str(time.perf_counter()))
        if "id" not in asked:
            continue
        try:
            told: dict[str, Any] = {"result": answer_of(asked)}
        except LookupError:
            told = {"error": {"code": -32601, "message": "unknown"}}
        if told.get("result", told) is not None:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **told}) + "\n")
            sys.stdout.flush()
    while "stubborn" in sys.argv:
        time.sleep(60)


if __name__ == "__main__":
    main()

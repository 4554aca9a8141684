"""`make bench`: run the workloads, then print the table, and where the time of what was missed goes; write the JSON.

Figures are never a reason to fail: the exit code is 0 whatever they are.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.aborts import abort_streams, abort_stubborn, abort_tools
from benchmarks.actors import actor_memory, call, cast, child, children, restart
from benchmarks.agents import agents
from benchmarks.bodies import bodies
from benchmarks.bystanders import bystanders
from benchmarks.calls import gates, kills, tool_batch, tool_call
from benchmarks.configuration import configuration
from benchmarks.console.drawing import ageing, drawing
from benchmarks.console.lists import lists
from benchmarks.crowds import crowds, sessions
from benchmarks.cycles import cycle, growth, own_tool, plugins, tools
from benchmarks.editors import editors
from benchmarks.evals import evals
from benchmarks.explain import Explanation
from benchmarks.files import files, output, search
from benchmarks.folds import folds
from benchmarks.gateway.chats import chats
from benchmarks.gateway.coming_back import reconnects, stalled_reader
from benchmarks.gateway.fanout import few_readers, many_readers, many_sessions_read
from benchmarks.gateway.forwarding import forwarding
from benchmarks.gateway.hooks import requests_through_the_host
from benchmarks.gateway.stopping import aborts_by_socket, leavers, shutdown
from benchmarks.gateway.weights import weights_of_readers
from benchmarks.gateway.wires import streams_of_wires
from benchmarks.idle import ROOT, after_turn, memory
from benchmarks.kept import kept, lone
from benchmarks.knowledge import knowledge
from benchmarks.measure import Effort, Explain, Row
from benchmarks.metrics import metrics
from benchmarks.nodes import moves, takeovers
from benchmarks.permissions import verdicts
from benchmarks.postgres import postgres
from benchmarks.recall import recall
from benchmarks.report import describe_run, render_missed, render_table, write_json
from benchmarks.returns import idle_start, resume, weights
from benchmarks.skills import skills
from benchmarks.starts import starts
from benchmarks.stores import appends
from benchmarks.streams import deltas, streams
from benchmarks.telemetry import telemetry
from benchmarks.timers import timers
from benchmarks.typing import typing
from benchmarks.web import web


def _mcp_servers(effort: Effort) -> list[Row]:
    # Imported late: the library's 60 MiB would weigh on each collection of the workloads before it.
    found: list[Row] = import_module("benchmarks.mcp_servers").mcp_servers(effort)
    return found


WORKLOADS: Final[Mapping[str, Callable[[Effort], list[Row]]]] = {
    "cycle": cycle,
    "own-tool": own_tool,
    "growth": growth,
    "tools": tools,
    "plugins": plugins,
    "bystanders": bystanders,
    "bodies": bodies,
    "folds": folds,
    "telemetry": telemetry,
    "sessions": sessions,
    "crowds": crowds,
    "memory": memory,
    "after-turn": after_turn,
    "deltas": deltas,
    "streams": streams,
    "tool-call": tool_call,
    "tool-batch": tool_batch,
    "gates": gates,
    "verdicts": verdicts,
    "kills": kills,
    "files": files,
    "search": search,
    "output": output,
    "abort-tools": abort_tools,
    "abort-streams": abort_streams,
    "abort-stubborn": abort_stubborn,
    "agents": agents,
    "children": children,
    "child": child,
    "restart": restart,
    "cast": cast,
    "call": call,
    "actor-memory": actor_memory,
    "timers": timers,
    "appends": appends,
    "kept": kept,
    "lone": lone,
    "metrics": metrics,
    "config": configuration,
    "skills": skills,
    "starts": starts,
    "editors": editors,
    "typing": typing,
    "resume": resume,
    "weights": weights,
    "idle-start": idle_start,
    "recall": recall,
    "knowledge": knowledge,
    "web": web,
    "evals": evals,
    "postgres": postgres,
    "takeovers": takeovers,
    "moves": moves,
    "gateway-chat": chats,
    "gateway-host": requests_through_the_host,
    "gateway-100": few_readers,
    "gateway-1000": many_readers,
    "gateway-sessions": many_sessions_read,
    "gateway-weights": weights_of_readers,
    "gateway-reconnects": reconnects,
    "gateway-stalled": stalled_reader,
    "gateway-leavers": leavers,
    "gateway-shutdown": shutdown,
    "gateway-aborts": aborts_by_socket,
    "gateway-wires": streams_of_wires,
    "gateway-nodes": forwarding,
    "console-drawing": drawing,
    "console-page": ageing,
    "console-lists": lists,
    "mcp": _mcp_servers,  # the last one
}
GROUPS: Final[Mapping[str, Sequence[str]]] = {
    "gateway": [name for name in WORKLOADS if name.startswith("gateway-")],
    "console": [name for name in WORKLOADS if name.startswith("console-")],
}
"""What `--only` takes for several."""
_ONLY_WITH_FULL: Final = frozenset({"streams"})
_QUICK: Final = Effort(rounds=1, scale=0.05)
_NORMAL: Final = Effort()
_FULL: Final = Effort(full=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for."""
    asked = _parser().parse_args(arguments)
    effort = _QUICK if asked.quick else _FULL if asked.full else _NORMAL
    only = [name for one in asked.only or () for name in GROUPS.get(one, [one])]
    names = only or [name for name in WORKLOADS if asked.full or name not in _ONLY_WITH_FULL]
    rows: list[Row] = []
    for name in names:
        began_at = perf_counter()
        rows += WORKLOADS[name](effort)
        print(f"{name}: {perf_counter() - began_at:.0f} s", file=sys.stderr, flush=True)
        write_json(asked.json, rows, effort)  # so that a run that is ended early leaves what it has
    print(render_table(rows))
    print(f"\n{describe_run()}")
    if not asked.quick:  # its figures mean nothing, so neither do its misses
        explained = explain_missed(rows)
        print(render_missed(explained))
        write_json(asked.json, rows, effort, explained)
    return 0


def explain_missed(rows: Sequence[Row]) -> dict[str, Explanation]:
    """Explain each missed row; rows of the same runs have one explanation, which is found once."""
    found: dict[Explain, Explanation] = {}
    explained = {}
    for row in rows:
        if row.verdict == "misses" and row.explain is not None:
            if row.explain not in found:
                found[row.explain] = row.explain()
            explained[f"{row.workload}: {row.what}"] = found[row.explain]
    return explained


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=(__doc__ or "").partition("\n")[0]
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a smoke test; its figures mean nothing")
    size.add_argument("--full", action="store_true", help="also 10,000 sessions and 100 paced streams")
    parser.add_argument(
        "--only",
        action="append",
        choices=[*WORKLOADS, *GROUPS],
        metavar="NAME",
        help=", ".join([*WORKLOADS, *GROUPS]),
    )
    parser.add_argument("--json", type=Path, default=ROOT / "bench-results" / "latest.json", metavar="PATH")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""What each figure is held against, for the pure build and for the compiled one: the table that `make bench` judges.

A ratio is to the bare loop of the same run. *must* is what a build may not miss without an explanation, *aim* what is
worth some more work. The compiled build has bars of its own where compiling can help; else the pure ones hold for it too.
"""

from collections.abc import Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from agentrail.core.session import machine
from benchmarks.measure import Target

Build: TypeAlias = Literal["pure", "compiled"]
Pair: TypeAlias = tuple[float, float]
"""Must and aim."""
Of: TypeAlias = Literal["ratio", "ours"]


def build_in_use() -> Build:
    """Say which build is imported: compiled modules are extension modules, not Python files."""
    return "pure" if PurePath(machine.__file__).suffix == ".py" else "compiled"


TABLE: Final[Mapping[str, tuple[Of, Pair, Pair | None]]] = MappingProxyType(
    {
        #                        of       pure          compiled; None: as pure
        "cycle":                ("ratio", (2.75, 2.4),  None),
        "cycle early":          ("ratio", (2.75, 2.4),  None),
        "cycle late":           ("ratio", (2.75, 2.4),  None),
        "cycle 200 to peer":    ("ours",  (0.04, 0.04), (0.03, 0.03)),
        "growth":               ("ours",  (1.1, 1.03),  None),
        "20 tools":             ("ratio", (2.3, 1.9),   (2.2, 1.8)),
        "one more tool":        ("ours",  (82, 65),     (75, 60)),  # µs
        "5 plugins":            ("ratio", (3.0, 2.4),   (2.2, 1.7)),
        "delta step":           ("ours",  (4, 3),       (3, 2)),  # µs
        "bystanders":           ("ratio", (1.05, 1.0),  None),
        "1,000 sessions":       ("ratio", (2.6, 2.0),   (2.0, 1.5)),
        "10,000 sessions":      ("ratio", (1.1, 0.8),   (0.8, 0.65)),
        "growth of sessions":   ("ours",  (1.15, 1.08), None),
        "start":                ("ours",  (125, 105),   None),  # µs
        "start with own tool":  ("ours",  (220, 180),   None),  # µs
        "idle session":         ("ours",  (10, 8),      None),  # KiB
        "session after a turn": ("ours",  (13, 10),     None),  # KiB
        "burst":                ("ratio", (1.1, 0.9),   (1.0, 0.8)),
        "first delta":          ("ours",  (2, 1),       None),  # ms
        "body":                 ("ratio", (3.0, 1.5),   None),
        "fold":                 ("ratio", (2.2, 1.6),   None),
        "growth of folds":      ("ratio", (1.2, 1.05),  None),
        "telemetry":            ("ratio", (1.15, 1.08), None),
        "telemetry over OTLP":  ("ratio", (1.5, 1.3),   None),
        "spans of a journal":   ("ours",  (50, 40),     None),  # µs: 20,000 and 25,000 records a second
        "journals beside folds": ("ratio", (1.5, 1.5), None),  # with a stack that is asked in one step of six
        "abort tools":          ("ratio", (2.0, 1.5),   None),
        "abort streams":        ("ratio", (2.0, 1.5),   None),
        "child":                ("ratio", (3.5, 2.5),   (3.0, 2.0)),
        "held actor":           ("ours",  (4, 3),       (3, 2)),  # KiB
        "appends":              ("ratio", (1.67, 1.4),  None),  # 60 % of what a bare loop writes in the same time
        "fold speed":           ("ours",  (40, 33),     None),  # µs: 25,000 and 30,000 records a second
        "kept cycles":          ("ratio", (1.43, 1.25), None),  # 70 and 80 % of the cycles in the same time
        "CPU of kept cycles":   ("ratio", (1.25, 1.15), None),
        "lone cycle":           ("ours",  (4, 2.5),     None),  # ms
        "CPU of a lone cycle":  ("ratio", (1.3, 1.1),   None),
        "verdict of 500 rules": ("ours",  (30, 15),     None),  # µs
        "commits of a lone cycle": ("ours", (2, 2),     None),
        "resume":               ("ours",  (400, 330),   None),  # ms
        "resume with a snapshot": ("ours", (150, 100),  None),  # ms
        "bytes of a cycle":     ("ratio", (3, 2.5),     None),
        "recall of one":        ("ours",  (8, 4),       None),  # ms
        "recall of 1,000":      ("ours",  (3, 1.4),     None),  # ms
        "kb search":            ("ours",  (5, 2),       None),  # ms
        "kb search by meaning": ("ours",  (8, 4),       None),  # ms
        "web page":             ("ours",  (0.3, 0.14),  None),  # s
        "large web page":       ("ours",  (3, 1.75),    None),  # s
        "loop beside a web page": ("ours", (5, 2),      None),  # ms
        "start beside idle sessions": ("ratio", (1.1, 1.0), None),
        "delivery to 100":      ("ratio", (1.15, 1.0),  None),
        "delivery to 1,000":    ("ratio", (1.15, 1.0),  None),
        "lag of 1,000 readers": ("ratio", (1.25, 1.0),  None),
        "lag of 1,000 readers itself": ("ours", (500, 300), None),  # ms
        "lag of 1,000 sessions": ("ours", (500, 425),   None),  # ms
        "health beside readers": ("ours", (300, 150),   None),  # ms
        "health beside readers and bare": ("ratio", (0.3, 0.13), None),
        "back at 2 a second":   ("ours",  (5, 1.5),     None),  # s
        "back at 10 a second":  ("ours",  (10, 3.2),    None),  # s
        "beside a stalled reader": ("ratio", (1.1, 1.0), None),
        "open subscriber":      ("ours",  (48, 41),     None),  # KiB
        "open subscriber and bare": ("ratio", (1.25, 1.1), None),
        "caller left":          ("ours",  (50, 5),      None),  # ms
        "streams closed":       ("ours",  (1.5, 0.94),  None),  # s
        "chat":                 ("ratio", (2.6, 2.2),   None),
        "host adds":            ("ours",  (100, 30),    None),  # µs
        "ten plugins add":      ("ours",  (1000, 490),  None),  # µs
        "gate 6 adds":          ("ours",  (100, 45),    None),  # µs
        "a provider adds":      ("ours",  (100, 50),    None),  # µs
        "evaluated cases":      ("ratio", (1.3, 1.1),   None),
        "session shown":        ("ours",  (1, 0.5),     None),  # s
        "page of a session":    ("ours",  (2, 1),       None),  # s
        "size of a page":       ("ours",  (3, 1),       None),  # MB
        "acp start":            ("ratio", (1.3, 1.1),   None),
        "acp cancel":           ("ours",  (50, 20),     None),  # ms
        "delta of a wire":      ("ours",  (5, 3),       None),  # µs
        "delivery over a wire": ("ratio", (1.3, 1.1),   None),
        "first frame of a completion": ("ours", (2, 1), None),  # ms
        "lag of 200 completions": ("ratio", (2.0, 1.5), None),
        "forwarded call":       ("ratio", (2.0, 1.8),   None),
        "forwarded delta":      ("ours",  (60, 50),     None),  # µs
        "forwarded first frame": ("ours", (5, 3),       None),  # ms
        "appends over PostgreSQL": ("ratio", (1.43, 1.25), None),  # 70 and 80 % of what a bare loop writes in the same time
        "CPU of cycles on PostgreSQL": ("ratio", (1.4, 1.2), None),
        "connections of a node": ("ours", (5, 5),       None),
        "takeover after the report": ("ours", (1.5, 0.8), None),  # s
        "takeover beyond the lease": ("ours", (2, 0.8), None),  # s
        "takeover of 1,000":    ("ours",  (10, 5),      None),  # s
        "silence of a move":    ("ours",  (0.5, 0.2),   None),  # s
        "mcp call":             ("ratio", (1.5, 1.2),   None),
        "mcp transport":        ("ratio", (1.0, 0.9),   None),
        "loop beside a large message": ("ours", (50, 25), None),  # ms
        "lost call answered":   ("ours",  (100, 20),    None),  # ms
        "lost server back":     ("ours",  (0.7, 0.6),   None),  # s
        "abort of an mcp call": ("ours",  (50, 10),     None),  # ms
        "abort of an mcp call over http": ("ours", (100, 20), None),  # ms
        "closing mcp servers":  ("ours",  (2.5, 1.0),   None),  # s
        "closing stubborn mcp servers": ("ours", (6.5, 5), None),  # s
        "mcp crowd":            ("ours",  (50, 30),     None),  # ms
        "idle mcp server":      ("ours",  (128, 100),   None),  # KiB
        "abort over a WebSocket": ("ours", (150, 50),   None),  # ms
        "CPU of metrics":       ("ratio", (1.05, 1.03), None),
        "scrape":               ("ours",  (50, 30),     None),  # ms
        "loop beside a scrape": ("ours",  (20, 10),     None),  # ms
        "task":                 ("ratio", (2.0, 1.65),  None),
        "100 agents":           ("ratio", (1.6, 1.4),   None),
        "abort of 8 said":      ("ours",  (2, 0.9),     None),  # ms
        "abort of 8 gone":      ("ours",  (10, 3.7),    None),  # ms
        "configuration":        ("ours",  (300, 150),   None),  # ms
        "skills":               ("ours",  (60, 60),     None),  # ms
        "start import":         ("ours",  (50, 30),     None),  # ms
        "start version":        ("ours",  (250, 150),   None),  # ms
        "start chat":           ("ours",  (600, 400),   None),  # ms
        "echo of a key":        ("ours",  (30, 15),     None),  # ms
        "session opened":       ("ours",  (400, 400),   None),  # ms; from here on as the console's specification has them
        "page back":            ("ours",  (150, 150),   None),  # ms
        "late frames at the end": ("ours", (1, 1),      None),  # %
        "late frames sweeping": ("ours",  (3, 3),       None),  # %
        "late frames jumping":  ("ours",  (5, 5),       None),  # %
        "key to paint":         ("ours",  (100, 100),   None),  # ms
        "longest task":         ("ours",  (50, 50),     None),  # ms
        "nodes":                ("ours",  (1500, 1500), None),
        "heap of a page":       ("ours",  (60, 60),     None),  # MiB
        "back after a cut":     ("ours",  (500, 500),   None),  # ms
        "first load":           ("ours",  (600, 600),   None),  # ms
        "draws of a list":      ("ours",  (4, 4),       None),  # a second
        "page at rest":         ("ours",  (1, 1),       None),  # %
        "files of the console": ("ours",  (400, 400),   None),  # KiB
        "packed files of the console": ("ours", (120, 120), None),  # KiB
    }
)  # fmt: skip


def target_of(name: str, build: Build | None = None) -> Target:
    """Give what a row of the table is held against, for the build in use or another one."""
    of, pure, compiled = TABLE[name]
    must, aim = compiled if compiled and (build or build_in_use()) == "compiled" else pure
    return Target(of=of, must=must, aim=aim)

"""Evals: run cases, score what their sessions did, and compare with a baseline.

report = await evaluate(Dataset("sums", [Case("What is 2 + 3?", "5")]), blueprint, [contains])
"""

from agentrail.evals.dataset import Case as Case, Dataset as Dataset, read_cases as read_cases
from agentrail.evals.evaluate import EvalTask as EvalTask, evaluate as evaluate
from agentrail.evals.report import (
    CaseRun as CaseRun,
    EvalReport as EvalReport,
    compare_reports as compare_reports,
    decode_report as decode_report,
    encode_junit as encode_junit,
    encode_report as encode_report,
)
from agentrail.evals.scorers import (
    Judge as Judge,
    Score as Score,
    Scorer as Scorer,
    approved_first as approved_first,
    below as below,
    contains as contains,
    exact as exact,
    json_equals as json_equals,
    schema as schema,
    tools_called as tools_called,
)
from agentrail.evals.trace import Trace as Trace, trace_of as trace_of

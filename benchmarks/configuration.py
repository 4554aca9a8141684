"""What `agentrail config check` takes, once it runs: files are read, agents are built and shown; beside `tomllib`, which only reads."""

import tomllib
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Final

from agentrail.blueprints.builder import faults_of_building
from agentrail.blueprints.configuration import read_configuration
from agentrail.cli.config_command import show_configuration
from benchmarks.bars import target_of
from benchmarks.explain import explain_in_a_folder
from benchmarks.measure import Effort, Row, Sample, interleave
from benchmarks.ours import expect

_AGENTS: Final = 100
_RULES: Final = 500
_MILLISECONDS: Final = 1e3


def configuration(effort: Effort) -> list[Row]:
    """A file of 100 agents and 500 rules, checked as the command does it, without the start of the interpreter."""
    agents, rules = effort.of(_AGENTS), effort.of(_RULES)
    text = _file_of(agents, rules)
    fill, check = partial(_put, text), partial(_check, agents=agents, rules=rules)
    with TemporaryDirectory() as folder:
        fill(folder)
        rounds = interleave(
            partial(_only_read, text),
            partial(check, folder),
            effort.rounds,
            explain=partial(explain_in_a_folder, fill, check),
        )
    what = f"a check of {agents} agents and {rules} rules; bare: tomllib reads the text"
    return [
        rounds.row(
            "config", "seconds", what, unit="ms", factor=_MILLISECONDS, target=target_of("configuration")
        )
    ]


def _check(folder: str, *, agents: int, rules: int) -> Sample:
    began_at = process_time()
    read = read_configuration({}, cwd=Path(folder), trust_project=True)
    faults = (*read.faults, *faults_of_building(read.settings))
    lines = [*show_configuration(read, {})]
    took = process_time() - began_at
    expect("agents and faults", (len(read.settings.agents), len(faults)), (agents, 0))
    expect("rules that are shown", sum("shell(" in line for line in lines), rules)
    return {"seconds": took}


def _only_read(text: str) -> Sample:
    began_at = process_time()
    tomllib.loads(text)
    return {"seconds": process_time() - began_at}


def _put(text: str, folder: str) -> None:
    (Path(folder) / "agentrail.toml").write_text(text, encoding="utf-8")


def _file_of(agents: int, rules: int) -> str:
    half = rules // 2
    lists = {
        "deny": [f"shell(rm {number} *)" for number in range(half)],
        "allow": [f"shell(git {number} *)" for number in range(rules - half)],
    }
    lines = ["version = 1", "[defaults]", 'plugins = ["SecurityGuard"]', "[permissions]"]
    for name, listed in lists.items():
        lines += [f"{name} = [", *(f'    "{rule}",' for rule in listed), "]"]
    for number in range(agents):
        lines += [
            f"[agents.agent-{number}]",
            f'description = "Agent {number}."',
            f'prompt = """\nYou are agent {number}.\nYou read.\n"""',
            'tools = ["read_file", "grep", "glob"]',
            'plugins = [{ use = "HumanApproval", options = { timeout_seconds = 0 } }]',
            "max_turns = 9",
            "budget = { max_cost_usd = 1.5, max_total_tokens = 100_000 }",
            "",
        ]
    return "\n".join(lines)

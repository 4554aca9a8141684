"""What the command line asks of `agentrail chat`. Imports nothing that works."""

from pathlib import Path
from typing import Annotated, TypeAlias

from attrs import frozen
from cyclopts import Parameter

from agentrail.cli.choices import ApproveOption, Choices
from agentrail.cli.configuring import CommandSetup, ConfigFiles
from agentrail.cli.kept_in import KeepingOptions

ResumeOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        help="Go on with a session that was kept: --resume ID, or --resume alone for the one that was at work last.",
        show_default=False,
    ),
]

ConnectOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        help="Talk with a session on this server, with the token of AGENTRAIL_TOKEN; --agent names its profile, --resume ID one that is there.",
        show_default=False,
    ),
]


CodingOption: TypeAlias = Annotated[
    bool,
    Parameter(
        help="Talk with the built-in coding agent: tools for files, a shell, a list of tasks and sub-agents. It asks before it changes "
        "anything or runs a command, unless a rule of [permissions] allows it.",
        negative="",
        show_default=False,
    ),
]


@frozen(kw_only=True)
class ChatOrder:
    """What the command line asks for.

    Attributes:
        keeping: How the session is kept, and which one comes back.
        files: The configuration files that are to be read first; None where they were, or do not count.
        setup: What configuration files say; None where there are none.
        trust_project: Whether the project's files count as trusted, this time.
        config: The file of configuration that was named; None where none was.
        connect: The server on which the session lives; None for this process.
        agent: The agent of the configuration, or the profile of the server; None for the usual one.
        coding: Whether the built-in coding agent is meant, in place of one of the configuration.
    """

    choices: Choices
    approve: ApproveOption
    keeping: KeepingOptions
    files: ConfigFiles | None = None
    setup: CommandSetup | None = None
    trust_project: bool = False
    config: Path | None = None
    connect: str | None = None
    agent: str | None = None
    coding: bool = False

"""The command line of `agentrail chat` as a value. Imports no heavy modules."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import trio
from attrs import frozen
from cyclopts import Parameter

from agentrail.cli.config_setup import CommandSetup, ConfigFiles
from agentrail.cli.ctrl_c import Interrupts
from agentrail.cli.run_options import ApproveOption, Choices
from agentrail.cli.storage_options import KeepingOptions

if TYPE_CHECKING:
    from agentrail.cli.terminal.live_view import TerminalView

ResumeOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        help="Resume a stored session: --resume ID, or --resume alone for the most recently active one."
    ),
]

ConnectOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        help="Chat with a session on this server, with the token of AGENTRAIL_TOKEN; --agent names its profile, --resume ID an existing session."
    ),
]


CodingOption: TypeAlias = Annotated[
    bool,
    Parameter(
        help="Talk with the built-in coding agent: tools for files, a shell, a list of tasks and sub-agents. It asks before it changes "
        "anything or runs a command, unless a rule of [permissions] allows it."
    ),
]


@frozen
class ChatStage:
    """What all conversations of a process share: the terminal, and the handlers of its signals."""

    terminal: "TerminalView | None"
    nursery: trio.Nursery
    interrupts: Interrupts
    hang_ups: Interrupts


@frozen(kw_only=True)
class ChatOrder:
    """The command line of a chat.

    Attributes:
        files: The configuration files to read first, or None if already read or not used.
        setup: The settings of the configuration files, or None if there are none.
        config: The configuration file given on the command line, or None.
        connect: The server that runs the session, or None for this process.
        agent: The agent of the configuration, or the profile of the server. None selects the default.
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

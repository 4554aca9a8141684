"""The options that `run` and `chat` share, as typed. Imports no heavy modules. `run_setup.py` evaluates them."""

from pathlib import Path
from typing import Annotated, Final

from attrs import frozen
from cyclopts import Parameter, validators

from agentrail.cli.log_output import Debug
from agentrail.sandboxes.fallback import ShellFallback

DEFAULT_TOOLS: Final = "list_dir,read_file"
"""The tools that only read. `shell` must be requested."""
ALL_TOOLS: Final = "ask_user, compact_conversation, edit_file, glob, grep, list_dir, read_file, shell, task, write_file, write_todos"
"""The names of `agentrail.tools.builtin()`, written out: importing the tools would delay the prompt. A test keeps both equal."""

BaseUrl = Annotated[
    str | None, Parameter(help="The address of the provider's server, such as http://localhost:11434/v1.")
]
ApproveOption = Annotated[
    str | None,
    Parameter(
        help="Tools that wait for your /approve or /reject before they run: names or patterns, comma-separated, "
        "such as shell, or *; none runs all without approval. Default: each tool that does more than read, unless a plugin or "
        "[permissions] of the configuration asks."
    ),
]
Model = Annotated[
    str | None,
    Parameter(help="The model, as provider:name. Default: the model of the environment, otherwise demo:."),
]


@Parameter(name="*")
@frozen(kw_only=True)
class Choices:
    """The options that `run` and `chat` share.

    Attributes:
        model: The model string, or None to choose from the environment.
        base_url: URL of the provider's server, or None for the default of the environment or vendor.
    """

    model: Model = None
    base_url: BaseUrl = None
    cwd: Annotated[
        Path,
        Parameter(
            help="The working directory of the tools.",
            validator=validators.Path(exists=True, file_okay=False),
        ),
    ] = Path()
    sandbox: Annotated[
        str | None,
        Parameter(
            help="The place of files and commands: local, local:/path, memory, http://host:port of agentrail sandbox serve, or "
            "container:IMAGE. Default: as configured, otherwise local."
        ),
    ] = None
    tools: Annotated[
        str | None,
        Parameter(
            help=f"Tools that the model may call, comma-separated, or none: {ALL_TOOLS}. "
            f"Tools that change files or run commands must be named. Default: those of the configuration, otherwise {DEFAULT_TOOLS}."
        ),
    ] = None
    shell_fallback: Annotated[
        ShellFallback,
        Parameter(
            help="How to treat commands that bubblewrap cannot confine: refuse them, or run them "
            "unconfined, with all your rights. agentrail doctor shows whether it can."
        ),
    ] = "refuse"
    system: Annotated[str | None, Parameter(help="Instructions placed before the conversation.")] = None
    max_turns: Annotated[
        int | None,
        Parameter(
            help="The maximum number of model requests in one cycle. Default: as configured, otherwise 100.",
            validator=validators.Number(gte=1),
        ),
    ] = None
    max_retries: Annotated[
        int | None,
        Parameter(
            help="The maximum number of retries after a transient error. 0 reports it at once. "
            "Default: as configured, otherwise 3.",
            validator=validators.Number(gte=0),
        ),
    ] = None
    opt: Annotated[
        tuple[str, ...],
        Parameter(
            help="An option of the provider as key=value, such as stall_seconds=60; repeatable. Tables and lists are "
            "written as JSON.",
            negative=(),
        ),
    ] = ()
    dangerously_bypass_permissions: Annotated[
        bool,
        Parameter(
            help="Let the mode bypass hold, where the configuration's permissions have it: calls that no rule is about run unasked."
        ),
    ] = False
    debug: Debug = False

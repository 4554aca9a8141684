"""The code that a stored session needs to resume: from the files of its working directory, and built in."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from attrs import frozen

from agentrail import outside
from agentrail.abc.store import Store, StoredSession
from agentrail.cli.config_setup import CommandSetup, ConfigFiles, options_of_files, read_setup, with_agent
from agentrail.cli.resume_option import LATEST
from agentrail.cli.run_options import Choices
from agentrail.cli.run_setup import AGENT_KEY, CODING_KEY, SANDBOX_KEY, decide_provider_options
from agentrail.cli.store_access import find_one, latest_of, shown_id
from agentrail.errors import OptionError, Unrevivable
from agentrail.runtime.session_loader import StoredOpening, opening_of
from agentrail.tools import builtin, builtin_names

_USUAL_FILES: Final = ConfigFiles()

_CODE: Final = ("plugins", "agents", "context_providers", "sandbox")


@frozen(kw_only=True)
class Resumable:
    """A stored session, and its original setup.

    Attributes:
        setup: The settings of its agent in files, or None if there are none.
    """

    stored: StoredSession
    opening: StoredOpening
    setup: CommandSetup | None

    @property
    def working_dir(self) -> Path:
        return Path(self.opening.config.working_dir)


async def find_resumable(
    store: Store, wanted: str, files: ConfigFiles = _USUAL_FILES, agent: str | None = None
) -> Resumable:
    find = partial(latest_of, store) if wanted == LATEST else partial(find_one, store, wanted, "")
    return await resumable_of(store, await outside.offload(find), files, agent)


async def resumable_of(
    store: Store, stored: StoredSession, files: ConfigFiles = _USUAL_FILES, agent: str | None = None
) -> Resumable:
    """Read the opening of a stored session, and the files of its working directory.

    Cancellation: At once.
    """
    opening = await outside.offload(partial(opening_of, store, stored))
    return Resumable(stored=stored, opening=opening, setup=setup_of(opening, files, agent))


def setup_of(opening: StoredOpening, files: ConfigFiles, agent: str | None = None) -> CommandSetup | None:
    """Read the files of a stored session's working directory, or return None if there are none. Blocks."""
    data = opening.config.user_data
    coding = agent is None and data.get(CODING_KEY) is True
    setup = read_setup(files, agent, Path(opening.config.working_dir), coding=coding)
    began = data.get(AGENT_KEY)
    if setup is None or coding or agent is not None or not isinstance(began, str):
        return setup
    return with_agent(setup, began) if began in setup.configuration.settings.agents else setup


def code_of(
    opening: StoredOpening, setup: CommandSetup | None, choices: Choices | None = None
) -> Mapping[str, Any]:
    """Return the code of a stored session, as options of `resume_session`. Missing parts are left out."""
    model = (choices.model if choices is not None else None) or opening.config.model.model
    may_bypass = choices is not None and choices.dangerously_bypass_permissions
    of_files = options_of_files(setup, model, os.environ, may_bypass=may_bypass)
    tools = {tool.name: tool for tool in (*builtin(*builtin_names()), *of_files.get("tools", ()))}
    given: dict[str, Any] = {name: of_files[name] for name in _CODE if name in of_files}
    given["tools"] = tuple(tools[name] for name in opening.tools if name in tools)
    opts = dict(of_files.get("provider_opts", {}))
    named = opening.config.user_data.get(SANDBOX_KEY)
    if isinstance(named, str):
        given["sandbox"] = named
    if choices is not None:
        opts |= decide_provider_options(choices)
        given |= {"model": choices.model} if choices.model is not None else {}
        given |= {"sandbox": choices.sandbox} if choices.sandbox is not None else {}
    return given | ({"provider_opts": opts} if opts else {})


def refuse_without_code(error: Unrevivable, resumable: Resumable) -> NoReturn:
    """Raise an error with advice for the command line, in place of the one for callers of the API."""
    setup = resumable.setup
    if setup is None:
        where = f"no configuration file applies in {resumable.working_dir}, so only built-in ones exist"
        advice = "name its original file with --config"
    elif setup.configuration.notice is not None:
        where = f"{resumable.working_dir} is not trusted, so its files add nothing"
        advice = "review them, then run agentrail trust there or pass --trust-project"
    else:
        began = resumable.opening.config.user_data.get(AGENT_KEY)
        who = "[defaults]" if setup.agent is None else f"agent {setup.agent!r}"
        where = f"{who} in the files of {resumable.working_dir} no longer has them"
        back = "put them back"
        if isinstance(began, str) and began not in setup.configuration.settings.agents:
            where = (
                f"the files of {resumable.working_dir} no longer define the agent {began!r}, which started it"
            )
            back = "put it back"
        again = f"agentrail chat --resume {shown_id(resumable.stored)} --agent NAME"
        advice = f"{back}, or name an agent that has them: {again}"
    missing = ", ".join(error.missing)
    message = f"session {shown_id(resumable.stored)!r} cannot be resumed without {missing}: {where}; {advice}"
    raise OptionError([message]) from error

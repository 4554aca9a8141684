"""Default stores of `agentrail memory` and `agentrail kb`: same as for the server and the chats of this project."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from agentrail.blueprints.configuration import read_configuration
from agentrail.cli.host_config import directory_of_host, named_databases
from agentrail.cli.storage_options import DEFAULT_STORE

PLACES: Final = "Without it and without --data-dir: as [host] of the configuration says, else sqlite:."


def decide_place(
    key: Literal["memories", "knowledge", "store"],
    named: str | None,
    data_dir: Path | None,
    environ: Mapping[str, str],
) -> tuple[str, Path | None]:
    if named is not None or data_dir is not None:
        return named or DEFAULT_STORE, data_dir
    settings = read_configuration(environ).check().settings
    return named_databases(settings).get(key, DEFAULT_STORE), directory_of_host(settings, environ)

"""Secrets referenced by configuration files."""

import os
from collections.abc import Mapping
from pathlib import Path

from agentrail.blueprints.config_discovery import read_bytes
from agentrail.config.schema import SecretForm
from agentrail.errors import OptionError
from agentrail.private_paths import keep_private


def secret_of(form: SecretForm, folder: str, environ: Mapping[str, str]) -> str:
    if form.env is not None:
        found = environ.get(form.env, "").strip()
        if not found:
            raise OptionError([f"the variable {form.env} is not set: set it, or remove this key"])
        return found
    path = Path(folder) / os.path.expanduser(form.file or "")  # noqa: PTH111 - of a text
    keep_private(path)
    try:
        found = read_bytes(path).decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        found = ""
    if not found:
        raise OptionError([f"{path} is empty: write the secret to it as text, and nothing else"])
    return found

"""Secrets referenced by configuration files."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from attrs import define

from agentrail import outside
from agentrail.abc import Secret
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


@define(eq=False, repr=False)
class KeyFile:
    """A provider's key in a file, read again for each request. If it cannot be read, the last key stays."""

    _form: SecretForm
    _folder: str
    _key: Secret

    @property
    def secrets(self) -> tuple[Secret]:
        """The last key."""
        return (self._key,)

    async def __call__(self) -> Secret:
        with suppress(OptionError):
            self._key = Secret(await outside.offload(secret_of, self._form, self._folder, {}))
        return self._key

"""`Webhooks`: signing secrets and allowed addresses of webhooks."""

import base64
import binascii
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from attrs import field, frozen

from agentrail.abc.secret import Secret
from agentrail.errors import OptionError
from agentrail.host.webhook_address import read_address
from agentrail.otp.guarded_calls import is_async
from agentrail.web.url_policy import AddressRefused, AllowedPlaces, read_allowed

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - what stands in front of one
_SECRET_BYTES: Final = range(24, 65)
_MAX_SECRETS: Final = 2
"""The new and the old secret, during a rotation."""


@frozen(kw_only=True)
class SignedWebhook:
    """One complete attempt of a message.

    Attributes:
        url: Target address.
        headers: All headers except `Host` and the length.
        body: JSON.
    """

    url: str = field(repr=False)
    headers: tuple[tuple[str, str], ...]
    body: bytes


SendWebhook: TypeAlias = Callable[[SignedWebhook], Awaitable[int]]
"""Sends a webhook and returns the status of the answer. Raises if there is none. Cancelled after ten seconds."""

WebhookSecrets: TypeAlias = str | Secret | Sequence[str | Secret]
"""A secret in the form of Standard Webhooks, `whsec_` and base64 of 24 to 64 bytes. Or the new and the old one."""


def read_secrets(given: object) -> tuple[bytes, ...]:
    several = [given] if isinstance(given, str | Secret) else given
    if not isinstance(several, Sequence) or not 1 <= len(several) <= _MAX_SECRETS:
        fault = "webhooks need one secret, or a new and an old one: expected 'whsec_…', or two of them"
        raise OptionError([fault])
    return tuple([_read_secret(one) for one in several])


def _read_secret(given: object) -> bytes:
    text = given.reveal() if isinstance(given, Secret) else given
    if isinstance(text, str) and text.startswith(SECRET_PREFIX):
        try:
            key = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
        except (binascii.Error, ValueError):  # the latter for text that is not ASCII
            key = b""
        if len(key) in _SECRET_BYTES:
            return key
    fault = "a webhook secret is invalid: expected 'whsec_' and the base64 of 24 to 64 bytes, as printed by `python -c \"import base64, secrets; print('whsec_' + base64.b64encode(secrets.token_bytes(32)).decode())\"`"
    raise OptionError([fault])


def _texts(given: Any) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        return (given,)
    return tuple(given)


@frozen(kw_only=True)
class Webhooks:
    """Notification of receivers about requests that have ended or wait for the user.

        Webhooks(secret="whsec_…", allow=["10.1.0.0/16"])

    Attributes:
        secret: Signing secret. For a host with several tenants, a function that returns the secrets of a tenant by its
            id: a receiver that can verify a signature can also forge one.
        allow: Allowed targets in addition to public servers over TLS: networks such as `10.1.0.0/16`, hosts such as
            `hooks.corp.example`, and origins such as `http://127.0.0.1:9000`. Only origins may be without TLS.
        url: Address for the end of each request that names no address. None: no notification.
        send: Replacement for the built-in client, such as one behind the operator's proxy. It must validate resolved
            addresses itself.
    """

    secret: WebhookSecrets | Callable[[str], WebhookSecrets] = field(repr=False)
    allow: Sequence[str] = field(default=(), converter=_texts)
    url: str | None = field(default=None, repr=False)
    send: SendWebhook | None = None

    allowed: AllowedPlaces = field(init=False, repr=False)

    @allowed.default
    def _check(self) -> AllowedPlaces:
        if not callable(self.secret):
            read_secrets(self.secret)
        if self.send is not None and not is_async(self.send):
            fault = (
                f"send of webhooks is {self.send!r:.80}: expected an async function (`async def`), or None"
            )
            raise OptionError([fault])
        try:
            allowed = read_allowed(self.allow)
        except ValueError as error:
            raise OptionError([f"allow of webhooks: {error}"]) from None
        if self.url is not None:
            given: Any = self.url
            if not isinstance(given, str):
                raise OptionError([f"url of webhooks is {given!r:.80}: expected an address, or None"])
            try:
                read_address(given, allowed)
            except AddressRefused as error:
                raise OptionError([f"url of webhooks: {error}; `allow` lists the exceptions"]) from None
        return allowed

    def secrets_of(self, tenant_id: str) -> tuple[bytes, ...]:
        """Return the signing secrets for a tenant, the new one first.

        Raises:
            OptionError: The operator's move: the function returned no valid secret.
            Exception: Raised by the function.
        """
        given = self.secret(tenant_id) if callable(self.secret) else self.secret
        return read_secrets(given)

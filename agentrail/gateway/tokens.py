"""Access tokens: their file, lookup and creation. No exception or output repeats contents of a file or a header."""

import datetime
import difflib
import hashlib
import hmac
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from agentrail import outside
from agentrail.errors import OptionError
from agentrail.host.hook_payloads import Principal, frozen_scopes
from agentrail.host.identity import fault_of_name
from agentrail.otp.field_rules import all_items, misfits
from agentrail.otp.guarded_calls import repr_of
from agentrail.private_paths import keep_private

SCOPES: Final[tuple[str, ...]] = ("use", "inspect", "decide", "metrics")
"""Scopes of a token."""

PREFIX: Final = "agt_"
"""Prefix of generated tokens, so that scanners can find leaked ones."""

_TOKEN_BYTES: Final = 32
_MAX_FILE_BYTES: Final = 1 << 20
_MAX_TOKEN_LENGTH: Final = 4_096
_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)
_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})")
_KEYS: Final = ("digest", "tenant", "user", "scopes", "expires")
_PLACE: Final = re.compile(r"\(at (line \d+, column \d+|end of document)\)")


@frozen(kw_only=True)
class TokenEntry:
    """A token, as listed in a file.

    Attributes:
        digest: SHA-256 of the token, 32 bytes.
        tenant_id: Tenant of the token.
        user_id: User of the token, or empty if it is valid for the whole tenant and the call names the user.
        scopes: Any of `use`, `inspect`, `decide` and `metrics`.
        expires_at: Time of its expiry, in seconds since 1970, or None for never.
    """

    digest: bytes = field(repr=False)
    tenant_id: str
    user_id: str = ""
    scopes: frozenset[str] = field(default=frozenset({"use"}), converter=frozen_scopes)
    expires_at: float | None = None

    def __attrs_post_init__(self) -> None:
        """Check the fields.

        Raises:
            OptionError: The operator's move. Lists all faults at once.
        """
        OptionError.raise_for([*_faults_of_entry(self)])

    @property
    def principal(self) -> Principal:
        """The caller that it identifies."""
        return Principal(tenant_id=self.tenant_id, user_id=self.user_id, scopes=self.scopes)


class Tokens:
    """Access tokens of a server: one kind of `auth`.

        tokens = read_token_file("/etc/agentrail/tokens.toml")
        app = create_app(profiles=[…], auth=tokens)

    A server follows the file. Added tokens are admitted and removed ones refused within seconds, and open
    sockets and streams of a removed token end.

    Attributes:
        entries: Currently valid tokens. They can be replaced by others, or by none, which admits no caller.
        path: The file they were read from by `read_token_file`, or None for tokens that follow no file.
    """

    __slots__ = ("entries", "path")

    def __init__(self, entries: Iterable[TokenEntry]) -> None:
        """Create the set of tokens.

        Raises:
            OptionError: The operator's move: there is none, or two have the same digest.
        """
        self.entries: tuple[TokenEntry, ...] = all_items(entries)
        self.path: Path | None = None
        OptionError.raise_for([*misfits("entries", self.entries, tuple[TokenEntry, ...], is_shown=False)])
        if not self.entries:
            raise OptionError(["there is no token: create one with `agentrail token new`"])
        _refuse_doubles(self.entries)

    def __repr__(self) -> str:
        """Return the number of tokens."""
        return f"Tokens({len(self.entries)} entries)"

    def __call__(self, headers: Mapping[str, str]) -> Principal | None:
        """Return the caller. See `Authenticate`.

        Args:
            headers: Headers of the call, names in lower case.

        Returns:
            The principal, whose `user_id` is empty if the call has to name the user. None for a token that is
            missing, malformed, unknown or expired, without distinction.
        """
        return self.find(bearer_token(headers), outside.wall())

    def expires_at(self, headers: Mapping[str, str]) -> float | None:
        """Return when the token of a call expires, in seconds since 1970. None if never, or if the token is not valid."""
        entry = self._entry(bearer_token(headers), outside.wall())
        return None if entry is None else entry.expires_at

    def find(self, token: str | None, now: float) -> Principal | None:
        """Look up a token, in the same time for unknown and known ones.

        Args:
            token: Token of the call, or None.
            now: Current time, in seconds since 1970.
        """
        entry = self._entry(token, now)
        return None if entry is None else entry.principal

    def _entry(self, token: str | None, now: float) -> TokenEntry | None:
        # A missing token is looked up too, so that response times do not distinguish it from a wrong one.
        digest = hashlib.sha256((token or "").encode("utf-8", "replace")).digest()
        found = None
        for entry in self.entries:  # all of them, even after a match
            if hmac.compare_digest(entry.digest, digest):
                found = entry
        if found is None or not token or (found.expires_at is not None and now >= found.expires_at):
            return None
        return found


def bearer_token(headers: Mapping[str, str]) -> str | None:
    given = headers.get("authorization", "")
    # Two headers of this name are joined by a comma, which no token contains.
    found = _BEARER.fullmatch(given.strip(" \t")) if len(given) <= _MAX_TOKEN_LENGTH else None
    return None if found is None else found[1]


# --- the file


def read_token_file(path: str | os.PathLike[str]) -> Tokens:
    """Read a token file: TOML, accessible only to its owner.

    A server with these tokens reads it again when it changes.

    Raises:
        OptionError: The operator's move: the file cannot be read, others may read it, or it is not a token
            file. All faults of its entries are reported at once, by their place.

    Cancellation: Blocks and is not cancellable. Meant for the start of a program.
    """
    tokens = decode_tokens(read_private_file(Path(path)), f"{path}")
    tokens.path = Path(path).absolute()
    return tokens


def decode_tokens(text: bytes, name: str) -> Tokens:
    entries = decode_entries(text, name)
    try:
        return Tokens(entries)
    except OptionError as error:
        raise OptionError([f"{name}: {fault}" for fault in error.faults]) from None


def decode_entries(text: bytes, name: str) -> tuple[TokenEntry, ...]:
    """Return the entries in the text of a token file, possibly none."""
    try:
        given = tomllib.loads(text.decode("utf-8-sig"))
    except ValueError as error:  # also raised by Python for a number of thousands of digits
        # Only the place, because the message may repeat contents of the file.
        place = _PLACE.search(str(error))
        message = f"{name} is not TOML{f', at {place[1]}' if place else ''}: `agentrail token new` prints the lines of an entry"
        raise OptionError([message]) from None
    except RecursionError:
        raise OptionError([f"{name} is nested too deeply to be a token file"]) from None
    faults = [f"{name}: unknown {_near(key, ('token',))}" for key in given if key != "token"]
    tables = given.get("token", [])
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        faults.append(f"{name}: `token` is not a list of tables: write [[token]] above each entry")
        tables = []
    entries = []
    for place_of, table in enumerate(tables, 1):
        try:
            entries.append(_entry_of(table))
        except OptionError as error:
            faults += [f"{name}, entry {place_of}: {fault}" for fault in error.faults]
    OptionError.raise_for(faults)
    _refuse_doubles(entries, f"{name}: ")
    return tuple(entries)


def _refuse_doubles(entries: Sequence[TokenEntry], before: str = "") -> None:
    if len({entry.digest for entry in entries}) < len(entries):
        message = f"{before}two entries have the same digest: a token belongs to one user, so create another"
        raise OptionError([message])


def read_private_file(path: Path) -> bytes:
    """Read a file that only its owner may access, and keep all sessions from reading it."""
    keep_private(path)
    try:
        # Checked after opening, because a path may change between two accesses. Does not block on a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            fault = fault_of_mode(os.fstat(descriptor), os.geteuid())
            if fault is not None:
                raise OptionError([f"the token file {f'{path}'!r} {fault}"])
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                text = file.read(_MAX_FILE_BYTES + 1)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "this is not a valid path"
        if isinstance(error, FileNotFoundError):
            why += "; `agentrail token new --token-file` creates it, with its first token"
        raise OptionError([f"the token file {f'{path}'!r} cannot be read: {why}"]) from None
    if len(text) > _MAX_FILE_BYTES:
        raise OptionError([f"the token file {f'{path}'!r} has more than {_MAX_FILE_BYTES:,} bytes"])
    return text


def fault_of_mode(found: os.stat_result, user: int) -> str | None:
    """Return why a file must not contain tokens, or None."""
    if not stat.S_ISREG(found.st_mode):
        return "is not a file"
    if found.st_uid not in {user, 0}:
        return "belongs to another user, who may change it: take ownership with chown"
    if stat.S_IMODE(found.st_mode) & 0o077:
        return f"can be read or changed by others (mode {stat.S_IMODE(found.st_mode):04o}): restrict it with chmod 600"
    return None


def _entry_of(table: Mapping[str, Any]) -> TokenEntry:
    faults = [f"unknown {_near(key, _KEYS)}" for key in table if key not in _KEYS]
    digest = table.get("digest")
    found = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
    if found is None:
        # Not repeated: it may be a token in place of a digest.
        faults.append(
            "`digest` is not `sha256:` with 64 lower-case hexadecimal digits; `agentrail token new` prints one"
        )
    expires = table.get("expires")
    if expires is not None and (not isinstance(expires, datetime.datetime) or expires.tzinfo is None):
        faults.append(
            "`expires` is not a time with a time zone: write it without quotes, such as 2030-01-31T00:00:00Z"
        )
        expires = None
    scopes = table.get("scopes", ["use"])
    if not isinstance(scopes, list) or not all(isinstance(one, str) for one in scopes):
        faults.append('`scopes` is not a list of texts: write ["use"], or ["use", "decide"]')
        scopes = ["use"]
    try:
        entry = TokenEntry(
            digest=bytes.fromhex(found[1]) if found else bytes(32),
            tenant_id=table.get("tenant", ""),
            user_id=table.get("user", ""),
            scopes=scopes,
            expires_at=None if expires is None else expires.timestamp(),
        )
    except OptionError as error:
        raise OptionError([*faults, *error.faults]) from None
    OptionError.raise_for(faults)
    return entry


def _faults_of_entry(entry: TokenEntry) -> Iterator[str]:
    given: Any = entry  # untyped, because mypy trusts the annotations, which are being checked here
    if not isinstance(given.digest, bytes) or len(given.digest) != hashlib.sha256().digest_size:
        yield "the digest is not a SHA-256, which has 32 bytes"
    fault = "`tenant` is missing" if given.tenant_id == "" else fault_of_name("`tenant`", given.tenant_id)
    if fault is not None:
        yield fault
    fault = None if given.user_id == "" else fault_of_name("`user`", given.user_id)
    if fault is not None:
        yield f"{fault}; omit it if requests name their user"
    is_time = isinstance(given.expires_at, int | float) and given.expires_at > float("-inf")  # NaN is not
    if given.expires_at is not None and not is_time:
        yield f"`expires_at` is {repr_of(given.expires_at):.80}: expected seconds since 1970, or None for never"
    if not given.scopes:
        yield f"`scopes` is empty, so the token allows nothing: expected some of {', '.join(SCOPES)}"
    for scope in sorted(given.scopes - set(SCOPES), key=str):
        yield f"`scopes` has an unknown {_near(scope, SCOPES)}"


def _near(name: object, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(f"{name}", known, n=1, cutoff=0.6)
    # A name without a similar one is not repeated either: it may be a token.
    return (
        f"name {name!r}: did you mean {near[0]!r}?" if near else f"name: expected one of {', '.join(known)}"
    )


# --- new tokens


@frozen(kw_only=True)
class NewToken:
    """A new token, with its entry for the token file."""

    token: str = field(repr=False)
    lines: str


def make_token(
    tenant_id: str,
    user_id: str = "",
    *,
    scopes: Sequence[str] = ("use",),
    days: float | None = None,
    now: float,
) -> NewToken:
    token = f"{PREFIX}{outside.ids(_TOKEN_BYTES)}"
    entry = TokenEntry(
        digest=hashlib.sha256(token.encode()).digest(),
        tenant_id=tenant_id,
        user_id=user_id,
        scopes=scopes,
        expires_at=None if days is None else _end_of(days, now),
    )
    return NewToken(token=token, lines=encode_entry(entry))


def encode_entry(entry: TokenEntry) -> str:
    lines = ["[[token]]", f'digest = "sha256:{entry.digest.hex()}"', f'tenant = "{entry.tenant_id}"']
    if entry.user_id:
        lines.append(f'user = "{entry.user_id}"')
    known = [f'"{scope}"' for scope in SCOPES if scope in entry.scopes]
    lines.append(f"scopes = [{', '.join(known)}]")
    if entry.expires_at is not None:
        until = datetime.datetime.fromtimestamp(entry.expires_at, datetime.UTC)
        lines.append(f"expires = {until:%Y-%m-%dT%H:%M:%SZ}")
    return "".join(f"{line}\n" for line in lines)


def _end_of(days: float, now: float) -> float:
    try:
        # Whole seconds, as in the file, so that the printed time is exact.
        end = int(now + days * 86_400)
        datetime.datetime.fromtimestamp(end, datetime.UTC)
    except (OverflowError, ValueError, OSError):  # after the year 9999, or not a number
        end = 0
    if end <= now:
        message = f"a token cannot last for {days:g} days; give a positive number, at most 2,900,000, or omit it for a token that never expires"
        raise OptionError([message])
    return float(end)

"""Options of an MCP server. Pure: they start nothing and import nothing of the library."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, get_args
from urllib.parse import urlsplit

from attrs import field, fields, frozen

from agentrail.abc import Secret
from agentrail.core.values.toolbox import EffectClass
from agentrail.errors import OptionError
from agentrail.otp.child_specs import is_seconds
from agentrail.otp.field_rules import misfits
from agentrail.otp.guarded_calls import repr_of
from agentrail.wire.sandbox_address import is_loopback_host

HintsPolicy = Literal["ignore", "trust"]
PinReaction = Literal["warn", "refuse", "off"]
Grant = Literal["authorization_code", "client_credentials"]
StartMode = Literal["lazy", "eager"]
ServerScope = Literal["supervisor", "principal", "session"]

MAX_MESSAGE_BYTES: Final = 16 << 20
_NAME: Final = re.compile(r"[a-z0-9-]{1,32}")


def _texts(value: Any) -> Any:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _mapping(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


@frozen(kw_only=True)
class OAuthClient:
    """This program as a client of an authorization server, for `oauth=` of `McpServer`.

    Attributes:
        client_id: Id of a client that was registered by hand. None: the client registers itself.
        client_secret: Its secret, if it has one.
        client_metadata_url: Address of a document that describes the client, published by you. Servers that support these take
            the address as its id, and at others the client registers itself.
        scopes: Scopes to ask for, in addition to those that the server demands.
        grant: `authorization_code` for users, who log in with a browser. `client_credentials` for machines, which need an id and a secret.
        issuer: Address of the authorization server that the id and the secret are meant for. They are sent to no other.

    Raises:
        OptionError: Your move: all faults, by option.
    """

    client_id: str | None = None
    client_secret: Secret | None = None
    scopes: tuple[str, ...] = field(default=(), converter=_texts)
    grant: Grant = "authorization_code"
    issuer: str | None = None
    client_metadata_url: str | None = None

    def __attrs_post_init__(self) -> None:
        faults = tuple(faults_of_oauth({one.name: getattr(self, one.name) for one in fields(OAuthClient)}))
        OptionError.raise_for(faults)

    @property
    def auth_method(self) -> Literal["none", "client_secret_basic"]:
        """How the token endpoint learns who the client is."""
        return "none" if self.client_secret is None else "client_secret_basic"


@frozen(kw_only=True)
class McpServer:
    """An MCP server whose tools sessions can use, for `mcp=` of `open_supervisor` and of a session.

        files = McpServer("files", command=["npx", "-y", "@modelcontextprotocol/server-filesystem", "."])

    Attributes:
        name: 1 to 32 of `a-z 0-9 -`. Tools are named `mcp__<name>__<tool>`.
        command: Program and arguments of a server that speaks over its standard streams. It runs with your rights, unless `sandbox` is set.
        url: Address of a server that speaks HTTP: `https`, or `http` on loopback. Exactly one of `command` and `url`.
        cwd: Working directory of the command.
        sandbox: Whether the command is confined to its directory, as commands of a `LocalSandbox` are.
        network: Network access of a confined command: `none`, or that of the `host`.
        env: Environment variables of the command, in addition to `PATH HOME LANG LC_* TZ TERM USER`.
        headers: HTTP headers of each request.
        auth: Bearer token of each request. `oauth`: each user logs in, see `agentrail mcp login`.
        oauth: The client of an `oauth` login. None: it registers itself.
        tools: Names or patterns of the tools to use, such as `read_*`.
        hints: `trust` takes the server's word that a tool only reads or may be repeated. `ignore` treats each tool as `once`.
        effects: Effect classes by the server's tool names, whatever `hints` is.
        pins: File that keeps digests of its tools as they were first seen. None: none are kept.
        pin: Reaction to a tool whose name, description, schema or hints differ from its digest: `warn` reports it once, `refuse`
            hides the tool until `agentrail mcp accept`, `off` keeps no digests.
        scope: The sessions that share one server: all of a `supervisor`, those of one `principal`, or each `session` has its own.
            None: `principal` where users log in, and otherwise `supervisor`.
        start: `lazy` starts it when a session first uses it, `eager` with its supervisor, if all sessions share it.
        required: Whether sessions wait for its tools, and do not start without them.
        connect_timeout: Seconds for the start and the first list of tools.
        timeout_seconds: Seconds for a call.
        max_message_bytes: Size limit of one message of the server.
        allow_private: Whether `url` may lead to a private or link-local address.
        instructions: Whether its instructions are a section of the system prompt, `mcp.<name>`.
        roots: Whether it is told the workspace. Each session has a server of its own then.
        sampling: Whether it may ask the model during a call: one turn without tools, at the session's cost.

    Raises:
        OptionError: Your move: all faults, by option.
    """

    name: str = field(kw_only=False)
    command: tuple[str, ...] = field(default=(), converter=_texts)
    url: str | None = None
    cwd: str | os.PathLike[str] = "."
    sandbox: bool = False
    network: Literal["none", "host"] = "none"
    env: Mapping[str, str | Secret] = field(factory=dict, converter=_mapping, repr=False)
    headers: Mapping[str, str | Secret] = field(factory=dict, converter=_mapping, repr=False)
    auth: Secret | Literal["oauth"] | None = None
    oauth: OAuthClient | None = None
    tools: tuple[str, ...] = field(default=("*",), converter=_texts)
    hints: HintsPolicy = "ignore"
    effects: Mapping[str, EffectClass] = field(factory=dict, converter=_mapping)
    pins: str | os.PathLike[str] | None = None
    pin: PinReaction = "warn"
    scope: ServerScope | None = None
    start: StartMode = "lazy"
    required: bool = False
    connect_timeout: float = 20.0
    timeout_seconds: float = 60.0
    max_message_bytes: int = MAX_MESSAGE_BYTES
    allow_private: bool = False
    instructions: bool = False
    roots: bool = False
    sampling: bool = False

    def __attrs_post_init__(self) -> None:
        faults = tuple(faults_of_server({one.name: getattr(self, one.name) for one in fields(McpServer)}))
        OptionError.raise_for([f"MCP server {repr_of(self.name):.80}: {fault}" for fault in faults])

    def wants(self, tool: str) -> bool:
        """Return whether one of the patterns of `tools` matches a name of the server."""
        return any(fnmatchcase(tool, pattern) for pattern in self.tools)

    def effect_of(self, tool: str, annotations: Mapping[str, Any]) -> EffectClass:
        """Return the effect class of a tool: the user's word, else the server's if it is trusted, else `once`."""
        if tool in self.effects:
            return self.effects[tool]
        if self.hints == "trust" and annotations.get("readOnlyHint") is True:
            return "pure"
        if self.hints == "trust" and annotations.get("idempotentHint") is True:
            return "idempotent"
        return "once"

    @property
    def has_login_per_principal(self) -> bool:
        """Whether each principal has a login, and so a connection, of its own."""
        return self.auth == "oauth" and (self.oauth is None or self.oauth.grant == "authorization_code")

    @property
    def sharing(self) -> ServerScope:
        """The scope, or its default."""
        default: ServerScope = "principal" if self.has_login_per_principal else "supervisor"
        return self.scope or ("session" if self.roots else default)

    @property
    def secrets(self) -> tuple[str, ...]:
        """All values that no log, event or result may contain."""
        client = None if self.oauth is None else self.oauth.client_secret
        given = (self.auth, client, *self.env.values(), *self.headers.values())
        return tuple([one.reveal() for one in given if isinstance(one, Secret)])


def faults_of_server(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with options, by name. Missing ones have their defaults."""
    name, command, url = (given.get(key) for key in ("name", "command", "url"))
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield "its name is 1 to 32 of a-z 0-9 -"
    if bool(command) == bool(url):
        yield 'it needs either command = ["program", …] or url = "https://…", and not both'
    if command and not (_are_texts(command) and command[0]):
        yield f"command is {repr_of(command):.200}: expected a program and its arguments, as texts without NUL"
    if url:
        yield from _faults_of_url(url)
    if given.get("sandbox") and not command:
        yield "sandbox is for servers with a command"
    if given.get("network") == "host" and not given.get("sandbox"):
        yield "network is that of a confined command: set sandbox = true, or leave it out"
    auth = given.get("auth")
    if auth is not None and auth != "oauth" and not isinstance(auth, Secret):
        yield 'auth: expected a secret or "oauth"'
    yield from faults_of_login(url, given.get("oauth"), given.get("scope"), has_login=auth == "oauth")
    for key in ("env", "headers"):
        values = given.get(key, {})
        if not isinstance(values, Mapping) or not all(
            isinstance(one, str) and isinstance(value, str | Secret) for one, value in values.items()
        ):
            yield f"{key}: expected texts or secrets, by name"
    for key in ("cwd", "pins"):
        yield from misfits(key, given.get(key), str | os.PathLike | None)
    if not _are_texts(given.get("tools", ("*",))):
        yield f'tools is {repr_of(given["tools"]):.200}: expected names or patterns, such as ["search", "read_*"]'
    if any(misfits("effects", given.get("effects", {}), Mapping[str, Literal["pure", "idempotent", "once"]])):
        yield "effects: expected pure, idempotent or once, by the server's tool names"
    for key, known in (
        ("hints", get_args(HintsPolicy)),
        ("pin", get_args(PinReaction)),
        ("start", get_args(StartMode)),
        ("network", ("none", "host")),
        ("scope", (None, *get_args(ServerScope))),
    ):
        if given.get(key, known[0]) not in known:
            yield f"{key} is {repr_of(given[key]):.80}: expected one of {', '.join(filter(None, known))}"
    for key in ("connect_timeout", "timeout_seconds", "max_message_bytes"):
        value = given.get(key, 1)
        if not is_seconds(value, above_zero=True):
            yield f"{key} is {repr_of(value):.80}: expected a number above 0"
    if given.get("roots") is True and given.get("scope") not in (None, "session"):
        yield f'scope is {repr_of(given["scope"]):.80}: with roots each session has a server of its own, use "session"'
    for key in ("required", "sandbox", "allow_private", "instructions", "roots", "sampling"):
        if not isinstance(given.get(key, False), bool):
            yield f"{key} is {repr_of(given[key]):.80}: expected true or false"


def faults_of_login(url: object, client: object, scope: object, *, has_login: bool) -> Iterator[str]:
    """Yield what is wrong with `auth`, `oauth` and `scope` together."""
    if has_login and not url:
        yield 'auth is "oauth": only a server with a url has a login'
    if client is not None and not has_login:
        yield 'oauth describes the client of auth = "oauth", and auth is something else'
    if has_login and scope == "supervisor" and getattr(client, "grant", None) != "client_credentials":
        yield 'scope is "supervisor": users who log in do not share a server, use "principal" or "session"'


def faults_of_oauth(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the options of an OAuth client, by name. Missing ones have their defaults."""
    for key in ("client_id", "issuer"):
        value = given.get(key)
        if value is not None and not (isinstance(value, str) and value):
            yield f"oauth.{key} is {repr_of(value):.80}: expected a text"
    if given.get("issuer") is not None:
        yield from (f"oauth.issuer: {fault}" for fault in _faults_of_url(given["issuer"]))
    document = given.get("client_metadata_url")
    if document is not None and not (
        isinstance(document, str) and re.fullmatch(r"https://[^/\s]+/[^\s#]+", document)
    ):
        yield f"oauth.client_metadata_url is {repr_of(document):.80}: expected https://host/path"
    elif document is not None and given.get("client_id") is not None:
        yield "oauth has both client_id and client_metadata_url: give one of the two"
    scopes = given.get("scopes", ())
    if scopes and not (_are_texts(scopes) and all(re.fullmatch(r"[!#-\[\]-~]+", one) for one in scopes)):
        yield f'oauth.scopes is {repr_of(scopes):.200}: expected scopes, such as ["read", "write"]'
    grant = given.get("grant", "authorization_code")
    if grant not in get_args(Grant):
        yield f"oauth.grant is {repr_of(grant):.80}: expected one of {', '.join(get_args(Grant))}"
    if given.get("client_id") is None and (
        given.get("client_secret") is not None or grant == "client_credentials"
    ):
        yield "oauth.client_id is missing: a secret and client_credentials need one"
    elif grant == "client_credentials" and given.get("client_secret") is None:
        yield "oauth.client_secret is missing: client_credentials needs one"


def _are_texts(value: object) -> bool:
    return (
        isinstance(value, tuple | list)
        and bool(value)
        and all(isinstance(one, str) and "\0" not in one for one in value)
    )


def _faults_of_url(url: object) -> Iterator[str]:
    try:
        parts = urlsplit(url) if isinstance(url, str) else urlsplit("")
        host = parts.hostname or ""
        _ = parts.port, host.encode("idna")  # as the resolver does, which accepts no empty label
    except ValueError:
        parts, host = urlsplit(""), ""
    if parts.scheme not in {"http", "https"} or not host:
        yield "url: expected https://host/path"
    elif parts.username is not None or parts.password is not None:
        yield "url has a user or a password: use auth or headers with a secret"
    elif parts.scheme == "http" and not is_loopback_host(host):
        yield "url is http: only https is accepted, but for loopback"


def is_loopback_url(url: str) -> bool:
    return is_loopback_host(urlsplit(url).hostname or "")

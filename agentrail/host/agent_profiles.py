"""Profiles: named session configurations, and the start options of their sessions."""

import hashlib
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, NoReturn, TypeAlias, TypedDict, Unpack, cast

import attrs
import msgspec
from attrs import field, frozen

from agentrail.abc import ContextProvider, name_of
from agentrail.abc.tool_images import fault_of_image
from agentrail.core.stack.loaded_stack import (
    PluginEntry,
    call_handler,
    load_stack,
    parts_of_entry,
    sound_plugin,
)
from agentrail.errors import OptionError, PluginError, ProfileFailed, TooLarge
from agentrail.frozen import EMPTY, canonical_json, is_deeper, not_json, thawed, too_large
from agentrail.host.identity import OWN_KEYS, SessionOwner, fault_of_name, user_data_of
from agentrail.host.quotas import Limits
from agentrail.messages import Image, JsonObject, Message, SessionId, ToolMessage
from agentrail.otp.guarded_calls import call_guarded, is_async, repr_of
from agentrail.runtime.crashes import raise_what_travels
from agentrail.runtime.keywords import GivesOptions
from agentrail.runtime.model_lookup import string_of
from agentrail.runtime.session_keys import NO_SCOPE
from agentrail.runtime.session_options import SessionOptions, make_options
from agentrail.runtime.supervisor import decide_call
from agentrail.tools import builtin
from agentrail.wire.sandbox_address import is_alone

MIN_KEPT_EVENTS: Final = 100
"""Minimum event buffer of a host's session: a stream begins with an event that was already published."""

MAX_PROFILES_NAMED: Final = 10
"""Maximum number of profiles listed in a message."""

WRITING_TOOLS: Final = frozenset(map(name_of, builtin("edit_file", "shell", "write_file")))
"""Tools known to the host to change files."""


@frozen(kw_only=True)
class ProfileContext:
    """The session to configure.

    Attributes:
        tenant_id: Id of the owner's tenant.
        user_id: Id of the owner.
        session_id: Id of the session, which may distinguish its workspace. Chosen by a client: never use it as a path.
        agent_id: Requested profile. Empty if none was named and the host has no default.
        mode: Working mode named by the caller, or None.
    """

    tenant_id: str
    user_id: str
    session_id: SessionId
    agent_id: str
    mode: str | None = None


ProfileOptions: TypeAlias = SessionOptions | GivesOptions
"""A session configuration: options as one value, or an object that returns them by name."""

OptionsFor: TypeAlias = Callable[[ProfileContext], Awaitable[ProfileOptions]]
"""Configures each session individually: an async function."""


ClientSystem: TypeAlias = Literal["append", "ignore", "refuse"]
"""Handling of a system prompt that a client sends."""


@frozen(kw_only=True)
class AgentProfile:
    """A named session configuration.

    Attributes:
        id: Id used by clients: 1 to 128 of `A-Z a-z 0-9 . _ : @ + -`, the first a letter or digit, no `..`.
        name: Display name.
        options: `SessionOptions`, an object with `.options()`, or an async function of `ProfileContext` that returns
            either. The host sets id, scope, and `tenant_id`, `user_id`, `agent_id`, `metadata` of `user_data`: leave
            those out.
        context_window: Context window reported to clients, in tokens. None: the known value of the model.
        description: Description for display.
        shared_workspace: Whether all users of this profile may see each other's files if its directory is fixed.
        client_system: Handling of the system prompt that clients of other protocols send: `append` it to the profile's as
            a last section, `ignore` it, or `refuse` the message.
        client_settings: Whether these clients may set the model settings of their cycle, such as `temperature`.
        show_tools: Whether these clients see the calls that run on the server: `reasoning` for lines of reasoning.
        approvers: Ids of users who decide the pending approvals and questions of other users' sessions of this profile,
            in their tenant, without the scope `decide`. Not for profiles of `resolve_profile`: give those users a token
            with that scope.
        public: Whether its A2A card is shown to callers without a token: its id, name and description.
        expose: What MCP clients are offered: the `agent` as a tool, its own `tools`, both or nothing.
        resources: Resources for MCP clients: URIs, or templates such as `docs://{name}`, and for each the name of the
            profile's tool that reads it. The tool gets the variables, and its gates apply.

    Raises:
        OptionError: The operator's move: every fault of this profile.
    """

    id: str
    name: str
    # They may contain keys.
    options: ProfileOptions | OptionsFor = field(repr=False)
    context_window: int | None = None
    description: str = ""
    shared_workspace: bool = False
    client_system: ClientSystem = "append"
    client_settings: bool = True
    show_tools: Literal["reasoning"] | None = None
    approvers: Sequence[str] = ()
    public: bool = False
    expose: Sequence[Literal["agent", "tools"]] = ("agent",)
    resources: Mapping[str, str] = MappingProxyType({})

    def __attrs_post_init__(self) -> None:
        faults = [*_faults_of_profile(self)]
        OptionError.raise_for([f"profile {repr_of(self.id):.140}: {fault}" for fault in faults])

    @property
    def is_function(self) -> bool:
        """Whether a function configures each session."""
        return not _is_fixed(self.options)


ResolveAgentProfile: TypeAlias = Callable[[ProfileContext], Awaitable[AgentProfile | None]]
"""Finds a profile instead of the host's list: an async function. Returns None if the `agent_id` is unknown."""


@frozen(kw_only=True)
class AgentProfiles:
    """The validated profiles of a host. Created by `check_agent_profiles`.

    Attributes:
        default_id: Profile used if none is named. Empty if `resolve` decides.
        plugin_names: Their names. A profile's plugin with one of these names is dropped: the host's plugins apply in
            every profile.
        is_for_several: Whether users are told apart, so that two of them must not share a workspace by default.
    """

    by_id: Mapping[str, AgentProfile]
    default_id: str
    resolve: ResolveAgentProfile | None = None
    session_plugins: tuple[PluginEntry, ...] = ()
    plugin_names: frozenset[str] = frozenset()
    context_providers: tuple[ContextProvider, ...] = ()
    is_for_several: bool = False

    def is_approver(self, agent_id: str, user_id: str) -> bool:
        profile = self.by_id.get(agent_id)
        return profile is not None and user_id in profile.approvers

    def explain_unknown(self) -> str:
        """Return the message for an id without a profile, with the known ids. A function that decides names none."""
        return "there is no profile with this id" + (
            f": expected one of {self.named()}" if self.by_id else ""
        )

    def named(self) -> str:
        some = [*self.by_id][:MAX_PROFILES_NAMED]
        more = len(self.by_id) - len(some)
        return ", ".join(some) + (f" and {more} more" if more else "")


def check_agent_profiles(  # noqa: PLR0913 - all that a host is told of its profiles
    profiles: Iterable[AgentProfile] = (),
    *,
    resolve: ResolveAgentProfile | None = None,
    default: str | None = None,
    session_plugins: Sequence[PluginEntry] = (),
    context_providers: Sequence[ContextProvider] = (),
    is_for_several: bool = False,
) -> AgentProfiles:
    by_id: dict[str, AgentProfile] = {}
    faults: list[str] = []
    for place, one in enumerate(cast("Iterable[Any]", profiles)):
        if not isinstance(one, AgentProfile):
            faults.append(f"profiles[{place}] is of type {type(one).__name__}: expected AgentProfile(…)")
            continue
        if by_id.setdefault(one.id, one) is not one:
            faults.append(f"profiles[{place}] has the id {one.id!r} of an earlier profile: give each its own")
        if not one.is_function:
            shared = _faults_of_sharing(one, _read(one.options), is_for_several=is_for_several)
            faults += [f"profile {one.id!r}: {fault}" for fault in shared]
    if not by_id and resolve is None and not faults:
        faults.append("there is no profile: give `profiles`, or `resolve_profile`")
    is_open = is_async(resolve)
    if not is_open and resolve is not None:
        faults.append(
            f"resolve_profile is {repr_of(resolve):.80}: expected an async function (`async def`) of ProfileContext"
        )
    faults += _faults_of_default(default, by_id, is_open=is_open)
    names, found = _read_plugins(session_plugins)
    faults += found
    OptionError.raise_for(faults)
    return AgentProfiles(
        by_id=MappingProxyType(by_id),
        default_id=next(iter(by_id), "") if default is None else default,
        resolve=resolve,
        session_plugins=tuple(session_plugins),
        plugin_names=names,
        context_providers=tuple(context_providers),
        is_for_several=is_for_several,
    )


def _read_plugins(entries: Sequence[PluginEntry]) -> tuple[frozenset[str], tuple[str, ...]]:
    try:
        stack, _ = load_stack(entries)
    except PluginError as error:
        return frozenset(), tuple([f"session_plugins: {fault}" for fault in error.faults])
    return frozenset(stack.names), ()


def _faults_of_default(default: object, by_id: Mapping[str, AgentProfile], *, is_open: bool) -> Iterator[str]:
    if default is None or (is_open and fault_of_name("default_profile", default) is None):
        return
    if not isinstance(default, str) or default not in by_id:
        yield f"default_profile is {repr_of(default):.140}: expected the id of a profile, one of {', '.join(by_id)}"


async def resolve_profile(profiles: AgentProfiles, context: ProfileContext) -> AgentProfile | None:
    if profiles.resolve is None:
        return profiles.by_id.get(context.agent_id)
    found = await _asked(profiles.resolve, context, "resolve_profile")
    if isinstance(found, AgentProfile) and found.approvers:
        message = "resolve_profile returned a profile with approvers: give those users tokens with the scope `decide`"
        raise ProfileFailed(message, agent_id=context.agent_id)
    if found is None or isinstance(found, AgentProfile):
        return found
    message = f"resolve_profile returned {type(found).__name__}: expected AgentProfile(…), or None"
    raise ProfileFailed(message, agent_id=context.agent_id)


def models_in(profile: AgentProfile) -> tuple[str, ...]:
    """Return the models of a profile, its own first, then its fallbacks. Empty if a function decides."""
    if profile.is_function:
        return ()
    options = _read(profile.options)
    return (string_of(options.model), *options.fallback_models)


def takes_images(profile: AgentProfile) -> bool:
    """Return whether the model of a profile accepts images. True if a function decides."""
    return profile.is_function or _read(profile.options).provider_opts.get("images") is not False


def fault_of_profile(
    profile: AgentProfile, fault_of_model: Callable[[SessionOptions], str | None]
) -> str | None:
    """Return why no session of a profile can start. None if unknown in advance."""
    return None if profile.is_function else fault_of_model(_read(profile.options))


class StartArguments(TypedDict, total=False):
    """What a caller may say of a new session."""

    model: str | None
    metadata: JsonObject
    history: Sequence[Message]
    keep: bool


async def options_of_profile(
    profiles: AgentProfiles, profile: AgentProfile, context: ProfileContext, **start: Unpack[StartArguments]
) -> SessionOptions:
    asked = attrs.evolve(context, agent_id=profile.id)
    given: Any = profile.options
    if profile.is_function:
        given = await _asked(given, asked, f"the profile {profile.id!r}")
    return call_guarded(
        _failing(f"the profile {profile.id!r}", profile.id),
        decide_session_options,
        profiles,
        profile,
        given,
        asked,
        **start,
    )


def decide_session_options(  # noqa: PLR0913 - all that a session is made of, by keyword
    profiles: AgentProfiles,
    profile: AgentProfile,
    given: object,
    context: ProfileContext,
    *,
    model: str | None = None,
    metadata: JsonObject = EMPTY,
    history: Sequence[Message] = (),
    keep: bool = True,
) -> SessionOptions:
    options = _read(given)
    faults = _faults_of_options(options)
    if not profile.is_function:
        faults += _faults_of_sharing(profile, options, is_for_several=profiles.is_for_several)
    OptionError.raise_for([f"profile {profile.id!r}: {fault}" for fault in faults])
    owner = SessionOwner(context.tenant_id, context.user_id)
    own = [one for one in options.plugins if name_of_entry(one) not in profiles.plugin_names]
    return attrs.evolve(
        options,
        session_id=context.session_id,
        scope=context.tenant_id,
        model=options.model if model is None else model,
        plugins=(*profiles.session_plugins, *own),
        context_providers=(*profiles.context_providers, *options.context_providers),
        messages=(*options.messages, *history),
        user_data={**options.user_data, **user_data_of(owner, profile.id, metadata, keep=keep)},
    )


def calling_profile(profile: AgentProfile, name: str, arguments: JsonObject) -> AgentProfile:
    """Return a profile whose sessions call one of its tools once, without a model."""

    async def options(context: ProfileContext) -> SessionOptions:
        given: Any = profile.options
        if profile.is_function:
            given = await _asked(given, context, f"the profile {profile.id!r}")
        return decide_call(name, arguments, _read(given), {})

    return attrs.evolve(profile, options=options)


def takes_files(profiles: AgentProfiles, profile: AgentProfile, options: SessionOptions) -> bool:
    """Return whether files of a message may be written to the workspace of its session.

    No if there is no workspace, or users could read each other's files there without permission of the profile.
    """
    if options.sandbox is None and os.fspath(options.working_dir) == os.curdir:
        return False
    is_shared = not profile.is_function and _is_one_place(options)
    return profile.shared_workspace or not (is_shared and profiles.is_for_several)


def name_of_entry(entry: PluginEntry) -> str:
    return sound_plugin(*parts_of_entry(entry), call_handler).name


async def _asked(
    function: Callable[[ProfileContext], Awaitable[object]], context: ProfileContext, what: str
) -> object:
    try:
        return await function(context)
    except BaseException as raised:  # noqa: ASYNC103, BLE001 - the edge of the application's code: a request fails, and no host
        raise_what_travels(raised)
        _failing(what, context.agent_id)(raised)


def _failing(what: str, agent_id: str) -> Callable[[BaseException], NoReturn]:
    def fail(error: BaseException) -> NoReturn:
        # Details go to the log: a client cannot act on them and must not read them.
        message = f"{what} failed: the log says why"
        raise ProfileFailed(message, agent_id=agent_id) from error

    return fail


def _read(given: object) -> SessionOptions:
    return given if isinstance(given, SessionOptions) else make_options({"blueprint": given})


def digest_of_profiles(profiles: AgentProfiles) -> str:
    """Return a fingerprint of the profiles: ids, models, and their tools with schemas. Equal on nodes that serve the same."""
    told: list[object] = []
    for one in sorted(profiles.by_id.values(), key=lambda one: one.id):
        if one.is_function:
            told.append([one.id])
            continue
        options = _read(one.options)
        tools = sorted([name_of(tool), canonical_json(tool.parameters).decode()] for tool in options.tools)
        told.append([one.id, one.name, string_of(options.model), tools])
    return hashlib.blake2b(msgspec.json.encode(told), digest_size=8).hexdigest()


def _is_fixed(options: object) -> bool:
    return isinstance(options, SessionOptions) or callable(getattr(options, "options", None))


def _faults_of_profile(profile: AgentProfile) -> Iterator[str]:
    given: Any = profile  # mypy takes the annotations at their word, and those are in doubt here
    if (fault := fault_of_name("id", given.id)) is not None:
        yield fault
    if not isinstance(given.name, str) or not given.name.strip():
        yield f"name is {repr_of(given.name):.80}: expected a display name"
    if not isinstance(given.description, str):
        yield f"description is {repr_of(given.description):.80}: expected a text"
    window = given.context_window
    if window is not None and (type(window) is not int or window < 1):
        yield f"context_window is {repr_of(window):.80}: expected tokens, a whole number >= 1, or None"
    if given.client_system not in ("append", "ignore", "refuse"):
        yield f"client_system is {repr_of(given.client_system):.80}: expected append, ignore or refuse"
    for name in ("shared_workspace", "client_settings", "public"):
        if type(getattr(given, name)) is not bool:
            yield f"{name} is {repr_of(getattr(given, name)):.80}: expected True or False"
    if given.show_tools not in (None, "reasoning"):
        yield f"show_tools is {repr_of(given.show_tools):.80}: expected reasoning, or None"
    if not isinstance(given.approvers, list | tuple) or any(
        fault_of_name("", one) for one in given.approvers
    ):
        yield f"approvers is {repr_of(given.approvers):.80}: expected a list of user ids, such as ['ann', 'bob']"
    if not isinstance(given.expose, list | tuple) or not {"agent", "tools"}.issuperset(given.expose):
        yield f"expose is {repr_of(given.expose):.80}: expected a list of agent and tools"
    read: Any = given.resources
    if not isinstance(read, Mapping) or not all(isinstance(one, str) for row in read.items() for one in row):
        yield f"resources is {repr_of(read):.80}: expected names of tools by URI, such as {{'docs://{{name}}': 'read_doc'}}"
    if _is_fixed(given.options) and not isinstance(given.options, type):
        yield from _faults_of_options(_read(given.options))
    elif not is_async(given.options):
        yield (
            f"options are of type {type(given.options).__name__}: expected SessionOptions(…), an object with .options(), or an "
            f"async function (`async def`) of ProfileContext"
        )


def _faults_of_options(options: SessionOptions) -> list[str]:
    faults = [
        f"user_data sets {key!r}, which the host sets itself: remove it"
        for key in OWN_KEYS
        if key in options.user_data
    ]
    if options.session_id is not None:
        faults.append("session_id is set: all its sessions would share one id, so remove it")
    if options.scope != NO_SCOPE:
        faults.append("scope is set: the scope of a session is its tenant, so remove it")
    if options.event_buffer_size < MIN_KEPT_EVENTS:
        faults.append(
            f"event_buffer_size is {options.event_buffer_size}: expected at least {MIN_KEPT_EVENTS}, because a stream starts with an event that was already published"
        )
    return faults


def _faults_of_sharing(profile: AgentProfile, options: SessionOptions, *, is_for_several: bool) -> list[str]:
    if not is_for_several or profile.shared_workspace or not _is_one_place(options):
        return []
    tools = [*options.tools, *(tool for agent in options.agents for tool in agent.tools or ())]
    writing = sorted({name_of(tool) for tool in tools} & WRITING_TOOLS)
    if not writing:
        return []
    what_to_do = (
        "use sandbox='memory', set shared_workspace=True (in a file: shared_workspace = true in [host]), or let `options` be a "
        "function that gives each session its own"
    )
    return [f"{', '.join(writing)} would write into one directory for all users: {what_to_do}"]


def _is_one_place(options: SessionOptions) -> bool:
    return not (isinstance(options.sandbox, str) and is_alone(options.sandbox))


# Caller metadata of sessions and messages: a bounded JSON object.
#
# A message's is in `ChatRequest.metadata`, a session's in its `user_data`.

MAX_METADATA_LEVELS: Final = 64
"""Maximum nesting depth of metadata, counting itself. It is contained in events and records, which are limited too."""


def check_metadata(metadata: object, limits: Limits) -> None:
    if not isinstance(metadata, Mapping):
        raise OptionError([f"metadata is of type {type(metadata).__name__}: expected a JSON object"])
    if not metadata:
        return
    most = limits.max_metadata_bytes
    # Checked before the walk, so that the walk is short.
    if too_large(metadata, max_characters=most) is None:
        fault = not_json(metadata, "metadata")
        if fault is not None:
            raise OptionError([fault])
        if is_deeper(metadata, MAX_METADATA_LEVELS):
            message = f"metadata is nested more deeply than {MAX_METADATA_LEVELS} levels: make it flatter"
            raise TooLarge(message)
        if len(canonical_json(thawed(metadata))) <= most:
            return
    message = (
        f"metadata has more than {most:,} bytes as JSON: store large data elsewhere, and put a reference here"
    )
    raise TooLarge(message)


# Caller's conversation for a new session. The importer repairs it: see `SessionOptions.messages`.

MAX_HISTORY_MESSAGES: Final = 1_000
MAX_HISTORY_BYTES: Final = 4_000_000
"""Limit on the messages of a history as JSON."""


def check_given_history(history: object) -> tuple[Message, ...]:
    """Return the messages that a new session starts from. Nothing of a history beyond the limits is read.

    Raises:
        OptionError: The caller's move: it is not a sequence of messages, or has an invalid image.
        TooLarge: The caller's move: more than 1,000 messages, or 4 MB as JSON.
    """
    if not isinstance(history, list | tuple) or not all(isinstance(one, Message) for one in history):
        message = f"history is {repr_of(history):.200}: expected a sequence of UserMessage, AssistantMessage and ToolMessage"
        raise OptionError([message])
    if len(history) > MAX_HISTORY_MESSAGES:
        message = f"history has {len(history):,} messages, at most {MAX_HISTORY_MESSAGES:,} are allowed: leave the oldest out"
        raise TooLarge(message)
    size = 0
    for one in history:
        size += len(canonical_json(msgspec.to_builtins(one)))
        if size > MAX_HISTORY_BYTES:
            message = (
                f"history has more than {MAX_HISTORY_BYTES:,} bytes as JSON: leave the oldest messages out"
            )
            raise TooLarge(message)
        faults = [fault for image in _images_of(one) if (fault := fault_of_image(image)) is not None]
        if faults:
            raise OptionError([f"an image of the history {faults[0]}"])
    return tuple(history)


def _images_of(message: Message) -> list[Image]:
    if isinstance(message, ToolMessage):
        return [image for result in message.results for image in result.images]
    return [block for block in message.content if isinstance(block, Image)]

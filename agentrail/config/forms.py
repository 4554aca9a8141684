"""What a configuration file may hold, as types: each name is one that a person writes. None is: not said.

What a value means, and whether it can be, is said where it is used; here are names and types alone.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs
from attrs import frozen

from agentrail.config.host_limits import Limits

PermissionMode: TypeAlias = Literal["default", "accept_edits", "plan", "strict", "dont_ask", "bypass"]

FORMAT_VERSION: Final = 1
"""The only one there is; a file says it in `version`, or means it."""


@frozen(kw_only=True)
class SecretForm:
    """A secret, by where it is: one of both.

    Attributes:
        env: The name of a variable.
        file: The path of a file, from the directory of the one that names it, that holds nothing else.
    """

    env: str | None = None
    file: str | None = None

    def __str__(self) -> str:
        """Show where it is, as it is written."""
        return f'{{ env = "{self.env}" }}' if self.env is not None else f'{{ file = "{self.file}" }}'


@frozen(kw_only=True)
class PromptForm:
    """A system prompt: a text, or where it is.

    Attributes:
        text: As it is; None where it is in a file.
        file: The path of a file, from the directory of the one that names it.
        replace: Other texts in place of sections, by their keys; None: none.
    """

    text: str | None = None
    file: str | None = None
    replace: Mapping[str, str] | None = None


@frozen(kw_only=True)
class PluginForm:
    """A plugin.

    Attributes:
        use: The name of a built-in one, or `package.module:NAME`.
        options: What it is given.
    """

    use: str
    options: Mapping[str, Any] | None = None


@frozen(kw_only=True)
class BudgetForm:
    """What may be spent; as `Budget`."""

    max_cost_usd: float | None = None
    max_total_tokens: int | None = None
    allow_unknown_prices: bool | None = None


@frozen(kw_only=True)
class PermissionsForm:
    """A policy, as it is written: the rules are not read here."""

    mode: PermissionMode | None = None
    deny: tuple[str, ...] | None = None
    ask: tuple[str, ...] | None = None
    allow: tuple[str, ...] | None = None


@frozen(kw_only=True)
class SkillsForm:
    """Where skills are looked for, and what they may.

    Attributes:
        directories: Directories of skills, from the one of the file; they stand in front of all others.
        disable: Names of skills that are not wanted.
        import_: Whose skills count besides; written `import`.
        tools: What the tools mean that an open skill names.
    """

    directories: tuple[str, ...] | None = None
    disable: tuple[str, ...] | None = None
    import_: tuple[Literal["claude"], ...] | None = None
    tools: Literal["restrict", "approve", "ignore"] | None = None


@frozen(kw_only=True)
class ImportForm:
    """Files of other programs that count besides, by kind: those that lie beside this file.

    Attributes:
        agents: Whose agents.
        commands: Whose commands.
        permissions: Whose permissions.
    """

    agents: tuple[Literal["claude", "codex"], ...] | None = None
    commands: tuple[Literal["claude", "codex", "gemini"], ...] | None = None
    permissions: tuple[Literal["claude"], ...] | None = None


@frozen(kw_only=True)
class DefaultsForm:
    """What holds for each agent that does not say it, and where no agent is named. As `SessionOptions`, but for `prompt` and `skills`.

    Attributes:
        skills: Names of the skills that it has; `*` for all.
    """

    model: str | None = None
    prompt: PromptForm | None = None
    prompt_mode: Literal["full", "task", "minimal", "none"] | None = None
    base_prompt: bool | None = None
    tools: tuple[str, ...] | None = None
    skills: tuple[str, ...] | None = None
    plugins: tuple[PluginForm, ...] | None = None
    sandbox: str | None = None
    fallback_models: tuple[str, ...] | None = None
    max_turns: int | None = None
    on_max_turns: Literal["answer", "abort", "stop"] | None = None
    compact_at_tokens: int | None = None
    max_output_tokens: int | None = None
    max_prompt_queue: int | None = None
    max_steering_queue: int | None = None
    max_retries: int | None = None
    tool_max_retries: int | None = None
    approval_timeout_seconds: float | None = None
    immune_tools: tuple[str, ...] | None = None
    max_parallel_tools: int | None = None
    tool_timeout_seconds: float | None = None
    event_buffer_size: int | None = None
    budget: BudgetForm | None = None
    inline_tags: bool | None = None
    max_agents: int | None = None
    max_agents_total: int | None = None
    max_agent_depth: int | None = None
    wake_on_background_end: bool | None = None


@frozen(kw_only=True)
class AgentForm(DefaultsForm):
    """An agent.

    Attributes:
        description: What it is for; models choose it by that.
        base: What it begins with: `coding`, or nothing.
        capabilities: Names of bundles that it has.
        agents: Names of the agents that may work for it.
        response_format: JSON Schema of its answers.
        user_data: What its tools see.
        permissions: Narrow those of the file, for it alone.
        background: As of `Agent`, where it works for another one; so are `wake` and `handoff`.
        wake: As of `Agent`.
        handoff: As of `Agent`.
        skills_in_prompt: Names of skills whose instructions stand in its prompt, whole.
        mcp: Names of the MCP servers whose tools it has.
    """

    description: str | None = None
    base: Literal["coding"] | None = None
    capabilities: tuple[str, ...] | None = None
    agents: tuple[str, ...] | None = None
    response_format: Mapping[str, Any] | None = None
    user_data: Mapping[str, Any] | None = None
    permissions: PermissionsForm | None = None
    background: bool | None = None
    wake: bool | None = None
    handoff: bool | None = None
    skills_in_prompt: tuple[str, ...] | None = None
    mcp: tuple[str, ...] | None = None


@frozen(kw_only=True)
class HeaderForm:
    """The value of a header: a text, or a secret.

    Attributes:
        text: As it is; None for a secret.
        secret: Where it is.
    """

    text: str | None = None
    secret: SecretForm | None = None


@frozen(kw_only=True)
class ProviderForm:
    """The options of a provider, by the names that `provider_opts` has."""

    api_key: SecretForm | None = None
    base_url: str | None = None
    headers: Mapping[str, HeaderForm] | None = None
    timeout: float | None = None
    temperature: float | None = None
    top_p: float | None = None
    reasoning: Literal["off", "low", "medium", "high"] | None = None
    max_output_tokens: int | None = None
    max_retries: int | None = None
    stall_policy: Literal["abort", "retry", "report"] | None = None
    stall_seconds: float | None = None
    context_window: int | None = None
    trust_env: bool | None = None
    images: bool | None = None
    http2: bool | None = None


@frozen(kw_only=True)
class SearchForm:
    """A search engine.

    Attributes:
        engine: Which one.
        api_key: Where its key is; None: in the engine's own variable.
        url: Where the service is; None: at the vendor's.
    """

    engine: str
    api_key: SecretForm | None = None
    url: str | None = None


@frozen(kw_only=True)
class WebForm:
    """What may be fetched of the web; as `WebRules`, whose `inside` is read from texts here.

    Attributes:
        search: The search engine.
        model: Which model answers questions about pages; None for that of the session.
    """

    allow: tuple[str, ...] | None = None
    block: tuple[str, ...] | None = None
    trusted: tuple[str, ...] | None = None
    ports: tuple[int, ...] | None = None
    inside: tuple[str, ...] | None = None
    proxy: str | None = None
    robots: bool | None = None
    search: SearchForm | None = None
    model: str | None = None


def _optional_fields(of: type[attrs.AttrsInstance]) -> dict[str, Any]:
    kinds: dict[str, Any] = {one.name: one.type for one in attrs.fields(of)}
    return {name: attrs.field(default=None, type=kind | None) for name, kind in kinds.items()}


@frozen(kw_only=True, these=_optional_fields(Limits))
class HostLimitsForm:
    """How much is taken of callers: each of `Limits`."""


@frozen(kw_only=True)
class HostForm:
    """What `agentrail serve` serves, where, and to whom; as its flags, and as the options of a server.

    Attributes:
        profiles: Names of the agents that callers may ask for, in order; None for all that there are.
        shared_workspace: As of a profile, for all of them.
        limits: How much is taken of callers.
    """

    host: str | None = None
    port: int | None = None
    token_file: str | None = None
    allowed_hosts: tuple[str, ...] | None = None
    allowed_origins: tuple[str, ...] | None = None
    certfile: str | None = None
    keyfile: str | None = None
    data_dir: str | None = None
    profiles: tuple[str, ...] | None = None
    shared_workspace: bool | None = None
    store: str | None = None
    memories: str | None = None
    knowledge: str | None = None
    shell_fallback: Literal["refuse", "unconfined"] | None = None
    heartbeat: float | None = None
    drain_delay: float | None = None
    inspector: bool | None = None
    console: bool | None = None
    base_path: str | None = None
    protocols: tuple[str, ...] | None = None
    hook_timeout: float | None = None
    idle_after: float | None = None
    chat_timeout: float | None = None
    on_disconnect: Literal["continue", "abort"] | None = None
    drain_timeout: float | None = None
    shutdown_timeout: float | None = None
    check_timeout: float | None = None
    limits: HostLimitsForm | None = None


@frozen(kw_only=True)
class MemoryForm:
    """How agents with the capability `memory` remember.

    Attributes:
        auto: Whether what is remembered about a prompt is shown unasked.
    """

    auto: bool | None = None


@frozen(kw_only=True)
class EmbedderForm:
    """What makes vectors, so that memories and knowledge bases are found by meaning too; as `OpenAIEmbedder`.

    Attributes:
        model: As the server calls it.
        dimension: How many numbers its vectors have: 1,536 of `text-embedding-3-small`.
        api_key: Where its key is; None: in OPENAI_API_KEY, and none at all where `base_url` names another server.
        base_url: What stands in front of `/embeddings`; None for OpenAI's.
        sends_dimension: Whether the server is told how many numbers are wanted, for models that can shorten their vectors.
    """

    model: str | None = None
    dimension: int | None = None
    api_key: SecretForm | None = None
    base_url: str | None = None
    sends_dimension: bool | None = None


@frozen(kw_only=True)
class FileForm:
    """A whole file.

    Attributes:
        version: Of the format.
        default_agent: Which one `run` and `chat` use when none is named.
        defaults: What holds for all.
        agents: Each by its name.
        providers: Their options, by what stands before the colon of a model string.
        permissions: The policy of this file.
        skills: Where skills are looked for.
        import_: Which files of other programs count besides; written `import`.
        models: Models by the names that files of other programs have for them.
        web: What may be fetched.
        host: What `agentrail serve` serves.
        mcp: Servers of tools, each by its name. What they say is not read: this version starts none, and says so.
        memory: How agents remember.
        embedder: What makes vectors of memories and passages.
    """

    version: int | None = None
    default_agent: str | None = None
    defaults: DefaultsForm = DefaultsForm()
    agents: Mapping[str, AgentForm] = {}
    providers: Mapping[str, ProviderForm] = {}
    skills: SkillsForm = SkillsForm()
    import_: ImportForm = ImportForm()
    models: Mapping[str, str] = {}
    permissions: PermissionsForm = PermissionsForm()
    web: WebForm = WebForm()
    host: HostForm = HostForm()
    mcp: Mapping[str, Any] = {}
    memory: MemoryForm = MemoryForm()
    embedder: EmbedderForm = EmbedderForm()

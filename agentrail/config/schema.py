"""Schema of a configuration file. `None` means "not set"."""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs
from attrs import frozen

from agentrail.config.host_limits import Limits

PermissionMode: TypeAlias = Literal["default", "accept_edits", "plan", "strict", "dont_ask", "bypass"]

FORMAT_VERSION: Final = 1
"""The only version. A file states it in `version` or omits it."""


@frozen(kw_only=True)
class SecretForm:
    """A reference to a secret. Exactly one field is set.

    Attributes:
        env: Name of an environment variable.
        file: Path of a file that holds only the secret, relative to the directory of the configuration file. That of a provider's key is read
            again for each request, others when the server or the command starts.
    """

    env: str | None = None
    file: str | None = None

    def __str__(self) -> str:
        return f'{{ env = "{self.env}" }}' if self.env is not None else f'{{ file = "{self.file}" }}'


@frozen(kw_only=True)
class PromptForm:
    """A system prompt: its text, or a reference to a file.

    Attributes:
        text: The text itself. None if the prompt is in a file.
        file: Path of a file, relative to the directory of the configuration file.
        replace: Replacement texts for sections, by section key. None: no replacements.
    """

    text: str | None = None
    file: str | None = None
    replace: Mapping[str, str] | None = None


@frozen(kw_only=True)
class PluginForm:
    """A plugin.

    Attributes:
        use: Name of a built-in plugin, or `package.module:NAME`.
        options: Options of the plugin.
    """

    use: str
    options: Mapping[str, Any] | None = None


@frozen(kw_only=True)
class BudgetForm:
    """Spending limits, with the fields of `Budget`."""

    max_cost_usd: float | None = None
    max_total_tokens: int | None = None
    allow_unknown_prices: bool | None = None


@frozen(kw_only=True)
class PermissionsForm:
    """A permission policy. Its rules are not parsed here."""

    mode: PermissionMode | None = None
    deny: tuple[str, ...] | None = None
    ask: tuple[str, ...] | None = None
    allow: tuple[str, ...] | None = None


@frozen(kw_only=True)
class SkillsForm:
    """Where skills are searched, and the effect of their tool lists.

    Attributes:
        directories: Skill directories, relative to the file's, before all others.
        disable: Names of disabled skills.
        import_: Other programs whose skills are included. Written as `import`.
        tools: Effect of the tool list of an open skill.
    """

    directories: tuple[str, ...] | None = None
    disable: tuple[str, ...] | None = None
    import_: tuple[Literal["claude"], ...] | None = None
    tools: Literal["restrict", "approve", "ignore"] | None = None


@frozen(kw_only=True)
class ImportForm:
    """Files of other programs to include, by kind.

    Attributes:
        agents: Programs whose agents are included.
        commands: Programs whose commands are included.
        permissions: Programs whose permissions are included.
    """

    agents: tuple[Literal["claude", "codex"], ...] | None = None
    commands: tuple[Literal["claude", "codex", "gemini"], ...] | None = None
    permissions: tuple[Literal["claude"], ...] | None = None


@frozen(kw_only=True)
class DefaultsForm:
    """Defaults for agents, and for sessions without one.

    Attributes:
        skills: Names of its skills. `*` means all.
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
        description: Purpose of the agent. Models choose agents by it.
        base: Base of the agent: `coding`, or nothing.
        capabilities: Names of its capability bundles.
        agents: Names of the agents that may work for it.
        response_format: JSON Schema of its answers.
        user_data: Data for its tools.
        permissions: Narrows the permissions of the file for this agent.
        background: See `Agent`, for work for another agent.
        wake: See `Agent`, for work for another agent.
        handoff: See `Agent`, for work for another agent.
        skills_in_prompt: Names of skills whose full instructions are part of its prompt.
        mcp: Names of the MCP servers whose tools it has. None: all.
        public: Whether its A2A card is shown to callers without a token.
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
    public: bool | None = None


@frozen(kw_only=True)
class HeaderForm:
    """Value of a header: a text or a secret.

    Attributes:
        text: The text itself. None for a secret.
        secret: Reference to the secret.
    """

    text: str | None = None
    secret: SecretForm | None = None


@frozen(kw_only=True)
class ProviderForm:
    """Options of a provider, with the names of `provider_opts`."""

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
        engine: Name of the engine.
        api_key: Reference to its key. None: the engine's own environment variable.
        url: URL of the service. None: the vendor's URL.
    """

    engine: str
    api_key: SecretForm | None = None
    url: str | None = None


@frozen(kw_only=True)
class WebForm:
    """Rules for web access. Same fields as `WebRules`, but `inside` is a list of texts here.

    Attributes:
        search: The search engine.
        model: Model that answers questions about pages. None: the session's model.
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


@frozen(kw_only=True)
class McpAuthForm:
    """How an MCP server is told who calls. Exactly one field is set.

    Attributes:
        bearer: Reference to a token, sent with each request.
        oauth: Whether each user logs in.
    """

    bearer: SecretForm | None = None
    oauth: bool = False


@frozen(kw_only=True)
class McpOAuthForm:
    """This program as a client of an authorization server, with the names and defaults of `OAuthClient`."""

    client_id: str | None = None
    client_secret: SecretForm | None = None
    scopes: tuple[str, ...] | None = None
    grant: Literal["authorization_code", "client_credentials"] | None = None
    issuer: str | None = None
    client_metadata_url: str | None = None


@frozen(kw_only=True)
class McpForm:
    """An MCP server, with the names and defaults of `McpServer`. Either `command` or `url` is set.

    Attributes:
        command: Program and arguments.
        url: Address of a server that speaks HTTP.
        cwd: Working directory of the command, relative to the file's directory, which is the default.
        sandbox: Whether the command is confined to its directory.
        network: Network access of a confined command.
        env: Environment variables of the command: texts or secrets.
        headers: HTTP headers of each request: texts or secrets.
        auth: `{ bearer = { env = "NAME" } }`, or `"oauth"`: each user logs in.
        oauth: The client of an `oauth` login. None: it registers itself.
        tools: Names or patterns of the tools to use.
        hints: Whether the server's word about its tools counts.
        effects: Effect classes by the server's tool names.
        pin: Reaction to a tool that differs from what was first seen. The digests are in `.agentrail/mcp_pins.json`.
        scope: The sessions that share one server.
        start: Whether it is started when a session first uses it (`lazy`), or with the program.
        required: Whether sessions wait for its tools, and do not start without them.
        connect_timeout: Seconds for the start and the first list of tools.
        timeout_seconds: Seconds for a call.
        max_message_bytes: Size limit of one message of the server.
        allow_private: Whether `url` may lead to a private or link-local address.
        instructions: Whether its instructions are a section of the system prompt.
        roots: Whether it is told the workspace. Each session has a server of its own then.
        sampling: Whether it may ask the model during a call.
    """

    command: tuple[str, ...] | None = None
    url: str | None = None
    cwd: str | None = None
    sandbox: bool | None = None
    network: Literal["none", "host"] | None = None
    env: Mapping[str, HeaderForm] | None = None
    headers: Mapping[str, HeaderForm] | None = None
    auth: McpAuthForm | None = None
    oauth: McpOAuthForm | None = None
    tools: tuple[str, ...] | None = None
    hints: Literal["ignore", "trust"] | None = None
    effects: Mapping[str, Literal["pure", "idempotent", "once"]] | None = None
    pin: Literal["warn", "refuse", "off"] | None = None
    scope: Literal["supervisor", "principal", "session"] | None = None
    start: Literal["lazy", "eager"] | None = None
    required: bool | None = None
    connect_timeout: float | None = None
    timeout_seconds: float | None = None
    max_message_bytes: int | None = None
    allow_private: bool | None = None
    instructions: bool | None = None
    roots: bool | None = None
    sampling: bool | None = None


def _optional_fields(of: type[attrs.AttrsInstance]) -> dict[str, Any]:
    kinds: dict[str, Any] = {one.name: one.type for one in attrs.fields(of)}
    return {name: attrs.field(default=None, type=kind | None) for name, kind in kinds.items()}


@frozen(kw_only=True, these=_optional_fields(Limits))
class HostLimitsForm:
    """Limits for clients, with the fields of `Limits`."""


@frozen(kw_only=True)
class HostForm:
    """Options of `agentrail serve`: profiles, address and access.

    Attributes:
        profiles: Names of the agents offered to clients, in order. None: all agents.
        shared_workspace: Same as for a profile. Applies to all profiles.
        expose: Same as for a profile. Applies to all profiles.
        durability: Whether requests to models may leave before their record, see `open_supervisor`.
        audit: Audit log, `file:PATH` or `store`, see `open_supervisor`.
        limits: Limits for clients.
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
    expose: tuple[Literal["agent", "tools"], ...] | None = None
    store: str | None = None
    durability: Literal["grouped", "strict"] | None = None
    audit: str | None = None
    memories: str | None = None
    knowledge: str | None = None
    shell_fallback: Literal["refuse", "unconfined"] | None = None
    heartbeat: float | None = None
    drain_delay: float | None = None
    inspector: bool | None = None
    console: bool | None = None
    base_path: str | None = None
    protocols: tuple[str, ...] | None = None
    public_url: str | None = None
    hook_timeout: float | None = None
    idle_after: float | None = None
    advertise: str | None = None
    lease: float | None = None
    files_are_shared: bool | None = None
    chat_timeout: float | None = None
    on_disconnect: Literal["continue", "abort"] | None = None
    drain_timeout: float | None = None
    shutdown_timeout: float | None = None
    check_timeout: float | None = None
    limits: HostLimitsForm | None = None


@frozen(kw_only=True)
class MemoryForm:
    """Memory of agents with the capability `memory`.

    Attributes:
        auto: Whether memories related to a prompt are shown without a request.
    """

    auto: bool | None = None


@frozen(kw_only=True)
class EmbedderForm:
    """Embedding model, for search by meaning in memories and knowledge bases.

    Attributes:
        model: Name of the model on the server.
        dimension: Length of its vectors: 1,536 for `text-embedding-3-small`.
        api_key: Reference to its key. None: OPENAI_API_KEY, or no key if `base_url` names another server.
        base_url: URL prefix of `/embeddings`. None: OpenAI's.
        sends_dimension: Whether requests include the dimension, for models that can shorten their vectors.
    """

    model: str | None = None
    dimension: int | None = None
    api_key: SecretForm | None = None
    base_url: str | None = None
    sends_dimension: bool | None = None


@frozen(kw_only=True)
class TelemetryForm:
    """Spans of all sessions, exported by commands. Headers and certificates are variables, `OTEL_EXPORTER_OTLP_*`.

    Attributes:
        endpoint: Full address of an OTLP endpoint, such as `http://localhost:4318/v1/traces`. Variables override it.
        content: See `OpenTelemetry`.
        tenant: See `OpenTelemetry`.
        sample: See `OpenTelemetry`.
        propagate: See `OpenTelemetry`.
    """

    endpoint: str | None = None
    content: bool | None = None
    tenant: bool | None = None
    sample: float | None = None
    propagate: Literal["providers"] | None = None


@frozen(kw_only=True)
class FileForm:
    """A complete configuration file.

    Attributes:
        version: Version of the format.
        default_agent: Agent for `run` and `chat` if none is named.
        defaults: Defaults for all agents.
        agents: Agents by name.
        providers: Provider options, by the part of a model string before the colon.
        permissions: Policy of this file.
        skills: Where skills are searched.
        import_: Files of other programs to include. Written as `import`.
        models: Models, by the names that files of other programs use.
        web: Rules for web access.
        host: Options of `agentrail serve`.
        mcp: MCP servers by name, see `[mcp.NAME]`. Those of an untrusted project are not even read. `import` lists JSON files
            of other programs with servers, such as `.mcp.json`, below the project's directory or your home directory.
        memory: Memory of agents.
        embedder: Embedding model for memories and passages.
        telemetry: Export of spans.
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
    telemetry: TelemetryForm = TelemetryForm()

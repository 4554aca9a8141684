"""Sessions for a product: profiles, owners, and plugins with hooks around requests and calls. Independent of HTTP.

Open a host and send a message:

    profile = AgentProfile(id="desk", name="Desk", options=SessionOptions(model="demo:"))
    async with open_host(profiles=[profile]) as host:
        you = Principal(tenant_id="acme", user_id="ann")
        message = ChatRequest(message="Hi", tenant_id="acme", user_id="ann", agent_id="desk")
        request = await host.submit(message, you)
        await request.outcome()
        print(request.record.text)
"""

from agentrail.abc import (
    AtEnd as AtEnd,
    ContextProvider as ContextProvider,
    ProviderContext as ProviderContext,
)
from agentrail.errors import RequestRefused as RequestRefused
from agentrail.host.agent_profiles import (
    AgentProfile as AgentProfile,
    ProfileContext as ProfileContext,
)
from agentrail.host.attachments import Attachment as Attachment
from agentrail.host.hook_payloads import (
    AfterToolCall as AfterToolCall,
    Allow as Allow,
    AttachmentFile as AttachmentFile,
    AttachmentText as AttachmentText,
    BeforeToolCall as BeforeToolCall,
    ChatRequest as ChatRequest,
    ChatRequestContext as ChatRequestContext,
    DayBudgetWarning as DayBudgetWarning,
    Deny as Deny,
    HandledResponse as HandledResponse,
    Principal as Principal,
    RequestContext as RequestContext,
    RequestOutcome as RequestOutcome,
    SessionReader as SessionReader,
    ToolCallContext as ToolCallContext,
)
from agentrail.host.host import Host as Host
from agentrail.host.host_lifespan import open_host as open_host
from agentrail.host.host_options import HostOptions as HostOptions
from agentrail.host.host_plugin import HostPlugin as HostPlugin
from agentrail.host.quotas import Limits as Limits
from agentrail.host.readiness import CheckResult as CheckResult
from agentrail.host.requests import (
    HostRequest as HostRequest,
    RequestEvents as RequestEvents,
    RequestRecord as RequestRecord,
)
from agentrail.host.webhook_delivery import WebhookStatistics as WebhookStatistics
from agentrail.host.webhooks import (
    SignedWebhook as SignedWebhook,
    Webhooks as Webhooks,
)

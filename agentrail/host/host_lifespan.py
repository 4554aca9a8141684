"""Opening a host: its context providers, its sessions, and a scope that survives the cancellation of its body."""

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import trio
from attrs import evolve

from agentrail.abc import AtEnd, ContextProvider, HostHooks, Memories, ProviderContext, TimedProvider
from agentrail.abc.store import Filters
from agentrail.actors.deferred_error import Kept
from agentrail.actors.trio_check import need_trio
from agentrail.app import open_supervisor
from agentrail.errors import SessionDown, SessionUnknown
from agentrail.host.attachments import Uploads
from agentrail.host.consolidation import Consolidation
from agentrail.host.hook_payloads import DayBudgetWarning, SessionReader
from agentrail.host.host import Host
from agentrail.host.host_options import HostOptions, decide_host_options
from agentrail.host.host_plugin import HostPlugin
from agentrail.host.host_sessions import HostSessions
from agentrail.host.identity import SessionOwner, owner_of_session
from agentrail.host.plugin_chain import (
    Chain,
    Hearing,
    HookRunner,
    PluginOrder,
    WrongAnswer,
    open_hook_runner,
    tool_hooks,
)
from agentrail.host.plugin_life import PluginLife, open_plugins
from agentrail.host.profile_policy import SessionChange
from agentrail.host.quotas import DayBudgets
from agentrail.host.request_run import HostParts
from agentrail.host.requests import RequestBook, SessionReading
from agentrail.host.shutdown import LEAST_SECONDS
from agentrail.host.webhook_delivery import WebhookDelivery
from agentrail.logs import Logger
from agentrail.messages import Message, SessionId, UserMessage
from agentrail.otp.guarded_calls import call_guarded
from agentrail.runtime.error_scrubber import without_secrets
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.structs import picked_fields

# The sessions of a host's users, for `Consolidation`. None is woken.

_PAGE = 500


class SessionsOfUsers:
    """Reads users' sessions. See `UserSessions`."""

    def __init__(self, sessions: HostSessions) -> None:
        self._sessions = sessions

    def now_ms(self) -> int:
        return now_ms()

    async def changes(self) -> Mapping[SessionOwner, Sequence[SessionChange]]:
        found: defaultdict[SessionOwner, list[SessionChange]] = defaultdict(list)
        after: tuple[str, str] | None = None
        supervisor, filters = self._sessions.supervisor, Filters(only_roots=True)
        # Page by page, because these are all sessions of a server.
        while self._sessions.has_store and (page := await supervisor.find(filters, after=after, limit=_PAGE)):
            after = (page[-1].scope, page[-1].session)
            for row in page:
                listed = await self._sessions.list.listed(row)
                if listed is not None:
                    change = SessionChange(session=row.session, changed_at_ms=row.written_at_ms)
                    found[SessionOwner(row.scope, listed.user_id)].append(change)
        return found

    async def conversation(self, owner: SessionOwner, session: str) -> Sequence[Message] | None:
        try:
            facts = await self._sessions.of_tenant(owner.tenant_id, session)
        except SessionUnknown:
            return None
        return (await self._sessions.conversation(facts, owner.tenant_id))[0]

    async def is_there(self, owner: SessionOwner, session: str) -> bool:
        facts = await self._sessions.supervisor.facts_of(session, scope=owner.tenant_id)
        return facts is not None and owner_of_session(facts.user_data) == owner

    def memories(self, owner: SessionOwner) -> Memories | None:
        return self._sessions.supervisor.memories_of(owner.user_id, tenant_id=owner.tenant_id)


# Context providers of a host and of its plugins.
#
# What a provider may add says the session alone (`agentrail.runtime.context_gatherer`); what it leaves out is only told here.

HOOK: Final = "context_providers"
"""Hook name used for failures of providers."""


class Application(HostPlugin):
    """Placeholder plugin for the application's own providers."""

    name = "(app)"


class Providing(Chain[Any]):
    """A call of one provider."""

    def __init__(
        self,
        plugin: HostPlugin,
        provider: ContextProvider,
        about: ProviderContext,
        messages: tuple[Message, ...],
    ) -> None:
        super().__init__(HOOK, (plugin,), about, messages)
        self._provider = provider
        self._about = about
        self.given: Sequence[UserMessage] | AtEnd = ()

    def function(self, plugin: HostPlugin) -> Callable[..., Awaitable[Any]]:
        return self._provider

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Store the result. The session validates it."""
        self.given = value

    def scrub(self, text: str) -> str:
        return without_secrets(text, self._about.user_data)


class HostProvider(TimedProvider):
    """Adapter that sessions call. One object for all sessions."""

    def __init__(self, plugin: HostPlugin, provider: ContextProvider, runner: HookRunner) -> None:
        self.plugin: HostPlugin = plugin
        self._provider = provider
        self._runner = runner

    async def __call__(
        self, about: ProviderContext, messages: tuple[Message, ...]
    ) -> Sequence[UserMessage] | AtEnd:
        """Call the provider within the time limit of a hook. A failure is reported, and nothing is added."""
        chain = Providing(self.plugin, self._provider, about, messages)
        await self._runner.run(chain)
        return chain.given

    async def left_out(self, about: ProviderContext, faults: tuple[str, ...]) -> None:
        named = call_guarded(lambda _: None, getattr, self._provider, "__qualname__", None)
        who = named if isinstance(named, str) else type(self._provider).__name__
        error = WrongAnswer(f"{who}: {'; '.join(faults)}")
        scrub = partial(without_secrets, user_data=about.user_data)
        await self._runner.report(self.plugin, HOOK, error, scrub=scrub)


def providers_of(
    app_providers: Sequence[ContextProvider], order: PluginOrder, runner: HookRunner
) -> tuple[ContextProvider, ...]:
    own: list[tuple[HostPlugin, ContextProvider]] = [(Application(), one) for one in app_providers]
    own += [(plugin, one) for plugin in order.all for one in plugin.context_providers]
    return tuple([HostProvider(plugin, provider, runner) for plugin, provider in own])


LOGGER: Final = Logger("agentrail.host")


def _warn(parts: HostParts, nursery: trio.Nursery, warning: DayBudgetWarning) -> None:
    if parts.delivery is not None:
        parts.delivery.warn(warning)
    nursery.start_soon(parts.runner.run, Hearing("on_budget_warning", parts.order, warning))


class _Keeper:
    """The task that holds a host open, unaffected by cancellation of its body, and closes it in order."""

    def __init__(self, options: HostOptions) -> None:
        self._options = options
        self.up = trio.Event()
        self.body = trio.CancelScope()
        self.host: Host | None = None
        self.failure = Kept()
        self._leave = trio.Event()
        self._starting = trio.CancelScope()
        self._is_orderly = False
        self._supervisor: SessionSupervisor | None = None

    def leave(self, *, is_orderly: bool) -> None:
        self._is_orderly = is_orderly
        self._starting.cancel(reason="the host is no longer needed")
        self._leave.set()

    async def run(self) -> None:
        """Open the host, hold it until `leave`, and close it. Shielded."""
        options = self._options
        order = PluginOrder.of(options.checked_plugins)
        with trio.CancelScope(shield=True), self.failure:
            async with open_hook_runner(
                hook_seconds=options.hook_timeout, on_plugin_error=options.on_plugin_error
            ) as runner:
                if options.metrics is not None:
                    runner.on_hook = options.metrics.note_hook
                await self._run_over(order, runner)
        self.up.set()
        self.body.cancel(reason="the host was ended")

    async def _run_over(self, order: PluginOrder, runner: HookRunner) -> None:
        hooks = tool_hooks(order, runner, self._reader_of)
        async with self._open_supervisor(hooks) as supervisor, open_plugins(order, runner) as life:
            self._supervisor = supervisor
            if self._options.public_url is not None:
                supervisor.sources.login_address = f"{self._options.public_url.rstrip('/')}/mcp-login"
            providers = providers_of(self._options.context_providers, order, runner)
            sessions = HostSessions(
                supervisor,
                evolve(self._options.checked_profiles, context_providers=providers),
                has_store=self._options.supervisor is None and self._options.store is not None,
                max_sessions_of_each=self._options.limits.max_sessions_per_principal,
            )
            delivery: WebhookDelivery | None = None
            with self._starting:
                delivery = await self._open_delivery(supervisor)
                await life.start()
                await sessions.temporary.load()
                if not (sessions.has_store and supervisor.follow_orphans(sessions.resume_stored)):
                    await sessions.resume_working()
            if self._starting.cancelled_caught:
                return
            parts = HostParts(
                sessions=sessions,
                order=order,
                runner=runner,
                book=RequestBook(),
                uploads=Uploads(self._options.limits),
                budgets=DayBudgets(supervisor, self._options.limits),
                delivery=delivery,
            )
            async with trio.open_nursery() as nursery:
                parts.budgets.on_warning = partial(_warn, parts, nursery)
                self.host = Host(self._options, parts, life, nursery)
                sessions.temporary.begin(nursery, parts.budgets, parts.book)
                for plugin in self._options.checked_plugins:
                    if isinstance(plugin, Consolidation):
                        plugin.connect(SessionsOfUsers(sessions))
                if delivery is not None:
                    nursery.start_soon(delivery.run, name="webhooks")
                    nursery.start_soon(self.host.follow_awaited, name="follow requests for webhooks")
                self.up.set()
                try:
                    await self._leave.wait()
                finally:  # also if a hook or a session has ended the program
                    self.host.close_door()
                await self._close(self.host, life, delivery)
                self.host.close()
                nursery.cancel_scope.cancel(reason="the host was closed")

    async def _open_delivery(self, supervisor: SessionSupervisor) -> WebhookDelivery | None:
        options = self._options
        if options.webhooks is None:
            return None
        keeps = supervisor.keeps_owed and (options.supervisor is not None or options.store != "memory:")
        if not keeps:
            LOGGER.info("pending webhooks are lost when this process ends: configure a store to keep them")
        delivery = WebhookDelivery(options.webhooks, supervisor, survives=keeps)
        await delivery.load()
        return delivery

    async def _close(self, host: Host, life: PluginLife, delivery: WebhookDelivery | None) -> None:
        """End requests with their remaining hooks, then sessions, then plugins."""
        plan = host.begin_closing()
        life.stops_by = plan.done_by
        with trio.CancelScope(deadline=plan.requests_by) as scope:
            if self._is_orderly:
                await host.drain()
            await host.end_requests()
        if scope.cancelled_caught:
            host.cut_hooks()
        # Before the sessions: those have their own time, and all notifications exist by now.
        if delivery is not None:
            with trio.CancelScope(deadline=max(plan.requests_by, trio.current_time() + LEAST_SECONDS)):
                await delivery.close()
        if self._options.supervisor is None:
            with trio.CancelScope(deadline=max(plan.done_by, trio.current_time() + LEAST_SECONDS)):
                await host.supervisor.stop_all("the host was closed")

    @asynccontextmanager
    async def _open_supervisor(self, hooks: HostHooks) -> AsyncIterator[SessionSupervisor]:
        options = self._options
        if options.supervisor is not None:
            options.supervisor.ask_host(hooks)
            yield options.supervisor
            return
        if options.store == "memory:":
            LOGGER.warning(
                "sessions are kept in memory and are lost when this process ends: configure a store to keep them"
            )
        async with open_supervisor(
            **picked_fields(options, "environ", "shell_fallback", "deps_for", "memories", "notes"),
            **picked_fields(
                options, "knowledge", "embedder", "mcp", "store", "data_dir", "telemetry", "metrics", "audit"
            ),
            **picked_fields(options, "durability", "advertise", "lease"),
            hibernate_after=None if options.store is None else options.idle_after,
        ) as supervisor:
            supervisor.ask_host(hooks)  # none of its sessions has started: they are resumed after the plugins
            yield supervisor

    def _reader_of(self, tenant_id: str, session_id: SessionId) -> SessionReader | None:
        if self._supervisor is None:
            return None
        try:
            return SessionReading(self._supervisor.session(session_id, scope=tenant_id))
        except SessionDown:
            return None


@asynccontextmanager
async def open_host(options: HostOptions | None = None, /, **given: Any) -> AsyncIterator[Host]:
    """Open a host: its supervisor, its plugins, and the sessions that had work when their process stopped.

    Leaving the block does the following, in order: refuse new messages, wait for running cycles (`drain_timeout`), end
    the remaining requests with their hooks, put sessions to rest or end them without a store, and stop plugins.

    Args:
        options: All options as one object. Then no keywords are allowed.
        **given: The same options as keywords. See `HostOptions`.

    Yields:
        The host.

    Raises:
        NoTrioRun: Your move: Trio is not running.
        OptionError: The operator's or a plugin author's move. Nothing was started.
        StoreUnavailable, NotAStore, StoreInUse, StoreTooNew: See `open_supervisor`.
        BaseException: Raised by a plugin's `start` or by the body, unchanged.

    Cancellation: The host still closes in order within `shutdown_timeout`, without waiting for cycles. The rest is then
    cancelled: a plugin has one more second for its `stop`, and shielded work such as a tool the few seconds of the
    kernel.
    """
    need_trio()
    keeper = _Keeper(decide_host_options(options, given))
    failure = Kept()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.run, name="keeper of a host")
        try:
            with failure:
                await keeper.up.wait()
                keeper.failure.release()
                assert keeper.host is not None  # noqa: S101 - it is up
                with keeper.body:
                    yield keeper.host
        finally:
            keeper.leave(is_orderly=failure.error is None)
    keeper.failure.release()
    failure.release()

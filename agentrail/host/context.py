"""The providers of context of a host and of its plugins, as sessions ask them: each called as a hook is, and its failures told as its plugin's.

What a provider may add says the session alone (`agentrail.runtime.context`); what it leaves out is only told here.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

from agentrail.abc import AtEnd, ContextProvider, ProviderContext, TimedProvider
from agentrail.host.hooks import Chain, HookRunner, PluginOrder, WrongAnswer
from agentrail.host.plugin import HostPlugin
from agentrail.messages import Message, UserMessage
from agentrail.otp.edges import call_guarded
from agentrail.runtime.scrubbing import without_secrets

HOOK: Final = "context_providers"
"""What failures of providers count as failures of."""


class Application(HostPlugin):
    """Stands for the application where a provider of its own fails, which is no plugin's."""

    name = "(app)"


class Providing(Chain[Any]):
    """One provider that is asked.

    Attributes:
        given: What it gave, unjudged; nothing where it failed.
    """

    def __init__(
        self,
        plugin: HostPlugin,
        provider: ContextProvider,
        about: ProviderContext,
        messages: tuple[Message, ...],
    ) -> None:
        """Begin in front of it."""
        super().__init__(HOOK, (plugin,))
        self._provider = provider
        self._about = about
        self._messages = messages
        self.given: Sequence[UserMessage] | AtEnd = ()

    def function(self, plugin: HostPlugin) -> Callable[..., Awaitable[Any]]:
        """Call the provider, and no hook."""
        return self._provider

    def question(self, plugin: HostPlugin) -> tuple[Any, ...]:
        """Give for whom it is asked, and the conversation."""
        return self._about, self._messages

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Keep what it gave: the session judges it."""
        self.given = value

    def scrub(self, text: str) -> str:
        """Take out the secrets of the session's user data, which the provider was given."""
        return without_secrets(text, self._about.user_data)


class HostProvider(TimedProvider):
    """A provider as sessions ask it. One object for all of them."""

    def __init__(self, plugin: HostPlugin, provider: ContextProvider, runner: HookRunner) -> None:
        """Begin."""
        self.plugin: HostPlugin = plugin
        self._provider = provider
        self._runner = runner

    async def __call__(
        self, about: ProviderContext, messages: tuple[Message, ...]
    ) -> Sequence[UserMessage] | AtEnd:
        """Ask the provider, within the time of a hook; what it fails over is told, and nothing is added.

        Cancellation: It is cancelled.
        """
        chain = Providing(self.plugin, self._provider, about, messages)
        await self._runner.run(chain)
        return chain.given

    async def left_out(self, about: ProviderContext, faults: tuple[str, ...]) -> None:
        """Tell what the session left out, as one failure of the plugin's."""
        named = call_guarded(lambda _: None, getattr, self._provider, "__qualname__", None)
        who = named if isinstance(named, str) else type(self._provider).__name__
        error = WrongAnswer(f"{who}: {'; '.join(faults)}")
        scrub = partial(without_secrets, user_data=about.user_data)
        await self._runner.report(self.plugin, HOOK, error, scrub=scrub)


def providers_of(
    app_providers: Sequence[ContextProvider], order: PluginOrder, runner: HookRunner
) -> tuple[ContextProvider, ...]:
    """Make the providers of a host's sessions: those of the application first, then those of each plugin in its order."""
    own: list[tuple[HostPlugin, ContextProvider]] = [(Application(), one) for one in app_providers]
    own += [(plugin, one) for plugin in order.all for one in plugin.context_providers]
    return tuple([HostProvider(plugin, provider, runner) for plugin, provider in own])

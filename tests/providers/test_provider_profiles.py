"""Named profiles: what a name stands for is looked up when a request is sent, and shown nowhere (7.12)."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from agentrail.abc import Provider
from agentrail.app import make_provider
from agentrail.errors import BadRequest, ModelNotFound, OptionError
from agentrail.providers.http import HttpClients
from agentrail.providers.provider_profiles import KEPT_SECONDS, Profiles
from agentrail.testing.models import FunctionModel, says
from tests.providers.transcripts import completed, request_of


class Made:
    """Stands in for `make_provider`, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.opts: list[Mapping[str, Any]] = []

    def __call__(self, model: str, opts: Mapping[str, Any]) -> Provider:
        self.opts.append(opts)
        return FunctionModel(lambda request: says(f"{model} for {request.model_name}"))


async def _ask(provider: Provider, model: str = "registry:eu:gpt-x") -> str:
    async with provider.open_stream(request_of("Hi", model=model)) as chunks:
        return completed([chunk async for chunk in chunks]).message.text


@pytest.mark.parametrize("is_async", [False, True])
async def test_resolve_is_asked_when_a_request_is_sent(autojump_clock, is_async):
    """Its answer comes over the options and is kept for a minute; then it is asked again, so a rotated key takes effect."""
    asked: list[str] = []

    def resolve(name: str) -> dict[str, str]:
        asked.append(name)
        return {"api_key": f"key {len(asked)}"}

    async def resolve_later(name: str) -> dict[str, str]:
        await trio.lowlevel.checkpoint()
        return resolve(name)

    made = Made()
    profiles = Profiles(made)
    profiles.register("eu", opts={"api_key": "key 0"}, resolve=resolve_later if is_async else resolve)
    provider = profiles.provider_for("registry:eu:gpt-x", {"timeout": 5})
    assert asked == []
    begun_at = autojump_clock.current_time()
    assert await _ask(provider) == "openai-chat:gpt-x for gpt-x"
    assert made.opts[-1] == {"api_key": "key 1", "timeout": 5}
    await trio.sleep(KEPT_SECONDS - 1)
    await _ask(provider)
    assert asked == ["eu"]
    await trio.sleep(1)
    assert autojump_clock.current_time() - begun_at == KEPT_SECONDS
    await _ask(provider)
    assert made.opts[-1]["api_key"] == "key 2"


async def test_requests_that_come_together_resolve_once():
    """A hundred sessions that wake up together do not decrypt the same key a hundred times."""
    asked: list[str] = []

    async def resolve(name: str) -> dict[str, str]:
        asked.append(name)
        await trio.testing.wait_all_tasks_blocked()
        return {}

    profiles = Profiles(Made())
    profiles.register("eu", resolve=resolve)
    provider = profiles.provider_for("registry:eu:gpt-x", {})
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(_ask, provider)
    assert asked == ["eu"]


async def test_a_model_string_that_names_nothing_says_what_there_is():
    """Before a session is started, as with any other model; of a profile that is gone the next request fails."""
    profiles = Profiles(Made())
    profiles.register("eu")
    for model, words in (
        ("registry:us:gpt-x", "there is no profile 'us'; registered: eu"),
        ("registry:eu", "lacks a model; append one to the profile, such as 'registry:eu:some-model'"),
        ("registry:eu:", "lacks a model"),
    ):
        with pytest.raises(ModelNotFound, match=words):
            profiles.provider_for(model, {})

    profiles.register("us")
    provider = profiles.provider_for("registry:eu:gpt-x", {})
    profiles.unregister("eu")
    with pytest.raises(ModelNotFound, match="there is no profile 'eu'; registered: us"):
        await _ask(provider)
    with pytest.raises(ModelNotFound, match="no profile 'eu'"):
        profiles.unregister("eu")


@pytest.mark.parametrize(
    ("answer", "words"),
    [(None, "returned NoneType: expected a mapping"), ({"timeuot": 1}, "do not fit: .*timeout")],
)
async def test_an_answer_of_resolve_that_is_none_is_said_to_be_yours(answer, words):
    """It fails the request, and is no crash of the provider."""
    async with HttpClients() as http:
        profiles = Profiles(partial(make_provider, http=http, environ={}))
        profiles.register("eu", resolve=lambda _: answer)
        with pytest.raises(BadRequest, match=words):
            await _ask(profiles.provider_for("registry:eu:gpt-x", {}))


def test_what_is_wrong_with_a_profile_is_said_when_it_is_registered():
    """Names, options and providers; and nothing of it is registered. Without a supervisor there are no profiles."""
    profiles = Profiles(partial(make_provider, http=HttpClients(), environ={}))
    with pytest.raises(ModelNotFound, match=r"supervisor\.providers\.register"):
        make_provider("registry:eu:gpt-x", {}, http=HttpClients(), environ={})
    with pytest.raises(OptionError, match="expected a name"):
        profiles.register("e:u")
    with pytest.raises(OptionError, match="did you mean 'timeout'"):
        profiles.register("eu", opts={"timeuot": 1, "base_url": "http://localhost:1"})
    with pytest.raises(ModelNotFound, match="no provider 'opneai'"):
        profiles.register("eu", provider="opneai")
    assert profiles.list() == ()


def test_options_of_a_profile_stay_as_they_were_checked():
    """Whoever gave them may change theirs at any depth."""
    made, given = Made(), {"extra_body": {"limits": {"tokens": [1]}}}
    profiles = Profiles(made)
    profiles.register("eu", opts=given)
    given["extra_body"]["limits"]["tokens"].append(2)
    profiles.provider_for("registry:eu:gpt-x", {})
    assert made.opts[-1] == profiles.list()[0].opts == {"extra_body": {"limits": {"tokens": [1]}}}


async def test_a_profile_holds_what_stands_behind_it():
    """What the provider of the last request held; before that what is known; and nothing when it is gone, which another call says."""

    class Holds(FunctionModel):
        secrets: tuple[object, ...] = ()

    def make(_model: str, opts: Mapping[str, Any]) -> Provider:
        made = Holds(lambda _: says("ok"))
        made.secrets = (opts.get("api_key"),)
        return made

    profiles = Profiles(make)
    profiles.register("eu", opts={"api_key": "first-key"}, resolve=lambda _: {"api_key": "second-key"})
    provider = profiles.provider_for("registry:eu:gpt-x", {})
    assert provider.secrets == ("first-key",)
    await _ask(provider)
    assert provider.secrets == ("second-key",)
    other = profiles.provider_for("registry:eu:gpt-x", {})
    profiles.unregister("eu")
    assert other.secrets == ()

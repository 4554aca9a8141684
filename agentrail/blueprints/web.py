"""The capability `web`: page fetching and web search under an operator's rules."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from agentrail.abc import Secret
from agentrail.app import provider_of
from agentrail.blueprints import capability_prompts as texts
from agentrail.blueprints.capability import Capability
from agentrail.blueprints.secret_refs import secret_of
from agentrail.config.schema import SearchForm, SecretForm
from agentrail.config.settings import Sourced
from agentrail.errors import AgentrailError, OptionError
from agentrail.errors.name_guesses import guess_name
from agentrail.tools.web_fetch import web_fetch_tool
from agentrail.tools.web_search import web_search_tool
from agentrail.web.engines import ENGINES, KEY_VARIABLES
from agentrail.web.rules import WebRules, read_inside
from agentrail.web.search import SearchEngine
from agentrail.web.url_policy import AddressRefused, split_url
from agentrail.web.web_client import WebClient


def web_capability(
    rules: WebRules | None = None,
    open_engine: Callable[[], SearchEngine] | None = None,
    *,
    model: str | None = None,
) -> Capability:
    """Build the bundle `web`: `web_fetch`, `web_search` with an engine, and their prompt section.

    Args:
        rules: None: public pages over TLS.
        open_engine: Returns the engine for each search. None: no search.
        model: Model for questions about pages, as `provider:name`. None: the session's model.
    """
    client = WebClient(rules or WebRules())
    tools = [web_fetch_tool(client, model)]
    if open_engine is not None:
        tools.append(web_search_tool(open_engine, client))
    return Capability(name="web", tools=tools, sections={"web": texts.WEB})


def read_web(said: Mapping[str, Sourced], fault: Callable[[Sourced, str], None]) -> Capability:
    """Build the bundle from the values of `web`. `fault` is called with each faulty value and its fault."""
    search = said.get("search")
    engine = None if search is None else _engine_of(search, fault)
    return web_capability(read_web_rules(said, fault), engine, model=_model_of(said, fault))


def read_web_rules(said: Mapping[str, Sourced], fault: Callable[[Sourced, str], None]) -> WebRules:
    """Build rules, with the default for each faulty value reported."""
    values: dict[str, Any] = {}
    for name, one in said.items():
        if name in {"search", "model"}:
            continue
        try:
            values[name] = read_inside(one.plain) if name == "inside" else one.plain
            WebRules(**{name: values[name]})
        except OptionError as error:
            values.pop(name, None)
            for text in error.faults:
                fault(one, text)
    proxy = said.get("proxy")
    if proxy is not None and "@" in proxy.value:
        fault(proxy, "it has a user before its host: never write a password into the file itself")
    return WebRules(**values)


def _model_of(said: Mapping[str, Sourced], fault: Callable[[Sourced, str], None]) -> str | None:
    model = said.get("model")
    if model is None:
        return None
    try:
        provider_of(model.value)
    except AgentrailError as error:
        fault(model, str(error))
        return None
    return str(model.value)


def _engine_of(said: Sourced, fault: Callable[[Sourced, str], None]) -> Callable[[], SearchEngine] | None:
    form: SearchForm = said.value
    if form.engine not in ENGINES:
        guess = guess_name(form.engine, ENGINES, mark="?")
        fault(said, f"engine: there is no search engine {form.engine!r:.80}: {guess}")
        return None
    if form.url is not None:
        try:
            address = split_url(form.url)
        except AddressRefused as error:
            fault(said, f"url: {error}")
            return None
        if address.target != "/":
            fault(
                said,
                "url: it has a path: expected scheme, host and port, such as 'https://search.example'",
            )
            return None
    return partial(_open_engine, form, said.folder)


def _open_engine(form: SearchForm, folder: str) -> SearchEngine:
    where = form.api_key
    variable = KEY_VARIABLES.get(form.engine)
    if where is None and variable is not None:
        where = SecretForm(env=variable)
    key = None if where is None else Secret(secret_of(where, folder, os.environ))
    make = ENGINES[form.engine]
    return make(key=key) if form.url is None else make(key=key, origin=form.url.rstrip("/"))

"""What holds for every test: no network, no keys, one Hypothesis profile; and pages whose code runs.

Fixtures are not for this file; they live beside the tests that use them.
"""

import ipaddress
import os
import sys
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from sybil import Sybil
from sybil.integration.pytest import SybilItem
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# Settings of the machine that would change what a test does: a key turns `demo:` into a real model, a proxy sends
# requests for the loopback elsewhere.
SCRUBBED: Final = (
    *(
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "GEMINI_BASE_URL",
    ),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"),
)

# The machine is shared and a step of a session may compile a schema, so no example has a deadline; async tests get
# function-scoped fixtures from pytest-trio, which reset nothing that an example could leave behind.
QUIET: Final = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)
settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=QUIET)
# The same examples in every run: what is green here stays green, and what is red can be had again at home.
settings.register_profile(
    "ci", max_examples=150, deadline=None, suppress_health_check=QUIET, derandomize=True, print_blob=True
)
settings.register_profile(
    "nightly", max_examples=5_000, deadline=None, suppress_health_check=QUIET, print_blob=True
)


# Properties are held with all examples of the profile in property_tests; beside unit tests they are one sentence of many.
MAX_UNIT_EXAMPLES: Final = 50


def pytest_configure(config: pytest.Config) -> None:
    """Choose the profile, forget the keys, close the network."""
    profile = settings.get_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
    here = config.invocation_params.dir
    if not any("property_tests" in str(here / argument) for argument in config.args):
        profile = settings(profile, max_examples=min(profile.max_examples, MAX_UNIT_EXAMPLES))
    settings.register_profile("chosen", profile)
    settings.load_profile("chosen")
    for name in SCRUBBED:
        os.environ.pop(name, None)
    sys.addaudithook(_refuse_what_leaves_the_machine)


def _refuse_what_leaves_the_machine(event: str, args: tuple[object, ...]) -> None:
    match event, args:
        case ("socket.connect" | "socket.sendto", (_, (str(host), *_))) | (
            "socket.getaddrinfo",
            (str(host), *_),
        ):
            if not _is_loopback(host):
                message = (
                    f"{event} to {host!r}: tests reach nothing beyond the loopback; serve it on 127.0.0.1"
                )
                raise RuntimeError(message)
        case _:  # every other audit event, and sockets of other families
            pass


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in {"", "localhost"}


_pages = Sybil(
    name="page",
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["README.md", "docs/*.md", "docs/**/*.md", "docs/*/*/*.md"],
)
_docstrings = Sybil(
    name="docstring", parsers=[DocTestParser(), PythonCodeBlockParser()], patterns=["agentrail/**/*.py"]
)
pytest_collect_file: Callable[..., object] = (_pages + _docstrings).pytest()


class PagesStayTogether(LoadScopeScheduling):
    """Spreads tests one by one, but the examples of one page together: the later ones use names of the earlier ones."""

    # Not `--dist loadgroup`, which exists for this: it renames the tests by an attribute that pytest 9.2 took away.
    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0] if "::sybil:" in nodeid else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Use it."""
    return PagesStayTogether(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bring the examples of a page back into their order after the shuffle, for the same reason."""
    examples = [item for item in items if isinstance(item, SybilItem)]
    examples.sort(key=lambda item: (item.path, item.example.start))
    items[:] = [*(item for item in items if not isinstance(item, SybilItem)), *examples]

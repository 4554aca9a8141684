"""A client of the conformance suite for its scenarios of logins: the commands, with a browser that follows the link."""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.forked import Ran, Warm, run_forked

WARM = Warm(
    module="agentrail",
    imports=(
        *("agentrail.app", "agentrail.cli.command_tree", "agentrail.cli.mcp_command"),
        *("agentrail.testing.models", "agentrail.tools.mcp.connection", "agentrail.tools.mcp.oauth_login"),
        *("anyio._backends._trio", "certifi", "h2.connection", "httpcore", "httpcore2", "structlog"),
    ),
    patience_seconds=60,
)
DOCUMENT = "https://conformance-test.local/client-metadata.json"
BROWSER = """\
import sys, urllib.error, urllib.request
try:
    urllib.request.urlopen(sys.argv[1])
except urllib.error.HTTPError:
    pass
"""


def client(scenario: str, context: Mapping[str, str]) -> str:
    """Return the client that the suite has registered, or whose document it knows, as a line of the table."""
    if scenario == "auth/basic-cimd":
        return f'oauth = {{ client_metadata_url = "{DOCUMENT}" }}\n'
    if "client_id" not in context:
        return ""
    grant = ', grant = "client_credentials"' if "client-credentials" in scenario else ""
    return (
        f'oauth = {{ client_id = "{context["client_id"]}", client_secret = {{ env = "SECRET" }}{grant} }}\n'
    )


async def log_in(url: str, given: Mapping[str, str], place: Path) -> Ran:
    """Log in, list the tools, and call them: each once, and once more after another login if the first call needs one.

    Return what the last command printed, and its exit code.
    """
    context = json.loads(given.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    browser = place / "browser.py"
    browser.write_text(BROWSER)
    of_client = client(given.get("MCP_CONFORMANCE_SCENARIO", ""), context)
    (place / "agentrail.toml").write_text(f'[mcp.c]\nurl = "{url}"\nauth = "oauth"\n{of_client}')
    variables = {
        "HOME": str(place / "home"),
        "BROWSER": f"{sys.executable} {browser} %s",
        "SECRET": context.get("client_secret", ""),
    }

    async def run(*arguments: str) -> Ran:
        return await run_forked(WARM, "mcp", *arguments, "--trust-project", variables=variables, cwd=place)

    await run("login", "c")
    last = listed = await run("check", "c")
    for tool in re.findall(r"mcp__c__(\S+)", listed.out):
        last = await run("call", "c", tool)
        if "needs a login" in last.out + last.err:
            await run("login", "c")
            last = await run("call", "c", tool)
    return last

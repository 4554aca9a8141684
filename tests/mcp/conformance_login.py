"""What the conformance suite starts for its scenarios of logins: the commands, with a browser that follows the link.

    python conformance_login.py http://localhost:PORT/mcp

Each tool is called once, and once more after another login if the first call needs one.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
IS_MACHINE = "client-credentials" in os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
DOCUMENT = "https://conformance-test.local/client-metadata.json"
BROWSER = """\
import sys, urllib.error, urllib.request
try:
    urllib.request.urlopen(sys.argv[1])
except urllib.error.HTTPError:
    pass
"""


def client():
    """Return the client that the suite has registered, or whose document it knows, as a line of the table."""
    if os.environ.get("MCP_CONFORMANCE_SCENARIO") == "auth/basic-cimd":
        return f'oauth = {{ client_metadata_url = "{DOCUMENT}" }}\n'
    if "client_id" not in CONTEXT:
        return ""
    grant = ', grant = "client_credentials"' if IS_MACHINE else ""
    return (
        f'oauth = {{ client_id = "{CONTEXT["client_id"]}", client_secret = {{ env = "SECRET" }}{grant} }}\n'
    )


def main(url, place):
    """Log in, list the tools, and call them. Return the last exit code."""
    browser = place / "browser.py"
    browser.write_text(BROWSER)
    (place / "agentrail.toml").write_text(f'[mcp.c]\nurl = "{url}"\nauth = "oauth"\n{client()}')
    variables = {
        "HOME": str(place / "home"),
        "BROWSER": f"{sys.executable} {browser} %s",
        "SECRET": CONTEXT.get("client_secret", ""),
    }

    def run(*arguments):
        command = [sys.executable, "-m", "agentrail", "mcp", *arguments, "--trust-project"]
        environ = {**os.environ, **variables}
        return subprocess.run(
            command, cwd=place, env=environ, capture_output=True, text=True, check=False, timeout=60
        )

    run("login", "c")
    listed = run("check", "c")
    code = listed.returncode
    for tool in re.findall(r"mcp__c__(\S+)", listed.stdout):
        called = run("call", "c", tool)
        if "needs a login" in called.stdout + called.stderr:
            run("login", "c")
            called = run("call", "c", tool)
        code = called.returncode
    return code


with tempfile.TemporaryDirectory() as made:
    sys.exit(main(sys.argv[-1], Path(made)))

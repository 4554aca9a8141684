"""The files of the console as they are served and as they are packed: their weight, below a path, behind a proxy, over TLS, and where they came from."""

import gzip
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from agentrail.gateway.app import create_app
from agentrail.gateway.console_files import CONTENT_TYPES, ROOT
from agentrail.gateway.serving import tls_context
from scripts.console_preloads import needed, page_with
from scripts.lint_console import all_faults, faults_of, faults_of_style
from scripts.vendor_console import VENDOR, packages
from tests.checkout import CHECKOUT, only_in_a_checkout
from tests.console.serving import AppThread
from tests.host.hosting import answering, profile
from tests.thinned import nightly

TLS = CHECKOUT / "tests" / "gateway" / "tls"
LIVE = "() => document.querySelector('.connection-button.live')"

MOST_RAW_KB = 400
MOST_GZIP_KB = 120


def served_files():
    return sorted(path for path in ROOT.rglob("*") if path.suffix in CONTENT_TYPES)


# --- rules


def test_the_rules_of_the_console_hold():
    """Nothing makes markup of text, nothing is asked of another origin, what is pure imports what is pure; colours have names, and light and dark the same ones."""
    assert all_faults() == []

    text = (ROOT / "css" / "tokens.css").read_text()
    blocks = [block for block in text.split("}") if "color-scheme: dark" in block]
    colours = [
        sorted(line.strip() for line in block.splitlines() if line.strip().startswith("--"))
        for block in blocks
    ]
    assert len(colours) == 2
    assert colours[0] == colours[1]


BROKEN = """\
node.innerHTML = text;
node.outerHTML = text;
node.insertAdjacentHTML('beforeend', text);
const props = { dangerouslySetInnerHTML: { __html: text } };
frame.srcdoc = text;
document.write(text);
new DOMParser().parseFromString(text, 'text/html');
node.setAttribute('style', text);
node.setAttribute("onclick", text);
eval(text);
new Function(text)();
setTimeout('alert(1)', 0);
new Worker('a.js');
fetch('https://elsewhere.example/x');
localStorage.setItem('token', token);
import { h } from 'preact';
"""


def test_a_rule_that_is_broken_is_named():
    """Each of them is found, with its line, and not where it stands in a comment; pure modules import pure ones, and a style names its colours."""
    for line in BROKEN.splitlines():
        assert len([*faults_of("parts/x.js", f"// Something.\n\n{line}\n")]) == 1, line
        assert [*faults_of("parts/x.js", f"// Something: {line}\n")] == [], line
    assert len([*faults_of("pure/x.js", '// Pure.\nimport { html } from "../ui.js";\n')]) == 1
    assert [*faults_of("pure/x.js", '// Pure.\nimport { y } from "./y.js";\n')] == []
    assert len([*faults_of_style("css/x.css", "a { color: #fff; }\nb { color: rgb(0 0 0); }")]) == 2
    assert [*faults_of_style("css/x.css", "a { color: var(--text); }")] == []


# --- weight


def weight(names):
    """How many KB files have, as they are and as they would be sent compressed."""
    contents = [(ROOT / name).read_bytes() for name in names]
    return sum(map(len, contents)) / 1024, sum(len(gzip.compress(one, 9)) for one in contents) / 1024


def test_what_the_first_page_needs_is_light_and_named():
    """15.9: at most 400 KB as it is, 120 KB compressed, without Markdown; the page names all of it, so that it is asked for at once (`python -m scripts.console_preloads`)."""
    styles = re.findall(r'rel="stylesheet" href="([^"]+)"', (ROOT / "index.html").read_text())
    raw, packed = weight(["index.html", "icon.svg", *styles, *needed()])
    assert raw <= MOST_RAW_KB
    assert packed <= MOST_GZIP_KB
    assert "vendor/markdown-it.js" not in needed()
    assert page_with(needed()) == (ROOT / "index.html").read_text()


# --- where they are served


class Stripping:
    """A proxy that takes a prefix away, as an ASGI application; what comes without it is not passed on."""

    def __init__(self, app, prefix):
        self.app, self.prefix, self.strays = app, prefix, []

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if not scope["path"].startswith(f"{self.prefix}/"):
            self.strays.append(scope["path"])
            await receive()
            if scope["type"] == "websocket":
                await send({"type": "websocket.close"})
                return
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        path = scope["path"].removeprefix(self.prefix)
        raw = scope["raw_path"].removeprefix(self.prefix.encode())
        await self.app({**scope, "path": path, "raw_path": raw}, receive, send)


@pytest.mark.check
@pytest.mark.c(47)
def test_it_works_below_a_base_path_and_over_tls(pages, console_server):
    """From `/agents/`, to which a browser is led, to a live connection of `wss:`; nothing is asked for elsewhere."""
    context = tls_context(TLS / "certificate.pem", TLS / "key.pem")
    console_server.start(answering("Hello"), base_path="/agents", tls=context)
    page = pages.open(f"{console_server.base}/", ignore_https_errors=True, once=LIVE)
    assert page.url.startswith(f"{console_server.base}/console/")
    base = f"//127.0.0.1:{console_server.thread.port}/agents/"
    assert [url for url in pages.of(page).requests if base not in url] == []
    assert [url for url in pages.of(page).requests if url.startswith("wss:")]


@nightly
@pytest.mark.check
@pytest.mark.c(47)
def test_it_works_behind_a_proxy_that_takes_the_path_away(pages):
    """The server knows nothing of the prefix, and the page asks for nothing without it."""
    app = create_app(profiles=[profile(answering("Hello"))], store=None, drain_timeout=0.1)
    proxy = Stripping(app, "/far/away")
    served = AppThread(proxy, drain=app.state.drain)
    try:
        page = pages.open(f"http://127.0.0.1:{served.port}/far/away/", once=LIVE)
        assert proxy.strays == []
    finally:
        pages.finish(page)
        served.stop()


# --- where they came from


@nightly
@only_in_a_checkout
@pytest.mark.check
@pytest.mark.c(47)
@pytest.mark.services("npm")
def test_vendoring_anew_gives_the_files_that_are_committed(tmp_path):
    """From npm with an empty cache: byte for byte what lies there, `vendor.json` too. An archive that is another one is refused, and changes nothing."""
    copy = tmp_path / "checkout"
    (copy / "scripts").mkdir(parents=True)
    shutil.copy(CHECKOUT / "scripts" / "vendor_console.py", copy / "scripts")
    vendor = copy / VENDOR.relative_to(CHECKOUT)
    vendor.mkdir(parents=True)
    shutil.copy(VENDOR / "vendor.json", vendor)

    def files(folder):
        return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    run = [sys.executable, "-m", "scripts.vendor_console"]
    done = subprocess.run(run, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    there = files(VENDOR)
    assert files(vendor) == there
    told = json.loads((vendor / "vendor.json").read_text())
    told["packages"][0]["integrity"] = "sha512-other"
    (vendor / "vendor.json").write_text(json.dumps(told))
    refused = subprocess.run(run, cwd=copy, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "expected sha512-other" in refused.stderr
    (vendor / "vendor.json").write_bytes(there[Path("vendor.json")])
    assert files(vendor) == there


@only_in_a_checkout
@pytest.mark.check
@pytest.mark.c(47)
def test_the_wheel_has_the_files_and_the_licences(tmp_path):
    """All that is served, a licence of each package, and nothing of what only judges types."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, CHECKOUT]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"{path.relative_to(CHECKOUT)}" for path in served_files()} <= names
    licences = {
        f"{file['to']}" for package in packages() for file in package["files"] if "licences" in file["to"]
    }
    assert len(licences) == len(packages())
    assert {f"{VENDOR.relative_to(CHECKOUT)}/{name}" for name in licences} <= names
    assert not [name for name in names if "console" in name and name.endswith((".d.ts", ".json"))]

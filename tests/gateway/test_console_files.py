"""The files of the console over HTTP: what each has, who is led there, and what is given out to nobody."""

import json
import re
from pathlib import Path

import pytest

from agentrail.errors import OptionError
from agentrail.gateway.app import create_app
from agentrail.gateway.console_files import CONTENT_TYPES, POLICY, ROOT, find_file
from tests.checkout import only_in_a_checkout
from tests.gateway.web import error_of, serving
from tests.host.hosting import answering, profile

HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture
async def web(nursery):
    """A server with a console."""
    async with serving(answering("Hello")) as found:
        yield found


async def test_each_file_has_its_type_its_policy_and_an_etag(web):
    """15.4 row 13: content types, `nosniff`, `ETag` with `no-cache`, the policy, no referrer, no opener."""
    for path, content_type in (
        ("main.js", "text/javascript; charset=utf-8"),
        ("css/tokens.css", "text/css; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
        ("vendor/preact.js", "text/javascript; charset=utf-8"),
    ):
        answer = await web.client.get(f"/console/{path}")
        assert (answer.status_code, answer.content) == (200, (ROOT / path).read_bytes())
        assert answer.headers["content-type"] == content_type
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        again = await web.client.get(f"/console/{path}", headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == answer.headers["etag"]
        stale = await web.client.get(f"/console/{path}", headers={"if-none-match": '"other"'})
        assert stale.status_code == 200


async def test_the_page_is_never_kept(web):
    """A page that is kept would ask for files that another version had."""
    for path in ("/console/", "/console/index.html"):
        answer = await web.client.get(path)
        assert answer.headers["cache-control"] == "no-store"
        assert "etag" not in answer.headers
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.content == (ROOT / "index.html").read_bytes()
    head = await web.client.head("/console/")
    assert (head.status_code, head.content) == (200, b"")


def test_the_policy_is_that_of_the_specification():
    """15.7, word by word: what it says was tried."""
    assert POLICY == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


@pytest.mark.parametrize(
    "path",
    [
        "vendor/vendor.json",
        "vendor/preact.d.ts",
        "vendor/licences/preact.txt",
        "../app.py",
        "%2e%2e/app.py",
        "vendor/../../app.py",
        "..%2fapp.py",
        "css//tokens.css",
        "css",
        "nothing.js",
        ".hidden.js",
        "main.js/",
        "main.js%00.css",
        "/etc/passwd",
        "main.js\\..\\x.js",
    ],
)
async def test_nothing_else_is_given_out(web, path):
    """Neither what lies beside the files nor what lies outside."""
    answer = await web.client.get(f"/console/{path}")
    assert answer.status_code in {404, 422}
    assert answer.headers["content-type"] == "application/json"


def test_a_link_or_a_directory_is_no_file(tmp_path):
    """`find_file` gives None for whatever cannot be read as a file."""
    (tmp_path / "sub.js").mkdir()
    assert find_file("sub.js", tmp_path) is None
    assert find_file("a" * 5_000 + ".js", tmp_path) is None
    (tmp_path / "beside.js").write_text("1")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / ".hidden.js").write_text("1")
    for path in ("../beside.js", "./../beside.js", f"{tmp_path}/beside.js", ".hidden.js"):
        assert find_file(path, tmp_path / "root") is None
    assert find_file("beside.js", tmp_path) is not None


async def test_browsers_are_led_there_and_programs_are_not(web):
    """`/` says what this is to who asks for JSON, and leads who asks for a page to the console, by an address that holds behind a proxy too."""
    led = await web.client.get("/", headers=HTML)
    assert (led.status_code, led.headers["location"]) == (302, "console/")
    assert led.headers["vary"].lower().count("accept") >= 1
    told = await web.client.get("/", headers={"accept": "*/*"})
    assert told.json()["service"] == "agentrail"
    bare = await web.client.get("/console")
    assert (bare.status_code, bare.headers["location"]) == (302, "console/")


async def test_from_where_files_are_asked_for_is_judged_all_the_same(web):
    """They need no token, and a name that is none of this server's gets nothing: not of them either."""
    error_of(await web.client.get("/console/", headers={"host": "evil.example"}), 403, "host_refused")
    error_of(await web.client.get("/console/?token=x"), 400, "token_in_url")
    foreign = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    error_of(await web.client.get("/console/main.js", headers=foreign), 403, "origin_refused")
    error_of(await web.client.get("/console/", headers={"x-forwarded-for": "203.0.113.9"}), 403, "forbidden")
    error_of(await web.client.post("/console/main.js", json={}), 405, "method_not_allowed")


async def test_they_need_no_token():
    """Where calls need one, the page that asks for it has to come without."""
    async with serving(answering("Hello"), auth=lambda _: None) as web:
        assert (await web.client.get("/console/")).status_code == 200
        assert (await web.client.get("/console/main.js")).status_code == 200
        error_of(await web.client.get("/sessions"), 401, "unauthorized")


async def test_without_a_console_there_is_nothing():
    """`create_app(console=False)`."""
    async with serving(answering("Hello"), console=False) as web:
        error_of(await web.client.get("/console/"), 404, "route_unknown")
        assert (await web.client.get("/", headers=HTML)).json()["service"] == "agentrail"


@pytest.mark.c(47)
async def test_files_stand_below_the_base_path():
    """Also the way from `/` and from `/console` there."""
    async with serving(answering("Hello"), base_path="/agents") as web:
        assert (await web.client.get("/agents/console/")).status_code == 200
        assert (await web.client.get("/agents/console/css/base.css")).status_code == 200
        led = await web.client.get("/agents/", headers=HTML, follow_redirects=True)
        assert led.url.path == "/agents/console/"
        assert (await web.client.get("/console/")).status_code == 404


def test_console_is_true_or_false():
    """Bad input gets what was expected."""
    with pytest.raises(OptionError, match="console is 'no': expected True or False"):
        create_app(profiles=[profile("demo:")], console="no")


def test_nothing_in_the_page_is_inline():
    """The policy would forbid it, and a browser shows that only in its log."""
    page = (ROOT / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\son\w+=", page)
    assert not re.search(r"(src|href)=\"(https?:)?//", page)


def test_what_lies_there_is_given_out_or_known_not_to_be():
    """A file of another kind would be in the wheel for nothing, or missed by the page."""
    kinds = {path.suffix for path in ROOT.rglob("*") if path.is_file()}
    assert kinds - CONTENT_TYPES.keys() <= {".ts", ".json", ".txt"}


@only_in_a_checkout
@pytest.mark.c(47)
def test_each_file_of_others_is_the_one_that_was_vendored_and_has_its_licence():
    """By the digests of `vendor.json`; `make vendor-console` makes the same, which another test tries."""
    from scripts.vendor_console import VENDOR, faults_of_files, packages  # noqa: PLC0415 - of the checkout

    assert faults_of_files() == []
    for package in packages():
        texts = [file["to"] for file in package["files"] if file["to"].startswith("licences/")]
        assert texts, package["name"]
        assert len((VENDOR / texts[0]).read_text()) > 800
    told = json.loads((VENDOR / "vendor.json").read_text())
    assert "://" not in json.dumps(told), "no registry is named"
    assert not [path for path in Path(VENDOR).glob("*.js") if b"sourceMappingURL" in path.read_bytes()]

"""The files of the console over HTTP: what each has, who is led there, and what is given out to nobody."""

import json
import re
from pathlib import Path

import pytest

from agentrail.gateway.console_files import CONTENT_TYPES, POLICY, ROOT
from tests.checkout import only_in_a_checkout
from tests.gateway.web import serving
from tests.host.hosting import answering

HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.c(47)
async def test_each_file_has_its_type_its_policy_and_an_etag():
    """15.4 row 13: content types, `nosniff`, `ETag` with `no-cache`, the policy, no referrer, no opener; below the base path."""
    async with serving(answering("Hello"), base_path="/agents") as web:
        for path, content_type in (
            ("main.js", "text/javascript; charset=utf-8"),
            ("css/tokens.css", "text/css; charset=utf-8"),
            ("icon.svg", "image/svg+xml"),
            ("vendor/preact.js", "text/javascript; charset=utf-8"),
        ):
            place = f"/agents/console/{path}"
            answer = await web.client.get(place)
            assert (answer.status_code, answer.content) == (200, (ROOT / path).read_bytes())
            assert answer.headers["content-type"] == content_type
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-cache"
            assert answer.headers["content-security-policy"] == POLICY
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["cross-origin-opener-policy"] == "same-origin"
            again = await web.client.get(place, headers={"if-none-match": answer.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == answer.headers["etag"]
            stale = await web.client.get(place, headers={"if-none-match": '"other"'})
            assert stale.status_code == 200
        assert (await web.client.get("/agents/console/")).status_code == 200
        led = await web.client.get("/agents/", headers=HTML, follow_redirects=True)
        assert led.url.path == "/agents/console/"
        assert (await web.client.get("/console/")).status_code == 404


def test_the_policy_is_that_of_the_specification_and_the_page_keeps_to_it():
    """15.7, word by word; nothing in the page is inline, and no file is of a kind that is not served."""
    assert POLICY == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    page = (ROOT / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\son\w+=", page)
    assert not re.search(r"(src|href)=\"(https?:)?//", page)
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

"""The shell of the console in a browser: its connection, its keys, who may see what, and what the policy keeps from happening."""

import time

import pytest

from tests.console.browsing import reload, shows, until
from tests.thinned import nightly

pytestmark = pytest.mark.check

LIVE = "() => document.querySelector('.connection-button.live')"
BAR = "() => document.querySelector('.connection-bar.lost')?.innerText"


# --- who sees what


@pytest.mark.c(34)
def test_without_inspect_pages_name_the_scope_and_ask_for_nothing(pages, scripted_server):
    """Tree, Journal, Cost and Plugins say which scope they need; no request was sent that would be refused."""
    scripted_server.info["principal"]["scopes"] = ["use"]
    page = pages.open(scripted_server.link("#/tree"))
    pages_of_it = {"/tree": "Tree", "/s/a/journal": "Journal", "/cost": "Cost", "/plugins": "Plugins"}
    for place, name in pages_of_it.items():
        page.evaluate("(place) => { location.hash = place; }", place)
        shows(page, f"{name} needs a token with the scope “inspect”.")
    assert scripted_server.asked == ["GET console/info"]
    assert not [frame for frame in scripted_server.received if frame["type"] in {"watch", "subscribe"}]


@pytest.mark.c(44)
def test_the_token_is_nowhere_to_be_seen(pages, scripted_server):
    """It is in no address, request path, `document` text or link after the page has started, and in nothing that outlives the tab."""
    given = f"agt_{'k' * 43}"
    scripted_server.token = given
    page = pages.open(scripted_server.link(f"#token={given}&to=/nowhere"), once=LIVE)
    assert page.evaluate("() => location.hash") == "#/nowhere"
    assert given not in page.content()
    assert not [url for url in pages.of(page).requests if given in url and "#" not in url]
    assert page.evaluate("() => [...document.links].filter((one) => one.href.includes('agt_')).length") == 0
    assert page.evaluate("() => JSON.stringify({ ...localStorage })") == "{}"
    assert page.evaluate("() => document.cookie") == ""
    page.go_back()
    assert given not in page.url
    assert scripted_server.wait_for("hello")["token"] == given


@nightly
def test_a_token_that_is_not_accepted_asks_for_another_one(pages, scripted_server):
    """15.10: "This link's token is not accepted" and a field; the address bar holds none; the right one goes on where the link led."""
    scripted_server.token = "agt_right"  # noqa: S105 - of a test
    page = pages.open(scripted_server.link("#token=agt_wrong&to=/nowhere"))
    pages.of(page).expects.append("401")
    shows(page, "This link's token is not accepted")
    assert "agt_wrong" not in page.url
    page.locator("input[type=password]").fill("agt_other")
    page.keyboard.press("Enter")
    shows(page, "This token is not accepted")
    page.locator("input[type=password]").fill("agt_right")
    page.get_by_role("button", name="Continue").click()
    until(page, LIVE)
    assert page.evaluate("() => document.querySelector('dialog')") is None
    assert page.url.endswith("#/nowhere")
    reload(page, once=LIVE)


# --- the connection


@pytest.mark.c(7)
def test_a_lost_connection_is_tried_again_and_one_without_a_token_is_not(pages, scripted_server):
    """A handshake is given up after 10 s; the bar says when the next try is, and goes with it; `online` does not wait for it; a 401 is not tried again."""
    scripted_server.welcome, welcome = None, scripted_server.welcome
    page = pages.open(scripted_server.link("#/nowhere"), clock=True)
    until(page, "() => document.querySelector('.connection-button.connecting')")
    scripted_server.wait_for("hello")
    page.clock.fast_forward(9_000)
    assert scripted_server.accepted == 1
    page.clock.fast_forward(1_100)
    until(page, "() => document.querySelector('.connection-button.lost')")
    page.clock.fast_forward(1_200)
    said = until(page, BAR)
    assert "Connection lost, " in said
    scripted_server.welcome = welcome
    page.clock.run_for(12_000)
    until(page, LIVE)
    shows(page, "Connected again")
    assert not page.evaluate(BAR)

    scripted_server.close()
    until(page, "() => document.querySelector('.connection-button.lost')")
    before = scripted_server.accepted
    page.evaluate("() => { dispatchEvent(new Event('online')); }")
    until(page, LIVE)
    assert scripted_server.accepted == before + 1

    before = scripted_server.accepted
    scripted_server.close(4401)
    shows(page, "Your token expired or was revoked: log in again. Your draft is kept")
    page.clock.run_for(60_000)
    assert scripted_server.accepted == before


@nightly
def test_the_bar_comes_after_a_second_and_says_as_of_when(pages, scripted_server):
    """A loss of less than a second shows nothing; a longer one when the next try is and as of when all is shown; "Try now" tries."""
    page = pages.open(scripted_server.link("#/nowhere"), once=LIVE)
    scripted_server.welcome, welcome = None, scripted_server.welcome
    scripted_server.close(1006 - 5)
    until(page, "() => document.querySelector('.connection-button.lost')")
    assert not page.evaluate(BAR)
    began = time.monotonic()
    said = until(page, BAR)
    assert time.monotonic() - began > 0.6
    assert "data from " in said
    scripted_server.welcome = welcome
    scripted_server.close()
    page.get_by_role("button", name="Try now").click()
    until(page, LIVE)


@pytest.mark.c(8)
def test_another_protocol_or_a_missing_feature_is_told_and_all_else_works(pages, scripted_server):
    """A newer server: "reload"; an older one without `console/info`, or with fewer features: a banner."""
    scripted_server.info["protocol"] = "agentrail.v2"
    page = pages.open(scripted_server.link("#/nowhere"), showing="This server is newer than this page.")
    assert page.get_by_role("button", name="Reload").is_visible()
    until(page, LIVE)
    scripted_server.info = None
    older = pages.open(scripted_server.link("#/nowhere"))
    pages.of(older).expects.append("404")
    shows(older, "This server is older than this page")
    until(older, LIVE)


# --- keys


def test_keys_lead_to_pages_can_be_switched_off_and_are_letters_in_a_field(pages, scripted_server):
    """`g t`, `?` and `Esc`; switched off they do nothing, but `Ctrl K` does; keys are dead in fields, and the palette finds sessions by what the server says."""
    scripted_server.info["principal"]["scopes"] = ["use"]
    scripted_server.answers["GET sessions"] = {
        "sessions": [
            {"session_id": "s-1", "title": "Refund <b>4411</b>"},
            {"session_id": "s-2", "title": "", "first_words": "Book \u202ea trip"},
            {"session_id": "s-3", "title": "", "first_words": None},
        ],
        "next_cursor": None,
    }
    page = pages.open(scripted_server.link("#/nowhere"))
    pages.of(page).expects.append("404")
    until(page, LIVE)
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").wait_for()
    page.keyboard.type("g t?")
    assert page.get_by_role("combobox").input_value() == "g t?"
    assert page.locator("dialog").count() == 1
    shows(page, "Refund <b>4411</b>", "Book ⟦U+202E⟧a trip", "s-3")
    page.get_by_role("option", name="Refund").click()
    until(page, "() => location.hash === '#/s/s-1'")

    page.evaluate("() => { location.hash = '#/nowhere'; }")
    shows(page, "no page at /nowhere")
    page.keyboard.press("g")
    page.keyboard.press("t")
    until(page, "() => location.hash === '#/tree'")
    until(page, "() => document.activeElement.id === 'content'")  # where a screen reader continues
    button = page.get_by_role("button", name="Keys")
    button.focus()
    page.keyboard.press("?")
    shows(page, "Go to Plugins")
    page.get_by_label("Single-letter shortcuts").uncheck()
    page.keyboard.press("Escape")
    until(page, "() => !document.querySelector('dialog')")
    assert button.evaluate("(one) => one === document.activeElement"), "focus is back where it was"
    for key in ("g", "c", "?"):
        page.keyboard.press(key)
    page.wait_for_timeout(50)
    assert page.url.endswith("#/tree")
    assert page.locator("dialog").count() == 0
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("plug")
    page.keyboard.press("Enter")
    until(page, "() => location.hash === '#/plugins'")


@nightly
def test_colours_are_those_of_the_system_or_of_the_user_and_an_unknown_page_leads_back(
    pages, scripted_server
):
    """As the system, light, dark, kept for the next time; an address that is none says so, and has one thing to do."""
    page = pages.open(scripted_server.link("#/nowhere"), dark=True, once=LIVE)
    ground = "() => getComputedStyle(document.documentElement).backgroundColor"
    assert page.evaluate(ground) == "rgb(20, 22, 26)"
    page.get_by_role("button", name="Colours: System").click()
    until(page, "() => getComputedStyle(document.documentElement).backgroundColor === 'rgb(251, 251, 253)'")
    reload(page, once=LIVE)
    assert page.evaluate(ground) == "rgb(251, 251, 253)"

    shows(page, "This console has no page at /nowhere.")
    assert page.get_by_role("link", name="Go to the sessions").get_attribute("href") == "#/"


# --- what the policy keeps from happening

PLANTED = """
globalThis.tried = {};
const attempt = (name, run) => { try { run(); tried[name] = "ran"; } catch (error) { tried[name] = error.name; } };
attempt("eval", () => eval("1"));
attempt("Function", () => new Function("return 1")());
attempt("innerHTML", () => { document.createElement("p").innerHTML = "<b>x</b>"; });
attempt("srcdoc", () => { document.createElement("iframe").srcdoc = "<p>x</p>"; });
attempt("worker", () => new Worker("main.js"));
attempt("timer", () => setTimeout("globalThis.tried.timer = 'worked'", 0));
attempt("attribute", () => { const one = document.createElement("p"); one.setAttribute("style", "position: fixed"); document.body.append(one); tried.styled = getComputedStyle(one).position; });
attempt("property", () => { const one = document.createElement("p"); one.style.position = "fixed"; document.body.append(one); tried.set = getComputedStyle(one).position; });
const inline = document.createElement("script");
attempt("inline", () => { inline.textContent = "globalThis.tried.inline = 'worked'"; document.body.append(inline); });
const image = new Image();
tried.image = "waits";
image.onerror = () => { tried.image = "blocked"; };
image.onload = () => { tried.image = "loaded"; };
image.src = "https://elsewhere.example/x.png";
const frame = document.createElement("a");
frame.href = "javascript:globalThis.tried.link = 'worked'";
document.body.append(frame);
frame.click();
"""


@pytest.mark.c(38)
def test_what_is_planted_does_not_work(pages, scripted_server):
    """From the page's own code: an inline script, `eval`, `innerHTML`, workers, remote images, `javascript:` do nothing; each is reported."""
    page = pages.open(scripted_server.link("#/nowhere"))
    seen = pages.of(page)
    seen.expects_reports = True
    until(page, LIVE)
    page.route(
        "**/console/planted.js", lambda route: route.fulfill(body=PLANTED, content_type="text/javascript")
    )
    page.evaluate("() => import('/console/planted.js')")
    until(page, "() => tried.image !== 'waits'")
    page.wait_for_timeout(50)
    tried = page.evaluate("() => tried")
    assert tried == {
        **dict.fromkeys(("eval", "Function"), "EvalError"),
        **dict.fromkeys(("innerHTML", "srcdoc", "worker", "inline"), "TypeError"),
        "timer": tried["timer"],
        "attribute": "ran",
        "styled": "static",
        "property": "ran",
        "set": "fixed",
        "image": "blocked",
    }
    assert tried["timer"] != "worked"
    seen.look()
    told = " ".join(seen.reports)
    for directive in ("require-trusted-types-for", "script-src", "img-src", "style-src"):
        assert directive in told, told
    assert not [url for url in seen.requests if "elsewhere.example" in url] or tried["image"] == "blocked"
    seen.requests = [url for url in seen.requests if "elsewhere.example" not in url]


@nightly
def test_something_that_cannot_be_drawn_shows_its_json_and_is_counted(pages, scripted_server):
    """15.10: an exception in a component is that item's; the page goes on."""
    planted = """
import { Guarded } from "./parts/guarded.js";
import { html, render } from "./ui.js";
const Bad = ({ item }) => html`<p>${item.no.such}</p>`;
const place = document.body.appendChild(document.createElement("div"));
render(html`<div>${[{ id: "<i>one</i>" }, { id: "two", no: { such: "fine" } }].map((item) => html`<${Guarded} key=${item.id} value=${item}><${Bad} item=${item} /><//>`)}</div>`, place);
"""
    page = pages.open(scripted_server.link("#/nowhere"))
    pages.of(page).expects.append("TypeError")
    until(page, LIVE)
    page.route(
        "**/console/planted.js", lambda route: route.fulfill(body=planted, content_type="text/javascript")
    )
    page.evaluate("() => import('/console/planted.js')")
    shows(page, "Rendering failed")
    shows(page, '"id": "<i>one</i>"')
    shows(page, "fine")
    page.get_by_role("button", name="Live").click()
    counted = "() => document.querySelector('dialog').innerText.match(/Rendering failures\\s+(\\d+)/)?.[1]"
    assert until(page, counted) == "1"

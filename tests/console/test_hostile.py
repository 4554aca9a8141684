"""The hostile corpus on the page of a session: in every place where a text from outside is shown, it is text."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.console.browsing import until
from tests.console.story import USAGE, Story
from tests.thinned import sample

pytestmark = [pytest.mark.check, pytest.mark.c(19), pytest.mark.c(38)]

CORPUS = Path(__file__).parent / "js" / "hostile.js"
MAX_FRAME_MS = 500

# What stands where texts from outside are shown may be of these tags alone, and no other place may have gained one that runs, loads or asks.
LOOK = """
  const allowed = new Set("P H4 H5 H6 UL OL LI BLOCKQUOTE PRE CODE EM STRONG S A HR BR TABLE THEAD TBODY TR TH TD SPAN DIV BUTTON MARK".split(" "));
  for (const one of document.querySelectorAll(".markdown *, .output *, .safe *, .diff *")) {
    if (!allowed.has(one.tagName.toUpperCase())) faults.push(`<${one.tagName}> in a text`);
    if (one.getAttributeNames().some((name) => name.startsWith("on") || name === "srcdoc")) faults.push(one.outerHTML.slice(0, 200));
  }
  for (const one of document.querySelectorAll("#content :is(script, iframe, object, embed, form[action], link, base, meta, style, math, video, audio, img, template)")) {
    faults.push(one.outerHTML.slice(0, 200));
  }
  for (const one of document.querySelectorAll(".markdown a, .safe a, .output a")) {
    if (!["http:", "https:", "mailto:"].includes(one.protocol)) faults.push(one.href);
    if (one.rel !== "noopener noreferrer nofollow" || one.target !== "_blank" || one.title === "") faults.push(one.outerHTML);
  }
  if (globalThis.__hit !== undefined || Object.prototype.polluted !== undefined) faults.push("a text has run");
"""

END_IS_SEEN = """(seq) => {
  const box = document.querySelector(".feed");
  if (box) box.scrollTop = box.scrollHeight;
  return box?.querySelector(`[data-key="event:${seq}"]`);
}"""

# From the end of the conversation up to a prompt, opening all that can be opened, and down again, window by window, looking.
TOUR = f"""async (prompt) => {{
  const faults = [];
  const rows = new Set();
  const look = () => {{ {LOOK} }};
  const frame = () => new Promise(requestAnimationFrame);
  const box = document.querySelector(".feed");
  const isThere = () => box.querySelector(`[data-key="${{prompt}}"]`) !== null;
  box.scrollTop = box.scrollHeight;
  for (let step = 0; step < 400; step += 1) {{
    await frame();
    const closed = [...box.querySelectorAll('[aria-expanded="false"]')];
    for (const one of closed) one.click();
    if (closed.length === 0 && (isThere() || box.scrollTop === 0)) break;
    box.scrollTop -= closed.length > 0 ? 0 : box.clientHeight;
  }}
  for (let step = 0; step < 400; step += 1) {{
    await frame();
    await frame();
    for (const row of box.querySelectorAll("[data-key]")) rows.add(row.dataset.key);
    look();
    if (box.scrollTop + box.clientHeight >= box.scrollHeight - 4) break;
    box.scrollTop += box.clientHeight;
  }}
  return {{ faults: [...new Set(faults)].slice(0, 10), rows: [...rows], lost: document.querySelectorAll(".not-drawn").length }};
}}"""


@pytest.fixture(scope="module")
def corpus():
    if shutil.which("node") is None:
        pytest.skip("node is not installed: apt-get install nodejs")
    write = f"import {{ hostileTexts }} from '{CORPUS.as_uri()}'; process.stdout.write(JSON.stringify(hostileTexts()));"
    made = subprocess.run(
        ["node", "--input-type=module", "-e", write], capture_output=True, check=True, text=True
    ).stdout
    return json.loads(made)


def everywhere(story: Story, number: int, text: str) -> None:
    """Tell a cycle that has a text in each place where one can be."""
    name, call = text[:2000], f"c-{number}"
    story.begins(text, ref=f"p-{number}")
    story.tell("title_generated", title=name[:60])
    story.asks()
    story.tell("message_start", attempt=1)
    for start in range(0, min(len(text), 20_000), 2_000):
        story.whisper("message_delta", delta=text[start : start + 2_000], attempt=1)
    blocks = [
        {"kind": "thinking", "text": text, "provider": "x"},
        {"kind": "text", "text": text},
        {"kind": "tool_call", "call_id": call, "name": name[:200] or "x", "arguments": {"value": text}},
    ]
    stop = {"stop_reason": "tool_use"}
    message = {"role": "assistant", "content": blocks, "model": name[:100], "cut": False, **stop}
    story.tell("response_complete", message=message, usage={**USAGE, "cost_usd": None}, attempt=1, **stop)
    story.tell("tool_calls", count=1)
    story.starts(call, name[:200] or "x", {"value": text, "path": name, "command": name, name or "x": 1})
    story.whisper("tool_progress", name="x", call_id=call, text=name)
    story.tell("tool_blocked", name="x", call_id=call, reason=name, by=name[:60])
    story.tell("large_result_offloaded", name="x", call_id=call, path=name, bytes=len(text))
    story.ends(call, name[:200] or "x", text or "x", is_error=True, details={"text": name})
    story.tell("plugin_event", name=name[:100], payload={"text": text, name or "x": [name]})
    story.tell("status_update", text=name)
    story.tell("plugin_failed", plugin=name, hook=name, error={"code": name, "message": name}, policy="open")
    story.tell("agent_error", error={"code": "x", "message": name}, ref=f"p-{number}")


def test_the_corpus_is_shown_as_text_everywhere(pages, scripted_server, corpus):
    """Shown, no element beyond the table, no request, no report of the policy, and no frame above 500 ms."""
    story = Story(scripted_server)
    page = pages.open(story.link(), height=2_500)
    until(page, "() => document.querySelector('.feed, .conversation-state .state')")
    slow = {}
    for number, (name, text) in enumerate(sample([*corpus.items()], len(corpus) // 5)):
        with traced(page) as tasks:
            everywhere(story, number, text)
            until(page, END_IS_SEEN, story.seq, seconds=30)
            found = page.evaluate(TOUR, f"prompt:p-{number}")
        assert found["faults"] == [], name
        assert {f"prompt:p-{number}", f"call:c-{number}"} <= {*found["rows"]}, name
        assert found["lost"] == 0, name
        slow |= {name: max(tasks)} if max(tasks) > MAX_FRAME_MS else {}
    assert slow == {}


@contextmanager
def traced(page: Any) -> Iterator[list[float]]:
    """Give how much of a processor each task of the page took, in ms, once the block is over: what others have of the machine does not count."""
    browser = page.context.browser
    tasks: list[float] = []
    browser.start_tracing(page=page, categories=["disabled-by-default-devtools.timeline", "toplevel"])
    yield tasks
    events = json.loads(browser.stop_tracing())["traceEvents"]
    main = {(one["pid"], one["tid"]) for one in events if one.get("args", {}).get("name") == "CrRendererMain"}
    tasks += [
        one.get("tdur", one.get("dur", 0)) / 1000
        for one in events
        if one["name"] in {"RunTask", "ThreadControllerImpl::RunTask"} and (one["pid"], one["tid"]) in main
    ]
    assert tasks

"""A monkey for the console: it presses what it finds, the same in each run of one seed, and says what must not have happened by it.

    python -m tests.console.monkey --seconds 600 --seed 43

begins `agentrail serve --demo` and lets the monkey in; `test_monkey.py` does so for some seconds. What is chosen is a function of the seed and of the page.
"""

import argparse
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from attrs import define, field

from tests.console.browsing import BrowserThread, OpenPages, until

_SESSIONS: Final = ("refund-4411", "weekly-report", "rounding", "compare", "nowhere")
PLACES: Final = ("#/", "#/tree", "#/cost", "#/plugins", *(f"#/s/{one}" for one in _SESSIONS))
_PRESSED: Final = """
? Control+k / j k Enter o [ ] w . y Escape Tab Shift+Tab ArrowDown ArrowUp
ArrowLeft ArrowRight Home End PageDown PageUp Alt+Enter Shift+Enter Control+.
"""
KEYS: Final = tuple(_PRESSED.split())
_HOSTILE: Final = ("<img src=x onerror=alert(1)>", "x" * 400, "\u202eabc")
WORDS: Final = ("hello", "Refund order 17", *_HOSTILE, "# title\n- [ ] one")
MAX_HEAP_MB: Final = 60.0
LEAST_WEIGHED: Final = 6
"""How often a page has to be weighed before it can be said whether it grows."""

_FIND: Final = """() => {
  const wanted = 'button:not([disabled]), a[href^="#"], select, summary, [role=tab], [role=treegrid], input:not([type=password]), textarea';
  const top = document.querySelector('dialog[open]') ?? document;
  const found = [...top.querySelectorAll(wanted)].filter((one) => one.checkVisibility() && one.getBoundingClientRect().width > 0);
  globalThis.__found = found;
  return found.length;
}"""
_ACT: Final = """([index, words]) => {
  const one = globalThis.__found[index];
  if (!one?.isConnected) return 'gone';
  one.scrollIntoView({ block: 'nearest' });
  if (one.matches('input[type=checkbox], input[type=radio]')) one.click();
  else if (one.matches('input, textarea')) {
    const setter = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(one), 'value').set;
    one.focus();
    setter.call(one, one.type === 'range' ? String(words.length % 50) : words);
    one.dispatchEvent(new InputEvent('input', { bubbles: true }));
  } else if (one.matches('select')) {
    one.selectedIndex = words.length % one.options.length;
    one.dispatchEvent(new Event('change', { bubbles: true }));
  } else one.click();
  return one.tagName;
}"""

_CLOSE: Final = """() => {
  const button = [...document.querySelectorAll('dialog[open] .dialog-head button')].at(-1);
  button?.click();
  return button !== undefined;
}"""


@define(eq=False)
class Monkey:
    """What it did, and what it saw by that; what it does follows from its seed and the page."""

    page: Any
    errors: list[str]
    seed: int
    steps: int = 0
    heap_mb: list[float] = field(factory=list)
    faults: list[str] = field(factory=list)

    def run(self, seconds: float) -> None:
        """Do one thing after another for so long, or until something is wrong."""
        draw = random.Random(self.seed)  # noqa: S311 - a seed is what it is for
        closing = random.Random(self.seed)  # noqa: S311 - of its own: how often it is asked depends on what is open
        session = self.page.context.new_cdp_session(self.page)
        ends, every = time.monotonic() + seconds, max(2.0, seconds / 20)
        weigh_at = 0.0
        while time.monotonic() < ends and not self.faults:
            self._step(draw)
            self._look(closing)
            if time.monotonic() >= weigh_at:
                weigh_at = time.monotonic() + every
                session.send("HeapProfiler.collectGarbage")
                self.heap_mb.append(session.send("Runtime.getHeapUsage")["usedSize"] / 1e6)
        self.faults += [fault] if (fault := heap_fault(self.heap_mb)) else []

    def _step(self, draw: random.Random) -> None:
        self.steps += 1
        kind = draw.random()
        if kind < 0.12:
            self.page.evaluate("(place) => { location.hash = place; }", draw.choice(PLACES))
        elif kind < 0.4:
            self.page.keyboard.press(draw.choice(KEYS))
        elif (count := self.page.evaluate(_FIND)) > 0:
            self.page.evaluate(_ACT, [draw.randrange(count), draw.choice(WORDS)])
        self.page.wait_for_timeout(draw.choice((5, 20, 60, 150)))

    def _look(self, draw: random.Random) -> None:
        """Look for exceptions, for things that could not be drawn, and for a dialogue that does not close."""
        self.faults += [f"step {self.steps}: {error}" for error in self.errors if "status of 4" not in error]
        if self.page.evaluate("() => document.querySelectorAll('.not-drawn').length"):
            self.faults.append(
                f"step {self.steps}: something could not be drawn: {self.page.evaluate('() => document.querySelector(`.not-drawn`).innerText')}"
            )
        if self.steps % 5 == 0 and self.page.evaluate(
            "() => document.querySelectorAll('dialog[open]').length"
        ):
            self._close_all(draw)

    def _close_all(self, draw: random.Random) -> None:
        """Close what is open as a person would, by Escape or by its button; one may lie on another."""
        for _ in range(6):
            if draw.random() < 0.5 or not self.page.evaluate(_CLOSE):
                self.page.keyboard.press("Escape")
            self.page.wait_for_timeout(30)
            left = self.page.evaluate("() => document.querySelector('dialog[open]')?.innerText")
            if left is None:
                return
        self.faults.append(f"step {self.steps}: a dialogue does not close: {left[:200]}")


def heap_fault(heap_mb: Sequence[float]) -> str | None:
    """Say whether a page grows: what it held last against what it held when it had settled. None where it does not, or was weighed too seldom to know."""
    told = f"{[round(one, 1) for one in heap_mb]} MB"
    if max(heap_mb, default=0.0) > MAX_HEAP_MB:
        return f"the heap is above {MAX_HEAP_MB:g} MB: {told}"
    third = len(heap_mb) // 3
    if len(heap_mb) < LEAST_WEIGHED:
        return None
    early, late = sorted(heap_mb[third : 2 * third])[third // 2], sorted(heap_mb[-third:])[third // 2]
    return f"the heap grows: {told}" if late > max(early * 1.5, early + 8) else None


def let_loose(
    thread: BrowserThread, link: str, *, seed: int, seconds: float, planted: str | None = None
) -> Monkey:
    """Open a page, and let a monkey have it; in the thread of the browser. `planted` is JavaScript that breaks something."""
    pages = OpenPages(thread)
    page = pages.open(link)
    until(page, "() => document.querySelector('.connection-button.live')")
    monkey = Monkey(page, pages.of(page).errors, seed)
    pages.of(page).expects.append("status of 4")
    if planted is not None:
        page.evaluate(planted)
    monkey.run(seconds)
    monkey.faults += pages.close()
    return monkey


def main() -> int:
    """Begin a demo, let a monkey in, and say what it did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=43)
    parser.add_argument("--planted", help="JavaScript that breaks something first: the run must fail then")
    asked = parser.parse_args()
    command = [sys.executable, "-m", "agentrail", "serve", "--demo", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        thread = BrowserThread()
        try:
            link = f"{address}/console/#/"
            given = {"seed": asked.seed, "seconds": asked.seconds, "planted": asked.planted}
            monkey = thread.run(partial(let_loose, thread, link, **given))
            if server.poll() is not None:
                monkey.faults.append(f"the server ended with {server.returncode}")
        finally:
            thread.close()
            server.send_signal(signal.SIGINT)
            server.wait(30)
    heap = ", ".join(f"{one:.1f}" for one in monkey.heap_mb)
    sys.stdout.write(f"{monkey.steps} steps of seed {monkey.seed}; heap in MB: {heap}\n")
    sys.stdout.writelines(f"{fault}\n" for fault in monkey.faults)
    return 1 if monkey.faults or monkey.steps == 0 else 0


if __name__ == "__main__":
    sys.exit(main())

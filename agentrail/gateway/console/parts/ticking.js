// Times that go on while one looks: one timer for all of them, which rests when nothing goes on. Words come from `text/`.

import { clock } from "../pure/numbers.js";
import { createContext, html, useContext, useEffect, useState } from "../ui.js";

const EVERY_MS = 1_000;

/** @type {import("../vendor/preact.js").Context<number | null>} */
const StillContext = createContext(/** @type {number | null} */ (null));

/** Lets the time stand still below it, at its `value`: where one looks at what was. */
export const StillAt = StillContext.Provider;

/** @type {Set<() => void>} */
const listeners = new Set();
/** @type {any} */
let timer = null;

function tick() {
  for (const listener of [...listeners]) listener();
}

/** @returns {number} the time, in milliseconds since 1970; again each second */
export function useNow() {
  const still = useContext(StillContext);
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (still !== null) return undefined;
    const listener = () => setNow(Date.now());
    listeners.add(listener);
    timer ??= setInterval(tick, EVERY_MS);
    return () => {
      listeners.delete(listener);
      if (listeners.size > 0) return;
      clearInterval(timer);
      timer = null;
    };
  }, [still]);
  return still ?? now;
}

/**
 * How long something takes already. The server's clock may be in front of ours, so it is never less than nothing.
 * @param {{ from: number, words?: (time: string) => string }} props `from`: milliseconds since 1970; `words`: around the time, where it does not stand
 *   beside what it is of
 */
export function Elapsed({ from, words = String }) {
  const now = useNow();
  return html`<span class="time">${words(clock(Math.max(0, now - from)))}</span>`;
}

/**
 * What is left until a moment, in words.
 * @param {{ until: number, words: (time: string) => string, over: string }} props
 */
export function Countdown({ until, words, over }) {
  const left = until - useNow();
  return html`<span>${left > 0 ? words(clock(Math.ceil(left / 1_000) * 1_000)) : over}</span>`;
}

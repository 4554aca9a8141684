// The one polite live region of the page: at most one sentence in two seconds, each whole. Deltas are never announced.

import { html, useEffect, useState } from "../ui.js";

export const PAUSE_MS = 2_000;
const MOST_WAITING = 3;

/** @type {string[]} */
let waiting = [];
/** @type {(text: string) => void} */
let say = () => {};
let saidAt = Number.NEGATIVE_INFINITY;
/** @type {any} */
let timer = null;

/**
 * Says a sentence to those who do not see the page. What is said while one has to wait is said later; of many the last ones.
 * @param {string} sentence
 */
export function announce(sentence) {
  if (waiting.at(-1) === sentence) return;
  waiting = [...waiting, sentence].slice(-MOST_WAITING);
  if (timer === null) tell();
}

function tell() {
  const wait = saidAt + PAUSE_MS - performance.now();
  if (wait > 0) {
    timer = setTimeout(tell, wait);
    return;
  }
  timer = null;
  const next = waiting.shift();
  if (next === undefined) return;
  saidAt = performance.now();
  say(next);
  if (waiting.length > 0) timer = setTimeout(tell, PAUSE_MS);
}

/** Stands once, in the shell. */
export function Announcer() {
  const [sentence, setSentence] = useState({ text: "", count: 0 });
  useEffect(() => {
    say = (text) => setSentence((before) => ({ text, count: before.count + 1 }));
    return () => {
      say = () => {};
    };
  }, []);
  // Another key is another node: the same sentence twice is said twice.
  return html`<div class="sr-only" role="status" aria-live="polite" aria-atomic="true"><span key=${sentence.count}>${sentence.text}</span></div>`;
}

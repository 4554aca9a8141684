// The title of the tab: how much waits, and what is shown. Kept as two facts, since a title that is read back and changed is one that grows.

import { text } from "../text/en.js";

let name = "";
/** @type {Map<string, number>} By who counts: the list counts all that waits, a page what waits in its session. */
const waiting = new Map();

/** @param {string} shown What is shown: a page, or the title of a session. */
export function setTitle(shown) {
  name = shown;
  write();
}

/**
 * @param {"list" | "session"} counter
 * @param {number | null} count Null where it counts no more.
 */
export function setWaitingInTitle(counter, count) {
  if (count === null) waiting.delete(counter);
  else waiting.set(counter, count);
  write();
}

function write() {
  const count = Math.max(0, ...waiting.values());
  const wanted = text.shell.documentTitle(count > 0 ? text.shell.titleWaiting(count, name) : name);
  if (document.title !== wanted) document.title = wanted;
}

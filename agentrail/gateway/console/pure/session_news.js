// What came to a session between two views of it that those have to be told who do not see it: what waits, and what is over. Never what streams. Pure; the
// sentences stand in `text/`.

import { waitingIn } from "./waiting.js";

/** @typedef {import("./view.js").View} View */

/**
 * @typedef {object} News
 * @property {"approval" | "question" | "end" | "abort" | "error" | "ended"} kind
 * @property {string} words the tool, or what went wrong
 * @property {number} calls of the cycle that ended
 */

/** A page that was away does not read out all that it missed. */
const MOST_CYCLES = 3;

/**
 * @param {View} before
 * @param {View} after
 * @returns {News[]}
 */
export function sentencesBetween(before, after) {
  if (after.seq === before.seq) return [];
  const known = new Set(waitingIn(before).map((one) => one.key));
  /** @type {News[]} */
  const news = [];
  for (const one of waitingIn(after)) {
    if (!known.has(one.key)) news.push({ kind: one.kind, words: one.name, calls: 0 });
  }
  for (const cycle of after.cycles.slice(-MOST_CYCLES)) {
    // By its number, and not by what was known: older cycles come in front when history is fetched, and are no news.
    if (cycle.outcome === null || (cycle.to_seq ?? 0) <= before.seq) continue;
    news.push({ kind: cycle.outcome, words: cycle.error?.message ?? "", calls: cycle.calls });
  }
  if (after.ended !== null && before.ended === null) news.push({ kind: "ended", words: "", calls: 0 });
  return news;
}

// The words by which the search finds an item: those that it holds, and those that it is drawn with. What a reader sees can be found.

import { wordsOf } from "../pure/feed_rows.js";
import { text } from "../text/en.js";
import { lineOf } from "./decision_item.js";
import { sentenceOf } from "./notice_words.js";

/** @typedef {import("../pure/view.js").Item} Item */
/** @typedef {import("../pure/view.js").View} View */

const words = text.session;

/** Cards of agents are drawn so deep. */
const DEEPEST = 8;

/**
 * Gives the words of items. What an item holds is put together once: items do not change, and each letter that is typed asks for all of them.
 * @returns {(item: Item, view: View) => string}
 */
export function makeWords() {
  /** @type {WeakMap<Item, string>} */
  const known = new WeakMap();
  const own = (/** @type {Item} */ item) => {
    const before = known.get(item);
    if (before !== undefined) return before;
    const made = `${wordsOf(item)}\n${drawnWith(item)}`;
    known.set(item, made);
    return made;
  };
  const all = (/** @type {Item} */ item, /** @type {View} */ view, depth = 1) => {
    const found = [own(item), passingOf(item, view)];
    if (item.type !== "call" || depth > DEEPEST) return found.join("\n");
    for (const id of item.call.children) {
      const child = view.children[id];
      if (child === undefined) continue;
      found.push(child.agent_id ?? "", child.description ?? "");
      for (const one of child.view?.items ?? []) found.push(all(one, /** @type {View} */ (child.view), depth + 1));
    }
    return found.join("\n");
  };
  return (item, view) => all(item, view);
}

/**
 * The words of the page on an item.
 * @param {Item} item
 * @returns {string}
 */
function drawnWith(item) {
  switch (item.type) {
    case "prompt":
      return /** @type {Record<string, string>} */ (words.promptStates)[item.state] ?? "";
    case "answer":
      return item.attempts.map((one) => words.attemptFailed(one.attempt, one.error?.message ?? "")).join("\n");
    case "call":
      return /** @type {Record<string, string>} */ (words.callStates)[item.call.state] ?? "";
    case "decision":
      return lineOf(item);
    case "notice":
      return sentenceOf(item);
    case "gap":
      return words.gap(item.from_seq, item.to_seq);
  }
}

/**
 * What streams: it stands in the view, and not in the item.
 * @param {Item} item
 * @param {View} view
 * @returns {string}
 */
function passingOf(item, view) {
  if (item.type === "call") return view.progress[item.call.call_id] ?? "";
  if (item.type !== "answer" || view.live === null || view.live.key !== item.key) return "";
  return `${view.live.text}\n${view.live.thinking}`;
}

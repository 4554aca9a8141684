// What waits for a person in a session and in all that work for it, oldest first. Pure.

import { oneLine, summaryOf } from "./call_summary.js";

/** @typedef {import("./view.js").View} View */

/**
 * @typedef {object} WaitingHere
 * @property {string} key unique
 * @property {string} id what it is decided by
 * @property {"approval" | "question"} kind
 * @property {string} session whose call it is
 * @property {string} item the key of the item of this view to show: the call of this session below which it waits
 * @property {string} name the tool, or what asks
 * @property {string} summary on one line
 * @property {number} at_ms
 */

/** How deep it is looked: cards are not drawn deeper. */
const DEEPEST = 8;

/**
 * @param {View} view
 * @returns {WaitingHere[]}
 */
export function waitingIn(view) {
  return collect(view, null, 0).sort((one, other) => one.at_ms - other.at_ms);
}

/**
 * @param {View} view
 * @param {string | null} item of the view at the top
 * @param {number} depth
 * @returns {WaitingHere[]}
 */
function collect(view, item, depth) {
  /** @type {WaitingHere[]} */
  const found = [];
  for (const one of view.approvals) {
    const key = `approval:${one["id"]}`;
    const summary = summaryOf(one["arguments"]);
    found.push({
      key,
      id: one["id"],
      kind: "approval",
      session: view.session_id,
      item: item ?? key,
      name: one["tool"],
      summary,
      at_ms: one["requested_at_ms"] ?? 0,
    });
  }
  for (const one of view.questions) {
    const key = `question:${one["ref"]}`;
    const summary = oneLine(one["question"] ?? "");
    found.push({
      key,
      id: one["ref"],
      kind: "question",
      session: view.session_id,
      item: item ?? key,
      name: "",
      summary,
      at_ms: one["requested_at_ms"] ?? 0,
    });
  }
  if (depth >= DEEPEST) return found;
  for (const child of Object.values(view.children)) {
    if (child.view === null || child.ended) continue;
    found.push(...collect(child.view, item ?? `call:${child.call_id}`, depth + 1));
  }
  return found;
}

/**
 * Where something that waits stands in a view: what a link to it names is only what it is decided by.
 * @param {View} view
 * @param {string} id of an approval, or the reference of a question
 * @returns {string | null} the key of the item to show, also of one that is decided; null: it is not there
 */
export function itemOfWaiting(view, id) {
  const keys = [`approval:${id}`, `question:${id}`];
  const open = waitingIn(view).find((one) => keys.includes(one.key));
  return open?.item ?? view.items.find((item) => keys.includes(item.key))?.key ?? null;
}

/**
 * A question, in how a session and all below it stand.
 * @param {Record<string, any> | null | undefined} status as the server tells it
 * @param {string} ref
 * @param {number} [depth]
 * @returns {Record<string, any> | null}
 */
export function questionIn(status, ref, depth = 0) {
  if (status === null || status === undefined || depth > DEEPEST) return null;
  const own = (status["questions"] ?? []).find((/** @type {any} */ one) => one["ref"] === ref);
  if (own !== undefined) return own;
  for (const child of status["children"] ?? []) {
    const found = questionIn(child?.["status"], ref, depth + 1);
    if (found !== null) return found;
  }
  return null;
}

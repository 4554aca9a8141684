// What stands on the one line of a call that is folded: the command, the path, or how its arguments begin; and the files that it changes.
//
// Pure: no DOM, no words.

/** @typedef {import("./view.js").Call} Call */

/** How many characters a line has: the rest is behind the fold, and the card says so by its ellipsis. */
const MOST = 200;

/** Which argument says most of a call, in the order in which they are looked for. */
const TELLING = ["command", "path", "pattern", "query", "question", "url", "description", "task", "name", "city", "id"];

/**
 * @param {Record<string, any> | null | undefined} args
 * @returns {string} on one line, up to 200 characters; empty where there is nothing to tell
 */
export function summaryOf(args) {
  if (args === null || args === undefined) return "";
  const names = Object.keys(args);
  if (names.length === 0) return "";
  const telling = TELLING.find((name) => typeof args[name] === "string" && args[name] !== "");
  if (telling !== undefined) return oneLine(args[telling]);
  const only = names.length === 1 ? args[/** @type {string} */ (names[0])] : undefined;
  if (typeof only === "string" || typeof only === "number" || typeof only === "boolean") return oneLine(String(only));
  return oneLine(names.map((name) => `${name}: ${brief(args[name])}`).join(", "));
}

/**
 * @param {string} text
 * @returns {string}
 */
export function oneLine(text) {
  const begun = text
    .slice(0, MOST * 2)
    .replace(/\s+/g, " ")
    .trim();
  return begun.length > MOST ? `${begun.slice(0, MOST - 1)}…` : begun;
}

/**
 * @param {unknown} value
 * @returns {string} a text as it is, a list by its length, an object by its names: all of it is behind the fold
 */
function brief(value) {
  if (typeof value === "string") return value.length > MOST ? `${value.slice(0, MOST)}…` : value;
  if (Array.isArray(value)) return `[${value.length}]`;
  if (typeof value === "object" && value !== null) return `{${Object.keys(value).slice(0, 5).join(", ")}}`;
  return String(value);
}

/**
 * What a call changes in a file, where its arguments tell it.
 * @param {Call} call
 * @returns {{path: string, before: string, after: string, whole: boolean, is_new: boolean} | null} `whole`: the file was
 *   written anew, and `before` is not known; null where it changes none, or its arguments were cut for the wire
 */
export function fileChangeOf(call) {
  const args = call.arguments ?? call.asked;
  if (args === null || typeof args.path !== "string") return null;
  if (call.name === "edit_file" && typeof args.old_string === "string" && typeof args.new_string === "string") {
    return { path: args.path, before: args.old_string, after: args.new_string, whole: false, is_new: false };
  }
  if (call.name === "write_file" && typeof args.content === "string") {
    const file = call.result?.details?.file;
    const isNew = file !== undefined && file !== null && file.sha256_before === null;
    return { path: args.path, before: "", after: args.content, whole: true, is_new: isNew };
  }
  return null;
}

/**
 * How many bytes the server left out of a value, because it is larger than a page of events takes.
 * @param {unknown} value
 * @returns {number} 0 where it is whole
 */
export function cutBytes(value) {
  if (typeof value !== "object" || value === null) return 0;
  const one = /** @type {Record<string, unknown>} */ (value);
  if (typeof one.$cut === "number") return one.$cut;
  let sum = 0;
  // Arguments and results are cut in whole fields, so two levels are enough, and a deep value costs nothing.
  for (const name of Object.keys(one).slice(0, 200)) {
    const inner = one[name];
    if (typeof inner !== "object" || inner === null) continue;
    const told = /** @type {Record<string, unknown>} */ (inner).$cut;
    if (typeof told === "number") sum += told;
  }
  return sum;
}

const ENDED = new Set(["done", "failed", "blocked", "rejected", "skipped", "unknown_tool", "killed", "uncertain"]);

/**
 * Say whether nothing more comes of a call.
 * @param {Call} call
 * @returns {boolean}
 */
export function isOver(call) {
  return ENDED.has(call.state);
}

/**
 * Say whether a card stands open by itself: what failed is looked at, what went well or was stopped is one line.
 * @param {Call} call
 * @returns {boolean}
 */
export function opensByItself(call) {
  if (call.children.length > 0 && !isOver(call)) return true;
  return call.state === "failed" || call.state === "uncertain";
}

// What is to be said of nodes of the supervision tree: which want to be looked at, what a restart was, in which order they stand. Pure: no DOM, no words,
// and no clock; the time is given.

import { nameOf } from "./session_name.js";

/**
 * A row of the watch `tree`.
 * @typedef {object} Node
 * @property {string} key Numbers with points between them, or `parked:` and a session.
 * @property {string | null} parent
 * @property {string} name
 * @property {"supervisor" | "session" | "source" | "actor"} kind
 * @property {string} status
 * @property {string | null} [phase]
 * @property {string | null} [session_id]
 * @property {string | null} [title]
 * @property {string | null} [first_words]
 * @property {number} incarnation
 * @property {number} restarts
 * @property {number | null} [mailbox]
 * @property {number | null} [up_at_ms]
 * @property {string | null} [strategy]
 * @property {{ used: number, allowed: number, within_ms: number } | null} [intensity]
 * @property {{ reason: string, at_ms: number }[]} [exits] The newest last.
 * @property {boolean} [stuck]
 */

/** For how long a restart is shown. */
export const RESTART_SHOWN_MS = 60_000;

/** @typedef {"stuck" | "parked" | "restarted" | "letters"} Why In the order of how much it matters. */

/** @type {readonly Why[]} */
const WHYS = ["stuck", "parked", "restarted", "letters"];

/** @typedef {"tree" | "restarts" | "mailbox" | "uptime"} NodeOrder */

/**
 * What a session is about: its title, else what was said to it first; null of what is no session, or said nothing yet.
 * @param {Node} node
 * @returns {string | null}
 */
export function aboutOf(node) {
  return nameOf(node);
}

/**
 * Says why a node wants to be looked at; what matters most first, and nothing of one that is well.
 * @param {Node} node
 * @param {number} now Milliseconds since 1970.
 * @returns {Why[]}
 */
export function whysOf(node, now) {
  /** @type {Why[]} */
  const found = [];
  if (node.stuck) found.push("stuck");
  if (node.status === "parked") found.push("parked");
  if (restartOf(node, now) !== null) found.push("restarted");
  if ((node.mailbox ?? 0) > 0) found.push("letters");
  return found;
}

/**
 * The last restart of a node, where it is less than a minute ago.
 * @param {Node} node
 * @param {number} now
 * @returns {{ agoMs: number, reason: string, used: number | null, allowed: number | null, withinMs: number | null } | null}
 */
export function restartOf(node, now) {
  const last = node.exits?.at(-1);
  if (last === undefined || node.status === "parked") return null;
  const agoMs = Math.max(0, now - last.at_ms); // the server's clock may be in front of ours
  if (agoMs >= RESTART_SHOWN_MS) return null;
  const budget = node.intensity ?? null;
  return {
    agoMs,
    reason: last.reason,
    used: budget?.used ?? null,
    allowed: budget?.allowed ?? null,
    withinMs: budget?.within_ms ?? null,
  };
}

/**
 * The nodes that want to be looked at: those for which it matters most first, and of these what happened last.
 * @param {Iterable<Node>} nodes
 * @param {number} now
 * @returns {{ node: Node, whys: Why[] }[]}
 */
export function nodesToLookAt(nodes, now) {
  const found = [];
  for (const node of nodes) {
    const whys = whysOf(node, now);
    if (whys.length > 0) found.push({ node, whys });
  }
  const rank = (/** @type {Why[]} */ whys) => WHYS.indexOf(whys[0] ?? "letters");
  const at = (/** @type {Node} */ node) => node.exits?.at(-1)?.at_ms ?? 0;
  found.sort(
    (one, other) =>
      rank(one.whys) - rank(other.whys) ||
      at(other.node) - at(one.node) ||
      (other.node.mailbox ?? 0) - (one.node.mailbox ?? 0) ||
      comparePlaces(placeOf(one.node), placeOf(other.node)),
  );
  return found;
}

/**
 * Until when something that is shown changes because time goes on: the next restart that is a minute ago. Null where nothing does.
 * @param {Iterable<Node>} nodes
 * @param {number} now
 * @returns {number | null}
 */
export function nextChangeAt(nodes, now) {
  let next = null;
  for (const node of nodes) {
    const restart = restartOf(node, now);
    if (restart === null) continue;
    const at = now - restart.agoMs + RESTART_SHOWN_MS;
    if (next === null || at < next) next = at;
  }
  return next;
}

/** @type {WeakMap<Node, { key: string, numbers: number[] | null }>} Of nodes that are there: one that has not changed is the same object. */
const places = new WeakMap();

/**
 * A place in the tree, read once: thousands of nodes are put in order four times a second.
 * @param {Node} node
 * @returns {{ key: string, numbers: number[] | null }}
 */
function placeOf(node) {
  const known = places.get(node);
  if (known !== undefined) return known;
  const place = placeIn(node.key);
  places.set(node, place);
  return place;
}

/** @param {string} key @returns {{ key: string, numbers: number[] | null }} */
function placeIn(key) {
  const numbers = key.split(".").map(Number);
  return { key, numbers: numbers.every(Number.isFinite) ? numbers : null };
}

/**
 * Compares places in the tree: numbers by their value, one after the other; what has no number stands behind.
 * @param {{ key: string, numbers: number[] | null }} one
 * @param {{ key: string, numbers: number[] | null }} other
 */
function comparePlaces(one, other) {
  const mine = one.numbers;
  const theirs = other.numbers;
  if (mine === null || theirs === null) {
    if (mine !== theirs) return mine === null ? 1 : -1;
    return one.key < other.key ? -1 : one.key > other.key ? 1 : 0;
  }
  for (let place = 0; place < Math.min(mine.length, theirs.length); place += 1) {
    const difference = (mine[place] ?? 0) - (theirs[place] ?? 0);
    if (difference !== 0) return difference;
  }
  return mine.length - theirs.length;
}

/**
 * The session that a node is below, or null.
 * @param {ReadonlyMap<string, Node>} rows
 * @param {Node} node
 * @returns {string | null}
 */
export function sessionAbove(rows, node) {
  const parent = rows.get(node.parent ?? "");
  if (parent === undefined) return null;
  return parent.session_id ?? sessionAbove(rows, parent);
}

/**
 * Puts nodes in order: siblings stay below their parent, so this decides among them. Where two are equal they stand as in the tree.
 * @param {Iterable<Node>} nodes
 * @param {{ key: string, isDescending: boolean } | null} sort `restarts`, `mailbox` or `uptime`; null for the order of the tree.
 * @returns {Node[]}
 */
export function sortedNodes(nodes, sort) {
  const inTree = [...nodes].sort((one, other) => comparePlaces(placeOf(one), placeOf(other)));
  if (sort === null) return inTree;
  const sign = sort.isDescending ? -1 : 1;
  return inTree.sort((one, other) => sign * (amountIn(one, sort.key) - amountIn(other, sort.key)));
}

/**
 * @param {Node} node
 * @param {string} key
 */
function amountIn(node, key) {
  if (key === "restarts") return node.restarts;
  if (key === "mailbox") return node.mailbox ?? -1;
  // Who came up last has the shortest uptime; one that is not up has none.
  return node.up_at_ms == null ? Number.MIN_SAFE_INTEGER : -node.up_at_ms;
}

/**
 * Lets nodes pass that have these words in their name, or in what they are about, and those above them.
 * @param {readonly Node[]} nodes
 * @param {string} words
 * @returns {Node[]}
 */
export function nodesWith(nodes, words) {
  const wanted = words.trim().toLowerCase();
  if (!wanted) return [...nodes];
  const byKey = new Map(nodes.map((node) => [node.key, node]));
  /** @type {Set<string>} */
  const kept = new Set();
  for (const node of nodes) {
    if (
      !`${node.name} ${node.title ?? ""} ${node.first_words ?? ""} ${node.status} ${node.phase ?? ""}`
        .toLowerCase()
        .includes(wanted)
    )
      continue;
    for (let at = /** @type {Node | undefined} */ (node); at && !kept.has(at.key); at = byKey.get(at.parent ?? ""))
      kept.add(at.key);
  }
  return nodes.filter((node) => kept.has(node.key));
}

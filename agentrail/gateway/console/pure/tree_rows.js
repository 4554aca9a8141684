// A tree as the rows of a list: what lies below a folded node is left out. Pure.

/**
 * @template T
 * @typedef {object} TreeRow
 * @property {string} key
 * @property {number} level From 1.
 * @property {boolean | null} isOpen Null for one that has nothing below it.
 * @property {number} place Among its siblings, from 1.
 * @property {number} siblings How many those are, itself among them.
 * @property {T} value
 */

/**
 * Gives the rows of a tree from the top, each in front of what lies below it, siblings in the order in which they came. One whose parent is not there, or that
 * is its own ancestor, stands at the top.
 * @template T
 * @param {readonly T[]} values
 * @param {{ keyOf: (value: T) => string, parentOf: (value: T) => string | null, isFolded: (key: string) => boolean }} how
 * @returns {TreeRow<T>[]}
 */
export function treeRows(values, { keyOf, parentOf, isFolded }) {
  const below = siblingsBelow(values, keyOf, parentOf);
  /** @type {TreeRow<T>[]} */
  const rows = [];
  // A stack of our own: a deep tree must not be one of the program.
  /** @type {{ nodes: T[], at: number, level: number }[]} */
  const stack = [{ nodes: below.get(null) ?? [], at: 0, level: 1 }];
  for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
    const value = top.nodes[top.at];
    if (value === undefined) {
      stack.pop();
      continue;
    }
    top.at += 1;
    const key = keyOf(value);
    const children = below.get(key) ?? [];
    const isOpen = children.length === 0 ? null : !isFolded(key);
    rows.push({ key, level: top.level, isOpen, place: top.at, siblings: top.nodes.length, value });
    if (isOpen) stack.push({ nodes: children, at: 0, level: top.level + 1 });
  }
  return rows;
}

/**
 * Sorts values by what they lie below; null for the top. Each is reached from there once.
 * @template T
 * @param {readonly T[]} values
 * @param {(value: T) => string} keyOf
 * @param {(value: T) => string | null} parentOf
 * @returns {Map<string | null, T[]>}
 */
function siblingsBelow(values, keyOf, parentOf) {
  const known = new Set(values.map(keyOf));
  /** @type {Map<string | null, T[]>} */
  const below = new Map([[null, []]]);
  const put = (/** @type {string | null} */ at, /** @type {T} */ value) => {
    const siblings = below.get(at);
    if (siblings) siblings.push(value);
    else below.set(at, [value]);
  };
  for (const value of values) {
    const parent = parentOf(value);
    put(parent !== null && known.has(parent) ? parent : null, value);
  }
  /** @type {Set<string>} */
  const reached = new Set();
  const reach = (/** @type {T[]} */ from) => {
    const waiting = [...from];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      reached.add(keyOf(next));
      for (const one of below.get(keyOf(next)) ?? []) if (!reached.has(keyOf(one))) waiting.push(one);
    }
  };
  reach(below.get(null) ?? []);
  for (const value of values) {
    if (reached.has(keyOf(value))) continue;
    // It lies in a circle, or below one, which is cut in front of it.
    const parent = parentOf(value);
    below.set(
      parent,
      (below.get(parent) ?? []).filter((one) => one !== value),
    );
    put(null, value);
    reach([value]);
  }
  return below;
}

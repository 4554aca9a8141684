// Rows that a `watch` keeps: by key, merged as changes come. Pure.

/** @typedef {"sessions" | "waiting" | "tree" | "plugins"} WatchName */
/** @typedef {Record<string, any>} Row */
/** @typedef {ReadonlyMap<string, Row>} Rows Each by its key, in the order in which they came. */

/** @type {Record<WatchName, string>} What tells the rows of each apart. */
export const KEY_OF = { sessions: "session_id", waiting: "key", tree: "key", plugins: "key" };

/**
 * @param {WatchName} what
 * @param {readonly Row[]} rows
 * @returns {Rows}
 */
export function rowsOf(what, rows) {
  return mergeRows(what, new Map(), rows, []);
}

/**
 * Gives the rows behind a change: a row that came anew stands where the old one stood, one that is new at the end. What did not change is the same object.
 * @param {WatchName} what
 * @param {Rows} before
 * @param {readonly Row[]} changed Whole rows.
 * @param {readonly string[]} gone Keys.
 * @returns {Rows}
 */
export function mergeRows(what, before, changed, gone) {
  const after = new Map(before);
  for (const key of gone) after.delete(key);
  for (const row of changed) {
    const key = row[KEY_OF[what]];
    if (typeof key === "string") after.set(key, row);
  }
  return after;
}

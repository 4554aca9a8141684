// Slash commands in what a person types. Pure: which of them are meant, and what stands behind the name.

/** @typedef {{name: string, description: string, arguments: string, source: string, available: boolean, why_not: string | null}} CommandRow */

/** How many are offered at once. */
export const OFFERED = 8;

const TYPED = /^\/([A-Za-z0-9][A-Za-z0-9_:-]*)(?:\s+([\s\S]*))?$/;

/**
 * The command that a draft is, as a whole; null for other words, such as a path.
 * @param {readonly CommandRow[]} rows
 * @param {string} draft
 * @returns {{row: CommandRow, text: string} | null}
 */
export function commandIn(rows, draft) {
  const found = TYPED.exec(draft.trim());
  if (found === null) return null;
  const name = (found[1] ?? "").toLowerCase();
  const row = rows.find((one) => one.name === name);
  return row === undefined ? null : { row, text: (found[2] ?? "").trim() };
}

/**
 * The commands whose names begin as a draft does; none once something stands behind the name.
 * @param {readonly CommandRow[]} rows
 * @param {string} draft
 * @returns {readonly CommandRow[]}
 */
export function commandsFor(rows, draft) {
  const typed = /^\/(\S*)$/.exec(draft);
  if (typed === null) return [];
  const begun = (typed[1] ?? "").toLowerCase();
  return rows.filter((one) => one.name.startsWith(begun)).slice(0, OFFERED);
}

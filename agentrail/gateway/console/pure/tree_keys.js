// What a key means in a tree, by the pattern of ARIA. Pure.

/**
 * What a key means in a tree: another row, folding, or nothing.
 * @param {string} key
 * @param {readonly { level: number, isOpen: boolean | null }[]} rows
 * @param {number} at
 * @param {boolean} canFold
 * @returns {number | { isOpen: boolean } | null}
 */
export function afterKey(key, rows, at, canFold) {
  const row = rows[at];
  const last = rows.length - 1;
  if (row === undefined) return null;
  switch (key) {
    case "ArrowDown":
      return Math.min(at + 1, last);
    case "ArrowUp":
      return Math.max(at - 1, 0);
    case "PageDown":
      return Math.min(at + 10, last);
    case "PageUp":
      return Math.max(at - 10, 0);
    case "Home":
      return 0;
    case "End":
      return last;
    case "ArrowRight":
      if (!canFold || row.isOpen === null) return null;
      return row.isOpen ? Math.min(at + 1, last) : { isOpen: true };
    case "ArrowLeft": {
      if (!canFold) return null;
      if (row.isOpen) return { isOpen: false };
      for (let index = at - 1; index >= 0; index -= 1) if ((rows[index]?.level ?? 0) < row.level) return index;
      return null;
    }
    default:
      return null;
  }
}

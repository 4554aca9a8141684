// The parts of a request as a tree: what is of one kind lies below one row, which has the sum of it. Pure.

/**
 * @typedef {object} Part
 * @property {string} key
 * @property {string | null} parent Null for what stands for a kind.
 * @property {string} kind
 * @property {string} name
 * @property {number} tokens
 * @property {string} text How it begins.
 * @property {number} count How many lie below; 0 of one that is no group.
 * @property {string | null} ref
 * @property {readonly string[]} calls
 */

const ORDER = ["system", "tools", "summary", "message", "provider"];

/**
 * @param {readonly Record<string, any>[]} parts as the server sends them
 * @returns {Part[]} each kind in front of its parts, in the order in which they are sent
 */
export function groupedParts(parts) {
  /** @type {Map<string, Part[]>} */
  const kinds = new Map();
  parts.forEach((part, place) => {
    const kind = String(part.kind ?? "message");
    const one = {
      key: `${kind}:${place}`,
      parent: kind,
      kind,
      name: String(part.name ?? ""),
      tokens: part.tokens ?? 0,
      text: String(part.text_head ?? ""),
      count: 0,
      ref: part.ref ?? null,
      calls: part.call_ids ?? [],
    };
    const known = kinds.get(kind);
    if (known === undefined) kinds.set(kind, [one]);
    else known.push(one);
  });
  const found = [...kinds.keys()].sort((one, other) => placeOf(one) - placeOf(other));
  return found.flatMap((kind) => {
    const below = kinds.get(kind) ?? [];
    const tokens = below.reduce((sum, part) => sum + part.tokens, 0);
    return [
      { key: kind, parent: null, kind, name: kind, tokens, text: "", count: below.length, ref: null, calls: [] },
      ...below,
    ];
  });
}

/** @param {string} kind */
function placeOf(kind) {
  const place = ORDER.indexOf(kind);
  return place < 0 ? ORDER.length : place;
}

/**
 * @param {number} part
 * @param {number} whole
 * @returns {number} from 0 to 1
 */
export function shareOf(part, whole) {
  return whole > 0 ? Math.min(1, Math.max(0, part / whole)) : 0;
}

// What changed between two texts, by lines: as hunks with some lines around them. Pure, and bounded: two large texts that have little in
// common are shown as one removed and one added block in place of a search that would take minutes.

/**
 * A line of a hunk.
 * @typedef {object} DiffLine
 * @property {"same" | "added" | "removed"} kind
 * @property {string} text
 * @property {number | null} before its number in the text before, from 1; null of an added one
 * @property {number | null} after its number in the text after; null of a removed one
 * @property {[number, number] | null} changed the part of it that differs, where it stands opposite one other line
 */

/**
 * @typedef {object} Diff
 * @property {{lines: DiffLine[]}[]} hunks
 * @property {number} added
 * @property {number} removed
 * @property {boolean} isWhole whether the smallest change was looked for; if not, all between the first and the last difference counts as changed
 */

/** How many lines, added and removed, a change may have before it is no longer looked for. */
const MAX_CHANGES = 1000;

/** How many lines a text may have between its first and its last difference. */
const MAX_LINES = 20_000;

/**
 * @param {string} before
 * @param {string} after
 * @param {number} context how many lines are shown around a change
 * @returns {Diff}
 */
export function diffLines(before, after, context = 3) {
  const old = linesOf(before);
  const now = linesOf(after);
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head += 1;
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old.at(-1 - tail) === now.at(-1 - tail)) tail += 1;
  const middle = changesOf(old.slice(head, old.length - tail), now.slice(head, now.length - tail));
  /** @type {("same" | "added" | "removed")[]} */
  const kinds = [...Array(head).fill("same"), ...middle.kinds, ...Array(tail).fill("same")];
  const lines = linesFor(kinds, old, now);
  markParts(lines);
  return {
    hunks: hunksOf(lines, context),
    added: lines.filter((line) => line.kind === "added").length,
    removed: lines.filter((line) => line.kind === "removed").length,
    isWhole: middle.isWhole,
  };
}

/** @param {string} text */
function linesOf(text) {
  if (text === "") return [];
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/**
 * @param {string[]} old
 * @param {string[]} now
 * @returns {{kinds: ("same" | "added" | "removed")[], isWhole: boolean}}
 */
function changesOf(old, now) {
  const found = old.length + now.length > MAX_LINES ? null : shortest(old, now);
  if (found !== null) return { kinds: found, isWhole: true };
  return { kinds: [...Array(old.length).fill("removed"), ...Array(now.length).fill("added")], isWhole: false };
}

/**
 * The shortest way from one list of lines to the other, by Myers: breadth first over how many changes it takes.
 * @param {string[]} old
 * @param {string[]} now
 * @returns {("same" | "added" | "removed")[] | null} null: it takes more than `MAX_CHANGES`
 */
function shortest(old, now) {
  const most = Math.min(MAX_CHANGES, old.length + now.length);
  const offset = most + 1;
  const reach = new Int32Array(2 * most + 3);
  /** @type {Int32Array[]} */
  const past = [];
  for (let changes = 0; changes <= most; changes += 1) {
    past.push(reach.slice(offset - changes - 1, offset + changes + 2));
    for (let diagonal = -changes; diagonal <= changes; diagonal += 2) {
      const at = offset + diagonal;
      const down = diagonal === -changes || (diagonal !== changes && num(reach[at - 1]) < num(reach[at + 1]));
      let x = down ? num(reach[at + 1]) : num(reach[at - 1]) + 1;
      let y = x - diagonal;
      while (x < old.length && y < now.length && old[x] === now[y]) {
        x += 1;
        y += 1;
      }
      reach[at] = x;
      if (x >= old.length && y >= now.length) return walkBack(past, old.length, now.length);
    }
  }
  return null;
}

/** @param {number | undefined} value */
function num(value) {
  return value ?? 0;
}

/**
 * @param {Int32Array[]} past how far each diagonal reached before each round; of round `n` from diagonal `-n-1` on
 * @param {number} oldLength
 * @param {number} nowLength
 * @returns {("same" | "added" | "removed")[]}
 */
function walkBack(past, oldLength, nowLength) {
  /** @type {("same" | "added" | "removed")[]} */
  const kinds = [];
  let x = oldLength;
  let y = nowLength;
  for (let changes = past.length - 1; changes >= 0; changes -= 1) {
    const reach = /** @type {Int32Array} */ (past[changes]);
    const at = (/** @type {number} */ diagonal) => num(reach[diagonal + changes + 1]);
    const diagonal = x - y;
    const down = diagonal === -changes || (diagonal !== changes && at(diagonal - 1) < at(diagonal + 1));
    const from = down ? diagonal + 1 : diagonal - 1;
    const startX = changes === 0 ? 0 : at(from);
    const startY = changes === 0 ? 0 : startX - from;
    const [edgeX, edgeY] = changes === 0 ? [0, 0] : down ? [startX, startY + 1] : [startX + 1, startY];
    while (x > edgeX && y > edgeY) {
      kinds.push("same");
      x -= 1;
      y -= 1;
    }
    if (changes > 0) kinds.push(down ? "added" : "removed");
    x = startX;
    y = startY;
  }
  return kinds.reverse();
}

/**
 * @param {("same" | "added" | "removed")[]} kinds
 * @param {string[]} old
 * @param {string[]} now
 * @returns {DiffLine[]}
 */
function linesFor(kinds, old, now) {
  let before = 0;
  let after = 0;
  return kinds.map((kind) => {
    if (kind !== "added") before += 1;
    if (kind !== "removed") after += 1;
    const text = kind === "added" ? now[after - 1] : old[before - 1];
    return {
      kind,
      text: /** @type {string} */ (text),
      before: kind === "added" ? null : before,
      after: kind === "removed" ? null : after,
      changed: null,
    };
  });
}

/**
 * Where as many lines were removed as were added in their place, each is compared with the one opposite.
 * @param {DiffLine[]} lines
 */
function markParts(lines) {
  for (let at = 0; at < lines.length; at += 1) {
    if (lines[at]?.kind !== "removed") continue;
    let middle = at;
    while (lines[middle]?.kind === "removed") middle += 1;
    let end = middle;
    while (lines[end]?.kind === "added") end += 1;
    if (end - middle === middle - at) {
      for (let pair = 0; pair < middle - at; pair += 1) {
        comparePair(/** @type {DiffLine} */ (lines[at + pair]), /** @type {DiffLine} */ (lines[middle + pair]));
      }
    }
    at = end - 1;
  }
}

/**
 * @param {DiffLine} removed
 * @param {DiffLine} added
 */
function comparePair(removed, added) {
  const [one, other] = [removed.text, added.text];
  const most = Math.min(one.length, other.length);
  let head = 0;
  while (head < most && one[head] === other[head]) head += 1;
  let tail = 0;
  while (tail < most - head && one[one.length - 1 - tail] === other[other.length - 1 - tail]) tail += 1;
  // Lines that share nothing worth seeing are other lines.
  if (head + tail < most / 3) return;
  // A mark never stands in the middle of a character.
  if (head > 0 && isHigh(one, head - 1)) head -= 1;
  if (tail > 0 && isLow(one, one.length - tail)) tail -= 1;
  removed.changed = [head, one.length - tail];
  added.changed = [head, other.length - tail];
}

/** @param {string} text @param {number} at */
function isHigh(text, at) {
  const code = text.charCodeAt(at);
  return code >= 0xd800 && code <= 0xdbff;
}

/** @param {string} text @param {number} at */
function isLow(text, at) {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff;
}

/**
 * @param {DiffLine[]} lines
 * @param {number} context
 * @returns {{lines: DiffLine[]}[]}
 */
function hunksOf(lines, context) {
  /** @type {{lines: DiffLine[]}[]} */
  const hunks = [];
  let end = 0; // behind the last line that is shown
  for (let at = 0; at < lines.length; at += 1) {
    if (/** @type {DiffLine} */ (lines[at]).kind === "same") continue;
    const from = Math.max(at - context, 0);
    const to = Math.min(at + context + 1, lines.length);
    const last = hunks.at(-1);
    if (last !== undefined && from <= end) last.lines.push(...lines.slice(end, to));
    else hunks.push({ lines: lines.slice(Math.max(from, end), to) });
    end = Math.max(end, to);
  }
  return hunks;
}

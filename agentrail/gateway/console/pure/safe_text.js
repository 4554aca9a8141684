// Characters that are not seen, or that change how others are read, made visible: U+202E becomes `⟦U+202E⟧`.
//
// Pure. What comes out is text, never markup. Two manners: `strict` for what a person decides about, where every such character is shown;
// and prose, where those stay that a script or an emoji needs: a joiner between two pictures, or between letters that join.

// Every character that is shown by its number. As text, because a class of such characters written out could not be read either.
const RANGES = [
  "\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f", // controls, but for tab and line feed
  "\\u00ad\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u3164\\uffa0", // soft hyphen and fillers
  "\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u206f", // what turns the direction
  "\\u200b-\\u200d\\u2060-\\u2065\\ufeff", // characters without width
  "\\u2028\\u2029\\ufff0-\\ufffb", // separators and notes
  "\\u180b-\\u180f\\ufe00-\\ufe0f\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}", // variants, music, tags
];

/** How many marks may stand on one letter; a tower of them covers the lines above it, and takes a browser seconds. */
const MOST_MARKS = 16;

// Halves of surrogate pairs too, and towers of marks.
const HIDDEN = new RegExp(`[${RANGES.join("")}]|\\p{Cs}|\\p{M}{${MOST_MARKS + 1},}`, "gu");

/** The same, asked once: most texts hold none, and a global expression keeps its place between two calls. */
const HAS_HIDDEN = new RegExp(HIDDEN.source, "u");

const PICTURE_BEFORE = /(?:\p{Extended_Pictographic}|\p{Emoji_Modifier}|\ufe0f)$/u;
const PICTURE_BEHIND = /^\p{Extended_Pictographic}/u;
const EMOJI_BEFORE = /[\p{Emoji}]$/u;
// Scripts whose letters take another form beside one another, and are written with joiners and non-joiners.
const JOINING =
  "[\\p{Script=Arabic}\\p{Script=Syriac}\\p{Script=Mongolian}\\p{Script=Devanagari}\\p{Script=Bengali}\\p{Script=Gurmukhi}\\p{Script=Gujarati}\\p{Script=Oriya}\\p{Script=Tamil}\\p{Script=Telugu}\\p{Script=Kannada}\\p{Script=Malayalam}\\p{Script=Sinhala}\\p{Script=Khmer}]";
const JOINING_BEFORE = new RegExp(`${JOINING}$`, "u");
const JOINING_BEHIND = new RegExp(`^${JOINING}`, "u");

/** How many spaces in a row are pointed out in what a person decides about: they push what follows out of sight. */
export const MANY_SPACES = 40;

/**
 * A part of a text.
 * @typedef {{text: string, mark: "hidden" | "spaces" | null}} Piece `mark`: it stands for something that is not seen
 */

/**
 * A text in parts: those that are shown as they are, and those that stand for what is not seen.
 * @param {string} text
 * @param {boolean} strict
 * @returns {Piece[]} none of an empty text; one, where nothing is hidden
 */
export function safePieces(text, strict = false) {
  /** @type {Piece[]} */
  const pieces = [];
  let from = 0;
  const add = (/** @type {number} */ to, /** @type {string} */ shown) => {
    if (to > from) addPlain(pieces, text.slice(from, to), strict);
    pieces.push({ text: shown, mark: "hidden" });
  };
  if (HAS_HIDDEN.test(text)) {
    for (const match of text.matchAll(HIDDEN)) {
      const isTower = match[0].length > 2;
      const kept = isTower ? [...match[0]].slice(0, MOST_MARKS).join("").length : 0;
      const at = match.index + kept;
      const one = match[0].slice(kept);
      if (isLineEnd(text, at, one) || (!strict && isNeeded(text, at, one))) continue;
      add(at, isTower ? towerOf(one) : nameOf(one));
      from = at + one.length;
    }
  }
  if (from < text.length) addPlain(pieces, text.slice(from), strict);
  return pieces;
}

/**
 * A text with what is not seen made visible, in one piece.
 * @param {string} text
 * @param {boolean} strict
 * @returns {string}
 */
export function safeText(text, strict = false) {
  if (!HAS_HIDDEN.test(text)) return text;
  return safePieces(text, strict)
    .map((piece) => piece.text)
    .join("");
}

/**
 * Whether a text has something that is not seen.
 * @param {string} text
 * @param {boolean} strict
 * @returns {boolean}
 */
export function hasHidden(text, strict = true) {
  return HAS_HIDDEN.test(text) && safePieces(text, strict).some((piece) => piece.mark === "hidden");
}

/**
 * The words of a text that mix scripts whose letters look alike, such as a Cyrillic `а` among Latin letters.
 * @param {string} text
 * @param {number} most how many are looked for
 * @returns {string[]} each once
 */
export function mixedWords(text, most = 20) {
  /** @type {Set<string>} */
  const found = new Set();
  for (const [word] of text.matchAll(/[\p{L}\p{M}\p{N}_-]+/gu)) {
    const scripts = LOOK_ALIKES.filter((script) => script.test(word)).length;
    if (scripts > 1) found.add(word);
    if (found.size >= most) break;
  }
  return [...found];
}

const LOOK_ALIKES = [
  /\p{Script=Latin}/u,
  /\p{Script=Cyrillic}/u,
  /\p{Script=Greek}/u,
  /\p{Script=Armenian}/u,
  /\p{Script=Cherokee}/u,
];

/**
 * @param {Piece[]} pieces
 * @param {string} whole
 * @param {boolean} strict
 */
function addPlain(pieces, whole, strict) {
  const text = whole.includes("\r\n") ? whole.replaceAll("\r\n", "\n") : whole;
  if (!strict) {
    pieces.push({ text, mark: null });
    return;
  }
  let from = 0;
  for (const match of text.matchAll(SPACES)) {
    if (match.index > from) pieces.push({ text: text.slice(from, match.index), mark: null });
    pieces.push({ text: match[0], mark: "spaces" });
    from = match.index + match[0].length;
  }
  if (from < text.length) pieces.push({ text: text.slice(from), mark: null });
}

const SPACES = new RegExp(`[\\p{Zs}\\t]{${MANY_SPACES + 1},}`, "gu");

/** @param {string} marks */
function towerOf(marks) {
  const name = nameOf(marks);
  return `${name.slice(0, -1)} +${[...marks].length - 1}⟧`;
}

/** @param {string} one */
function nameOf(one) {
  const code = /** @type {number} */ (one.codePointAt(0));
  return `⟦U+${code.toString(16).toUpperCase().padStart(4, "0")}⟧`;
}

/**
 * A carriage return in front of a line feed ends a line, as the line feed alone does.
 * @param {string} text
 * @param {number} at
 * @param {string} one
 */
function isLineEnd(text, at, one) {
  return one === "\r" && text[at + 1] === "\n";
}

/**
 * Whether a character that is not seen does what it is there for.
 * @param {string} text
 * @param {number} at
 * @param {string} one
 */
function isNeeded(text, at, one) {
  if (one !== "\u200c" && one !== "\u200d" && one !== "\ufe0e" && one !== "\ufe0f") return false;
  // Two units are enough: no character is longer.
  const before = text.slice(Math.max(0, at - 2), at);
  const behind = text.slice(at + 1, at + 3);
  if (one === "\ufe0e" || one === "\ufe0f") return EMOJI_BEFORE.test(lastOf(before));
  if (JOINING_BEFORE.test(lastOf(before)) && JOINING_BEHIND.test(behind)) return true;
  return one === "\u200d" && PICTURE_BEFORE.test(lastOf(before)) && PICTURE_BEHIND.test(behind);
}

/**
 * The last character of a text, whole.
 * @param {string} text at most two units
 */
function lastOf(text) {
  const last = [...text].at(-1);
  return last ?? "";
}

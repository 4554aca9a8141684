// What a person has to know of arguments before a decision: what is not seen, what is pushed out of sight, what looks like something else, and
// what the browser would write otherwise. And which parts of a text are shown at first.
//
// Pure. Words for people are made of this in `text/`.

import { hashOf } from "./canonical.js";
import { parseJson, textsOf, unheldNumbers } from "./json_text.js";
import { hasHidden, MANY_SPACES, mixedWords } from "./safe_text.js";

/** How much of a text is shown at first, in units of UTF-16; the rest is one button away, which says how much it is. */
export const SHOWN_AT_FIRST = 20_000;

const MANY = new RegExp(`[\\p{Zs}\\t]{${MANY_SPACES + 1},}`, "u");

/**
 * @typedef {object} ShownArguments
 * @property {import("./json_text.js").JsonNode} node
 * @property {string} hash of what is shown
 * @property {boolean} isAsked whether that is the hash of what would run
 * @property {string[]} unheld numbers that JavaScript cannot hold
 * @property {boolean} hasHidden whether there are characters that are not seen, or turn the direction
 * @property {boolean} hasSpaces whether there are more than 40 spaces in a row
 * @property {string[]} mixed words of more than one script whose letters look alike
 */

/**
 * Looks at arguments as a server sent them.
 * @param {string} source JSON text
 * @param {string} askedHash
 * @returns {ShownArguments}
 */
export function lookAt(source, askedHash) {
  const node = parseJson(source, { allowHalves: true });
  const texts = textsOf(node);
  const hash = hashOf(node);
  return {
    node,
    hash,
    isAsked: hash === askedHash,
    unheld: unheldNumbers(node),
    hasHidden: texts.some((text) => hasHidden(text, true)),
    hasSpaces: texts.some((text) => MANY.test(text)),
    mixed: [...new Set(texts.flatMap((text) => mixedWords(text)))],
  };
}

/**
 * Where a text is cut that is shown in parts: never between the halves of a character.
 * @param {string} text
 * @param {number} [most]
 * @returns {number} how many units are shown; all of a text that is hardly longer
 */
export function cutAt(text, most = SHOWN_AT_FIRST) {
  if (text.length <= most + 200) return text.length;
  const unit = text.charCodeAt(most - 1);
  return unit >= 0xd800 && unit <= 0xdbff ? most - 1 : most;
}

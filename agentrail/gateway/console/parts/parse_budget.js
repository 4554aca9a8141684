// How much Markdown is parsed before the next frame is drawn: some, so that a page full of long messages stays quick under the fingers.
// Knows nothing of what is parsed.

import { MAX_BLOCK } from "../pure/markdown.js";

let left = MAX_BLOCK;
let isAsked = false;
/** @type {Set<() => void>} */
const waiting = new Set();

/**
 * Ask for a parse in this frame.
 * @param {number} size of the text
 * @returns {boolean} whether it may be done now; if not, `onNextFrame` says when to ask again
 */
export function mayParse(size) {
  // The first of a frame may always, or a text as large as the budget would wait for ever.
  const may = left === MAX_BLOCK || size <= left;
  if (may) left -= size;
  ask();
  return may;
}

/**
 * What was parsed costs more than its length: it is drawn, too.
 * @param {number} more
 */
export function spend(more) {
  left -= more;
}

/**
 * @param {() => void} again
 * @returns {() => void} takes it back
 */
export function onNextFrame(again) {
  waiting.add(again);
  ask();
  return () => {
    waiting.delete(again);
  };
}

function ask() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(() => {
    isAsked = false;
    left = MAX_BLOCK;
    const all = [...waiting];
    waiting.clear();
    for (const again of all) again();
  });
}

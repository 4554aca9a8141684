// The pseudo-locale: each text in brackets, its letters with marks, two fifths longer. What shows plain letters then was not taken from `text/`. Pure.

const MARKED = new Map(
  [..."aáeéiíoóuúyýnñcçsšzžAÁEÉIÍOÓUÚYÝNÑCÇSŠZŽ"].reduce(pairs, /** @type {[string, string][]} */ ([])),
);

/**
 * @param {[string, string][]} made
 * @param {string} letter
 * @param {number} index
 * @param {string[]} all
 */
function pairs(made, letter, index, all) {
  if (index % 2 === 0) made.push([letter, all[index + 1] ?? letter]);
  return made;
}

/** @param {string} text */
export function pseudo(text) {
  const marked = [...text].map((letter) => MARKED.get(letter) ?? letter).join("");
  return `[${marked}${"·".repeat(Math.ceil([...text].length * 0.4))}]`;
}

/**
 * Makes the pseudo-locale of words: of texts, of functions that give texts, and of what holds those.
 * @template T
 * @param {T} words
 * @returns {T}
 */
export function pseudoOf(words) {
  if (typeof words === "string") return /** @type {any} */ (pseudo(words));
  if (typeof words === "function") {
    return /** @type {any} */ ((/** @type {any[]} */ ...given) => pseudoOf(words(...given)));
  }
  if (Array.isArray(words)) return /** @type {any} */ (words.map(pseudoOf));
  if (isPlain(words)) {
    return /** @type {any} */ (Object.fromEntries(Object.entries(words).map(([name, one]) => [name, pseudoOf(one)])));
  }
  return words;
}

/**
 * Whether something is a module, or an object of words: a formatter, or a node that a function was given, is neither, and stays what it is.
 * @param {unknown} words
 * @returns {words is Record<string, unknown>}
 */
function isPlain(words) {
  if (words === null || typeof words !== "object") return false;
  const above = Object.getPrototypeOf(words);
  return above === Object.prototype || (above === null && Object.prototype.toString.call(words) === "[object Module]");
}

// JSON source text, indented: every number, escape and repeated name stays as it was written, because the text is never read into values.
// Pure, and linear. What is no JSON comes out as it is, white space aside.

const INDENT = "  ";

/** How deep lines are indented; deeper ones stand at that column. */
const MAX_INDENT = 40;

/**
 * @param {string} source
 * @returns {string}
 */
export function prettyJson(source) {
  /** @type {string[]} */
  const parts = [];
  let depth = 0;
  const newLine = () => parts.push("\n", INDENT.repeat(Math.min(Math.max(depth, 0), MAX_INDENT)));
  for (const [part] of source.matchAll(PARTS)) {
    const sign = part[0];
    if (part.length > 1 && (sign === "{" || sign === "[")) parts.push(sign === "{" ? "{}" : "[]");
    else if (sign === "{" || sign === "[") {
      parts.push(sign);
      depth += 1;
      newLine();
    } else if (part === "}" || part === "]") {
      depth -= 1;
      newLine();
      parts.push(part);
    } else if (part === ",") {
      parts.push(part);
      newLine();
    } else parts.push(part === ":" ? ": " : part);
  }
  return parts.join("");
}

// Strings whole, pairs of brackets with nothing in them, single signs, and what stands between; white space is left out.
const PARTS = /"[^"\\]*(?:\\[\s\S][^"\\]*)*"?|\{\s{0,256}\}|\[\s{0,256}\]|[{}[\],:]|[^\s"{}[\],:]+/g;

/**
 * A value as JSON that people read. Depth costs nothing: what is too deep for the engine is written without its stack.
 * @param {unknown} value
 * @returns {string}
 */
export function jsonText(value) {
  return prettyJson(compactJson(value));
}

/**
 * A value as JSON without white space.
 * @param {unknown} value
 * @returns {string}
 */
export function compactJson(value) {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return written(value);
  }
}

/**
 * @param {unknown} value
 * @returns {string}
 */
function written(value) {
  /** @type {string[]} */
  const parts = [];
  /** @type {({text: string} | {value: unknown})[]} what is still to be written, the next one last */
  const rest = [{ value }];
  while (rest.length > 0) {
    const next = /** @type {{text?: string, value?: unknown}} */ (rest.pop());
    if (next.text !== undefined) parts.push(next.text);
    else if (typeof next.value !== "object" || next.value === null) parts.push(plain(next.value));
    else rest.push(...piecesOf(next.value).reverse());
  }
  return parts.join("");
}

/**
 * @param {object} value
 * @returns {({text: string} | {value: unknown})[]}
 */
function piecesOf(value) {
  const isList = Array.isArray(value);
  /** @type {({text: string} | {value: unknown})[]} */
  const pieces = [{ text: isList ? "[" : "{" }];
  Object.entries(value).forEach(([name, one], place) => {
    if (place > 0) pieces.push({ text: "," });
    if (!isList) pieces.push({ text: `${JSON.stringify(name)}:` });
    pieces.push({ value: one });
  });
  pieces.push({ text: isList ? "]" : "}" });
  return pieces;
}

/** @param {unknown} value */
function plain(value) {
  return typeof value === "bigint" ? String(value) : (JSON.stringify(value) ?? "null");
}

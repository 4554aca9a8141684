// Events with a value that the server cut out of a page. Pure.

/** From an event to the text of a block: `message`, `content`, the block, `text`. */
const DEPTH = 4;

/**
 * Whether an event lacks something that a person said or reads. Calls are left out: their cards load arguments and results when they are asked to.
 * @param {Record<string, unknown> & {kind?: unknown}} event of a page
 * @returns {boolean}
 */
export function lacksWords(event) {
  const kind = `${event.kind}`;
  return !kind.startsWith("tool_") && kind !== "agent_end" && hasCut(event, DEPTH);
}

/**
 * @param {unknown} value
 * @param {number} depth how many levels below it are looked at
 * @returns {boolean}
 */
function hasCut(value, depth) {
  if (typeof value !== "object" || value === null) return false;
  const one = /** @type {Record<string, unknown>} */ (value);
  if (typeof one["$cut"] === "number") return true;
  if (one["kind"] === "tool_call" || depth === 0) return false;
  return Object.values(one).some((inner) => hasCut(inner, depth - 1));
}

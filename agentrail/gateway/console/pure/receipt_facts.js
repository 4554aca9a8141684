// What a receipt of an abort says, as facts in the order in which a person has to know them: what may have happened first, what is gone last.
//
// Pure: no DOM, and no words; `text/en/session.js` has a sentence for each kind.

/**
 * Something that a fact names. `call_id` is null of what is no call of this session, `pid` of what is no process.
 * @typedef {{name: string, call_id: string | null, age_ms: number | null, pid: number | null, summary: string}} Named
 */

/**
 * @typedef {object} Fact
 * @property {"unknown" | "survivors" | "stuck" | "abandoned" | "committed" | "ended" | "reaped" | "nothing" | "unsettled"} kind
 * @property {"bad" | "warn" | "plain"} level `bad`: a person has to look; `warn`: something still runs
 * @property {number} count
 * @property {Named[]} named
 */

/**
 * @typedef {object} Receipt
 * @property {boolean} [settled]
 * @property {number} [tasks_ended]
 * @property {number} [processes_reaped]
 * @property {{name: string, age_ms: number, pid?: number | null}[]} [stuck]
 * @property {{name: string, age_ms: number, pid?: number | null}[]} [abandoned]
 * @property {string[]} [committed]
 * @property {string[]} [unknown]
 * @property {string[]} [survivors]
 * @property {number} [milliseconds]
 */

/**
 * @param {Receipt} receipt
 * @param {(callId: string) => {name: string, summary: string} | null} callOf what is known of a call; null: nothing
 * @returns {Fact[]} at least one
 */
export function factsOf(receipt, callOf) {
  if (receipt.settled === false) return [{ kind: "unsettled", level: "warn", count: 0, named: [] }];
  /** @type {Fact[]} */
  const facts = [];
  putCalls(facts, "unknown", "bad", receipt.unknown ?? [], callOf);
  putLeft(facts, "stuck", "bad", receipt.stuck ?? []);
  putCalls(facts, "survivors", "warn", receipt.survivors ?? [], callOf);
  putLeft(facts, "abandoned", "warn", receipt.abandoned ?? []);
  putCalls(facts, "committed", "plain", receipt.committed ?? [], callOf);
  putCount(facts, "ended", receipt.tasks_ended ?? 0);
  putCount(facts, "reaped", receipt.processes_reaped ?? 0);
  return facts.length > 0 ? facts : [{ kind: "nothing", level: "plain", count: 0, named: [] }];
}

/**
 * @param {Fact[]} facts
 * @param {Fact["kind"]} kind
 * @param {Fact["level"]} level
 * @param {readonly string[]} callIds
 * @param {(callId: string) => {name: string, summary: string} | null} callOf
 */
function putCalls(facts, kind, level, callIds, callOf) {
  if (callIds.length === 0) return;
  const named = callIds.map((callId) => {
    const known = callOf(callId);
    return { name: known?.name ?? callId, summary: known?.summary ?? "", call_id: callId, age_ms: null, pid: null };
  });
  facts.push({ kind, level, count: named.length, named });
}

/**
 * @param {Fact[]} facts
 * @param {Fact["kind"]} kind
 * @param {Fact["level"]} level
 * @param {readonly {name: string, age_ms: number, pid?: number | null}[]} left
 */
function putLeft(facts, kind, level, left) {
  if (left.length === 0) return;
  const named = left.map((one) => ({
    name: one.name,
    summary: "",
    call_id: null,
    age_ms: one.age_ms,
    pid: one.pid ?? null,
  }));
  facts.push({ kind, level, count: named.length, named });
}

/**
 * @param {Fact[]} facts
 * @param {Fact["kind"]} kind
 * @param {number} count
 */
function putCount(facts, kind, count) {
  if (count > 0) facts.push({ kind, level: "plain", count, named: [] });
}

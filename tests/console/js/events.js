// Events by hand, for tests: as short as they can be. No DOM, no files.

/** @typedef {import("../../../agentrail/gateway/console/pure/view.js").WireEvent} WireEvent */

/**
 * @param {string} kind
 * @param {Record<string, any>} fields
 * @returns {WireEvent}
 */
export function event(kind, fields = {}) {
  return { kind, seq: 0, at_ms: 0, session_id: "s", ...fields };
}

/**
 * Events with their numbers: an ephemeral one has that of the committed one before it.
 * @param {WireEvent[]} events
 * @param {number} first
 * @returns {WireEvent[]}
 */
export function numbered(events, first = 1) {
  let seq = first - 1;
  return events.map((one) => {
    if (!one.ephemeral) seq += 1;
    return { ...one, seq, at_ms: seq };
  });
}

/** A prompt, and an answer that streams and is complete. @returns {WireEvent[]} */
export function answerEvents() {
  const message = { role: "assistant", model: "m", content: [{ kind: "text", text: "Once upon" }] };
  const usage = { input: 3, output: 2, cache_read: 0, cache_write: 0, reasoning: 0, cost_usd: 0.5, estimated: false };
  return numbered([
    event("prompt_received", { ref: "p1", content: [{ kind: "text", text: "Hello" }] }),
    event("agent_start", { ref: "p1" }),
    event("request_start", { model: "m", messages: 1, attempt: 1 }),
    event("message_start", { attempt: 1 }),
    event("message_delta", { delta: "Once ", attempt: 1, ephemeral: true }),
    event("message_delta", { delta: "upon", attempt: 1, ephemeral: true }),
    event("response_complete", { message, usage, stop_reason: "end", attempt: 1 }),
    event("agent_end", { messages: [message], usage, stop_reason: "end", ref: "p1", turns: 1 }),
  ]);
}

/**
 * @param {number} seq
 * @param {any[]} messages
 * @param {string} phase
 */
export function snapshotAt(seq, messages, phase = "idle") {
  const turn = phase === "idle" ? 0 : 1;
  return {
    seq,
    status: { session_id: "s", phase, turn, model: "m", last_seq: seq },
    queued: [],
    todos: [],
    text: "",
    messages,
    before: 0,
  };
}

/**
 * @param {import("../../../agentrail/gateway/console/pure/view.js").View} view
 * @returns {string[]} the ids of all that wait, here and below
 */
export function allApprovals(view) {
  const below = Object.values(view.children).flatMap((child) => (child.view === null ? [] : allApprovals(child.view)));
  return [...view.approvals.map((one) => String(one.id)), ...below];
}

// What a person sent, until the session's own events show it. Pure: lists in, new lists out; no DOM, no clock, no socket.
//
// A message is *sending* until its receipt, then *sent* until the event that the receipt names was folded: from there on the conversation shows it,
// and it leaves the outbox. A message that was not taken stays, with the server's words, until it is sent again or taken back into the composer.

/**
 * @typedef {object} SendError
 * @property {string} code Stable, as the server calls it; `"lost"` where no answer came.
 * @property {string} message What happened.
 * @property {string | null} hint What to do next.
 */

/**
 * @typedef {object} Sent
 * @property {string} client_id Its name: the server takes a message of one name once.
 * @property {"prompt" | "steer"} name The command.
 * @property {string} text What was said.
 * @property {boolean} queue Whether it waits for its turn where the session is busy.
 * @property {"sending" | "sent" | "failed"} state How far it is.
 * @property {number} seq The number of the event that says it was taken; 0 until the receipt.
 * @property {string | null} ref Its name in events.
 * @property {string | null} status Of a steer what became of it.
 * @property {number | null} position In the queue, 0 is next; null where it does not wait.
 * @property {SendError | null} error Why it was not taken.
 * @property {number} at_ms When it was sent.
 */

/** How many messages an outbox holds: more are never under way together, and a form of `sessionStorage` has to end somewhere. */
const MOST = 50;

/**
 * Put a message in: it is under way.
 * @param {readonly Sent[]} outbox
 * @param {{client_id: string, name: "prompt" | "steer", text: string, queue: boolean, at_ms: number}} message
 * @returns {readonly Sent[]}
 */
export function sending(outbox, message) {
  /** @type {Sent} */
  const added = { ...message, state: "sending", seq: 0, ref: null, status: null, position: null, error: null };
  return [...outbox, added].slice(-MOST);
}

/**
 * Note the receipt of a message.
 * @param {readonly Sent[]} outbox
 * @param {string} clientId
 * @param {{seq?: number, ref?: string, status?: string, queued?: boolean, position?: number} | null} receipt
 * @returns {readonly Sent[]}
 */
export function accepted(outbox, clientId, receipt) {
  return changed(outbox, clientId, (one) => ({
    ...one,
    state: "sent",
    seq: receipt?.seq ?? 0,
    ref: receipt?.ref ?? null,
    status: receipt?.status ?? null,
    position: receipt?.queued ? (receipt.position ?? 0) : null,
    error: null,
  }));
}

/**
 * Note that a message was not taken.
 * @param {readonly Sent[]} outbox
 * @param {string} clientId
 * @param {SendError} error
 * @returns {readonly Sent[]}
 */
export function failed(outbox, clientId, error) {
  return changed(outbox, clientId, (one) => ({ ...one, state: "failed", error }));
}

/**
 * Send a message again, under its name: where it had arrived after all, the server answers with its first receipt.
 * @param {readonly Sent[]} outbox
 * @param {string} clientId
 * @returns {readonly Sent[]}
 */
export function sendingAgain(outbox, clientId) {
  return changed(outbox, clientId, (one) => (one.state === "failed" ? { ...one, state: "sending", error: null } : one));
}

/**
 * Take a message out.
 * @param {readonly Sent[]} outbox
 * @param {string} clientId
 * @returns {readonly Sent[]}
 */
export function without(outbox, clientId) {
  const kept = outbox.filter((one) => one.client_id !== clientId);
  return kept.length === outbox.length ? outbox : kept;
}

/**
 * Leave out what the conversation shows by now.
 * @param {readonly Sent[]} outbox
 * @param {number} seq The number of the last committed event that was folded.
 * @returns {readonly Sent[]} The same list where nothing left.
 */
export function unseen(outbox, seq) {
  const kept = outbox.filter((one) => one.state !== "sent" || one.seq > seq);
  return kept.length === outbox.length ? outbox : kept;
}

/**
 * Read an outbox that was kept as text: what is no message of one is left out, what was under way still is.
 * @param {string | null} text
 * @returns {readonly Sent[]}
 */
export function outboxOf(text) {
  if (text === null) return [];
  try {
    const found = JSON.parse(text);
    return Array.isArray(found) ? found.filter(isSent).slice(-MOST) : [];
  } catch {
    return [];
  }
}

/**
 * @param {unknown} value
 * @returns {value is Sent}
 */
function isSent(value) {
  if (typeof value !== "object" || value === null) return false;
  const one = /** @type {Record<string, unknown>} */ (value);
  const texts = typeof one.client_id === "string" && typeof one.text === "string";
  return texts && (one.name === "prompt" || one.name === "steer") && typeof one.state === "string";
}

/**
 * @param {readonly Sent[]} outbox
 * @param {string} clientId
 * @param {(one: Sent) => Sent} change
 * @returns {readonly Sent[]}
 */
function changed(outbox, clientId, change) {
  return outbox.map((one) => (one.client_id === clientId ? change(one) : one));
}

/**
 * Say what the composer's `Enter` and `Alt Enter` do.
 * @param {{phase: string, suspended: boolean, ended: boolean}} view
 * @param {boolean} alt Whether `Alt` is held.
 * @returns {{name: "prompt" | "steer", queue: boolean, verb: "send" | "steer" | "queue"}}
 */
export function waysToSend(view, alt) {
  const busy = isBusy(view);
  if (!busy) return { name: "prompt", queue: false, verb: "send" };
  return alt ? { name: "prompt", queue: true, verb: "queue" } : { name: "steer", queue: false, verb: "steer" };
}

/**
 * Say whether a cycle runs, or waits for a person.
 * @param {{phase: string, suspended: boolean}} view
 * @returns {boolean}
 */
export function isBusy(view) {
  return view.suspended || ["running", "streaming", "executing_tools"].includes(view.phase);
}

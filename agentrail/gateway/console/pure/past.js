// What a journal says of the past of a session: which events count at a record, what the conversation was there, and where something happened that one looks
// for. Pure: no DOM, no words for people, nothing is asked for.

import { foldAll } from "./fold.js";
import { emptyView } from "./view.js";

/** @typedef {import("./view.js").View} View */
/** @typedef {import("./view.js").WireEvent} WireEvent */

/**
 * A record of a journal, as `trace` sends it.
 * @typedef {object} JournalRecord
 * @property {number} number from 1, without gaps
 * @property {number} at_ms
 * @property {string} kind
 * @property {Record<string, any>} body empty where it was not asked for
 * @property {string[]} does
 * @property {number} events the number of the last event behind it
 * @property {number} epoch
 */

/**
 * Where a session went back.
 * @typedef {object} Rewind
 * @property {number} number of the record that says so
 * @property {number} events of the last event behind that
 * @property {number} to the record that it went back to
 * @property {number} toEvents the number of the last event behind that one
 */

/** @typedef {{ from: number, to: number }} Range numbers of events, both of them in it */

/**
 * Which events a session had lived through behind a record. Where it went back, what was in between does not count.
 * @param {number} number of the record
 * @param {number} events of the last event behind it
 * @param {readonly Rewind[]} rewinds of the whole journal, in order
 * @returns {Range[]} in order; where one ends and another follows, the session went back
 */
export function rangesAt(number, events, rewinds) {
  /** @type {Range[]} */
  const ranges = [];
  let at = number;
  let end = events;
  for (const one of [...rewinds].reverse()) {
    if (one.number > at) continue;
    ranges.unshift({ from: one.events + 1, to: end });
    at = one.to;
    end = one.toEvents;
  }
  ranges.unshift({ from: 1, to: end });
  // One that is empty stays if it is the last one: that the session went back is seen by what it cut off.
  return ranges.filter((range, place) => range.from <= range.to || place === ranges.length - 1);
}

/**
 * The last events of some ranges.
 * @param {readonly Range[]} ranges
 * @param {number} count how many are wanted
 * @returns {Range[]} as few as hold so many, or all; the last range is there in any case
 */
export function lastOf(ranges, count) {
  /** @type {Range[]} */
  const found = [];
  let left = Math.max(count, 1);
  for (const range of [...ranges].reverse()) {
    const size = Math.max(0, range.to - range.from + 1);
    const from = size > left ? range.to - left + 1 : range.from;
    found.unshift({ from, to: range.to });
    left -= size;
    if (left <= 0) break;
  }
  return found;
}

/**
 * The conversation that events make which are not all of one piece: between two parts the session went back, and numbers may be missing inside of one.
 * @param {string} sessionId
 * @param {readonly (readonly WireEvent[])[]} parts in order, each in order
 * @param {Readonly<Record<string, string>>} [cut] what aborts left of answers, by the prompt, as states told it: no event that is kept does
 * @returns {View}
 */
export function foldPast(sessionId, parts, cut = {}) {
  const blank = emptyView(sessionId);
  let view = { ...blank, inner: { ...blank.inner, cut } };
  for (const [place, events] of parts.entries()) {
    if (place > 0) view = withNothingOpen(view);
    for (const run of runsOf(events)) {
      const before = /** @type {WireEvent} */ (run[0]).seq - 1;
      if (view.seq < before) view = { ...view, seq: before };
      view = foldAll(view, run);
    }
  }
  return view;
}

/**
 * @param {readonly WireEvent[]} events
 * @returns {WireEvent[][]} stretches without a number that is missing
 */
function runsOf(events) {
  /** @type {WireEvent[][]} */
  const runs = [];
  for (const event of events) {
    const last = runs.at(-1);
    if (last !== undefined && last.at(-1)?.seq === event.seq - 1) last.push(event);
    else runs.push([event]);
  }
  return runs;
}

/**
 * A conversation with what a response had said by then that was still streaming: no event that is kept has it.
 * @param {View} view
 * @param {Record<string, any>} state of the same record
 * @returns {View} the same one, where nothing streamed
 */
export function withStream(view, state) {
  const pieces = state["stream"]?.text;
  const said = Array.isArray(pieces) ? pieces.join("") : "";
  if (said === "" || view.inner.answer === null) return view;
  const live = {
    key: view.inner.answer,
    attempt: 1,
    text: said,
    thinking: "",
    stalled_seconds: null,
    incomplete: false,
  };
  return { ...view, live: view.live === null ? live : { ...view.live, text: said } };
}

/** What the server's core answers a call with that was open where a session went back to. */
const NOT_IN_THIS_BRANCH = "[Not in this branch: this call was open where the branch begins]";

const OVER = new Set(["done", "failed", "blocked", "rejected", "skipped", "unknown_tool", "killed", "uncertain"]);

/**
 * A session that went back to where something was open: nothing of it is waited for any more.
 * @param {View} view
 * @returns {View}
 */
export function withNothingOpen(view) {
  return {
    ...view,
    items: view.items.map(closedItem),
    cycles: view.cycles.map((cycle) =>
      cycle.outcome === null ? { ...cycle, outcome: /** @type {const} */ ("abort") } : cycle,
    ),
    phase: "idle",
    suspended: false,
    tearing_down: false,
    turn: 0,
    live: null,
    progress: {},
    running: {},
    approvals: [],
    questions: [],
    client_calls: [],
    queued: [],
    steers: [],
    retry: null,
    ended: null,
    inner: { ...view.inner, answer: null, cycle: null, compacting: null, aborting: null, is_prepared: false },
  };
}

/**
 * @param {import("./view.js").Item} item
 * @returns {import("./view.js").Item}
 */
function closedItem(item) {
  if (item.type === "call" && (item.call.result === null || !OVER.has(item.call.state))) {
    const { call_id, name } = item.call;
    const result = item.call.result ?? { call_id, name, text: NOT_IN_THIS_BRANCH, is_error: true };
    const state = OVER.has(item.call.state) ? item.call.state : "killed";
    return { ...item, call: { ...item.call, state, result, survivor: false, stopping: false } };
  }
  if (item.type === "answer" && ["waiting", "streaming", "pausing"].includes(item.state))
    return { ...item, state: "stopped" };
  if (item.type === "decision" && item.state === "open") return { ...item, state: "aborted" };
  if (item.type === "prompt" && item.state === "working") return { ...item, state: "done" };
  return item;
}

// --- where something happened

/** @typedef {"cycle" | "abort" | "restart" | "rewind"} MarkKind */

/** @typedef {{ number: number, kind: MarkKind }} Mark */

/** Which kinds of records are marked, and as what. A cycle is marked where what begins it was taken. @type {Readonly<Record<string, MarkKind>>} */
export const MARKED = Object.freeze({
  prompt: "cycle",
  go_on: "cycle",
  abort: "abort",
  restarted: "restart",
  recovered: "restart",
  rewound: "rewind",
});

const WEIGHT = { cycle: 0, abort: 1, restart: 2, rewind: 3 };

/**
 * Marks for a line of so many places: where several fall together, the weightiest is drawn, and how many there are.
 * @param {readonly Mark[]} marks in order
 * @param {number} first
 * @param {number} last
 * @param {number} places
 * @returns {{ number: number, kind: MarkKind, count: number, at: number }[]} `at` is from 0 to 1
 */
export function ticksOf(marks, first, last, places) {
  /** @type {Map<number, { number: number, kind: MarkKind, count: number, at: number }>} */
  const found = new Map();
  const span = Math.max(1, last - first);
  for (const mark of marks) {
    if (mark.number < first || mark.number > last) continue;
    const at = (mark.number - first) / span;
    const place = Math.round(at * (places - 1));
    const known = found.get(place);
    if (known === undefined) found.set(place, { ...mark, count: 1, at });
    else {
      known.count += 1;
      if (WEIGHT[mark.kind] > WEIGHT[known.kind]) Object.assign(known, { kind: mark.kind, number: mark.number, at });
    }
  }
  return [...found.values()];
}

/**
 * Where the slider goes to by a key; null where it is none of its keys.
 * @param {{ key: string, shiftKey: boolean }} pressed
 * @param {number} number
 * @param {number} first
 * @param {number} last
 * @param {readonly Mark[]} marks in order
 * @returns {number | null}
 */
export function numberAfterKey({ key, shiftKey }, number, first, last, marks) {
  const step = shiftKey ? 10 : 1;
  const within = (/** @type {number} */ wanted) => Math.min(Math.max(wanted, first), last);
  switch (key) {
    case "ArrowLeft":
    case "ArrowDown":
      return within(number - step);
    case "ArrowRight":
    case "ArrowUp":
      return within(number + step);
    case "PageUp":
      return nextCycle(marks, number, -1) ?? first;
    case "PageDown":
      return nextCycle(marks, number, 1) ?? last;
    case "Home":
      return first;
    case "End":
      return last;
    default:
      return null;
  }
}

/**
 * The next record with which a cycle begins.
 * @param {readonly Mark[]} marks in order
 * @param {number} number
 * @param {1 | -1} way
 * @returns {number | null}
 */
export function nextCycle(marks, number, way) {
  const cycles = marks.filter((mark) => mark.kind === "cycle");
  const found = way > 0 ? cycles.find((mark) => mark.number > number) : cycles.findLast((mark) => mark.number < number);
  return found?.number ?? null;
}

// --- states

/**
 * What stands in a document at a JSON Pointer (RFC 6901).
 * @param {any} document
 * @param {string} pointer
 * @returns {any} undefined where nothing does
 */
export function valueAt(document, pointer) {
  let value = document;
  for (const part of pointer.split("/").slice(1)) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  return value;
}

/**
 * The name of a kind as classes have it: `tool_finished` is `ToolFinished`.
 * @param {string} kind
 * @returns {string}
 */
export function classOf(kind) {
  return kind.replace(/(?:^|_)([a-z0-9])/g, (_, letter) => letter.toUpperCase());
}

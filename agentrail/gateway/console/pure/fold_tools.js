// What the events of calls, sub-sessions and the set of tools change in a view. Pure; handlers for the table in `fold.js`.

import { addRunning, changeCall, changeCycle, dropRunning, entryOf, itemOf, put, putNotice } from "./draft.js";

/** @typedef {import("./draft.js").Draft} Draft */
/** @typedef {import("./draft.js").Handler} Handler */
/** @typedef {import("./view.js").Call} Call */
/** @typedef {import("./view.js").CallState} CallState */

/** The ends that an event in front of `ToolExecutionEnd` has told of. */
const TOLD = new Set(["blocked", "rejected", "skipped", "unknown_tool", "killed"]);

/** The ends after which the task may go on for a while. */
const STOPPED = new Set(["skipped", "killed"]);

/** @type {Handler} */
function callBegan(draft, event) {
  const known = callOf(draft, event.call_id);
  const state = known !== null && TOLD.has(known.state) ? known.state : "running";
  const call = changeCall(draft, event.call_id, event.name, {
    state,
    arguments: event.arguments,
    started_at_ms: event.at_ms,
  });
  addRunning(draft, call);
  if (draft.view.turn > 0 && !draft.view.suspended) draft.view.phase = "executing_tools";
}

/**
 * @param {Draft} draft
 * @param {string} callId
 * @returns {Call | null}
 */
function callOf(draft, callId) {
  const item = itemOf(draft.view, `call:${callId}`);
  return item?.type === "call" ? item.call : (entryOf(draft.view.running, callId) ?? null);
}

/** @type {Handler} */
function progressed(draft, event) {
  draft.view.progress = { ...draft.view.progress, [event.call_id]: event.text };
}

/** @type {Handler} */
function callEnded(draft, event) {
  const { view } = draft;
  const known = callOf(draft, event.call_id);
  /** @type {CallState} */
  let state = event.result.is_error ? "failed" : "done";
  if (known !== null && TOLD.has(known.state)) state = known.state;
  changeCall(draft, event.call_id, event.name, {
    state,
    result: event.result,
    ended_at_ms: event.at_ms,
  });
  dropRunning(draft, event.call_id);
  closeQuestion(draft, event);
  if (view.phase === "executing_tools" && nothingOpen(view)) {
    view.phase = "running";
    view.turn += 1;
    view.inner.is_prepared = true;
  }
}

/**
 * Whether no call of the batch owes its result.
 * @param {import("./view.js").View} view
 */
function nothingOpen(view) {
  if (Object.keys(view.running).length > 0 || view.approvals.length > 0) return false;
  for (let place = view.items.length - 1; place >= 0; place -= 1) {
    const item = view.items[place];
    // One that was stopped has its result, and its task may go on for a while: no event says when it has ended.
    if (item?.type === "call" && (item.call.result === null || STOPPED.has(item.call.state))) return false;
    if (item?.type === "answer") return true;
  }
  return true;
}

/**
 * A question, or a call of the client, whose call has its result waits no more.
 * @param {Draft} draft
 * @param {import("./view.js").WireEvent} event
 */
function closeQuestion(draft, event) {
  const { view } = draft;
  for (const name of /** @type {const} */ (["questions", "client_calls"])) {
    const open = view[name].find((one) => one.call_id === event.call_id);
    if (open === undefined) continue;
    view[name] = view[name].filter((one) => one !== open);
    const item = itemOf(view, `${name === "questions" ? "question" : "client_call"}:${open.ref}`);
    if (item?.type === "decision" && item.state === "open") {
      put(draft, { ...item, state: "closed", decided_at_ms: event.at_ms });
    }
  }
}

/** @type {Handler} */
function measured(draft, event) {
  changeCall(draft, event.call_id, event.name, {
    started_at_ms: event.started_at_ms,
    duration_ms: event.duration_ms,
    attempts: event.attempts ?? 1,
  });
}

/**
 * @param {CallState} state
 * @returns {Handler}
 */
function becomes(state) {
  return (draft, event) => {
    changeCall(draft, event.call_id, event.name, { state, reason: event.reason ?? null, by: event.by ?? null });
  };
}

/** @type {Handler} */
function callRetried(draft, event) {
  const known = callOf(draft, event.call_id);
  const retry = { attempt: event.attempt, error: textOfError(event.error), at_ms: event.at_ms };
  changeCall(draft, event.call_id, event.name, {
    state: "pausing",
    attempts: event.attempt + 1,
    retries: [...(known?.retries ?? []), retry],
  });
}

/** @type {Handler} */
function tookEffect(draft, event) {
  if (callOf(draft, event.call_id) === null) return;
  changeCall(draft, event.call_id, event.name, {
    state: event.result.is_error ? "failed" : "done",
    reason: null,
    result: event.result,
    ended_at_ms: event.at_ms,
  });
}

/** @param {any} error */
function textOfError(error) {
  return typeof error === "string" ? error : `${error?.code ?? ""}: ${error?.message ?? ""}`;
}

/** @type {Handler} */
function offloaded(draft, event) {
  changeCall(draft, event.call_id, event.name, { offloaded: { path: event.path, bytes: event.bytes } });
}

// --- sub-sessions

/** @type {Handler} */
function childBegan(draft, event) {
  const { view } = draft;
  const call = callOf(draft, event.call_id);
  const others = (call?.children ?? []).filter((id) => id !== event.child_id);
  if (call !== null) changeCall(draft, event.call_id, call.name, { children: [...others, event.child_id] });
  changeChild(view, event.child_id, { call_id: event.call_id, description: event.description, phase: "idle" });
}

/** @type {Handler} */
function childEnded(draft, event) {
  changeChild(draft.view, event.child_id, { call_id: event.call_id, ended: true, result: event.result, phase: null });
}

/**
 * @param {import("./view.js").View} view
 * @param {string} childId
 * @param {Partial<import("./view.js").Child>} fields
 */
export function changeChild(view, childId, fields) {
  const known = entryOf(view.children, childId);
  const child = known ?? {
    session_id: childId,
    call_id: null,
    agent_id: null,
    description: null,
    phase: null,
    ended: false,
    result: null,
    view: null,
  };
  view.children = { ...view.children, [childId]: { ...child, ...fields } };
}

/** @type {Record<string, Handler>} */
export const TOOL_HANDLERS = {
  tool_calls: (draft, event) => {
    const { view } = draft;
    const cycle = view.cycles.find((one) => one.key === view.inner.cycle);
    changeCycle(draft, { calls: (cycle?.calls ?? 0) + event.count });
    view.phase = "executing_tools";
  },
  tool_execution_start: callBegan,
  tool_progress: progressed,
  tool_execution_end: callEnded,
  tool_execution_metrics: measured,
  tool_blocked: becomes("blocked"),
  tool_killed: becomes("killed"),
  tool_skipped_for_steering: becomes("skipped"),
  tool_took_effect: tookEffect,
  tool_call_unknown: becomes("unknown_tool"),
  tool_retry: callRetried,
  large_result_offloaded: offloaded,
  tool_attached: () => {}, // `tools_updated` follows, and says all of it
  tool_detached: () => {},
  tools_updated: (draft, event) => void putNotice(draft, event, "info"),
  tool_source_changed: (draft, event) => void putNotice(draft, event, SOURCE_LEVELS[event.state] ?? "info"),
  loop_detected: (draft, event) => void putNotice(draft, event, event.type === "file_loop_abort" ? "bad" : "warn"),
  subagent_start: childBegan,
  subagent_end: childEnded,
};

/** @type {Record<string, "warn" | "bad">} */
const SOURCE_LEVELS = { needs_login: "warn", restarting: "warn", parked: "bad" };

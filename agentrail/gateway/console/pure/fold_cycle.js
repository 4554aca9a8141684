// What the events of sessions, prompts, steers and cycles change in a view. Pure; handlers for the table in `fold.js`.

import { baseOf, changeCycle, closeAll, endNotice, entryOf, itemOf, newCycle, put, putNotice } from "./draft.js";
import { addUsage } from "./view.js";

/** @typedef {import("./draft.js").Draft} Draft */
/** @typedef {import("./draft.js").Handler} Handler */
/** @typedef {import("./view.js").WireEvent} WireEvent */
/** @typedef {import("./view.js").PromptItem} PromptItem */

// --- prompts and steers

/**
 * A prompt that has just come, or the one that waits.
 * @param {Draft} draft
 * @param {string} ref
 * @param {Partial<PromptItem>} fields
 */
function putPrompt(draft, ref, fields) {
  const { view } = draft;
  const waiting = view.queued.find((one) => one.ref === ref);
  if (waiting !== undefined) view.queued = view.queued.filter((one) => one !== waiting);
  const key = `prompt:${ref}`;
  const known = itemOf(view, key);
  if (known?.type === "prompt") {
    put(draft, { ...known, ...fields });
    return;
  }
  put(draft, {
    ...baseOf(draft, key),
    type: "prompt",
    ref,
    origin: "prompt",
    state: "working",
    content: waiting?.content ?? null,
    reason: null,
    by: [],
    via: waiting?.via ?? null,
    request_id: waiting?.request_id ?? null,
    ...fields,
  });
}

/** @type {Handler} */
function promptCame(draft, event) {
  const { view } = draft;
  const prompt = {
    ref: event.ref,
    content: event.content,
    request_id: event.request_id ?? null,
    via: event.via ?? null,
    at_ms: event.at_ms,
  };
  const others = view.queued.filter((one) => one.ref !== event.ref);
  // A steer that its cycle did not take in is a prompt now.
  view.steers = view.steers.filter((one) => one.ref !== event.ref);
  if (event.kind === "prompt_received") {
    // It is its turn at once; until the cycle begins, plugins are asked about it.
    view.queued = [{ ...prompt, asked: true }, ...others];
    if (view.phase === "idle" && !view.suspended) view.phase = "running";
    return;
  }
  const first = others[0]?.asked ? 1 : 0;
  const at = Math.min(first + (event.position ?? others.length), others.length);
  view.queued = [...others.slice(0, at), prompt, ...others.slice(at)];
}

/** @type {Handler} */
function steerCame(draft, event) {
  const { view } = draft;
  if (event.status === "became_prompt") return;
  if (event.status === "queued") {
    view.steers = [...view.steers, { ref: event.ref, text: event.text, at_ms: event.at_ms }];
    return;
  }
  putSteer(draft, event.ref, {
    content: [{ kind: "text", text: event.text }],
    state: "rejected",
    reason: event.status,
  });
}

/**
 * @param {Draft} draft
 * @param {string} ref
 * @param {Partial<PromptItem>} fields
 */
function putSteer(draft, ref, fields) {
  put(draft, {
    ...baseOf(draft, `steer:${ref}`),
    type: "prompt",
    ref,
    origin: "steer",
    state: "done",
    content: null,
    reason: null,
    by: [],
    via: null,
    request_id: null,
    ...fields,
  });
}

/** @type {Handler} */
function steersApplied(draft, event) {
  const { view } = draft;
  for (const ref of event.refs) {
    const steer = view.steers.find((one) => one.ref === ref);
    putSteer(draft, ref, { content: steer ? [{ kind: "text", text: steer.text }] : null });
  }
  view.steers = view.steers.filter((one) => !event.refs.includes(one.ref));
}

/** @type {Handler} */
function intervened(draft, event) {
  put(draft, {
    ...baseOf(draft, `event:${event.seq}`),
    type: "prompt",
    ref: null,
    origin: "intervention",
    state: "done",
    content: [{ kind: "text", text: event.prompt }],
    reason: null,
    by: event.by,
    via: null,
    request_id: null,
  });
}

// --- cycles

/** @type {Handler} */
function cycleBegan(draft, event) {
  const { view } = draft;
  const key = `cycle:${event.seq}`;
  view.inner.cycle = key;
  view.inner.before = view.usage;
  view.inner.answer = null;
  view.phase = "running";
  view.suspended = false;
  view.turn = 1;
  view.inner.is_prepared = true;
  view.cycles = [
    ...view.cycles,
    {
      ...newCycle(key),
      ref: event.ref,
      request_id: event.request_id ?? null,
      from_seq: event.seq,
      from_ms: event.at_ms,
    },
  ];
  if (!event.goes_on) putPrompt(draft, event.ref, { state: "working", cycle: key });
}

/**
 * What every end of a cycle clears.
 * @param {Draft} draft
 * @param {WireEvent} event
 * @param {Partial<import("./view.js").Cycle>} fields
 */
function endCycle(draft, event, fields) {
  const { view } = draft;
  changeCycle(draft, { ref: event.ref ?? null, to_seq: event.seq, to_ms: event.at_ms, ...fields });
  const prompt = event.ref == null ? null : itemOf(view, `prompt:${event.ref}`);
  if (prompt?.type === "prompt" && prompt.state === "working") put(draft, { ...prompt, state: "done" });
  view.inner.cycle = null;
  view.inner.answer = null;
  view.live = null;
  view.retry = null;
  view.status_text = null;
  view.phase = "idle";
  view.suspended = false;
  view.turn = 0;
  if (view.inner.own_model !== null) view.model = view.inner.own_model;
  view.questions = closeAll(draft, view.questions, "question");
  view.client_calls = closeAll(draft, view.client_calls, "client_call");
}

/**
 * What an answer that was waited for has become, when its cycle ended without it.
 * @param {Draft} draft
 * @param {WireEvent} event
 * @param {"stopped" | "failed"} state
 */
function breakAnswer(draft, event, state) {
  const { view } = draft;
  const key = view.inner.answer ?? view.live?.key ?? null;
  const answer = key === null ? null : itemOf(view, key);
  if (answer?.type !== "answer" || answer.state === "complete") return;
  const text = state === "stopped" ? (event.cut_text ?? entryOf(view.inner.cut, event.ref ?? "") ?? "") : "";
  put(draft, { ...answer, state: text === "" ? state : "cut", text, ended_at_ms: event.at_ms });
}

/** @type {Handler} */
function cycleEnded(draft, event) {
  const { view } = draft;
  // It counts attempts that failed too, which no response told of.
  if (view.inner.before !== null) view.usage = addUsage(view.inner.before, event.usage);
  view.cost_usd = view.usage.cost_usd;
  endCycle(draft, event, {
    outcome: "end",
    reason: event.stop_reason,
    usage: event.usage,
    ...(event.turns == null ? {} : { turns: event.turns }),
  });
}

/** @type {Handler} */
function cycleAborted(draft, event) {
  const { view } = draft;
  breakAnswer(draft, event, "stopped");
  const { cut_text: _words, ...told } = event;
  view.inner.aborting = putNotice(draft, /** @type {WireEvent} */ (told), "warn");
  view.tearing_down = true;
  if (event.ref == null && view.turn === 0) {
    view.phase = "idle"; // there was no cycle
    return;
  }
  endCycle(draft, event, { outcome: "abort", reason: event.reason });
}

/** @type {Handler} */
function abortSettled(draft, event) {
  const { view } = draft;
  const { receipt } = event;
  const serious = receipt.unknown?.length || receipt.stuck?.length || receipt.survivors?.length;
  endNotice(draft, view.inner.aborting, event, serious ? "bad" : "info");
  view.inner.aborting = null;
  view.tearing_down = false;
}

/** @type {Handler} */
function cycleFailed(draft, event) {
  breakAnswer(draft, event, "failed");
  putNotice(draft, event, "bad");
  endCycle(draft, event, { outcome: "error", error: event.error });
}

/** @type {Handler} */
function suspended(draft, event) {
  const { view } = draft;
  view.suspended = true;
  view.phase = "idle";
  // This is all that is waited for; a question of a tool that a crash took with it ends without an event of its own.
  const ids = new Set(event.waiting.map((/** @type {any} */ one) => one.id));
  view.approvals = view.approvals.filter((one) => ids.has(one.id));
  view.questions = closeAll(draft, view.questions, "question", ids);
  view.client_calls = closeAll(draft, view.client_calls, "client_call", ids);
}

/** @type {Handler} */
function resumed(draft) {
  draft.view.suspended = false;
  draft.view.phase = "executing_tools";
}

// --- the session

/** @type {Handler} */
function sessionBegan(draft, event) {
  draft.view.model = event.model;
  draft.view.inner.own_model = event.model;
  draft.view.ended = null;
  putNotice(draft, event, "info");
}

/** @type {Handler} */
function sessionRestarted(draft, event) {
  const { view } = draft;
  view.restarts = Math.max(view.restarts, event.incarnation - 1);
  view.live = null;
  view.retry = null;
  view.ended = null;
  view.tearing_down = false;
  view.inner.aborting = null;
  putNotice(draft, event, "bad");
}

/** @type {Handler} */
function recovered(draft, event) {
  const { view } = draft;
  view.tearing_down = false;
  view.live = null;
  view.ended = null;
  putNotice(draft, event, "warn");
  const over = event.decisions.filter(
    (/** @type {any} */ one) => one.decision === "given_up" || one.decision === "expired",
  );
  const gone = new Set(over.map((/** @type {any} */ one) => one.id));
  const isOpen = (/** @type {any} */ one) => !gone.has(one.ref);
  view.questions = closeAll(
    draft,
    view.questions,
    "question",
    new Set(view.questions.filter(isOpen).map((one) => one.ref)),
  );
}

/** @type {Handler} */
function sessionEnded(draft, event) {
  const { view } = draft;
  const parked = event.kind === "session_parked";
  view.tearing_down = false;
  // One that is parked because it was recovered too often stays as it was; of others `session_end` comes next.
  if (!parked) view.phase = "idle";
  view.ended = { reason: event.reason, parked: parked || (view.ended?.parked ?? false), at_ms: event.at_ms };
  putNotice(draft, event, parked ? "bad" : "info");
}

/** @type {Record<string, Handler>} */
export const CYCLE_HANDLERS = {
  prompt_received: promptCame,
  prompt_queued: promptCame,
  prompt_dropped: (draft, event) => putPrompt(draft, event.ref, { content: event.content, state: "dropped" }),
  prompt_rejected: (draft, event) => putPrompt(draft, event.ref, { state: "rejected", reason: event.reason }),
  prompt_taken: (draft, event) => putPrompt(draft, event.ref, { state: "taken", by: [event.by] }),
  steering_received: steerCame,
  steering_applied: steersApplied,
  intervention: intervened,
  agent_start: cycleBegan,
  agent_end: cycleEnded,
  agent_abort: cycleAborted,
  abort_settled: abortSettled,
  agent_error: cycleFailed,
  agent_suspended: suspended,
  agent_resumed: resumed,
  agent_changed: (draft, event) => {
    draft.view.agent = event.to_agent;
    putNotice(draft, event, "info");
  },
  max_turns_reached: (draft, event) => void putNotice(draft, event, "warn"),
  signal_quarantined: (draft, event) => void putNotice(draft, event, "bad"),
  session_start: sessionBegan,
  session_restarted: sessionRestarted,
  session_recovered: recovered,
  session_parked: sessionEnded,
  session_end: sessionEnded,
};

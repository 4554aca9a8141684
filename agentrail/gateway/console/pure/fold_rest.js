// What the events of people, of the context, of plans and of plugins change in a view. Pure; handlers for the table in `fold.js`.

import { baseOf, changeCall, endNotice, entryOf, itemOf, put, putNotice } from "./draft.js";

/** @typedef {import("./draft.js").Draft} Draft */
/** @typedef {import("./draft.js").Handler} Handler */
/** @typedef {import("./view.js").DecisionItem} DecisionItem */
/** @typedef {import("./view.js").WireEvent} WireEvent */

// --- people

/**
 * @param {Draft} draft
 * @param {DecisionItem["of"]} of
 * @param {string} id
 * @param {Partial<DecisionItem>} fields
 */
function putDecision(draft, of, id, fields) {
  const key = `${of}:${id}`;
  const known = itemOf(draft.view, key);
  if (known?.type === "decision") {
    put(draft, { ...known, ...fields });
    return;
  }
  put(draft, {
    ...baseOf(draft, key),
    type: "decision",
    of,
    id,
    state: "open",
    asked: {},
    call_id: null,
    by: null,
    user: null,
    answer: null,
    reason: null,
    decided_at_ms: null,
    ...fields,
  });
}

/** @type {Handler} */
function approvalRequired(draft, event) {
  const { approval } = event;
  const { view } = draft;
  view.approvals = [...view.approvals.filter((one) => one.id !== approval.id), approval];
  putDecision(draft, "approval", approval.id, { asked: approval, call_id: approval.call_id });
  changeCall(draft, approval.call_id, approval.tool, {
    state: "waiting",
    approval_id: approval.id,
    arguments: approval.arguments,
  });
}

/** @type {Handler} */
function approvalResolved(draft, event) {
  const { approval, status, by } = event;
  const { view } = draft;
  view.approvals = view.approvals.filter((one) => one.id !== approval.id);
  putDecision(draft, "approval", approval.id, {
    asked: approval,
    call_id: approval.call_id,
    state: status,
    by,
    user: event.user ?? null,
    decided_at_ms: event.at_ms,
  });
  const state = status === "approved" ? "asked" : "rejected";
  changeCall(draft, approval.call_id, approval.tool, {
    state,
    approval_id: approval.id,
    arguments: approval.arguments,
    by: state === "rejected" ? by : null,
  });
}

/** @type {Handler} */
function ruleMade(draft, event) {
  putDecision(draft, "rule", String(event.seq), {
    state: "made",
    asked: { tool: event.tool, command_family: event.command_family ?? null, exact: event.exact === true },
    decided_at_ms: event.at_ms,
  });
}

/** @type {Handler} */
function questionAsked(draft, event) {
  const { kind: _kind, seq: _seq, session_id: _session, at_ms, ...fields } = event;
  // An event of an older server does not name the call; where one alone runs, it is that one's.
  const running = Object.values(draft.view.running).filter(
    (call) => call.state === "running" || call.state === "waiting",
  );
  const asks = running.length === 1 ? running[0] : undefined;
  const question = { call_id: asks?.call_id ?? null, requested_at_ms: at_ms, ...fields };
  draft.view.questions = [...draft.view.questions.filter((one) => one.ref !== event.ref), question];
  putDecision(draft, "question", event.ref, { asked: question, call_id: question.call_id });
}

/** @type {Handler} */
function clientAsked(draft, event) {
  const { kind: _kind, seq: _seq, session_id: _session, at_ms, ...fields } = event;
  const call = { requested_at_ms: at_ms, ...fields };
  draft.view.client_calls = [...draft.view.client_calls.filter((one) => one.ref !== event.ref), call];
  putDecision(draft, "client_call", event.ref, { asked: call, call_id: event.call_id });
  changeCall(draft, event.call_id, event.name, { state: "waiting", ref: event.ref, arguments: event.arguments });
}

/**
 * The user answered a question, or gave the result of a call in place of its tool: of one of the client, or of one that waits for approval.
 * @type {Handler}
 */
function userAnswered(draft, event) {
  const { view } = draft;
  const declined = event.kind === "user_declined";
  const fields = {
    state: declined ? "declined" : "answered",
    answer: declined ? null : event.response,
    reason: event.reason ?? null,
    by: "user",
    user: event.user ?? null,
    decided_at_ms: event.at_ms,
  };
  view.questions = view.questions.filter((one) => one.ref !== event.ref);
  view.client_calls = view.client_calls.filter((one) => one.ref !== event.ref);
  const of = /** @type {const} */ (["question", "client_call", "approval"]).find(
    (one) => itemOf(view, `${one}:${event.ref}`) !== null,
  );
  if (of === "approval") {
    putDecision(draft, of, event.ref, { answer: event.response });
    return;
  }
  putDecision(draft, of ?? "question", event.ref, fields);
}

/**
 * Who waits for what, which is the one place where the call of a question is named.
 * @type {Handler}
 */
export function waitsFor(draft, event) {
  const { view } = draft;
  for (const one of event.waiting) {
    if (one.kind !== "question") continue;
    view.questions = view.questions.map((asked) =>
      asked.ref === one.id && asked.call_id == null ? { ...asked, call_id: one.call_id } : asked,
    );
    const item = itemOf(view, `question:${one.id}`);
    if (item?.type === "decision" && item.call_id === null) put(draft, { ...item, call_id: one.call_id });
    const call = entryOf(view.running, one.call_id);
    if (call !== undefined) changeCall(draft, one.call_id, call.name, { state: "waiting", ref: one.id });
  }
}

// --- context, plans

/** @type {Handler} */
function compactBegan(draft, event) {
  draft.view.inner.compacting = putNotice(draft, event, "info");
  draft.view.phase = "running";
}

/** @type {Handler} */
function compactEnded(draft, event) {
  const { view } = draft;
  endNotice(draft, view.inner.compacting, event, "info");
  view.inner.compacting = null;
  if (view.turn === 0 && view.phase === "running") view.phase = "idle";
  if (event.tokens_after !== undefined && view.context !== null) {
    view.context = { ...view.context, tokens: event.tokens_after };
  }
}

/** @type {Handler} */
function planChanged(draft, event) {
  draft.view.plan = event.plan;
  putNotice(draft, event, "info");
}

/** @type {Handler} */
function stepDone(draft, event) {
  const { plan } = draft.view;
  const { step } = event;
  if (plan !== null) {
    draft.view.plan = { ...plan, steps: plan.steps.map((one) => (one.index === step.index ? step : one)) };
  }
}

/** @type {Record<string, Handler>} */
export const REST_HANDLERS = {
  approval_required: approvalRequired,
  approval_resolved: approvalResolved,
  tool_approved_always: ruleMade,
  ask_user: questionAsked,
  user_responded: userAnswered,
  user_declined: userAnswered,
  client_call: clientAsked,
  compact_due: (draft) => {
    draft.view.phase = "running";
  },
  compact_start: compactBegan,
  compact_end: compactEnded,
  compact_skipped: compactEnded,
  todo_change: (draft, event) => {
    draft.view.todos = event.todos;
  },
  plan_generated: planChanged,
  plan_step_completed: stepDone,
  plan_completed: planChanged,
  memory_flushed: (draft, event) => void putNotice(draft, event, "info"),
  skill_opened: (draft, event) => void putNotice(draft, event, "info"),
  skill_closed: (draft, event) => void putNotice(draft, event, "info"),
  citation_unknown: (draft, event) => void putNotice(draft, event, "warn"),
  content_policy_violated: (draft, event) => void putNotice(draft, event, "warn"),
  budget_warning: (draft, event) => {
    draft.view.budget = { spent: event.spent, limit: event.limit };
    putNotice(draft, event, "warn");
  },
  plugin_event: (draft, event) => void putNotice(draft, event, "info"),
  plugin_opts_updated: (draft, event) => void putNotice(draft, event, event.success ? "info" : "bad"),
  plugin_failed: (draft, event) => void putNotice(draft, event, "bad"),
  plugin_slow: (draft, event) => void putNotice(draft, event, "warn"),
  action_ignored: (draft, event) => void putNotice(draft, event, "warn"),
};

// What the events of requests and responses change in a view. Pure; handlers for the table in `fold.js`.
//
// Words that stream stand in `view.live` alone, so that a delta makes no new list of items: two hundred of them may come in a second.

import { baseOf, changeCycle, closeAll, itemOf, put, putNotice } from "./draft.js";
import { withoutTags } from "./said_text.js";
import { addUsage, newCall, textOf } from "./view.js";

/** @typedef {import("./draft.js").Draft} Draft */
/** @typedef {import("./draft.js").Handler} Handler */
/** @typedef {import("./view.js").AnswerItem} AnswerItem */
/** @typedef {import("./view.js").Live} Live */

/**
 * @param {Draft} draft
 * @param {string} key
 * @returns {AnswerItem}
 */
function newAnswer(draft, key) {
  return {
    ...baseOf(draft, key),
    type: "answer",
    model: draft.view.model,
    state: "waiting",
    attempt: 1,
    text: "",
    thinking: "",
    calls: [],
    attempts: [],
    usage: null,
    stop_reason: null,
    ended_at_ms: null,
  };
}

/**
 * Change the answer that is being waited for; where its request is not loaded, it gets a card of its own.
 * @param {Draft} draft
 * @param {Partial<AnswerItem>} fields
 */
function changeAnswer(draft, fields) {
  const { view } = draft;
  const key = view.inner.answer ?? `answer:${draft.seq}`;
  view.inner.answer = key;
  const known = itemOf(view, key);
  const answer = known?.type === "answer" ? known : newAnswer(draft, key);
  put(draft, { ...answer, ...fields });
}

/**
 * Words that came; those of another attempt take the place of what was there.
 * @param {Draft} draft
 * @param {number} attempt
 * @param {boolean} begins whether nothing of it was said before; of words that come out of nothing a part was missed
 * @returns {Live}
 */
function liveOf(draft, attempt, begins = false) {
  const { live, inner } = draft.view;
  if (live !== null && live.attempt === attempt)
    return { ...live, key: inner.answer ?? live.key, stalled_seconds: null };
  return { key: inner.answer, attempt, text: "", thinking: "", stalled_seconds: null, incomplete: !begins };
}

/** @type {Handler} */
function requestBegan(draft, event) {
  const { view } = draft;
  view.model = event.model;
  view.phase = "running";
  view.live = null;
  view.retry = null;
  const again = view.inner.answer === null ? null : itemOf(view, view.inner.answer);
  if (again?.type === "answer" && event.attempt > 1) {
    put(draft, { ...again, model: event.model, state: "waiting", attempt: event.attempt });
    return;
  }
  if (event.attempt === 1) {
    if (!view.inner.is_prepared) view.turn += 1;
    // All calls of the turn before have their result, so what they asked is over.
    view.questions = closeAll(draft, view.questions, "question");
  }
  view.inner.is_prepared = false;
  view.inner.answer = `answer:${event.seq}`;
  changeAnswer(draft, { model: event.model, attempt: event.attempt });
  changeCycle(draft, { turns: view.turn });
}

/** @type {Handler} */
function messageBegan(draft, event) {
  draft.view.phase = "streaming";
  draft.view.inner.is_prepared = false;
  changeAnswer(draft, { state: "streaming", attempt: event.attempt });
  draft.view.live = liveOf(draft, event.attempt, true);
}

/** @type {Handler} */
function textCame(draft, event) {
  const live = liveOf(draft, event.attempt);
  draft.view.live = { ...live, text: live.text + event.delta };
}

/** @type {Handler} */
function thinkingCame(draft, event) {
  const live = liveOf(draft, event.attempt);
  draft.view.live = { ...live, thinking: live.thinking + event.delta };
}

/** @type {Handler} */
function responseComplete(draft, event) {
  const { view } = draft;
  const { message } = event;
  const calls = message.content.filter((/** @type {any} */ block) => block.kind === "tool_call");
  changeAnswer(draft, {
    state: message.cut ? "cut" : "complete",
    model: message.model,
    attempt: event.attempt,
    text: withoutTags(textOf(message.content, "text")),
    thinking: textOf(message.content, "thinking"),
    calls: calls.map((/** @type {any} */ call) => call.call_id),
    usage: event.usage,
    stop_reason: event.stop_reason,
    ended_at_ms: event.at_ms,
  });
  for (const block of calls) putAsked(draft, block);
  view.usage = addUsage(view.usage, event.usage);
  view.cost_usd = view.usage.cost_usd;
  view.inner.answer = null;
  view.live = null;
  view.retry = null;
  view.inner.is_prepared = false;
  view.phase = calls.length > 0 ? "executing_tools" : "running";
}

/**
 * A call as the model wrote it.
 * @param {Draft} draft
 * @param {any} block
 */
export function putAsked(draft, block) {
  const key = `call:${block.call_id}`;
  const known = itemOf(draft.view, key);
  const call =
    known?.type === "call" ? known.call : { ...newCall(block.call_id, block.name), arguments: block.arguments };
  const asked = { ...call, asked: block.arguments, malformed: block.malformed ?? null };
  put(draft, known?.type === "call" ? { ...known, call: asked } : { ...baseOf(draft, key), type: "call", call: asked });
}

/** @type {Handler} */
function streamBroke(draft, event) {
  const { view } = draft;
  addAttempt(draft, { attempt: event.attempt, error: event.error, discarded: event.discarded ?? false });
  if (event.discarded) view.live = null;
  view.phase = "running";
}

/**
 * @param {Draft} draft
 * @param {{attempt: number, error: any, discarded: boolean}} failed
 * @param {number | null} delay
 */
function addAttempt(draft, failed, delay = null) {
  const { view } = draft;
  const known = view.inner.answer === null ? null : itemOf(view, view.inner.answer);
  const before = known?.type === "answer" ? known.attempts : [];
  const others = before.filter((one) => one.attempt !== failed.attempt);
  const told = before.find((one) => one.attempt === failed.attempt);
  const attempt = {
    ...failed,
    discarded: failed.discarded || (told?.discarded ?? false),
    delay_ms: delay,
    at_ms: draft.at_ms, // a pause counts from the event that tells of it
  };
  changeAnswer(draft, { state: "pausing", attempts: [...others, attempt] });
}

/** @type {Handler} */
function retried(draft, event) {
  const { view } = draft;
  addAttempt(draft, { attempt: event.attempt - 1, error: event.error, discarded: false }, event.delay_ms);
  view.retry = { attempt: event.attempt, delay_ms: event.delay_ms, at_ms: event.at_ms, error: event.error };
  view.live = null;
  view.phase = "running";
}

/** @type {Handler} */
function modelSwitched(draft, event) {
  const { inner } = draft.view;
  draft.view.model = event.to_model;
  // Another model in place of one that failed holds until the cycle ends.
  if (event.by === "fallback") inner.own_model ??= event.from_model;
  else inner.own_model = event.to_model;
  putNotice(draft, event, event.by === "fallback" ? "warn" : "info");
}

/** @type {Handler} */
function stalled(draft, event) {
  const live = draft.view.live ?? {
    key: draft.view.inner.answer,
    attempt: 1,
    text: "",
    thinking: "",
    stalled_seconds: null,
    incomplete: false,
  };
  draft.view.live = { ...live, stalled_seconds: event.elapsed_seconds };
}

/** @type {Record<string, Handler>} */
export const RESPONSE_HANDLERS = {
  request_start: requestBegan,
  message_start: messageBegan,
  message_delta: textCame,
  thinking_start: (draft, event) => {
    draft.view.live = liveOf(draft, event.attempt);
  },
  thinking_delta: thinkingCame,
  status_update: (draft, event) => {
    draft.view.status_text = event.text;
  },
  title_generated: (draft, event) => {
    draft.view.title = event.title;
  },
  response_complete: responseComplete,
  stream_error: streamBroke,
  stream_stalled: stalled,
  retry: retried,
  context_overflow: (draft, event) => void putNotice(draft, event, "warn"),
  model_switched: modelSwitched,
};

// A view out of a snapshot: how the session stands, and the end of its conversation where its events are not loaded. Pure.
//
// Fields that an older server does not send are taken for unknown, never for an error.

import { withoutTags } from "./said_text.js";
import { emptyView, NO_USAGE, newCall, textOf } from "./view.js";

/** @typedef {import("./view.js").View} View */
/** @typedef {import("./view.js").Item} Item */
/** @typedef {import("./view.js").Call} Call */

/**
 * Everything but the conversation.
 * @param {Record<string, any>} snapshot
 * @returns {View}
 */
export function stateOfSnapshot(snapshot) {
  const status = snapshot.status ?? {};
  const view = stateOfStatus(status);
  const waiting = snapshot.queued ?? [];
  const cut = cutAnswers(snapshot.messages ?? []);
  return {
    ...view,
    seq: snapshot.seq ?? status.last_seq ?? 0,
    kept_first: snapshot.first_seq ?? null,
    title: snapshot.title ?? null,
    first_words: snapshot.first_words ?? null,
    agent_id: snapshot.agent_id ?? null,
    live: liveOf(snapshot, view.phase),
    progress: { ...(snapshot.live?.progress ?? {}) },
    queued: waiting.filter((/** @type {any} */ one) => !one.steer).map(queuedPrompt),
    steers: waiting.filter((/** @type {any} */ one) => one.steer).map(queuedSteer),
    todos: snapshot.todos ?? [],
    children: childrenOf(snapshot, status),
    context: snapshot.context ?? null,
    inner: { ...view.inner, cut },
  };
}

/**
 * @param {Record<string, any>} status
 * @returns {View}
 */
function stateOfStatus(status) {
  const view = emptyView(status.session_id ?? "");
  /** @type {Record<string, Call>} */
  const running = {};
  for (const tool of drawnTools(status)) if (!tool.stopping) running[tool.call_id] = runningCall(tool);
  const usage = { ...NO_USAGE, ...(status.usage ?? {}) };
  const isIdle = (status.phase ?? "idle") === "idle" && !status.suspended;
  return {
    ...view,
    seq: status.last_seq ?? 0,
    agent: status.agent ?? null,
    phase: status.phase ?? "idle",
    suspended: status.suspended ?? false,
    tearing_down: status.tearing_down ?? false,
    model: status.model ?? null,
    turn: status.turn ?? 0,
    running,
    approvals: status.approvals ?? [],
    questions: status.questions ?? [],
    client_calls: status.client_calls ?? [],
    usage,
    cost_usd: usage.cost_usd,
    budget_left: status.budget_left ?? null,
    restarts: status.restarts ?? 0,
    inner: {
      ...view.inner,
      own_model: isIdle ? (status.model ?? null) : null,
      // Where plugins are asked what follows a turn, the request that comes then is of the next one.
      is_prepared: status.phase === "running" && !status.between_turns,
      before: isIdle ? usage : null,
    },
  };
}

/**
 * The calls that are drawn as running: one that goes on in the background is answered, and no event tells of its end.
 * @param {Record<string, any>} status
 * @returns {any[]}
 */
function drawnTools(status) {
  return (status.running_tools ?? []).filter((/** @type {any} */ tool) => !tool.detached);
}

/**
 * @param {any} tool
 * @returns {Call}
 */
function runningCall(tool) {
  return {
    ...newCall(tool.call_id, tool.name),
    state: tool.stopping ? "killed" : "running",
    started_at_ms: tool.started_at_ms,
    survivor: tool.survivor ?? false,
    stopping: tool.stopping ?? false,
  };
}

/**
 * @param {Record<string, any>} snapshot
 * @param {string} phase
 * @returns {import("./view.js").Live | null}
 */
function liveOf(snapshot, phase) {
  const live = snapshot.live ?? null;
  if (live === null && phase !== "streaming") return null;
  return {
    key: null,
    attempt: live?.attempt ?? 1,
    text: live?.text ?? snapshot.text ?? "",
    thinking: live?.thinking ?? "",
    stalled_seconds: null,
    incomplete: live === null,
  };
}

/** @param {any} one */
function queuedPrompt(one) {
  return { ref: one.ref, content: one.content, request_id: one.request_id ?? null, at_ms: one.at_ms ?? 0 };
}

/** @param {any} one */
function queuedSteer(one) {
  return { ref: one.ref, text: textOf(one.content, "text"), at_ms: one.at_ms ?? 0 };
}

/**
 * @param {Record<string, any>} snapshot
 * @param {Record<string, any>} status
 * @returns {View["children"]}
 */
function childrenOf(snapshot, status) {
  /** @type {View["children"]} */
  const children = {};
  for (const one of [...(status.children ?? []), ...(snapshot.children ?? [])]) {
    const known = Object.hasOwn(children, one.session_id) ? children[one.session_id] : undefined;
    const told = one.status == null ? (known?.view ?? null) : stateOfStatus(one.status);
    children[one.session_id] = {
      session_id: one.session_id,
      call_id: one.call_id ?? known?.call_id ?? null,
      agent_id: one.agent_id ?? known?.agent_id ?? null,
      description: known?.description ?? null,
      phase: one.phase ?? told?.phase ?? known?.phase ?? null,
      ended: false,
      result: null,
      view: told === null ? null : { ...told, inner: { ...told.inner, is_child: true, depth: 1 } },
    };
  }
  return children;
}

/**
 * What aborts left of answers, by the prompt that was being answered: no event says it.
 * @param {any[]} messages
 * @returns {Record<string, string>}
 */
function cutAnswers(messages) {
  /** @type {Record<string, string>} */
  const cut = {};
  let ref = "";
  for (const message of messages) {
    if (message.role === "user" && message.ref != null) ref = message.ref;
    if (message.role === "assistant" && message.cut && ref !== "")
      cut[ref] = withoutTags(textOf(message.content, "text"));
  }
  return cut;
}

// --- the end of the conversation

/**
 * Items out of the messages of a snapshot, shown until events are loaded, or where they are not kept.
 * @param {Record<string, any>} snapshot
 * @returns {Item[]}
 */
export function baseItems(snapshot) {
  /** @type {Item[]} */
  const items = [];
  /** @type {Map<string, number>} */
  const calls = new Map();
  const first = snapshot.before ?? 0;
  (snapshot.messages ?? []).forEach((/** @type {any} */ message, /** @type {number} */ index) => {
    if (message.role === "user") items.push(promptOf(message, first + index));
    else if (message.role === "assistant") addAnswer(items, calls, message, first + index, snapshot.status ?? {});
    else if (message.role === "tool") addResults(items, calls, message);
  });
  return items;
}

/** @param {string} key */
function itemBase(key) {
  return { key, seq: 0, at_ms: 0, cycle: null };
}

/**
 * @param {any} message
 * @param {number} place
 * @returns {Item}
 */
function promptOf(message, place) {
  const origin = message.origin ?? "prompt";
  return {
    ...itemBase(origin === "prompt" && message.ref ? `prompt:${message.ref}` : `message:${place}`),
    type: "prompt",
    ref: message.ref ?? null,
    origin,
    state: "done",
    content: message.content,
    reason: null,
    by: [],
    via: null,
    request_id: null,
  };
}

/**
 * @param {Item[]} items
 * @param {Map<string, number>} places of calls
 * @param {any} message
 * @param {number} place
 * @param {Record<string, any>} status
 */
function addAnswer(items, places, message, place, status) {
  const blocks = message.content.filter((/** @type {any} */ block) => block.kind === "tool_call");
  items.push({
    ...itemBase(`message:${place}`),
    type: "answer",
    model: message.model ?? null,
    state: message.cut ? "cut" : "complete",
    attempt: 1,
    text: withoutTags(textOf(message.content, "text")),
    thinking: textOf(message.content, "thinking"),
    calls: blocks.map((/** @type {any} */ block) => block.call_id),
    attempts: [],
    usage: null,
    stop_reason: message.stop_reason ?? null,
    ended_at_ms: null,
  });
  for (const block of blocks) {
    const key = `call:${block.call_id}`;
    if (places.has(key)) continue;
    places.set(key, items.length);
    items.push({ ...itemBase(key), type: "call", call: askedCall(block, status) });
  }
}

/**
 * @param {any} block
 * @param {Record<string, any>} status
 * @returns {Call}
 */
function askedCall(block, status) {
  const known = drawnTools(status).find((/** @type {any} */ one) => one.call_id === block.call_id);
  const approval = (status.approvals ?? []).find((/** @type {any} */ one) => one.call_id === block.call_id);
  const asked = {
    ...newCall(block.call_id, block.name),
    arguments: block.arguments,
    asked: block.arguments,
    malformed: block.malformed ?? null,
  };
  if (known) return { ...runningCall(known), arguments: block.arguments, asked: block.arguments };
  return approval ? { ...asked, state: "waiting", approval_id: approval.id, arguments: approval.arguments } : asked;
}

/**
 * @param {Item[]} items
 * @param {Map<string, number>} places
 * @param {any} message
 */
function addResults(items, places, message) {
  for (const result of message.results) {
    const key = `call:${result.call_id}`;
    const place = places.get(key);
    const state = result.is_error ? "failed" : "done";
    const item = place === undefined ? null : items[place];
    if (place === undefined || item?.type !== "call") {
      places.set(key, items.length);
      items.push({ ...itemBase(key), type: "call", call: { ...newCall(result.call_id, result.name), state, result } });
    } else {
      items[place] = { ...item, call: { ...item.call, state, result } };
    }
  }
}

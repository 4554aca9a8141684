// A view while it is being changed: what the handlers of `fold_*.js` work on. It copies what it changes, once for each batch of events.
//
// Pure: no DOM, no clock. Nothing of the view that a draft began with is ever written to, its log and index aside, which are only added to.

import { newCall } from "./view.js";

/** @typedef {import("./view.js").View} View */
/** @typedef {import("./view.js").Item} Item */
/** @typedef {import("./view.js").Call} Call */
/** @typedef {import("./view.js").Cycle} Cycle */
/** @typedef {import("./view.js").WireEvent} WireEvent */

/**
 * @typedef {object} Draft
 * @property {View} view a copy; its fields may be set, what they hold may not be changed in place
 * @property {boolean} ownsItems whether `view.items` is a copy already
 * @property {number} seq of the event that is being folded; 0 for what is in no event
 * @property {number} at_ms of that event
 */

/** @typedef {(draft: Draft, event: WireEvent) => void} Handler */

/**
 * @param {View} view
 * @returns {Draft}
 */
export function draftOf(view) {
  return { view: { ...view, inner: { ...view.inner } }, ownsItems: false, seq: 0, at_ms: 0 };
}

/**
 * Where an item stands.
 * @param {View} view
 * @param {string} key
 * @returns {number} -1: nowhere
 */
export function placeOf(view, key) {
  const told = view.inner.index.get(key);
  if (told === undefined) return -1;
  if (view.items[told]?.key === key) return told;
  // Another view that grew out of the same one has said otherwise.
  for (let place = view.items.length - 1; place >= 0; place -= 1) {
    if (view.items[place]?.key === key) return place;
  }
  return -1;
}

/**
 * An item by its key, in a draft or in a view.
 * @param {View} view
 * @param {string} key
 * @returns {Item | null}
 */
export function itemOf(view, key) {
  const place = placeOf(view, key);
  return place < 0 ? null : /** @type {Item} */ (view.items[place]);
}

/**
 * Put an item at the end, or in the place of the one that has its key.
 * @param {Draft} draft
 * @param {Item} item
 */
export function put(draft, item) {
  const { view } = draft;
  if (!draft.ownsItems) {
    view.items = view.items.slice();
    draft.ownsItems = true;
  }
  const place = placeOf(view, item.key);
  if (place >= 0) {
    view.items[place] = item;
    return;
  }
  view.inner.index.set(item.key, view.items.length);
  view.items.push(item);
}

/**
 * What every item begins with.
 * @param {Draft} draft
 * @param {string} key
 * @returns {import("./view.js").ItemBase}
 */
export function baseOf(draft, key) {
  return { key, seq: draft.seq, at_ms: draft.at_ms, cycle: draft.view.inner.cycle };
}

/**
 * Put a line about something that happened.
 * @param {Draft} draft
 * @param {WireEvent} event
 * @param {"info" | "warn" | "bad"} level
 * @param {string} kind the event's, or `unknown`
 * @returns {string} its key
 */
export function putNotice(draft, event, level, kind = event.kind) {
  const key = `event:${event.seq}`;
  put(draft, { ...baseOf(draft, key), type: "notice", kind, level, event, end: null });
  return key;
}

/**
 * Say what finished what a notice began.
 * @param {Draft} draft
 * @param {string | null} key of the notice; where it is not loaded, the end gets one of its own
 * @param {WireEvent} end
 * @param {"info" | "warn" | "bad"} level
 */
export function endNotice(draft, key, end, level) {
  const item = key === null ? null : itemOf(draft.view, key);
  if (item?.type === "notice") put(draft, { ...item, end, level: level === "info" ? item.level : level });
  else putNotice(draft, end, level);
}

// --- calls

/**
 * Change a call, in its item and among those that run; one that nothing is known of gets a card of its own.
 * @param {Draft} draft
 * @param {string} callId
 * @param {string} name
 * @param {Partial<Call>} fields
 * @returns {Call} as it is now
 */
export function changeCall(draft, callId, name, fields) {
  const key = `call:${callId}`;
  const item = itemOf(draft.view, key);
  const known = item?.type === "call" ? item.call : entryOf(draft.view.running, callId);
  const call = { ...(known ?? newCall(callId, name)), ...fields };
  if (item?.type === "call") put(draft, { ...item, call });
  else put(draft, { ...baseOf(draft, key), type: "call", call });
  if (Object.hasOwn(draft.view.running, callId)) draft.view.running = { ...draft.view.running, [callId]: call };
  return call;
}

/**
 * @param {Draft} draft
 * @param {Call} call
 */
export function addRunning(draft, call) {
  draft.view.running = { ...draft.view.running, [call.call_id]: call };
}

/**
 * @param {Draft} draft
 * @param {string} callId
 */
export function dropRunning(draft, callId) {
  draft.view.running = without(draft.view.running, callId);
  draft.view.progress = without(draft.view.progress, callId);
}

/**
 * What a record has under a name that came from outside: `constructor` is a name like any other.
 * @template T
 * @param {Record<string, T>} record
 * @param {string} name
 * @returns {T | undefined}
 */
export function entryOf(record, name) {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

/**
 * An object without one of its fields; the same one, where it has none of that name.
 * @template T
 * @param {Record<string, T>} record
 * @param {string} name
 * @returns {Record<string, T>}
 */
export function without(record, name) {
  if (!Object.hasOwn(record, name)) return record;
  const { [name]: _gone, ...rest } = record;
  return rest;
}

// --- what waits for people

/**
 * Questions, or calls of the client, that end without an answer, because what asked is over.
 * @param {Draft} draft
 * @param {Record<string, any>[]} asked those that wait
 * @param {"question" | "client_call"} of
 * @param {Set<string> | null} kept the names of those that go on waiting
 * @returns {Record<string, any>[]} those
 */
export function closeAll(draft, asked, of, kept = null) {
  const over = asked.filter((one) => kept === null || !kept.has(one.ref));
  if (over.length === 0) return asked;
  for (const one of over) {
    const item = itemOf(draft.view, `${of}:${one.ref}`);
    if (item?.type === "decision" && item.state === "open")
      put(draft, { ...item, state: "closed", decided_at_ms: draft.at_ms });
  }
  return asked.filter((one) => !over.includes(one));
}

// --- cycles

/**
 * Change the cycle that runs; one whose beginning is not loaded gets one that begins nowhere.
 * @param {Draft} draft
 * @param {Partial<Cycle>} fields
 */
export function changeCycle(draft, fields) {
  const { view } = draft;
  const key = view.inner.cycle ?? `cycle:before:${draft.seq}`;
  const known = view.cycles.find((one) => one.key === key);
  if (known !== undefined) {
    view.cycles = view.cycles.map((one) => (one === known ? { ...one, ...fields } : one));
  } else {
    view.cycles = [...view.cycles, { ...newCycle(key), ...fields }];
  }
}

/**
 * @param {string} key
 * @returns {Cycle}
 */
export function newCycle(key) {
  return {
    key,
    ref: null,
    request_id: null,
    from_seq: null,
    to_seq: null,
    from_ms: null,
    to_ms: null,
    outcome: null,
    reason: null,
    error: null,
    usage: null,
    turns: 0,
    calls: 0,
  };
}

// `fold(view, event)`: what a page shows is what this makes of the events that it was sent, and of nothing else.
//
// Pure: no DOM, no clock, no words for people. An event that it has is ignored, one of a kind that it does not know is a notice, one that
// comes too early is not taken (`torn_at`), and none makes it raise. What each kind does stands in `fold_*.js`.

import { draftOf, entryOf, itemOf, put, putNotice } from "./draft.js";
import { CYCLE_HANDLERS } from "./fold_cycle.js";
import { RESPONSE_HANDLERS } from "./fold_response.js";
import { REST_HANDLERS, waitsFor } from "./fold_rest.js";
import { changeChild, TOOL_HANDLERS } from "./fold_tools.js";
import { baseItems, stateOfSnapshot } from "./snapshot.js";
import { emptyInner, emptyView } from "./view.js";

export { itemOf, placeOf } from "./draft.js";
export { emptyView } from "./view.js";

/** @typedef {import("./view.js").View} View */
/** @typedef {import("./view.js").Item} Item */
/** @typedef {import("./view.js").WireEvent} WireEvent */
/** @typedef {import("./draft.js").Draft} Draft */
/** @typedef {import("./draft.js").Handler} Handler */

/** How many sessions may stand in one another; what lies deeper is counted by its parent, and not drawn. */
export const MAX_DEPTH = 8;

/** @type {Record<string, Handler>} */
const HANDLERS = {
  ...CYCLE_HANDLERS,
  ...RESPONSE_HANDLERS,
  ...TOOL_HANDLERS,
  ...REST_HANDLERS,
  agent_suspended: (draft, event) => {
    CYCLE_HANDLERS.agent_suspended?.(draft, event);
    waitsFor(draft, event);
  },
  subagent_event: childPublished,
};

/** The kinds that this page knows. */
export const KINDS = Object.freeze([...Object.keys(HANDLERS), "events_lost"]);

/**
 * What a view becomes with an event more.
 * @param {View} view
 * @param {WireEvent} event
 * @returns {View} the same one, where the event changes nothing
 */
export function fold(view, event) {
  return foldAll(view, [event]);
}

/**
 * What a view becomes with several events more, at the price of one copy.
 * @param {View} view
 * @param {readonly WireEvent[]} events in order
 * @returns {View} the same one, where they change nothing
 */
export function foldAll(view, events) {
  const draft = draftOf(view);
  let changed = false;
  for (const event of events) changed = step(draft, event) || changed;
  return changed ? draft.view : view;
}

/**
 * @param {Draft} draft
 * @param {WireEvent} event
 * @returns {boolean} whether it changed something
 */
function step(draft, event) {
  const { view } = draft;
  if (typeof event?.kind !== "string" || !Number.isSafeInteger(event.seq)) return false;
  if (event.kind === "events_lost") return lost(draft, event);
  if (event.ephemeral) {
    // One that belongs in front of what is known is late; one that belongs behind what is missing would be in the wrong place.
    if (event.seq < view.seq || (event.seq > view.seq && !view.inner.is_child)) return false;
    apply(draft, event);
    return true;
  }
  if (event.seq <= view.seq) return false;
  const begins = view.seq === 0 && view.inner.length === 0;
  if (!begins && !view.inner.is_child && event.seq > view.seq + 1) {
    view.torn_at = event.seq;
    return true;
  }
  view.seq = event.seq;
  view.torn_at = null;
  view.first_seq ??= event.seq;
  const kept = keptOf(view, event);
  if (!view.inner.is_child) log(view, kept);
  apply(draft, kept);
  return true;
}

/**
 * @param {Draft} draft
 * @param {WireEvent} event
 */
function apply(draft, event) {
  draft.seq = event.seq;
  draft.at_ms = event.at_ms;
  const handler = entryOf(HANDLERS, event.kind);
  if (handler === undefined) {
    // An ephemeral one is said again by what is committed, and may come two hundred times a second.
    if (!event.ephemeral) putNotice(draft, event, "info", "unknown");
    return;
  }
  try {
    handler(draft, event);
    settle(draft.view);
  } catch {
    // A field that is missing or of another form: an older or a newer server. It is shown raw; the rest goes on.
    putNotice(draft, event, "warn", "unknown");
  }
}

/**
 * Where a prompt waits and nothing is in its way, it is its turn: plugins are asked about it, which no event says.
 * @param {View} view
 */
function settle(view) {
  if (view.phase !== "idle" || view.queued.length === 0 || view.ended !== null) return;
  if (!view.suspended && !view.tearing_down) view.phase = "running";
}

/**
 * An event as it is kept: without the messages of a cycle, which other events have told already, and with what only this reader saw.
 * @param {View} view
 * @param {WireEvent} event
 * @returns {WireEvent}
 */
function keptOf(view, event) {
  if (event.kind === "agent_end") return { ...event, messages: [] };
  const isStop = event.kind === "agent_abort" || event.kind === "session_end";
  return isStop && view.live !== null && view.live.text !== "" && event.cut_text === undefined
    ? { ...event, cut_text: view.live.text }
    : event;
}

/**
 * @param {View} view
 * @param {WireEvent} event
 */
function log(view, event) {
  const { inner } = view;
  // Views that grew out of one another share the list, and each knows how much of it is its own.
  if (inner.log.length !== inner.length) inner.log = inner.log.slice(0, inner.length);
  inner.log.push(event);
  inner.length += 1;
}

/**
 * @param {Draft} draft
 * @param {WireEvent} event
 */
function lost(draft, event) {
  const { view } = draft;
  const gap = { from_seq: event.from_seq, to_seq: event.to_seq };
  if (view.gaps.some((one) => one.to_seq === gap.to_seq)) return false;
  view.gaps = [...view.gaps, gap];
  put(draft, { key: `gap:${gap.to_seq}`, type: "gap", seq: gap.from_seq, at_ms: event.at_ms, cycle: null, ...gap });
  view.seq = Math.max(view.seq, gap.to_seq);
  return true;
}

/**
 * Something that a child published, which a view of its own is made of.
 * @type {Handler}
 */
function childPublished(draft, event) {
  const { view } = draft;
  if (view.inner.depth + 1 >= MAX_DEPTH) return;
  const before = entryOf(view.children, event.child_id)?.view ?? childView(view, event.child_id);
  const after = fold(before, event.event);
  changeChild(view, event.child_id, {
    call_id: event.call_id,
    agent_id: after.agent_id,
    phase: after.ended === null ? after.phase : null,
    view: after,
  });
}

/**
 * @param {View} parent
 * @param {string} childId
 * @returns {View}
 */
function childView(parent, childId) {
  return { ...emptyView(childId), inner: { ...emptyInner(), is_child: true, depth: parent.inner.depth + 1 } };
}

// --- where a view begins

/**
 * A session as its snapshot tells of it; events go on behind `seq`, and pages of what was before go in front by `prepend`.
 * @param {Record<string, any>} snapshot as it came over the wire
 * @returns {View}
 */
export function viewOfSnapshot(snapshot) {
  const view = stateOfSnapshot(snapshot);
  return withBase(view, baseItems(snapshot));
}

/**
 * @param {View} view
 * @param {Item[]} items
 * @returns {View}
 */
function withBase(view, items) {
  return { ...view, items, inner: { ...view.inner, base: items, index: indexOf(items) } };
}

/**
 * How a session stands, told to a view that has its past: behind a gap, or where the state alone is asked for again.
 * @param {View} view
 * @param {Record<string, any>} snapshot
 * @returns {View} the same one, where the snapshot is older than what it knows
 */
export function withSnapshot(view, snapshot) {
  if (snapshot.seq < view.seq) return view;
  const fresh = viewOfSnapshot(snapshot);
  const gap = view.gaps.at(-1);
  if (snapshot.seq === view.seq && gap?.to_seq !== view.seq) {
    const { items, cycles, first_seq, gaps, plan } = view;
    const children = { ...fresh.children, ...view.children };
    const live = fresh.live === null ? null : { ...fresh.live, key: view.inner.answer ?? fresh.live.key };
    return {
      ...fresh,
      items,
      cycles,
      children,
      live,
      first_seq,
      gaps,
      plan,
      inner: { ...view.inner, cut: fresh.inner.cut, is_prepared: fresh.inner.is_prepared },
    };
  }
  // What lies between is not kept: one line says so, and what was in front of it would have a hole that is not seen.
  const from = Math.min(gap?.from_seq ?? view.seq + 1, view.seq + 1);
  const to = Math.max(gap?.to_seq ?? snapshot.seq, view.seq);
  /** @type {Item} */
  const line = { key: `gap:${to}`, type: "gap", seq: from, at_ms: 0, cycle: null, from_seq: from, to_seq: to };
  return {
    ...withBase(fresh, [line, ...fresh.items]),
    gaps: [...view.gaps.filter((one) => one.to_seq !== to), { from_seq: from, to_seq: to }],
  };
}

/**
 * Put a page of older events in front.
 * @param {View} view
 * @param {readonly WireEvent[]} events of the page, in order; those that are here already are left out
 * @param {number | null} keptFirst the first number that the server keeps, where the page tells of it
 * @returns {View}
 */
export function prepend(view, events, keptFirst = null) {
  const before = view.first_seq ?? view.seq + 1;
  const older = events.filter((event) => event.seq < before && !event.ephemeral && event.kind !== "events_lost");
  const kept_first = keptFirst ?? view.kept_first;
  if (older.length === 0) return kept_first === view.kept_first ? view : { ...view, kept_first };
  return again(view, [...older, ...view.inner.log.slice(0, view.inner.length)], kept_first);
}

/**
 * Let go of the oldest events, so that a page that is open for days does not grow; scrolling back fetches them again.
 * @param {View} view
 * @param {number} most how many events may be here
 * @returns {View} the same one, where there are no more
 */
export function trimmed(view, most) {
  if (view.inner.length <= most) return view;
  // A tenth more goes, so that this is not done for each event.
  return again(view, view.inner.log.slice(view.inner.length - Math.floor(most * 0.9), view.inner.length));
}

/**
 * Fold all events anew, and take from that what is drawn as a list. How the session stands now is known better already. Folding anew is
 * what makes a page that came in two parts equal to one that came whole: ten thousand events take some 20 ms.
 * @param {View} view
 * @param {WireEvent[]} events
 * @param {number | null} keptFirst
 * @returns {View}
 */
function again(view, events, keptFirst = view.kept_first) {
  const blank = emptyView(view.session_id);
  const { base, before, cut, depth, is_prepared } = view.inner;
  const anew = foldAll({ ...blank, inner: { ...blank.inner, cut } }, events);
  const front = keptFirst !== null && (anew.first_seq ?? 0) <= keptFirst ? inFront(base, anew.items) : [];
  const items = withSameObjects([...front, ...anew.items], view);
  return {
    ...view,
    items,
    cycles: anew.cycles,
    children: joinedChildren(view.children, anew.children),
    running: joinedCalls(view, anew),
    queued: view.queued.map((one) => anew.queued.find((other) => other.ref === one.ref) ?? one),
    first_seq: anew.first_seq,
    kept_first: keptFirst,
    live: view.live === null ? null : { ...view.live, key: anew.inner.answer ?? view.live.key },
    title: view.title ?? anew.title,
    plan: anew.plan ?? view.plan,
    status_text: anew.status_text,
    ended: anew.ended,
    // Whether the turn is counted already belongs to the turn, which is the view's own.
    inner: { ...anew.inner, index: indexOf(items), before, base, cut, depth, is_prepared },
  };
}

/**
 * The items that a snapshot told of and that no event does: what a session began with, or what stood in front of the first event that is kept.
 * All events from there on are here, so the first item that both know parts the two.
 * @param {Item[]} base
 * @param {Item[]} items
 * @returns {Item[]}
 */
function inFront(base, items) {
  // A compaction has put a summary in the place of what the events told of.
  if (items.some((item) => item.type === "notice" && item.end?.kind === "compact_end")) return [];
  const names = new Set(items.map(nameOf));
  const both = base.findIndex((item) => names.has(nameOf(item)));
  return both < 0 ? base : base.slice(0, both);
}

/**
 * What an item is called by who knows it from a snapshot and by who knows it from events.
 * @param {Item} item
 * @returns {string}
 */
function nameOf(item) {
  if (item.type !== "answer") return item.key;
  // A call's id is its own; words may be said twice, and then the first of them parts the two.
  return `answer ${item.calls.join(" ") || item.text}`;
}

/**
 * @param {Item[]} items
 * @returns {Map<string, number>}
 */
function indexOf(items) {
  return new Map(items.map((item, place) => [item.key, place]));
}

/**
 * The calls that have no result yet, as far as a snapshot or an event told of them.
 * @param {View} view
 * @param {View} anew
 * @returns {View["running"]}
 */
function joinedCalls(view, anew) {
  const open = Object.entries(view.running).filter(([id]) => {
    const item = itemOf(anew, `call:${id}`);
    return item?.type !== "call" || item.call.result === null;
  });
  return { ...Object.fromEntries(open), ...anew.running };
}

/**
 * @param {View["children"]} known
 * @param {View["children"]} anew
 * @returns {View["children"]}
 */
function joinedChildren(known, anew) {
  const joined = { ...anew };
  for (const [id, child] of Object.entries(known)) {
    const other = entryOf(anew, id);
    joined[id] =
      other === undefined
        ? child
        : {
            ...other,
            phase: child.phase ?? other.phase,
            ended: child.ended,
            agent_id: child.agent_id ?? other.agent_id,
          };
  }
  return joined;
}

/**
 * Items that are equal to those that a view had are those.
 * @param {Item[]} anew
 * @param {View} view
 * @returns {Item[]}
 */
function withSameObjects(anew, view) {
  const known = new Map(view.items.map((item) => [item.key, item]));
  return anew.map((item) => {
    const before = known.get(item.key);
    return before !== undefined && isEqual(item, before) ? before : item;
  });
}

/**
 * Whether two values that were made of the same events are equal.
 * @param {any} one
 * @param {any} other
 * @returns {boolean}
 */
function isEqual(one, other) {
  if (one === other) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => isEqual(one[name], other[name]));
}

/**
 * Deltas were left out for this reader, or were not sent while it was away: what streams has a hole until the answer is complete.
 * @param {View} view
 * @returns {View}
 */
export function withLag(view) {
  return view.live === null ? view : { ...view, live: { ...view.live, incomplete: true } };
}

// One open session: its view, kept up to date from the socket, and its history, fetched backwards page by page. It knows no DOM but the
// frame in which it tells; what is drawn is decided by who listens.
//
// Events are folded when they come and told once in a frame: a thousand deltas make one draw. Nothing here is asked of the server that
// `GET /sessions/{id}/events` and a subscription do not answer.

import { emptyView, foldAll, prepend, trimmed, viewOfSnapshot, withSnapshot } from "../pure/fold.js";
import { ApiError } from "./api.js";
import { getEventPage } from "./event_pages.js";

/** @typedef {import("../pure/view.js").View} View */
/** @typedef {import("../pure/view.js").WireEvent} WireEvent */

/**
 * How far a session is known. `absent`: there is none of that name for this caller. `deleted`: there was one while it was open.
 * @typedef {{name: "loading"} | {name: "ready"} | {name: "absent", error: ApiError} | {name: "deleted"} | {name: "failed", error: ApiError}} Known
 */

/**
 * What is in front of the first item. `start`: nothing. `trimmed`: nothing that is kept. `none`: the server gives no pages.
 * @typedef {{name: "more"} | {name: "loading"} | {name: "start"} | {name: "trimmed", first: number} | {name: "none"} | {name: "failed", error: ApiError}} Older
 */

/** Events of one page of history. */
export const PAGE = 200;

/** Events whose items a session keeps: the oldest go first, and are fetched again when a person scrolls there. */
export const KEPT_EVENTS = 50_000;

/**
 * @typedef {object} OpenSessionParts
 * @property {string} sessionId
 * @property {any} connection of `wire/socket.js`
 * @property {import("./api.js").Api} api
 * @property {boolean} hasPages whether the server gives events as pages
 * @property {(draw: () => void) => void} [nextFrame]
 */

export class OpenSession {
  /** @param {OpenSessionParts} parts */
  constructor({ sessionId, connection, api, hasPages, nextFrame = usualFrame }) {
    this.sessionId = sessionId;
    /** @type {View} */
    this.view = emptyView(sessionId);
    /** @type {Known} */
    this.known = { name: "loading" };
    /** @type {Older} */
    this.older = hasPages ? { name: "loading" } : { name: "none" };
    /** @type {Record<string, string>} What tools promise about being run twice; one that is not there is `once`, or not known. */
    this.effects = {};
    /** @type {number} How often something was told: what a component remembers to be drawn again. */
    this.version = 0;
    this._connection = connection;
    this._api = api;
    this._hasPages = hasPages;
    this._nextFrame = nextFrame;
    /** @type {Set<() => void>} */
    this._listeners = new Set();
    this._told = true;
    /** @type {(() => void) | null} */
    this._off = null;
    /** @type {AbortController | null} */
    this._asking = null;
  }

  /**
   * Begins to read, where none reads yet: from the number that is known, or with a snapshot.
   * @param {() => void} listener called at most once in a frame
   * @returns {() => void} ends it; the last one ends the subscription, and what is known stays
   */
  listen(listener) {
    this._listeners.add(listener);
    if (this._off === null) this._subscribe();
    return () => {
      this._listeners.delete(listener);
      if (this._listeners.size === 0) this._rest();
    };
  }

  /** Fetches the page in front of the first item. Does nothing while one is under way, or where there is none. */
  fetchOlder() {
    if (this.older.name === "more" || this.older.name === "failed")
      void this._fetchPage(this.view.first_seq ?? this.view.seq + 1);
  }

  /** Begins anew, after the server refused. */
  tryAgain() {
    this._rest();
    this.known = { name: "loading" };
    this._subscribe();
    this._tell();
  }

  _subscribe() {
    const after = this.view.seq > 0 && this.known.name === "ready" ? this.view.seq : null;
    this._off = this._connection.subscribe(this.sessionId, {
      after,
      onSnapshot: (/** @type {any} */ snapshot) => this._onSnapshot(snapshot),
      onEvents: (/** @type {WireEvent[]} */ events) => this._onEvents(events),
      onGap: (/** @type {{from_seq: number, to_seq: number}} */ gap) => this._onGap(gap),
      onResume: () => void this._refresh(),
      onEnd: (/** @type {{ended: true} | {error: ApiError}} */ reason) => this._onEnd(reason),
    });
  }

  _rest() {
    this._off?.();
    this._off = null;
    this._asking?.abort();
    this._asking = null;
    if (this.older.name === "loading") this.older = this._hasPages ? { name: "more" } : { name: "none" };
  }

  /** @param {any} snapshot */
  _onSnapshot(snapshot) {
    const isFirst = this.view.seq === 0 && this.view.items.length === 0;
    this.view = isFirst ? viewOfSnapshot(snapshot) : withSnapshot(this.view, snapshot);
    this.known = { name: "ready" };
    this.effects = snapshot.effects ?? this.effects;
    this._tell();
    if (isFirst && this._hasPages) void this._fetchPage(snapshot.seq + 1);
    else if (isFirst) this.older = { name: "none" };
  }

  /** Asks how the session stands: deltas that were missed are in no event, and the snapshot has what they said. */
  async _refresh() {
    try {
      const snapshot = await this._api.get(`sessions/${encodeURIComponent(this.sessionId)}`);
      if (this._off === null) return;
      this.effects = snapshot.effects ?? this.effects;
      if (snapshot.seq !== this.view.seq) return; // events that follow say more than it
      this.view = withSnapshot(this.view, snapshot);
      this._tell();
    } catch (error) {
      // It is one of several ways to the same: what is committed comes over the socket in any case.
      if (!(error instanceof ApiError)) throw error;
    }
  }

  /** @param {WireEvent[]} events */
  _onEvents(events) {
    let view = foldAll(this.view, events);
    if (view.torn_at !== null) {
      // The connection has asked again, and the server left the same numbers out: they are not to be had.
      const lost = {
        kind: "events_lost",
        seq: view.seq,
        at_ms: 0,
        ephemeral: true,
        from_seq: view.seq + 1,
        to_seq: view.torn_at - 1,
      };
      view = foldAll({ ...view, torn_at: null }, [lost, ...events]);
    }
    if (view.inner.length > KEPT_EVENTS) {
      view = trimmed(view, KEPT_EVENTS);
      if (this._hasPages) this.older = { name: "more" };
    }
    this.view = view;
    this._tell();
    // Tools that came while the session runs: what they promise is in no event, and until it is known they are taken for `once`.
    if (events.some((event) => event.kind === "tools_updated")) void this._refresh();
  }

  /** @param {{from_seq: number, to_seq: number}} gap */
  _onGap(gap) {
    const lost = { kind: "events_lost", seq: this.view.seq, at_ms: 0, ephemeral: true, ...gap };
    this.view = foldAll(this.view, [lost]);
    this._tell();
  }

  /** @param {{ended: true} | {error: ApiError}} reason */
  _onEnd(reason) {
    this._off = null;
    if ("ended" in reason) {
      if (this.view.ended === null) this.known = { name: "deleted" };
    } else if (GONE.has(reason.error.code)) {
      this.known = this.view.seq > 0 ? { name: "deleted" } : { name: "absent", error: reason.error };
    } else {
      this.known = { name: "failed", error: reason.error };
    }
    this._tell();
  }

  /** @param {number} before */
  async _fetchPage(before) {
    const asking = new AbortController();
    this._asking?.abort();
    this._asking = asking;
    this.older = { name: "loading" };
    this._tell();
    try {
      const page = await getEventPage(this._api, this.sessionId, { before, limit: PAGE }, { signal: asking.signal });
      if (this._asking !== asking) return;
      // A fork goes on with the numbers of its parent, and has no event in front of its own: what it began with the snapshot has.
      const keptFrom = page.more || page.events.length === 0 ? page.kept_from : page.events[0].seq;
      this.view = prepend(this.view, page.events, keptFrom ?? null);
      this.older = olderOf(page, this.view);
    } catch (error) {
      if (asking.signal.aborted) return;
      this.older = refusedOlder(error);
    }
    this._asking = null;
    this._tell();
  }

  _tell() {
    this.version += 1;
    if (!this._told) return;
    this._told = false;
    this._nextFrame(() => {
      this._told = true;
      for (const listener of [...this._listeners]) listener();
    });
  }
}

/** What the server says of a session that is not there, not there for this caller, or that has ended and is kept nowhere: all others are given with their snapshot. */
const GONE = new Set(["session_unknown", "erased", "session_ended"]);

/**
 * @param {{more: boolean, kept_from?: number | null}} page `kept_from`: the first number that the server keeps
 * @param {View} view
 * @returns {Older}
 */
function olderOf(page, view) {
  if (page.more) return { name: "more" };
  const first = page.kept_from ?? view.first_seq ?? 1;
  return first > 1 ? { name: "trimmed", first } : { name: "start" };
}

/**
 * @param {unknown} error
 * @returns {Older}
 */
function refusedOlder(error) {
  if (!(error instanceof ApiError)) throw error;
  if (error.code === "trimmed") return { name: "trimmed", first: error.more.first ?? 0 };
  return { name: "failed", error };
}

/** @param {() => void} draw */
function usualFrame(draw) {
  // A hidden page gets no frames; it is drawn when it is seen again, by the frame that waits for it.
  requestAnimationFrame(draw);
}

/** How many sessions are kept when they are left: a person goes to and fro between few. */
const KEPT_SESSIONS = 3;

/** The sessions that were opened last, by id. */
export class OpenSessions {
  /** @param {(sessionId: string) => OpenSession} make */
  constructor(make) {
    this._make = make;
    /** @type {Map<string, OpenSession>} the one that was opened last is the last */
    this._opened = new Map();
  }

  /**
   * @param {string} sessionId
   * @returns {OpenSession} the one that is kept, or a new one
   */
  open(sessionId) {
    const found = this._opened.get(sessionId) ?? this._make(sessionId);
    this._opened.delete(sessionId);
    this._opened.set(sessionId, found);
    for (const oldest of this._opened.keys()) {
      if (this._opened.size <= KEPT_SESSIONS) break;
      this._opened.delete(oldest);
    }
    return found;
  }

  /** @param {string} sessionId */
  forget(sessionId) {
    this._opened.delete(sessionId);
  }
}

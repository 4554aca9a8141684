// The one socket of a tab: it comes back for ever, reads on from the last number, and repeats what was not answered. Asks nothing of the DOM: clock, timers,
// sockets, chance and visibility are given to it, so node's tests run it. What an event means is not known here; who reads is called for each frame.

import { handshakeMs, reconnectMs, STEADY_MS } from "../pure/back_off.js";
import { mergeRows, rowsOf } from "../pure/rows.js";
import { ApiError } from "./api.js";
import { emptyCounters } from "./counters.js";

export const PROTOCOL = "agentrail.v1";
export const HIDDEN_MS = 60_000;
const HEARTBEAT_S = 15;
const CATCH_UP_MS = 1_000;

/** Behind these codes of a close coming back does not help: 4400 a program that is wrong, 4401 a token. */
const REFUSED_CODES = new Set([4400, 4401]);

/** @typedef {Record<string, any>} WireEvent As of 4.4: `kind`, `seq`, `session_id`, `at_ms`, `ephemeral`, and its own fields. */

/**
 * @typedef {object} ConnectionState
 * @property {"connecting" | "live" | "lost" | "refused"} name
 * @property {number} since_ms When it became so.
 * @property {number | null} next_try_ms When the server is tried again; null unless lost.
 * @property {number | null} as_of_ms When the server was heard of last; null if never.
 * @property {boolean} paused Whether the tab was hidden so long that deltas and watches are dropped.
 * @property {{ code: string, message: string } | null} refused Why it is not tried again.
 */

/**
 * @typedef {object} Reader
 * @property {number | null} [after] The last number that is had; null or left out for a snapshot first.
 * @property {boolean} [deltas] Whether ephemeral events are wanted; they are unless this is false.
 * @property {readonly string[]} [kinds] Which kinds; all unless given.
 * @property {(snapshot: any, seq: number) => void} [onSnapshot]
 * @property {(events: WireEvent[]) => void} onEvents Each committed event once and in order, ephemeral ones between them.
 * @property {(lost: { from_seq: number, to_seq: number }) => void} [onGap] Events are not kept; a snapshot follows.
 * @property {() => void} [onResume] Deltas were missed, since the connection was lost or the tab hidden: `live` of `GET sessions/ID` has what they said.
 * @property {(reason: { ended: true } | { error: ApiError }) => void} [onEnd] Nothing comes any more.
 */

/**
 * @typedef {object} Subscription
 * @property {string} id
 * @property {string} sessionId
 * @property {Reader} reader
 * @property {number | null} after
 * @property {boolean} isAsked Whether this socket was asked for it.
 * @property {boolean} isBegun Whether what comes is of this subscription, and not of the one before it.
 * @property {number | null} holeAt The number in front of a hole that asking again did not fill.
 */

/**
 * @typedef {object} Watch
 * @property {string} id
 * @property {import("../pure/rows.js").WatchName} what
 * @property {Record<string, unknown>} filter
 * @property {{ onRows: (rows: import("../pure/rows.js").Rows, total: number) => void, onRefused?: (error: ApiError) => void }} reader
 * @property {import("../pure/rows.js").Rows} rows
 * @property {boolean} isAsked
 */

/** @typedef {{ id: string, frame: Record<string, unknown>, resolve: (result: any) => void, reject: (error: ApiError) => void }} Pending */

/**
 * @typedef {object} Outside
 * @property {string} url
 * @property {string | null} [token]
 * @property {() => number} [now] Milliseconds since 1970.
 * @property {{ set: (run: () => void, ms: number) => any, clear: (timer: any) => void }} [timers]
 * @property {new (url: string, protocols: string[]) => WebSocket} [WebSocketClass]
 * @property {() => number} [random] From 0 up to 1.
 * @property {() => string} [newId]
 * @property {Record<import("./counters.js").CounterName, number>} [counters]
 */

/** @type {NonNullable<Outside["timers"]>} */
const BROWSER_TIMERS = { set: (run, ms) => setTimeout(run, ms), clear: (timer) => clearTimeout(timer) };

/** A text that no other command has: `crypto.randomUUID` is missing where the page came over plain HTTP from another machine. */
function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((one) => one.toString(16).padStart(2, "0")).join("");
}

export class Connection {
  /** @param {Outside} outside */
  constructor(outside) {
    this.url = outside.url;
    this.token = outside.token ?? null;
    this.counters = outside.counters ?? emptyCounters();
    /** What the server says in `welcome`; null before. @type {Record<string, any> | null} */
    this.welcome = null;
    /** What the server can do: `features` of `console/info`. @type {ReadonlySet<string>} */
    this.features = new Set();
    /** Called with the new `instance` when the server is another process than before. @type {() => void} */
    this.onRestarted = () => {};
    /** Called a second after a return, with how many committed events came in between. @type {(count: number) => void} */
    this.onCaughtUp = () => {};
    /** @type {() => void} */
    this.onUnauthorized = () => {};
    this._now = outside.now ?? (() => Date.now());
    this._timers = outside.timers ?? BROWSER_TIMERS;
    this._WebSocket = outside.WebSocketClass ?? WebSocket;
    this._random = outside.random ?? Math.random;
    this._newId = outside.newId ?? randomId;
    /** @type {ConnectionState} */
    this.state = {
      name: "connecting",
      since_ms: this._now(),
      next_try_ms: null,
      as_of_ms: null,
      paused: false,
      refused: null,
    };
    /** @type {Set<(state: ConnectionState) => void>} */
    this._listeners = new Set();
    /** @type {WebSocket | null} */
    this._socket = null;
    this._isOpen = false;
    this._isStopped = true;
    this._attempt = 0;
    this._tooSlow = 0;
    this._frameNumber = 0;
    this._caughtUp = 0;
    /** @type {Map<string, any>} */
    this._timerOf = new Map();
    /** @type {Map<string, Subscription>} */
    this._subscriptions = new Map();
    /** @type {Map<string, Watch>} */
    this._watches = new Map();
    /** @type {Map<string, Pending>} */
    this._pending = new Map();
  }

  // --- its life

  /** Connects, and comes back until it is stopped or refused. */
  start() {
    this._isStopped = false;
    if (this._socket === null) this._dial();
  }

  /** Ends it; what was not answered is refused. */
  stop() {
    this._isStopped = true;
    this._drop();
    this._refusePending(new ApiError(0, { code: "stopped", message: "" }));
  }

  /**
   * Goes on with another token.
   * @param {string | null} token
   */
  useToken(token) {
    this.token = token;
    if (this._isStopped) return;
    this._attempt = 0;
    this._drop();
    this._dial();
  }

  /** Tries at once, in place of waiting: the browser is online again, the tab is seen again, or a person asks. */
  tryNow() {
    if (this._isStopped || this.state.name !== "lost" || this._socket !== null) return;
    this._clear("retry");
    this._dial();
  }

  /**
   * Says that the tab is hidden or seen. Hidden for a minute it drops deltas and watches; seen again it reads on by number.
   * @param {boolean} isHidden
   */
  setHidden(isHidden) {
    if (isHidden) {
      this._after("hidden", HIDDEN_MS, () => this._pause());
      return;
    }
    this._clear("hidden");
    if (this.state.paused) this._unpause();
    this.tryNow();
  }

  /**
   * @param {(state: ConnectionState) => void} listener
   * @returns {() => void} Ends it.
   */
  onState(listener) {
    this._listeners.add(listener);
    return () => this._listeners.delete(listener);
  }

  // --- what one asks of it

  /**
   * Reads a session until the returned function is called. One at a time of each session.
   * @param {string} sessionId
   * @param {Reader} reader
   * @returns {() => void}
   */
  subscribe(sessionId, reader) {
    const known = this._subscriptions.get(sessionId);
    if (known !== undefined) throw new Error(`session ${sessionId} is read already: end that first`);
    const made = {
      id: this._nextId("s"),
      sessionId,
      reader,
      after: reader.after ?? null,
      isAsked: false,
      isBegun: true,
      holeAt: null,
    };
    this._subscriptions.set(sessionId, made);
    if (this._isOpen) this._askFor(made);
    return () => {
      if (this._subscriptions.get(sessionId) !== made) return;
      this._subscriptions.delete(sessionId);
      if (this._isOpen && made.isAsked)
        this._send({ type: "unsubscribe", id: this._nextId("u"), session_id: sessionId });
    };
  }

  /**
   * Has something done with a session. It is repeated after a reconnect under the same `client_id`, so it is done once.
   * @param {string} name A method of `Session`, such as `prompt`, `steer`, `abort`, `approve`.
   * @param {string | null} sessionId
   * @param {Record<string, unknown>} [fields]
   * @returns {Promise<any>} What it gave. Rejected with an `ApiError` where the server refused it.
   */
  command(name, sessionId, fields = {}) {
    const id = this._nextId("c");
    /** @type {Record<string, unknown>} */
    const frame = { ...fields, type: name, id, client_id: fields.client_id ?? this._newId() };
    if (sessionId !== null) frame.session_id = sessionId;
    return new Promise((resolve, reject) => {
      if (this.state.name === "refused") {
        reject(new ApiError(401, this.state.refused ?? { code: "unauthorized", message: "" }));
        return;
      }
      this._pending.set(id, { id, frame, resolve, reject });
      if (this._isOpen) this._send(frame);
    });
  }

  /**
   * Keeps the rows of a feed until the returned function is called.
   * @param {import("../pure/rows.js").WatchName} what
   * @param {Record<string, unknown>} filter
   * @param {Watch["reader"]} reader
   * @returns {() => void}
   */
  watch(what, filter, reader) {
    const made = { id: this._nextId("w"), what, filter, reader, rows: new Map(), isAsked: false };
    this._watches.set(made.id, made);
    if (this._isOpen) this._askToWatch(made);
    return () => {
      if (!this._watches.delete(made.id)) return;
      if (this._isOpen && made.isAsked) this._send({ type: "unwatch", id: made.id });
    };
  }

  // --- coming and going

  _dial() {
    this._clear("retry");
    let socket;
    try {
      socket = new this._WebSocket(this.url, [PROTOCOL]);
    } catch {
      this._lose(null);
      return;
    }
    this._socket = socket;
    if (this.state.name !== "lost") this._become({ name: "connecting", next_try_ms: null, refused: null });
    else this._become({ name: "lost", next_try_ms: this._now() });
    this._after("handshake", handshakeMs(this._tooSlow), () => {
      this.counters.given_up += 1;
      const tooSlow = this._tooSlow + 1;
      this._lose(null);
      this._tooSlow = tooSlow;
    });
    socket.onopen = () => {
      if (this._socket === socket) this._greet(socket);
    };
    socket.onmessage = (message) => {
      if (this._socket === socket) this._hear(message.data);
    };
    socket.onclose = (close) => {
      if (this._socket === socket) this._lose(close.code, close.reason);
    };
  }

  /** @param {WebSocket} socket */
  _greet(socket) {
    /** @type {Record<string, unknown>} */
    const hello = { type: "hello", heartbeat: HEARTBEAT_S };
    if (this.token) hello.token = this.token;
    if (this.features.has("replay_frames")) hello.replay_frames = true; // an older server refuses a field that it does not know
    socket.send(JSON.stringify(hello));
  }

  /** @param {Record<string, any>} frame */
  _welcomed(frame) {
    this._clear("handshake");
    const before = this.welcome?.instance;
    this.welcome = frame;
    this._isOpen = true;
    const isBack = this.state.name === "lost";
    this._after("steady", STEADY_MS, () => {
      this._attempt = 0;
    });
    this._caughtUp = 0;
    this._become({ name: "live", next_try_ms: null, refused: null });
    for (const one of this._subscriptions.values()) this._askFor(one);
    if (!this.state.paused) for (const one of this._watches.values()) this._askToWatch(one);
    for (const one of this._pending.values()) this._send(one.frame);
    this._beat();
    if (before !== undefined && frame.instance !== before) this.onRestarted();
    if (isBack) this._after("caught up", CATCH_UP_MS, () => this.onCaughtUp(this._caughtUp));
  }

  /** Says from time to time that this tab is there, and notices a server that says nothing any more. */
  _beat() {
    const everyMs = (this.welcome?.heartbeat ?? HEARTBEAT_S) * 1_000;
    this._after("beat", everyMs, () => {
      if (this._now() - (this.state.as_of_ms ?? 0) > 2 * everyMs) {
        this._lose(null);
        return;
      }
      this._send({ type: "ping", n: 0 });
      this._beat();
    });
  }

  /**
   * @param {number | null} code Of the close; null where we gave it up.
   * @param {string} [reason]
   */
  _lose(code, reason = "") {
    const wasOpen = this._isOpen;
    this._tooSlow = 0;
    this._drop();
    if (this._isStopped) return;
    if (code !== null && REFUSED_CODES.has(code)) {
      this._refuse(code === 4401 ? "unauthorized" : "malformed", reason);
      return;
    }
    if (wasOpen) this.counters.reconnects += 1;
    const wait = reconnectMs(this._attempt, this._random());
    this._attempt += 1;
    this._become({ name: "lost", next_try_ms: this._now() + wait });
    this._after("retry", wait, () => this._dial());
  }

  /**
   * @param {string} code
   * @param {string} message
   */
  _refuse(code, message) {
    const refused = { code, message };
    this._become({ name: "refused", next_try_ms: null, refused });
    this._refusePending(new ApiError(code === "unauthorized" ? 401 : 400, refused));
    if (code === "unauthorized") this.onUnauthorized();
  }

  /** @param {ApiError} error */
  _refusePending(error) {
    const all = [...this._pending.values()];
    this._pending.clear();
    for (const one of all) one.reject(error);
  }

  /** Lets the socket go, whatever state it is in. */
  _drop() {
    for (const name of ["retry", "handshake", "beat", "steady", "caught up"]) this._clear(name);
    const socket = this._socket;
    this._socket = null;
    this._isOpen = false;
    for (const one of this._subscriptions.values()) {
      one.isAsked = false;
      one.isBegun = true;
    }
    for (const one of this._watches.values()) one.isAsked = false;
    if (socket === null) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  _pause() {
    this._become({ paused: true });
    if (!this._isOpen) return;
    for (const one of this._watches.values()) {
      if (one.isAsked) this._send({ type: "unwatch", id: one.id });
      one.isAsked = false;
    }
    for (const one of this._subscriptions.values()) this._askAgain(one);
  }

  _unpause() {
    this._become({ paused: false });
    if (!this._isOpen) return;
    for (const one of this._watches.values()) this._askToWatch(one);
    for (const one of this._subscriptions.values()) this._askAgain(one);
  }

  // --- frames out

  /** @param {Subscription} one */
  _askFor(one) {
    /** @type {Record<string, unknown>} */
    const frame = { type: "subscribe", id: one.id, session_id: one.sessionId };
    if (one.after !== null) frame.after = one.after;
    if (one.reader.kinds) frame.kinds = one.reader.kinds;
    if (one.reader.deltas === false || this.state.paused) frame.deltas = false;
    one.isAsked = true;
    this._send(frame);
    if (one.after !== null && !this.state.paused && one.reader.deltas !== false) one.reader.onResume?.();
  }

  /** @param {Subscription} one */
  _askAgain(one) {
    const wasAsked = one.isAsked;
    if (one.isAsked) this._send({ type: "unsubscribe", id: this._nextId("u"), session_id: one.sessionId });
    one.id = this._nextId("s"); // what still comes for the old one is told apart
    one.isBegun = !wasAsked;
    this._askFor(one);
  }

  /** @param {Watch} one */
  _askToWatch(one) {
    if (!this.features.has("watch")) {
      one.reader.onRefused?.(new ApiError(501, { code: "feature_missing", message: "" }));
      return;
    }
    one.isAsked = true;
    this._send({ type: "watch", id: one.id, what: one.what, filter: one.filter });
  }

  /** @param {Record<string, unknown>} frame */
  _send(frame) {
    this._socket?.send(JSON.stringify(frame));
  }

  // --- frames in

  /** @param {unknown} data */
  _hear(data) {
    this.counters.frames += 1;
    this.state.as_of_ms = this._now(); // not told to listeners: it changes with each frame
    let frame;
    try {
      frame = JSON.parse(/** @type {string} */ (data));
    } catch {
      frame = null;
    }
    if (frame === null || typeof frame !== "object" || typeof frame.type !== "string") {
      this.counters.bad_frames += 1;
      return;
    }
    try {
      this._take(frame);
    } catch (error) {
      // Who reads could not take it: that is one frame's, and the socket goes on.
      this.counters.errors += 1;
      console.error(error);
    }
  }

  /** @param {Record<string, any>} frame */
  _take(frame) {
    switch (frame.type) {
      case "welcome":
        this._welcomed(frame);
        return;
      case "event":
        this._takeEvents(frame.event?.session_id, [frame.event]);
        return;
      case "events":
        this._takeEvents(frame.session_id, frame.events);
        return;
      case "subscribed":
        this._subscribed(frame);
        return;
      case "reply":
        this._replied(frame);
        return;
      case "watching":
      case "changed":
        this._changed(frame);
        return;
      case "lag":
        this.counters.lag += frame.dropped ?? 0;
        return;
      case "pong":
      case "closing":
        return; // the code of the close says the same
      default:
        this.counters.unknown_frames += 1;
    }
  }

  /** @param {Record<string, any>} frame */
  _subscribed(frame) {
    const one = this._subscriptions.get(frame.session_id);
    if (one === undefined || one.id !== frame.id) return;
    one.isBegun = true;
    if (frame.snapshot === undefined) return;
    one.after = frame.seq;
    one.reader.onSnapshot?.(frame.snapshot, frame.seq);
  }

  /**
   * @param {string} sessionId
   * @param {WireEvent[]} events
   */
  _takeEvents(sessionId, events) {
    const one = this._subscriptions.get(sessionId);
    if (one === undefined || !Array.isArray(events)) return;
    if (!one.isBegun) return; // still of the subscription before: all of it comes again, in order, behind `subscribed`
    this.counters.events += events.length;
    const fresh = [];
    for (const event of events) {
      if (event.kind === "events_lost") {
        if (fresh.length > 0) one.reader.onEvents(fresh.splice(0));
        one.reader.onGap?.({ from_seq: event.from_seq, to_seq: event.to_seq });
        continue;
      }
      if (event.ephemeral) {
        fresh.push(event);
        continue;
      }
      if (one.after !== null && event.seq <= one.after) {
        this.counters.doubled += 1;
        continue;
      }
      if (this._isBehindHole(one, event)) {
        if (fresh.length > 0) one.reader.onEvents(fresh);
        one.holeAt = one.after;
        this._askAgain(one);
        return;
      }
      one.after = event.seq;
      this._caughtUp += 1;
      fresh.push(event);
    }
    if (fresh.length > 0) one.reader.onEvents(fresh);
  }

  /**
   * Says whether numbers are missing in front of an event; once for each place, since a server that leaves them out twice does so on purpose.
   * @param {Subscription} one
   * @param {WireEvent} event
   */
  _isBehindHole(one, event) {
    return !one.reader.kinds && one.after !== null && event.seq > one.after + 1 && one.holeAt !== one.after;
  }

  /** @param {Record<string, any>} frame */
  _replied(frame) {
    const error = frame.ok ? null : new ApiError(frame.error?.status ?? 0, frame.error ?? {});
    const pending = this._pending.get(frame.id);
    if (pending !== undefined) {
      this._pending.delete(frame.id);
      if (error === null) pending.resolve(frame.result ?? null);
      else pending.reject(error);
      return;
    }
    const watch = this._watches.get(frame.id);
    if (watch !== undefined) {
      if (error === null) return;
      watch.isAsked = false;
      const again = () => {
        if (this._watches.has(watch.id) && !watch.isAsked && !this.state.paused) this._askToWatch(watch);
      };
      this._retryOr(error, `watch ${watch.id}`, again, () => watch.reader.onRefused?.(error));
      return;
    }
    const read = [...this._subscriptions.values()].find((one) => one.id === frame.id);
    if (read === undefined) return; // of an `unsubscribe`, or of one that ended meanwhile
    read.isAsked = false;
    const end = () => {
      this._subscriptions.delete(read.sessionId);
      read.reader.onEnd?.(error === null ? { ended: true } : { error });
    };
    const again = () => {
      // Meanwhile it may have been ended, or asked for anew behind a return.
      if (this._subscriptions.get(read.sessionId) === read && !read.isAsked) this._askFor(read);
    };
    if (error === null) end();
    else this._retryOr(error, `read ${read.id}`, again, end);
  }

  /**
   * Asks again where the server only wants us to wait; else it is over.
   * @param {ApiError} error
   * @param {string} timer
   * @param {() => void} again
   * @param {() => void} over
   */
  _retryOr(error, timer, again, over) {
    const seconds = Number(error.more.retry_after);
    if (!(seconds > 0)) {
      over();
      return;
    }
    this._after(timer, seconds * 1_000, () => {
      if (this._isOpen) again();
    });
  }

  /** @param {Record<string, any>} frame */
  _changed(frame) {
    const one = this._watches.get(frame.id);
    if (one === undefined) return;
    one.rows =
      frame.type === "watching"
        ? rowsOf(one.what, frame.rows ?? [])
        : mergeRows(one.what, one.rows, frame.rows ?? [], frame.gone ?? []);
    one.reader.onRows(one.rows, frame.total ?? one.rows.size);
  }

  // --- small things

  /** @param {Partial<ConnectionState>} changes */
  _become(changes) {
    const isOther = changes.name !== undefined && changes.name !== this.state.name;
    this.state = { ...this.state, ...changes, since_ms: isOther ? this._now() : this.state.since_ms };
    for (const listener of [...this._listeners]) listener(this.state);
  }

  /** @param {string} kind */
  _nextId(kind) {
    this._frameNumber += 1;
    return `${kind}${this._frameNumber}`;
  }

  /**
   * @param {string} name One timer of each name; a second one takes its place.
   * @param {number} ms
   * @param {() => void} run
   */
  _after(name, ms, run) {
    this._clear(name);
    this._timerOf.set(
      name,
      this._timers.set(() => {
        this._timerOf.delete(name);
        run();
      }, ms),
    );
  }

  /** @param {string} name */
  _clear(name) {
    if (!this._timerOf.has(name)) return;
    this._timers.clear(this._timerOf.get(name));
    this._timerOf.delete(name);
  }
}

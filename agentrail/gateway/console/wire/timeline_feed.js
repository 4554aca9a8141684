// The events of a session that its timeline is made of: the last ones first, those in front of them when a person asks for them, and those that came since. It
// asks for pages of committed events, so that what is drawn is the same live, behind a reload, and of a session that sleeps. No drawing enters.

import { TIMELINE_KINDS, Timeline } from "../pure/spans.js";

const EVERY_MS = 250;
const PAGE = 1_000;
/** How many events are kept; beyond that the oldest go, and are asked for again. */
const MAX_EVENTS = 50_000;

/** @typedef {(run: () => void, ms: number) => unknown} Later */

export class TimelineFeed {
  /**
   * @param {{ sessionId: string, api: { get: (path: string, params?: any, options?: any) => Promise<any> }, later?: Later }} given `later` runs something after a while
   */
  constructor({ sessionId, api, later = (run, ms) => setTimeout(run, ms) }) {
    this.sessionId = sessionId;
    this.timeline = new Timeline();
    /** @type {"loading" | "ready" | "failed"} */
    this.state = "loading";
    /** @type {any} */
    this.error = null;
    /** Whether there are events in front of those that are here. */
    this.more = false;
    /** Where these are asked for already. */
    this.isFetching = false;
    this.keptFrom = 1;
    this._api = api;
    this._later = later;
    /** @type {any[]} */
    this._events = [];
    this._first = 0;
    this._last = 0;
    this._wanted = 0;
    this._isWaiting = false;
    this._generation = 0;
    this._abort = new AbortController();
    /** @type {Set<() => void>} */
    this._listeners = new Set();
  }

  /**
   * @param {() => void} listener called whenever there is something else to draw
   * @returns {() => void} off
   */
  listen(listener) {
    this._listeners.add(listener);
    return () => this._listeners.delete(listener);
  }

  /** Begins, or begins anew: where a session went back, numbers that were here do not count any more. */
  async begin() {
    this._generation += 1;
    const generation = this._generation;
    await this._fetch({ limit: PAGE }, generation, (page) => {
      this._events = page.events;
      this._first = page.first;
      this._last = page.last;
      this.more = page.more;
      this._foldAll();
    });
  }

  /** Asks for what stands in front. */
  async earlier() {
    if (!this.more || this.isFetching) return;
    this.isFetching = true;
    this._tell();
    await this._fetch({ before: this._first, limit: PAGE }, this._generation, (page) => {
      this._events = [...page.events, ...this._events].slice(0, MAX_EVENTS);
      this._first = page.first;
      this.more = page.more;
      this._foldAll();
    });
    this.isFetching = false;
    this._tell();
  }

  /**
   * Says that the session has come to a number; what came since is asked for, four times a second at most.
   * @param {number} seq
   */
  reached(seq) {
    this._wanted = Math.max(this._wanted, seq);
    if (this.state !== "ready" || this._isWaiting || this._wanted <= this._last) return;
    this._isWaiting = true;
    this._later(() => void this._catchUp(), EVERY_MS);
  }

  close() {
    this._generation += 1;
    this._abort.abort();
    this._listeners.clear();
  }

  async _catchUp() {
    await this._fetch({ after: this._last, limit: PAGE }, this._generation, (page) => {
      this._last = Math.max(this._last, page.last);
      for (const event of page.events) this.timeline.hear(event);
      this._events = [...this._events, ...page.events];
      if (this._events.length > MAX_EVENTS) this._dropOldest();
    });
    this._isWaiting = false;
    this.reached(this._wanted);
  }

  _dropOldest() {
    this._events = this._events.slice(-Math.floor(MAX_EVENTS / 2));
    this._first = this._events[0]?.seq ?? this._first;
    this.more = true;
    this._foldAll();
  }

  _foldAll() {
    const timeline = new Timeline();
    for (const event of this._events) timeline.hear(event);
    this.timeline = timeline;
  }

  /**
   * @param {Record<string, number>} asked
   * @param {number} generation
   * @param {(page: any) => void} take
   */
  async _fetch(asked, generation, take) {
    const path = `sessions/${encodeURIComponent(this.sessionId)}/events`;
    const params = { format: "json", kinds: TIMELINE_KINDS, ...asked };
    try {
      const page = await this._api.get(path, params, { signal: this._abort.signal });
      if (generation !== this._generation) return;
      take(page);
      this.keptFrom = page.kept_from ?? 1;
      this.state = "ready";
      this.error = null;
    } catch (error) {
      if (generation !== this._generation) return;
      this.error = error;
      if (this.state === "loading") this.state = "failed";
    }
    this._tell();
  }

  _tell() {
    for (const listener of this._listeners) listener();
  }
}

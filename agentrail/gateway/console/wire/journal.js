// The journal of one session as a page reads it: its records in pages, those that were looked for, the events behind them, and where something happened. What is
// asked for is what is looked at: wishes that are out of date are not sent. Knows no DOM; who draws is told that there is more.

import { viewOfSnapshot } from "../pure/fold.js";
import { foldPast, lastOf, MARKED, rangesAt } from "../pure/past.js";
import { ApiError } from "./api.js";
import { getEventPage } from "./event_pages.js";

/** @typedef {import("../pure/past.js").JournalRecord} JournalRecord */
/** @typedef {import("../pure/past.js").Mark} Mark */
/** @typedef {import("../pure/past.js").Rewind} Rewind */
/** @typedef {import("../pure/view.js").View} View */
/** @typedef {import("../pure/view.js").WireEvent} WireEvent */

export const RECORDS_OF_A_PAGE = 200;
export const EVENTS_OF_A_PAGE = 200;
const MARKS_OF_A_PAGE = 1_000;
const NEWEST = Number.MAX_SAFE_INTEGER;
const AT_ONCE = 2;
/** Pages of records, and of events, that are kept: those that were looked at longest ago go first. */
const KEPT_PAGES = 250;

/**
 * How far the journal is known. `trimmed` says nothing here: a journal that begins late is one that begins at `first`.
 * @typedef {{ name: "loading" } | { name: "ready" } | { name: "failed", error: ApiError }} Known
 */

/** @typedef {{ kinds: readonly string[], plugin: string, text: string }} Wanted what is looked for; empty parts are not */

/** A map that forgets what was looked at longest ago. @template K, V */
class Kept {
  /** @param {number} most */
  constructor(most) {
    /** @type {Map<K, V>} */
    this._map = new Map();
    this._most = most;
  }

  /** @param {K} key @returns {V | undefined} */
  get(key) {
    const value = this._map.get(key);
    if (value !== undefined) {
      this._map.delete(key);
      this._map.set(key, value);
    }
    return value;
  }

  /** @param {K} key @param {V} value */
  set(key, value) {
    this._map.delete(key);
    this._map.set(key, value);
    for (const oldest of this._map.keys()) {
      if (this._map.size <= this._most) break;
      this._map.delete(oldest);
    }
  }
}

export class JournalReader {
  /**
   * @param {{ api: import("./api.js").Api, sessionId: string, tell: () => void }} parts
   */
  constructor({ api, sessionId, tell }) {
    this._api = api;
    this.sessionId = sessionId;
    this._tell = tell;
    /** @type {Known} */
    this.known = { name: "loading" };
    this.first = 1;
    this.last = 0;
    /** @type {Mark[]} In order. */
    this.marks = [];
    /** @type {Rewind[]} In order. */
    this.rewinds = [];
    this.hasMarks = false;
    /** @type {Record<string, string>} What aborts left of answers, by the prompt, as far as states that were seen tell it. */
    this.cut = {};
    /** @type {ApiError | null} Why events cannot be had. */
    this.eventsRefused = null;
    /** @type {Kept<number, JournalRecord[]>} By the place of their page. */
    this._pages = new Kept(KEPT_PAGES);
    /** @type {Kept<number, { events: WireEvent[], upTo: number }>} */
    this._chunks = new Kept(KEPT_PAGES);
    /** @type {Map<string, () => Promise<void>>} What is wanted and not asked for yet; the last wishes alone. */
    this._wishes = new Map();
    /** @type {Set<string>} */
    this._asking = new Set();
    this._markedUpTo = 0;
    this._isOver = false;
  }

  /** Begins: how long the journal is, its end, and where something happened in it. */
  async begin() {
    try {
      await this._learn();
      this.known = { name: "ready" };
      this._tell();
      await this._mark();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.known = { name: "failed", error };
    }
    if (!this._isOver) this._tell();
  }

  /** Looks whether there is more by now. */
  async refresh() {
    const before = this.last;
    try {
      await this._learn();
      if (this.last > before) await this._mark();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // what is known stays, and the bar says that the server is away
    }
    if (!this._isOver) this._tell();
  }

  /**
   * Takes note that less is kept than was said when the page was opened.
   * @param {number} first
   */
  keptFrom(first) {
    if (first > this.first) this.first = Math.min(first, this.last);
  }

  /** Asks for nothing any more. */
  end() {
    this._isOver = true;
    this._wishes.clear();
  }

  // --- records

  /**
   * @param {number} number
   * @returns {JournalRecord | undefined} undefined: it is not loaded
   */
  record(number) {
    return this._pages.get(pageOf(number))?.find((one) => one.number === number);
  }

  /**
   * Says which records are looked at, and which events: what was wanted before and is not there yet is not wanted any more.
   * @param {{ records: readonly [number, number], number: number, count: number }} seen the first and last row in sight, the chosen record, how many events
   */
  look({ records: [from, to], number, count }) {
    if (this.known.name !== "ready") return;
    this._wishes.clear();
    this._wantPage(pageOf(number));
    for (let page = pageOf(from); page <= pageOf(to); page += 1) this._wantPage(page);
    const ranges = this._rangesAt(number, count);
    for (const range of ranges ?? []) {
      for (let chunk = chunkOf(range.to); range.from <= range.to && chunk >= chunkOf(range.from); chunk -= 1) {
        this._wantChunk(chunk, Math.min(range.to, (chunk + 1) * EVENTS_OF_A_PAGE));
      }
    }
    this._pump();
  }

  /**
   * What the session said and did up to a record, folded here.
   * @param {number} number
   * @param {number} count how many events from the end on, at least
   * @returns {{ view: View, hasMore: boolean, isHoled: boolean } | null} null: not all of it is loaded; `isHoled`: some of it is not given out, because the
   *   session has gone back since and it does not count any more: only the state has what was said there
   */
  conversation(number, count) {
    const ranges = this._rangesAt(number, count);
    if (ranges === null) return null;
    /** @type {WireEvent[][]} */
    const parts = [];
    let isHoled = false;
    for (const range of ranges) {
      const events = this._eventsOf(range);
      if (events === null) return null;
      isHoled ||= events.length < range.to - range.from + 1;
      parts.push(events);
    }
    const first = ranges[0];
    return {
      isHoled,
      view: foldPast(this.sessionId, parts, this.cut),
      hasMore: first !== undefined && first.from > 1,
    };
  }

  /**
   * Takes what only a state tells of the conversation: what an abort left of an answer is in no event that is kept.
   * @param {Record<string, any>} state
   */
  learn(state) {
    const { cut } = this.conversationOf(state).inner;
    if (Object.keys(cut).some((ref) => this.cut[ref] !== cut[ref])) this.cut = { ...this.cut, ...cut };
  }

  /**
   * The conversation as a state has it, where events cannot be had: of another user's session, or of an older server.
   * @param {Record<string, any>} state
   * @returns {View}
   */
  conversationOf(state) {
    return viewOfSnapshot({ status: { session_id: this.sessionId }, messages: state.messages, before: 0 });
  }

  /** @param {number} number @param {number} count */
  _rangesAt(number, count) {
    const record = this.record(number);
    if (record === undefined || !this.hasMarks) return null;
    return lastOf(rangesAt(number, record.events, this.rewinds), count);
  }

  /** @param {import("../pure/past.js").Range} range */
  _eventsOf(range) {
    /** @type {WireEvent[]} */
    const found = [];
    for (let chunk = chunkOf(range.from); range.from <= range.to && chunk <= chunkOf(range.to); chunk += 1) {
      const known = this._chunks.get(chunk);
      if (known === undefined || known.upTo < Math.min(range.to, (chunk + 1) * EVENTS_OF_A_PAGE)) return null;
      for (const event of known.events) if (event.seq >= range.from && event.seq <= range.to) found.push(event);
    }
    return found;
  }

  // --- what is looked for

  /**
   * Records that are looked for, from the beginning.
   * @param {Wanted} wanted
   * @param {number} after
   * @param {AbortSignal} signal
   * @returns {Promise<{ found: JournalRecord[], next: number | null }>}
   */
  async find(wanted, after, signal) {
    const page = await this._trace(
      {
        after: Math.max(after, this.first - 1),
        limit: RECORDS_OF_A_PAGE,
        kinds: wanted.kinds.length > 0 ? wanted.kinds : null,
        plugin: wanted.plugin || null,
        q: wanted.text || null,
        bodies: false,
      },
      { signal },
    );
    return { found: page.entries, next: page.next };
  }

  // --- asking

  /** @param {import("./api.js").Params} params @param {{ signal?: AbortSignal }} [options] */
  _trace(params, options) {
    return this._api.get(`inspect/sessions/${encodeURIComponent(this.sessionId)}/trace`, params, options);
  }

  async _learn() {
    const page = await this._trace({ before: NEWEST, limit: 1, bodies: false });
    this.first = page.first;
    this.last = page.last;
  }

  async _mark() {
    let after = Math.max(this._markedUpTo, this.first - 1);
    const kinds = Object.keys(MARKED);
    while (!this._isOver) {
      const page = await this._trace({ after, kinds, limit: MARKS_OF_A_PAGE, bodies: false });
      await this._take(page.entries);
      this._markedUpTo = page.next ?? page.last;
      if (page.next === null) break;
      after = page.next;
      this._tell();
    }
    this.hasMarks = true;
  }

  /** @param {JournalRecord[]} entries */
  async _take(entries) {
    const known = this.marks.at(-1)?.number ?? 0;
    const fresh = entries.filter((entry) => entry.number > known && MARKED[entry.kind] !== undefined);
    const rewinds = [];
    for (const entry of fresh.filter((one) => MARKED[one.kind] === "rewind")) {
      const to = (await this._trace({ after: entry.number - 1, limit: 1 })).entries[0]?.body?.number;
      if (typeof to !== "number") continue;
      const target =
        to < this.first ? undefined : (await this._trace({ after: to - 1, limit: 1, bodies: false })).entries[0];
      rewinds.push({ number: entry.number, events: entry.events, to, toEvents: target?.events ?? 0 });
    }
    this.rewinds = [...this.rewinds, ...rewinds];
    this.marks = [
      ...this.marks,
      ...fresh.map(({ number, kind }) => ({ number, kind: /** @type {Mark["kind"]} */ (MARKED[kind]) })),
    ];
  }

  /** @param {number} page */
  _wantPage(page) {
    const from = page * RECORDS_OF_A_PAGE + 1;
    const to = Math.min(this.last, (page + 1) * RECORDS_OF_A_PAGE);
    const known = this._pages.get(page);
    if (to < this.first || from > this.last || (known !== undefined && (known.at(-1)?.number ?? 0) >= to)) return;
    this._wishes.set(`records ${page}`, async () => {
      const after = Math.max(from, this.first) - 1;
      const found = await this._trace({ after, limit: to - after, bodies: false });
      this._pages.set(page, found.entries);
    });
  }

  /** @param {number} chunk @param {number} upTo */
  _wantChunk(chunk, upTo) {
    const known = this._chunks.get(chunk);
    if (this.eventsRefused !== null || (known !== undefined && known.upTo >= upTo)) return;
    this._wishes.set(`events ${chunk}`, () => this._fetchChunk(chunk, upTo));
  }

  /** @param {number} chunk @param {number} upTo */
  async _fetchChunk(chunk, upTo) {
    const end = (chunk + 1) * EVENTS_OF_A_PAGE;
    /** @type {WireEvent[]} */
    const events = [];
    let after = chunk * EVENTS_OF_A_PAGE;
    while (after < end) {
      const page = await getEventPage(this._api, this.sessionId, { after, limit: end - after });
      events.push(...page.events.filter((/** @type {WireEvent} */ event) => event.seq <= end));
      const last = page.events.at(-1)?.seq ?? end;
      if (!page.more || last <= after) break;
      after = last;
    }
    this._chunks.set(chunk, { events, upTo: Math.max(upTo, events.at(-1)?.seq ?? 0) });
  }

  _pump() {
    for (const [name, wish] of this._wishes) {
      if (this._asking.size >= AT_ONCE || this._isOver) return;
      if (this._asking.has(name)) continue;
      this._wishes.delete(name);
      this._asking.add(name);
      wish()
        .catch((error) => {
          if (!(error instanceof ApiError)) throw error;
          if (name.startsWith("events")) this.eventsRefused = error;
          else if (typeof error.more.first === "number") this.keptFrom(error.more.first);
          else this.known = { name: "failed", error };
        })
        .finally(() => {
          this._asking.delete(name);
          if (this._isOver) return;
          this._tell();
          this._pump();
        });
    }
  }
}

/** @param {number} number of a record */
function pageOf(number) {
  return Math.floor((Math.max(number, 1) - 1) / RECORDS_OF_A_PAGE);
}

/** @param {number} seq of an event */
function chunkOf(seq) {
  return Math.floor((Math.max(seq, 1) - 1) / EVENTS_OF_A_PAGE);
}

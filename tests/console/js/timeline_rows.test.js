/** Rows of a timeline: sums, scales with idle stretches folded, and which item a span selects; and the feed that its events come from. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { timelineOf } from "../../../agentrail/gateway/console/pure/spans.js";
import {
  barOf,
  endOf,
  IDLE_PX,
  itemOf,
  lengthOf,
  placeOf,
  scaleOf,
  timelineRows,
} from "../../../agentrail/gateway/console/pure/timeline_rows.js";
import { TimelineFeed } from "../../../agentrail/gateway/console/wire/timeline_feed.js";
import { event } from "./events.js";

const usage = { input: 10, output: 5, cache_read: 0, cache_write: 0, reasoning: 0, cost_usd: 0.25, estimated: false };
const error = { code: "overloaded", message: "m" };

/** @param {[string, number, Record<string, any>?][]} told kind, time, fields */
function spansOf(told) {
  return timelineOf(told.map(([kind, at_ms, fields], place) => event(kind, { seq: place + 1, at_ms, ...fields })));
}

const LIFE = spansOf([
  ["agent_start", 0, { ref: "p" }],
  ["request_start", 0, { model: "m", attempt: 1 }],
  ["retry", 1_000, { delay_ms: 4_000, error }],
  ["request_start", 5_000, { model: "m", attempt: 2 }],
  ["response_complete", 6_000, { usage, stop_reason: "tool_use" }],
  ["tool_execution_start", 6_000, { name: "shell", call_id: "c" }],
  ["tool_execution_end", 7_000, { call_id: "c", result: {} }],
  ["request_start", 67_000, { model: "m", attempt: 1 }],
  ["response_complete", 68_000, { usage: { ...usage, cost_usd: null }, stop_reason: "end" }],
  ["agent_end", 68_000, { usage, stop_reason: "end" }],
]);

test("attempts share a row, and what is below is added up once", () => {
  const rows = timelineRows(LIFE, 0);
  assert.deepEqual(
    rows.map((row) => [row.key, row.attempts.length]),
    [
      ["cycle:1", 1],
      ["request:2", 2],
      ["call:6", 1],
      ["request:8", 1],
    ],
  );
  assert.deepEqual(rows[0]?.sum, { tokens_in: 20, tokens_out: 10, cost_usd: null }, "one price is not known");
  assert.deepEqual(rows[0]?.own, { tokens_in: 0, tokens_out: 0, cost_usd: 0 });
  assert.deepEqual(rows[1]?.sum, { tokens_in: 10, tokens_out: 5, cost_usd: 0.25 });
  assert.equal(rows[1]?.last.outcome, "done");
});

test("stretches above two seconds in which nothing works are folded, and no others", () => {
  const scale = scaleOf(LIFE, 0);
  assert.deepEqual(scale.idle, [
    { from_ms: 1_000, to_ms: 5_000 },
    { from_ms: 7_000, to_ms: 67_000 },
  ]);
  assert.deepEqual([scale.busy_ms, scale.idlePx], [4_000, IDLE_PX]);
  assert.deepEqual(placeOf(scale, 0), { share: 0, idle: 0 });
  assert.deepEqual(placeOf(scale, 30_000), { share: 0.75, idle: 1 }, "within a folded stretch, at its beginning");
  assert.deepEqual(placeOf(scale, 68_000), { share: 1, idle: 2 });
  assert.equal(lengthOf(scale, 1, 2), "calc(100% + 0px)");
  assert.equal(lengthOf(scale, 0.5, 1), "calc(50% + 0px)");
  assert.equal(lengthOf(scaleOf(LIFE.slice(1, 2), 0), 0.25, 0), "25%");
  assert.deepEqual(
    scaleOf(
      spansOf([
        ["request_start", 0, { model: "m" }],
        ["response_complete", 2_000, { usage }],
      ]),
      0,
    ).idle,
    [],
  );
});

test("places grow with time, and a bar ends where the next moment begins", () => {
  const scale = scaleOf(LIFE, 0);
  let last = -1;
  for (let at = 0; at <= 68_000; at += 250) {
    const { share, idle } = placeOf(scale, at);
    const px = share * (1_000 - 2 * IDLE_PX) + idle * IDLE_PX;
    assert.ok(px >= last, `at ${at}`);
    last = px;
  }
  const many = spansOf(Array.from({ length: 50 }, (_, place) => ["request_start", place * 10_000, { model: "m" }]));
  assert.ok(scaleOf(many, 500_000).idlePx <= IDLE_PX);
  const bar = barOf(scale, /** @type {any} */ (LIFE.find((span) => span.key === "call:6")), 0);
  assert.deepEqual([bar.from, bar.to, bar.idleBefore, bar.idleWithin], [0.5, 0.75, 1, 0]);
  const open = /** @type {any} */ ({ from_ms: 10, to_ms: null });
  assert.deepEqual([endOf(open, 30), endOf(open, 0)], [30, 10], "the clock of the server may be in front of ours");
});

test("a span selects its call, its prompt, the call that its agent works for, or what stands in front", () => {
  const items = [
    { key: "prompt:p", type: "prompt", seq: 1, ref: "p" },
    { key: "answer:5", type: "answer", seq: 2 },
    { key: "call:c", type: "call", seq: 6 },
  ];
  const byKey = new Map(LIFE.map((span) => [span.key, span]));
  const found = LIFE.map((span) => itemOf(span, (key) => byKey.get(key), items));
  assert.deepEqual(found, ["prompt:p", "answer:5", "answer:5", "call:c", "call:c"]);
  assert.equal(
    itemOf(/** @type {any} */ (LIFE[0]), () => undefined, []),
    null,
  );
  const child = /** @type {any} */ ({
    key: "child:9",
    parent: "call:6",
    kind: "child",
    attributes: { call_id: "c" },
    seq: 9,
  });
  const below = /** @type {any} */ ({
    key: "call:10",
    parent: "child:9",
    kind: "call",
    attributes: { call_id: "z" },
    seq: 10,
  });
  assert.equal(
    itemOf(below, (key) => (key === "child:9" ? child : byKey.get(key)), items),
    "call:c",
  );
});

// --- the feed

/** A session of 2,500 events, in pages. @param {{ asked: any[], last: number }} state */
function apiOf(state) {
  return {
    /** @param {string} _path @param {any} params */
    get: async (_path, params) => {
      state.asked.push(params);
      const after = params.after ?? 0;
      const before = params.before ?? state.last + 1;
      const all = [];
      for (let seq = after + 1; seq < before; seq += 1)
        all.push(event("request_start", { seq, at_ms: seq, model: "m", attempt: 1 }));
      const isForth = params.after !== undefined;
      const events = isForth ? all.slice(0, params.limit) : all.slice(-params.limit);
      const first = isForth ? after + 1 : (events[0]?.seq ?? before);
      return {
        events,
        first,
        last: isForth ? (events.at(-1)?.seq ?? after) : before - 1,
        more: events.length < all.length,
        kept_from: 1,
      };
    },
  };
}

test("the feed begins at the end, goes back when it is asked, and takes what came since, in one page at a time", async () => {
  const state = { asked: /** @type {any[]} */ ([]), last: 2_500 };
  /** @type {(() => void)[]} */
  const later = [];
  const feed = new TimelineFeed({ sessionId: "a b", api: apiOf(state), later: (run) => later.push(run) });
  await feed.begin();
  assert.deepEqual([feed.state, feed.more, feed.timeline.spans.length], ["ready", true, 1_000]);
  await Promise.all([feed.earlier(), feed.earlier()]);
  assert.equal(feed.timeline.spans.length, 2_000);
  await feed.earlier();
  assert.deepEqual([feed.more, feed.timeline.spans.length, feed.timeline.spans[0]?.seq], [false, 2_500, 1]);
  state.last = 4_000;
  for (let seq = 2_501; seq <= 4_000; seq += 1) feed.reached(seq);
  assert.equal(later.length, 1, "however often it is said");
  while (later.length > 0) {
    later.shift()?.();
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
  assert.equal(feed.timeline.spans.length, 4_000);
  assert.deepEqual(
    state.asked.map((one) => one.before ?? one.after ?? null),
    [null, 1_501, 501, 2_500, 3_500],
  );
});

test("a feed that cannot be read says so, keeps what it has, and a feed that is closed tells no one", async () => {
  let isDown = true;
  const api = {
    get: async () =>
      isDown ? Promise.reject(new Error("down")) : { events: [], first: 1, last: 0, more: false, kept_from: 40 },
  };
  const feed = new TimelineFeed({ sessionId: "s", api });
  let told = 0;
  feed.listen(() => (told += 1));
  await feed.begin();
  assert.deepEqual([feed.state, feed.error.message, told], ["failed", "down", 1]);
  isDown = false;
  await feed.begin();
  assert.deepEqual([feed.state, feed.error, feed.keptFrom], ["ready", null, 40]);
  isDown = true;
  await feed.begin();
  assert.deepEqual([feed.state, feed.error.message], ["ready", "down"]);
  feed.close();
  const before = told;
  await feed.begin();
  assert.equal(told, before);
});

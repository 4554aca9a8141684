// C-027: at every record of a journal the conversation that is folded here equals what `state_at` says, and what the slider does. The journals come from
// tests/console/test_fold.py, which says where they are.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { viewOfSnapshot } from "../../../agentrail/gateway/console/pure/fold.js";
import {
  classOf,
  foldPast,
  lastOf,
  nextCycle,
  numberAfterKey,
  rangesAt,
  ticksOf,
  valueAt,
} from "../../../agentrail/gateway/console/pure/past.js";
import { wrongWords } from "./fold_cases.js";

const file = process.env.CONSOLE_PAST_CASES;
const skip = file === undefined ? "tests/console/test_fold.py gives it its journals" : false;
/** @type {any[]} */
const cases =
  file === undefined
    ? []
    : readFileSync(file, "utf8")
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));

/** @param {any} one */
function rewindsOf(one) {
  return one.records
    .filter((/** @type {any} */ record) => record.kind === "rewound")
    .map((/** @type {any} */ record) => ({
      number: record.number,
      events: record.events,
      to: record.body.number,
      toEvents: one.records[record.body.number - 1].events,
    }));
}

/**
 * @param {any} one
 * @param {number} number
 * @param {number} count
 */
function conversationAt(one, number, count) {
  const { cut } = viewOfSnapshot({ messages: one.messages[number - 1], before: 0, status: {} }).inner;
  const ranges = lastOf(rangesAt(number, one.records[number - 1].events, rewindsOf(one)), count);
  const parts = ranges.map((range) =>
    one.events.filter((/** @type {any} */ event) => event.seq >= range.from && event.seq <= range.to),
  );
  return foldPast("s", parts, cut);
}

test("at every record of each journal the conversation is that of its state", { skip }, () => {
  assert.ok(cases.length >= 4);
  const faults = [];
  let looked = 0;
  for (const one of cases) {
    for (const [place, messages] of one.messages.entries()) {
      const view = conversationAt(one, place + 1, 100_000);
      assert.equal(view.torn_at, null);
      const wrong = wrongWords(view, { messages, before: 0, status: {} });
      faults.push(...wrong.map((/** @type {string} */ fault) => `${one.name} ${place + 1}: ${fault}`));
      looked += messages.length;
    }
  }
  assert.deepEqual(faults, []);
  assert.ok(looked > 200, `only ${looked} messages`);
});

test("the last events alone give the end of the same conversation", { skip }, () => {
  for (const one of cases) {
    const last = one.records.length;
    const whole = conversationAt(one, last, 100_000).items.map((item) => item.key);
    for (const count of [1, 3, 10]) {
      const some = conversationAt(one, last, count).items.filter((item) => item.type === "prompt");
      for (const item of some) assert.ok(whole.includes(item.key), `${one.name} ${count} ${item.key}`);
    }
  }
});

test("what does not count any more is left out, however often a session goes back", () => {
  const rewinds = [
    { number: 10, events: 20, to: 4, toEvents: 8 },
    { number: 15, events: 30, to: 12, toEvents: 24 },
    { number: 20, events: 40, to: 2, toEvents: 3 },
  ];
  assert.deepEqual(rangesAt(9, 19, rewinds), [{ from: 1, to: 19 }]);
  assert.deepEqual(rangesAt(12, 24, rewinds), [
    { from: 1, to: 8 },
    { from: 21, to: 24 },
  ]);
  assert.deepEqual(rangesAt(17, 35, rewinds), [
    { from: 1, to: 8 },
    { from: 21, to: 24 },
    { from: 31, to: 35 },
  ]);
  assert.deepEqual(rangesAt(22, 44, rewinds), [
    { from: 1, to: 3 },
    { from: 41, to: 44 },
  ]);
  // Behind the very record that goes back there is nothing yet, and all that was open is over.
  assert.deepEqual(rangesAt(10, 20, rewinds), [
    { from: 1, to: 8 },
    { from: 21, to: 20 },
  ]);
  assert.deepEqual(lastOf(rangesAt(17, 35, rewinds), 7), [
    { from: 23, to: 24 },
    { from: 31, to: 35 },
  ]);
});

test("marks that fall together are one, and the weightiest is seen", () => {
  /** @type {any} */
  const marks = [
    { number: 1, kind: "cycle" },
    { number: 505, kind: "cycle" },
    { number: 506, kind: "rewind" },
    { number: 507, kind: "abort" },
    { number: 1_000, kind: "restart" },
  ];
  const ticks = ticksOf(marks, 1, 1_000, 50);
  assert.deepEqual(
    ticks.map((tick) => [tick.number, tick.kind, tick.count]),
    [
      [1, "cycle", 1],
      [506, "rewind", 3],
      [1_000, "restart", 1],
    ],
  );
  const many = Array.from({ length: 20_000 }, (_, place) => ({
    number: place + 1,
    kind: /** @type {const} */ ("cycle"),
  }));
  assert.ok(ticksOf(many, 1, 20_000, 240).length <= 240);
  assert.equal(ticksOf(marks, 600, 700, 50).length, 0);
});

test("the slider's keys", () => {
  /** @type {any} */
  const marks = [
    { number: 3, kind: "cycle" },
    { number: 9, kind: "abort" },
    { number: 20, kind: "cycle" },
  ];
  const after = (/** @type {string} */ key, /** @type {number} */ from, shiftKey = false) =>
    numberAfterKey({ key, shiftKey }, from, 2, 40, marks);
  assert.deepEqual(
    [after("ArrowLeft", 2), after("ArrowRight", 2), after("ArrowRight", 2, true), after("ArrowLeft", 8, true)],
    [2, 3, 12, 2],
  );
  assert.deepEqual(
    [after("PageDown", 3), after("PageDown", 20), after("PageUp", 20), after("PageUp", 3)],
    [20, 40, 3, 2],
  );
  assert.deepEqual([after("Home", 9), after("End", 9), after("x", 9)], [2, 40, null]);
  assert.equal(nextCycle(marks, 9, 1), 20);
  assert.equal(nextCycle(marks, 3, -1), null);
});

test("pointers and names", () => {
  const document = { "a/b": [{ "m~n": 1 }], toString: 2 };
  assert.equal(valueAt(document, "/a~1b/0/m~0n"), 1);
  assert.equal(valueAt(document, ""), document);
  assert.equal(valueAt(document, "/constructor"), undefined);
  assert.equal(valueAt(document, "/a~1b/7/x"), undefined);
  assert.equal(classOf("tool_finished"), "ToolFinished");
});

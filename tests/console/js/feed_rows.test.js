// The rows of a conversation: groups of a hundred calls, ends of cycles, and where a search finds something.

import assert from "node:assert/strict";
import { test } from "node:test";
import { newCycle } from "../../../agentrail/gateway/console/pure/draft.js";
import {
  cycleRow,
  find,
  rowKeyOf,
  rowsOf,
  waitingRow,
  wordsOf,
} from "../../../agentrail/gateway/console/pure/feed_rows.js";
import { newCall } from "../../../agentrail/gateway/console/pure/view.js";
import { computingMs } from "./computing.js";

const NONE = new Map();

/** @param {number} number @param {string} [state] @returns {any} */
const call = (number, state = "done") => ({
  key: `call:${number}`,
  type: "call",
  seq: number,
  at_ms: 0,
  cycle: "cycle:1",
  call: { ...newCall(`${number}`, "read"), state },
});
/** @param {number} number @param {string} [cycle] @returns {any} */
const prompt = (number, cycle = "cycle:1") => ({
  key: `prompt:${number}`,
  type: "prompt",
  origin: "prompt",
  seq: number,
  at_ms: 0,
  cycle,
  content: [{ kind: "text", text: `words ${number}` }],
});
const many = (/** @type {number} */ count) => Array.from({ length: count }, (_, index) => call(index + 1));
const keys = (/** @type {readonly {key: string}[]} */ rows) => rows.map((row) => row.key);

test("ten thousand calls are a hundred groups, of which the last is open", () => {
  const rows = rowsOf(many(10_000), [], NONE);
  const groups = rows.filter((row) => row.kind === "group");
  assert.equal(groups.length, 100);
  assert.deepEqual([groups[1]?.first, groups[1]?.last], [101, 200]);
  assert.equal(rows.length, 200);
  assert.equal(rows.at(-1)?.key, "call:10000");
});

test("a hundred calls are no group, and words between calls end a stretch", () => {
  assert.equal(rowsOf(many(100), [], NONE).length, 100);
  const items = [...many(100), prompt(500), ...many(100).map((one) => ({ ...one, key: `${one.key}b` }))];
  assert.equal(rowsOf(items, [], NONE).filter((row) => row.kind === "group").length, 0);
});

test("a group that holds what runs or waits stands open, says what failed, and a person's choice counts more", () => {
  const items = many(300);
  items[20] = call(21, "running");
  items[30] = call(31, "failed");
  const rows = rowsOf(items, [], NONE);
  const group = rows.find((row) => row.kind === "group");
  assert.equal(group?.kind === "group" && group.opened, true);
  assert.deepEqual(group?.kind === "group" && [group.active, group.failed], [1, 1]);
  const closed = rowsOf(items, [], new Map([["group:call:1", false]]));
  assert.equal(closed[1]?.key, "group:call:101");
});

test("the end of a cycle stands behind its last item, once, also where that is in a closed group", () => {
  const cycle = { ...newCycle("cycle:1"), outcome: /** @type {const} */ ("end") };
  const open = { ...newCycle("cycle:2") };
  const items = [prompt(1), call(2), prompt(3, "cycle:2")];
  assert.deepEqual(keys(rowsOf(items, [cycle, open], NONE)), ["prompt:1", "call:2", "end:cycle:1", "prompt:3"]);
  const groups = rowsOf(many(200), [cycle], new Map([["group:call:101", false]]));
  assert.deepEqual(keys(groups), ["group:call:1", "group:call:101", "end:cycle:1"]);
});

test("a call in a closed group is shown by its group", () => {
  const items = many(250).map((one) => ({ ...one, seq: 5 })); // the calls of one answer have its number
  const rows = rowsOf(items, [], NONE);
  assert.equal(rowKeyOf(rows, items, 120), "group:call:101");
  assert.equal(rowKeyOf(rows, items, 240), "call:241");
});

test("cycles are found in both directions, and so is what waits", () => {
  const open = { key: "approval:1", type: "decision", state: "open", seq: 4, at_ms: 0, cycle: null };
  const rows = rowsOf(/** @type {any} */ ([prompt(1), call(2), prompt(3, "cycle:2"), open]), [], NONE);
  assert.equal(cycleRow(rows, -1, 1), 0);
  assert.equal(cycleRow(rows, 0, 1), 2);
  assert.equal(cycleRow(rows, 2, 1), -1);
  assert.equal(cycleRow(rows, 3, -1), 2);
  assert.equal(waitingRow(rows), 3);
});

test("a search looks at all items, in their words, arguments and results", () => {
  const found = { ...call(2), call: { ...call(2).call, arguments: { path: "src/Needle.py" }, result: { text: "no" } } };
  const items = [prompt(1), found, prompt(3)];
  assert.deepEqual(find(items, " needle ", wordsOf), [1]);
  assert.deepEqual(find(items, "WORDS", wordsOf), [0, 2]);
  assert.deepEqual(find(items, "   ", wordsOf), []);
});

test("words are found as they are drawn: without signs of Markdown, over line ends, and in values without escapes", () => {
  const answer = {
    key: "answer:1",
    type: "answer",
    text: "See **the _bold_ word**\nin `code` of [a page](https://e.x/y).",
    thinking: "",
  };
  const asks = {
    ...call(2),
    call: {
      ...call(2).call,
      arguments: { text: 'He said "no"\nand left', deep: [{ more: "C:\\temp" }] },
      result: { text: "" },
    },
  };
  const items = /** @type {any} */ ([answer, asks]);
  for (const sought of ["the bold word in code", "of a page.", "**the _bold", "word**", "https://e.x/y"])
    assert.deepEqual(find(items, sought, wordsOf), [0], sought);
  for (const sought of ['said "no"', 'no" and left', "c:\\temp"])
    assert.deepEqual(find(items, sought, wordsOf), [1], sought);
  assert.deepEqual(find(items, "**", wordsOf), [0]);
  assert.deepEqual(find(items, "bolder", wordsOf), []);
});

test("a value of many thousands is searched as far as a page can bear", () => {
  const wide = {
    ...call(2),
    call: { ...call(2).call, arguments: { list: Array.from({ length: 200_000 }, () => ["x"]) } },
  };
  /** @type {any} */
  let deep = "needle";
  for (let level = 0; level < 5_000; level += 1) deep = [deep];
  const low = { ...call(3), call: { ...call(3).call, arguments: { deep } } };
  assert.deepEqual(find(/** @type {any} */ ([wide, low]), "needle", wordsOf), [1]);
});

test("fifty thousand items are rows in no time that grows with their square", () => {
  const items = Array.from({ length: 50_000 }, (_, index) => (index % 3 === 0 ? prompt(index) : call(index)));
  rowsOf(items, [], NONE);
  const took = computingMs(() => rowsOf(items, [], NONE));
  assert.ok(took < 1_000, `it took ${took} ms`);
});

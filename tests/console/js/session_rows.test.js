/** Rows of the list of sessions: which group, which order, and that a filter survives its address. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { hrefOf, placeOf } from "../../../agentrail/gateway/console/pure/route.js";
import { mergeRows, rowsOf } from "../../../agentrail/gateway/console/pure/rows.js";
import {
  askedOf,
  filterOf,
  groupOf,
  inOrder,
  isFiltered,
  listOf,
  OUTCOMES,
  PHASES,
  paramsOf,
  phaseOfRow,
  rowsOfItems,
  SORTS,
} from "../../../agentrail/gateway/console/pure/session_rows.js";
import { computingMs } from "./computing.js";
import { randomOf } from "./random.js";

/** @param {Record<string, any>} more */
function row(more) {
  return {
    session_id: "s",
    title: null,
    first_words: null,
    agent_id: "desk",
    phase: "idle",
    suspended: false,
    tearing_down: false,
    tool: null,
    running: 0,
    waiting: { approvals: 0, questions: 0 },
    queued: 0,
    tokens: 0,
    cost_usd: 0,
    created_at_ms: 1,
    changed_at_ms: 1,
    outcome: null,
    ended: false,
    user: "ann",
    ...more,
  };
}

/** @param {string} text */
const search = (text) => filterOf({ q: text });
const NONE = new Set();

test("a session stands in the group of what it is at", () => {
  const cases = /** @type {[Record<string, any>, string, string][]} */ ([
    [{ phase: "idle" }, "idle", "idle"],
    [{ phase: "asleep" }, "idle", "asleep"],
    [{ phase: "running" }, "working", "running"],
    [{ phase: "executing_tools", running: 2 }, "working", "executing_tools"],
    [{ phase: "idle", suspended: true }, "working", "waiting"],
    [{ phase: "idle", tearing_down: true }, "working", "stopping"],
    [{ phase: "idle", running: 1 }, "working", "idle"],
    [{ phase: "ended", ended: true }, "ended", "ended"],
    [{ phase: "something_new" }, "idle", "something_new"],
  ]);
  for (const [more, group, phase] of cases) {
    assert.equal(groupOf(row(more)), group, JSON.stringify(more));
    assert.equal(phaseOfRow(row(more)), phase, JSON.stringify(more));
  }
});

test("what waits comes first and the oldest on top, then what works, what rests and what has ended, each counted", () => {
  const sessions = rowsOf("sessions", [
    row({ session_id: "old", phase: "ended", ended: true }),
    row({ session_id: "a", changed_at_ms: 5 }),
    row({ session_id: "b", changed_at_ms: 9 }),
    row({ session_id: "w", phase: "running" }),
  ]);
  const waiting = rowsOf("waiting", [
    { key: "2", session_id: "b", at_ms: 20, kind: "question", summary: "Which?" },
    { key: "1", session_id: "a", at_ms: 10, kind: "approval", tool: "shell", summary: "ls" },
  ]);
  const { items, counts } = listOf(sessions, waiting, filterOf({}), new Set(["ended"]));
  assert.deepEqual(
    items.map((one) => one.key),
    [
      "group waiting",
      "waiting 1",
      "waiting 2",
      "group working",
      "session w",
      "group idle",
      "session b",
      "session a",
      "group ended",
    ],
  );
  assert.deepEqual(counts, { waiting: 2, working: 1, idle: 2, ended: 1 });
  assert.deepEqual(listOf(new Map(), new Map(), filterOf({}), NONE).items, []);
});

test("a search looks at title, words, id, profile and user, whatever the case", () => {
  const sessions = rowsOf("sessions", [
    row({ session_id: "x-1", title: "Refund 4411" }),
    row({ session_id: "x-2", first_words: "please REFUND it" }),
    row({ session_id: "refund-3" }),
    row({ session_id: "x-4", agent_id: "refunds" }),
    row({ session_id: "x-5", user: "refunder" }),
    row({ session_id: "x-6", title: "Import" }),
  ]);
  assert.equal(listOf(sessions, new Map(), search("Refund"), NONE).counts.idle, 5);
  assert.equal(listOf(sessions, new Map(), search("zzz"), NONE).items.length, 0);
  assert.equal(listOf(sessions, new Map(), filterOf({ profile: "refunds" }), NONE).counts.idle, 1);
});

test("a filter comes back out of its address, and what cannot be is left out", () => {
  const random = randomOf(3);
  for (let turn = 0; turn < 200; turn += 1) {
    const pick = (/** @type {readonly string[]} */ all) => all[random(all.length + 1)] ?? "";
    const filter = {
      q: ["", "a b&c=d#?%", "🚀", "ملف"][random(4)] ?? "",
      phase: pick(PHASES),
      profile: ["", "desk", "a@b:c"][random(3)] ?? "",
      outcome: pick(OUTCOMES),
      sort: pick(SORTS) || "-changed",
    };
    assert.deepEqual(filterOf(placeOf(hrefOf("/", paramsOf(filter))).query), filter);
  }
  assert.deepEqual(filterOf({ phase: "busy", outcome: "fine", sort: "size", token: "x" }), filterOf({}));
  assert.equal(isFiltered(filterOf({ sort: "title" })), false);
  assert.deepEqual(paramsOf(filterOf({})), { q: "", phase: "", profile: "", outcome: "", sort: "" });
});

test("each order is total: the same rows in any order come out the same", () => {
  const random = randomOf(11);
  const rows = Array.from({ length: 60 }, (_, index) =>
    row({
      session_id: `s-${index}`,
      title: random(4) ? ["Alpha", "beta", "Gamma"][random(3)] : null,
      cost_usd: random(3) ? random(5) : null,
      tokens: random(3) ? random(5) : null,
      created_at_ms: random(4),
      changed_at_ms: random(4),
    }),
  );
  for (const sort of SORTS) {
    const found = inOrder([...rows], sort, "idle").map((one) => one.session_id);
    const turned = inOrder([...rows].reverse(), sort, "idle").map((one) => one.session_id);
    assert.deepEqual(found, turned, sort);
    assert.equal(new Set(found).size, 60);
  }
  const named = inOrder([...rows], "title", "idle");
  assert.ok(named.findIndex((one) => one.title === null) > named.findLastIndex((one) => one.title !== null));
});

test("sessions that work stand by when they began, and do not jump about as they publish", () => {
  const rows = [
    row({ session_id: "a", created_at_ms: 1, changed_at_ms: 9 }),
    row({ session_id: "b", created_at_ms: 2, changed_at_ms: 3 }),
  ];
  assert.deepEqual(
    inOrder([...rows], "-changed", "working").map((one) => one.session_id),
    ["b", "a"],
  );
  assert.deepEqual(
    inOrder([...rows], "-changed", "idle").map((one) => one.session_id),
    ["a", "b"],
  );
});

test("what the server is asked for says the same as the filter here", () => {
  assert.deepEqual(askedOf(filterOf({ q: "x", profile: "p", outcome: "failed", phase: "idle" }), 10), {
    limit: 10,
    q: "x",
    agent_id: "p",
    outcome: "failed",
    phase: "idle",
  });
  assert.deepEqual(askedOf(filterOf({ phase: "waiting" }), 10), { limit: 10, waiting: true });
});

test("rows of an older server have what the list shows", () => {
  const rows = rowsOfItems([
    {
      session_id: "a",
      phase: "idle",
      title: "",
      waits_for: 2,
      created_at_ms: 5,
      usage: { input: 3, output: 4, cost_usd: null },
    },
  ]);
  const { items } = listOf(rows, new Map(), filterOf({}), NONE);
  assert.equal(items.length, 2);
  assert.deepEqual(rows.get("a")?.waiting, { approvals: 2, questions: 0 });
  assert.equal(rows.get("a")?.tokens, 7);
});

test("5,000 rows are put in order within a frame, and rows that did not change stay the same objects", () => {
  const rows = Array.from({ length: 5_000 }, (_, index) =>
    row({ session_id: `s-${index}`, phase: index % 3 ? "idle" : "running", changed_at_ms: index }),
  );
  const before = rowsOf("sessions", rows);
  const after = mergeRows("sessions", before, [row({ session_id: "s-7", changed_at_ms: 9_999 })], ["s-8"]);
  assert.equal(after.get("s-9"), before.get("s-9"));
  listOf(after, new Map(), filterOf({}), NONE); // once, so that it is compiled
  const took = computingMs(() => {
    for (let turn = 0; turn < 10; turn += 1) listOf(after, new Map(), filterOf({}), NONE);
  });
  assert.ok(took / 10 < 50, `${took / 10} ms`);
});

// What the pages of an operator say of nodes, plugins and costs: pure, so it runs in node.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  budgetLines,
  csvOf,
  dayIn,
  daysOf,
  estimatedShare,
  percentOf,
  plainNumber,
  standOf,
} from "../../../agentrail/gateway/console/pure/cost_facts.js";
import {
  byKind,
  callsOf,
  isTroubled,
  noticesByPlugin,
  troubled,
} from "../../../agentrail/gateway/console/pure/plugin_facts.js";
import {
  aboutOf,
  nextChangeAt,
  nodesToLookAt,
  nodesWith,
  restartOf,
  sortedNodes,
  whysOf,
} from "../../../agentrail/gateway/console/pure/tree_facts.js";

const NOW = 1_000_000;

/** @returns {any} */
const node = (key, given = {}) => ({
  key,
  parent: "0",
  name: key,
  kind: "session",
  status: "running",
  incarnation: 1,
  restarts: 0,
  mailbox: 0,
  exits: [],
  ...given,
});
/** @returns {any} */
const amount = (key, given = {}) => ({
  key,
  tokens_in: 1,
  tokens_out: 2,
  cached: 0,
  cost_usd: 0.1,
  estimated_usd: 0,
  requests: 1,
  unpriced: 0,
  ...given,
});

test("a node is looked at for what matters most, for a minute", () => {
  const restarted = node("0.1", {
    exits: [
      { reason: "old", at_ms: 1 },
      { reason: "KeyError", at_ms: NOW - 59_999 },
    ],
    intensity: { used: 1, allowed: 3, within_ms: 5_000 },
  });
  assert.deepEqual(whysOf(restarted, NOW), ["restarted"]);
  assert.deepEqual(restartOf(restarted, NOW), {
    agoMs: 59_999,
    reason: "KeyError",
    used: 1,
    allowed: 3,
    withinMs: 5_000,
  });
  assert.equal(restartOf(restarted, NOW + 1), null);
  assert.equal(restartOf(node("0.1", { exits: [{ reason: "x", at_ms: NOW + 5_000 }] }), NOW)?.agoMs, 0);
  assert.equal(nextChangeAt([node("0.2"), restarted], NOW), NOW + 1);
  assert.equal(nextChangeAt([node("0.2")], NOW), null);
  assert.deepEqual(whysOf(node("0.1", { stuck: true, mailbox: 3 }), NOW), ["stuck", "letters"]);
  assert.deepEqual(whysOf(node("0.1", { status: "parked", exits: [{ reason: "x", at_ms: NOW }] }), NOW), ["parked"]);
  assert.deepEqual(whysOf(node("0.1", { mailbox: null }), NOW), []);
});

test("what matters stands first, of equals what happened last", () => {
  const at = (/** @type {number} */ ago) => [{ reason: "x", at_ms: NOW - ago }];
  const all = [
    node("0.1", { mailbox: 2 }),
    node("0.2", { exits: at(9_000) }),
    node("0.3", { exits: at(3_000) }),
    node("parked:a", { status: "parked", exits: at(90_000) }),
    node("0.4", { stuck: true }),
    node("0.5", { mailbox: 7 }),
    node("0.6"),
  ];
  assert.deepEqual(
    nodesToLookAt(all, NOW).map(({ node: one }) => one.key),
    ["0.4", "parked:a", "0.3", "0.2", "0.5", "0.1"],
  );
});

test("places compare by their numbers, what has none stands behind", () => {
  const keys = ["0.10", "parked:b", "0", "0.2.1", "0.2", "parked:a"];
  assert.deepEqual(
    sortedNodes(
      keys.map((key) => ({ ...node(key), key })),
      null,
    ).map((one) => one.key),
    ["0", "0.2", "0.2.1", "0.10", "parked:a", "parked:b"],
  );
});

test("siblings are sorted, equal ones as in the tree", () => {
  const all = [
    node("0.2", { restarts: 1, up_at_ms: 5 }),
    node("0.1", { restarts: 1, up_at_ms: 9 }),
    node("0.3", { restarts: 4, up_at_ms: null, mailbox: null }),
  ];
  const keys = (/** @type {any} */ sort) => sortedNodes(all, sort).map((one) => one.key);
  assert.deepEqual(keys(null), ["0.1", "0.2", "0.3"]);
  assert.deepEqual(keys({ key: "restarts", isDescending: true }), ["0.3", "0.1", "0.2"]);
  assert.deepEqual(keys({ key: "uptime", isDescending: true }), ["0.2", "0.1", "0.3"]);
  assert.deepEqual(keys({ key: "mailbox", isDescending: false }), ["0.3", "0.1", "0.2"]);
});

test("what is found keeps what it stands below, and a circle ends", () => {
  const all = [
    node("0", { parent: null, name: "top" }),
    node("0.1", { name: "Refund" }),
    node("0.1.0", { parent: "0.1", name: "worker", title: "Größe" }),
    node("0.2", { name: "other", title: null, first_words: "Find the invoice" }),
  ];
  assert.deepEqual(all.map(aboutOf), [null, null, "Größe", "Find the invoice"]);
  assert.equal(aboutOf(node("0", { title: "Trip", first_words: "Hi" })), "Trip");
  assert.deepEqual(
    nodesWith(all, " größe ").map((one) => one.key),
    ["0", "0.1", "0.1.0"],
  );
  assert.deepEqual(
    nodesWith(all, "invoice").map((one) => one.key),
    ["0", "0.2"],
  );
  assert.equal(nodesWith(all, "").length, 4);
  const circle = [node("a", { parent: "b", name: "x" }), node("b", { parent: "a", name: "y" })];
  assert.equal(nodesWith(circle, "x").length, 2);
});

test("plugins: the stuck first, then what failed last; those of the host in order", () => {
  const row = (/** @type {string} */ name, given = {}) => ({
    key: name,
    name,
    kind: "host",
    order: 1,
    hooks: [],
    failures: 0,
    ...given,
  });
  /** @type {any[]} */
  const all = [
    row("b", { order: 2, failures: 1, last_failure: { hook: "h", words: "w", at_ms: 5 } }),
    row("a", { failures: 1, last_failure: { hook: "h", words: "w", at_ms: 9 } }),
    row("z", { kind: "session", order: null, stuck_hook: "h", stuck_at_ms: 1 }),
    row("y", {
      kind: "session",
      order: null,
      hooks: [
        { hook: "h", calls: 2, failures: 0, p50_ms: 1, p99_ms: 1 },
        { hook: "i", calls: 3, failures: 0, p50_ms: 1, p99_ms: 1 },
      ],
    }),
  ];
  assert.deepEqual(
    troubled(all).map((one) => one.name),
    ["z", "a", "b"],
  );
  assert.equal(isTroubled(all[3]), false);
  assert.deepEqual(
    byKind(all).host.map((one) => one.name),
    ["a", "b"],
  );
  assert.deepEqual(
    byKind(all).session.map((one) => one.name),
    ["y", "z"],
  );
  assert.equal(callsOf(all[3]), 5);
});

test("notices of a session by plugin; all else is left out", () => {
  const notice = (/** @type {string} */ kind, plugin = "p") => ({
    type: "notice",
    kind,
    event: { plugin },
    seq: 1,
    key: kind,
  });
  const found = noticesByPlugin([
    notice("plugin_failed"),
    notice("plugin_slow"),
    notice("action_ignored", "q"),
    notice("budget_warning"),
    { type: "call" },
    { type: "notice", kind: "plugin_failed", event: {} },
  ]);
  assert.deepEqual([...found.keys()], ["p", "q"]);
  assert.deepEqual(
    [found.get("p")?.failed.length, found.get("p")?.slow.length, found.get("q")?.ignored.length],
    [1, 1, 1],
  );
});

test("days have no gaps, also where clocks change, and all of them end somewhere", () => {
  const days = daysOf([amount("2026-10-24"), amount("2026-10-26", { cost_usd: 2, estimated_usd: 1 })], "2026-10-27", 5);
  assert.deepEqual(
    days.map((one) => one.day),
    ["2026-10-23", "2026-10-24", "2026-10-25", "2026-10-26", "2026-10-27"],
  );
  assert.deepEqual(
    days.map((one) => one.cost),
    [0, 0.1, 0, 2, 0],
  );
  assert.equal(daysOf([amount("2020-01-01")], "2026-10-27", null).length, 365);
  assert.equal(daysOf([], "2026-10-27", null).length, 7);
  assert.equal(daysOf([amount("2026-10-17")], "2026-10-27", null).length, 11);
  assert.equal(dayIn(Date.parse("2026-11-22T23:30:00Z"), "Asia/Kathmandu"), "2026-11-23");
});

test("shares never say all or nothing where that is not so", () => {
  assert.deepEqual([0, 0.000_1, 0.5, 0.999_9, 1].map(percentOf), [0, 1, 50, 99, 100]);
  assert.equal(estimatedShare({ cost_usd: 0, estimated_usd: 0 }), 0);
});

test("CSV has every digit, quotes what must be quoted, and no name is a formula", () => {
  const lines = csvOf([amount('a,"b"', { cost_usd: 1e-7 }), amount("=1+1", { cost_usd: 12_345.678_9 })]).split("\n");
  assert.equal(lines[0], "key,requests,tokens_in,tokens_out,cached,cost_usd,estimated_usd,unpriced");
  assert.equal(lines[1], '"a,""b""",1,1,2,0,0.0000001,0,0');
  assert.equal(lines[2], "'=1+1,1,1,2,0,12345.6789,0,0");
  for (const value of [1e-18, 3e-12, 0.1 + 0.2, 1e21]) assert.equal(Number(plainNumber(value)), value);
});

test("budgets: that of all together first, then those of users, then those of sessions; an older server has none of a day", () => {
  const session = { name: "s-1", used_usd: 1, limit_usd: 2 };
  const ofUser = { of: /** @type {const} */ ("user"), name: "s-1", used_usd: 5, limit_usd: 5, resets_at_ms: 9 };
  const ofAll = { ...ofUser, of: /** @type {const} */ ("tenant"), name: "acme", used_usd: 3.9999, overrun_usd: 0.5 };
  const lines = budgetLines({ budgets: [session], day_budgets: [ofUser, ofAll] });
  assert.deepEqual(
    lines.map((one) => [one.key, one.resets_at_ms, one.overrun, standOf(one)]),
    [
      ["tenant:acme", 9, 0.5, "well"],
      ["user:s-1", 9, 0, "spent"],
      ["session:s-1", null, 0, "well"],
    ],
  );
  assert.equal(standOf({ used: 4, limit: 5 }), "near");
  assert.deepEqual(
    budgetLines({ budgets: [session] }).map((one) => one.key),
    ["session:s-1"],
  );
});

// What the shell decides without a page: addresses, keys, waiting, rows, the pseudo-locale.

import assert from "node:assert/strict";
import { test } from "node:test";
import { handshakeMs, reconnectMs } from "../../../agentrail/gateway/console/pure/back_off.js";
import { comboOf, isSingle, nextKey } from "../../../agentrail/gateway/console/pure/keys.js";
import { hrefOf, matchPath, placeOf, tokenOf } from "../../../agentrail/gateway/console/pure/route.js";
import { mergeRows, rowsOf } from "../../../agentrail/gateway/console/pure/rows.js";
import { afterKey } from "../../../agentrail/gateway/console/pure/tree_keys.js";
import { treeRows } from "../../../agentrail/gateway/console/pure/tree_rows.js";
import { pseudo, pseudoOf } from "../../../agentrail/gateway/console/text/pseudo.js";
import { computingMs } from "./computing.js";

test("an address survives being written and read", () => {
  for (const id of ["a", "a b", "ä/ö", "%", "?x=1&y", "#", "‮"]) {
    const place = placeOf(hrefOf("/s/:id/journal", { id, at: 3 }));
    assert.deepEqual([matchPath("/s/:id/journal", place.path), place.query], [{ id }, { at: "3" }]);
  }
  assert.equal(hrefOf("/tree", { at: null, q: "" }), "#/tree");
});

test("what is no address leads to the beginning, or nowhere", () => {
  assert.deepEqual(placeOf(""), { path: "/", query: {} });
  assert.deepEqual(placeOf("#no-slash"), { path: "/", query: {} });
  assert.equal(matchPath("/s/:id", "/s/"), null);
  assert.equal(matchPath("/s/:id", "/s/%zz"), null);
  assert.equal(matchPath("/s/:id", "/s/a/b"), null);
});

test("a token is read out of a fragment that has one, and leads only to places of ours", () => {
  assert.deepEqual(tokenOf("#token=agt_x&to=/s/a"), { token: "agt_x", to: "/s/a" });
  assert.deepEqual(tokenOf("#token=agt_x"), { token: "agt_x", to: "/" });
  assert.deepEqual(tokenOf("#token=x&to=https://evil.example"), { token: "x", to: "/" });
  assert.equal(tokenOf("#/s/a?token=x"), null);
  assert.equal(tokenOf(""), null);
});

test("keys have one name each", () => {
  const named = (/** @type {any} */ given) => comboOf(given);
  assert.equal(named({ key: "k", ctrlKey: true }), "Ctrl K");
  assert.equal(named({ key: "k", metaKey: true }), "Ctrl K");
  assert.equal(named({ key: "?", shiftKey: true }), "?");
  assert.equal(named({ key: "ArrowLeft", shiftKey: true }), "Shift ArrowLeft");
  assert.equal(named({ key: "Enter", altKey: true }), "Alt Enter");
  assert.equal(named({ key: ".", ctrlKey: true }), "Ctrl .");
  assert.equal(named({ key: "Shift", shiftKey: true }), "");
  assert.deepEqual(["g s", "?", "Ctrl K", "Escape", "Alt Enter"].map(isSingle), [true, true, false, false, false]);
});

test("two keys mean one thing, and a wrong second one means itself", () => {
  const known = new Set(["g s", "g t", "s", "/"]);
  assert.deepEqual(nextKey("", "g", known), { found: null, waiting: "g" });
  assert.deepEqual(nextKey("g", "s", known), { found: "g s", waiting: "" });
  assert.deepEqual(nextKey("g", "/", known), { found: "/", waiting: "" });
  assert.deepEqual(nextKey("g", "x", known), { found: null, waiting: "" });
  assert.deepEqual(nextKey("g", "g", known), { found: null, waiting: "g" });
});

test("the waiting between attempts is that of the library", () => {
  assert.deepEqual(
    [0, 1, 2, 6, 99].map((attempt) => reconnectMs(attempt, 0)),
    [125, 250, 500, 5_000, 5_000],
  );
  assert.deepEqual(
    [0, 99].map((attempt) => reconnectMs(attempt, 1)),
    [250, 10_000],
  );
  assert.equal(reconnectMs(0, 0, 3_000), 3_000);
  assert.equal(reconnectMs(0, 0, 9_999_999), 60_000);
  assert.deepEqual([0, 1, 2, 3, 99].map(handshakeMs), [10_000, 20_000, 40_000, 60_000, 60_000]);
});

test("rows keep their place and what did not change", () => {
  const before = rowsOf("waiting", [{ key: "a" }, { key: "b" }, { key: "c" }]);
  const after = mergeRows("waiting", before, [{ key: "b", n: 1 }, { key: "d" }, {}], ["a"]);
  assert.deepEqual([...after.keys()], ["b", "c", "d"]);
  assert.equal(after.get("c"), before.get("c"));
  assert.equal(before.size, 3);
});

const node = (key, parent = null) => ({ key, parent });
const rowsOfTree = (nodes, folded = []) =>
  treeRows(nodes, { keyOf: (one) => one.key, parentOf: (one) => one.parent, isFolded: (key) => folded.includes(key) });

test("a tree becomes rows, without what is folded", () => {
  const nodes = [node("a"), node("b", "a"), node("c", "b"), node("d", "a"), node("e")];
  assert.deepEqual(
    rowsOfTree(nodes).map((row) => [row.key, row.level, row.isOpen, row.place, row.siblings]),
    [
      ["a", 1, true, 1, 2],
      ["b", 2, true, 1, 2],
      ["c", 3, null, 1, 1],
      ["d", 2, null, 2, 2],
      ["e", 1, null, 2, 2],
    ],
  );
  assert.deepEqual(
    rowsOfTree(nodes, ["b"]).map((row) => row.key),
    ["a", "b", "d", "e"],
  );
});

test("an orphan, and a circle, lose nothing and end", () => {
  assert.deepEqual(
    rowsOfTree([node("a", "gone")]).map((row) => row.level),
    [1],
  );
  const circle = rowsOfTree([node("a", "b"), node("b", "a"), node("c", "a"), node("d", "d")]);
  assert.deepEqual(circle.map((row) => row.key).sort(), ["a", "b", "c", "d"]);
});

test("a tree 5,000 deep is no stack of the program", () => {
  const nodes = Array.from({ length: 5_000 }, (_, index) => node(`${index}`, index ? `${index - 1}` : null));
  const took = computingMs(() => assert.equal(rowsOfTree(nodes).at(-1)?.level, 5_000));
  assert.ok(took < 500, `it took ${took} ms`);
});

test("keys of a tree go where the pattern says", () => {
  const rows = [
    { level: 1, isOpen: true },
    { level: 2, isOpen: null },
    { level: 2, isOpen: false },
  ];
  assert.equal(afterKey("ArrowDown", rows, 2, true), 2);
  assert.equal(afterKey("ArrowLeft", rows, 1, true), 0);
  assert.deepEqual(afterKey("ArrowLeft", rows, 0, true), { isOpen: false });
  assert.deepEqual(afterKey("ArrowRight", rows, 2, true), { isOpen: true });
  assert.equal(afterKey("ArrowRight", rows, 0, true), 1);
  assert.equal(afterKey("ArrowRight", rows, 1, true), null);
  assert.equal(afterKey("x", rows, 1, true), null);
  assert.equal(afterKey("ArrowDown", [], 0, true), null);
});

test("the pseudo-locale is in brackets, longer, and goes into functions", () => {
  assert.notEqual(pseudo("a"), "a");
  assert.match(pseudo("Send"), /^\[.+··\]$/u);
  const made = pseudoOf({ a: "x", b: (n) => `${n} y`, c: { d: ["z"] }, e: 4 });
  assert.match(made.b(3), /^\[3 ý·+\]$/u);
  assert.match(made.c.d[0], /^\[/u);
  assert.equal(made.e, 4);
});

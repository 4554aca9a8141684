// Where a message ends: what a fork at it has.

import assert from "node:assert/strict";
import { test } from "node:test";
import { lastSeqOf } from "../../../agentrail/gateway/console/pure/item_end.js";

test("a message ends in front of the next one of its cycle, or with its cycle", () => {
  const items = [
    { seq: 3, cycle: "a" },
    { seq: 4, cycle: "a" },
    { seq: 9, cycle: "b" },
    { seq: 10, cycle: "b" },
    { seq: 30, cycle: null },
  ];
  const view = /** @type {any} */ ({
    items,
    cycles: [
      { key: "a", to_seq: 7 },
      { key: "b", to_seq: null },
    ],
    seq: 44,
  });
  assert.deepEqual(
    items.map((item) => lastSeqOf(view, item)),
    [3, 7, 9, 29, 44],
  );
});

/** Which rows of a long list exist: never more new ones in a frame than may be, and in the end all that are wanted and no others. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { rowsNow } from "../../../agentrail/gateway/console/pure/window_rows.js";
import { randomOf } from "./random.js";

/** @typedef {import("../../../agentrail/gateway/console/pure/window_rows.js").Rows} Rows */

/** @param {Rows} rows @returns {Set<number>} */
function all({ first, last }) {
  return new Set(Array.from({ length: Math.max(0, last - first + 1) }, (_, place) => first + place));
}

test("from anywhere: what is in sight comes first, and each frame makes a few", () => {
  const random = randomOf(11);
  for (let turn = 0; turn < 300; turn += 1) {
    const first = random(500);
    const now = random(4) === 0 ? { first: 0, last: -1 } : { first, last: first + random(60) };
    const top = random(500);
    const seen = { first: top, last: top + random(40) };
    const wanted = { first: Math.max(0, seen.first - random(30)), last: seen.last + random(30) };
    const most = 1 + random(30);
    let at = now;
    let frames = 0;
    while (at.first !== wanted.first || at.last !== wanted.last) {
      const before = all(at);
      const { rows, left } = rowsNow(at, wanted, seen, most);
      const made = [...all(rows)].filter((row) => !before.has(row));
      assert.ok(made.length <= most - left && left >= 0, "no more than may be");
      assert.ok(
        [...all(rows)].every((row) => row >= wanted.first && row <= wanted.last),
        "no others",
      );
      const lacks = [...all(seen)].filter((row) => !all(rows).has(row)).length;
      const isOutOfSight = made.some((row) => row < seen.first || row > seen.last);
      assert.ok(lacks === 0 || !isOutOfSight, "first what is in sight");
      at = rows;
      frames += 1;
      assert.ok(frames < 200, "it ends");
    }
  }
});

test("a jump shows what is in sight in one frame, where that is no more than a frame makes", () => {
  const jumped = rowsNow({ first: 0, last: 20 }, { first: 490, last: 530 }, { first: 500, last: 520 }, 30);
  assert.deepEqual(jumped, { rows: { first: 496, last: 524 }, left: 1 });
});

test("an empty list has no rows, and needs no other frame", () => {
  const none = { first: 0, last: -1 };
  assert.deepEqual(rowsNow({ first: 3, last: 9 }, none, none, 30).rows, none);
  assert.deepEqual(rowsNow(none, none, none, 30), { rows: none, left: 30 });
});

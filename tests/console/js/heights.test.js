/** Sums of heights against a plain list that is added up anew each time. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Heights } from "../../../agentrail/gateway/console/pure/heights.js";
import { randomOf } from "./random.js";

/** @param {number[]} rows @param {number} row */
function sum(rows, row) {
  return rows.slice(0, row).reduce((total, height) => total + height, 0);
}

test("a list that grows, shrinks, is measured and gets rows in front adds up at each step", () => {
  const random = randomOf(7);
  const heights = new Heights(20);
  /** @type {number[]} */
  let plain = [];
  for (let turn = 0; turn < 600; turn += 1) {
    const what = random(4);
    if (what === 0) {
      const many = random(40);
      heights.resize(plain.length + many);
      plain = [...plain, ...Array(many).fill(20)];
    } else if (what === 1 && plain.length > 0) {
      const row = random(plain.length);
      const height = random(300);
      heights.set(row, height);
      plain[row] = height;
    } else if (what === 2) {
      const many = random(10);
      heights.prepend(many, (row) => (row === 0 ? 5 : undefined));
      plain = [...Array.from({ length: many }, (_, row) => (row === 0 ? 5 : 20)), ...plain];
    } else if (plain.length > 500) {
      plain = plain.slice(0, random(plain.length));
      heights.resize(plain.length);
    }
    assert.equal(heights.total, sum(plain, plain.length));
    const row = random(plain.length + 1);
    assert.equal(heights.top(row), sum(plain, row));
  }
});

test("the row at a place is the one that covers it", () => {
  const heights = new Heights(10);
  heights.resize(5);
  heights.set(1, 0);
  heights.set(3, 35);
  // Tops: 0, 10, 10, 20, 55; the end is 65. A row without height covers nothing.
  for (const [place, row] of [
    [-5, 0],
    [0, 0],
    [9.5, 0],
    [10, 2],
    [19, 2],
    [20, 3],
    [54, 3],
    [55, 4],
    [64, 4],
    [999, 4],
  ]) {
    assert.equal(heights.rowAt(/** @type {number} */ (place)), row, `at ${place}`);
  }
  assert.equal(new Heights(10).rowAt(0), -1);
});

test("what is no height counts as the estimate, and a row that there is not changes nothing", () => {
  const heights = new Heights(10);
  heights.resize(2, () => Number.NaN);
  assert.equal(heights.total, 20);
  assert.equal(heights.set(7, 50), 0);
  assert.equal(heights.set(0, -3), 0);
  assert.equal(heights.total, 20);
});

test("a hundred thousand rows are summed, found and measured without going through all of them", () => {
  const heights = new Heights(20);
  heights.resize(100_000);
  const began = process.cpuUsage();
  for (let turn = 0; turn < 100_000; turn += 1) {
    heights.set(turn, 21);
    heights.rowAt(heights.top(turn));
  }
  assert.equal(heights.total, 2_100_000);
  assert.ok(process.cpuUsage(began).user < 2_000_000, "a step goes through all rows");
});

// C-001, C-003: the fold of every scenario and golden journal. The cases come from real sessions: tests/console/test_fold.py makes them and says where they are.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { faultsOf, joined, shownOf } from "./fold_cases.js";
import { randomOf } from "./random.js";

const file = process.env.CONSOLE_FOLD_CASES;
const skip = file === undefined ? "tests/console/test_fold.py gives it its cases" : false;
/** @type {import("./fold_cases.js").Case[]} */
const cases =
  file === undefined
    ? []
    : readFileSync(file, "utf8")
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));

test("the fold of each session equals its snapshot behind each step", { skip }, () => {
  assert.ok(cases.length > 50, `only ${cases.length} cases`);
  assert.deepEqual(
    cases.flatMap((one) => faultsOf(one)),
    [],
  );
});

test("duplicates of what was there, at any later place, change nothing", { skip }, () => {
  const random = randomOf(11);
  const faults = cases.flatMap((one) => {
    /** @type {any[]} */
    const past = [];
    return faultsOf(one, (events) => {
      const sent = [];
      for (const event of events) {
        for (let many = random(3); many > 0 && past.length > 0; many -= 1) sent.push(past[random(past.length)]);
        sent.push(event);
        if (!event.ephemeral) past.push(event);
      }
      return sent;
    });
  });
  assert.deepEqual(faults, []);
});

test("a reader that joins anywhere shows what one that was there all along shows", { skip }, () => {
  const random = randomOf(5);
  let joins = 0;
  for (const one of cases) {
    for (let at = 0; at <= one.steps.length; at += 1) {
      const { whole, late } = joined(one, at, 1 + random(7));
      assert.deepEqual(shownOf(late, one.name), shownOf(whole, one.name), `${one.name}, joined behind step ${at}`);
      joins += 1;
    }
  }
  assert.ok(joins > 500);
});

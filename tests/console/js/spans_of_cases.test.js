// C-029: the timeline of every scenario and golden journal, as Python folds it. tests/console/test_timeline_fold.py makes the cases and says where they are.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { TIMELINE_KINDS, timelineOf } from "../../../agentrail/gateway/console/pure/spans.js";

const file = process.env.CONSOLE_TIMELINES;
const skip = file === undefined ? "tests/console/test_timeline_fold.py gives it its cases" : false;
/** @type {{ name: string, events: any[], spans: any[] }[]} */
const cases =
  file === undefined
    ? []
    : readFileSync(file, "utf8")
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));

test("the console's fold gives the spans that Python's gives", { skip }, () => {
  assert.ok(cases.length > 50, `only ${cases.length} cases`);
  for (const { name, events, spans } of cases) {
    assert.deepEqual(JSON.parse(JSON.stringify(timelineOf(events))), spans, name);
  }
});

test("what is asked for of the server is all that the fold hears", { skip }, () => {
  const wanted = new Set(/** @type {readonly string[]} */ (TIMELINE_KINDS));
  for (const { name, events, spans } of cases) {
    const asked = events.filter((event) => wanted.has(event.kind));
    assert.deepEqual(JSON.parse(JSON.stringify(timelineOf(asked))), spans, name);
  }
});

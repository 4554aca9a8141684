// Inline tags are taken out of a complete answer as the session takes them out of its deltas.

import assert from "node:assert/strict";
import { test } from "node:test";

import { withoutTags } from "../../../agentrail/gateway/console/pure/said_text.js";
import { computingMs } from "./computing.js";

const CASES = [
  ["plain words", "plain words"],
  ["<title>Refund</title><status>looking</status>I look.", "I look."],
  ["before <status>a\nb</status> behind", "before  behind"],
  ["<status>never closed", "<status>never closed"],
  ["<Status>x</Status> <b>y</b>", "<Status>x</Status> <b>y</b>"],
  ["in code `<title>x</title>` it stays", "in code `<title>x</title>` it stays"],
  ["```html\n<title>x</title>\n```\n<title>gone</title>end", "```html\n<title>x</title>\n```\nend"],
  ["an open ` ends with its line\n<status>gone</status>", "an open ` ends with its line\n"],
  [`<status>${"x".repeat(500)}</status>`, ""],
  [`<status>${"x".repeat(501)}</status>`, `<status>${"x".repeat(501)}</status>`],
  ["<status><title>inner</title></status>!", "!"],
  ["<status>open <title>t</title>", "<status>open "],
];

for (const [said, seen] of CASES) {
  test(`${JSON.stringify(said).slice(0, 60)}`, () => assert.equal(withoutTags(/** @type {string} */ (said)), seen));
}

test("a text of nothing but openings takes no time that grows with its square", () => {
  const said = "<status>".repeat(100_000);
  const took = computingMs(() => assert.equal(withoutTags(said), said));
  assert.ok(took < 2_000, `it took ${took} ms`);
});

// What of a session is said aloud: whole sentences about what came behind what was shown, and nothing of what was fetched from its past.

import assert from "node:assert/strict";
import { test } from "node:test";
import { newCycle } from "../../../agentrail/gateway/console/pure/draft.js";
import { sentencesBetween } from "../../../agentrail/gateway/console/pure/session_news.js";
import { emptyView } from "../../../agentrail/gateway/console/pure/view.js";

const over = (/** @type {number} */ to_seq, /** @type {any} */ outcome = "end") => ({
  ...newCycle(`cycle:${to_seq - 5}`),
  outcome,
  to_seq,
  calls: 2,
});

test("the end of a cycle is said once, also of the first one of a session", () => {
  const before = emptyView("s");
  const after = { ...before, seq: 9, cycles: [over(9)] };
  assert.deepEqual(sentencesBetween(before, after), [{ kind: "end", words: "", calls: 2 }]);
  assert.deepEqual(sentencesBetween(after, { ...after, seq: 10 }), []);
});

test("what history brings is no news", () => {
  const before = { ...emptyView("s"), seq: 90, cycles: [over(90)] };
  const after = { ...before, seq: 91, cycles: [over(40), over(90)] };
  assert.deepEqual(sentencesBetween(before, after), []);
});

test("what waits is said when it begins to wait, and an abort and an end of the session too", () => {
  const before = { ...emptyView("s"), seq: 3 };
  const approval = { id: "a", tool: "shell", arguments: {}, requested_at_ms: 1 };
  const waits = { ...before, seq: 4, approvals: [approval] };
  assert.deepEqual(sentencesBetween(before, waits), [{ kind: "approval", words: "shell", calls: 0 }]);
  const ended = { ...waits, seq: 8, cycles: [over(7, "abort")], ended: { reason: "x", parked: false, at_ms: 0 } };
  assert.deepEqual(
    sentencesBetween(waits, ended).map((one) => one.kind),
    ["abort", "ended"],
  );
});

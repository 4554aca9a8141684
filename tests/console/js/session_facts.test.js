// Facts of a receipt, the one line of a call, and what waits in a session and below it.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  cutBytes,
  fileChangeOf,
  opensByItself,
  summaryOf,
} from "../../../agentrail/gateway/console/pure/call_summary.js";
import { factsOf } from "../../../agentrail/gateway/console/pure/receipt_facts.js";
import { emptyView, newCall } from "../../../agentrail/gateway/console/pure/view.js";
import { itemOfWaiting, questionIn, waitingIn } from "../../../agentrail/gateway/console/pure/waiting.js";

const none = () => null;

test("a receipt names unknown outcomes first and ended processes last", () => {
  const receipt = {
    settled: true,
    tasks_ended: 2,
    processes_reaped: 1,
    stuck: [{ name: "fetch", age_ms: 5_000, pid: 41 }],
    abandoned: [{ name: "train", age_ms: 10 }],
    committed: ["c1"],
    unknown: ["c2"],
    survivors: ["c3"],
    milliseconds: 12,
  };
  const known = (/** @type {string} */ id) => (id === "c2" ? { name: "shell", summary: "rm -r build" } : null);
  const facts = factsOf(receipt, known);
  assert.deepEqual(
    facts.map((fact) => [fact.kind, fact.level, fact.count]),
    [
      ["unknown", "bad", 1],
      ["stuck", "bad", 1],
      ["survivors", "warn", 1],
      ["abandoned", "warn", 1],
      ["committed", "plain", 1],
      ["ended", "plain", 2],
      ["reaped", "plain", 1],
    ],
  );
  assert.deepEqual(facts[0]?.named[0], {
    name: "shell",
    summary: "rm -r build",
    call_id: "c2",
    age_ms: null,
    pid: null,
  });
  assert.equal(facts[1]?.named[0]?.pid, 41);
  assert.equal(facts[2]?.named[0]?.name, "c3", "a call that is not loaded is named by its id");
});

test("a receipt of nothing, and one that is not settled, say so", () => {
  assert.deepEqual(
    factsOf({}, none).map((fact) => fact.kind),
    ["nothing"],
  );
  assert.deepEqual(
    factsOf({ settled: false, unknown: ["c"] }, none).map((fact) => fact.kind),
    ["unsettled"],
  );
});

test("the line of a call is its command, its path, or its arguments in short", () => {
  assert.equal(summaryOf({ timeout_seconds: 3, command: "git status\n --short" }), "git status --short");
  assert.equal(summaryOf({ number: 4411 }), "4411");
  assert.equal(summaryOf({ number: 4411, lines: [1, 2], to: { name: "x" } }), "number: 4411, lines: [2], to: {name}");
  assert.equal(summaryOf({}), "");
  assert.equal(summaryOf(null), "");
  const long = summaryOf({ text: "x".repeat(5_000_000) });
  assert.ok(long.length <= 200 && long.endsWith("…"));
});

test("a change of a file is told by the arguments of edit_file and write_file alone", () => {
  const edit = { ...newCall("c", "edit_file"), arguments: { path: "a.py", old_string: "1", new_string: "2" } };
  assert.deepEqual(fileChangeOf(edit), { path: "a.py", before: "1", after: "2", whole: false, is_new: false });
  const details = { file: { path: "a.py", sha256_before: null, sha256_after: "x" } };
  const result = { call_id: "c", name: "write_file", text: "", details };
  const write = { ...newCall("c", "write_file"), arguments: { path: "a.py", content: "all" }, result };
  assert.deepEqual(fileChangeOf(write), { path: "a.py", before: "", after: "all", whole: true, is_new: true });
  assert.equal(fileChangeOf({ ...write, arguments: { path: "a.py", content: { $cut: 9 } } }), null);
  assert.equal(fileChangeOf({ ...edit, name: "read_file" }), null);
});

test("what the server cut is counted, one level down as well", () => {
  assert.equal(cutBytes({ $cut: 41_000 }), 41_000);
  assert.equal(cutBytes({ a: { $cut: 10 }, b: { $cut: 5 }, c: "x" }), 15);
  assert.equal(cutBytes("x"), 0);
  assert.equal(cutBytes(null), 0);
});

test("what failed stands open, what went well is one line", () => {
  assert.equal(opensByItself({ ...newCall("c", "x"), state: "failed" }), true);
  assert.equal(opensByItself({ ...newCall("c", "x"), state: "done" }), false);
  assert.equal(opensByItself({ ...newCall("c", "x"), state: "running", children: ["s"] }), true);
});

test("what waits below is found through the call that it is below of, oldest first", () => {
  const grandchild = {
    ...emptyView("gc"),
    approvals: [{ id: "a2", tool: "shell", arguments: { command: "ls" }, requested_at_ms: 1 }],
  };
  const child = { ...emptyView("c"), children: { gc: childOf("gc", "inner", grandchild) } };
  const approval = { id: "a1", tool: "refund", arguments: {}, requested_at_ms: 5 };
  const view = { ...emptyView("root"), approvals: [approval], children: { c: childOf("c", "outer", child) } };
  const found = waitingIn(view).map((one) => [one.key, one.session, one.item, one.summary]);
  assert.deepEqual(found, [
    ["approval:a2", "gc", "call:outer", "ls"],
    ["approval:a1", "root", "approval:a1", ""],
  ]);
});

test("a link to what waits leads to the item that shows it, also below a call and when it is decided", () => {
  const child = { ...emptyView("c"), questions: [{ ref: "q1", question: "Which?" }] };
  const decided = /** @type {any} */ ({
    key: "approval:a0",
    type: "decision",
    of: "approval",
    id: "a0",
    state: "approved",
  });
  const view = {
    ...emptyView("root"),
    items: [decided],
    approvals: [{ id: "a1", tool: "refund", arguments: {} }],
    children: { c: childOf("c", "outer", child) },
  };
  assert.deepEqual(
    ["a1", "q1", "a0", "a9", "outer"].map((id) => itemOfWaiting(view, id)),
    ["approval:a1", "call:outer", "approval:a0", null, null],
  );
  assert.deepEqual(
    waitingIn(view).map((one) => one.id),
    ["a1", "q1"],
  );
});

test("a question is found in how a session and those below it stand, as deep as cards are drawn", () => {
  const question = { ref: "q1", question: "Which?" };
  const below = (/** @type {number} */ levels) => {
    /** @type {Record<string, any>} */
    let status = { questions: [question] };
    for (let level = 0; level < levels; level += 1)
      status = { questions: [], children: [{ status: null }, { status }] };
    return status;
  };
  assert.equal(questionIn(below(0), "q1"), question);
  assert.equal(questionIn(below(8), "q1"), question);
  assert.equal(questionIn(below(9), "q1"), null, "an answer that is nested without end holds no page");
  assert.equal(questionIn(below(2), "q2"), null);
  assert.equal(questionIn({}, "q1"), null);
  assert.equal(questionIn(null, "q1"), null);
});

/** @param {string} session_id @param {string} call_id @param {any} view @returns {any} */
function childOf(session_id, call_id, view) {
  return { session_id, call_id, agent_id: null, description: null, phase: "running", ended: false, result: null, view };
}

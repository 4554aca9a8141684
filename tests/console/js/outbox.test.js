// What a person sent: it is shown until its event is, and is never lost.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  accepted,
  failed,
  outboxOf,
  sending,
  sendingAgain,
  unseen,
  waysToSend,
  without,
} from "../../../agentrail/gateway/console/pure/outbox.js";

const message = (/** @type {string} */ client_id) => ({
  client_id,
  name: /** @type {const} */ ("prompt"),
  text: `words of ${client_id}`,
  queue: false,
  at_ms: 1,
});

test("a message leaves when its event is shown, and not before", () => {
  const sent = accepted(sending([], message("a")), "a", { seq: 7, ref: "p1", queued: true, position: 2 });
  assert.equal(sent[0]?.state, "sent");
  assert.equal(sent[0]?.position, 2);
  assert.equal(unseen(sent, 6), sent);
  assert.deepEqual(unseen(sent, 7), []);
});

test("what is not taken stays with the server's words, whatever is shown, and goes out again under its name", () => {
  const error = { code: "session_busy", message: "it is busy", hint: null };
  const refused = failed(sending([], message("a")), "a", error);
  assert.equal(unseen(refused, 1_000), refused);
  assert.deepEqual(refused[0]?.error, error);
  const again = sendingAgain(refused, "a");
  assert.deepEqual([again[0]?.state, again[0]?.client_id, again[0]?.error], ["sending", "a", null]);
  const sent = accepted(again, "a", null);
  assert.equal(sendingAgain(sent, "a")[0]?.state, "sent", "what was taken is not sent again");
});

test("a receipt of one changes no other", () => {
  const both = sending(sending([], message("a")), message("b"));
  const one = accepted(both, "b", { seq: 3 });
  assert.equal(one[0], both[0]);
  assert.deepEqual(
    without(one, "a").map((sent) => sent.client_id),
    ["b"],
  );
  assert.equal(without(one, "c"), one);
});

test("an outbox that was kept as text is read back, and what is none of it is left out", () => {
  const kept = sending([], message("a"));
  assert.deepEqual(outboxOf(JSON.stringify(kept)), kept);
  for (const text of [null, "", "{", "3", '[{"text": 1}]', "[null]"]) assert.deepEqual(outboxOf(text), []);
});

test("it does not grow without end", () => {
  /** @type {readonly any[]} */
  let all = [];
  for (let count = 0; count < 200; count += 1) all = sending(all, message(`m${count}`));
  assert.equal(all.length, 50);
  assert.equal(all.at(-1)?.client_id, "m199");
});

test("Enter sends in idle and steers at work, Alt Enter queues at work", () => {
  const idle = { phase: "idle", suspended: false, ended: false };
  assert.deepEqual(waysToSend(idle, false), { name: "prompt", queue: false, verb: "send" });
  assert.equal(waysToSend(idle, true).verb, "send");
  for (const phase of ["running", "streaming", "executing_tools"]) {
    assert.equal(waysToSend({ ...idle, phase }, false).verb, "steer");
    assert.deepEqual(waysToSend({ ...idle, phase }, true), { name: "prompt", queue: true, verb: "queue" });
  }
  assert.equal(waysToSend({ ...idle, suspended: true }, false).verb, "steer");
});

// The fold by hand: every golden event, duplicates, gaps, retries in mid-stream, what is missing or hostile, and what stays the same object.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import {
  emptyView,
  fold,
  foldAll,
  itemOf,
  KINDS,
  MAX_DEPTH,
  prepend,
  trimmed,
  viewOfSnapshot,
  withLag,
  withSnapshot,
} from "../../../agentrail/gateway/console/pure/fold.js";
import { allApprovals, answerEvents, event, numbered, snapshotAt } from "./events.js";

const GOLDEN = new URL("../../core/golden/", import.meta.url);

/** @param {string} folder */
function goldenIn(folder) {
  const place = new URL(folder, GOLDEN);
  const names = readdirSync(place, { recursive: true })
    .map(String)
    .filter((name) => name.endsWith(".json"));
  return names.map((name) => JSON.parse(readFileSync(new URL(name, `${place}/`), "utf8")));
}

/** @param {any} view @param {string} type */
const ofType = (view, type) => view.items.filter((/** @type {any} */ item) => item.type === type);

test("every golden event is known, and makes something or stands for nothing that is shown", () => {
  const events = goldenIn("events/");
  assert.ok(events.length >= 79);
  assert.deepEqual([...new Set(events.map((one) => one.kind))].sort(), [...KINDS].sort());
  for (const one of events) {
    const view = fold(emptyView("s-root"), one);
    assert.ok(
      !view.items.some((item) => item.type === "notice" && item.kind === "unknown"),
      `${one.kind} could not be read`,
    );
    if (!one.ephemeral && one.kind !== "events_lost") assert.equal(view.seq, one.seq);
  }
});

test("events of a newer server are notices with their name, fields and kinds alike", () => {
  for (const one of goldenIn("newer/")) {
    const view = fold({ ...emptyView("s"), seq: one.seq - 1 }, one);
    if (one.ephemeral) {
      assert.deepEqual(view.items, []);
      continue;
    }
    assert.equal(view.seq, one.seq);
    if (KINDS.includes(one.kind)) continue;
    const [item] = view.items;
    assert.equal(item?.type === "notice" && item.kind, "unknown");
    assert.deepEqual(item?.type === "notice" && item.event, one);
  }
});

test("an event that lacks what it should have, or is none, raises nothing", () => {
  let view = emptyView("s");
  let seq = 0;
  for (const kind of [...KINDS, "constructor", "__proto__", "toString"]) {
    if (kind === "events_lost") continue;
    seq += 1;
    view = fold(view, { kind, seq, at_ms: 1 });
    assert.equal(view.seq, seq, kind);
  }
  for (const broken of [
    null,
    undefined,
    7,
    "text",
    {},
    { kind: 3, seq: 1 },
    { kind: "agent_start" },
    { kind: "agent_start", seq: "9" },
  ]) {
    assert.equal(fold(view, /** @type {any} */ (broken)), view);
  }
});

test("names that mean something to JavaScript are names", () => {
  const calls = ["__proto__", "constructor", "hasOwnProperty"];
  const view = foldAll(
    emptyView("s"),
    numbered(
      calls.flatMap((id) => [
        event("tool_execution_start", { name: id, call_id: id, arguments: {} }),
        event("tool_execution_end", { name: id, call_id: id, result: { call_id: id, name: id, text: "ok" } }),
        event("subagent_start", { child_id: id, call_id: id, description: id }),
      ]),
    ),
  );
  assert.deepEqual(
    ofType(view, "call").map((item) => [item.call.call_id, item.call.state]),
    calls.map((id) => [id, "done"]),
  );
  assert.deepEqual(Object.keys(view.children), calls);
  assert.deepEqual(Object.keys(view.running), []);
  assert.equal(Object.getPrototypeOf(view.children), Object.prototype);
});

test("what was there is ignored, also between two others, and gives back the same view", () => {
  const events = answerEvents();
  const view = foldAll(emptyView("s"), events);
  for (const one of events.filter((one) => !one.ephemeral)) assert.equal(fold(view, one), view);
  const late = events.find((one) => one.ephemeral);
  assert.equal(fold(view, /** @type {any} */ (late)), view);
});

test("an event that comes too early is not taken, and says where to go on", () => {
  const events = answerEvents();
  const view = foldAll(emptyView("s"), events.slice(0, 2));
  const torn = fold(view, /** @type {any} */ (events.at(-1)));
  assert.equal(torn.seq, 2);
  assert.equal(torn.torn_at, events.at(-1)?.seq);
  assert.equal(torn.items, view.items);
  // The reader subscribes again behind 2.
  const mended = foldAll(torn, events.slice(2));
  assert.equal(mended.torn_at, null);
  assert.deepEqual(mended.items, foldAll(emptyView("s"), events).items);
});

// --- C-006

test("events that are lost are one line and the snapshot, and the conversation goes on behind it", () => {
  const view = foldAll(emptyView("s"), answerEvents());
  const lost = fold(view, event("events_lost", { seq: 0, from_seq: view.seq + 1, to_seq: 80 }));
  assert.equal(lost.seq, 80);
  assert.equal(lost.items.at(-1)?.type, "gap");
  const after = withSnapshot(
    lost,
    snapshotAt(80, [
      { role: "user", ref: "p9", content: [{ kind: "text", text: "And now?" }] },
      { role: "assistant", model: "m", content: [{ kind: "text", text: "Now this." }] },
    ]),
  );
  const [gap, prompt, answer] = after.items;
  assert.deepEqual(gap?.type === "gap" && [gap.from_seq, gap.to_seq], [view.seq + 1, 80]);
  assert.equal(prompt?.key, "prompt:p9");
  assert.equal(answer?.type === "answer" && answer.text, "Now this.");
  assert.equal(after.items.filter((item) => item.type === "gap").length, 1);
  assert.deepEqual(after.gaps, [{ from_seq: view.seq + 1, to_seq: 80 }]);
  const next = fold(after, event("agent_start", { seq: 81, ref: "p10" }));
  assert.equal(next.seq, 81);
  assert.equal(next.torn_at, null);
});

test("a snapshot of what is known already changes how the session stands, and no item", () => {
  const view = foldAll(emptyView("s"), answerEvents());
  const fresh = withSnapshot(view, { ...snapshotAt(view.seq, []), title: "Told later" });
  assert.equal(fresh.items, view.items);
  assert.equal(fresh.title, "Told later");
  assert.equal(withSnapshot(view, snapshotAt(view.seq - 1, [])), view);
  assert.equal(fold(fresh, event("agent_start", { seq: view.seq + 1, ref: "p2" })).torn_at, null);
});

test("scrolling back ends where the server keeps no more, with what the snapshot knows in front of it", () => {
  const events = answerEvents();
  const later = numbered(
    [event("agent_start", { ref: "p2" }), event("agent_end", { ref: "p2", usage: usage(), stop_reason: "end" })],
    41,
  );
  const messages = [
    { role: "user", ref: "p1", content: [{ kind: "text", text: "Old" }] },
    { role: "assistant", model: "m", content: [{ kind: "text", text: "Older answer" }] },
    { role: "user", ref: "p2", content: [{ kind: "text", text: "New" }] },
  ];
  const view = viewOfSnapshot({ ...snapshotAt(42, messages), first_seq: 41 });
  const whole = prepend(view, later, 41);
  assert.deepEqual(
    whole.items.map((item) => item.key),
    ["prompt:p1", "message:1", "prompt:p2"],
  );
  assert.equal(whole.first_seq, 41);
  assert.equal(whole.kept_first, 41);
  // Nothing older comes: the same view again.
  assert.equal(prepend(whole, [], 41), whole);
  assert.equal(prepend(whole, events.slice(0, 0)), whole);
});

// --- C-003, C-013

test("a retry in mid-stream: the words that were discarded go, the attempt is named, nothing is doubled", () => {
  const events = numbered([
    event("prompt_received", { ref: "p1", content: [{ kind: "text", text: "Hello" }] }),
    event("agent_start", { ref: "p1" }),
    event("request_start", { model: "m", messages: 1, attempt: 1 }),
    event("message_start", { attempt: 1 }),
    event("message_delta", { delta: "Half an ans", attempt: 1, ephemeral: true }),
    event("stream_error", { error: { code: "transport", message: "lost" }, attempt: 1, discarded: true }),
    event("retry", { attempt: 2, delay_ms: 2000, error: { code: "transport", message: "lost" } }),
    event("request_start", { model: "m", messages: 1, attempt: 2 }),
    event("message_start", { attempt: 2 }),
    event("message_delta", { delta: "All ", attempt: 2, ephemeral: true }),
    event("message_delta", { delta: "of it.", attempt: 2, ephemeral: true }),
  ]);
  const at = (/** @type {number} */ many) => foldAll(emptyView("s"), events.slice(0, many));
  assert.equal(at(5).live?.text, "Half an ans");
  assert.equal(at(6).live, null);
  const paused = at(7);
  assert.equal(paused.retry?.delay_ms, 2000);
  const [answer, ...others] = ofType(paused, "answer");
  assert.deepEqual(others, []);
  assert.equal(answer.state, "pausing");
  assert.deepEqual(answer.attempts, [
    { attempt: 1, error: { code: "transport", message: "lost" }, discarded: true, delay_ms: 2000, at_ms: 6 },
  ]);
  const streaming = at(events.length);
  assert.equal(streaming.live?.text, "All of it.");
  assert.equal(streaming.live?.attempt, 2);
  assert.equal(streaming.live?.key, answer.key);
  assert.equal(streaming.retry, null);
  // One that joins now, by a snapshot and a page, shows the same.
  const late = prepend(
    viewOfSnapshot({
      ...snapshotAt(streaming.seq, [], "streaming"),
      live: { attempt: 2, text: "All of it.", thinking: "" },
    }),
    events,
    1,
  );
  assert.deepEqual(late.items, streaming.items);
  assert.deepEqual(late.live, streaming.live);
  // Words of the attempt that was given up, which come late, are those of an older event.
  assert.equal(fold(streaming, { .../** @type {any} */ (events[4]), seq: 4 }), streaming);
});

test("words that come out of nothing are shown, and said to be incomplete; so are those behind a lag", () => {
  const view = foldAll(emptyView("s"), answerEvents().slice(0, 4));
  const started = fold(view, event("message_delta", { seq: view.seq, delta: "…end", attempt: 1, ephemeral: true }));
  assert.equal(started.live?.incomplete, false);
  assert.equal(withLag(started).live?.incomplete, true);
  const joined = fold(
    { ...view, live: null },
    event("message_delta", { seq: view.seq, delta: "…end", attempt: 1, ephemeral: true }),
  );
  assert.equal(joined.live?.incomplete, true);
  assert.equal(joined.live?.text, "…end");
});

test("a call whose beginning is not known has a card of its own with what is known", () => {
  const result = { call_id: "c9", name: "shell", text: "done", is_error: true };
  const view = foldAll(viewOfSnapshot(snapshotAt(40, [])), [
    event("tool_execution_end", { seq: 41, name: "shell", call_id: "c9", result }),
  ]);
  const item = itemOf(view, "call:c9");
  assert.equal(item?.type === "call" && item.call.state, "failed");
  assert.equal(item?.type === "call" && item.call.arguments, null);
});

// --- children

test("children stand in one another down to eight, with what waits for a person in each", () => {
  const approval = { id: "a1", call_id: "c", tool: "shell", arguments: {}, arguments_hash: "", path: [] };
  let inner = event("approval_required", { seq: 1, approval });
  for (let depth = 12; depth > 0; depth -= 1) {
    inner = event("subagent_event", { seq: 1, child_id: `d${depth}`, call_id: "c", depth: 1, event: inner });
  }
  let view = fold(emptyView("s"), inner);
  let depth = 0;
  while (Object.values(view.children)[0]?.view) {
    view = /** @type {any} */ (Object.values(view.children)[0]).view;
    depth += 1;
  }
  assert.equal(depth, MAX_DEPTH - 1);
  const shallow = fold(
    emptyView("s"),
    event("subagent_event", {
      seq: 1,
      child_id: "k",
      call_id: "c",
      depth: 1,
      event: event("approval_required", { seq: 7, approval }),
    }),
  );
  assert.deepEqual(allApprovals(shallow), ["a1"]);
  // A child's numbers have gaps on the session above, and duplicates still change nothing.
  const again = fold(
    shallow,
    event("subagent_event", {
      seq: 2,
      child_id: "k",
      call_id: "c",
      depth: 1,
      event: event("approval_required", { seq: 7, approval }),
    }),
  );
  assert.deepEqual(again.children.k?.view?.items, shallow.children.k?.view?.items);
});

// --- views as values

test("a view that was handed out never changes, and two that grow out of it do not know each other", () => {
  const events = answerEvents();
  const view = foldAll(emptyView("s"), events.slice(0, 4));
  const before = structuredClone(view);
  const one = foldAll(view, events.slice(4));
  const other = foldAll(view, numbered([event("agent_abort", { ref: "p1", reason: "no" })], view.seq + 1));
  assert.deepEqual(structuredClone({ ...view, inner: null }), { ...before, inner: null });
  assert.equal(ofType(one, "answer")[0].state, "complete");
  assert.equal(ofType(other, "answer")[0].state, "stopped");
  // Both go on from where they are, and put pages in front, each with its own past.
  assert.deepEqual(
    prepend({ ...other, first_seq: 3, inner: { ...other.inner } }, events.slice(0, 2)).items.length > 0,
    true,
  );
  assert.equal(foldAll(one, []).items, one.items);
});

test("a delta changes no list, and an item that an event does not touch stays the same object", () => {
  const events = answerEvents();
  const view = foldAll(emptyView("s"), events.slice(0, 4));
  const more = fold(view, event("message_delta", { seq: view.seq, delta: "x", attempt: 1, ephemeral: true }));
  assert.equal(more.items, view.items);
  const whole = foldAll(view, events.slice(4));
  assert.equal(whole.items[0] === view.items[0] || whole.items[0]?.type === "prompt", true);
  const before = foldAll(emptyView("s"), events);
  const next = foldAll(before, numbered([event("plugin_event", { name: "n", payload: {} })], before.seq + 1));
  for (const [place, item] of before.items.entries()) assert.equal(next.items[place], item);
  // Also where older events come in front.
  const tail = prepend(viewOfSnapshot(snapshotAt(before.seq, [])), events.slice(5));
  const full = prepend(tail, events.slice(0, 5));
  assert.deepEqual(full.items, before.items);
  const again = prepend({ ...full, first_seq: 2 }, [/** @type {any} */ (events[0])]);
  for (const [place, item] of full.items.entries()) assert.equal(again.items[place], item);
});

test("the oldest events are let go of, and can be put in front again", () => {
  const events = numbered(
    Array.from({ length: 100 }, (_, place) => event("plugin_event", { name: `n${place}`, payload: {} })),
  );
  const view = foldAll(emptyView("s"), events);
  const short = trimmed(view, 50);
  assert.equal(short.items.length, 45);
  assert.equal(short.first_seq, 56);
  assert.equal(short.seq, 100);
  assert.equal(trimmed(short, 50), short);
  assert.deepEqual(prepend(short, events.slice(0, 55)).items, view.items);
});

test("ten thousand events are folded at once, one by one, and behind a page, without going through all for each", () => {
  const events = numbered(
    Array.from({ length: 2500 }, (_, place) => [
      event("tool_execution_start", { name: "read", call_id: `c${place}`, arguments: {} }),
      event("tool_execution_end", {
        name: "read",
        call_id: `c${place}`,
        result: { call_id: `c${place}`, name: "read", text: "x" },
      }),
      event("tool_execution_metrics", {
        name: "read",
        call_id: `c${place}`,
        started_at_ms: 0,
        ended_at_ms: 1,
        duration_ms: 1,
      }),
      event("plugin_event", { name: "n", payload: {} }),
    ]).flat(),
  );
  const began = process.cpuUsage();
  const view = foldAll(emptyView("s"), events);
  let slow = emptyView("s");
  for (const one of events) slow = fold(slow, one);
  assert.equal(slow.items.length, view.items.length);
  for (let turn = 0; turn < 20_000; turn += 1) {
    slow = fold(slow, event("message_delta", { seq: slow.seq, delta: "word ", attempt: 1, ephemeral: true }));
  }
  assert.equal(slow.live?.text.length, 100_000);
  const { user } = process.cpuUsage(began);
  assert.ok(user < 4_000_000, `took ${user / 1000} ms`);
});

function usage() {
  return { input: 1, output: 1, cache_read: 0, cache_write: 0, reasoning: 0, cost_usd: 0.1, estimated: false };
}

test("a question belongs to the call that it names, where several run, and to none where an older server names none", () => {
  const started = ["c1", "c2"].map((id) =>
    event("tool_execution_start", { name: `tool-${id}`, call_id: id, arguments: {} }),
  );
  const asks = (/** @type {any} */ named) =>
    foldAll(emptyView("s"), numbered([...started, event("ask_user", { ref: "q1", question: "Which?", ...named })]));
  const named = asks({ call_id: "c2" });
  assert.equal(named.questions[0]?.["call_id"], "c2");
  const item = itemOf(named, "question:q1");
  assert.equal(item?.type === "decision" && item.call_id, "c2");
  assert.equal(asks({}).questions[0]?.["call_id"], null);
});

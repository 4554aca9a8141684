// The connection without a browser: clock, timers, sockets and chance are given to it by the test.

import assert from "node:assert/strict";
import { test } from "node:test";
import { HANDSHAKE_MS } from "../../../agentrail/gateway/console/pure/back_off.js";
import { Connection, HIDDEN_MS } from "../../../agentrail/gateway/console/wire/socket.js";

/** A clock with its timers: `pass(ms)` runs what is due, in order. */
class Clock {
  now = 1_000_000;
  waiting = [];
  timers = {
    set: (run, ms) => {
      const timer = { at: this.now + ms, run };
      this.waiting.push(timer);
      return timer;
    },
    clear: (timer) => {
      this.waiting = this.waiting.filter((one) => one !== timer);
    },
  };

  pass(ms) {
    const until = this.now + ms;
    for (;;) {
      const next = this.waiting.filter((one) => one.at <= until).sort((one, other) => one.at - other.at)[0];
      if (next === undefined) break;
      this.waiting = this.waiting.filter((one) => one !== next);
      this.now = next.at;
      next.run();
    }
    this.now = until;
  }
}

/** Opens a connection whose sockets are ours. */
function rig(options = {}) {
  const clock = new Clock();
  const sockets = [];
  class FakeSocket {
    constructor(url, protocols) {
      this.url = url;
      this.protocols = protocols;
      this.sent = [];
      this.isClosed = false;
      this.answersPings = true;
      sockets.push(this);
    }

    send(text) {
      const frame = JSON.parse(text);
      this.sent.push(frame);
      if (frame.type === "ping" && this.answersPings) this.say({ type: "pong", n: frame.n });
    }

    close() {
      this.isClosed = true;
    }

    say(...frames) {
      for (const frame of frames) this.onmessage?.({ data: typeof frame === "string" ? frame : JSON.stringify(frame) });
    }

    of(type) {
      return this.sent.filter((frame) => frame.type === type);
    }
  }
  let id = 0;
  const connection = new Connection({
    url: "ws://here/ws",
    token: options.token ?? null,
    now: () => clock.now,
    timers: clock.timers,
    WebSocketClass: FakeSocket,
    random: () => 0.5,
    newId: () => `id-${++id}`,
  });
  connection.features = new Set(options.features ?? ["watch", "replay_frames"]);
  connection.start();
  const last = () => sockets.at(-1);
  const open = (welcome = {}) => {
    last().onopen();
    last().say({ type: "welcome", protocol: "agentrail.v1", heartbeat: 15, instance: "i-1", ...welcome });
    return last();
  };
  return { clock, sockets, connection, last, open };
}

const event = (seq, fields = {}) => ({ type: "event", event: { kind: "note", session_id: "a", seq, ...fields } });

function reader() {
  const seen = { snapshots: [], seqs: [], gaps: [], resumed: 0, ends: [] };
  return {
    seen,
    onSnapshot: (snapshot, seq) => seen.snapshots.push([snapshot, seq]),
    onEvents: (events) => seen.seqs.push(...events.map((one) => one.seq)),
    onGap: (lost) => seen.gaps.push(lost),
    onResume: () => {
      seen.resumed += 1;
    },
    onEnd: (reason) => seen.ends.push(reason),
  };
}

test("says hello with its token in the frame, and in no address", () => {
  const { connection, open, last } = rig({ token: "agt_secret" });
  const socket = open();
  assert.deepEqual(socket.protocols, ["agentrail.v1"]);
  assert.equal(last().url.includes("secret"), false);
  assert.deepEqual(socket.sent[0], { type: "hello", heartbeat: 15, token: "agt_secret", replay_frames: true });
  assert.equal(connection.state.name, "live");
});

test("asks an older server for no replay frames, and watches nothing there", () => {
  const { connection, open } = rig({ features: [] });
  const socket = open();
  assert.deepEqual(socket.sent, [{ type: "hello", heartbeat: 15 }]);
  let refused = null;
  connection.watch(
    "sessions",
    {},
    {
      onRows: () => {},
      onRefused: (error) => {
        refused = error.code;
      },
    },
  );
  assert.equal(refused, "feature_missing");
  assert.equal(socket.of("watch").length, 0);
});

test("gives a handshake up after ten seconds and tries again; a 401 is not tried again (C-007)", () => {
  const { clock, sockets, connection, last } = rig();
  clock.pass(HANDSHAKE_MS - 1);
  assert.equal(sockets.length, 1);
  clock.pass(1);
  assert.equal(connection.state.name, "lost");
  assert.equal(connection.counters.given_up, 1);
  assert.equal(sockets[0].isClosed, true);
  clock.pass(1_000);
  assert.equal(sockets.length, 2);
  let asked = 0;
  connection.onUnauthorized = () => {
    asked += 1;
  };
  last().onopen();
  last().onclose({ code: 4401, reason: "unauthorized" });
  clock.pass(600_000);
  assert.equal(sockets.length, 2);
  assert.equal(asked, 1);
  assert.equal(connection.state.name, "refused");
  connection.useToken("other");
  assert.equal(sockets.length, 3);
});

test("a handshake counts until welcome, not until the socket is open", () => {
  const { clock, connection, last } = rig();
  last().onopen();
  clock.pass(HANDSHAKE_MS);
  assert.equal(connection.state.name, "lost");
});

test("a server that is too slow gets twice the time, until an attempt fails in time", () => {
  const { clock, sockets, connection, last } = rig();
  /** The time limit of the attempt that runs now, to its end, and past the wait behind it. */
  const limit = () => {
    const began = clock.now;
    while (connection.state.next_try_ms === null || connection.state.next_try_ms <= clock.now) clock.pass(500);
    const took = clock.now - began;
    clock.pass(connection.state.next_try_ms - clock.now);
    return took;
  };
  assert.deepEqual([limit(), limit(), limit(), limit(), limit()], [10_000, 20_000, 40_000, 60_000, 60_000]);
  last().onclose({ code: 1006 });
  clock.pass(connection.state.next_try_ms - clock.now);
  assert.equal(limit(), 10_000);
  assert.equal(sockets.length, 8);
});

test("comes back for ever, and says when it tries next", () => {
  const { clock, sockets, connection, last } = rig();
  for (let round = 0; round < 40; round += 1) {
    last().onclose({ code: 1006 });
    assert.equal(connection.state.name, "lost");
    const wait = connection.state.next_try_ms - clock.now;
    assert.ok(wait > 0 && wait <= 10_000);
    clock.pass(wait);
    assert.equal(sockets.length, round + 2);
  }
});

test("a connection that lasted begins the waiting anew, one that did not does not", () => {
  const { clock, connection, last, open } = rig();
  for (let round = 0; round < 8; round += 1) {
    last().onclose({ code: 1006 });
    clock.pass(10_000);
  }
  open();
  clock.pass(1_000);
  last().onclose({ code: 1006 });
  assert.ok(connection.state.next_try_ms - clock.now > 5_000);
  clock.pass(10_000);
  open();
  clock.pass(6_000);
  last().onclose({ code: 1006 });
  assert.ok(connection.state.next_try_ms - clock.now < 300);
});

test("reads on from the last number; what comes twice is counted and ignored", () => {
  const { clock, connection, open } = rig();
  const one = reader();
  connection.subscribe("a", one);
  const first = open();
  assert.equal(first.of("subscribe")[0].after, undefined);
  first.say({
    type: "subscribed",
    id: first.of("subscribe")[0].id,
    session_id: "a",
    seq: 4,
    snapshot: { phase: "IDLE" },
  });
  first.say(event(5), event(6), event(6), event(3), event(6, { ephemeral: true, seq: 6 }));
  assert.deepEqual(one.seen.seqs, [5, 6, 6]);
  assert.equal(connection.counters.doubled, 2);
  first.onclose({ code: 1006 });
  clock.pass(10_000);
  const second = open();
  assert.equal(second.of("subscribe")[0].after, 6);
  assert.equal(one.seen.resumed, 1);
  second.say({ type: "events", session_id: "a", events: [5, 6, 7, 8].map((seq) => event(seq).event) });
  assert.deepEqual(one.seen.seqs.slice(3), [7, 8]);
  let back = null;
  connection.onCaughtUp = (count) => {
    back = count;
  };
  clock.pass(1_000);
  assert.equal(back, 2);
});

test("a hole in the numbers is asked for once, and taken for meant where it comes again", () => {
  const { connection, open } = rig();
  const one = reader();
  connection.subscribe("a", { ...one, after: 2 });
  const socket = open();
  socket.say(event(3), event(6));
  assert.deepEqual(one.seen.seqs, [3]);
  assert.equal(socket.of("subscribe").length, 2);
  assert.equal(socket.of("subscribe")[1].after, 3);
  socket.say(event(7)); // of the subscription before, still under way
  assert.deepEqual(one.seen.seqs, [3]);
  socket.say({ type: "subscribed", id: socket.of("subscribe")[1].id, session_id: "a", seq: 3 }, event(6), event(7));
  assert.deepEqual(one.seen.seqs, [3, 6, 7]);
});

test("what is kept no longer is told, and the snapshot follows (C-006)", () => {
  const { connection, open } = rig();
  const one = reader();
  connection.subscribe("a", { ...one, after: 12 });
  const socket = open();
  const { id } = socket.of("subscribe")[0];
  socket.say(event(80, { kind: "events_lost", from_seq: 13, to_seq: 80 }));
  socket.say({ type: "subscribed", id, session_id: "a", seq: 80, snapshot: { phase: "IDLE" } }, event(81));
  assert.deepEqual(one.seen.gaps, [{ from_seq: 13, to_seq: 80 }]);
  assert.deepEqual(one.seen.seqs, [81]);
});

test("a command is sent once it is back, under the same name, and answered once (C-004)", async () => {
  const { clock, connection, open } = rig();
  const sent = connection.command("prompt", "a", { message: "Hi" });
  const first = open();
  assert.equal(first.of("prompt").length, 1);
  first.onclose({ code: 1006 });
  clock.pass(10_000);
  const second = open();
  assert.deepEqual(second.of("prompt"), first.of("prompt"));
  assert.equal(second.of("prompt")[0].client_id, "id-1");
  second.say({ type: "reply", id: second.of("prompt")[0].id, ok: true, result: { ref: "r" } });
  assert.deepEqual(await sent, { ref: "r" });
  second.onclose({ code: 1006 });
  clock.pass(10_000);
  assert.equal(open().of("prompt").length, 0);
});

test("what a command is refused with is an error with the server's words", async () => {
  const { connection, open } = rig();
  const sent = connection.command("approve", "a", {});
  const socket = open();
  socket.say({
    type: "reply",
    id: socket.of("approve")[0].id,
    ok: false,
    error: { code: "already_resolved", status: 409, message: "m", hint: "h", decided: { by: "bob" } },
  });
  await assert.rejects(
    sent,
    (error) => error.code === "already_resolved" && error.status === 409 && error.more.decided.by === "bob",
  );
});

test("commands of a token that is refused are not left open", async () => {
  const { connection, open, last } = rig();
  const sent = connection.command("prompt", "a", {});
  open();
  last().onclose({ code: 4401 });
  await assert.rejects(sent, { status: 401 });
  await assert.rejects(connection.command("prompt", "a", {}), { status: 401 });
});

test("rows of a feed are merged by their keys, and begin anew after a return", () => {
  const { clock, connection, open } = rig();
  const told = [];
  const off = connection.watch(
    "sessions",
    { limit: 2 },
    { onRows: (rows, total) => told.push([[...rows.keys()], total]) },
  );
  const first = open();
  const { id, filter } = first.of("watch")[0];
  assert.deepEqual(filter, { limit: 2 });
  first.say({ type: "watching", id, what: "sessions", rows: [{ session_id: "a" }, { session_id: "b" }], total: 5 });
  first.say({ type: "changed", id, rows: [{ session_id: "c" }], gone: ["a"], total: 4 });
  assert.deepEqual(told, [
    [["a", "b"], 5],
    [["b", "c"], 4],
  ]);
  first.onclose({ code: 1006 });
  clock.pass(10_000);
  const second = open();
  second.say({ type: "watching", id: second.of("watch")[0].id, what: "sessions", rows: [], total: 0 });
  assert.deepEqual(told.at(-1), [[], 0]);
  off();
  assert.equal(second.of("unwatch").length, 1);
});

test("a tab hidden for a minute drops deltas and watches, and comes back by number", () => {
  const { clock, connection, open } = rig();
  const one = reader();
  connection.subscribe("a", { ...one, after: 3 });
  connection.watch("sessions", {}, { onRows: () => {} });
  const socket = open();
  connection.setHidden(true);
  clock.pass(HIDDEN_MS - 1);
  assert.equal(socket.of("unwatch").length, 0);
  clock.pass(1);
  assert.equal(socket.of("unwatch").length, 1);
  assert.equal(socket.of("subscribe").at(-1).deltas, false);
  socket.say({ type: "subscribed", id: socket.of("subscribe").at(-1).id, session_id: "a", seq: 3 }, event(4));
  connection.setHidden(false);
  assert.equal(socket.of("watch").length, 2);
  assert.deepEqual([socket.of("subscribe").at(-1).deltas, socket.of("subscribe").at(-1).after], [undefined, 4]);
  assert.equal(connection.state.paused, false);
});

test("a tab that is seen again, or online, tries at once", () => {
  const { sockets, connection, last } = rig();
  last().onclose({ code: 1006 });
  last().onclose?.({ code: 1006 });
  assert.equal(sockets.length, 1);
  connection.setHidden(false);
  assert.equal(sockets.length, 2);
  connection.tryNow();
  assert.equal(sockets.length, 2);
});

test("a server that says nothing any more is left", () => {
  const { clock, connection, open } = rig();
  open().answersPings = false;
  clock.pass(15_000);
  assert.equal(connection.state.name, "live");
  clock.pass(31_000);
  assert.notEqual(connection.state.name, "live");
});

test("a frame that is none, of an unknown kind, or that a reader cannot take ends nothing", (context) => {
  context.mock.method(console, "error", () => {});
  const { connection, open } = rig();
  const one = reader();
  connection.subscribe("a", {
    ...one,
    after: 0,
    onEvents: () => {
      throw new Error("cannot");
    },
  });
  const socket = open();
  socket.say("{", "[]", "null", '{"type":5}', { type: "wonder" }, event(1), {
    type: "lag",
    session_id: "a",
    dropped: 7,
  });
  assert.equal(connection.counters.bad_frames, 4);
  assert.equal(connection.counters.unknown_frames, 1);
  assert.equal(connection.counters.errors, 1);
  assert.equal(connection.counters.lag, 7);
  assert.equal(connection.state.name, "live");
});

test("a session that ended, and one that is refused, are told once and asked for no more", () => {
  const { clock, connection, open } = rig();
  const ended = reader();
  const refused = reader();
  connection.subscribe("a", ended);
  connection.subscribe("b", refused);
  const socket = open();
  const [first, second] = socket.of("subscribe");
  socket.say({ type: "reply", id: first.id, ok: true, result: null });
  socket.say({ type: "reply", id: second.id, ok: false, error: { code: "session_unknown", status: 404, message: "" } });
  assert.deepEqual(ended.seen.ends, [{ ended: true }]);
  assert.equal(refused.seen.ends[0].error.code, "session_unknown");
  socket.onclose({ code: 1001 });
  clock.pass(10_000);
  assert.equal(open().of("subscribe").length, 0);
});

test("a subscription that has to wait is asked for again when its time has come", () => {
  const { clock, connection, open } = rig();
  const one = reader();
  const off = connection.subscribe("a", one);
  const socket = open();
  const refuse = () =>
    socket.say({
      type: "reply",
      id: socket.of("subscribe").at(-1).id,
      ok: false,
      error: { code: "too_many_requests", status: 429, message: "", retry_after: "2" },
    });
  refuse();
  clock.pass(2_000);
  assert.equal(socket.of("subscribe").length, 2);
  refuse();
  off();
  clock.pass(5_000);
  assert.equal(socket.of("subscribe").length, 2);
  assert.deepEqual(one.seen.ends, []);
});

test("another process is told of", () => {
  const { clock, connection, open, last } = rig();
  let restarted = 0;
  connection.onRestarted = () => {
    restarted += 1;
  };
  open();
  last().onclose({ code: 1006 });
  clock.pass(10_000);
  open();
  assert.equal(restarted, 0);
  last().onclose({ code: 1006 });
  clock.pass(10_000);
  open({ instance: "i-2" });
  assert.equal(restarted, 1);
});

test("a session is read once at a time", () => {
  const { connection } = rig();
  const off = connection.subscribe("a", reader());
  assert.throws(() => connection.subscribe("a", reader()), /read already/);
  off();
  off();
  connection.subscribe("a", reader());
});

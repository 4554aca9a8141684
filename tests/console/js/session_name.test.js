// What a session is called, wherever it is shown.

import assert from "node:assert/strict";
import { test } from "node:test";
import { viewOfSnapshot } from "../../../agentrail/gateway/console/pure/fold.js";
import {
  nameBelow,
  nameOf,
  nameOfChild,
  nameOfView,
  namesOfPath,
} from "../../../agentrail/gateway/console/pure/session_name.js";
import { filterOf, fitsWaiting } from "../../../agentrail/gateway/console/pure/session_rows.js";
import { emptyView } from "../../../agentrail/gateway/console/pure/view.js";

/** @param {Record<string, any>} more @returns {any} */
const child = (more) => ({ session_id: "c-1", agent_id: null, description: null, view: null, ...more });

/** @param {string | null} text @param {string} origin @returns {any} */
const prompt = (text, origin = "prompt") => ({
  key: `${origin} ${text}`,
  type: "prompt",
  origin,
  content: text === null ? null : [{ kind: "image" }, { kind: "text", text }],
});

test("a title goes before words, and words before nothing", () => {
  assert.equal(nameOf({ title: "Trip", first_words: "Hi" }), "Trip");
  assert.equal(nameOf({ title: "", first_words: "Hi" }), "Hi");
  assert.equal(nameOf({}), null);
});

test("an open session is called as the snapshot says, else by the first prompt that came since", () => {
  const view = emptyView("s");
  assert.equal(nameOfView(view), null);
  const long = `  Refund\n\n order ${"🧾".repeat(100)}`;
  const asked = { ...view, items: [prompt("steer", "steer"), prompt(long), prompt("later")] };
  assert.equal(nameOfView(asked), `Refund order ${"🧾".repeat(67)}`);
  assert.equal(nameOfView({ ...view, items: [prompt(null)] }), null);
  assert.equal(nameOfView({ ...view, queued: [prompt("Waits")] }), "Waits");
  assert.equal(nameOfView({ ...asked, first_words: "Said" }), "Said");
  assert.equal(nameOfView({ ...asked, title: "Trip" }), "Trip");
  const status = { session_id: "s", phase: "idle" };
  assert.equal(nameOfView(viewOfSnapshot({ status, seq: 3, messages: [], first_words: "Said" })), "Said");
});

test("the sessions of a path are called by their words, and by their ids where there are none", () => {
  const path = [{ session_id: "s-1", title: null }, { session_id: "s-2", title: null, first_words: "Look" }, "s-3"];
  assert.deepEqual(namesOfPath(path, "Trip"), ["Trip", "Look", "s-3"]);
  assert.deepEqual(namesOfPath(path, null), ["s-1", "Look", "s-3"]);
  assert.deepEqual(namesOfPath([], "Trip"), []);
});

test("a session below is called by its agent, its title or what it is to do", () => {
  assert.equal(nameOfChild(child({ agent_id: "scout", description: "Look." })), "scout");
  assert.equal(nameOfChild(child({ description: "Look." })), "Look.");
  assert.equal(nameOfChild(child({ description: "Look.", view: { ...emptyView("c-1"), title: "Trip" } })), "Trip");
  assert.equal(nameOfChild(child({})), "c-1");
  const deep = { ...emptyView("c-1"), children: { "c-2": child({ session_id: "c-2", agent_id: "deep" }) } };
  const view = { ...emptyView("s"), children: { "c-1": child({ view: deep }) } };
  assert.equal(nameBelow(view, "c-2"), "deep");
  assert.equal(nameBelow(view, "c-9"), "c-9");
});

test("what waits is found by every name that its line shows", () => {
  const row = {
    key: "k",
    session_id: "s-1",
    title: null,
    first_words: "Refund 4411",
    path: [
      { session_id: "s-1", title: null },
      { session_id: "s-2", title: null, first_words: "Look for it" },
    ],
    summary: "rm -r build",
    tool: "shell",
    agent_id: "desk",
  };
  for (const q of ["refund", "LOOK", "build", "shell", "desk", "s-1"]) assert.ok(fitsWaiting(row, filterOf({ q })), q);
  assert.ok(!fitsWaiting(row, filterOf({ q: "trip" })));
  assert.ok(fitsWaiting(row, filterOf({ q: "trip" }), { session_id: "s-1", title: "Trip" }));
});

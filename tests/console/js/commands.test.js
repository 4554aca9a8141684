// Which slash commands a draft may be, and which one it is.

import assert from "node:assert/strict";
import { test } from "node:test";

import { commandIn, commandsFor, OFFERED } from "../../../agentrail/gateway/console/pure/commands.js";

const row = (/** @type {string} */ name) => ({
  name,
  description: "",
  arguments: "",
  source: "built in",
  available: true,
  why_not: null,
});
const ROWS = ["help", "status", "steer", "git:commit"].map(row);

test("a draft is a command as a whole, without regard to case", () => {
  assert.deepEqual(commandIn(ROWS, " /Git:Commit all\nof it "), { row: ROWS[3], text: "all\nof it" });
  assert.deepEqual(commandIn(ROWS, "/help"), { row: ROWS[0], text: "" });
  for (const draft of ["/etc/hosts is wrong", "help", "/helper", "say /help", "/", ""])
    assert.equal(commandIn(ROWS, draft), null);
});

test("those are offered whose names begin so, until something stands behind the name", () => {
  const named = (draft) => commandsFor(ROWS, draft).map((one) => one.name);
  assert.deepEqual(named("/ST"), ["status", "steer"]);
  assert.equal(named("/").length, 4);
  for (const draft of ["", "st", "/st x", "/status ", "/zzz"]) assert.deepEqual(named(draft), []);
  assert.equal(commandsFor([..."abcdefghijkl"].map(row), "/").length, OFFERED);
});

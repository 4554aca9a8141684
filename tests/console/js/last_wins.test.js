// C-027: what a slider wants is asked a moment after its last move, one request at a time, and the last one wins.

import assert from "node:assert/strict";
import { test } from "node:test";
import { LastWins } from "../../../agentrail/gateway/console/pure/last_wins.js";

/** A clock that a test turns, and answers that it gives. */
function world() {
  /** @type {{ at: number, run: () => void }[]} */
  let due = [];
  let now = 0;
  /** @type {Map<any, { resolve: (value: any) => void, reject: (error: any) => void }>} */
  const open = new Map();
  /** @type {any[]} */
  const asked = [];
  /** @type {any[]} */
  const told = [];
  let most = 0;
  const wishes = new LastWins({
    timers: {
      setTimeout: (run, ms) => {
        const timer = { at: now + ms, run };
        due.push(timer);
        return timer;
      },
      clearTimeout: (timer) => {
        due = due.filter((one) => one !== timer);
      },
    },
    ask: (wanted) => {
      asked.push(wanted);
      return new Promise((resolve, reject) => {
        open.set(wanted, { resolve, reject });
        most = Math.max(most, open.size);
      });
    },
    tell: (wanted, answer) => told.push([wanted, answer]),
    fail: (wanted, error) => told.push([wanted, `${error}`]),
  });
  const settle = async () => {
    for (let turn = 0; turn < 5; turn += 1) await null;
  };
  return {
    wishes,
    asked,
    told,
    most: () => most,
    pass: async (/** @type {number} */ ms) => {
      now += ms;
      for (const timer of due.filter((one) => one.at <= now)) {
        due = due.filter((one) => one !== timer);
        timer.run();
      }
      await settle();
    },
    answer: async (/** @type {any} */ wanted, /** @type {any} */ error = null) => {
      const one = open.get(wanted);
      open.delete(wanted);
      if (error === null) one?.resolve(`state ${wanted}`);
      else one?.reject(error);
      await settle();
    },
  };
}

test("two fast drags ask once, for the last number", async () => {
  const { wishes, asked, told, pass, answer } = world();
  for (let number = 1; number <= 40; number += 1) {
    wishes.want(number);
    await pass(10);
  }
  for (let number = 40; number >= 7; number -= 1) {
    wishes.want(number);
    await pass(10);
  }
  assert.deepEqual(asked, []);
  await pass(119);
  assert.deepEqual(asked, [7]);
  await answer(7);
  assert.deepEqual(told, [[7, "state 7"]]);
});

test("a drag while a request is under way waits for its end, and its answer is not told", async () => {
  const { wishes, asked, told, most, pass, answer } = world();
  wishes.want(1);
  await pass(120);
  wishes.want(2);
  await pass(120);
  wishes.want(3);
  await pass(500);
  assert.deepEqual(asked, [1]);
  await answer(1);
  assert.deepEqual(asked, [1, 3]);
  assert.deepEqual(told, []);
  wishes.want(4);
  await answer(3);
  assert.deepEqual([asked, told], [[1, 3], []], "the last wish has not rested for 120 ms");
  await pass(120);
  await answer(4);
  assert.deepEqual(told, [[4, "state 4"]]);
  assert.equal(most(), 1);
});

test("one that fails is told, one that is out of date is not, and the next wish is asked", async () => {
  const { wishes, told, pass, answer } = world();
  wishes.want(1, { now: true });
  await answer(1, new Error("no"));
  assert.deepEqual(told, [[1, "Error: no"]]);
  wishes.want(2, { now: true });
  wishes.want(3);
  await pass(120);
  await answer(2, new Error("out of date"));
  await answer(3);
  assert.deepEqual(told.slice(1), [[3, "state 3"]]);
});

test("behind its end nothing is told and nothing asked", async () => {
  const { wishes, asked, told, pass, answer } = world();
  wishes.want(1, { now: true });
  wishes.want(2);
  wishes.stop();
  await pass(1_000);
  await answer(1);
  assert.deepEqual([asked, told], [[1], []]);
});

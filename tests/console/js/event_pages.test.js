// A page of events shows all the words that the server cut out of it; what calls said is loaded by their cards.

import assert from "node:assert/strict";
import { test } from "node:test";

import { emptyView, foldAll } from "../../../agentrail/gateway/console/pure/fold.js";
import { getEventPage } from "../../../agentrail/gateway/console/wire/event_pages.js";

const CUT = { $cut: 40_000 };
const WORDS = "word ".repeat(8_000);

/** @param {number} seq @param {any} text */
const prompt = (seq, text) => ({ kind: "prompt_received", seq, ref: `p-${seq}`, content: [{ kind: "text", text }] });

/** @param {number} seq @param {any} text @param {any} [asked] */
const answer = (seq, text, asked = {}) => ({
  kind: "response_complete",
  seq,
  message: {
    content: [
      { kind: "text", text },
      { kind: "tool_call", call_id: "c", name: "x", arguments: asked },
    ],
  },
});

/**
 * A server that cuts, and gives single events whole.
 * @param {any[]} cut
 * @param {any[]} whole
 */
function serverOf(cut, whole) {
  /** @type {any[]} */
  const asked = [];
  let running = 0;
  const server = { asked, most: 0 };
  const get = async (/** @type {string} */ path, /** @type {any} */ params) => {
    if (!params.whole) return { events: structuredClone(cut), more: false };
    asked.push({ path, ...params });
    running += 1;
    server.most = Math.max(server.most, running);
    await null;
    running -= 1;
    return { events: whole.filter((event) => event.seq > params.after).slice(0, params.limit) };
  };
  return { ...server, api: /** @type {any} */ ({ get }), most: () => server.most };
}

/** @type {[string, any, any][]} */
const SAID = [
  ["a prompt", prompt(3, CUT), prompt(3, WORDS)],
  ["a prompt cut as a list", { ...prompt(3, ""), content: CUT }, prompt(3, WORDS)],
  ["an answer", answer(3, CUT), answer(3, WORDS)],
  ["a steer", { kind: "steering_received", seq: 3, text: CUT }, { kind: "steering_received", seq: 3, text: WORDS }],
];

for (const [name, cut, whole] of SAID) {
  test(`${name} is fetched whole`, async () => {
    const server = serverOf([prompt(2, "short"), cut], [prompt(2, "short"), whole]);
    const page = await getEventPage(server.api, "a/b", { before: 9, limit: 200 });
    assert.deepEqual(page.events, [prompt(2, "short"), whole]);
    const [asked] = server.asked;
    assert.deepEqual(asked, { path: "sessions/a%2Fb/events", format: "json", after: 2, limit: 1, whole: true });
    assert.equal(server.asked.length, 1);
  });
}

test("what belongs to calls is not fetched", async () => {
  const events = [
    answer(1, "short", { content: CUT }),
    { kind: "tool_execution_end", seq: 2, result: { text: CUT } },
    { kind: "agent_end", seq: 3, messages: CUT },
  ];
  const server = serverOf(events, []);
  assert.deepEqual((await getEventPage(server.api, "s", { before: 9 })).events, events);
  assert.deepEqual(server.asked, []);
});

test("many are fetched four at a time, and each comes to its place", async () => {
  const numbers = Array.from({ length: 30 }, (_, at) => at + 1);
  const whole = numbers.map((seq) => prompt(seq, `${seq} ${WORDS}`));
  const server = serverOf(
    numbers.map((seq) => prompt(seq, CUT)),
    whole,
  );
  assert.deepEqual((await getEventPage(server.api, "s", { after: 0 })).events, whole);
  assert.equal(server.most(), 4);
});

test("an event that no longer counts stays cut, and its mark is never words", async () => {
  const server = serverOf([answer(3, CUT)], [answer(4, "another")]);
  const { events } = await getEventPage(server.api, "s", { after: 0 });
  assert.deepEqual(events, [answer(3, CUT)]);
  const [item] = foldAll(emptyView("s"), [{ at_ms: 1, attempt: 1, ...events[0] }]).items;
  assert.equal(/** @type {any} */ (item).text, "");
});

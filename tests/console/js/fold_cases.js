// What the tests of the fold share: the pairs of events and snapshots that tests/console/fold_cases.py makes, and what of a view is compared.
// No DOM and no files, so that it runs in a browser too; the cases are given to it.

import { foldAll, prepend, viewOfSnapshot } from "../../../agentrail/gateway/console/pure/fold.js";

/** @typedef {import("../../../agentrail/gateway/console/pure/view.js").View} View */
/** @typedef {import("../../../agentrail/gateway/console/pure/view.js").Item} Item */
/** @typedef {import("../../../agentrail/gateway/console/pure/view.js").WireEvent} WireEvent */

/** @typedef {{name: string, session_id: string, first: any, steps: {events: WireEvent[], snapshot: any}[]}} Case */

/** What no event says, by case: the host is asked about a call, or told of one, and the turn goes on behind that. */
const HOST_HOLDS = new Set(["host_lets_run", "host_of_a_child", "host_restarted", "host_told"]);

/** A hook behind a batch waits, and no event says so: the next turn begins behind that. */
const HOOK_HOLDS = new Set(["held_batch", "held_batch_after_a_restart", "memory_below"]);

/** Where the number of the turn is said by no event. */
const TURN_UNTOLD = new Set([...HOST_HOLDS, ...HOOK_HOLDS]);

/** A question of a tool that runs beside others: its event does not name the call, so it is open until they all have ended. */
const ASKS_BESIDE_OTHERS = new Set(["tool_asks_in_vain"]);

/** A tool was stopped, or the session ends: what is torn down then is said by no event. */
const TEARS_DOWN = new Set([
  "abort_tool_survivor_stuck",
  "agents_aborted",
  "detached_and_a_plugin",
  "stop_while_tools_run",
  "stop_with_survivors",
]);

/** Events behind which more was spent than the events in between say. */
const SPENDS = new Set([
  "stream_error",
  "retry",
  "agent_abort",
  "agent_error",
  "compact_start",
  "subagent_start",
  "session_restarted",
  "session_recovered",
  "content_policy_violated",
  "session_end",
]);
const SPENDS_OTHERWISE = new Set([
  "abort_of_one_of_two",
  "agents_bad_input",
  "agents_budget",
  "agents_tell",
  "held_and_paid",
  "held_end_steered",
  "held_prompt_times_out",
  "host_of_a_child",
  "reflection_reviewer",
  "subagent_budget",
]);

/**
 * How a view says that its session stands.
 * @param {View} view
 * @param {string} name of the case
 * @param {Set<string>} kinds that there were so far
 * @returns {Record<string, unknown>}
 */
function stateOf(view, name, kinds) {
  const spends = SPENDS_OTHERWISE.has(name) || [...kinds].some((kind) => SPENDS.has(kind));
  return {
    seq: view.seq,
    model: view.model,
    agent: view.agent,
    suspended: view.suspended,
    restarts: view.restarts,
    phase: HOST_HOLDS.has(name) ? null : view.phase,
    turn: TURN_UNTOLD.has(name) ? null : view.turn,
    tearing_down: TEARS_DOWN.has(name) ? null : view.tearing_down,
    approvals: view.approvals,
    questions: ASKS_BESIDE_OTHERS.has(name) ? null : view.questions.map((one) => [one.ref, one.question]),
    client_calls: view.client_calls.map((one) => [one.ref, one.name, one.arguments]),
    queued: view.queued.map((one) => [one.ref, one.content]),
    steers: view.steers.map((one) => [one.ref, one.text]),
    todos: view.todos,
    text: view.live?.text ?? "",
    children: Object.values(view.children)
      .filter((one) => !one.ended)
      .map((one) => one.session_id)
      .sort(),
    usage: spends ? null : view.usage,
  };
}

/**
 * The calls at work, of a snapshot and of a fold. The fold's may have more: one that waits, for a slot, a pause or a person, has begun too.
 * @param {View} view
 * @param {any} snapshot
 * @returns {string[]} what is wrong
 */
function wrongCalls(view, snapshot) {
  const faults = [];
  const held = new Set([...view.questions, ...view.client_calls, ...view.approvals].map((one) => one.call_id));
  for (const tool of snapshot.status.running_tools) {
    if (tool.stopping && view.running[tool.call_id]) faults.push(`${tool.call_id} is stopped and said to run`);
    // One that goes on in the background is answered: no page draws it as running because a server does.
    const isDrawn = !tool.stopping && !tool.detached;
    if (isDrawn && !view.running[tool.call_id]) faults.push(`${tool.call_id} runs and is not said to`);
    if (tool.detached && view.running[tool.call_id])
      faults.push(`${tool.call_id} is in the background and said to run`);
  }
  const result = new Set(
    snapshot.messages.flatMap((/** @type {any} */ one) => (one.results ?? []).map((/** @type {any} */ r) => r.call_id)),
  );
  for (const [id, call] of Object.entries(view.running)) {
    // In the history one that survives an abort has a result that says so.
    if (result.has(id) && !view.items.some((item) => item.type === "notice" && item.kind === "agent_abort"))
      faults.push(`${id} has ended`);
    if (call.result !== null && !held.has(id)) faults.push(`${id} has a result`);
  }
  return faults;
}

/**
 * What a fold of a case gets wrong, step by step.
 * @param {Case} one
 * @param {(events: WireEvent[]) => WireEvent[]} [sent] what the reader gets in place of the events of a step
 * @returns {string[]}
 */
export function faultsOf(one, sent = (events) => events) {
  /** @type {string[]} */
  const faults = [];
  /** @type {Set<string>} */
  const kinds = new Set();
  let view = viewOfSnapshot(one.first);
  for (const [place, step] of one.steps.entries()) {
    for (const event of step.events) kinds.add(event.kind);
    view = foldAll(view, sent(step.events));
    if (view.torn_at !== null) return [`${one.name} ${place}: an event came too early: ${view.torn_at}`];
    const told = stateOf(view, one.name, kinds);
    const right = stateOf(viewOfSnapshot(step.snapshot), one.name, kinds);
    for (const [name, value] of Object.entries(right)) {
      if (JSON.stringify(told[name]) !== JSON.stringify(value)) {
        faults.push(
          `${one.name} ${place}: ${name} is ${JSON.stringify(told[name])}, the snapshot says ${JSON.stringify(value)}`,
        );
      }
    }
    faults.push(...wrongCalls(view, step.snapshot).map((fault) => `${one.name} ${place}: ${fault}`));
  }
  const last = one.steps.at(-1);
  if (last !== undefined) faults.push(...wrongWords(view, last.snapshot).map((fault) => `${one.name}: ${fault}`));
  return faults;
}

// --- the conversation

/**
 * The conversation of a fold against the messages of the snapshot: every message that events tell of is an item, and no item was never said.
 * @param {View} view
 * @param {any} snapshot
 * @returns {string[]}
 */
export function wrongWords(view, snapshot) {
  const history = viewOfSnapshot({ ...snapshot, before: 0 }).items;
  const cut = history.findIndex(
    (item) => item.type === "prompt" && item.origin === "note" && /^\[Summary of/.test(wordsOf(item.content)),
  );
  const said = spoken(view.items);
  const faults = [];
  for (const line of spoken(history)) if (!takeOut(said, line)) faults.push(`not shown: ${line}`);
  // A summary stands for what was in front of it, so nothing is said of the rest.
  const isShort = cut >= 0 || snapshot.before > 0;
  if (!isShort) faults.push(...said.filter((line) => !line.startsWith("result")).map((line) => `never said: ${line}`));
  return faults;
}

/**
 * @param {readonly Item[]} items
 * @returns {string[]}
 */
function spoken(items) {
  /** @type {string[]} */
  const lines = [];
  for (const item of items) {
    if (item.type === "prompt" && (item.state === "working" || item.state === "done")) {
      // Notes are put in by the session itself, and no event tells of them. Steers that come together are one message.
      if (item.origin === "steer")
        lines.push(
          ...wordsOf(item.content)
            .split("\n\n")
            .map((part) => `steer ${part}`),
        );
      else if (item.origin !== "note") lines.push(`${item.origin} ${wordsOf(item.content)}`);
    } else if (item.type === "answer" && (item.state === "complete" || item.state === "cut")) {
      lines.push(`answer ${item.state} ${item.thinking} / ${item.text} ${item.calls}`);
    } else if (item.type === "call" && item.call.result !== null && !isSurvivor(item.call)) {
      lines.push(`result ${item.call.call_id} ${item.call.result.is_error ? "error" : ""} ${item.call.result.text}`);
    }
  }
  return lines;
}

/** @param {import("../../../agentrail/gateway/console/pure/view.js").Call} call */
function isSurvivor(call) {
  // What the history has then is a note in place of the result, and the result comes as another note.
  return call.result?.text === "[Still running when the cycle was aborted]";
}

/** @param {any[] | null} content */
function wordsOf(content) {
  return (content ?? []).map((block) => block.text ?? block.path ?? block.name).join("|");
}

/**
 * @param {string[]} lines
 * @param {string} line
 * @returns {boolean} whether it was there
 */
function takeOut(lines, line) {
  const place = lines.indexOf(line);
  if (place >= 0) lines.splice(place, 1);
  return place >= 0;
}

// --- readers that come later

/**
 * A reader that joins a case behind a step: by a snapshot, then pages of what was before, then what comes.
 * @param {Case} one
 * @param {number} at
 * @param {number} size of a page
 * @returns {{whole: View, late: View}}
 */
export function joined(one, at, size) {
  const before = one.steps.slice(0, at).flatMap((step) => step.events);
  const behind = one.steps.slice(at).flatMap((step) => step.events);
  const begun = foldAll(viewOfSnapshot(one.first), before);
  const snapshot = at === 0 ? one.first : one.steps[at - 1]?.snapshot;
  let late = viewOfSnapshot({ ...snapshot, live: liveOf(begun), title: begun.title, children: childrenOf(begun) });
  const kept = before.filter((event) => !event.ephemeral);
  for (let end = kept.length; end > 0; end -= size) {
    late = prepend(late, kept.slice(Math.max(0, end - size), end), kept[0]?.seq ?? null);
  }
  return { whole: foldAll(begun, behind), late: foldAll(late, behind) };
}

/**
 * What the server says of what streams.
 * @param {View} view
 */
export function liveOf(view) {
  if (view.live === null) return null;
  return { attempt: view.live.attempt, text: view.live.text, thinking: view.live.thinking, progress: view.progress };
}

/**
 * What the server says of the sessions below.
 * @param {View} view
 */
function childrenOf(view) {
  const open = Object.values(view.children).filter((child) => !child.ended);
  return open.map(({ session_id, call_id, agent_id, phase }) => ({ session_id, call_id, agent_id, phase }));
}

/**
 * What a person sees of a view.
 * @param {View} view
 * @param {string} name of the case
 */
export function shownOf(view, name = "") {
  // A compaction changes what the messages in front of all events are.
  const isCompacted = view.items.some((item) => item.type === "notice" && item.kind.startsWith("compact"));
  const {
    items,
    cycles,
    live,
    progress,
    phase,
    suspended,
    title,
    turn,
    model,
    todos,
    plan,
    ended,
    seq,
    steers,
    approvals,
  } = view;
  // What streams below is in no committed event: who comes later sees it from there on.
  const children = Object.values(view.children).map((child) => ({ ...child, view: child.view?.items ?? [] }));
  return {
    items: items.filter((item) => item.seq > 0 || !(isCompacted || isNote(item))).map(asBothKnowIt),
    cycles: HOST_HOLDS.has(name) ? cycles.length : cycles,
    live: live === null ? null : { ...live, stalled_seconds: null },
    progress,
    phase,
    suspended,
    title,
    turn: HOST_HOLDS.has(name) ? 0 : turn,
    model,
    todos,
    plan,
    ended,
    seq,
    approvals,
    children,
    steers: steers.map((one) => [one.ref, one.text]),
    queued: view.queued.map((one) => [one.ref, one.content]),
    running: Object.keys(view.running).sort(),
  };
}

/**
 * No event tells of the notes that a session puts in itself, so only who comes later sees one in front of all events.
 * @param {Item} item
 */
const isNote = (item) => item.type === "prompt" && item.origin === "note";

/**
 * A question as both readers know it.
 * @param {Item} item
 * @returns {Item}
 */
function asBothKnowIt(item) {
  if (item.type !== "decision" || item.of !== "question") return item;
  return { ...item, state: "", decided_at_ms: 0, user: null };
}

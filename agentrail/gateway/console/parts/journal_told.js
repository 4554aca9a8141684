// What is asked of the server about the record that is looked at: why it came to what it came to, what the session was, what changed. A moment after the slider
// rests, one request at a time, and the last wins. Nothing is drawn here.

import { LastWins } from "../pure/last_wins.js";
import { useEffect, useRef, useState } from "../ui.js";
import { ApiError } from "../wire/api.js";

const KEPT_STATES = 6;

/**
 * @typedef {object} Told
 * @property {number} at the record that was asked about last
 * @property {import("./explain_view.js").Explained | null} explained
 * @property {ApiError | null} whyError
 * @property {{ at: number, state: Record<string, any> } | null} state
 * @property {ApiError | null} stateError
 * @property {{ at: number, body: Record<string, any> } | null} body
 * @property {(number: number) => Promise<Record<string, any>>} stateAt
 * @property {(number: number, since: number) => Promise<any[]>} patchAt
 */

/** @type {Pick<Told, "at" | "explained" | "whyError" | "state" | "stateError" | "body">} */
const NOTHING = { at: 0, explained: null, whyError: null, state: null, stateError: null, body: null };

/**
 * @param {import("../wire/api.js").Api} api
 * @param {string} sessionId
 * @param {number} number
 * @param {import("../wire/journal.js").JournalReader} reader learns from states what no event has
 * @returns {Told}
 */
export function useTold(api, sessionId, number, reader) {
  const [told, setTold] = useState(NOTHING);
  const calls = useRef(/** @type {ReturnType<typeof callsOf> | null} */ (null));
  calls.current ??= callsOf(api, sessionId);
  const { stateAt, patchAt, ask } = calls.current;
  const asking = useRef(/** @type {LastWins<number, typeof NOTHING> | null} */ (null));
  asking.current ??= new LastWins({
    ask,
    tell: (_, answer) => {
      if (answer.state !== null) reader.learn(answer.state.state);
      const first = answer.stateError?.more.first;
      // What is kept may have become less since the page was opened: the slider starts there from now on.
      if (typeof first === "number") reader.keptFrom(first);
      setTold(answer);
    },
    fail: (_, error) => {
      throw error; // what the server refuses is told, so this is a fault of ours
    },
  });
  const isFirst = useRef(true);
  useEffect(() => {
    asking.current?.want(number, { now: isFirst.current });
    isFirst.current = false;
  }, [number]);
  useEffect(() => () => asking.current?.stop(), []);
  return { ...told, stateAt, patchAt };
}

/**
 * @param {import("../wire/api.js").Api} api
 * @param {string} sessionId
 */
function callsOf(api, sessionId) {
  const base = `inspect/sessions/${encodeURIComponent(sessionId)}`;
  /** @type {Map<number, Record<string, any>>} What a session was does not change. */
  const states = new Map();
  const stateAt = async (/** @type {number} */ at) => {
    const known = states.get(at);
    if (known !== undefined) return known;
    const { state } = await api.get(`${base}/state`, { at });
    states.set(at, state);
    for (const oldest of states.keys()) {
      if (states.size <= KEPT_STATES) break;
      states.delete(oldest);
    }
    return state;
  };
  const patchAt = async (/** @type {number} */ at, /** @type {number} */ since) =>
    (await api.get(`${base}/state`, { at, from: since })).patch;
  /** @type {(at: number) => Promise<typeof NOTHING>} */
  const ask = async (at) => {
    const why = await tried(api.get(`${base}/explain`, { at }));
    const state = await tried(stateAt(at));
    const entry = await tried(api.get(`${base}/trace`, { after: at - 1, limit: 1 }));
    return {
      at,
      explained: why.value,
      whyError: why.error,
      state: state.value === null ? null : { at, state: state.value },
      stateError: state.error,
      body: { at, body: entry.value?.entries[0]?.body ?? {} },
    };
  };
  return { stateAt, patchAt, ask };
}

/**
 * @template T
 * @param {Promise<T>} asked
 * @returns {Promise<{ value: T | null, error: ApiError | null }>}
 */
async function tried(asked) {
  try {
    return { value: await asked, error: null };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { value: null, error };
  }
}

/**
 * What changed between two records.
 * @param {Told} told
 * @param {number | null} since null: nothing is compared
 * @param {number} number
 * @returns {{ patch: any[] | null, before: Record<string, any> | null, error: ApiError | null }} nothing of it is there while it is worked out
 */
export function useDiff(told, since, number) {
  const [diff, setDiff] = useState({
    key: "",
    patch: /** @type {any[] | null} */ (null),
    before: /** @type {Record<string, any> | null} */ (null),
    error: /** @type {ApiError | null} */ (null),
  });
  const { patchAt, stateAt } = told;
  const asking = useRef(/** @type {LastWins<{ since: number, number: number }, any> | null} */ (null));
  asking.current ??= new LastWins({
    ask: async (wanted) => {
      const patch = await tried(patchAt(wanted.number, wanted.since));
      const before = patch.error === null ? await tried(stateAt(wanted.since)) : { value: null };
      return { patch: patch.value, before: before.value, error: patch.error };
    },
    tell: (wanted, answer) => setDiff({ key: keyOf(wanted.since, wanted.number), ...answer }),
    fail: (_, error) => {
      throw error;
    },
  });
  useEffect(() => {
    if (since !== null) asking.current?.want({ since, number });
  }, [since, number]);
  useEffect(() => () => asking.current?.stop(), []);
  return diff.key === keyOf(since, number) ? diff : { patch: null, before: null, error: null };
}

/** @param {number | null} since @param {number} number */
function keyOf(since, number) {
  return `${since}-${number}`;
}

// The list of sessions: which group a row stands in, which rows are wanted, and in which order. Pure; rows come from `watch`, words stand elsewhere.

import { nameOf, namesOfPath } from "./session_name.js";

export { nameOf };

/** @typedef {import("./rows.js").Row} Row */
/** @typedef {"waiting" | "working" | "idle" | "ended"} Group */

/**
 * What stands behind the question mark of the page's address.
 * @typedef {object} ListFilter
 * @property {string} q
 * @property {string} phase
 * @property {string} profile
 * @property {string} outcome
 * @property {string} sort
 */

/**
 * One row of the list: a heading, something that waits, or a session.
 * @typedef {{ kind: "group", key: string, group: Group, count: number, isFolded: boolean }
 *   | { kind: "waiting", key: string, row: Row }
 *   | { kind: "session", key: string, row: Row }} ListItem
 */

/** @type {readonly Group[]} */
export const GROUPS = ["waiting", "working", "idle", "ended"];
export const SORTS = /** @type {const} */ (["-changed", "-created", "created", "-cost", "-tokens", "title"]);
export const USUAL_SORT = "-changed";
export const OUTCOMES = /** @type {const} */ (["completed", "aborted", "failed"]);
/** Phases that a person may ask for: what is one thing to them is one here. */
export const PHASES = /** @type {const} */ ([
  "running",
  "streaming",
  "executing_tools",
  "waiting",
  "idle",
  "asleep",
  "ended",
]);

const AT_WORK = new Set(["running", "streaming", "executing_tools"]);

/**
 * What is said of a session in one word: what it waits for goes before what it is at.
 * @param {Row} row
 * @returns {string}
 */
export function phaseOfRow(row) {
  if (row["ended"] || row["phase"] === "ended") return "ended";
  if (row["tearing_down"]) return "stopping";
  return row["suspended"] ? "waiting" : row["phase"];
}

/**
 * @param {Row} row
 * @returns {Exclude<Group, "waiting">}
 */
export function groupOf(row) {
  if (row["ended"] || row["phase"] === "ended") return "ended";
  return AT_WORK.has(row["phase"]) || row["suspended"] || row["tearing_down"] || row["running"] > 0
    ? "working"
    : "idle";
}

/**
 * @param {Record<string, string | undefined>} params As of an address; what cannot be is left out.
 * @returns {ListFilter}
 */
export function filterOf(params) {
  const known = (/** @type {string | undefined} */ value, /** @type {readonly string[]} */ all) =>
    value !== undefined && all.includes(value) ? value : "";
  return {
    q: (params["q"] ?? "").slice(0, 200),
    phase: known(params["phase"], PHASES),
    profile: params["profile"] ?? "",
    outcome: known(params["outcome"], OUTCOMES),
    sort: known(params["sort"], SORTS) || USUAL_SORT,
  };
}

/**
 * What stands in the address for a filter; what is usual is left out.
 * @param {ListFilter} filter
 * @returns {Record<string, string>}
 */
export function paramsOf(filter) {
  return {
    q: filter.q,
    phase: filter.phase,
    profile: filter.profile,
    outcome: filter.outcome,
    sort: filter.sort === USUAL_SORT ? "" : filter.sort,
  };
}

/** @param {ListFilter} filter */
export function isFiltered(filter) {
  return Boolean(filter.q || filter.phase || filter.profile || filter.outcome);
}

/**
 * What the server is asked for where it has more rows than a page takes: there it looks at all of them.
 * @param {ListFilter} filter
 * @param {number} limit
 * @returns {Record<string, unknown>}
 */
export function askedOf(filter, limit) {
  /** @type {Record<string, unknown>} */
  const asked = { limit };
  if (filter.q) asked["q"] = filter.q;
  if (filter.profile) asked["agent_id"] = filter.profile;
  if (filter.outcome) asked["outcome"] = filter.outcome;
  if (filter.phase === "waiting") asked["waiting"] = true;
  else if (filter.phase) asked["phase"] = filter.phase;
  return asked;
}

/**
 * @param {Row} row
 * @param {ListFilter} filter
 */
export function fitsSession(row, filter) {
  return (
    (!filter.profile || row["agent_id"] === filter.profile) &&
    (!filter.outcome || row["outcome"] === filter.outcome) &&
    (!filter.phase || phaseOfRow(row) === filter.phase) &&
    (!filter.q || has(filter.q, [row["title"], row["first_words"], row["session_id"], row["agent_id"], row["user"]]))
  );
}

/**
 * @param {Row} row Of what waits.
 * @param {ListFilter} filter
 * @param {Row | undefined} session Whose it is, where that is in the list too: it is shown by that one's name.
 */
export function fitsWaiting(row, filter, session = undefined) {
  if (filter.profile && row["agent_id"] !== filter.profile) return false;
  if (!filter.q) return true;
  const path = Array.isArray(row["path"]) ? row["path"] : [];
  const names = namesOfPath(path, nameOf(session ?? row));
  return has(filter.q, [...names, nameOf(row), row["summary"], row["session_id"], row["agent_id"], row["tool"]]);
}

/**
 * @param {string} words
 * @param {unknown[]} where
 */
function has(words, where) {
  const wanted = words.toLowerCase();
  return where.some((one) => typeof one === "string" && one.toLowerCase().includes(wanted));
}

/**
 * Puts what is wanted into groups, each in order, with a heading that counts it.
 * @param {ReadonlyMap<string, Row>} sessions
 * @param {ReadonlyMap<string, Row>} waiting
 * @param {ListFilter} filter
 * @param {ReadonlySet<string>} folded The groups of which only the heading is shown.
 * @returns {{ items: ListItem[], counts: Record<Group, number> }}
 */
export function listOf(sessions, waiting, filter, folded) {
  const waits = [...waiting.values()]
    .filter((row) => fitsWaiting(row, filter, sessions.get(row["session_id"])))
    .sort(oldestFirst);
  /** @type {Record<Exclude<Group, "waiting">, Row[]>} */
  const found = { working: [], idle: [], ended: [] };
  for (const row of sessions.values()) if (fitsSession(row, filter)) found[groupOf(row)].push(row);
  /** @type {ListItem[]} */
  const items = [];
  const counts = {
    waiting: waits.length,
    working: found.working.length,
    idle: found.idle.length,
    ended: found.ended.length,
  };
  for (const group of GROUPS) {
    if (counts[group] === 0) continue;
    const isFolded = folded.has(group);
    items.push({ kind: "group", key: `group ${group}`, group, count: counts[group], isFolded });
    if (isFolded) continue;
    if (group === "waiting")
      for (const row of waits) items.push({ kind: "waiting", key: `waiting ${row["key"]}`, row });
    else
      for (const row of inOrder(found[group], filter.sort, group))
        items.push({ kind: "session", key: `session ${row["session_id"]}`, row });
  }
  return { items, counts };
}

/**
 * Sorts the rows of a group. Sessions that work publish all the time: by when they changed they would jump about under one's eyes, so they stand by when they began.
 * @param {Row[]} rows
 * @param {string} sort
 * @param {Group} group
 * @returns {Row[]}
 */
export function inOrder(rows, sort, group) {
  const isTurned = sort.startsWith("-");
  const name = sort.replace(/^-/, "");
  const by = name === "changed" && group === "working" ? "created" : name;
  const sign = isTurned ? -1 : 1;
  if (by === "title") {
    const named = rows.map((row) => /** @type {const} */ ([(nameOf(row) ?? "").toLowerCase(), row]));
    // What has no name comes last, whichever way the list is turned.
    return named
      .sort(([one, a], [other, b]) => Number(!one) - Number(!other) || sign * compared(one, other) || byId(a, b))
      .map(([, row]) => row);
  }
  const numbers = rows.map((row) => /** @type {const} */ ([numberOf(row, by), row]));
  return numbers.sort(([one, a], [other, b]) => sign * (one - other) || byId(a, b)).map(([, row]) => row);
}

/**
 * @param {Row} row
 * @param {string} by
 * @returns {number}
 */
function numberOf(row, by) {
  const found =
    by === "cost"
      ? row["cost_usd"]
      : by === "tokens"
        ? row["tokens"]
        : by === "created"
          ? row["created_at_ms"]
          : row["changed_at_ms"];
  return typeof found === "number" ? found : 0;
}

/** @param {Row} one @param {Row} other */
function oldestFirst(one, other) {
  return (one["at_ms"] ?? 0) - (other["at_ms"] ?? 0) || compared(String(one["key"]), String(other["key"]));
}

/** @param {Row} one @param {Row} other */
function byId(one, other) {
  return compared(String(one["session_id"]), String(other["session_id"]));
}

/** @param {string} one @param {string} other */
function compared(one, other) {
  return one < other ? -1 : one > other ? 1 : 0;
}

/**
 * Makes rows of what `GET sessions` of an older server gives, which has no feed.
 * @param {readonly Record<string, any>[]} sessions
 * @returns {Map<string, Row>}
 */
export function rowsOfItems(sessions) {
  return new Map(
    sessions.map((one) => [
      one["session_id"],
      {
        ...one,
        title: one["title"] || null,
        waiting: one["waiting"] ?? { approvals: one["waits_for"] ?? 0, questions: 0 },
        tokens: one["tokens"] ?? (one["usage"] ? one["usage"].input + one["usage"].output : null),
        cost_usd: one["cost_usd"] ?? one["usage"]?.cost_usd ?? null,
        changed_at_ms: one["changed_at_ms"] ?? one["created_at_ms"] ?? 0,
        running: one["running"] ?? 0,
        queued: one["queued"] ?? 0,
        restarts: one["restarts"] ?? 0,
        ended: one["ended"] ?? one["phase"] === "ended",
      },
    ]),
  );
}

// What is to be said of what was used: days without gaps for a chart, shares, and rows as CSV. Pure: no DOM, no words, and no clock; the day is given.

/**
 * @typedef {object} Amount
 * @property {string} key
 * @property {number} tokens_in
 * @property {number} tokens_out
 * @property {number} cached
 * @property {number} cost_usd
 * @property {number} estimated_usd
 * @property {number} requests
 * @property {number} unpriced
 */

/** The columns of the CSV: those of `agentrail cost --csv`. */
export const COLUMNS = [
  "key",
  "requests",
  "tokens_in",
  "tokens_out",
  "cached",
  "cost_usd",
  "estimated_usd",
  "unpriced",
];

const DAY_MS = 86_400_000;
const DIGITS = 18;

/** How many days a chart of all of them shows: bars become too thin. */
export const MAX_DAYS = 365;
const FEW = 7;

/**
 * The days of a chart, each once and in order, also those on which nothing was used.
 * @param {readonly Amount[]} rows By day.
 * @param {string} today As `2026-11-22`.
 * @param {number | null} count How many days, the last ones; null for all since something was used first, seven at least and a year at most.
 * @returns {{ day: string, cost: number, estimated: number, requests: number }[]}
 */
export function daysOf(rows, today, count) {
  const byDay = new Map(rows.map((row) => [row.key, row]));
  const last = Date.parse(`${today}T00:00:00Z`);
  const [first = today] = rows.map((row) => row.key).sort();
  const span = Math.round((last - Date.parse(`${first}T00:00:00Z`)) / DAY_MS) + 1;
  const shown = count ?? Math.min(MAX_DAYS, Math.max(FEW, span));
  const days = [];
  for (let back = shown - 1; back >= 0; back -= 1) {
    const day = new Date(last - back * DAY_MS).toISOString().slice(0, 10);
    const row = byDay.get(day);
    days.push({ day, cost: row?.cost_usd ?? 0, estimated: row?.estimated_usd ?? 0, requests: row?.requests ?? 0 });
  }
  return days;
}

/**
 * The day of a moment, in the zone of the machine or another one.
 * @param {number} at Milliseconds since 1970.
 * @param {string} zone
 * @returns {string} As `2026-11-22`.
 */
export function dayIn(at, zone) {
  const parts = new Intl.DateTimeFormat("en-CA", { timeZone: zone, year: "numeric", month: "2-digit", day: "2-digit" });
  return parts.format(at);
}

/**
 * A budget and what is used of it, of a session for all its time or of a user or a tenant for a day.
 * @typedef {{ key: string, of: "session" | "user" | "tenant", name: string, used: number, limit: number, resets_at_ms: number | null, overrun: number }} BudgetLine
 */

/**
 * All budgets that a server tells of: that of the tenant, those of users, then those of sessions, each in the server's order.
 * @param {{ budgets: { name: string, used_usd: number, limit_usd: number }[], day_budgets?: DayBudget[] }} told of an older server without budgets of days
 * @returns {BudgetLine[]}
 */
export function budgetLines(told) {
  const ofDay = (told.day_budgets ?? []).map((one) => lineOf(one.of, one, one.resets_at_ms, one.overrun_usd ?? 0));
  return [
    ...ofDay.filter((one) => one.of === "tenant"),
    ...ofDay.filter((one) => one.of !== "tenant"),
    ...told.budgets.map((one) => lineOf("session", one, null, 0)),
  ];
}

/** @typedef {{ of: "user" | "tenant", name: string, used_usd: number, limit_usd: number, resets_at_ms: number, overrun_usd?: number | null }} DayBudget */

/**
 * @param {BudgetLine["of"]} of
 * @param {{ name: string, used_usd: number, limit_usd: number }} one
 * @param {number | null} resetsAtMs
 * @param {number} overrun
 * @returns {BudgetLine}
 */
function lineOf(of, { name, used_usd, limit_usd }, resetsAtMs, overrun) {
  return { key: `${of}:${name}`, of, name, used: used_usd, limit: limit_usd, resets_at_ms: resetsAtMs, overrun };
}

/**
 * How a budget stands: `spent` where nothing more is begun, `near` from four fifths on.
 * @param {{ used: number, limit: number }} line
 * @returns {"well" | "near" | "spent"}
 */
export function standOf({ used, limit }) {
  if (used >= limit) return "spent";
  return used >= 0.8 * limit ? "near" : "well";
}

/**
 * @param {{ cost_usd: number, estimated_usd: number }} amount
 * @returns {number} Which share of what it cost was estimated, from 0 to 1.
 */
export function estimatedShare(amount) {
  return amount.cost_usd > 0 ? Math.min(1, amount.estimated_usd / amount.cost_usd) : 0;
}

/**
 * @param {number} share From 0 to 1.
 * @returns {number} In whole percent; what is above nothing is at least 1, and what is not all at most 99.
 */
export function percentOf(share) {
  if (share <= 0) return 0;
  if (share >= 1) return 100;
  return Math.min(99, Math.max(1, Math.round(share * 100)));
}

/**
 * Writes rows as CSV, with every digit of the amounts.
 * @param {readonly Amount[]} rows
 * @returns {string}
 */
export function csvOf(rows) {
  const lines = [COLUMNS.join(",")];
  for (const row of rows) {
    const cells = COLUMNS.map((name) => cellOf(/** @type {any} */ (row)[name]));
    lines.push(cells.join(","));
  }
  return `${lines.join("\n")}\n`;
}

/** @param {string | number} value */
function cellOf(value) {
  if (typeof value === "number") return plainNumber(value);
  // A table calculation would take some names for formulas.
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * @param {number} value
 * @returns {string} In plain digits, never as `1e-7`, and without zeros that say nothing.
 */
export function plainNumber(value) {
  if (Number.isInteger(value)) return String(value);
  const short = String(value);
  const text = /e/i.test(short) ? value.toFixed(DIGITS) : short;
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

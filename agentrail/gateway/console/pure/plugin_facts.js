// What is to be said of plugins: which stand first, and what they come to over all their hooks. Pure: no DOM, no words, no clock.

/** @typedef {{ hook: string, calls: number, failures: number, p50_ms: number, p99_ms: number }} Hook */

/**
 * A row of the watch `plugins`.
 * @typedef {object} PluginRow
 * @property {string} key
 * @property {string} name
 * @property {"host" | "session"} kind
 * @property {string} [version]
 * @property {number | null} [order]
 * @property {Hook[]} hooks
 * @property {number} failures
 * @property {string | null} [stuck_hook]
 * @property {number | null} [stuck_at_ms]
 * @property {number | null} [sessions]
 * @property {{ hook: string, words: string, at_ms: number } | null} [last_failure]
 */

/**
 * @param {PluginRow} row
 * @returns {boolean} Whether it failed or does not come back.
 */
export function isTroubled(row) {
  return row.failures > 0 || Boolean(row.stuck_hook);
}

/**
 * Those that failed or are stuck: the stuck ones first, of the others what failed last.
 * @param {Iterable<PluginRow>} rows
 * @returns {PluginRow[]}
 */
export function troubled(rows) {
  return [...rows]
    .filter(isTroubled)
    .sort(
      (one, other) =>
        Number(Boolean(other.stuck_hook)) - Number(Boolean(one.stuck_hook)) ||
        (one.stuck_at_ms ?? 0) - (other.stuck_at_ms ?? 0) ||
        (other.last_failure?.at_ms ?? 0) - (one.last_failure?.at_ms ?? 0) ||
        compareNames(one, other),
    );
}

/**
 * @param {Iterable<PluginRow>} rows
 * @returns {{ host: PluginRow[], session: PluginRow[] }} Those of the host in their order, those of sessions by name.
 */
export function byKind(rows) {
  const all = [...rows];
  return {
    host: all.filter((row) => row.kind === "host").sort((one, other) => (one.order ?? 0) - (other.order ?? 0)),
    session: all.filter((row) => row.kind === "session").sort(compareNames),
  };
}

/**
 * @param {PluginRow} row
 * @returns {number} How often any of its hooks was called.
 */
export function callsOf(row) {
  return row.hooks.reduce((sum, hook) => sum + hook.calls, 0);
}

/**
 * @param {PluginRow} one
 * @param {PluginRow} other
 */
function compareNames(one, other) {
  return one.name < other.name ? -1 : one.name > other.name ? 1 : 0;
}

/**
 * What the events of one session say of its plugins, by their names.
 * @param {readonly any[]} items Of a view.
 * @returns {Map<string, { failed: any[], slow: any[], ignored: any[], other: any[] }>}
 */
export function noticesByPlugin(items) {
  /** @type {Map<string, { failed: any[], slow: any[], ignored: any[], other: any[] }>} */
  const found = new Map();
  for (const item of items) {
    if (item.type !== "notice") continue;
    const list = LIST_OF[item.kind];
    const plugin = item.event?.plugin;
    if (list === undefined || typeof plugin !== "string") continue;
    const lists = found.get(plugin) ?? { failed: [], slow: [], ignored: [], other: [] };
    lists[list].push(item);
    found.set(plugin, lists);
  }
  return found;
}

/** @type {Record<string, "failed" | "slow" | "ignored" | "other" | undefined>} */
const LIST_OF = {
  plugin_failed: "failed",
  plugin_slow: "slow",
  action_ignored: "ignored",
  plugin_opts_updated: "other",
  plugin_event: "other",
};

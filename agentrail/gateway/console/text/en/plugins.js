// Words of the console: plugins. Constants, and functions with numbers and plurals; nothing else may enter.

export const title = "Plugins";
export const troubled = "Failed or stuck";
export const allWell = "No plugin failed or is stuck.";
export const ofHost = "Plugins of the host, in order";
export const ofSessions = "Plugins of sessions, by name";
export const noneOfHost = "The host has no plugins.";
export const noneOfHostHint = "Add them in create_app(plugins=[…]).";
export const noneOfSessions = "No session has used a plugin since the server started.";
export const columns = {
  hook: "Hook",
  calls: "Calls",
  failed: "Failed",
  p50: "p50",
  p99: "p99",
};
export const noHooks = "No hook has been called yet.";
/** @param {string} hook @param {string} time */
export const stuck = (hook, time) => `${hook} has not returned for ${time}`;
export const stuckWord = "stuck";
/** @param {number} count */
export const failures = (count) => (count === 1 ? "failed once" : `failed ${count.toLocaleString("en-US")} times`);
/** @param {string} hook @param {string} ago */
export const lastFailure = (hook, ago) => `Last in ${hook}, ${ago} ago`;
/** @param {number} count */
export const sessions = (count) => (count === 1 ? "in 1 session" : `in ${count.toLocaleString("en-US")} sessions`);
/** @param {number} count */
export const calls = (count) => (count === 1 ? "1 call" : `${count.toLocaleString("en-US")} calls`);
export const hint = "p50 and p99 are percentiles of the duration, rounded up by at most 9 %.";
/** @param {string} name */
export const tableOf = (name) => `Hooks of ${name}`;

export const panel = {
  title: "Plugins of this session",
  none: "This session has no plugins.",
  asked: "In the order in which they are called.",
  /** @param {number} count */
  failed: (count) => (count === 1 ? "failed once" : `failed ${count} times`),
  /** @param {number} count */
  slow: (count) => (count === 1 ? "slow once" : `slow ${count} times`),
  /** @param {number} count */
  ignored: (count) => (count === 1 ? "1 action ignored" : `${count} actions ignored`),
  well: "no problems",
  /** @param {number} priority */
  priority: (priority) => `priority ${priority}`,
  over: "All sessions",
  gone: "No longer in this session",
  loaded: "Based on the loaded part of the conversation. Scroll up to load earlier events.",
};

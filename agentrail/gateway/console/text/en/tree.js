// Words of the console: tree. Constants, and functions with numbers and plurals; nothing else may enter.

export const title = "Tree";
export const label = "Supervision tree";
export const lookFirst = "Problems";
export const allWell = "All healthy: no restarts in the last minute, nothing stuck, no dead letters.";
export const whole = "The whole tree";
export const empty = "No active sessions.";
export const emptyAction = "Start one in Sessions";
export const find = "Find a node";
export const nothingFound = "No node matches.";
/** @param {number} count */
export const nodes = (count) => (count === 1 ? "1 node" : `${count.toLocaleString("en-US")} nodes`);
/** @param {number} count */
export const more = (count) => `and ${count.toLocaleString("en-US")} more`;
export const columns = {
  name: "Node",
  status: "Status",
  restarts: "Restarts",
  mailbox: "Mailbox",
  uptime: "Up",
  exit: "Last exit",
};
/** @type {Record<string, string>} */
export const statuses = {
  running: "up",
  starting: "starting",
  restarting: "restarting",
  stopping: "stopping",
  stopped: "stopped",
  stuck: "stuck",
  parked: "parked",
  asleep: "asleep",
};
/** @type {Record<string, string>} */
export const kinds = { supervisor: "supervisor", session: "session", source: "MCP server", actor: "actor" };
export const whys = {
  stuck: "does not stop",
  parked: "crashed too often and is parked",
  restarted: "restarted",
  letters: "queued messages",
};
/** @param {number} count */
export const letters = (count) =>
  count === 1 ? "1 queued message" : `${count.toLocaleString("en-US")} queued messages`;
/** @param {string} ago @param {number | null} used @param {number | null} allowed @param {string | null} within */
export const restarted = (ago, used, allowed, within) =>
  used === null || allowed === null || within === null
    ? `restarted ${ago} ago`
    : `restarted ${ago} ago, ${used} of ${allowed} in ${within}`;
/** @param {string} ago */
export const parkedAgo = (ago) => `parked ${ago} ago`;
/** @param {number} used @param {number} allowed @param {string} within */
export const budget = (used, allowed, within) => `${used} of ${allowed} restarts used in ${within}`;
export const noBudget = "Its supervisor counts restarts of all its children together.";
export const details = "Node";
export const lastExits = "Last exits";
export const noExits = "No exits.";
export const openSession = "Open the session";
export const restartServer = "Restart the server";
export const facts = {
  id: "Id",
  kind: "Kind",
  status: "Status",
  phase: "Phase",
  strategy: "Strategy",
  up: "Up since",
  incarnation: "Incarnation",
  restarts: "Consecutive restarts",
  mailbox: "Queued messages",
  intensity: "Restart limit",
};
export const never = "not running";
export const none = "none";
/** @param {string} name @param {string} why */
export const announced = (name, why) => `${name}: ${why}`;

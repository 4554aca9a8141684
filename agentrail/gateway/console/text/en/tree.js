// Words of the console: tree. Constants, and functions with numbers and plurals; nothing else may enter.

export const title = "Tree";
export const label = "Supervision tree";
export const lookFirst = "Look at these first";
export const allWell = "Nothing restarted in the last minute, nothing is stuck, and no letters wait.";
export const whole = "The whole tree";
export const empty = "No session is alive.";
export const emptyAction = "Begin one in Sessions";
export const find = "Find a node";
export const nothingFound = "No node has these words.";
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
export const kinds = { supervisor: "supervisor", session: "session", actor: "actor" };
export const whys = {
  stuck: "does not obey",
  parked: "crashed too often and was given up",
  restarted: "restarted",
  letters: "letters wait",
};
/** @param {number} count */
export const letters = (count) => (count === 1 ? "1 letter waits" : `${count.toLocaleString("en-US")} letters wait`);
/** @param {string} ago @param {number | null} used @param {number | null} allowed @param {string | null} within */
export const restarted = (ago, used, allowed, within) =>
  used === null || allowed === null || within === null
    ? `restarted ${ago} ago`
    : `restarted ${ago} ago, ${used} of ${allowed} in ${within}`;
/** @param {string} ago */
export const parkedAgo = (ago) => `given up ${ago} ago`;
/** @param {number} used @param {number} allowed @param {string} within */
export const budget = (used, allowed, within) => `${used} of ${allowed} restarts in ${within} are used`;
export const noBudget = "Its supervisor counts its restarts together with those of its siblings.";
export const details = "Node";
export const lastExits = "Last exits";
export const noExits = "It never ended by itself.";
export const openSession = "Open the session";
export const facts = {
  id: "Id",
  kind: "Kind",
  status: "Status",
  phase: "Phase",
  strategy: "Strategy",
  up: "Up since",
  incarnation: "Instance",
  restarts: "Restarts in a row",
  mailbox: "Letters that wait",
  intensity: "Budget of restarts",
};
export const never = "not up";
export const none = "none";
/** @param {string} name @param {string} why */
export const announced = (name, why) => `${name}: ${why}`;

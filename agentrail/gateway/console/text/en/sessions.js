// Words of the console: sessions. Constants, and functions with numbers and plurals; nothing else may enter.

export const title = "Sessions";
export const area = "Sessions";
export const groups = { waiting: "Waiting", working: "Working", idle: "Idle", ended: "Ended" };
export const newSession = "New session";
export const search = "Search sessions";
export const searchHint = "Title, text, ID, profile or user";
export const filters = { phase: "Phase", profile: "Profile", outcome: "Last cycle", sort: "Sort" };
export const any = { phase: "Any phase", profile: "Any profile", outcome: "Any outcome" };
export const outcomes = { completed: "completed", aborted: "aborted", failed: "failed" };
export const sorts = {
  "-changed": "Last changed",
  "-created": "Newest",
  created: "Oldest",
  "-cost": "Cost",
  "-tokens": "Tokens",
  title: "Title",
};
export const phases = {
  idle: "idle",
  running: "running",
  streaming: "streaming",
  executing_tools: "working",
  asleep: "asleep",
  ended: "ended",
  waiting: "waiting",
  stopping: "stopping",
};
/** @param {string} phase */
export const phaseUnknown = (phase) => phase.replaceAll("_", " ");
export const columns = {
  phase: "Phase",
  title: "Title",
  profile: "Profile",
  doing: "At work",
  tokens: "Tokens",
  cost: "Cost",
  age: "Changed",
};
export const untitled = "No title";
export const costUnknown = "a price is unknown";
export const noProfile = "no profile";
/** @param {string} tool @param {number} others */
export const doing = (tool, others) => (others > 0 ? `${tool} +${others}` : tool);
/** @param {number} count */
export const queued = (count) => `${count} queued`;
/** @param {number} count */
export const restarts = (count) => (count === 1 ? "restarted once" : `restarted ${count} times`);
/** @param {number} approvals @param {number} questions */
export const waits = (approvals, questions) =>
  [
    approvals > 0 ? `${approvals} ${approvals === 1 ? "approval" : "approvals"}` : "",
    questions > 0 ? `${questions} ${questions === 1 ? "question" : "questions"}` : "",
  ]
    .filter(Boolean)
    .join(", ");
/** @param {string} time */
export const left = (time) => `${time} left`;
export const runsOut = "expired";
/** @param {string} time */
export const since = (time) => `for ${time}`;
/** @param {string} time */
export const ago = (time) => `${time} ago`;
export const decide = "Decide…";
export const decideLater = "Close";
export const answer = "Answer…";
/** @param {string} question @param {string} session */
export const answerIn = (question, session) => `Answer “${question}” in ${session}`;
/** @param {string} tool @param {string} session */
export const decideOn = (tool, session) => `Decide on ${tool} in ${session}`;
export const approvalOf = "Approval";
export const question = "Question";
/** @param {string} root */
export const below = (root) => `in ${root}`;
/** @param {number} shown @param {number} total */
export const more = (shown, total) =>
  `The ${shown.toLocaleString("en-US")} most recently changed of ${total.toLocaleString("en-US")} sessions are shown. Search covers all.`;
/** @param {string} user */
export const ofUser = (user) => `of ${user}`;

export const empty = "There are no sessions yet.";
export const nothingFits = "No session matches these filters.";
export const clearFilters = "Clear filters";
export const older = "This server is older: the list is not live.";
export const refresh = "Refresh";
export const announceApproval = (/** @type {string} */ tool) => `Approval needed: ${tool}`;
export const announceQuestion = "A question is waiting for you";

export const keys = {
  next: "Next session",
  previous: "Previous session",
  waiting: "First waiting session",
  create: "New session",
  search: "Search sessions",
};

export const create = {
  title: "New session",
  profile: "Profile",
  model: "Model",
  modelUsual: "Default of the profile",
  /** @param {string} model */
  modelOf: (model) => `Default of the profile: ${model}`,
  modelOther: "Another model…",
  modelName: "Model string",
  modelHint: "For example demo: or provider:name.",
  send: "Create",
  sending: "Creating…",
};

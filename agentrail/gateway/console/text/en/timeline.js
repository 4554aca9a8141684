// Words of the console: timeline and context. Constants, and functions with numbers and plurals; nothing else may enter.

export const label = "Timeline";
export const columns = {
  name: "Step",
  bar: "Time",
  took: "Duration",
  own: "Tokens",
  sum: "Σ tokens",
  cost: "Cost",
  sumCost: "Σ cost",
};
export const empty = "No activity yet.";
export const emptyHint = "Each request, call and gate of a cycle is shown here as a bar.";
export const earlier = "Earlier events";
export const fetching = "Loading earlier events…";
export const enlarge = "Enlarge";
export const show = "Show in the conversation";
export const notLoaded = "This part of the conversation is not loaded.";

/** @param {number} number */
export const cycle = (number) => `Cycle ${number}`;
export const cycleBelow = "Cycle";
export const compaction = "Compaction";
export const approval = "Approval";
export const agent = "Agent";
/** @param {number} count */
export const attempts = (count) => `${count} attempts`;
/** @param {number} number */
export const attempt = (number) => `Attempt ${number}`;

/** @type {Record<string, string>} */
export const outcomes = {
  open: "running",
  done: "done",
  error: "failed",
  failed: "failed",
  aborted: "aborted",
  blocked: "blocked",
  killed: "stopped",
  skipped: "skipped",
  unknown: "no such tool",
  incomplete: "end unknown",
  waiting: "waits",
  approved: "approved",
  rejected: "denied",
  timeout: "expired",
  superseded: "superseded",
};

/** @param {string} time */
export const idle = (time) => `idle for ${time}`;
/** @param {string} begun @param {string} took @param {string} state */
export const barWords = (begun, took, state) => `starts after ${begun}, takes ${took}, ${state}`;

/** @type {Record<string, string>} */
export const actions = {
  failed: "failed",
  slow: "was slow",
  ignored: "returned an answer that the hook ignores",
  intervened: "intervened",
  options: "got new options",
  event: "published an event",
  model: "switched the model",
  steered: "you steered",
  suspended: "waiting for a user",
  resumed: "continues",
  retry: "tried again",
  loop: "repeats itself",
  budget: "most of the budget is used",
  restarted: "restarted",
  recovered: "recovered",
  skipped: "skipped the compaction",
};

export const details = {
  title: "Details",
  none: "Select a row to see its details.",
  began: "Started",
  took: "Took",
  outcome: "Outcome",
  error: "Error",
  reason: "Reason",
  model: "Model",
  tool: "Tool",
  firstChunk: "Time to first token",
  tokens: "Tokens in, out",
  sumTokens: "Σ tokens in, out",
  cached: "Read from cache",
  cost: "Cost",
  sumCost: "Σ cost",
  unknownCost: "unknown",
  by: "Decided by",
  waited: "Waited",
  turns: "Turns",
  stopReason: "Stop reason",
  description: "Task",
  prompt: "Prompt",
  offloaded: "Result in",
  marks: "Marks",
  attempts: "Attempts",
};

export const context = {
  label: "Context",
  lead: "The content of the next request.",
  /** @param {string} used @param {string} window */
  of: (used, window) => `${used} of ${window} tokens`,
  /** @param {string} used */
  used: (used) => `${used} tokens`,
  estimated: "estimated",
  /** @param {string} tokens */
  counted: (tokens) => `The provider counted ${tokens} in the last request.`,
  digest: "Digest",
  digestHint: "Requests with the same digest are identical.",
  model: "Model",
  unknownWindow: "The size of its context window is unknown.",
  full: "The window is nearly full: a compaction is near.",
  empty: "Nothing to send yet.",
  ended: "The session has ended and sends no more requests.",
  refresh: "Refresh",
  columns: { name: "Part", tokens: "Tokens", share: "Share" },
  /** @type {Record<string, string>} */
  kinds: {
    system: "System prompt",
    tools: "Tools",
    summary: "Summary",
    message: "Conversation",
    provider: "Context providers",
  },
  /** @type {Record<string, string>} */
  names: {
    system_prompt: "own text",
    prompt: "prompt",
    answer: "answer",
    results: "results",
    steer: "steer",
    note: "note",
    intervention: "intervention",
    plugin: "plugin",
    earlier: "earlier messages",
  },
  /** @param {number} percent */
  share: (percent) => `${percent} %`,
  less: "< 1 %",
};

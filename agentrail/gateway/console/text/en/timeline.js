// Words of the console: timeline and context. Constants, and functions with numbers and plurals; nothing else may enter.

export const label = "Timeline";
export const columns = {
  name: "What",
  bar: "When",
  took: "Took",
  own: "Tokens",
  sum: "Σ tokens",
  cost: "Cost",
  sumCost: "Σ cost",
};
export const empty = "Nothing has happened yet.";
export const emptyHint = "Each request, call and gate of a cycle will stand here as a bar.";
export const earlier = "Earlier events";
export const fetching = "Loading earlier events…";
export const enlarge = "Enlarge";
export const show = "Show in the conversation";
export const notLoaded = "This is not among the loaded part of the conversation.";
export const stale = "The last try to load more failed.";

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
  incomplete: "end not seen",
  waiting: "waits",
  approved: "approved",
  rejected: "denied",
  timeout: "ran out",
  superseded: "superseded",
};

/** @param {string} time */
export const idle = (time) => `nothing worked for ${time}`;
/** @param {string} begun @param {string} took @param {string} state */
export const barWords = (begun, took, state) => `begins after ${begun}, takes ${took}, ${state}`;
/** @param {string} took */
export const soFar = (took) => `${took} so far`;

/** @type {Record<string, string>} */
export const actions = {
  failed: "failed",
  slow: "was slow",
  ignored: "answered with what means nothing there",
  intervened: "put words in",
  options: "got new options",
  event: "said",
  model: "switched the model",
  steered: "you steered",
  suspended: "waits for people",
  resumed: "goes on",
  retry: "tried again",
  loop: "goes round in circles",
  budget: "most of the budget is used",
  restarted: "restarted",
  recovered: "recovered",
  skipped: "skipped the compaction",
};

export const details = {
  title: "Details",
  none: "Select a row to see its details.",
  began: "Began",
  took: "Took",
  outcome: "Outcome",
  error: "Error",
  reason: "Reason",
  model: "Model",
  tool: "Tool",
  firstChunk: "First words after",
  tokens: "Tokens in, out",
  sumTokens: "Σ tokens in, out",
  cached: "Read from cache",
  cost: "Cost",
  sumCost: "Σ cost",
  unknownCost: "not known",
  by: "Decided by",
  waited: "Waited",
  turns: "Turns",
  stopReason: "Stopped because",
  description: "Task",
  prompt: "Prompt",
  offloaded: "Result in",
  marks: "Marks",
  attempts: "Attempts",
};

export const context = {
  label: "Context",
  lead: "What the model will be sent next.",
  /** @param {string} used @param {string} window */
  of: (used, window) => `${used} of ${window} tokens`,
  /** @param {string} used */
  used: (used) => `${used} tokens`,
  estimated: "estimated",
  /** @param {string} tokens */
  counted: (tokens) => `The vendor counted ${tokens} in the last request.`,
  digest: "Digest",
  digestHint: "Two requests with the same digest are the same.",
  model: "Model",
  unknownWindow: "The size of its window is not known.",
  full: "The window is nearly full: a compaction is near.",
  empty: "There is nothing to send yet.",
  ended: "The session has ended: it will send no request any more.",
  refresh: "Refresh",
  stale: "The session went on since this was read.",
  columns: { name: "Part", tokens: "Tokens", share: "Share" },
  /** @type {Record<string, string>} */
  kinds: { system: "System prompt", tools: "Tools", summary: "Summary", message: "Conversation", provider: "Gathered" },
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

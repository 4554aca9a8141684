// Words of the console: journal. Constants, and functions with numbers and plurals; nothing else may enter.

export const title = "Journal";
/** @param {number} number @param {number} last */
export const place = (number, last) => `#${number} of ${last}`;
export const backToNow = "Back to now";
export const past = "You are viewing the past";
/** @param {string} time */
export const pastHint = (time) => `State at ${time}. Messages cannot be sent from here.`;
export const end = "End of the journal: the current state.";
export const forkHere = "Fork here";
export const rewindHere = "Rewind to here";

export const slider = "Record";
/** @param {number} number @param {number} last @param {string | null} kind @param {string | null} time */
export const sliderValue = (number, last, kind, time) =>
  [`record ${number} of ${last}`, kind, time].filter((part) => part !== null).join(", ");
export const sliderHint = "← → one record, Shift ten, PgUp PgDn a cycle, Home End";
export const marks = { cycle: "cycle", abort: "abort", restart: "restart", rewind: "rewind" };
/** @param {string} kind @param {number} number @param {number} count */
export const markTitle = (kind, number, count) =>
  count > 1 ? `${kind} at ${number}, and ${count - 1} more nearby` : `${kind} at ${number}`;
export const legend = "Marks";

export const tabs = { records: "Records", why: "Why", conversation: "Conversation", state: "State" };
export const views = "Views";

export const records = "Records";
export const filter = {
  kind: "Kind",
  allKinds: "all kinds",
  plugin: "Plugin",
  text: "Text",
  clear: "Show all",
  /** @param {number} count @param {boolean} isAll */
  found: (count, isAll) => (isAll ? (count === 1 ? "One record" : `${count} records`) : `${count} records so far`),
  nothing: "No record matches.",
  looking: "Searching the journal…",
};
export const notLoaded = "…";
/** @param {number} from @param {number} to */
export const eventsOf = (from, to) => (from === to ? `event ${from}` : `events ${from}–${to}`);

export const why = {
  /** @param {number} number */
  title: (number) => `Record ${number}`,
  loading: "Analysing the record…",
  at: "Time",
  begun: "Cause",
  /** @param {number} number */
  record: (number) => `record ${number}`,
  outside: "from outside",
  phase: "Phase",
  stays: "stays",
  events: "Events",
  noEvents: "none",
  drift: "The current code computes a different result for this record:",
  asked: "Plugins",
  noPlugin: "No plugin was asked.",
  priority: "Priority",
  plugin: "Plugin",
  answered: "Answered",
  verdict: "Verdict",
  failed: "failed",
  notAsked: "not asked",
  verdicts: {
    won: "wins",
    kept: "counts",
    lost: "lost",
    silent: "no answer",
    ignored: "ignored: this hook does not accept this answer",
    waits: "waits for its request",
    failed: "failed: the others were asked",
    failed_closed: "failed, which counts as a refusal",
  },
  /** @param {string} plugin */
  lostTo: (plugin) => `lost to ${plugin}`,
  /** @param {number} round */
  round: (round) => `judged again, round ${round}`,
  outcome: "Outcome:",
  goesOn: "not stopped",
  /** @param {string} action @param {string} by */
  decided: (action, by) => `${action}, by ${by}`,
  /** @param {string} by */
  waits: (by) => `waits for the request of ${by}`,
  effects: "Effects",
  noEffects: "No effects.",
  body: "Contents",
};

export const state = {
  /** @param {number} number */
  title: (number) => `State after record ${number}`,
  loading: "Folding the journal…",
  diffWith: "Compare with record",
  compare: "Compare",
  noDiff: "Show the state",
  /** @param {number} from @param {number} to @param {number} count */
  changed: (from, to, count) =>
    count === 0
      ? `No differences between ${from} and ${to}.`
      : `${count === 1 ? "One change" : `${count} changes`} from ${from} to ${to}`,
  ops: { add: "added", remove: "removed", replace: "changed" },
  before: "Before",
  after: "After",
  whole: "everything",
  nothing: "—",
  /** @param {number} count */
  more: (count) => `Show ${count} more`,
  /** @param {number} count */
  entries: (count) => (count === 0 ? "empty" : count === 1 ? "1 entry" : `${count} entries`),
  /** @param {number} count */
  fields: (count) => (count === 0 ? "empty" : count === 1 ? "1 field" : `${count} fields`),
  yes: "yes",
  no: "no",
  none: "none",
  /** @param {string} version */
  version: (version) => `version ${version}`,
  facts: "At a glance",
  phase: "Phase",
  suspended: "waiting for a user",
  ended: "has ended",
  messages: "Messages",
  waiting: "Waiting for users",
  queued: "Queued prompts",
  todos: "Todos",
  tokens: "Tokens",
  cost: "Cost",
  plugins: "Plugins",
  all: "Full state",
};

export const conversationLoading = "Loading the conversation…";
export const conversationOfState = "Shown from the state: this token cannot read the events of this session.";
export const conversationOfBranch =
  "Shown from the state: the session was rewound since, and events of abandoned branches are not provided.";
export const noWords = "No messages up to this point.";

export const noJournal = "This server keeps no journals.";
export const noJournalHint = "Configure a store: “agentrail serve --store sqlite:”, or store='sqlite:' in create_app.";
export const older = "The journal needs a newer server.";
export const olderHint = "This server does not provide the state after a record.";
export const absent = "This session does not exist (any more).";
/** @param {number} first */
export const keptFrom = (first) => `Records before ${first} are no longer stored.`;
export const keys = {
  scope: "Journal",
  next: "Next record",
  previous: "Previous record",
  nextCycle: "Next cycle",
  previousCycle: "Previous cycle",
  end: "End of the journal",
  fork: "Fork here",
};

// Words of the console: journal. Constants, and functions with numbers and plurals; nothing else may enter.

export const title = "Journal";
/** @param {number} number @param {number} last */
export const place = (number, last) => `#${number} of ${last}`;
export const backToNow = "Back to now";
export const past = "You are looking at the past";
/** @param {string} time */
export const pastHint = (time) => `How it stood at ${time}. Nothing can be said to it from here.`;
export const end = "This is the end of the journal: how it stands now.";
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
  count > 1 ? `${kind} at ${number}, and ${count - 1} more close by` : `${kind} at ${number}`;
export const legend = "Marks";

export const tabs = { records: "Records", why: "Why", conversation: "Conversation", state: "State" };
export const views = "What to look at";

export const records = "Records";
export const filter = {
  kind: "Kind",
  allKinds: "all kinds",
  plugin: "Plugin",
  text: "Text",
  clear: "Show all",
  /** @param {number} count @param {boolean} isAll */
  found: (count, isAll) => (isAll ? (count === 1 ? "One record" : `${count} records`) : `${count} records so far`),
  nothing: "No record is like that.",
  looking: "Looking through the journal…",
};
export const notLoaded = "…";
/** @param {number} from @param {number} to */
export const eventsOf = (from, to) => (from === to ? `event ${from}` : `events ${from}–${to}`);

export const why = {
  /** @param {number} number */
  title: (number) => `Record ${number}`,
  loading: "Working out what happened…",
  at: "Time",
  begun: "Begun by",
  /** @param {number} number */
  record: (number) => `record ${number}`,
  outside: "from outside",
  effectId: "Effect",
  phase: "Phase",
  stays: "stays",
  events: "Events",
  noEvents: "none",
  drift: "The code that runs here makes something else of this record than what was recorded:",
  asked: "Plugins that were asked",
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
    silent: "nothing to say",
    ignored: "ignored: this hook takes no such answer",
    waits: "waits for what it asked for",
    failed: "failed; the rest was asked",
    failed_closed: "failed, which counts as a refusal",
  },
  /** @param {string} plugin */
  lostTo: (plugin) => `lost to ${plugin}`,
  /** @param {number} round */
  round: (round) => `judged again, round ${round}`,
  outcome: "Outcome:",
  goesOn: "nothing stopped it",
  /** @param {string} action @param {string} by */
  decided: (action, by) => `${action}, by ${by}`,
  /** @param {string} by */
  waits: (by) => `waits for what ${by} asked for`,
  effects: "What was decided",
  noEffects: "Nothing was asked for.",
  body: "What the record says",
};

export const state = {
  /** @param {number} number */
  title: (number) => `State behind record ${number}`,
  loading: "Folding the journal…",
  diffWith: "Compare with record",
  compare: "Compare",
  noDiff: "Show the state",
  /** @param {number} from @param {number} to @param {number} count */
  changed: (from, to, count) =>
    count === 0
      ? `Nothing differs between ${from} and ${to}.`
      : `${count === 1 ? "One thing" : `${count} things`} changed from ${from} to ${to}`,
  ops: { add: "added", remove: "removed", replace: "changed" },
  before: "Before",
  after: "Behind",
  whole: "all of it",
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
  suspended: "waits for people",
  ended: "has ended",
  messages: "Messages",
  waiting: "Wait for people",
  queued: "Queued prompts",
  todos: "Todos",
  tokens: "Tokens",
  cost: "Cost",
  plugins: "Plugins",
  all: "All that it knew",
};

export const conversationLoading = "Reading what was said…";
export const conversationOfState = "Drawn from the state: the events of this session cannot be read with this token.";
export const conversationOfBranch =
  "Drawn from the state: the session went back since, and events that do not count any more are not given out.";
export const noWords = "Nothing was said up to here.";

export const noJournal = "This server keeps no journals.";
export const noJournalHint = "A store keeps them: “agentrail serve --store sqlite:”, or store='sqlite:' in create_app.";
export const older = "The journal needs a newer server than this one.";
export const olderHint = "It does not say what a session was behind a record.";
export const absent = "This session is not there (any more).";
/** @param {number} first */
export const keptFrom = (first) => `Kept from record ${first} on.`;
export const keys = {
  scope: "Journal",
  next: "Next record",
  previous: "Previous record",
  nextCycle: "Next cycle",
  previousCycle: "Previous cycle",
  end: "End of the journal",
  fork: "Fork here",
};

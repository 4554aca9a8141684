// Words of the console: session. Constants, and functions with numbers and plurals; nothing else may enter.

/** @param {number} count @param {string} one @param {string} many */
const counted = (count, one, many) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

export const title = "Session";
export const untitled = "Untitled session";
export const conversation = "Conversation";
export const back = "All sessions";
export const panel = "Panel";
export const closePanel = "Close the panel";
export const tabs = { now: "Now", timeline: "Timeline", context: "Context", plugins: "Plugins" };

export const phases = {
  idle: "Idle",
  running: "Working",
  streaming: "Answering",
  executing_tools: "Calling tools",
  waiting: "Waiting for you",
  stopping: "Stopping",
  asleep: "Asleep",
  ended: "Ended",
  parked: "Parked",
  loading: "Loading",
};
/** @param {string} phase */
export const phaseUnknown = (phase) => phase.replaceAll("_", " ");
/** @param {number} turn */
export const turn = (turn) => `turn ${turn}`;
/** @param {number} restarts */
export const restarted = (restarts) => `restarted ${restarts === 1 ? "once" : `${restarts} times`}`;

// --- the head

export const journal = "Journal";
export const fork = "Fork";
export const more = "More";
export const copyId = "Copy ID";
export const copied = "Copied";
export const notCopied = "The browser does not allow this page to copy.";
export const search = "Search in this session";
export const searchClose = "Close the search";
export const searchNext = "Next match";
export const searchPrevious = "Previous match";
/** @param {number} at @param {number} count */
export const searchPlace = (at, count) => (count === 0 ? "Nothing found" : `${at} of ${count}`);
/** @param {number} items */
export const searchAll = (items) =>
  `Searches ${counted(items, "loaded item", "loaded items")}. The browser's own search finds only visible text.`;
export const searchOlder = "Load earlier items";

// --- abort

export const abort = "Abort";
export const abortKey = "Ctrl .";
export const abortSurely = "Abort anyway";
export const abortNot = "Keep running";
export const abortAsksTitle = "Abort?";
/** @param {number} count */
export const abortAsks = (count) =>
  count === 1
    ? "This call is running. If it is stopped, its effects may remain:"
    : `These ${count} calls are running. If they are stopped, their effects may remain:`;
export const abortAsksHint = "External effects remain. The receipt will list them.";
export const abortOver = "The calls have ended. Nothing was aborted.";
export const aborting = "Aborting…";
/** @param {string} words */
export const abortNotSent = (words) => `The abort was refused: ${words}`;
export const stopCall = "Stop";
/** @param {string} name */
export const stopCallNamed = (name) => `Stop ${name}`;
export const stopping = "Stopping…";

export const receipt = {
  title: "Aborted",
  /** @param {string} reason */
  titled: (reason) => `Aborted: ${reason}`,
  waiting: "Stopping…",
  /** @param {string} time */
  took: (time) => `after ${time}`,
  nothing: "Nothing was running.",
  unsettled: "It is still being stopped.",
  /** @param {number} count */
  unknown: (count) =>
    count === 1
      ? "It was stopped while running and may have taken effect. Check before you repeat it."
      : "They were stopped while running and may have taken effect. Check each before you repeat it.",
  /** @param {number} count */
  survivors: (count) =>
    count === 1
      ? "It continues, because an abort must not stop it. You can stop it separately."
      : "They continue, because an abort must not stop them. You can stop each separately.",
  /** @param {number} count */
  stuck: (count) =>
    count === 1
      ? "It did not stop in time and may still be running. It ends at the latest with the server process."
      : "They did not stop in time and may still be running. They end at the latest with the server process.",
  /** @param {number} count */
  abandoned: (count) =>
    count === 1
      ? "Its call has ended, but its thread runs until it finishes."
      : "Their calls have ended, but their threads run until they finish.",
  /** @param {number} count */
  committed: (count) =>
    count === 1
      ? "It had already finished, and its result counts."
      : "They had already finished, and their results count.",
  /** @param {number} count */
  ended: (count) => `${counted(count, "task", "tasks")} ended.`,
  /** @param {number} count */
  reaped: (count) => `${counted(count, "process", "processes")} ended.`,
  /** @param {string} age */
  age: (age) => `for ${age}`,
  /** @param {number} pid */
  pid: (pid) => `process ${pid}, stuck in the kernel`,
  signs: {
    unknown: "Outcome unknown",
    survivors: "Still running",
    stuck: "Stuck",
    abandoned: "Thread still running",
    committed: "Finished",
    ended: "Ended",
    reaped: "Ended",
    nothing: "Nothing",
    unsettled: "Stopping",
  },
};

// --- items

export const you = "You";
export const assistant = "Assistant";
export const origins = {
  prompt: "You",
  steer: "You, steering",
  intervention: "Plugin",
  note: "Note",
  summary: "Summary of earlier messages",
};
export const promptStates = { dropped: "removed from the queue", rejected: "refused", taken: "used as a decision" };
export const notLoaded = "This message is not loaded.";
/** @param {string} path */
export const file = (path) => `File ${path}`;
/** @param {string} name */
export const image = (name) => `Image ${name}`;
/** @param {string} name @param {string} size */
export const showImage = (name, size) => `Show ${name} (${size})`;
/** @param {string} name @param {string} type */
export const imageNotShown = (name, type) => `Image ${name} is not shown: ${type}`;
export const imageTooLarge = "it is larger than 4 MiB";
export const imageBroken = "its data cannot be read";

export const thinking = "Thinking";
export const answerStates = {
  waiting: "waiting for the model",
  streaming: "answering",
  pausing: "waiting to retry",
  cut: "cut by the abort",
  failed: "failed",
  stopped: "stopped",
};
/** @param {number} attempt */
export const attempt = (attempt) => `attempt ${attempt}`;
/** @param {number} attempt @param {string} message */
export const attemptFailed = (attempt, message) =>
  `Attempt ${attempt} failed: ${message}${/[.!?…]\s*$/.test(message) ? "" : "."}`;
export const attemptDiscarded = "Its partial answer was discarded.";
/** @param {string} time @param {number} attempt */
export const retryIn = (time, attempt) => `Attempt ${attempt} in ${time}`;
/** @param {number} attempt */
export const retryNow = (attempt) => `Attempt ${attempt} starts`;
/** @param {string} time */
export const stalled = (time) => `No data for ${time}.`;
export const noWords = "Calls without text.";

// --- calls

export const callStates = {
  asked: "requested",
  waiting: "waits",
  running: "running",
  pausing: "retrying",
  done: "done",
  failed: "failed",
  blocked: "blocked",
  rejected: "denied",
  skipped: "skipped",
  unknown_tool: "no such tool",
  killed: "stopped",
  uncertain: "outcome unknown",
};
/** @param {string} state */
export const callStateUnknown = (state) => state.replaceAll("_", " ");
export const survivor = "still running after the abort";
export const callArguments = "Arguments";
export const argumentsAsked = "Arguments requested by the model:";
export const argumentsMalformed = "The model did not write a JSON object:";
export const noArguments = "No arguments.";
export const result = "Result";
export const resultError = "Error";
export const progress = "Progress";
export const details = "Details";
export const fileChange = "Change";
/** @param {string} path */
export const fileWritten = (path) => `Writes the whole file ${path}. The journal does not keep its earlier contents.`;
/** @param {string} path */
export const fileNew = (path) => `New file ${path}`;
/** @param {string} by @param {string} reason */
export const blockedBy = (by, reason) => (by ? `${by}: ${reason}` : reason);
/** @param {number} attempts */
export const attempts = (attempts) => `${attempts} attempts`;
/** @param {string} path @param {string} size */
export const offloaded = (path, size) =>
  `The result was too large for the model. The full text (${size}) is in ${path}.`;
export const offloadedOpen = "Show the file";
export const offloadedSave = "Download";
/** @param {string} size */
export const loadCut = (size) => `Load all (${size} not shown)`;
/** @param {string} words */
export const loadFailed = (words) => `Loading failed: ${words}`;
export const gates = "Approvals";
/** @param {string} gate @param {string} verdict */
export const gate = (gate, verdict) => `${gate}: ${verdict}`;
export const effects = {
  pure: "changes nothing",
  idempotent: "safe to repeat",
  reconcilable: "can be checked",
  once: "runs once",
};
export const openCall = "Show the call";
/** @param {number} from @param {number} to */
export const group = (from, to) => `Calls ${from.toLocaleString("en")} to ${to.toLocaleString("en")}`;
/** @param {number} count */
export const groupActive = (count) => `${count} running`;
/** @param {number} count */
export const groupFailed = (count) => `${count} failed`;

// --- children

/** @param {string} name */
export const child = (name) => `Agent ${name}`;
export const childOpen = "Open session";
export const childNothing = "No events yet.";
/** @param {number} count */
export const childEarlier = (count) => `Show ${counted(count, "earlier item", "earlier items")}`;
export const childDeep = "Agents nested deeper than eight levels are shown in their own sessions.";
export const childResult = "Result";

// --- decisions

export const decisions = {
  approved: "Allowed",
  rejected: "Denied",
  timeout: "Expired",
  aborted: "Aborted",
  superseded: "Superseded",
  answered: "Answered",
  declined: "Declined",
  closed: "Closed",
  open: "Pending",
};
export const decidedBy = {
  user: "a user",
  rule: "a rule",
  timeout: "a timeout",
  abort: "an abort",
  superseded: "the next prompt",
  client: "the client",
};
/** @param {string} who */
export const by = (who) => `by ${who}`;
/** @param {string} tool */
export const approvalOf = (tool) => `Approval of ${tool}`;
/** @param {string} question */
export const questionOf = (question) => `Question: ${question}`;
/** @param {string} tool @param {string | null} family @param {boolean} isExact */
export const ruleOf = (tool, family, isExact) =>
  family
    ? isExact
      ? `Always allowed: ${tool} with exactly this command: “${family}”`
      : `Always allowed: ${tool} with commands that begin with “${family}”`
    : `Always allowed: every call of ${tool}`;
/** @param {string} tool */
export const clientCallOf = (tool) => `${tool} runs in the client program. The session waits for its result.`;
/** @param {string} asked @param {string} decided @param {string} later */
export const askedAndDecided = (asked, decided, later) =>
  `Requested at ${asked}, decided at ${decided}, ${later} later.`;
/** @param {string} reason */
export const askedBecause = (reason) => `Reason for the approval: ${reason}`;
/** @param {number} left */
export const nextWaiting = (left) =>
  left === 1 ? "Review the last pending request" : `Next of ${left} pending requests`;
export const review = "Review";
export const answerIt = "Answer";

// --- cycles, gaps, history

export const cycleEnds = { end: "Done", abort: "Aborted", error: "Failed" };
export const cycleReasons = {
  max_turns: "turn limit reached",
  not_resumed: "not resumed",
  superseded: "superseded by a new prompt",
  max_tokens: "length limit reached",
  refusal: "the model refused",
};
/** @param {number} count */
export const callCount = (count) => counted(count, "call", "calls");
/** @param {number} from @param {number} to */
export const gap = (from, to) =>
  from === to ? `Event ${from} is no longer stored` : `Events ${from}–${to} are no longer stored`;
export const older = "Load earlier items";
export const olderLoading = "Loading earlier items…";
export const olderStart = "Start of the session.";
/** @param {number} first */
export const olderTrimmed = (first) => `Events before ${first} are no longer stored.`;
export const olderNone = "This server provides no earlier items.";
/** @param {string} words */
export const olderFailed = (words) => `Earlier items could not be loaded: ${words}`;
/** @param {number} count */
export const newer = (count) => (count > 0 ? `${counted(count, "new item", "new items")} below` : "To the end");
export const toEnd = "To the end";

export const unknownEvent = "Unknown event";
export const showJson = "Show JSON";
export const hideJson = "Hide JSON";
export const notices = {
  session_start: "Session started",
  /** @param {number} incarnation @param {string} reason */
  session_restarted: (incarnation, reason) => `The session crashed and was restarted (start ${incarnation}): ${reason}`,
  /** @param {number} count */
  session_recovered: (count) =>
    count === 0
      ? "The session was recovered from its journal"
      : `The session was recovered from its journal with ${counted(count, "open effect", "open effects")}`,
  /** @param {string} reason */
  session_end: (reason) => `The session ended: ${reason}`,
  /** @param {string} reason */
  session_parked: (reason) => `The session crashed too often and is parked: ${reason}`,
  agent_suspended: "Waiting for a user",
  agent_resumed: "Continues",
  /** @param {string} to @param {string | null} note */
  agent_changed: (to, note) => (note ? `Handed over to ${to}: ${note}` : `Handed over to ${to}`),
  /** @param {number} turns */
  max_turns_reached: (turns) => `Last of ${turns} turns: the model is asked for its final answer`,
  /** @param {string} kind @param {string} error */
  signal_quarantined: (kind, error) => `A signal (${kind}) crashed the core and was quarantined: ${error}`,
  /** @param {string} from @param {string} to @param {string} by */
  model_switched: (from, to, by) => `Model ${from} → ${to}, by ${by}`,
  /** @param {string} error */
  context_overflow: (error) => `The conversation exceeds the model's context window: ${error}`,
  compact_start: "Compacting the conversation…",
  /** @param {number} removed @param {string} before @param {string} after */
  compact_end: (removed, before, after) =>
    `${counted(removed, "message was", "messages were")} replaced with a summary: ${before} → ${after} tokens`,
  /** @param {string} by @param {string} reason */
  compact_skipped: (by, reason) => `Compaction skipped by ${by}: ${reason.replaceAll("_", " ")}`,
  compact_due: "Compaction is due",
  /** @param {string} type @param {string} name @param {number} count */
  loop_detected: (type, name, count) => `${name} repeats itself (${type.replaceAll("_", " ")}, ${count} times)`,
  /** @param {string} spent @param {string} limit */
  budget_warning: (spent, limit) => `${spent} of ${limit} spent`,
  /** @param {string} citations */
  citation_unknown: (citations) => `Unknown citations: ${citations}`,
  /** @param {string} prompt */
  content_policy_violated: (prompt) => `Policy violation: ${prompt}`,
  /** @param {number} count */
  memory_flushed: (count) => `${counted(count, "fact", "facts")} saved to memory`,
  /** @param {string} name */
  skill_opened: (name) => `skill ${name} opened`,
  /** @param {string} name */
  skill_closed: (name) => `skill ${name} closed`,
  /** @param {string} plugin @param {string} hook @param {string} error */
  plugin_failed: (plugin, hook, error) => `Plugin ${plugin} failed at ${hook}: ${error}`,
  /** @param {string} plugin @param {string} hook @param {string} time */
  plugin_slow: (plugin, hook, time) => `Plugin ${plugin} took ${time} at ${hook}`,
  /** @param {string} plugin @param {string} hook @param {string} action */
  action_ignored: (plugin, hook, action) => `${action} of plugin ${plugin} at ${hook} was ignored`,
  /** @param {string} plugin @param {boolean} success @param {string} error */
  plugin_opts_updated: (plugin, success, error) =>
    success ? `Options of plugin ${plugin} changed` : `Plugin ${plugin} refused its new options: ${error}`,
  /** @param {string} name */
  plugin_event: (name) => `Plugin event ${name}`,
  /** @param {string} source @param {string} state @param {string} reason */
  tool_source_changed: (source, state, reason) =>
    `Tools of ${source}: ${state.replaceAll("_", " ")}${reason ? `, ${reason}` : ""}`,
  /** @param {string} names */
  tools_attached: (names) => `Tools added: ${names}`,
  /** @param {string} names */
  tools_detached: (names) => `Tools removed: ${names}`,
  /** @param {string} reason */
  steer_refused: (reason) => `Steer refused: ${reason}`,
  /** @param {string} error */
  agent_error: (error) => `Cycle failed: ${error}`,
  title_generated: "Title generated",
  plan: "Plan",
  planDone: "Plan completed",
};

// --- composer

export const composer = "Message";
export const commands = "Commands";
/** @param {string} name */
export const commandTold = (name) => `Output of /${name}`;
export const commandClose = "Close";
export const placeholders = {
  send: "Message…",
  steer: "Steer the running work…",
  off: "Sending is not possible here.",
};
export const verbs = { send: "Send", steer: "Steer", queue: "Queue" };
export const verbHints = {
  send: "Enter sends, Shift Enter adds a line",
  steer: "Enter steers, Alt Enter queues, Shift Enter adds a line",
  queue: "Alt Enter queues",
};
export const sendStates = { sending: "sending", sent: "sent", failed: "not sent" };
export const sentSteer = {
  queued: "sent, applies at the next turn",
  became_prompt: "sent as a message",
  rejected_by_plugin: "refused by a plugin",
  rejected_full: "refused: too many are queued",
};
/** @param {number} position */
export const sentQueued = (position) => `queued, ${position === 0 ? "next" : `${position} ahead`}`;
export const tryAgain = "Try again";
export const takeBack = "Back to the composer";
export const lostAnswer = "The connection was lost before the response arrived.";
export const offReasons = {
  ended: "This session has ended. You can still read it.",
  deleted: "This session no longer exists.",
  parked: "This session crashed too often and is parked. Resume or fork it to continue.",
  past: "You are viewing the past.",
  child: "This is a sub-agent's session: it accepts no prompts.",
};

// --- states

export const absent = "Session not found";
export const absentHint = "It may have been deleted, or it belongs to another user.";
export const deleted = "This session no longer exists";
export const deletedHint = "You can read it until you leave this page.";
export const empty = "No messages yet.";
export const emptyHint = "Write a message below. Enter sends it.";
export const ended = "This session has ended";
export const parked = "This session is parked";
export const drift = {
  title: "This session is parked: the server's code has changed since its last run",
  /** @param {number} seq */
  record: (seq) => `First record that differs: ${seq}`,
  operation: "First operation that differs",
  plugin: "Probable cause: plugin",
  explained:
    "If you continue, the new code's state applies. A started tool that must not run twice does not run again: its outcome is reported as unknown.",
  goOn: "Continue",
  done: "Session resumed",
};
export const past = "You are viewing the past";
export const backToNow = "Back to now";

// --- now

export const now = {
  running: "Running",
  runningNone: "No running calls.",
  todos: "Todos",
  plan: "Plan",
  queue: "Queue",
  steers: "Queued steers",
  agents: "Agents",
  money: "Cost and context",
  waiting: "Waiting for you",
  model: "Model",
  modelSwitch: "Switch the model",
  modelSwitched: "The next request uses the new model.",
  /** @param {string} words */
  modelRefused: (words) => `Switch refused: ${words}`,
  modelOther: "Other…",
  modelName: "Model string, such as demo:",
  remove: "Remove",
  /** @param {string} words */
  removeNamed: (words) => `Remove “${words}” from the queue`,
  removing: "Removing…",
  /** @param {string} words */
  notRemoved: (words) => `Not removed: ${words}`,
  /** @param {string} used @param {string} limit */
  ofBudget: (used, limit) => `${used} of ${limit}`,
  budget: "Budget",
  left: "Remaining budget",
  cost: "Cost",
  costUnknown: "a price is unknown",
  tokens: "Tokens",
  /** @param {string} input @param {string} output */
  inOut: (input, output) => `${input} in, ${output} out`,
  cached: "of which cached",
  estimated: "estimated",
  context: "Context",
  /** @param {string} tokens @param {string} window */
  ofWindow: (tokens, window) => `${tokens} of ${window}`,
  compact: "Compact",
  compacting: "Requested",
  todoStates: {
    pending: "to do",
    in_progress: "in progress",
    completed: "done",
    cancelled: "cancelled",
    failed: "failed",
    skipped: "skipped",
  },
  /** @param {number} seq */
  lastEvent: (seq) => `event #${seq}`,
};

// --- keys and announcements

export const keyWords = {
  next: "Next item",
  previous: "Previous item",
  open: "Fold or unfold the item",
  nextCycle: "Next cycle",
  previousCycle: "Previous cycle",
  waiting: "First pending request",
  end: "End of the conversation",
  copy: "Copy the item",
  fork: "Fork here",
  rewind: "Rewind to here",
  abort: "Abort",
  search: "Search in this session",
  compose: "Go to the composer",
};
export const area = "Session";

export const says = {
  /** @param {number} calls */
  answered: (calls) => (calls === 0 ? "Answer complete" : `Answer complete, ${counted(calls, "call", "calls")}`),
  /** @param {string} tool */
  approval: (tool) => `Approval needed: ${tool}`,
  question: "A question is waiting for you",
  aborted: "Aborted",
  /** @param {string} error */
  failed: (error) => `Failed: ${error}`,
  ended: "The session has ended",
  sent: "Sent",
  steered: "Steer sent",
  queued: "Queued",
  notSent: "Not sent",
  removed: "Removed from the queue",
};

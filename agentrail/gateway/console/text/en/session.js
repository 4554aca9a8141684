// Words of the console: session. Constants, and functions with numbers and plurals; nothing else may enter.

/** @param {number} count @param {string} one @param {string} many */
const counted = (count, one, many) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

export const title = "Session";
export const untitled = "Untitled session";
export const conversation = "Conversation";
export const back = "All sessions";
export const panel = "Panel";
export const openPanel = "Show what happens now";
export const closePanel = "Close the panel";
export const tabs = { now: "Now", timeline: "Timeline", context: "Context", plugins: "Plugins" };

export const phases = {
  idle: "Idle",
  running: "Working",
  streaming: "Answering",
  executing_tools: "Calling tools",
  waiting: "Waits for you",
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
export const copyId = "Copy its id";
export const copied = "Copied";
export const notCopied = "The browser does not let this page copy.";
export const exportConversation = "Download as text";
export const search = "Search in this session";
export const searchClose = "Close the search";
export const searchNext = "Next place";
export const searchPrevious = "Place before";
/** @param {number} at @param {number} count */
export const searchPlace = (at, count) => (count === 0 ? "Nothing found" : `${at} of ${count}`);
/** @param {number} items */
export const searchAll = (items) =>
  `Searches ${counted(items, "item", "items")} that are loaded. The browser's own search sees only what is on the screen.`;
export const searchOlder = "Load earlier ones";

// --- abort

export const abort = "Abort";
export const abortKey = "Ctrl .";
export const abortSurely = "Abort all the same";
export const abortNot = "Let it work";
export const abortAsksTitle = "Abort?";
/** @param {number} count */
export const abortAsks = (count) =>
  count === 1
    ? "This call is at work, and must not be assumed undone when it is stopped:"
    : `These ${count} calls are at work, and must not be assumed undone when they are stopped:`;
export const abortAsksHint = "What it did outside stays done. The receipt will name it.";
export const abortOver = "The calls have ended. Nothing was aborted.";
export const aborting = "Aborting…";
/** @param {string} words */
export const abortNotSent = (words) => `The abort was not taken: ${words}`;
export const stopCall = "Stop";
/** @param {string} name */
export const stopCallNamed = (name) => `Stop ${name}`;
export const stopping = "Stopping…";

export const receipt = {
  title: "Aborted",
  /** @param {string} reason */
  titled: (reason) => `Aborted: ${reason}`,
  waiting: "Stopping what runs…",
  /** @param {string} time */
  took: (time) => `after ${time}`,
  nothing: "Nothing was at work.",
  unsettled: "It is still being stopped.",
  /** @param {number} count */
  unknown: (count) =>
    count === 1
      ? "It was stopped at work, and may have taken effect. Check before you have it done again."
      : "They were stopped at work, and may have taken effect. Check each before you have it done again.",
  /** @param {number} count */
  survivors: (count) =>
    count === 1
      ? "It runs on, because it must not be stopped by an abort. You can stop it alone."
      : "They run on, because an abort must not stop them. You can stop each alone.",
  /** @param {number} count */
  stuck: (count) =>
    count === 1
      ? "It did not stop in time, and may still be at work. It ends with the server's process at the latest."
      : "They did not stop in time, and may still be at work. They end with the server's process at the latest.",
  /** @param {number} count */
  abandoned: (count) =>
    count === 1
      ? "Its call has ended, but its thread works on until it is done by itself."
      : "Their calls have ended, but their threads work on until they are done by themselves.",
  /** @param {number} count */
  committed: (count) =>
    count === 1 ? "It had finished before; its result counts." : "They had finished before; their results count.",
  /** @param {number} count */
  ended: (count) => `${counted(count, "piece of work", "pieces of work")} ended and gone.`,
  /** @param {number} count */
  reaped: (count) => `${counted(count, "process", "processes")} ended and gone.`,
  /** @param {string} age */
  age: (age) => `for ${age}`,
  /** @param {number} pid */
  pid: (pid) => `process ${pid}, stuck in the kernel`,
  signs: {
    unknown: "May have happened",
    survivors: "Runs on",
    stuck: "Stuck",
    abandoned: "Works on",
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
  summary: "Summary of what came before",
};
export const promptStates = { dropped: "taken out of the queue", rejected: "refused", taken: "taken as a decision" };
export const notLoaded = "What was said is not loaded.";
/** @param {string} path */
export const file = (path) => `File ${path}`;
/** @param {string} name */
export const image = (name) => `Picture ${name}`;
/** @param {string} name @param {string} size */
export const showImage = (name, size) => `Show ${name} (${size})`;
/** @param {string} name @param {string} type */
export const imageNotShown = (name, type) => `Picture ${name} is not shown: ${type}`;
export const imageTooLarge = "it is larger than 4 MiB";
export const imageBroken = "its data cannot be read";

export const thinking = "Thinking";
/** @param {string} time */
export const thoughtFor = (time) => `Thinking ${time}`;
export const answerStates = {
  waiting: "asks the model",
  streaming: "answers",
  pausing: "waits to try again",
  cut: "cut by the abort",
  failed: "failed",
  stopped: "stopped",
};
/** @param {number} attempt */
export const attempt = (attempt) => `attempt ${attempt}`;
/** @param {number} attempt @param {string} message */
export const attemptFailed = (attempt, message) =>
  `Attempt ${attempt} broke off: ${message}${/[.!?…]\s*$/.test(message) ? "" : "."}`;
export const attemptDiscarded = "What it had said is dropped.";
/** @param {string} time @param {number} attempt */
export const retryIn = (time, attempt) => `Attempt ${attempt} in ${time}`;
/** @param {number} attempt */
export const retryNow = (attempt) => `Attempt ${attempt} begins`;
/** @param {string} time */
export const stalled = (time) => `Nothing has come for ${time}; it still may.`;
export const noWords = "No words, only calls.";

// --- calls

export const callStates = {
  asked: "asked for",
  waiting: "waits",
  running: "running",
  pausing: "tries again",
  done: "done",
  failed: "failed",
  blocked: "blocked",
  rejected: "denied",
  skipped: "skipped",
  unknown_tool: "no such tool",
  killed: "stopped",
  uncertain: "may have happened",
};
/** @param {string} state */
export const callStateUnknown = (state) => state.replaceAll("_", " ");
export const survivor = "runs on after the abort";
export const callArguments = "Arguments";
export const argumentsAsked = "The model asked for other arguments:";
export const argumentsMalformed = "What the model wrote is no JSON object:";
export const noArguments = "No arguments.";
export const result = "Result";
export const resultError = "Error";
export const progress = "Progress";
export const details = "Details";
export const fileChange = "Change";
/** @param {string} path */
export const fileWritten = (path) => `Writes all of ${path}; what stood there before is not kept in the journal.`;
/** @param {string} path */
export const fileNew = (path) => `New file ${path}`;
/** @param {string} by @param {string} reason */
export const blockedBy = (by, reason) => (by ? `${by}: ${reason}` : reason);
/** @param {number} attempts */
export const attempts = (attempts) => `${attempts} attempts`;
/** @param {string} path @param {string} size */
export const offloaded = (path, size) => `The result was too large for the model. All of it (${size}) is in ${path}.`;
export const offloadedOpen = "Show the file";
export const offloadedSave = "Download";
/** @param {string} size */
export const loadCut = (size) => `Load all of it (${size} are not shown)`;
export const loadingCut = "Loading…";
/** @param {string} words */
export const loadFailed = (words) => `It could not be loaded: ${words}`;
export const gates = "Who was asked";
/** @param {string} gate @param {string} verdict */
export const gate = (gate, verdict) => `${gate}: ${verdict}`;
export const effects = {
  pure: "changes nothing",
  idempotent: "may be run again",
  reconcilable: "can be checked",
  once: "must not run twice",
};
export const openCall = "Show the call";
/** @param {number} from @param {number} to */
export const group = (from, to) => `Calls ${from.toLocaleString("en")} to ${to.toLocaleString("en")}`;
/** @param {number} count */
export const groupActive = (count) => `${count} at work`;
/** @param {number} count */
export const groupFailed = (count) => `${count} failed`;

// --- children

/** @param {string} name */
export const child = (name) => `Agent ${name}`;
export const childOpen = "Open its session";
export const childNothing = "It has published nothing yet.";
/** @param {number} count */
export const childEarlier = (count) => `Show ${counted(count, "earlier item", "earlier items")}`;
export const childDeep = "Agents more than eight deep are shown in their own session.";
export const childResult = "What it came back with";

// --- decisions

export const decisions = {
  approved: "Allowed",
  rejected: "Denied",
  timeout: "Ran out",
  aborted: "Gone with the abort",
  superseded: "Gone with the next prompt",
  answered: "Answered",
  declined: "Not answered",
  closed: "Closed",
  open: "Waits",
};
export const decidedBy = {
  user: "a person",
  rule: "a rule",
  timeout: "the clock",
  abort: "the abort",
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
      ? `From now on allowed: ${tool} with this very command: “${family}”`
      : `From now on allowed: ${tool} with commands that begin with “${family}”`
    : `From now on allowed: every call of ${tool}`;
/** @param {string} tool */
export const clientCallOf = (tool) => `${tool} runs in the program that this session belongs to, and is waited for.`;
/** @param {string} asked @param {string} decided @param {string} later */
export const askedAndDecided = (asked, decided, later) => `Asked at ${asked}, decided at ${decided}, ${later} later.`;
/** @param {string} reason */
export const askedBecause = (reason) => `Why a person was asked: ${reason}`;
/** @param {number} left */
export const nextWaiting = (left) => (left === 1 ? "Look at the one that still waits" : `Next of ${left} that wait`);
export const review = "Review";
export const answerIt = "Answer";

// --- cycles, gaps, history

export const cycleEnds = { end: "Done", abort: "Aborted", error: "Failed" };
export const cycleReasons = {
  max_turns: "at the last turn that it may have",
  not_resumed: "not resumed",
  superseded: "a new prompt came",
  max_tokens: "at the longest answer that it may give",
  refusal: "the model refused",
};
/** @param {number} count */
export const callCount = (count) => counted(count, "call", "calls");
/** @param {number} from @param {number} to */
export const gap = (from, to) => (from === to ? `Event ${from} is not kept` : `Events ${from}–${to} are not kept`);
export const older = "Load earlier items";
export const olderLoading = "Loading earlier items…";
export const olderStart = "This is where it began.";
/** @param {number} first */
export const olderTrimmed = (first) => `Kept from event ${first} on.`;
export const olderNone = "This server gives no earlier items.";
/** @param {string} words */
export const olderFailed = (words) => `Earlier items could not be loaded: ${words}`;
/** @param {number} count */
export const newer = (count) => (count > 0 ? `${counted(count, "new item", "new items")} below` : "To the end");
export const toEnd = "To the end";

export const unknownEvent = "An event that this page does not know";
export const showJson = "Show its JSON";
export const hideJson = "Hide its JSON";
export const notices = {
  session_start: "The session began",
  /** @param {number} incarnation @param {string} reason */
  session_restarted: (incarnation, reason) =>
    `The session crashed and was brought back (start ${incarnation}): ${reason}`,
  /** @param {number} count */
  session_recovered: (count) =>
    count === 0
      ? "The session was rebuilt from its journal"
      : `The session was rebuilt from its journal; ${counted(count, "thing was", "things were")} open`,
  /** @param {string} reason */
  session_end: (reason) => `The session ended: ${reason}`,
  /** @param {string} reason */
  session_parked: (reason) => `The session crashed too often and is parked: ${reason}`,
  agent_suspended: "Waits for people, and for nothing else",
  agent_resumed: "Goes on",
  /** @param {string} to @param {string | null} note */
  agent_changed: (to, note) => (note ? `Handed over to ${to}: ${note}` : `Handed over to ${to}`),
  /** @param {number} turns */
  max_turns_reached: (turns) => `The last of ${turns} turns: the model is told to answer`,
  /** @param {string} kind @param {string} error */
  signal_quarantined: (kind, error) => `A signal (${kind}) crashed the core and was put aside: ${error}`,
  /** @param {string} from @param {string} to @param {string} by */
  model_switched: (from, to, by) => `Model ${from} → ${to}, by ${by}`,
  /** @param {string} error */
  context_overflow: (error) => `The conversation is longer than the model's window: ${error}`,
  compact_start: "The beginning is being summarised…",
  /** @param {number} removed @param {string} before @param {string} after */
  compact_end: (removed, before, after) =>
    `A summary stands for ${counted(removed, "message", "messages")}: ${before} → ${after} tokens`,
  /** @param {string} by @param {string} reason */
  compact_skipped: (by, reason) => `Not summarised, by ${by}: ${reason.replaceAll("_", " ")}`,
  compact_due: "It is time to summarise the beginning",
  /** @param {string} type @param {string} name @param {number} count */
  loop_detected: (type, name, count) => `${name} goes round in circles (${type.replaceAll("_", " ")}, ${count} times)`,
  /** @param {string} spent @param {string} limit */
  budget_warning: (spent, limit) => `${spent} of ${limit} spent`,
  /** @param {string} citations */
  citation_unknown: (citations) => `Cited, and not among what was found: ${citations}`,
  /** @param {string} prompt */
  content_policy_violated: (prompt) => `Against a policy: ${prompt}`,
  /** @param {number} count */
  memory_flushed: (count) => `${counted(count, "fact", "facts")} kept for later`,
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
    success ? `Plugin ${plugin} has other options now` : `Plugin ${plugin} did not take its options: ${error}`,
  /** @param {string} name */
  plugin_event: (name) => `Plugin event ${name}`,
  /** @param {string} source @param {string} state @param {string} reason */
  tool_source_changed: (source, state, reason) =>
    `Tools of ${source}: ${state.replaceAll("_", " ")}${reason ? `, ${reason}` : ""}`,
  /** @param {string} names */
  tools_attached: (names) => `Tools added: ${names}`,
  /** @param {string} names */
  tools_detached: (names) => `Tools taken away: ${names}`,
  /** @param {string} reason */
  steer_refused: (reason) => `A steer was refused: ${reason}`,
  steerFull: "too many wait",
  steerPlugin: "a plugin said no",
  /** @param {string} error */
  agent_error: (error) => `The cycle failed: ${error}`,
  title_generated: "Has a title now",
  plan: "Plan",
  planDone: "The plan is done",
};

// --- composer

export const composer = "Message";
export const commands = "Commands";
/** @param {string} name */
export const commandTold = (name) => `What /${name} told`;
export const commandClose = "Close";
export const placeholders = {
  send: "Message…",
  steer: "Steer what runs…",
  off: "Nothing can be sent here.",
};
export const verbs = { send: "Send", steer: "Steer", queue: "Queue" };
export const verbHints = {
  send: "Enter sends, Shift Enter is a new line",
  steer: "Enter steers what runs, Alt Enter queues, Shift Enter is a new line",
  queue: "Alt Enter queues",
};
export const sendStates = { sending: "sending", sent: "sent", failed: "not sent" };
export const sentSteer = {
  queued: "sent, enters at the next turn",
  became_prompt: "sent as a message",
  rejected_by_plugin: "refused by a plugin",
  rejected_full: "refused: too many wait",
};
/** @param {number} position */
export const sentQueued = (position) => `queued, ${position === 0 ? "next" : `${position} before it`}`;
export const tryAgain = "Try again";
export const takeBack = "Back to the composer";
export const lostAnswer = "The connection broke before an answer came.";
export const draftKept = "Draft kept";
export const offReasons = {
  ended: "This session has ended. It stays readable.",
  deleted: "This session is not there any more.",
  parked: "This session crashed too often and is parked. Resume or fork it to go on.",
  past: "You are looking at the past.",
  child: "This session works for another one: it takes no prompts of its own.",
};

// --- states

export const absent = "This session is not there";
export const absentHint = "It may be deleted, or belong to another user.";
export const deleted = "This session is not there any more";
export const deletedHint = "What was shown stays readable until you leave.";
export const empty = "Nothing has been said yet.";
export const emptyHint = "Write a message below; Enter sends it.";
export const ended = "This session has ended";
export const parked = "This session is parked";
export const drift = {
  title: "This session is parked: the code of the server has changed since it last worked",
  /** @param {number} seq */
  record: (seq) => `First record that differs: ${seq}`,
  operation: "First operation that differs",
  plugin: "Plugin that probably caused it",
  explained:
    "If you continue, the state of the new code counts. A tool that had begun and must not run twice does not run again: its outcome is reported as unknown.",
  goOn: "Continue",
  done: "The session continues",
};
export const past = "You are looking at the past";
export const backToNow = "Back to now";

// --- now

export const now = {
  running: "Running",
  runningNone: "No call runs.",
  todos: "Todos",
  plan: "Plan",
  queue: "Queue",
  queueNone: "Nothing waits.",
  steers: "Steers that wait",
  agents: "Agents",
  money: "Cost and context",
  waiting: "Waits for you",
  model: "Model",
  modelSwitch: "Switch the model",
  modelSwitched: "The next request goes to the new model.",
  /** @param {string} words */
  modelRefused: (words) => `Not switched: ${words}`,
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
  left: "Left of the budget",
  cost: "Cost",
  costUnknown: "a price is unknown",
  tokens: "Tokens",
  /** @param {string} input @param {string} output */
  inOut: (input, output) => `${input} in, ${output} out`,
  cached: "of these cached",
  estimated: "estimated",
  context: "Context",
  /** @param {string} tokens @param {string} window */
  ofWindow: (tokens, window) => `${tokens} of ${window}`,
  compact: "Summarise the beginning",
  compacting: "Asked for",
  todoStates: {
    pending: "to do",
    in_progress: "at work",
    completed: "done",
    cancelled: "not done",
    failed: "failed",
    skipped: "left out",
  },
  /** @param {number} seq */
  lastEvent: (seq) => `event #${seq}`,
};

// --- keys and announcements

export const keyWords = {
  next: "Next item",
  previous: "Item before",
  open: "Fold or unfold the item",
  nextCycle: "Next cycle",
  previousCycle: "Cycle before",
  waiting: "First thing that waits",
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
  question: "A question waits for you",
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

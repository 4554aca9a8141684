// Words of the console: what waits for a person, rules, going back and branching off. Constants, and functions with numbers and plurals; nothing else may enter.

export const heading = "Approval needed";
/** @param {string} tool */
export const headingOf = (tool) => `Approval needed: ${tool}`;
export const review = "Review…";
export const fold = "Fold";
/** @param {number} place @param {number} total */
export const placeOf = (place, total) => `${place} of ${total}`;
export const nextOne = "Next that waits";
export const previousOne = "One before that waits";
export const waitingList = "What waits for you";

/** @param {string} who */
export const asks = (who) => `${who} asks`;
export const asksUnknown = "A plugin asks";
export const pathLabel = "In";
/** @type {Record<string, { name: string, hint: string }>} */
export const effects = {
  pure: { name: "changes nothing", hint: "The tool says that it changes nothing outside." },
  idempotent: { name: "safe to repeat", hint: "Running it twice with the same arguments changes nothing more." },
  reconcilable: { name: "can be checked", hint: "After a crash the tool can find out whether it was done." },
  once: { name: "runs once", hint: "Nothing is promised about running it twice, and it cannot be taken back." },
  session: { name: "another session", hint: "A session of its own works for this call." },
};
export const effectUnknown = { name: "tool not known", hint: "The tool is not there any more." };
/** @param {string} time */
export const timeLeft = (time) => `${time} left`;
export const timeOver = "time is over";
export const noTime = "waits without a limit";

export const argumentsTitle = "Arguments";
export const asForm = "Form";
export const asJson = "JSON";
export const argumentsView = "Show the arguments as";
/** @param {string} digits */
export const hash = (digits) => `SHA-256 ${digits}…`;
export const noArguments = "No arguments.";
export const required = "required";
export const notGiven = "not given";
export const yes = "true";
export const no = "false";
export const nothing = "null";

export const previewFile = "What it would write";
export const previewCommand = "What it would run";
/** @param {string} digits */
export const fileHash = (digits) => `File as it is now: SHA-256 ${digits}…`;
export const newFile = "There is no such file yet.";
export const directory = "Directory";
export const words = "Words";
export const workspaceRoot = "workspace";

export const warnings = {
  hidden: "Some characters are not seen, or change how others are read. They are marked.",
  spaces: "There are more than 40 spaces in a row, which push what follows out of sight. They are marked.",
  /** @param {string} found */
  mixed: (found) => `Words that mix scripts whose letters look alike: ${found}`,
  /** @param {string} numbers */
  unheld: (numbers) =>
    `This browser cannot hold ${numbers} exactly. The call can be allowed as it is, but not edited here.`,
  mismatch: "What is shown here is not what would run: the hash differs. Load it again before you decide.",
  older: "This server tells less about calls that wait: what is asked is shown, and nothing more.",
};
export const reload = "Load again";

export const allow = "Allow once";
export const allowEdited = "Allow with these changes";
export const always = "Always…";
export const deny = "Deny…";
export const edit = "Edit";
export const back = "Back";
export const copyEdited = "Copy the edited arguments";

export const alwaysTitle = "Allow this from now on?";
export const alwaysYes = "Allow, now and from now on";
/** @param {string} tool */
export const ruleEvery = (tool) => `Every call of ${tool}, whatever its arguments are`;
/** @param {string} tool @param {string} family */
export const ruleFamily = (tool, family) => `${tool}: every simple command that begins with “${family}”`;
/** @param {string} tool @param {string} line */
export const ruleLine = (tool, line) => `${tool}: this very command and no other: “${line}”`;
export const reachLabel = "Where";
/** @type {Record<string, string>} */
export const reaches = { session: "In this session only. Agents that work for it ask for themselves." };
export const alreadyAllowed = "It would have allowed, most recent first:";
export const nothingAllowed = "No earlier call of this conversation would have been allowed by it.";
export const everyWarning = "Its arguments are not looked at any more: think of the worst call of this tool.";

export const denyTitle = "Deny this call";
export const denyReason = "Reason, which the model reads (may be left empty)";
export const denyGoesOn = "The model goes on and reads this";
export const denyYes = "Deny";

export const editTitle = "Edit the arguments";
export const editJson = "Arguments as JSON";
export const editChanges = "Asked, and what would run instead";
export const editSame = "Nothing is changed: the call runs as it was asked.";
export const editHidden = "Has characters that are not seen: edit it as JSON.";
export const editDraft = "Your earlier changes are still here.";
export const discard = "Discard the changes";
/** @param {string} name */
export const notJson = (name) => `${name} is not JSON`;

/** @type {Record<string, string>} */
export const jsonFaults = {
  end: "it ends too early",
  value: "a value is expected here",
  rest: "something stands behind the value",
  name: "a name in double quotes is expected here",
  colon: "a colon is expected here",
  comma: "a comma, or the end, is expected here",
  number: "this is no number as JSON writes it",
  escape: "there is no such escape",
  control: "a text ends in its line; a line break inside is written \\n",
  double: "this name stands there twice",
  deep: "it is nested too deeply",
  half: "a text has half of a character",
  object: "arguments are an object: { … }",
  unheld: "this browser cannot hold that number exactly",
};
/** @param {string} fault @param {number} line @param {number} column */
export const jsonFault = (fault, line, column) => `Line ${line}, column ${column}: ${fault}`;

/** @type {Record<string, (wanted: string) => string>} */
export const schemaFaults = {
  type: (wanted) => `expected ${wanted}`,
  required: () => "is required",
  unknown: () => "is not known to the tool",
  enum: (wanted) => `expected one of ${wanted}`,
  least: (wanted) => `expected at least ${wanted}`,
  most: (wanted) => `expected at most ${wanted}`,
  short: (wanted) => `is shorter than ${wanted} characters`,
  long: (wanted) => `is longer than ${wanted} characters`,
  pattern: (wanted) => `does not fit the pattern ${wanted}`,
  few: (wanted) => `has fewer than ${wanted}`,
  many: (wanted) => `has more than ${wanted}`,
  unique: () => "has something twice",
  multiple: (wanted) => `is no multiple of ${wanted}`,
  none: () => "fits none of what may stand here",
  several: () => "fits more than one of what may stand here",
  never: () => "may not stand here",
};
/** @param {string} path @param {string} fault */
export const schemaFault = (path, fault) => `${path} ${fault}`;
export const schemaTitle = "The tool does not take these:";

export const sending = "Sending…";
export const decided = {
  approved: "You allowed this call.",
  always: "You allowed this call, and calls like it.",
  edited: "You allowed this call with changes.",
  rejected: "You denied this call.",
  answered: "You answered.",
  declined: "You declined to answer.",
};
/** How an approval ended that somebody else, or something else, decided. */
export const late = {
  /** @param {string} time */
  approved: (time) => `Somebody allowed this call already${time}. Nothing runs twice.`,
  /** @param {string} time */
  rejected: (time) => `Somebody denied this call already${time}. It does not run.`,
  /** @param {string} time */
  rule: (time) => `A rule that somebody made allowed this call already${time}. Nothing runs twice.`,
  /** @param {string} time */
  timeout: (time) => `The time to decide ran out${time}: the call was not run.`,
  /** @param {string} time */
  aborted: (time) => `The call was stopped before it was decided${time}: it does not run.`,
  /** @param {string} time */
  superseded: (time) => `Another message took the place of this decision${time}: the call does not run.`,
  /** @param {string} time */
  answered: (time) => `Somebody answered already${time}.`,
  gone: "This does not wait any more.",
};
/** @param {string} time */
export const atTime = (time) => `, at ${time}`;
export const mismatchTitle =
  "The arguments are not those that you were shown. Nothing was run. Look at what changed, and decide again.";
export const mismatchSame =
  "The server has other arguments than those that you were shown, and nothing was run. It does not tell which.";
export const refused = "The server did not take this:";

export const questionTitle = "A question";
/** @param {string} tool */
export const askedBy = (tool) => `of ${tool}`;
export const answer = "Answer";
export const answerLabel = "Your answer";
export const choose = "Choose one, or write an answer";
export const decline = "Decline";
export const questionUrl = "With it goes an address:";
/** @param {string} path */
export const announceApproval = (path) => `Approval needed: ${path}`;

export const rules = {
  title: "Always allowed",
  empty: "Nothing is always allowed here: each call that wants an approval asks.",
  revoke: "Revoke",
  /** @param {string} rule */
  revokeOf: (rule) => `Revoke: ${rule}`,
  revoked: "Revoked. The next such call asks.",
  gone: "This rule was revoked already.",
  rule: "Rule",
  where: "Where",
  since: "Since",
  /** @param {string} session */
  inSession: (session) => `In ${session} only`,
  here: "In this session only",
  unknownTime: "not kept",
};

export const rewind = {
  /** @param {number | null} at */
  title: (at) => (at === null ? "Rewind to here" : `Rewind to record ${at}`),
  explained:
    "What runs is stopped, prompts that wait are thrown away, and the session goes on from there. Nothing of the journal is deleted.",
  files: "Put the files back too that its tools have written since",
  yes: "Rewind",
  done: "The session went back.",
  /** @param {number} restored @param {number} removed */
  filesDone: (restored, removed) => `Files restored: ${restored}, removed: ${removed}.`,
  conflicts: "Left as they are, because something else has changed them since:",
  failed: "Could not be restored:",
};
export const fork = {
  /** @param {number | null} at */
  title: (at) => (at === null ? "Fork from here" : `Fork at record ${at}`),
  explained: "A new session goes on from there, in a journal of its own. This one goes on as it is.",
  yes: "Fork",
};
export const behind = {
  title: "What stays done outside",
  none: "No call behind it has changed anything outside that is known.",
  /** @param {number} count */
  count: (count) => (count === 1 ? "One call is not taken back:" : `${count} calls are not taken back:`),
  notTold: "This server does not tell what stays done outside.",
  tool: "Call",
  effect: "Promise",
  outcome: "Ended",
  record: "Record",
  /** @type {Record<string, string>} */
  outcomes: {
    running: "still runs",
    done: "done",
    failed: "failed, may have taken effect",
    unknown: "stopped, unknown what it did",
  },
};

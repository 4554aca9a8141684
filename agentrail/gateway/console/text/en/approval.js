// Words of the console: what waits for a person, rules, going back and branching off. Constants, and functions with numbers and plurals; nothing else may enter.

export const heading = "Approval needed";
/** @param {string} tool */
export const headingOf = (tool) => `Approval needed: ${tool}`;
export const review = "Review…";
export const fold = "Fold";
/** @param {number} place @param {number} total */
export const placeOf = (place, total) => `${place} of ${total}`;
export const nextOne = "Next request";
export const previousOne = "Previous request";
export const waitingList = "Waiting for you";

/** @param {string} who */
export const asks = (who) => `${who} asks`;
export const asksUnknown = "A plugin asks";
export const pathLabel = "In";
/** @type {Record<string, { name: string, hint: string }>} */
export const effects = {
  pure: { name: "changes nothing", hint: "The tool declares that it changes nothing outside." },
  idempotent: { name: "safe to repeat", hint: "A second run with the same arguments changes nothing more." },
  reconcilable: { name: "can be checked", hint: "After a crash, the tool can check whether the call took effect." },
  once: { name: "runs once", hint: "A second run may do it twice, and it cannot be undone." },
  session: { name: "another session", hint: "The call runs in a separate session." },
};
export const effectUnknown = { name: "unknown tool", hint: "The tool no longer exists." };
/** @param {string} time */
export const timeLeft = (time) => `${time} left`;
export const timeOver = "expired";
export const noTime = "no time limit";

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

export const previewFile = "File change";
export const previewCommand = "Command";
/** @param {string} digits */
export const fileHash = (digits) => `Current file: SHA-256 ${digits}…`;
export const newFile = "The file does not exist yet.";
export const directory = "Directory";
export const words = "Words";
export const workspaceRoot = "workspace";

export const warnings = {
  hidden: "Some characters are invisible or change how others are read. They are marked.",
  spaces: "More than 40 spaces in a row push the text after them out of sight. They are marked.",
  /** @param {string} found */
  mixed: (found) => `Words that mix look-alike letters of different scripts: ${found}`,
  /** @param {string} numbers */
  unheld: (numbers) =>
    `This browser cannot represent ${numbers} exactly. You can allow the call unchanged, but not edit it here.`,
  mismatch: "The call has changed since it was shown: its hash differs. Reload it before you decide.",
  older: "This server reports fewer details of pending calls. Only the request itself is shown.",
};
export const reload = "Reload";

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
export const ruleEvery = (tool) => `Every call of ${tool}, with any arguments`;
/** @param {string} tool @param {string} family */
export const ruleFamily = (tool, family) => `${tool}: every simple command that begins with “${family}”`;
/** @param {string} tool @param {string} line */
export const ruleLine = (tool, line) => `${tool}: exactly this command: “${line}”`;
export const reachLabel = "Where";
/** @type {Record<string, string>} */
export const reaches = { session: "In this session only. Its sub-agents ask separately." };
export const alreadyAllowed = "Earlier calls that it would have allowed, most recent first:";
export const nothingAllowed = "It would have allowed no earlier call of this conversation.";
export const everyWarning = "Arguments are no longer checked: consider the worst possible call of this tool.";

export const denyTitle = "Deny this call";
export const denyReason = "Reason for the model (optional)";
export const denyGoesOn = "The model continues and reads this";
export const denyYes = "Deny";

export const editTitle = "Edit the arguments";
export const editJson = "Arguments as JSON";
export const editChanges = "Requested and edited arguments";
export const editSame = "No changes: the call runs as requested.";
export const editHidden = "Contains invisible characters: edit it as JSON.";
export const discard = "Discard the changes";
/** @param {string} name */
export const notJson = (name) => `${name} is not JSON`;

/** @type {Record<string, string>} */
export const jsonFaults = {
  end: "it ends too early",
  value: "a value is expected here",
  rest: "there is text after the value",
  name: "a name in double quotes is expected here",
  colon: "a colon is expected here",
  comma: "a comma, or the end, is expected here",
  number: "this is not a JSON number",
  escape: "unknown escape",
  control: "a string must end on its line; write a line break as \\n",
  double: "duplicate name",
  deep: "it is nested too deeply",
  half: "a string contains half of a surrogate pair",
  object: "arguments must be an object: { … }",
  unheld: "this browser cannot represent that number exactly",
};
/** @param {string} fault @param {number} line @param {number} column */
export const jsonFault = (fault, line, column) => `Line ${line}, column ${column}: ${fault}`;

/** @type {Record<string, (wanted: string) => string>} */
export const schemaFaults = {
  type: (wanted) => `expected ${wanted}`,
  required: () => "is required",
  unknown: () => "is unknown to the tool",
  enum: (wanted) => `expected one of ${wanted}`,
  least: (wanted) => `expected at least ${wanted}`,
  most: (wanted) => `expected at most ${wanted}`,
  short: (wanted) => `is shorter than ${wanted} characters`,
  long: (wanted) => `is longer than ${wanted} characters`,
  pattern: (wanted) => `does not match the pattern ${wanted}`,
  few: (wanted) => `has fewer than ${wanted}`,
  many: (wanted) => `has more than ${wanted}`,
  unique: () => "contains a duplicate",
  multiple: (wanted) => `is not a multiple of ${wanted}`,
  none: () => "matches none of the allowed forms",
  several: () => "matches more than one of the allowed forms",
  never: () => "is not allowed here",
};
/** @param {string} path @param {string} fault */
export const schemaFault = (path, fault) => `${path} ${fault}`;
export const schemaTitle = "The tool does not accept:";

export const sending = "Sending…";
export const decided = {
  approved: "You allowed this call.",
  always: "You allowed this call, and calls like it.",
  edited: "You allowed this call with changes.",
  rejected: "You denied this call.",
  answered: "You answered.",
  declined: "You declined to answer.",
};
/** Outcome of an approval that another user, a rule or an event decided. */
export const late = {
  /** @param {string} time */
  approved: (time) => `Already allowed${time}. Nothing runs twice.`,
  /** @param {string} time */
  rejected: (time) => `Already denied${time}. The call does not run.`,
  /** @param {string} time */
  rule: (time) => `Already allowed by a rule${time}. Nothing runs twice.`,
  /** @param {string} time */
  timeout: (time) => `The approval expired${time}. The call did not run.`,
  /** @param {string} time */
  aborted: (time) => `The call was aborted before the decision${time}. It does not run.`,
  /** @param {string} time */
  superseded: (time) => `Superseded by another message${time}. The call does not run.`,
  /** @param {string} time */
  answered: (time) => `Already answered${time}.`,
  gone: "This request is no longer pending.",
};
/** @param {string} time */
export const atTime = (time) => ` at ${time}`;
export const mismatchTitle =
  "The arguments have changed since they were shown. Nothing ran. Review the changes and decide again.";
export const mismatchSame =
  "The arguments on the server differ from those shown, and nothing ran. The server does not report the difference.";
export const refused = "The server refused this:";

export const questionTitle = "A question";
/** @param {string} tool */
export const askedBy = (tool) => `by ${tool}`;
export const answer = "Answer";
export const answerLabel = "Your answer";
export const choose = "Choose one, or write an answer";
export const decline = "Decline";
export const questionUrl = "Link:";
/** @param {string} path */
export const announceApproval = (path) => `Approval needed: ${path}`;

export const rules = {
  title: "Rules and breakpoints",
  empty: "No rules. Each call that needs an approval asks.",
  revoke: "Revoke",
  /** @param {string} rule */
  revokeOf: (rule) => `Revoke: ${rule}`,
  revoked: "Revoked. The next matching call asks.",
  ended: "Breakpoint ended. Calls that it stopped still wait.",
  /** @param {string} tool */
  breakpoint: (tool) =>
    tool === "*" ? "Breakpoint: every call needs an approval" : `Breakpoint: every call of ${tool} needs an approval`,
  gone: "This rule was revoked already.",
  rule: "Rule",
  where: "Where",
  since: "Since",
  /** @param {string} session */
  inSession: (session) => `In ${session} only`,
  here: "In this session only",
  unknownTime: "unknown",
};

export const rewind = {
  /** @param {number | null} at */
  title: (at) => (at === null ? "Rewind to here" : `Rewind to record ${at}`),
  explained:
    "Running work is stopped and queued prompts are discarded. The session continues from this point. The journal is kept.",
  files: "Also restore files that its tools have written since",
  yes: "Rewind",
  done: "The session was rewound.",
  /** @param {number} restored @param {number} removed */
  filesDone: (restored, removed) => `Files restored: ${restored}, removed: ${removed}.`,
  conflicts: "Not restored, because something else has changed them since:",
  failed: "Could not be restored:",
};
export const fork = {
  /** @param {number | null} at */
  title: (at) => (at === null ? "Fork from here" : `Fork at record ${at}`),
  explained: "A new session with its own journal continues from this point. This session stays as it is.",
  yes: "Fork",
};
export const behind = {
  title: "External effects that remain",
  none: "No later call is known to have changed anything outside.",
  /** @param {number} count */
  count: (count) => (count === 1 ? "One call is not undone:" : `${count} calls are not undone:`),
  notTold: "This server does not report external effects.",
  tool: "Call",
  effect: "Promise",
  outcome: "Outcome",
  record: "Record",
  /** @type {Record<string, string>} */
  outcomes: {
    running: "still running",
    done: "done",
    failed: "failed, may have taken effect",
    unknown: "stopped, effect unknown",
  },
};

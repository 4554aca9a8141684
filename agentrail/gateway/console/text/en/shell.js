// Words of the console: the frame of every page. Constants, and functions with numbers and plurals; nothing else may enter.

export const product = "agentrail";
export const pages = {
  sessions: "Sessions",
  session: "Session",
  tree: "Tree",
  journal: "Journal",
  cost: "Cost",
  plugins: "Plugins",
};
export const mainNavigation = "Pages";
export const skipToContent = "Skip to the content";
/** @param {number} count @param {string} title */
export const titleWaiting = (count, title) => `(${count}) ${title}`;
/** @param {string} page */
export const documentTitle = (page) => `${page} · agentrail`;

export const loading = "Loading…";
export const retry = "Try again";
export const close = "Close";
export const cancel = "Cancel";
export const copy = "Copy";
export const copied = "Copied";
export const reload = "Reload";

export const couldNotBeDrawn = "Rendering failed";
export const couldNotBeDrawnHint = "The rest of the page works. This was to be shown:";
export const pageMissing = "Page not found";
/** @param {string} path */
export const pageMissingHint = (path) => `This console has no page at ${path}.`;
export const pageNotServed = "This part of the console could not be loaded. The server may be an older one.";
export const toSessions = "Go to the sessions";

/** @param {string} page @param {string} scope */
export const needsScope = (page, scope) => `${page} needs a token with the scope “${scope}”.`;
/** @param {string} scope */
export const needsScopeHint = (scope) =>
  `Your token does not have it. “agentrail token new --scopes ${scope}” creates one that does.`;
/** @param {string} page */
export const pageOfOlderServer = (page) => `${page} needs a newer server.`;
/** @param {number} first */
export const trimmed = (first) => `Records before ${first} are no longer stored.`;
export const refused = "The server refused this.";
export const unreachable = "The server could not be reached.";

export const tokenNeeded = "This server requires a token.";
export const tokenRefused = "This link's token is not accepted";
export const tokenTypedRefused = "This token is not accepted";
export const tokenEnded = "Your token expired or was revoked: log in again. Your draft is kept";
export const tokenExplained =
  "It may be wrong or expired. “agentrail token new” creates one. It is kept in this tab only.";
export const tokenLabel = "Token";
export const tokenSend = "Continue";

export const serverOlder = "This server is older than this page: some things are not shown.";
export const serverNewer = "This server is newer than this page.";
export const serverRestarted = "The server was restarted.";
export const demo = "Demo: a simulated model, free of cost.";

export const connection = {
  title: "Connection",
  connecting: "Connecting",
  live: "Live",
  lost: "Connection lost",
  refused: "Not connected",
  paused: "Paused while hidden",
  /** @param {number} seconds @param {string | null} asOf */
  lostBar: (seconds, asOf) =>
    `Connection lost, ${seconds > 0 ? `next try in ${seconds} s` : "trying now"}${asOf ? `, data from ${asOf}` : ""}`,
  tryNow: "Try now",
  back: "Connected again",
  /** @param {number} count */
  caughtUp: (count) =>
    count === 0 ? "Connected again" : `Connected again: ${count === 1 ? "one event" : `${count} events`} received`,
  server: "Server",
  protocol: "Protocol",
  features: "Features",
  caller: "You",
  scopes: "Scopes",
  expires: "Token ends",
  never: "never",
  state: "State",
  since: "since",
  counters: "Counters since the page was opened",
  none: "none",
  unknown: "unknown",
  switchOff: "Forget the token",
};
export const counters = {
  frames: "Frames received",
  events: "Events received",
  doubled: "Duplicate events, ignored",
  bad_frames: "Frames that could not be read",
  unknown_frames: "Frames of an unknown kind",
  lag: "Deltas skipped because this page was slow",
  reconnects: "Connections lost",
  given_up: "Abandoned handshakes",
  drawing_failures: "Rendering failures",
  errors: "Errors of the page",
};

export const theme = { label: "Colours", system: "System", light: "Light", dark: "Dark" };

export const keys = {
  title: "Keys",
  open: "Keys",
  single: "Single-letter shortcuts",
  singleHint: "If off, only shortcuts with Ctrl, Alt or ⌘ work.",
  everywhere: "Everywhere",
  goTo: (/** @type {string} */ page) => `Go to ${page}`,
  help: "Show the keys",
  palette: "Find a session, a page or a command",
  search: "Search",
  followedBy: "then",
};

export const palette = {
  title: "Go to",
  placeholder: "Session, page or command",
  nothing: "No matches.",
  /** @param {number} count */
  found: (count) => (count === 1 ? "One entry" : `${count} entries`),
  page: "Page",
  session: "Session",
  command: "Command",
};

export const list = {
  /** @param {number} at @param {number} total */
  place: (at, total) => `${at} of ${total}`,
  sort: "Sort",
  ascending: "ascending",
  descending: "descending",
  expand: "Unfold",
  collapse: "Fold",
};

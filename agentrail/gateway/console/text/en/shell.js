// Words of the console: what stands around every page. Constants, and functions with numbers and plurals; nothing else may enter.

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

export const couldNotBeDrawn = "Could not be drawn";
export const couldNotBeDrawnHint = "The rest goes on. This is what it was to show:";
export const pageMissing = "This page is not there";
/** @param {string} path */
export const pageMissingHint = (path) => `Nothing in this console has the address ${path}.`;
export const pageNotServed = "This part of the console could not be loaded. The server may be an older one.";
export const toSessions = "Go to the sessions";

/** @param {string} page @param {string} scope */
export const needsScope = (page, scope) => `${page} needs a token with the scope “${scope}”.`;
/** @param {string} scope */
export const needsScopeHint = (scope) =>
  `The token that you came with does not have it. “agentrail token new --scopes ${scope}” makes one that does.`;
/** @param {string} page */
export const pageOfOlderServer = (page) => `${page} needs a newer server than this one.`;
/** @param {number} first */
export const trimmed = (first) => `Kept from record ${first} on.`;
export const refused = "The server refused this.";
export const unreachable = "The server could not be reached.";

export const tokenTitle = "Who are you?";
export const tokenNeeded = "This server wants a token.";
export const tokenRefused = "This link's token is not accepted";
export const tokenTypedRefused = "This token is not accepted";
export const tokenEnded = "Your token expired or was revoked: log in again. Your draft is kept";
export const tokenExplained =
  "It may be wrong, or its time may be over. “agentrail token new” makes one. It is kept in this tab only.";
export const tokenLabel = "Token";
export const tokenSend = "Go on";

export const serverOlder = "This server is older than this page: some things are not shown.";
export const serverNewer = "This server is newer than this page.";
export const serverRestarted = "The server was restarted.";
export const demo = "Demo: the model is made up, and costs nothing.";

export const connection = {
  title: "Connection",
  connecting: "Connecting",
  live: "Live",
  lost: "Connection lost",
  refused: "Not connected",
  paused: "Paused while hidden",
  /** @param {number} seconds @param {string | null} asOf */
  lostBar: (seconds, asOf) =>
    `Connection lost, ${seconds > 0 ? `next try in ${seconds} s` : "trying now"}${asOf ? `, shown as of ${asOf}` : ""}`,
  tryNow: "Try now",
  back: "Connected again",
  /** @param {number} count */
  caughtUp: (count) =>
    count === 0
      ? "Connected again"
      : `Connected again: ${count === 1 ? "one event" : `${count} events`} came in between`,
  server: "Server",
  protocol: "Protocol",
  features: "Features",
  caller: "You",
  scopes: "Scopes",
  expires: "Token ends",
  never: "never",
  state: "State",
  since: "since",
  counters: "Counted since the page was opened",
  none: "none",
  unknown: "not told",
  switchOff: "Forget the token",
};
export const counters = {
  frames: "Frames received",
  events: "Events received",
  doubled: "Events received twice, and ignored",
  bad_frames: "Frames that could not be read",
  unknown_frames: "Frames of an unknown kind",
  lag: "Deltas left out, because this page was slow",
  reconnects: "Connections lost",
  given_up: "Handshakes given up",
  drawing_failures: "Things that could not be drawn",
  errors: "Errors of the page",
};

export const theme = { label: "Colours", system: "As the system", light: "Light", dark: "Dark" };

export const keys = {
  title: "Keys",
  open: "Keys",
  single: "Single letters are keys",
  singleHint: "Off: only keys with Ctrl, Alt or ⌘ do something.",
  everywhere: "Everywhere",
  goTo: (/** @type {string} */ page) => `Go to ${page}`,
  help: "Show the keys",
  palette: "Find a session, a page or a command",
  search: "Search",
  closeTop: "Close what is on top",
  followedBy: "then",
};

export const palette = {
  title: "Go to",
  placeholder: "Session, page or command",
  nothing: "Nothing has that name.",
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

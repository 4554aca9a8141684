// The table of pages: address, what a token needs for each, what a server has to have, and from where it is loaded. Pages are loaded when they are first
// opened, with their styles, so that the first load is small. Knows no page from inside.

import { matchPath } from "./pure/route.js";

/**
 * What a page is given.
 * @typedef {object} PageProps
 * @property {import("./wire/api.js").Api} api
 * @property {import("./wire/socket.js").Connection} connection
 * @property {Info} info
 * @property {Record<string, string>} params The parts of the address by name, and what stands behind its question mark.
 * @property {(href: string, options?: { replace?: boolean }) => void} navigate
 * @property {boolean} [isBeside] Whether it is drawn small, beside the page that `params` belong to.
 */

/**
 * What a page's module exports as `page`.
 * @typedef {object} PageModule
 * @property {string} route
 * @property {string} title
 * @property {(props: PageProps) => any} Page
 */

/**
 * What `console/info` says.
 * @typedef {object} Info
 * @property {string} version
 * @property {string} instance
 * @property {string} protocol
 * @property {string[]} features
 * @property {{ tenant: string, user: string | null, scopes: string[], expires_at_ms: number | null }} principal
 * @property {{ agent_id: string, description: string | null, model: string | null }[]} profiles
 * @property {{ model: string, window: number | null, input_price: number | null, output_price: number | null }[]} models
 * @property {Record<string, number>} limits
 * @property {boolean} journal
 * @property {boolean} demo
 */

/** @typedef {"sessions" | "session" | "tree" | "journal" | "cost" | "plugins"} PageName */

/**
 * @typedef {object} PageEntry
 * @property {PageName} name
 * @property {string} path
 * @property {boolean} inBar
 * @property {string} key Behind `g`.
 * @property {"use" | "inspect"} scope
 * @property {PageName | null} beside What is drawn beside it where there is room.
 * @property {string[]} css
 * @property {() => Promise<{ page: PageModule }>} load
 */

/** @type {readonly PageEntry[]} In the order of the bar. */
export const PAGES = [
  {
    name: "sessions",
    path: "/",
    inBar: true,
    key: "s",
    scope: "use",
    beside: null,
    css: ["list", "approval"],
    load: () => import("./pages/sessions.js"),
  },
  {
    name: "session",
    path: "/s/:id",
    inBar: false,
    key: "",
    scope: "use",
    beside: "sessions",
    css: ["session", "approval", "timeline", "plugins"],
    load: () => import("./pages/session.js"),
  },
  {
    name: "journal",
    path: "/s/:id/journal",
    inBar: false,
    key: "j",
    scope: "inspect",
    beside: null,
    css: ["session", "journal"],
    load: () => import("./pages/journal.js"),
  },
  {
    name: "tree",
    path: "/tree",
    inBar: true,
    key: "t",
    scope: "inspect",
    beside: null,
    css: ["tree"],
    load: () => import("./pages/tree.js"),
  },
  {
    name: "cost",
    path: "/cost",
    inBar: true,
    key: "c",
    scope: "inspect",
    beside: null,
    css: ["cost"],
    load: () => import("./pages/cost.js"),
  },
  {
    name: "plugins",
    path: "/plugins",
    inBar: true,
    key: "p",
    scope: "inspect",
    beside: null,
    css: ["plugins"],
    load: () => import("./pages/plugins.js"),
  },
];

/**
 * Finds the page of a path; null where there is none.
 * @param {string} path
 * @returns {{ entry: PageEntry, params: Record<string, string> } | null}
 */
export function findPage(path) {
  for (const entry of PAGES) {
    const params = matchPath(entry.path, path);
    if (params !== null) return { entry, params };
  }
  return null;
}

/** @param {PageName} name */
export function pageNamed(name) {
  const found = PAGES.find((one) => one.name === name);
  if (found === undefined) throw new Error(`there is no page ${name}`);
  return found;
}

/** @type {Map<PageName, Promise<PageModule>>} */
const loaded = new Map();

/**
 * Loads a page and its styles, once; one that failed is tried again the next time.
 * @param {PageEntry} entry
 * @returns {Promise<PageModule>}
 */
export function loadPage(entry) {
  const known = loaded.get(entry.name);
  if (known !== undefined) return known;
  const coming = Promise.all([entry.load(), ...entry.css.map(loadStyle)]).then(([module]) => module.page);
  loaded.set(entry.name, coming);
  coming.catch(() => loaded.delete(entry.name));
  return coming;
}

/** @type {Map<string, Promise<void>>} */
const styles = new Map();

/**
 * @param {string} name
 * @returns {Promise<void>} When it is there, or is not to be had: a page without its styles is better than none.
 */
function loadStyle(name) {
  const known = styles.get(name);
  if (known !== undefined) return known;
  /** @type {Promise<void>} */
  const coming = new Promise((resolve) => {
    const href = new URL(`./css/${name}.css`, import.meta.url).href;
    // Those of the first page stand in index.html.
    if ([...document.styleSheets].some((one) => one.href === href)) return resolve();
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = href;
    link.onload = link.onerror = () => resolve();
    document.head.append(link);
  });
  styles.set(name, coming);
  return coming;
}

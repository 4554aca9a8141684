// The shell: what stands around every page, and which page is shown. Knows no session and no event; pages know nothing of each other.

import { findPage, loadPage, PAGES, pageNamed } from "./pages.js";
import { Announcer, announce } from "./parts/announce.js";
import { ConnectionBar, ConnectionButton, ConnectionPanel } from "./parts/connection.js";
import { Guarded } from "./parts/guarded.js";
import { Icon } from "./parts/icon.js";
import { KeysHelp, startKeys, useKeys } from "./parts/keys.js";
import { CommandPalette } from "./parts/palette.js";
import { Empty, Loading, Problem, Refused } from "./parts/states.js";
import { applyTheme, ThemeButton } from "./parts/theme.js";
import { setTitle } from "./parts/title.js";
import { TokenField } from "./parts/token_field.js";
import { hrefOf, placeOf, tokenOf } from "./pure/route.js";
import { text } from "./text/en.js";
import { html, render, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./ui.js";
import { Api, ApiError } from "./wire/api.js";
import { counters } from "./wire/counters.js";
import { ofTab } from "./wire/kept.js";
import { Connection, PROTOCOL } from "./wire/socket.js";

const BESIDE_FROM = "(min-width: 1100px)";
const CAUGHT_UP_MS = 4_000;

/** @typedef {import("./pages.js").Info} Info */
/** @typedef {import("./pages.js").PageEntry} PageEntry */
/** @typedef {import("./pages.js").PageModule} PageModule */

/** What is taken for true of a server that has no `console/info`. @type {Info} */
const INFO_OF_OLD = {
  version: "",
  instance: "",
  protocol: PROTOCOL,
  features: [],
  principal: { tenant: "", user: null, scopes: ["use"], expires_at_ms: null },
  profiles: [],
  models: [],
  limits: {},
  journal: false,
  demo: false,
};

/**
 * Begins: takes the token out of the address before the first request, then draws.
 * @param {Window & typeof globalThis} window
 */
export function start(window) {
  const { location, history, document } = window;
  const given = tokenOf(location.hash);
  if (given !== null) {
    history.replaceState(null, "", `${location.pathname}${location.search}#${given.to}`);
    ofTab.set("token", given.token);
  }
  applyTheme();
  const base = new URL("../", document.baseURI);
  const token = ofTab.get("token");
  const api = new Api(base.href, token);
  const url = new URL("ws", base);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const connection = new Connection({ url: url.href, token, counters });
  window.addEventListener("error", () => {
    counters.errors += 1;
  });
  window.addEventListener("unhandledrejection", () => {
    counters.errors += 1;
  });
  window.addEventListener("online", () => connection.tryNow());
  document.addEventListener("visibilitychange", () => connection.setHidden(document.hidden));
  startKeys(document);
  const root = document.getElementById("app");
  if (root !== null) render(html`<${App} api=${api} connection=${connection} cameByLink=${given !== null} />`, root);
}

/** @returns {import("./pure/route.js").Place} */
function usePlace() {
  const [place, setPlace] = useState(placeOf(location.hash));
  useEffect(() => {
    const changed = () => setPlace(placeOf(location.hash));
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return place;
}

/**
 * @param {string} href
 * @param {{ replace?: boolean }} [options]
 */
function navigate(href, options = {}) {
  if (options.replace) {
    history.replaceState(null, "", href);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = href.startsWith("#") ? href.slice(1) : href;
  }
}

/** @param {string} query */
function useMedia(query) {
  const [fits, setFits] = useState(matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const changed = () => setFits(media.matches);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, [query]);
  return fits;
}

/**
 * Asks the server who it is and who we are, until it has said so.
 * @param {Api} api
 * @param {Connection} connection
 * @param {boolean} cameByLink
 */
function useServer(api, connection, cameByLink) {
  const [info, setInfo] = useState(/** @type {Info | null} */ (null));
  const [problem, setProblem] = useState(/** @type {ApiError | null} */ (null));
  const [wants, setWants] = useState(/** @type {"needed" | "link" | "typed" | "ended" | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  const why = useRef(/** @type {"needed" | "link" | "typed" | "ended"} */ (cameByLink ? "link" : "needed"));
  const ask = async () => {
    setBusy(true);
    setProblem(null);
    try {
      const found = await infoOf(api);
      why.current = "ended"; // it was accepted: what refuses it from now on is its end
      connection.features = new Set(found.features);
      setInfo(found);
      setWants(null);
      connection.start();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status !== 401) setProblem(error);
    } finally {
      setBusy(false);
    }
  };
  const useToken = (/** @type {string | null} */ token) => {
    why.current = token === null ? "needed" : "typed";
    ofTab.set("token", token);
    api.token = token;
    connection.useToken(token);
    if (token === null) setWants("needed");
    else ask();
  };
  useEffect(() => {
    api.onUnauthorized = connection.onUnauthorized = () => setWants(why.current);
    connection.onRestarted = () => {
      announce(text.shell.serverRestarted);
      ask();
    };
    ask();
  }, []);
  return { info, problem, wants, isBusy, ask, useToken, dismiss: () => setWants(null) };
}

/**
 * @param {Api} api
 * @returns {Promise<Info>}
 */
async function infoOf(api) {
  try {
    return { ...INFO_OF_OLD, ...(await api.get("console/info")) };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
    await api.get("sessions", { limit: 1 }); // an older server: this says whether it takes our token
    return INFO_OF_OLD;
  }
}

/**
 * @param {{ api: Api, connection: Connection, cameByLink: boolean }} props
 */
function App({ api, connection, cameByLink }) {
  const place = usePlace();
  const server = useServer(api, connection, cameByLink);
  const [open, setOpen] = useState(/** @type {"keys" | "palette" | "connection" | null} */ (null));
  const [caughtUp, setCaughtUp] = useState(/** @type {number | null} */ (null));
  const close = () => setOpen(null);
  useEffect(() => {
    connection.onCaughtUp = (count) => {
      setCaughtUp(count);
      announce(text.shell.connection.caughtUp(count));
      setTimeout(() => setCaughtUp(null), CAUGHT_UP_MS);
    };
  }, []);
  const found = findPage(place.path);
  const sessionId = found?.params.id ?? null;
  const commands = useCommands(sessionId, setOpen);
  const { info } = server;
  return html`
    <a class="skip" href="#content" onClick=${skip}>${text.shell.skipToContent}</a>
    <${Bar} found=${found} info=${info} connection=${connection} setOpen=${setOpen} />
    <${ConnectionBar} connection=${connection} caughtUp=${caughtUp} />
    ${info ? html`<${Banner} info=${info} />` : null}
    <${Content} place=${place} found=${found} server=${server} api=${api} connection=${connection} />
    ${server.wants ? html`<${TokenField} why=${server.wants} isBusy=${server.isBusy} onToken=${server.useToken} onClose=${server.dismiss} />` : null}
    ${open === "keys" ? html`<${KeysHelp} onClose=${close} />` : null}
    ${open === "palette" ? html`<${CommandPalette} entries=${commands} api=${api} navigate=${navigate} onClose=${close} />` : null}
    ${
      open === "connection" && info
        ? html`<${ConnectionPanel} connection=${connection} info=${info} onClose=${close} onForget=${
            api.token
              ? () => {
                  close();
                  server.useToken(null);
                }
              : null
          } />`
        : null
    }
    <${Announcer} />
  `;
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault(); // the fragment is the address of a page
  document.getElementById("content")?.focus();
}

/**
 * The keys of the shell, and the same as entries of the palette.
 * @param {string | null} sessionId
 * @param {(name: "keys" | "palette" | "connection") => void} setOpen
 */
function useCommands(sessionId, setOpen) {
  const pages = PAGES.filter((one) => one.key && (one.inBar || sessionId !== null)).map((one) => ({
    entry: one,
    label: text.shell.keys.goTo(text.shell.pages[one.name]),
    run: () => navigate(hrefOf(one.path, one.inBar ? {} : { id: sessionId })),
  }));
  /** @type {Record<string, { label: string, run: () => void }>} */
  const bindings = {
    "?": { label: text.shell.keys.help, run: () => setOpen("keys") },
    "Ctrl K": { label: text.shell.keys.palette, run: () => setOpen("palette") },
  };
  for (const { entry, label, run } of pages) bindings[`g ${entry.key}`] = { label, run };
  useKeys(bindings, text.shell.keys.everywhere);
  return useMemo(
    () => [
      ...pages.map(({ entry, run }) => ({
        key: `page ${entry.name}`,
        kind: /** @type {const} */ ("page"),
        label: text.shell.pages[entry.name],
        run,
      })),
      { key: "keys", kind: /** @type {const} */ ("command"), label: text.shell.keys.help, run: () => setOpen("keys") },
      {
        key: "connection",
        kind: /** @type {const} */ ("command"),
        label: text.shell.connection.title,
        run: () => setOpen("connection"),
      },
    ],
    [sessionId],
  );
}

/**
 * @param {{ found: ReturnType<typeof findPage>, info: Info | null, connection: Connection, setOpen: (name: "keys" | "palette" | "connection") => void }} props
 */
function Bar({ found, info, connection, setOpen }) {
  const shown = found?.entry.name === "session" || found?.entry.name === "journal" ? "sessions" : found?.entry.name;
  return html`<header class="bar">
    <a class="brand" href="#/"><img src="icon.svg" alt="" width="20" height="20" /><span>${text.shell.product}</span></a>
    <nav class="bar-pages" aria-label=${text.shell.mainNavigation}>
      ${PAGES.filter((one) => one.inBar).map(
        (one) =>
          html`<a key=${one.name} href=${hrefOf(one.path)} aria-current=${one.name === shown ? "page" : undefined}>${text.shell.pages[one.name]}</a>`,
      )}
    </nav>
    <div class="bar-end">
      ${info?.demo ? html`<span class="badge" title=${text.shell.demo}>demo</span>` : null}
      <${ConnectionButton} connection=${connection} onOpen=${() => setOpen("connection")} />
      <button type="button" class="icon-button" aria-label=${text.shell.keys.palette} title=${`${text.shell.keys.palette} (Ctrl K)`} onClick=${() => setOpen("palette")}><${Icon} name="search" /></button>
      <${ThemeButton} />
      <button type="button" class="icon-button" aria-label=${text.shell.keys.open} title=${`${text.shell.keys.open} (?)`} onClick=${() => setOpen("keys")}><${Icon} name="help" /></button>
    </div>
  </header>`;
}

/**
 * Says where page and server are of different ages. What a server lacks is hidden by its page.
 * @param {{ info: Info }} props
 */
function Banner({ info }) {
  if (info.protocol !== PROTOCOL) {
    return html`<div class="banner warn" role="status">
      <${Icon} name="warn" />${text.shell.serverNewer}
      <button type="button" class="button small" onClick=${() => location.reload()}>${text.shell.reload}</button>
    </div>`;
  }
  if (info.features.length === 0) {
    return html`<div class="banner" role="status"><${Icon} name="info" /><span>${text.shell.serverOlder}</span></div>`;
  }
  return null;
}

/**
 * @param {{ place: import("./pure/route.js").Place, found: ReturnType<typeof findPage>, server: ReturnType<typeof useServer>, api: Api, connection: Connection }} props
 */
function Content({ place, found, server, api, connection }) {
  const isWide = useMedia(BESIDE_FROM);
  const { info, problem } = server;
  // In front of the effects of pages: one that knows a better title says it there.
  useLayoutEffect(() => {
    setTitle(found ? text.shell.pages[found.entry.name] : text.shell.pageMissing);
  }, [found?.entry.name]);
  const isFirst = useRef(true);
  // What had the focus may be gone with its page. A screen reader continues at the next one then.
  useEffect(() => {
    if (!isFirst.current && document.activeElement === document.body) document.getElementById("content")?.focus();
    isFirst.current = false;
  }, [found?.entry.name, found?.params["id"]]);
  const beside = isWide && found?.entry.beside ? pageNamed(found.entry.beside) : null;
  let inside;
  if (problem !== null) inside = html`<${Problem} error=${problem} onRetry=${server.ask} />`;
  else if (info === null) inside = html`<${Loading} />`;
  else if (found === null) {
    inside = html`<h1>${text.shell.pageMissing}</h1>
      <${Empty} words=${text.shell.pageMissingHint(place.path)} action=${html`<a class="button" href="#/">${text.shell.toSessions}</a>`} />`;
  } else {
    const params = { ...place.query, ...found.params };
    const given = { api, connection, info, params, navigate };
    inside = html`<${PageFrame} key=${`${found.entry.name} ${found.params.id ?? ""}`} entry=${found.entry} given=${given} />`;
    if (beside !== null) {
      return html`<div class="two">
        <aside class="beside" aria-label=${text.shell.pages[beside.name]}>
          <${PageFrame} key=${beside.name} entry=${beside} given=${{ ...given, isBeside: true }} />
        </aside>
        <main id="content" tabindex="-1" class=${`page page-${found.entry.name}`}>${inside}</main>
      </div>`;
    }
  }
  return html`<main id="content" tabindex="-1" class=${`page page-${found?.entry.name ?? "none"}`}>${inside}</main>`;
}

/**
 * One page: says which scope it needs where the token has it not, and asks the server for nothing then.
 * @param {{ entry: PageEntry, given: import("./pages.js").PageProps }} props
 */
function PageFrame({ entry, given }) {
  const [module, setModule] = useState(/** @type {PageModule | null} */ (null));
  const [failed, setFailed] = useState(/** @type {Error | null} */ (null));
  const isAllowed = given.info.principal.scopes.includes(entry.scope);
  const load = () => {
    setFailed(null);
    loadPage(entry).then(setModule, setFailed);
  };
  useEffect(() => {
    if (isAllowed) load();
  }, [isAllowed]);
  const name = text.shell.pages[entry.name];
  if (!isAllowed) return html`<h1>${name}</h1><${Refused} scope=${entry.scope} name=${name} />`;
  if (failed !== null)
    return html`<h1>${name}</h1><${Problem} error=${new Error(text.shell.pageNotServed)} onRetry=${load} />`;
  if (module === null) return html`<${Loading} />`;
  return html`<${Guarded} value=${given.params}><${module.Page} ...${given} /><//>`;
}

// The list of sessions: what waits for a person on top, then what works, then the rest. Live by two watches; filters stand in the address, so a link or a
// reload shows the same. Beside an open session it is drawn narrow. What a row means is decided in `pure/session_rows.js`.

import { announce } from "../parts/announce.js";
import { Icon } from "../parts/icon.js";
import { useKeys } from "../parts/keys.js";
import { NewSessionDialog } from "../parts/new_session.js";
import { GroupHead, SessionLine, StillLine, WaitingLine } from "../parts/session_lines.js";
import { Empty, Loading, Problem } from "../parts/states.js";
import { setWaitingInTitle } from "../parts/title.js";
import { whenStill } from "../parts/when_still.js";
import { WindowList } from "../parts/window_list.js";
import { hrefOf, placeOf } from "../pure/route.js";
import {
  askedOf,
  filterOf,
  isFiltered,
  listOf,
  nameOf,
  OUTCOMES,
  PHASES,
  paramsOf,
  rowsOfItems,
  SORTS,
} from "../pure/session_rows.js";
import { text } from "../text/en.js";
import { html, useCallback, useEffect, useMemo, useRef, useState } from "../ui.js";
import { ofTab } from "../wire/kept.js";

const words = text.sessions;
const MOST_ROWS = 5_000;
const TYPED_MS = 150;

/** @typedef {import("../pages.js").PageProps} PageProps */
/** @typedef {import("../pure/rows.js").Row} Row */
/** @typedef {import("../pure/session_rows.js").ListFilter} ListFilter */
/** @typedef {import("../pure/session_rows.js").ListItem} ListItem */
/** @typedef {import("../wire/api.js").ApiError} ApiError */

/** @type {import("../pages.js").PageModule} */
export const page = { route: "/", title: words.title, Page: SessionsPage };

/** @param {PageProps} props */
function SessionsPage({ api, connection, info, params, navigate, isBeside = false }) {
  const [filter, setFilter] = useFilter(params, navigate, isBeside);
  const feed = useFeed(connection, api, filter);
  const [folded, toggle] = useFolded(filter);
  const [isCreating, setCreating] = useState(false);
  /** @type {{ current: WindowList<ListItem> | null }} */
  const list = useRef(null);
  const [openKey, setOpenKey] = useState(/** @type {string | null} */ (null));
  const waiting = useHeld(feed.waiting, openKey);
  const toggleOpen = useCallback(
    (/** @type {string} */ key) => setOpenKey((before) => (before === key ? null : key)),
    [],
  );
  const { items, counts } = useMemo(
    () => listOf(feed.sessions, waiting, filter, folded),
    [feed.sessions, waiting, filter, folded],
  );
  const openId = isBeside ? (params["id"] ?? null) : null;
  useWaitingTitle(feed.waiting.size, feed.isReady);
  useAnnounced(feed.waiting, feed.isReady, openId);
  useListKeys(isBeside, list, items, () => setCreating(true));
  const hasUsers = useMemo(
    () => new Set([...feed.sessions.values()].map((row) => row["user"])).size > 1,
    [feed.sessions],
  );
  const draw = (/** @type {ListItem} */ item) => {
    if (item.kind === "group") return html`<${GroupHead} item=${item} toggle=${toggle} />`;
    if (item.kind === "waiting")
      return html`<${StillLine} draw=${WaitingLine} row=${item.row} session=${nameOf(feed.sessions.get(item.row.session_id) ?? item.row) ?? item.row.session_id} isCurrent=${item.row.session_id === openId} isOpen=${item.row.key === openKey}
        toggle=${isBeside ? null : toggleOpen} api=${api} connection=${connection} />`;
    return html`<${StillLine} draw=${SessionLine} row=${item.row} isOpen=${item.row["session_id"] === openId} withUser=${hasUsers} />`;
  };
  return html`<div class=${`sessions ${isBeside ? "narrow" : ""}`}>
    <div class="sessions-head">
      ${isBeside ? html`<h2 class="sessions-title"><a href=${hrefOf("/", paramsOf(filter))}>${words.title}</a></h2>` : html`<h1 class="sessions-title">${words.title}</h1>`}
      <button type="button" class="button small new-session" onClick=${() => setCreating(true)}><${Icon} name="plus" />${words.newSession}</button>
    </div>
    <${Filters} filter=${filter} setFilter=${setFilter} info=${info} sessions=${feed.sessions} isSmall=${isBeside} />
    ${feed.isOld ? html`<p class="note dim"><span>${words.older}</span><button type="button" class="button small" onClick=${feed.refresh}>${words.refresh}</button></p>` : null}
    ${feed.total > MOST_ROWS ? html`<p class="note dim">${words.more(feed.sessions.size, feed.total)}</p>` : null}
    <${Body} feed=${feed} items=${items} list=${list} draw=${draw} keep=${openKey === null ? null : `waiting ${openKey}`} counts=${counts} filter=${filter} setFilter=${setFilter} create=${() => setCreating(true)} />
    ${isCreating ? html`<${NewSessionDialog} api=${api} info=${info} navigate=${navigate} onClose=${() => setCreating(false)} />` : null}
  </div>`;
}

/**
 * @param {{ feed: ReturnType<typeof useFeed>, items: ListItem[], list: any, draw: (item: ListItem) => any, keep: string | null, counts: Record<string, number>, filter: ListFilter, setFilter: (filter: ListFilter) => void, create: () => void }} props
 */
function Body({ feed, items, list, draw, keep, filter, setFilter, create }) {
  if (feed.refused !== null) return html`<${Problem} error=${feed.refused} onRetry=${feed.refresh} />`;
  if (!feed.isReady) return html`<${Loading} rows=${10} />`;
  if (items.length > 0) {
    return html`<${WindowList} ref=${list} class="sessions-list" items=${items} keyOf=${keyOfItem} draw=${draw} keep=${keep} estimate=${32} tabIndex=${-1} stickToStart=${true} label=${words.title} role="group" />`;
  }
  if (isFiltered(filter)) {
    const clear = () => setFilter({ ...filterOf({}), sort: filter.sort });
    return html`<${Empty} words=${words.nothingFits} action=${html`<button type="button" class="button" onClick=${clear}>${words.clearFilters}</button>`} />`;
  }
  return html`<${Empty} words=${words.empty} action=${html`<button type="button" class="button primary" onClick=${create}>${words.newSession}</button>`} />`;
}

/** @param {ListItem} item */
const keyOfItem = (item) => item.key;

// --- what is wanted

/**
 * The filter of the address; beside a session that of the list as it was left, since the address is the session's.
 * @param {Record<string, string>} params
 * @param {PageProps["navigate"]} navigate
 * @param {boolean} isBeside
 * @returns {[ListFilter, (filter: ListFilter) => void]}
 */
function useFilter(params, navigate, isBeside) {
  const [own, setOwn] = useState(() => filterOf(placeOf(ofTab.get("list") ?? "").query));
  const given = isBeside ? own : filterOf(params);
  const filter = useMemo(() => given, [JSON.stringify(given)]);
  const set = (/** @type {ListFilter} */ next) => {
    const href = hrefOf("/", paramsOf(next));
    ofTab.set("list", href);
    if (isBeside) setOwn(next);
    else navigate(href, { replace: true });
  };
  useEffect(() => {
    if (!isBeside) ofTab.set("list", hrefOf("/", paramsOf(filter)));
  }, [filter, isBeside]);
  return [filter, set];
}

/**
 * Which groups show their heading alone. Who looks for something is shown all of it.
 * @param {ListFilter} filter
 * @returns {[ReadonlySet<string>, (group: string) => void]}
 */
function useFolded(filter) {
  const [folded, setFolded] = useState(() => new Set((ofTab.get("list.folded") ?? "ended").split(" ").filter(Boolean)));
  const toggle = (/** @type {string} */ group) => {
    const next = new Set(folded);
    if (!next.delete(group)) next.add(group);
    ofTab.set("list.folded", [...next].join(" "));
    setFolded(next);
  };
  const isSearching = isFiltered(filter);
  return useMemo(() => [isSearching ? NONE : folded, toggle], [folded, isSearching]);
}

/** @type {ReadonlySet<string>} */
const NONE = new Set();

// --- what there is

/**
 * @typedef {object} Feed
 * @property {ReadonlyMap<string, Row>} sessions
 * @property {ReadonlyMap<string, Row>} waiting
 * @property {number} total
 * @property {boolean} isReady
 * @property {boolean} isOld
 * @property {ApiError | null} refused
 */

/** @type {Feed} */
const NOTHING = { sessions: new Map(), waiting: new Map(), total: 0, isReady: false, isOld: false, refused: null };

/**
 * Watches sessions and what waits. All rows are had, and filtered here, as long as a page takes all of them; else the server filters. Frames only note what came:
 * it is drawn in the next one in which no list is scrolled.
 * @param {PageProps["connection"]} connection
 * @param {PageProps["api"]} api
 * @param {ListFilter} filter
 */
function useFeed(connection, api, filter) {
  const [feed, setFeed] = useState(NOTHING);
  const [isLarge, setLarge] = useState(false);
  const [turn, setTurn] = useState(0);
  const isOld = !connection.features.has("watch");
  const asked = JSON.stringify(isLarge ? askedOf(filter, MOST_ROWS) : { limit: MOST_ROWS });
  useEffect(() => {
    /** @type {Partial<Feed> | null} */
    let coming = null;
    let stop = () => {};
    const take = (/** @type {Partial<Feed>} */ changes) => {
      if (coming === null) stop = whenStill(show);
      coming = { ...coming, ...changes };
    };
    const show = () => {
      const changes = coming;
      coming = null;
      setFeed((before) => ({ ...before, refused: null, ...changes }));
    };
    const ends = [() => stop()];
    if (isOld) {
      api.get("sessions", { limit: 200 }).then(
        (found) => take({ sessions: rowsOfItems(found.sessions ?? []), isReady: true, isOld: true }),
        (error) => take({ refused: error }),
      );
    } else {
      const onRefused = (/** @type {ApiError} */ error) => take({ refused: error });
      ends.push(
        connection.watch("sessions", JSON.parse(asked), {
          onRows: (sessions, total) => {
            if (total > MOST_ROWS) setLarge(true);
            take({ sessions, total, isReady: true });
          },
          onRefused,
        }),
        connection.watch("waiting", { limit: MOST_ROWS }, { onRows: (waiting) => take({ waiting }), onRefused }),
      );
    }
    return () => {
      for (const end of ends) end();
    };
  }, [asked, turn, isOld]);
  return { ...feed, refresh: () => setTurn(turn + 1) };
}

/**
 * What waits, and what one has open: that stays until it is closed, also when it was decided, so that one reads how.
 * @param {ReadonlyMap<string, Row>} waiting
 * @param {string | null} openKey
 * @returns {ReadonlyMap<string, Row>}
 */
function useHeld(waiting, openKey) {
  const held = useRef(/** @type {Row | null} */ (null));
  return useMemo(() => {
    if (openKey === null) {
      held.current = null;
      return waiting;
    }
    const row = waiting.get(openKey);
    if (held.current?.key !== openKey) held.current = row ?? null; // as it was opened: another row would be another card
    return held.current === null ? waiting : new Map(waiting).set(openKey, held.current);
  }, [waiting, openKey]);
}

// --- what people are told besides

/**
 * Says in the title how much waits.
 * @param {number} count
 * @param {boolean} isReady
 */
function useWaitingTitle(count, isReady) {
  useEffect(() => {
    if (!isReady) return undefined;
    setWaitingInTitle("list", count);
    return () => setWaitingInTitle("list", null);
  }, [count, isReady]);
}

/**
 * Says what begins to wait while one does not look; the open session says it of itself.
 * @param {ReadonlyMap<string, Row>} waiting
 * @param {boolean} isReady
 * @param {string | null} openId
 */
function useAnnounced(waiting, isReady, openId) {
  /** @type {{ current: ReadonlyMap<string, Row> | null }} */
  const before = useRef(null);
  useEffect(() => {
    if (!isReady) return;
    const known = before.current;
    before.current = waiting;
    if (known === null) return;
    for (const [key, row] of waiting) {
      if (known.has(key) || row["session_id"] === openId) continue;
      announce(row["kind"] === "approval" ? words.announceApproval(row["tool"] ?? "") : words.announceQuestion);
    }
  }, [waiting, isReady, openId]);
}

/**
 * @param {boolean} isBeside There the keys are those of the open session.
 * @param {{ current: WindowList<ListItem> | null }} list
 * @param {ListItem[]} items
 * @param {() => void} create
 */
function useListKeys(isBeside, list, items, create) {
  const rows = items.filter((item) => item.kind !== "group");
  const focus = (/** @type {ListItem | undefined} */ item) => {
    if (item === undefined || list.current === null) return;
    list.current.scrollToKey(item.key);
    requestAnimationFrame(() => {
      focusOn(`.sessions-list [data-key="${CSS.escape(item.key)}"] a`);
    });
  };
  const move = (/** @type {number} */ step) => {
    const at = rows.findIndex(
      (item) => item.key === document.activeElement?.closest("[data-key]")?.getAttribute("data-key"),
    );
    focus(rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + step, 0), rows.length - 1)]);
  };
  useKeys(
    isBeside
      ? {}
      : {
          j: { label: words.keys.next, run: () => move(1) },
          k: { label: words.keys.previous, run: () => move(-1) },
          w: { label: words.keys.waiting, run: () => focus(rows.find((item) => item.kind === "waiting")) },
          n: { label: words.keys.create, run: create },
          "/": { label: words.keys.search, run: () => focusOn(".sessions-search input") },
        },
    words.area,
  );
}

/** @param {string} selector */
function focusOn(selector) {
  const found = document.querySelector(selector);
  if (found instanceof HTMLElement) found.focus();
}

// --- filters

/**
 * @param {{ filter: ListFilter, setFilter: (filter: ListFilter) => void, info: import("../pages.js").Info, sessions: ReadonlyMap<string, Row>, isSmall: boolean }} props
 */
function Filters({ filter, setFilter, info, sessions, isSmall }) {
  const profiles = useMemo(() => {
    const names = new Set(info.profiles.map((one) => one.agent_id));
    for (const row of sessions.values()) if (row["agent_id"]) names.add(row["agent_id"]);
    return [...names].sort();
  }, [info, sessions]);
  const change = (/** @type {Partial<ListFilter>} */ changes) => setFilter({ ...filter, ...changes });
  const search = html`<${SearchField} value=${filter.q} onChange=${(/** @type {string} */ q) => change({ q })} />`;
  if (isSmall) return html`<div class="filters">${search}</div>`;
  const phases = PHASES.map((one) => /** @type {[string, string]} */ ([one, words.phases[one]]));
  return html`<div class="filters">
    ${search}
    <${Choice} label=${words.filters.phase} value=${filter.phase} any=${words.any.phase} options=${phases} onChange=${(/** @type {string} */ phase) => change({ phase })} />
    <${Choice} label=${words.filters.profile} value=${filter.profile} any=${words.any.profile} options=${profiles.map((one) => [one, one])} onChange=${(/** @type {string} */ profile) => change({ profile })} />
    <${Choice} label=${words.filters.outcome} value=${filter.outcome} any=${words.any.outcome} options=${OUTCOMES.map((one) => [one, words.outcomes[one]])} onChange=${(/** @type {string} */ outcome) => change({ outcome })} />
    <${Choice} label=${words.filters.sort} value=${filter.sort} any=${null} options=${SORTS.map((one) => [one, words.sorts[one]])} onChange=${(/** @type {string} */ sort) => change({ sort })} />
    ${isFiltered(filter) ? html`<button type="button" class="button small" onClick=${() => setFilter({ ...filterOf({}), sort: filter.sort })}>${words.clearFilters}</button>` : null}
  </div>`;
}

/**
 * @param {{ value: string, onChange: (value: string) => void }} props
 */
function SearchField({ value, onChange }) {
  const [typed, setTyped] = useState(value);
  const timer = useRef(/** @type {any} */ (null));
  useEffect(() => setTyped(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const input = (/** @type {Event} */ event) => {
    const next = /** @type {HTMLInputElement} */ (event.target).value;
    setTyped(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onChange(next), TYPED_MS);
  };
  return html`<span class="sessions-search" role="search">
    <${Icon} name="search" />
    <input type="search" value=${typed} maxlength="200" placeholder=${words.searchHint} aria-label=${words.search} title=${`${words.search} (/)`} onInput=${input} />
  </span>`;
}

/**
 * @param {{ label: string, value: string, any: string | null, options: [string, string][], onChange: (value: string) => void }} props
 */
function Choice({ label, value, any, options, onChange }) {
  return html`<select aria-label=${label} title=${label} value=${value} class=${value && any !== null ? "chosen" : ""} onChange=${(
    /** @type {Event} */ event,
  ) => onChange(/** @type {HTMLSelectElement} */ (event.target).value)}>
    ${any === null ? null : html`<option value="" selected=${value === ""}>${any}</option>`}
    ${options.map(([name, shown]) => html`<option key=${name} value=${name} selected=${name === value}>${shown}</option>`)}
  </select>`;
}

// The feed of a session: rows near the window, groups of calls, what is in front of the first item, and the end that it sticks to. Which events there
// are is decided elsewhere; this draws a view, and asks for older ones when a person comes near the beginning.

import { rowKeyOf, rowsOf } from "../pure/feed_rows.js";
import { placeOf } from "../pure/fold.js";
import { text } from "../text/en.js";
import { html, useCallback, useEffect, useMemo, useRef, useState } from "../ui.js";
import { Icon } from "./icon.js";
import { AnswerItem } from "./items.js";
import { ConversationRow } from "./rows.js";
import { useEnv } from "./session_env.js";
import { WindowList } from "./window_list.js";

/** @typedef {import("../pure/feed_rows.js").Row} Row */
/** @typedef {import("../pure/view.js").View} View */
/** @typedef {import("../wire/open_session.js").Older} Older */

/**
 * What the page may ask of the conversation.
 * @typedef {object} ConversationHandle
 * @property {() => readonly Row[]} rows
 * @property {(key: string, options?: {focus?: boolean, where?: "start" | "nearest"}) => boolean} show scrolls to a row; false where it is not loaded
 * @property {(key: string) => void} reveal opens the group that an item is in
 * @property {() => void} toEnd
 */

/** @typedef {{copy: (item: any) => void, fork: (item: any) => void, rewind: (item: any) => void}} ItemActs */

/** What a row that was not measured yet is taken to be high, in pixels. */
const ESTIMATE = 44;

/**
 * @param {object} props
 * @param {View} props.view
 * @param {Older} props.older
 * @param {() => void} props.fetchOlder
 * @param {readonly import("../pure/outbox.js").Sent[]} [props.sent]
 * @param {string | null} props.current the key of the row that a person is at
 * @param {(key: string | null) => void} props.onCurrent
 * @param {(first: string | null, atEnd: boolean) => void} [props.onPlace] told of the first row in sight
 * @param {{current: ConversationHandle | null}} [props.handle]
 * @param {ItemActs | null} [props.acts] what is done with an item; null: nothing, as in the past
 */
export function Conversation({ view, older, fetchOlder, sent = [], current, onCurrent, onPlace, handle, acts = null }) {
  const { folds } = useEnv();
  const [groups, setGroups] = useState(() => new Map(folds.opened));
  const rows = useRows(view, sent, groups);
  const list = useRef(/** @type {any} */ (null));
  const [isAtEnd, setAtEnd] = useState(true);
  const unseen = useUnseen(view, isAtEnd);
  const openGroup = useCallback((/** @type {string} */ key, /** @type {boolean} */ isOpen) => {
    folds.set(key, isOpen);
    setGroups(new Map(folds.opened));
  }, []);
  const group = useMemo(
    () =>
      (/** @type {any} */ { row }) =>
        html`<${Group} row=${row} onToggle=${openGroup} />`,
    [],
  );
  if (handle) handle.current = handleOf(rows, view, list, onCurrent, openGroup);
  const [isNearStart, setNearStart] = useState(true);
  useEffect(() => {
    // The list asks once for each first row; a page that was under way then is not asked for again by it.
    if (isNearStart && older.name === "more" && rows.length > 0) fetchOlder();
  }, [isNearStart, older.name, rows.length === 0]);
  const [hovered, setHovered] = useState(/** @type {string | null} */ (null));
  const draw = (/** @type {any} */ row, /** @type {number} */ place) => html`
    ${place === 0 ? html`<${OlderLine} older=${older} fetchOlder=${fetchOlder} />` : null}
    <div class="row-in">${row.kind === "live" ? html`<${LiveRow} view=${view} />` : html`<${ConversationRow} row=${row} view=${view} group=${group} />`}</div>
    ${acts !== null && row.kind === "item" && (row.key === current || row.key === hovered) ? html`<${ItemTools} item=${row.item} acts=${acts} />` : null}`;
  const seen = (/** @type {number} */ from) => {
    setNearStart(from < NEAR);
    onPlace?.(rows[from]?.key ?? null, list.current?.endIsSeen() ?? true);
  };
  return html`<div class="conversation">
    <${WindowList} ref=${list} items=${rows} keyOf=${keyOf} draw=${draw} estimate=${ESTIMATE} label=${text.session.conversation} role="feed" rowRole="article"
      rowProps=${rowProps(current, onCurrent, setHovered)} class="feed" stickToEnd keep=${current} onNearStart=${fetchOlder} onEnd=${setAtEnd} onVisible=${seen} />
    ${isAtEnd ? null : html`<button type="button" class="button to-end" onClick=${() => list.current?.scrollToEnd()}><${Icon} name="end" /> ${text.session.newer(unseen)}</button>`}
  </div>`;
}

/** How near to its first row a list is asked for more. */
const NEAR = 5;

/**
 * @param {string | null} current
 * @param {(key: string) => void} onCurrent
 * @param {(key: string) => void} onHover
 */
function rowProps(current, onCurrent, onHover) {
  return (/** @type {{key: string}} */ row) => ({
    class: `window-row row ${row.key === current ? "is-current" : ""}`,
    tabindex: -1,
    "aria-current": row.key === current ? "true" : undefined,
    onFocusIn: () => onCurrent(row.key),
    onPointerDown: () => onCurrent(row.key),
    onPointerEnter: () => onHover(row.key),
  });
}

/**
 * What is done with one item; each has a key too.
 * @param {{ item: import("../pure/view.js").Item, acts: ItemActs }} props
 */
function ItemTools({ item, acts }) {
  const names = text.session.keyWords;
  const one = (
    /** @type {"copy" | "fork" | "back"} */ icon,
    /** @type {string} */ name,
    /** @type {() => void} */ act,
  ) =>
    html`<button type="button" class="icon-button item-tool" aria-label=${name} title=${name} onClick=${act}><${Icon} name=${icon} /></button>`;
  return html`<div class="item-tools">
    ${one("copy", names.copy, () => acts.copy(item))}
    ${item.seq > 0 ? one("fork", names.fork, () => acts.fork(item)) : null}
    ${item.seq > 0 ? one("back", names.rewind, () => acts.rewind(item)) : null}
  </div>`;
}

/** @param {{key: string}} row */
function keyOf(row) {
  return row.key;
}

/**
 * @param {View} view
 * @param {readonly import("../pure/outbox.js").Sent[]} sent
 * @param {ReadonlyMap<string, boolean>} groups
 * @returns {any[]}
 */
function useRows(view, sent, groups) {
  const rows = useMemo(() => rowsOf(view.items, view.cycles, groups), [view.items, view.cycles, groups]);
  const loose = useMemo(() => looseDecisions(view), [view.items, view.approvals, view.questions]);
  const streams = isStreaming(view) && (view.live?.key == null || placeOf(view, view.live.key) < 0);
  return useMemo(() => {
    if (!streams && loose.length === 0 && sent.length === 0) return rows;
    const waiting = sent.map((one) => ({ key: `sent:${one.client_id}`, kind: "sent", sent: one }));
    return [...rows, ...loose, ...(streams ? [{ key: "live", kind: "live" }] : []), ...waiting];
  }, [rows, loose, streams, sent]);
}

/** @param {View} view */
function isStreaming({ live, phase }) {
  return live !== null && (live.text !== "" || live.thinking !== "" || phase === "streaming");
}

/**
 * What waits for a person and stands nowhere in the conversation, because its beginning is not loaded: nothing that waits may be out of sight.
 * @param {View} view
 * @returns {Row[]}
 */
function looseDecisions(view) {
  const waiting = [
    ...view.approvals.map((asked) => ({ of: /** @type {const} */ ("approval"), id: asked["id"], asked })),
    ...view.questions.map((asked) => ({ of: /** @type {const} */ ("question"), id: asked["ref"], asked })),
  ];
  return waiting.flatMap(({ of, id, asked }) => {
    const key = `${of}:${id}`;
    if (placeOf(view, key) >= 0) return [];
    const item = {
      key,
      seq: 0,
      at_ms: asked["requested_at_ms"] ?? 0,
      cycle: null,
      type: /** @type {const} */ ("decision"),
      of,
      id,
      asked,
    };
    const open = {
      state: "open",
      call_id: asked["call_id"] ?? null,
      by: null,
      user: null,
      answer: null,
      reason: null,
      decided_at_ms: null,
    };
    return [{ key, kind: /** @type {const} */ ("item"), item: { ...item, ...open } }];
  });
}

/**
 * Words that stream, of an answer whose beginning is not loaded.
 * @param {{ view: View }} props
 */
function LiveRow({ view }) {
  if (view.live === null) return null;
  /** @type {import("../pure/view.js").AnswerItem} */
  const item = {
    key: "live",
    seq: 0,
    at_ms: 0,
    cycle: null,
    type: "answer",
    model: view.model,
    state: "streaming",
    attempt: view.live.attempt,
    text: "",
    thinking: "",
    calls: [],
    attempts: [],
    usage: null,
    stop_reason: null,
    ended_at_ms: null,
  };
  return html`<${AnswerItem} item=${item} live=${view.live} />`;
}

/**
 * How many items came since a person scrolled away from the end. Older ones, which are loaded meanwhile, are not among them.
 * @param {View} view
 * @param {boolean} isAtEnd
 */
function useUnseen(view, isAtEnd) {
  const left = useRef("");
  const place = placeOf(view, left.current);
  if (!isAtEnd && place >= 0) return view.items.length - 1 - place;
  left.current = view.items.at(-1)?.key ?? "";
  return 0;
}

/**
 * @param {readonly Row[]} rows
 * @param {View} view
 * @param {{current: any}} list
 * @param {(key: string | null) => void} onCurrent
 * @param {(key: string, isOpen: boolean) => void} openGroup
 * @returns {ConversationHandle}
 */
function handleOf(rows, view, list, onCurrent, openGroup) {
  return {
    rows: () => rows,
    reveal(key) {
      const found = rowKeyOf(rows, view.items, placeOf(view, key));
      if (found === null || found === key) return;
      openGroup(found, true); // it is shown when it is drawn
    },
    show(key, { focus = true, where = "nearest" } = {}) {
      if (!rows.some((row) => row.key === key)) return false;
      onCurrent(key);
      list.current?.scrollToKey(key, where);
      if (focus) requestAnimationFrame(() => requestAnimationFrame(() => focusRow(key)));
      return true;
    },
    toEnd: () => list.current?.scrollToEnd(),
  };
}

/**
 * Shows an item, also one that is in a closed group: that is opened first.
 * @param {{current: ConversationHandle | null}} handle
 * @param {string} key
 * @param {{focus?: boolean}} [options]
 */
export function showSoon(handle, key, options = {}) {
  if (handle.current?.show(key, options)) return;
  handle.current?.reveal(key);
  let left = 10; // frames: what was opened is drawn in the next one, or a little later where the page has much to do
  const again = () => {
    left -= 1;
    if (!handle.current?.show(key, options) && left > 0) requestAnimationFrame(again);
  };
  requestAnimationFrame(again);
}

/**
 * Shows what waits for a person, and puts the focus on what one does there first: the field of a question, the button that opens an approval.
 * @param {{current: ConversationHandle | null}} handle
 * @param {string} key of the item
 * @param {string} id of what waits there
 */
export function showWaiting(handle, key, id) {
  showSoon(handle, key, { focus: false });
  let left = 30; // frames, as above; a card below another one is drawn after it
  const look = () => {
    left -= 1;
    const first = document.querySelector(`.feed [data-waits="${CSS.escape(id)}"] :is(input, select, textarea, button)`);
    if (first instanceof HTMLElement) {
      first.scrollIntoView({ block: "nearest" });
      first.focus({ preventScroll: true });
    } else if (left > 0) requestAnimationFrame(look);
    else focusRow(key);
  };
  requestAnimationFrame(() => requestAnimationFrame(look));
}

/** @param {string} key */
function focusRow(key) {
  const node = document.querySelector(`.feed [data-key="${CSS.escape(key)}"]`);
  if (node instanceof HTMLElement) node.focus({ preventScroll: true });
}

/**
 * @param {{ row: import("../pure/feed_rows.js").GroupRow, onToggle: (key: string, isOpen: boolean) => void }} props
 */
function Group({ row, onToggle }) {
  const words = text.session;
  return html`<div class="item item-group">
    <button type="button" class="fold-head" aria-expanded=${row.opened} data-main-fold onClick=${() => onToggle(row.key, !row.opened)}>
      <span class="fold-sign" aria-hidden="true">${row.opened ? "▾" : "▸"}</span>
      <span>${words.group(row.first, row.last)}</span>
      ${row.active > 0 ? html`<span class="accent">${words.groupActive(row.active)}</span>` : null}
      ${row.failed > 0 ? html`<span class="bad">${words.groupFailed(row.failed)}</span>` : null}
    </button>
  </div>`;
}

/**
 * What is in front of the first item.
 * @param {{ older: Older, fetchOlder: () => void }} props
 */
function OlderLine({ older, fetchOlder }) {
  const words = text.session;
  switch (older.name) {
    case "more":
      return html`<p class="older"><button type="button" class="link" onClick=${fetchOlder}>${words.older}</button></p>`;
    case "loading":
      return html`<p class="older dim">${words.olderLoading}</p>`;
    case "start":
      return html`<p class="older dim">${words.olderStart}</p>`;
    case "trimmed":
      return html`<p class="older dim">${words.olderTrimmed(older.first)}</p>`;
    case "failed":
      return html`<p class="older bad">${words.olderFailed(older.error.message || older.error.code)} <button type="button" class="link" onClick=${fetchOlder}>${text.shell.retry}</button></p>`;
    default:
      return html`<p class="older dim">${words.olderNone}</p>`;
  }
}

/**
 * Keeps the place of a session in this tab, and goes back to it when the page is opened again.
 * @param {string} sessionId
 * @param {import("../wire/kept.js").Kept} kept
 * @param {Older} older
 * @param {readonly unknown[]} items
 * @param {() => void} fetchOlder
 * @param {{current: ConversationHandle | null}} handle
 * @returns {(first: string | null, atEnd: boolean) => void}
 */
export function usePlaceKept(sessionId, kept, older, items, fetchOlder, handle) {
  const name = `place.${sessionId}`;
  const sought = useRef(kept.get(name));
  const tries = useRef(0);
  useEffect(() => {
    if (sought.current === null || items.length === 0 || older.name === "loading") return;
    if (
      handle.current?.show(sought.current, { focus: false, where: "start" }) ||
      older.name !== "more" ||
      tries.current >= 20
    ) {
      sought.current = null;
      return;
    }
    tries.current += 1;
    fetchOlder();
  }, [items, older]);
  const told = useRef(/** @type {string | null | undefined} */ (undefined));
  return useCallback((first, atEnd) => {
    const next = atEnd ? null : first;
    if (sought.current !== null || next === told.current) return;
    told.current = next;
    kept.set(name, next);
  }, []);
}

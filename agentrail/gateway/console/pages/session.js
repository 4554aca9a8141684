// The page of one session: its conversation, the panel beside it, and the composer. What it shows is a view, what it does are commands; each part stands in
// `parts/`, and this joins them: whom they ask, what a key does, and what stands in place of a session that is not there.

import { AbortQuestion, useAbort } from "../parts/abort_button.js";
import { announce } from "../parts/announce.js";
import { Composer } from "../parts/composer.js";
import { Conversation, showSoon, showWaiting, usePlaceKept } from "../parts/conversation.js";
import { Drift } from "../parts/drift.js";
import { ForkDialog } from "../parts/fork_dialog.js";
import { useKeys } from "../parts/keys.js";
import { OutboxProvider, useNewOutbox } from "../parts/outbox_context.js";
import { RewindDialog } from "../parts/rewind_dialog.js";
import { EnvProvider, Folds } from "../parts/session_env.js";
import { SessionHead, SessionTools } from "../parts/session_head.js";
import { SessionPanel, tabsOf } from "../parts/session_panel.js";
import { useSentences } from "../parts/session_says.js";
import { SessionSearch } from "../parts/session_search.js";
import { Empty, Loading, Problem } from "../parts/states.js";
import { setTitle, setWaitingInTitle } from "../parts/title.js";
import { WaitingProvider } from "../parts/waiting_context.js";
import { cycleRow, waitingRow, wordsOf } from "../pure/feed_rows.js";
import { lastSeqOf } from "../pure/item_end.js";
import { hrefOf } from "../pure/route.js";
import { safeText } from "../pure/safe_text.js";
import { nameOfView } from "../pure/session_name.js";
import { itemOfWaiting, waitingIn } from "../pure/waiting.js";
import { text } from "../text/en.js";
import { html, useEffect, useMemo, useReducer, useRef, useState } from "../ui.js";
import { ofTab } from "../wire/kept.js";
import { OpenSession, OpenSessions } from "../wire/open_session.js";
import { cancelQueued } from "./now.js";

const words = text.session;

/** What the server says of a session whose journal the code there folds to other operations. */
const DRIFTED = "journal_drifted";

/** @typedef {import("../pages.js").PageProps} PageProps */
/** @typedef {import("../pure/view.js").View} View */

/** @type {WeakMap<import("../wire/socket.js").Connection, OpenSessions>} */
const opened = new WeakMap();

/**
 * @param {PageProps} props
 * @returns {OpenSessions}
 */
function sessionsOf({ connection, api, info }) {
  const known = opened.get(connection);
  if (known !== undefined) return known;
  const hasPages = info.features.includes("events");
  const made = new OpenSessions((sessionId) => new OpenSession({ sessionId, connection, api, hasPages }));
  opened.set(connection, made);
  return made;
}

/** @param {PageProps} props */
function SessionPage(props) {
  // Each session is a page of its own: nothing of one is left when the next is drawn.
  return html`<${OneSession} key=${props.params["id"]} ...${props} />`;
}

/** @param {PageProps} props */
function OneSession(props) {
  const { api, connection, info, params, navigate } = props;
  const sessionId = params["id"] ?? "";
  const session = useMemo(() => sessionsOf(props).open(sessionId), [sessionId]);
  const [, draw] = useReducer((/** @type {number} */ count) => count + 1, 0);
  useEffect(() => session.listen(() => draw(0)), [session]);
  const { view, known, older } = session;
  const handle = useRef(/** @type {import("../parts/conversation.js").ConversationHandle | null} */ (null));
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const env = useMemo(
    () => ({
      api,
      connection,
      sessionId,
      features: new Set(info.features),
      isPast: false,
      folds: new Folds(sessionId),
    }),
    [sessionId, info],
  );
  const [current, setCurrent] = useState(/** @type {string | null} */ (null));
  const [isPanelOpen, setPanelOpen] = useState(false);
  const [isSearching, setSearching] = useState(false);
  const [dialog, setDialog] = useState(/** @type {{kind: "fork" | "rewind", at: number | null} | null} */ (null));
  const outbox = useNewOutbox(sessionId, connection, view.seq, (sent, error) =>
    announce(error === null ? saidOf(sent) : words.says.notSent),
  );
  const abort = useAbort(view, connection, session.effects);
  const fetchOlder = () => session.fetchOlder();
  const onPlace = usePlaceKept(sessionId, ofTab, older, view.items, fetchOlder, handle);
  useSentences(view, known.name === "ready" && older.name !== "loading");
  useTitle(view);
  const select = (/** @type {string} */ key) => {
    setPanelOpen(false);
    showSoon(handle, key);
  };
  const show = (/** @type {string} */ key) => {
    setPanelOpen(false);
    showSoon(handle, key, { focus: false }); // a card that is opened there takes the focus itself
  };
  const toWaiting = (/** @type {import("../pure/waiting.js").WaitingHere} */ one) => {
    setPanelOpen(false);
    showWaiting(handle, one.item, one.id);
  };
  const goTo = (/** @type {string | undefined} */ key) => key !== undefined && handle.current?.show(key);
  const itemActs = {
    copy: (/** @type {any} */ item) => void copy(wordsOf(item)),
    fork: (/** @type {any} */ item) => setDialog({ kind: "fork", at: lastSeqOf(view, item) }),
    rewind: (/** @type {any} */ item) => setDialog({ kind: "rewind", at: lastSeqOf(view, item) }),
  };
  const acts = { view, current, handle, goTo, abort, setSearching, setDialog, field };
  useSessionKeys(acts);
  useWanted(params["item"], view, handle);
  useWaits(params["waits"], view, known.name === "ready", handle, () =>
    navigate(hrefOf("/s/:id", { id: sessionId }), { replace: true }),
  );

  // Those who may inspect can read the journals of other users' sessions, which the list shows them.
  const journal =
    info.journal && info.principal.scopes.includes("inspect")
      ? html`<a class="button" href=${hrefOf("/s/:id/journal", { id: sessionId })}>${words.journal}</a>`
      : null;
  if (known.name === "absent") return html`<${Missing} journal=${journal} />`;
  if (known.name === "failed" && view.seq === 0) {
    if (known.error.code === DRIFTED)
      return html`<div class="session-missing"><${Drift} error=${known.error} session=${session} api=${api} /></div>`;
    return html`<div class="session-missing"><${Problem} error=${known.error} onRetry=${() => session.tryAgain()} /></div>`;
  }
  const tools = html`<${SessionTools} sessionId=${sessionId} journal=${journal} onFork=${() => setDialog({ kind: "fork", at: null })} onCopyId=${() => void copy(sessionId)} onSearch=${() => {
    setPanelOpen(false);
    setSearching(true);
  }} />`;
  const shared = { view, api, connection, info, select, toWaiting };
  return html`<${EnvProvider} value=${env}><${OutboxProvider} value=${outbox}><${WaitingProvider} view=${view} show=${show}>
    <div class=${`session ${isPanelOpen ? "has-sheet" : ""}`}>
      <${SessionHead} view=${view} abort=${abort} isPanelOpen=${isPanelOpen} onPanel=${() => setPanelOpen(!isPanelOpen)} onSearch=${() => setSearching(!isSearching)} tools=${tools} />
      <div class="session-middle">
        <div class="session-main">
          <${Standing} session=${session} view=${view} api=${api} />
          ${isSearching ? html`<${SessionSearch} view=${view} older=${older} fetchOlder=${fetchOlder} handle=${handle} onClose=${() => setSearching(false)} />` : null}
          ${
            known.name === "loading" && view.seq === 0
              ? html`<div class="conversation-state"><${Loading} /></div>`
              : isUntouched(view) && outbox.all.length === 0 && older.name !== "loading"
                ? html`<div class="conversation-state"><${Empty} words=${html`${words.empty} <span class="dim">${words.emptyHint}</span>`} /></div>`
                : html`<${Conversation} view=${view} older=${older} fetchOlder=${fetchOlder} sent=${outbox.all} current=${current} onCurrent=${setCurrent} onPlace=${onPlace} handle=${handle} acts=${itemActs} />`
          }
          <${Composer} view=${view} off=${offReason(view, known.name)} field=${field} onEditQueued=${(/** @type {any} */ queued) => void takeOut(connection, sessionId, queued)} />
        </div>
        <${SessionPanel} shared=${shared} tabs=${tabsOf(env.features)} isOpen=${isPanelOpen} onClose=${() => setPanelOpen(false)} tools=${tools} />
      </div>
      <${AbortQuestion} abort=${abort} />
      ${dialog?.kind === "fork" ? html`<${ForkDialog} session=${sessionId} event=${dialog.at} api=${api} connection=${connection} navigate=${navigate} onClose=${() => setDialog(null)} />` : null}
      ${dialog?.kind === "rewind" ? html`<${RewindDialog} session=${sessionId} event=${dialog.at} api=${api} connection=${connection} onDone=${() => session.tryAgain()} onClose=${() => setDialog(null)} />` : null}
    </div>
  <//><//><//>`;
}

/** @param {{ journal: unknown }} props */
function Missing({ journal }) {
  return html`<div class="session-missing">
    <h1>${words.absent}</h1>
    <${Empty} words=${words.absentHint} action=${html`<a class="button" href="#/">${text.shell.toSessions}</a> ${journal}`} />
  </div>`;
}

/**
 * What is to be said about the whole session, above the conversation.
 * @param {{ session: OpenSession, view: View, api: import("../wire/api.js").Api }} props
 */
function Standing({ session, view, api }) {
  const { known } = session;
  if (known.name === "deleted") {
    return html`<p class="standing warn" role="alert">${words.deleted}. <span class="dim">${words.deletedHint}</span> <a href="#/">${text.shell.toSessions}</a></p>`;
  }
  if (known.name === "failed") {
    if (known.error.code === DRIFTED) return html`<${Drift} error=${known.error} session=${session} api=${api} />`;
    return html`<p class="standing bad" role="alert">${known.error.message || text.shell.refused} <button type="button" class="button small" onClick=${() => session.tryAgain()}>${text.shell.retry}</button></p>`;
  }
  if (view.ended === null) return null;
  return html`<p class=${`standing ${view.ended.parked ? "bad" : "dim"}`}>${view.ended.parked ? words.parked : words.ended}: ${view.ended.reason}</p>`;
}

/**
 * Say whether nothing has happened but that the session began.
 * @param {View} view
 */
function isUntouched(view) {
  return (
    view.live === null &&
    view.ended === null &&
    view.items.every((item) => item.type === "notice" && item.kind === "session_start")
  );
}

/**
 * Why nothing can be sent; null: it can.
 * @param {View} view
 * @param {string} known
 */
function offReason(view, known) {
  if (known === "deleted") return words.offReasons.deleted;
  if (view.ended !== null) return view.ended.parked ? words.offReasons.parked : words.offReasons.ended;
  return null;
}

/** @param {import("../pure/outbox.js").Sent} sent */
function saidOf(sent) {
  if (sent.name === "steer") return words.says.steered;
  return sent.position === null ? words.says.sent : words.says.queued;
}

/**
 * Takes the queued prompt out that a person edits; where that is refused, its words stand in the composer and it is still in the queue, which is said.
 * @param {import("../wire/socket.js").Connection} connection
 * @param {string} sessionId
 * @param {import("../pure/view.js").QueuedPrompt} queued
 */
async function takeOut(connection, sessionId, queued) {
  const error = await cancelQueued(connection, sessionId, queued);
  announce(error === null ? words.says.removed : words.now.notRemoved(error.message || error.code));
}

/** @param {string} told */
async function copy(told) {
  try {
    await navigator.clipboard.writeText(told);
    announce(words.copied);
  } catch {
    announce(words.notCopied); // not allowed, or a page that came over plain HTTP
  }
}

/**
 * The title of the tab says what waits and what it is.
 * @param {View} view
 */
function useTitle(view) {
  const count = waitingIn(view).length;
  const named = safeText(nameOfView(view) ?? words.title);
  useEffect(() => {
    setTitle(named);
    setWaitingInTitle("session", count);
    return () => setWaitingInTitle("session", null);
  }, [count, named]);
}

/**
 * Goes to the item that the address names, once it is there.
 * @param {string | undefined} wanted
 * @param {View} view
 * @param {{current: import("../parts/conversation.js").ConversationHandle | null}} handle
 */
function useWanted(wanted, view, handle) {
  const left = useRef(wanted);
  useEffect(() => {
    if (left.current !== undefined && handle.current?.show(left.current)) left.current = undefined;
  }, [view.items]);
}

/**
 * Goes to what waits that the address names, as a row of the list does. The address is the session's again then, so that the same row can be pressed again.
 * @param {string | undefined} wanted what it is decided by
 * @param {View} view
 * @param {boolean} isReady
 * @param {{current: import("../parts/conversation.js").ConversationHandle | null}} handle
 * @param {() => void} done
 */
function useWaits(wanted, view, isReady, handle, done) {
  useEffect(() => {
    if (wanted === undefined || !isReady) return;
    const key = itemOfWaiting(view, wanted);
    if (key === null) announce(text.approval.late.gone);
    else showWaiting(handle, key, wanted);
    done();
  }, [wanted, isReady]);
}

/** @param {any} acts */
function useSessionKeys({ view, current, handle, goTo, abort, setSearching, setDialog, field }) {
  const rows = () => handle.current?.rows() ?? [];
  const place = () => rows().findIndex((/** @type {any} */ row) => row.key === current);
  const step = (/** @type {1 | -1} */ by) => {
    const all = rows();
    const at = place();
    goTo(all[at < 0 ? all.length - 1 : Math.max(0, Math.min(all.length - 1, at + by))]?.key);
  };
  const item = () => {
    const row = rows()[place()];
    return row?.kind === "item" ? row.item : null;
  };
  const waiting = () => {
    const at = waitingRow(rows());
    if (at >= 0) goTo(rows()[at]?.key);
    else goTo(waitingIn(view)[0]?.item);
  };
  const names = words.keyWords;
  useKeys(
    {
      j: { run: () => step(1), label: names.next },
      k: { run: () => step(-1), label: names.previous },
      o: { run: () => turn(current), label: names.open },
      "]": { run: () => goTo(rows()[cycleRow(rows(), place(), 1)]?.key), label: names.nextCycle },
      "[": { run: () => goTo(rows()[cycleRow(rows(), place(), -1)]?.key), label: names.previousCycle },
      w: { run: waiting, label: names.waiting },
      ".": { run: () => handle.current?.toEnd(), label: names.end },
      y: { run: () => item() !== null && void copy(wordsOf(item())), label: names.copy },
      f: {
        run: () => setDialog({ kind: "fork", at: item()?.seq ? lastSeqOf(view, item()) : null }),
        label: names.fork,
      },
      r: { run: () => item()?.seq && setDialog({ kind: "rewind", at: lastSeqOf(view, item()) }), label: names.rewind },
      "/": { run: () => setSearching(true), label: names.search },
      i: { run: () => field.current?.focus(), label: names.compose },
      "Ctrl .": { run: abort.ask, label: names.abort },
    },
    words.area,
  );
}

/**
 * Folds or unfolds the row that a person is at.
 * @param {string | null} key
 */
function turn(key) {
  if (key === null) return;
  const button = document.querySelector(`.feed [data-key="${CSS.escape(key)}"] [data-main-fold]`);
  if (button instanceof HTMLElement) button.click();
}

export const page = { route: "/s/:id", title: words.title, Page: SessionPage };

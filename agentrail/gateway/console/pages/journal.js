// The journal of a session, and its past: a slider over its records, the conversation as it was behind one of them, why that record came to what it came to, and
// what the session was then. Nothing of it is sent anywhere but forks and rewinds, which are asked about in their own dialogues.

import { announce } from "../parts/announce.js";
import { Brief } from "../parts/brief.js";
import { Conversation } from "../parts/conversation.js";
import { ExplainView } from "../parts/explain_view.js";
import { Icon } from "../parts/icon.js";
import { JournalSlider, timeOf } from "../parts/journal_slider.js";
import { useDiff, useTold } from "../parts/journal_told.js";
import { useKeys } from "../parts/keys.js";
import { ALL, RecordList, useFound } from "../parts/record_list.js";
import { EnvProvider, Folds } from "../parts/session_env.js";
import { PatchView, StateView } from "../parts/state_view.js";
import { Empty, Loading, Problem, Trimmed } from "../parts/states.js";
import { StillAt } from "../parts/ticking.js";
import { nextCycle, withStream } from "../pure/past.js";
import { hrefOf } from "../pure/route.js";
import { nameOf } from "../pure/session_name.js";
import { text } from "../text/en.js";
import { html, useEffect, useMemo, useReducer, useRef, useState } from "../ui.js";
import { JournalReader } from "../wire/journal.js";

const words = text.journal;

/** Events of the conversation that are folded at first, and how many more when a person comes near its beginning. */
const EVENTS_AT_FIRST = 200;
const EVENTS_MORE = 400;
const REFRESH_MS = 1_000;
const WIDE = "(min-width: 1100px)";

/** @typedef {import("../pages.js").PageProps} PageProps */
/** @typedef {import("../parts/journal_told.js").Told} Told */
/** @typedef {"records" | "why" | "conversation" | "state"} Tab */

/** @param {PageProps} props */
function JournalPage(props) {
  const { info, params } = props;
  if (
    !info.features.includes("state_at") ||
    !info.features.includes("explain") ||
    !info.features.includes("trace_filters")
  ) {
    return html`<div class="journal-missing"><h1>${words.title}</h1><${Empty} words=${html`${words.older} <span class="dim">${words.olderHint}</span>`} /></div>`;
  }
  if (!info.journal) {
    return html`<div class="journal-missing"><h1>${words.title}</h1><${Empty} words=${html`${words.noJournal} <span class="dim">${words.noJournalHint}</span>`}
      action=${html`<a class="button" href=${hrefOf("/s/:id", { id: params["id"] })}>${words.backToNow}</a>`} /></div>`;
  }
  return html`<${OneJournal} key=${params["id"]} ...${props} />`;
}

/** @param {PageProps} props */
function OneJournal(props) {
  const { api, connection, params, navigate } = props;
  const sessionId = params["id"] ?? "";
  const [, draw] = useReducer((/** @type {number} */ count) => count + 1, 0);
  const reader = useMemo(() => new JournalReader({ api, sessionId, tell: () => draw(0) }), [sessionId]);
  const [number, setNumber] = useNumber(reader, params["at"], (/** @type {number} */ at) =>
    navigate(hrefOf("/s/:id/journal", { id: sessionId, at }), { replace: true }),
  );
  useGrowth(reader, connection, sessionId);
  const title = useTitle(api, sessionId);
  if (reader.known.name === "failed")
    return html`<${Failed} error=${reader.known.error} reader=${reader} sessionId=${sessionId} />`;
  if (reader.known.name === "loading" || number === null) {
    return html`<div class="journal-missing"><h1>${words.title}</h1><${Loading} /></div>`;
  }
  return html`<${Past} ...${props} reader=${reader} number=${number} onNumber=${setNumber} title=${title} />`;
}

/**
 * @param {PageProps & { reader: JournalReader, number: number, onNumber: (number: number) => void, title: string | null }} props
 */
function Past({ api, connection, info, params, navigate, reader, number, onNumber, title }) {
  const sessionId = params["id"] ?? "";
  const told = useTold(api, sessionId, number, reader);
  const isWide = useMedia(WIDE);
  const [tab, setTab] = useState(/** @type {Tab} */ ("conversation"));
  const [wanted, setWanted] = useState(ALL);
  const { found, more } = useFound(reader, wanted, true);
  const [count, setCount] = useState(EVENTS_AT_FIRST);
  const seen = useRef(/** @type {readonly [number, number]} */ ([number, number]));
  const [dialog, setDialog] = useDialog({
    sessionId,
    number,
    api,
    connection,
    navigate,
    onDone: () => reader.refresh(),
  });
  useEffect(() => setCount(EVENTS_AT_FIRST), [number]);
  useEffect(() => reader.look({ records: seen.current, number, count }));
  useJournalKeys({ reader, number, onNumber, fork: () => setDialog("fork") });
  useEffect(() => {
    if (number < reader.first) onNumber(reader.first);
  }, [number, reader.first]);
  const record = reader.record(number);
  const isPast = number < reader.last;
  const plugins = Object.keys(told.state?.state.plugins ?? {});
  const shown = isWide && (tab === "records" || tab === "why") ? "conversation" : tab;
  const panes = {
    records:
      () => html`<${RecordList} reader=${reader} number=${number} onNumber=${onNumber} wanted=${wanted} onWanted=${setWanted} found=${found} more=${more} plugins=${plugins}
      onVisible=${(/** @type {number} */ from, /** @type {number} */ to) => {
        if (from === seen.current[0] && to === seen.current[1]) return;
        seen.current = [from, to];
        if (found === null) reader.look({ records: seen.current, number, count });
      }} />`,
    why: () => html`<${Why} told=${told} number=${number} onNumber=${onNumber} />`,
    conversation:
      () => html`<${PastConversation} api=${api} connection=${connection} info=${info} reader=${reader} number=${number} told=${told} count=${count}
      more=${() => setCount(count + EVENTS_MORE)} />`,
    state: () => html`<${StatePane} told=${told} number=${number} reader=${reader} />`,
  };
  return html`<div class="journal">
    <header class="journal-head">
      <h1 class="cut"><span class="sr-only">${words.title}: </span><${Brief} text=${title ?? sessionId} /></h1>
      <span class="number dim">${words.place(number, reader.last)}</span>
      <span class="journal-acts">
        <button type="button" class="button small" onClick=${() => setDialog("fork")}><${Icon} name="fork" /> ${words.forkHere}</button>
        <button type="button" class="button small" onClick=${() => setDialog("rewind")}><${Icon} name="back" /> ${words.rewindHere}</button>
        <a class="button small" href=${hrefOf("/s/:id", { id: sessionId })}>${words.backToNow}</a>
      </span>
    </header>
    <div class="journal-past ${isPast ? "is-past" : ""}" role="status">
      ${isPast ? html`<strong>${words.past}</strong> <span class="dim">${record ? words.pastHint(timeOf(record.at_ms)) : ""}</span>` : html`<span class="dim">${words.end}</span>`}
      ${reader.first > 1 ? html`<${Trimmed} first=${reader.first} />` : null}
    </div>
    <${JournalSlider} first=${reader.first} last=${reader.last} number=${number} record=${record} marks=${reader.marks} onNumber=${onNumber} />
    ${isWide ? null : html`<${Tabs} tabs=${["records", "why", "conversation", "state"]} tab=${shown} onTab=${setTab} />`}
    <div class=${`journal-panes ${isWide ? "is-wide" : ""}`}>
      ${isWide ? html`${panes.records()}${panes.why()}` : null}
      ${
        isWide
          ? html`<div class="journal-third"><${Tabs} tabs=${["conversation", "state"]} tab=${shown} onTab=${setTab} />${panes[shown]()}</div>`
          : panes[shown]()
      }
    </div>
    ${dialog}
  </div>`;
}

/** @param {{ tabs: Tab[], tab: Tab, onTab: (tab: Tab) => void }} props */
function Tabs({ tabs, tab, onTab }) {
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    const way = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (way === 0) return;
    event.preventDefault();
    const next = /** @type {Tab} */ (tabs[(tabs.indexOf(tab) + way + tabs.length) % tabs.length]);
    onTab(next);
    requestAnimationFrame(() => document.getElementById(`journal-tab-${next}`)?.focus());
  };
  return html`<div class="journal-tabs" role="tablist" aria-label=${words.views} onKeyDown=${pressed}>
    ${tabs.map(
      (
        one,
      ) => html`<button key=${one} type="button" role="tab" id=${`journal-tab-${one}`} aria-selected=${one === tab ? "true" : "false"} aria-controls=${one === tab ? `journal-pane-${one}` : undefined}
        tabindex=${one === tab ? 0 : -1} onClick=${() => onTab(one)}>${words.tabs[one]}</button>`,
    )}
  </div>`;
}

// --- what is drawn of a record

/** @param {{ told: Told, number: number, onNumber: (number: number) => void }} props */
function Why({ told, number, onNumber }) {
  return html`<section class="journal-pane why" id="journal-pane-why" aria-label=${words.tabs.why}>
    <h2>${words.why.title(number)}</h2>
    ${
      told.explained?.at === number
        ? html`<${ExplainView} told=${told.explained} body=${told.body?.at === number ? told.body.body : null} onNumber=${onNumber} />`
        : told.at === number && told.whyError
          ? html`<${Refusal} error=${told.whyError} />`
          : html`<p class="dim">${words.why.loading}</p>`
    }
  </section>`;
}

/**
 * Why something of a record cannot be told: mostly because what stands in front of it is not kept.
 * @param {{ error: import("../wire/api.js").ApiError }} props
 */
function Refusal({ error }) {
  return typeof error.more["first"] === "number"
    ? html`<${Trimmed} first=${error.more["first"]} />`
    : html`<${Problem} error=${error} />`;
}

/** @param {{ told: Told, number: number, reader: JournalReader }} props */
function StatePane({ told, number, reader }) {
  const [typed, setTyped] = useState(String(Math.max(reader.first, number - 1)));
  const [since, setSince] = useState(/** @type {number | null} */ (null));
  const diff = useDiff(told, since, number);
  const compare = (/** @type {Event} */ event) => {
    event.preventDefault();
    const wanted = Number(typed);
    if (Number.isInteger(wanted) && wanted >= reader.first && wanted <= reader.last) setSince(wanted);
  };
  return html`<section class="journal-pane state-pane" id="journal-pane-state" aria-label=${words.tabs.state}>
    <form class="state-compare" onSubmit=${compare}>
      <h2>${words.state.title(number)}</h2>
      <label class="state-since">${words.state.diffWith}
        <input type="number" min=${reader.first} max=${reader.last} value=${typed} onInput=${(/** @type {any} */ event) => setTyped(event.target.value)} /></label>
      <button type="submit" class="button small">${words.state.compare}</button>
      ${since === null ? null : html`<button type="button" class="button small" onClick=${() => setSince(null)}>${words.state.noDiff}</button>`}
    </form>
    ${
      since !== null
        ? diff.error
          ? html`<${Refusal} error=${diff.error} />`
          : diff.patch !== null
            ? html`<${PatchView} key=${`${since}-${number}`} from=${since} to=${number} patch=${diff.patch} before=${diff.before} />`
            : html`<p class="dim">${words.state.loading}</p>`
        : told.state?.at === number
          ? html`<${StateView} state=${told.state.state} />`
          : told.at === number && told.stateError
            ? html`<${Refusal} error=${told.stateError} />`
            : html`<p class="dim">${words.state.loading}</p>`
    }
  </section>`;
}

/**
 * @param {{ api: any, connection: any, info: import("../pages.js").Info, reader: JournalReader, number: number, told: Told, count: number, more: () => void }} props
 */
function PastConversation({ api, connection, info, reader, number, told, count, more }) {
  const [current, setCurrent] = useState(/** @type {string | null} */ (null));
  const env = useMemo(
    () => ({
      api,
      connection,
      sessionId: reader.sessionId,
      features: new Set(info.features),
      isPast: true,
      folds: new Folds(`${reader.sessionId}.past`),
    }),
    [reader, info],
  );
  const folded = useFolded(reader, number, count);
  const isRefused = reader.eventsRefused !== null;
  const isOfState = isRefused || folded?.isHoled === true;
  const state = told.state?.at === number ? told.state.state : null;
  const view = useMemo(() => {
    if (isOfState) return state === null ? null : reader.conversationOf(state);
    if (!folded) return null;
    return state === null ? folded.view : withStream(folded.view, state);
  }, [isOfState, state, folded]);
  const older = folded?.hasMore
    ? { name: "more" }
    : reader.first > 1
      ? { name: "trimmed", first: reader.first }
      : { name: "start" };
  return html`<section class="journal-pane past-conversation" id="journal-pane-conversation" aria-label=${words.tabs.conversation} data-number=${view === null ? undefined : number}>
    ${isOfState ? html`<p class="dim small past-note">${isRefused ? words.conversationOfState : words.conversationOfBranch}</p>` : null}
    ${
      view === null
        ? html`<p class="dim past-note">${words.conversationLoading}</p>`
        : view.items.length === 0
          ? html`<p class="dim past-note">${words.noWords}</p>`
          : html`<${EnvProvider} value=${env}><${StillAt} value=${reader.record(number)?.at_ms ?? null}><${Conversation} view=${view} older=${older} fetchOlder=${() => folded?.hasMore && more()} current=${current} onCurrent=${setCurrent} /><//><//>`
    }
  </section>`;
}

/**
 * The conversation up to a record, folded once for each of them.
 * @param {JournalReader} reader
 * @param {number} number
 * @param {number} count
 */
function useFolded(reader, number, count) {
  const kept = useRef({ key: "", made: /** @type {ReturnType<JournalReader["conversation"]>} */ (null) });
  const record = reader.record(number);
  const key = `${number} ${count} ${record?.events ?? ""} ${reader.rewinds.length} ${Object.keys(reader.cut).length}`;
  if (kept.current.key !== key || kept.current.made === null)
    kept.current = { key, made: reader.conversation(number, count) };
  return kept.current.made;
}

/** @param {{ error: import("../wire/api.js").ApiError, reader: JournalReader, sessionId: string }} props */
function Failed({ error, reader, sessionId }) {
  const isGone = error.status === 404;
  return html`<div class="journal-missing"><h1>${words.title}</h1>
    ${
      isGone
        ? html`<${Empty} words=${words.absent} action=${html`<a class="button" href="#/">${text.shell.toSessions}</a>`} />`
        : html`<${Problem} error=${error} onRetry=${() => void reader.begin()} />
          <p><a class="button" href=${hrefOf("/s/:id", { id: sessionId })}>${words.backToNow}</a></p>`
    }
  </div>`;
}

// --- what it reads

/**
 * Which record is looked at: that of the address, or the last one. The address follows a moment later.
 * @param {JournalReader} reader
 * @param {string | undefined} asked
 * @param {(number: number) => void} follow
 * @returns {[number | null, (number: number) => void]}
 */
function useNumber(reader, asked, follow) {
  const [number, setNumber] = useState(/** @type {number | null} */ (null));
  const timer = useRef(/** @type {any} */ (null));
  const within = (/** @type {number} */ wanted) => Math.min(Math.max(Math.round(wanted), reader.first), reader.last);
  useEffect(() => {
    void reader.begin();
    return () => {
      clearTimeout(timer.current);
      reader.end();
    };
  }, [reader]);
  useEffect(() => {
    if (reader.known.name !== "ready") return;
    const wanted = Number(asked);
    const at = asked !== undefined && Number.isFinite(wanted) ? within(wanted) : reader.last;
    // One below what is kept is moved to the first that is; the banner says why.
    if (number === null || (asked !== undefined && at !== number && timer.current === null)) setNumber(at);
  }, [reader.known.name, asked]);
  const choose = (/** @type {number} */ wanted) => {
    const at = within(wanted);
    setNumber(at);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      timer.current = null;
      follow(at);
    }, 200);
  };
  return [number, choose];
}

/**
 * Looks for more records when the session says something.
 * @param {JournalReader} reader
 * @param {import("../wire/socket.js").Connection} connection
 * @param {string} sessionId
 */
function useGrowth(reader, connection, sessionId) {
  useEffect(() => {
    let timer = /** @type {any} */ (null);
    const later = () => {
      if (timer !== null || reader.known.name !== "ready") return;
      timer = setTimeout(() => {
        timer = null;
        void reader.refresh();
      }, REFRESH_MS);
    };
    let off = () => {};
    try {
      off = connection.subscribe(sessionId, { deltas: false, onSnapshot: later, onEvents: later });
    } catch {
      // Another part of the page reads it: then this one shows what there was when it was opened.
    }
    return () => {
      off();
      clearTimeout(timer);
    };
  }, [reader]);
}

/**
 * @param {import("../wire/api.js").Api} api
 * @param {string} sessionId
 * @returns {string | null}
 */
function useTitle(api, sessionId) {
  const [title, setTitle] = useState(/** @type {string | null} */ (null));
  useEffect(() => {
    api.get(`sessions/${encodeURIComponent(sessionId)}`).then(
      (snapshot) => setTitle(nameOf(snapshot)),
      () => {}, // of another user's session the page shows the id
    );
  }, [sessionId]);
  return title;
}

// --- what can be done

/**
 * The dialogues of helper pages, loaded when they are opened.
 * @param {{ sessionId: string, number: number, api: any, connection: any, navigate: any, onDone: () => void }} given
 * @returns {[any, (kind: "fork" | "rewind") => Promise<void>]} what is drawn of it, and what opens one
 */
function useDialog({ sessionId, number, api, connection, navigate, onDone }) {
  const [shown, setShown] = useState(/** @type {{ Part: any, kind: "fork" | "rewind", at: number } | null} */ (null));
  const open = async (/** @type {"fork" | "rewind"} */ kind) => {
    const Part =
      kind === "fork"
        ? (await import("../parts/fork_dialog.js")).ForkDialog
        : (await import("../parts/rewind_dialog.js")).RewindDialog;
    setShown({ Part, kind, at: number });
  };
  const close = () => setShown(null);
  if (shown === null) return [null, open];
  const { Part, kind, at } = shown;
  const drawn =
    kind === "fork"
      ? html`<${Part} session=${sessionId} at=${at} api=${api} connection=${connection} navigate=${navigate} onClose=${close} />`
      : html`<${Part} session=${sessionId} to=${at} api=${api} connection=${connection} onDone=${onDone} onClose=${close} />`;
  return [drawn, open];
}

/**
 * @param {{ reader: JournalReader, number: number, onNumber: (number: number) => void, fork: () => void }} acts
 */
function useJournalKeys({ reader, number, onNumber, fork }) {
  const go = (/** @type {number | null} */ wanted) => {
    if (wanted === null) return;
    onNumber(wanted);
    const record = reader.record(wanted);
    announce(words.sliderValue(wanted, reader.last, record?.kind ?? null, null));
  };
  useKeys(
    {
      j: { label: words.keys.next, run: () => go(Math.min(number + 1, reader.last)) },
      k: { label: words.keys.previous, run: () => go(Math.max(number - 1, reader.first)) },
      "]": { label: words.keys.nextCycle, run: () => go(nextCycle(reader.marks, number, 1)) },
      "[": { label: words.keys.previousCycle, run: () => go(nextCycle(reader.marks, number, -1)) },
      ".": { label: words.keys.end, run: () => go(reader.last) },
      f: { label: words.keys.fork, run: () => void fork() },
    },
    words.keys.scope,
  );
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

export const page = { route: "/s/:id/journal", title: words.title, Page: JournalPage };

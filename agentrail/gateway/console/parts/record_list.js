// The records of a journal as a list: all of them, of which those near the window are loaded, or those that were looked for. Which one is chosen is for its
// owner to keep; this asks for nothing but what it was given to ask with.

import { classOf } from "../pure/past.js";
import { text } from "../text/en.js";
import { html, useEffect, useId, useRef, useState } from "../ui.js";
import { ApiError } from "../wire/api.js";
import { timeOf } from "./journal_slider.js";
import { Problem } from "./states.js";
import { WindowList } from "./window_list.js";

const words = text.journal;

/** @typedef {import("../pure/past.js").JournalRecord} JournalRecord */
/** @typedef {import("../wire/journal.js").Wanted} Wanted */

/** @type {Wanted} */
export const ALL = { kinds: [], plugin: "", text: "" };

/** Kinds that a person looks for; any other can be read in the list. */
const KINDS = [
  ...[
    "prompt",
    "steer",
    "response_completed",
    "stream_failed",
    "tool_finished",
    "approve",
    "reject",
    "respond",
    "abort",
  ],
  ...[
    "compact",
    "switch_model",
    "timer_fired",
    "child_started",
    "plugin_lagged",
    "change_plugins",
    "update_plugin_opts",
  ],
  ...["restarted", "recovered", "taken", "rewound", "closed"],
];

/**
 * What is looked for, and what of it was found so far.
 * @typedef {object} Found
 * @property {JournalRecord[]} records
 * @property {number | null} next behind which record the rest is looked for; null: there is none
 * @property {boolean} isLooking
 * @property {ApiError | null} error
 */

/**
 * @param {import("../wire/journal.js").JournalReader} reader
 * @param {Wanted} wanted
 * @param {boolean} isReady
 * @returns {{ found: Found | null, more: () => void }} `found` is null where nothing is looked for
 */
export function useFound(reader, wanted, isReady) {
  const [found, setFound] = useState(/** @type {Found | null} */ (null));
  const asking = useRef(/** @type {AbortController | null} */ (null));
  const look = (/** @type {JournalRecord[]} */ known, /** @type {number} */ after) => {
    asking.current?.abort();
    const controller = new AbortController();
    asking.current = controller;
    setFound({ records: known, next: after, isLooking: true, error: null });
    reader.find(wanted, after, controller.signal).then(
      ({ found: records, next }) => {
        if (asking.current !== controller) return;
        asking.current = null;
        const all = [...known, ...records];
        // A part of a long journal may hold none of them: then the next part is looked through at once.
        if (records.length === 0 && next !== null) look(all, next);
        else setFound({ records: all, next, isLooking: false, error: null });
      },
      (error) => {
        if (asking.current !== controller) return;
        asking.current = null;
        if (!(error instanceof ApiError)) throw error;
        setFound({ records: known, next: after, isLooking: false, error });
      },
    );
  };
  const isAll = wanted.kinds.length === 0 && wanted.plugin === "" && wanted.text === "";
  useEffect(() => {
    if (isAll || !isReady) setFound(null);
    else look([], 0);
    return () => {
      asking.current?.abort();
      asking.current = null;
    };
  }, [wanted, isAll, isReady]);
  const more = () => {
    if (found !== null && !found.isLooking && found.next !== null && found.error === null)
      look(found.records, found.next);
  };
  return { found, more };
}

/**
 * @param {object} props
 * @param {import("../wire/journal.js").JournalReader} props.reader
 * @param {number} props.number the chosen one
 * @param {(number: number) => void} props.onNumber
 * @param {Wanted} props.wanted
 * @param {(wanted: Wanted) => void} props.onWanted
 * @param {Found | null} props.found
 * @param {() => void} props.more
 * @param {readonly string[]} props.plugins names that can be looked for
 * @param {(from: number, to: number) => void} props.onVisible which numbers are in sight
 */
export function RecordList({ reader, number, onNumber, wanted, onWanted, found, more, plugins, onVisible }) {
  const numbers = useNumbers(reader.first, reader.last, found);
  const list = useRef(/** @type {any} */ (null));
  const id = useId();
  const key = String(number);
  const at = found === null ? number - reader.first : numbers.indexOf(number);
  useEffect(() => {
    list.current?.scrollToKey(key);
  }, [key, numbers]);
  const wantsFocus = useRef(false);
  useEffect(() => {
    if (!wantsFocus.current) return;
    wantsFocus.current = false;
    document.getElementById(`${id}-${number}`)?.focus({ preventScroll: true });
  }, [number]);
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    const next = afterKey(event.key, at, numbers, number);
    if (next === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    wantsFocus.current = next !== number; // focus goes along, because a person is in the list
    onNumber(next);
  };
  // Where the chosen one is not in the list, its first row is where one comes in.
  const entry = at >= 0 ? number : numbers[0];
  const byNumber = useByNumber(found);
  const digits = String(reader.last).length;
  const recordOf = (/** @type {number} */ one) => byNumber?.get(one) ?? reader.record(one);
  return html`<section class="records" id="journal-pane-records" aria-label=${words.records}>
    <${Filter} wanted=${wanted} onWanted=${onWanted} plugins=${plugins} />
    <div class="records-told dim small" role="status">
      ${found === null ? words.filter.found(numbers.length, true) : found.isLooking ? words.filter.looking : words.filter.found(numbers.length, found.next === null)}
    </div>
    ${found?.error ? html`<${Problem} error=${found.error} />` : null}
    ${found !== null && !found.isLooking && numbers.length === 0 && found.error === null ? html`<p class="dim records-none">${words.filter.nothing}</p>` : null}
    <div class="records-box" role="presentation" onKeyDown=${pressed}>
      <${WindowList} ref=${list} class="records-list" role="list" rowRole="listitem" label=${words.records} items=${numbers} keyOf=${String} estimate=${26} tabIndex=${-1} keep=${key}
        onVisible=${(/** @type {number} */ from, /** @type {number} */ to) => {
          onVisible(numbers[from] ?? reader.first, numbers[to] ?? reader.first);
          if (found !== null && to >= numbers.length - 20) more();
        }}
        draw=${(/** @type {number} */ one) =>
          html`<${RecordRow} id=${`${id}-${one}`} number=${one} record=${recordOf(one)} isChosen=${one === number} isEntry=${one === entry} digits=${digits} onNumber=${onNumber} />`} />
    </div>
  </section>`;
}

/**
 * @param {string} key
 * @param {number} at
 * @param {readonly number[]} numbers
 * @param {number} number
 * @returns {number | undefined}
 */
function afterKey(key, at, numbers, number) {
  const from = at >= 0 ? at : numbers.findIndex((one) => one > number);
  switch (key) {
    case "ArrowDown":
      return numbers[at >= 0 ? at + 1 : from];
    case "ArrowUp":
      return numbers[(from < 0 ? numbers.length : from) - 1];
    case "PageDown":
      return numbers[Math.min(Math.max(from, 0) + 10, numbers.length - 1)];
    case "PageUp":
      return numbers[Math.max(from - 10, 0)];
    case "Home":
      return numbers[0];
    case "End":
      return numbers.at(-1);
    default:
      return undefined;
  }
}

/**
 * @param {number} first
 * @param {number} last
 * @param {Found | null} found
 * @returns {number[]} the same list as long as nothing changed
 */
function useNumbers(first, last, found) {
  const known = useRef({ key: "", records: /** @type {any} */ (null), numbers: /** @type {number[]} */ ([]) });
  const key = `${first}-${last}`;
  const records = found?.records ?? null;
  if (known.current.records !== records || (records === null && known.current.key !== key)) {
    const numbers =
      records === null
        ? Array.from({ length: Math.max(0, last - first + 1) }, (_, place) => first + place)
        : records.map((/** @type {JournalRecord} */ one) => one.number);
    known.current = { key, records, numbers };
  }
  return known.current.numbers;
}

/** @param {Found | null} found */
function useByNumber(found) {
  const known = useRef({
    records: /** @type {any} */ (null),
    map: /** @type {Map<number, JournalRecord> | null} */ (null),
  });
  const records = found?.records ?? null;
  if (known.current.records !== records) {
    known.current = {
      records,
      map: records === null ? null : new Map(records.map((/** @type {JournalRecord} */ one) => [one.number, one])),
    };
  }
  return known.current.map;
}

/**
 * @param {{ id: string, number: number, record: JournalRecord | undefined, isChosen: boolean, isEntry: boolean, digits: number, onNumber: (number: number) => void }} props
 */
function RecordRow({ id, number, record, isChosen, isEntry, digits, onNumber }) {
  return html`<button type="button" id=${id} class=${`record-row ${isChosen ? "is-chosen" : ""}`} aria-current=${isChosen ? "true" : undefined} tabindex=${isEntry ? 0 : -1}
    style=${{ "--digits": `${digits}ch` }} onClick=${() => onNumber(number)}>
    <span class="number record-number">${number}</span>
    <span class="cut record-kind">${record ? classOf(record.kind) : words.notLoaded}</span>
    <span class="number dim record-time" title=${record ? new Date(record.at_ms).toISOString() : undefined}>${record ? timeOf(record.at_ms) : ""}</span>
  </button>`;
}

/**
 * @param {{ wanted: Wanted, onWanted: (wanted: Wanted) => void, plugins: readonly string[] }} props
 */
function Filter({ wanted, onWanted, plugins }) {
  const [typed, setTyped] = useState(wanted.text);
  const isAll = wanted === ALL;
  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    onWanted({ ...wanted, text: typed.trim() });
  };
  return html`<form class="records-filter" role="search" onSubmit=${send}>
    <select aria-label=${words.filter.kind} value=${wanted.kinds[0] ?? ""} onChange=${(/** @type {any} */ event) => onWanted({ ...wanted, kinds: event.target.value ? [event.target.value] : [] })}>
      <option value="">${words.filter.allKinds}</option>
      ${KINDS.map((kind) => html`<option key=${kind} value=${kind}>${classOf(kind)}</option>`)}
    </select>
    <select aria-label=${words.filter.plugin} value=${wanted.plugin} disabled=${plugins.length === 0 && wanted.plugin === ""}
      onChange=${(/** @type {any} */ event) => onWanted({ ...wanted, plugin: event.target.value })}>
      <option value="">${words.filter.plugin}</option>
      ${[...new Set([...plugins, ...(wanted.plugin ? [wanted.plugin] : [])])].map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
    </select>
    <input type="search" aria-label=${words.filter.text} placeholder=${words.filter.text} value=${typed} maxlength="200" data-search
      onInput=${(/** @type {any} */ event) => setTyped(event.target.value)} onBlur=${() => typed.trim() !== wanted.text && onWanted({ ...wanted, text: typed.trim() })} />
    ${
      isAll
        ? null
        : html`<button type="button" class="button small" onClick=${() => {
            setTyped("");
            onWanted(ALL);
          }}>${words.filter.clear}</button>`
    }
  </form>`;
}

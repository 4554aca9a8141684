// The panel *Timeline*: a row for each span with a bar where it stood, from committed events alone. What is idle is folded, attempts at one request share a row,
// and a row that is selected selects its item of the conversation. Sums and places are computed in `pure/timeline_rows.js`; nothing of that enters here.

import { Dialog } from "../parts/dialog.js";
import { SpanDetails } from "../parts/span_details.js";
import { SpanBar, SpanName } from "../parts/span_row.js";
import { Empty, Loading, Problem, Trimmed } from "../parts/states.js";
import { useNow } from "../parts/ticking.js";
import { TreeGrid } from "../parts/tree_grid.js";
import { duration, money, tokens } from "../pure/numbers.js";
import { itemOf, timelineRows } from "../pure/timeline_rows.js";
import { treeRows } from "../pure/tree_rows.js";
import { text } from "../text/en.js";
import { html, useEffect, useMemo, useReducer, useState } from "../ui.js";
import { TimelineFeed } from "../wire/timeline_feed.js";

const words = text.timeline;

/** @typedef {import("../pure/timeline_rows.js").TimelineRow} TimelineRow */

/** @type {import("../parts/tree_grid.js").Column[]} */
const NARROW = [
  { key: "name", label: words.columns.name, width: "minmax(0, 13fr)" },
  { key: "bar", label: words.columns.bar, width: "minmax(0, 8fr)" },
  { key: "took", label: words.columns.took, width: "6ch", isNumber: true },
];

/** @type {import("../parts/tree_grid.js").Column[]} */
const WIDE = [
  { key: "name", label: words.columns.name, width: "minmax(0, 30ch)" },
  { key: "bar", label: words.columns.bar, width: "minmax(0, 1fr)" },
  { key: "took", label: words.columns.took, width: "8ch", isNumber: true },
  { key: "own", label: words.columns.own, width: "8ch", isNumber: true },
  { key: "sum", label: words.columns.sum, width: "8ch", isNumber: true },
  { key: "cost", label: words.columns.cost, width: "9ch", isNumber: true },
  { key: "sumCost", label: words.columns.sumCost, width: "9ch", isNumber: true },
];

/**
 * @param {object} props
 * @param {import("../pure/view.js").View} props.view
 * @param {import("../wire/api.js").Api} props.api
 * @param {(key: string) => void} props.select shows an item of the conversation
 */
export function Panel({ view, api, select }) {
  const feed = useFeed(view, api);
  const [isLarge, setLarge] = useState(false);
  const shared = useTimeline(feed, view, select);
  if (feed.state === "loading") return html`<${Loading} rows=${6} />`;
  if (feed.state === "failed") return html`<${Problem} error=${feed.error} onRetry=${() => void feed.begin()} />`;
  if (shared.all.length === 0 && !feed.more) {
    return html`<${Empty} words=${html`${words.empty} <span class="dim">${words.emptyHint}</span>`} />`;
  }
  return html`<div class="timeline">
    <div class="timeline-tools">
      <${Earlier} feed=${feed} />
      <button type="button" class="button small" onClick=${() => setLarge(true)}>${words.enlarge}</button>
    </div>
    <${Grid} shared=${shared} columns=${NARROW} />
    <${SpanDetails} row=${shared.chosen} now=${shared.now} />
    ${
      isLarge
        ? html`<${Dialog} title=${words.label} kind="wide timeline-dialog" onClose=${() => setLarge(false)}>
            <div class="timeline large">
              <${Grid} shared=${{ ...shared, choose: shared.look }} columns=${WIDE} />
              <${SpanDetails} row=${shared.chosen} now=${shared.now} onShow=${
                shared.item === null
                  ? null
                  : () => {
                      setLarge(false);
                      select(/** @type {string} */ (shared.item));
                    }
              } />
            </div>
          <//>`
        : null
    }
  </div>`;
}

/**
 * @param {import("../pure/view.js").View} view
 * @param {import("../wire/api.js").Api} api
 * @returns {TimelineFeed}
 */
function useFeed(view, api) {
  const [, draw] = useReducer((/** @type {number} */ count) => count + 1, 0);
  const feed = useMemo(() => new TimelineFeed({ sessionId: view.session_id, api }), [view.session_id, api]);
  useEffect(() => {
    const off = feed.listen(() => draw(0));
    void feed.begin();
    return () => {
      off();
      feed.close();
    };
  }, [feed]);
  // Where the session went back, what was read of it may be undone.
  const gaps = view.gaps.length;
  const [known, setKnown] = useState(gaps);
  useEffect(() => {
    if (gaps !== known) {
      setKnown(gaps);
      void feed.begin();
    }
  }, [gaps]);
  useEffect(() => feed.reached(view.seq), [feed, view.seq, feed.state]);
  return feed;
}

/**
 * What both sizes of the timeline share: its rows, what is folded, and what is chosen.
 * @param {TimelineFeed} feed
 * @param {import("../pure/view.js").View} view
 * @param {(key: string) => void} select
 */
function useTimeline(feed, view, select) {
  const { timeline } = feed;
  const [folds, setFolds] = useState(/** @type {ReadonlyMap<string, boolean>} */ (new Map()));
  const [chosenKey, setChosen] = useState(/** @type {string | null} */ (null));
  const isOpen = timeline.spans.some((span) => span.to_ms === null);
  const clock = useNow();
  // Nothing moves where nothing is at work, so that a page at rest computes nothing.
  const now = isOpen ? clock : 0;
  const all = useMemo(() => timelineRows(timeline.spans, now), [timeline, timeline.version, now]);
  const byKey = useMemo(() => new Map(timeline.spans.map((span) => [span.key, span])), [timeline, timeline.version]);
  const lastCycle = timeline.spans.findLast((span) => span.kind === "cycle" && span.parent === null)?.key;
  const rows = useMemo(
    () =>
      treeRows(all, {
        keyOf: (row) => row.key,
        parentOf: (row) => row.parent,
        isFolded: (key) => folds.get(key) ?? (byKey.get(key)?.parent === null && key !== lastCycle),
      }),
    [all, folds, lastCycle],
  );
  const numbers = useMemo(() => numbersOf(all), [all]);
  const chosen = all.find((row) => row.key === chosenKey) ?? null;
  const item = chosen === null ? null : itemOf(chosen.last, (key) => byKey.get(key), view.items);
  const choose = (/** @type {{ key: string, value: TimelineRow }} */ row) => {
    setChosen(row.key);
    const wanted = itemOf(row.value.last, (key) => byKey.get(key), view.items);
    if (wanted !== null) select(wanted);
  };
  return {
    all,
    rows,
    numbers,
    now: isOpen ? now : Date.now(),
    chosen,
    item,
    choose,
    look: (/** @type {{ key: string }} */ row) => setChosen(row.key),
    toggle: (/** @type {string} */ key, /** @type {boolean} */ open) => setFolds(new Map(folds).set(key, !open)),
  };
}

/** @param {{ feed: TimelineFeed }} props */
function Earlier({ feed }) {
  if (feed.more) {
    return html`<button type="button" class="button small" disabled=${feed.isFetching} onClick=${() => void feed.earlier()}>${feed.isFetching ? words.fetching : words.earlier}</button>`;
  }
  return feed.keptFrom > 1 ? html`<${Trimmed} first=${feed.keptFrom} />` : html`<span></span>`;
}

/** @param {{ shared: ReturnType<typeof useTimeline>, columns: import("../parts/tree_grid.js").Column[] }} props */
function Grid({ shared, columns }) {
  const { rows, numbers, now, chosen, choose, toggle } = shared;
  return html`<${TreeGrid} label=${words.label} columns=${columns} rows=${rows} estimate=${26} selected=${chosen?.key ?? null}
    rowClass=${(/** @type {any} */ row) => `span-row is-${row.value.span.kind}`} onToggle=${toggle} onSelect=${choose}
    draw=${(/** @type {any} */ row, /** @type {any} */ column) => cellOf(row.value, column.key, row.level, now, numbers)} />`;
}

/**
 * @param {TimelineRow} row
 * @param {string} column
 * @param {number} level
 * @param {number} now
 * @param {Map<string, number>} numbers
 */
function cellOf(row, column, level, now, numbers) {
  switch (column) {
    case "name":
      return html`<${SpanName} row=${row} number=${numbers.get(row.key) ?? 0} />`;
    case "bar":
      return html`<${SpanBar} row=${row} isTop=${level === 1} now=${now} />`;
    case "took":
      return tookOf(row, now);
    case "own":
      return amountOf(row.own);
    case "sum":
      return amountOf(row.sum);
    case "cost":
      return costOf(row.own);
    default:
      return costOf(row.sum);
  }
}

/**
 * @param {TimelineRow} row
 * @param {number} now
 */
function tookOf(row, now) {
  const { span, last } = row;
  if (span.kind === "gate") {
    const waited = span.attributes.waited_ms;
    return typeof waited === "number" ? duration(waited) : "";
  }
  return duration((last.to_ms ?? now) - span.from_ms);
}

/** @param {import("../pure/timeline_rows.js").Totals} used */
function amountOf(used) {
  const sum = used.tokens_in + used.tokens_out;
  return sum === 0 ? "" : tokens(sum);
}

/** @param {import("../pure/timeline_rows.js").Totals} used */
function costOf(used) {
  if (used.cost_usd === null) return "?";
  return used.cost_usd === 0 && used.tokens_in + used.tokens_out === 0 ? "" : money(used.cost_usd);
}

/**
 * The cycles' places among those that are loaded, from the last number on that a person would count.
 * @param {TimelineRow[]} rows
 * @returns {Map<string, number>}
 */
function numbersOf(rows) {
  const cycles = rows.filter((row) => row.span.kind === "cycle" && row.parent === null);
  return new Map(cycles.map((row, place) => [row.key, place + 1]));
}

// The panel *Context*: what the model will be sent next, part by part, with how long each is. The server estimates; nothing is counted here but shares.

import { SafeText } from "../parts/safe_text.js";
import { Empty, Loading, Problem } from "../parts/states.js";
import { TreeGrid } from "../parts/tree_grid.js";
import { groupedParts, shareOf } from "../pure/context_parts.js";
import { exact, percent, tokens } from "../pure/numbers.js";
import { treeRows } from "../pure/tree_rows.js";
import { text } from "../text/en.js";
import { html, useEffect, useMemo, useReducer, useRef, useState } from "../ui.js";

const words = text.timeline.context;
const NEARLY_FULL = 85;
const EVERY_MS = 2_000;

/** @type {import("../parts/tree_grid.js").Column[]} */
const COLUMNS = [
  { key: "name", label: words.columns.name, width: "minmax(0, 1fr)" },
  { key: "share", label: words.columns.share, width: "7ch", isNumber: true },
  { key: "tokens", label: words.columns.tokens, width: "7ch", isNumber: true },
];

/**
 * @param {object} props
 * @param {import("../pure/view.js").View} props.view
 * @param {import("../wire/api.js").Api} props.api
 * @param {(key: string) => void} props.select shows an item of the conversation
 */
export function Panel({ view, api, select }) {
  const { told, error, again } = useContextOf(view, api);
  const [folds, setFolds] = useState(/** @type {ReadonlyMap<string, boolean>} */ (new Map()));
  const [chosen, setChosen] = useState(/** @type {string | null} */ (null));
  const parts = useMemo(() => (told === null ? [] : groupedParts(told.parts)), [told]);
  const rows = useMemo(
    () =>
      treeRows(parts, {
        keyOf: (part) => part.key,
        parentOf: (part) => part.parent,
        isFolded: (key) => folds.get(key) ?? key !== "message",
      }),
    [parts, folds],
  );
  if (told === null) {
    if (error === null) return html`<${Loading} rows=${5} />`;
    if (error.code === "session_ended") return html`<${Empty} words=${words.ended} />`;
    return html`<${Problem} error=${error} onRetry=${again} />`;
  }
  const choose = (/** @type {any} */ row) => {
    setChosen(row.key);
    const wanted = itemOfPart(row.value, view);
    if (wanted !== null) select(wanted);
  };
  const found = parts.find((part) => part.key === chosen) ?? null;
  return html`<div class="context">
    <${Head} told=${told} parts=${parts} />
    ${
      parts.length === 0
        ? html`<${Empty} words=${words.empty} />`
        : html`<${TreeGrid} label=${words.label} columns=${COLUMNS} rows=${rows} estimate=${26} selected=${chosen}
            onToggle=${(/** @type {string} */ key, /** @type {boolean} */ open) => setFolds(new Map(folds).set(key, !open))} onSelect=${choose}
            draw=${(/** @type {any} */ row, /** @type {any} */ column) => cellOf(row.value, column.key, told.tokens)} />`
    }
    ${found === null || found.text === "" ? null : html`<pre class="context-text" tabindex="0" dir="auto"><${SafeText} text=${found.text} /></pre>`}
  </div>`;
}

/**
 * Reads it, and again when the session has come further: at most every two seconds.
 * @param {import("../pure/view.js").View} view
 * @param {import("../wire/api.js").Api} api
 */
function useContextOf(view, api) {
  const [told, setTold] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [turn, again] = useReducer((/** @type {number} */ count) => count + 1, 0);
  const readAt = useRef(0);
  const marker = `${view.items.length} ${view.phase} ${view.context?.tokens ?? 0}`;
  useEffect(() => {
    const abort = new AbortController();
    const wait = Math.max(0, readAt.current + EVERY_MS - Date.now());
    const timer = setTimeout(async () => {
      readAt.current = Date.now();
      try {
        setTold(await api.get(`sessions/${encodeURIComponent(view.session_id)}/context`, {}, { signal: abort.signal }));
        setError(null);
      } catch (problem) {
        if (!abort.signal.aborted) setError(problem);
      }
    }, wait);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [api, view.session_id, marker, turn]);
  return { told, error, again: () => again(0) };
}

/** @param {{ told: any, parts: import("../pure/context_parts.js").Part[] }} props */
function Head({ told, parts }) {
  const window = told.window;
  const used = window === null ? null : percent(told.tokens, window);
  const groups = parts.filter((part) => part.parent === null);
  const whole = window ?? Math.max(1, told.tokens);
  return html`<header class="context-head">
    <p class="dim">${words.lead}</p>
    <p class="context-sum"><strong>${window === null ? words.used(tokens(told.tokens)) : words.of(tokens(told.tokens), tokens(window))}</strong>
      ${used === null ? null : html` <span class="dim">${words.share(used)}, ${words.estimated}</span>`}</p>
    <div class="context-bar" aria-hidden="true">
      ${groups.map((part) => html`<span key=${part.key} class=${`context-piece is-${part.kind}`} style=${{ width: `${shareOf(part.tokens, whole) * 100}%` }}></span>`)}
    </div>
    <ul class="context-legend plain-list">
      ${groups.map((part) => html`<li key=${part.key}><span class=${`context-dot is-${part.kind}`} aria-hidden="true"></span>${words.kinds[part.kind] ?? part.kind} <span class="dim">${tokens(part.tokens)}</span></li>`)}
    </ul>
    ${used !== null && used >= NEARLY_FULL ? html`<p class="warn">${words.full}</p>` : null}
    ${window === null ? html`<p class="dim">${words.unknownWindow}</p>` : null}
    <dl class="span-facts">
      <div class="span-fact"><dt class="dim">${words.model}</dt><dd><code><${SafeText} text=${told.model} /></code></dd></div>
      <div class="span-fact"><dt class="dim">${words.digest}</dt><dd><code title=${`${told.digest} · ${words.digestHint}`}>${told.digest.slice(0, 12)}</code></dd></div>
    </dl>
    ${told.counted_tokens > 0 ? html`<p class="dim">${words.counted(exact(told.counted_tokens))}</p>` : null}
  </header>`;
}

/**
 * @param {import("../pure/context_parts.js").Part} part
 * @param {string} column
 * @param {number} whole
 */
function cellOf(part, column, whole) {
  if (column === "tokens") return html`<span>${exact(part.tokens)}</span>`;
  if (column === "share") {
    const share = percent(part.tokens, whole);
    return html`<span class="dim">${share === 0 && part.tokens > 0 ? words.less : words.share(share)}</span>`;
  }
  const name = part.parent === null ? (words.kinds[part.kind] ?? part.kind) : nameOf(part);
  const head = part.parent === null ? String(part.count) : part.kind === "message" ? part.text : "";
  return html`<span class=${part.parent === null ? "context-group" : "context-name"}><${SafeText} text=${name} /></span>
    <span class="context-words dim" dir="auto"><${SafeText} text=${head.slice(0, 120)} /></span>`;
}

/** @param {import("../pure/context_parts.js").Part} part */
function nameOf(part) {
  return part.kind === "tools" ? part.name : (words.names[part.name] ?? part.name);
}

/**
 * @param {import("../pure/context_parts.js").Part} part
 * @param {import("../pure/view.js").View} view
 * @returns {string | null}
 */
function itemOfPart(part, view) {
  if (part.ref !== null) {
    const prompt = view.items.find((item) => item.type === "prompt" && item.ref === part.ref);
    if (prompt !== undefined) return prompt.key;
  }
  const calls = new Set(part.calls);
  const found = view.items.find((item) =>
    item.type === "call"
      ? part.name === "results" && calls.has(item.call.call_id)
      : item.type === "answer" && part.name === "answer" && item.calls.some((one) => calls.has(one)),
  );
  return found?.key ?? null;
}

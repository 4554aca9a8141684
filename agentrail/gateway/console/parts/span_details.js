// What is known of one row of a timeline, in words and numbers: below it, for who has selected it.

import { duration, exact, money } from "../pure/numbers.js";
import { endOf } from "../pure/timeline_rows.js";
import { text } from "../text/en.js";
import { html, useId } from "../ui.js";
import { SafeText } from "./safe_text.js";
import { markWords, nameOf, stateOf, toneOf } from "./span_row.js";

const words = text.timeline.details;

/** @typedef {import("../pure/timeline_rows.js").TimelineRow} TimelineRow */

/**
 * @param {object} props
 * @param {TimelineRow | null} props.row
 * @param {number} props.now
 * @param {(() => void) | null} [props.onShow] goes to its item of the conversation
 */
export function SpanDetails({ row, now, onShow = null }) {
  const id = useId();
  if (row === null) return html`<p class="span-details dim">${words.none}</p>`;
  const { span, last, attempts } = row;
  const marks = attempts.flatMap((one) => one.marks);
  return html`<section class="span-details" aria-labelledby=${id}>
    <h3 id=${id} class="span-title"><${SafeText} text=${nameOf(row, 0)} /></h3>
    <dl class="span-facts">
      <${Fact} name=${words.outcome}><span class=${toneOf(last.outcome ?? "open")}>${stateOf(last)}</span><//>
      <${Fact} name=${words.began}><${Moment} at=${span.from_ms} /><//>
      ${span.kind === "gate" ? null : html`<${Fact} name=${words.took}>${duration(endOf(last, now) - span.from_ms)}<//>`}
      ${factsOf(row).map(([name, value]) => html`<${Fact} key=${name} name=${name}>${value}<//>`)}
    </dl>
    ${attempts.length > 1 ? html`<${Attempts} attempts=${attempts} now=${now} />` : null}
    ${
      marks.length === 0
        ? null
        : html`<h4 class="span-title">${words.marks}</h4>
          <ul class="plain-list">${marks.map((mark, place) => html`<li key=${place} class="span-mark"><${Moment} at=${mark.at_ms} /> <${SafeText} text=${markWords(mark)} /></li>`)}</ul>`
    }
    ${onShow === null ? null : html`<p><button type="button" class="button small" onClick=${onShow}>${text.timeline.show}</button></p>`}
  </section>`;
}

/** @param {{ name: string, children?: any }} props */
function Fact({ name, children }) {
  return html`<div class="span-fact"><dt class="dim">${name}</dt><dd>${children}</dd></div>`;
}

/** @param {{ at: number }} props */
function Moment({ at }) {
  const date = new Date(at);
  return html`<time class="time" dateTime=${date.toISOString()} title=${date.toISOString()}>${date.toLocaleTimeString()}</time>`;
}

/** @param {{ attempts: import("../pure/spans.js").Span[], now: number }} props */
function Attempts({ attempts, now }) {
  return html`<h4 class="span-title">${words.attempts}</h4>
    <ol class="plain-list">${attempts.map(
      (one) => html`<li key=${one.key} class="span-mark">
        <${Moment} at=${one.from_ms} /> ${text.timeline.attempt(one.attempt ?? 1)},
        <span class=${toneOf(one.outcome ?? "open")}>${stateOf(one)}</span>${one.attributes.error ? html` <code><${SafeText} text=${String(one.attributes.error)} /></code>` : null},
        ${duration(endOf(one, now) - one.from_ms)}
      </li>`,
    )}</ol>`;
}

/** @type {readonly [string, string, (value: any) => any][]} */
const SHOWN = [
  ["prompt", words.prompt, safe],
  ["description", words.description, safe],
  ["model", words.model, code],
  ["tool", words.tool, code],
  ["error", words.error, code],
  ["reason", words.reason, safe],
  ["by", words.by, safe],
  ["waited_ms", words.waited, duration],
  ["first_chunk_ms", words.firstChunk, duration],
  ["turns", words.turns, exact],
  ["stop_reason", words.stopReason, code],
  ["offloaded", words.offloaded, code],
];

/**
 * @param {TimelineRow} row
 * @returns {[string, any][]}
 */
function factsOf(row) {
  const { last, own, sum } = row;
  /** @type {[string, any][]} */
  const facts = [];
  for (const [name, label, show] of SHOWN) {
    const value = last.attributes[name];
    if (value !== undefined && value !== null && value !== "") facts.push([label, show(value)]);
  }
  const hasOwn = own.tokens_in + own.tokens_out > 0;
  if (hasOwn) facts.push([words.tokens, amounts(own)], [words.cost, cost(own)]);
  if (last.attributes.cache_read) facts.push([words.cached, exact(last.attributes.cache_read)]);
  const isMore = sum.tokens_in !== own.tokens_in || sum.tokens_out !== own.tokens_out;
  if (isMore) facts.push([words.sumTokens, amounts(sum)], [words.sumCost, cost(sum)]);
  return facts;
}

/** @param {import("../pure/timeline_rows.js").Totals} used */
const amounts = (used) => `${exact(used.tokens_in)}, ${exact(used.tokens_out)}`;

/** @param {import("../pure/timeline_rows.js").Totals} used */
const cost = (used) => (used.cost_usd === null ? words.unknownCost : money(used.cost_usd));

/** @param {any} value */
function safe(value) {
  return html`<${SafeText} text=${String(value)} />`;
}

/** @param {any} value */
function code(value) {
  return html`<code><${SafeText} text=${String(value)} /></code>`;
}

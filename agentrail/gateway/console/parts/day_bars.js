// A bar for each day, drawn with CSS: what was used, and hatched the part of it that was estimated. What stands for it to those who do not see it is one
// sentence; the numbers stand in a table of its owner.

import { estimatedShare, percentOf } from "../pure/cost_facts.js";
import { money } from "../pure/numbers.js";
import { text } from "../text/en.js";
import { html } from "../ui.js";

const words = text.cost;
/** How many days have their name below them, at most. */
const NAMED = 6;

/** @param {string} day As `2026-11-22`. @param {boolean} isShort */
function nameOf(day, isShort) {
  const at = new Date(`${day}T00:00:00Z`);
  return at.toLocaleDateString(
    undefined,
    isShort ? { day: "numeric", month: "short", timeZone: "UTC" } : { dateStyle: "medium", timeZone: "UTC" },
  );
}

/**
 * @param {{ days: { day: string, cost: number, estimated: number, requests: number }[], total: number }} props
 */
export function DayBars({ days, total }) {
  const most = days.reduce(
    (best, one) => (one.cost > best.cost ? one : best),
    days[0] ?? { day: "", cost: 0, estimated: 0, requests: 0 },
  );
  const step = Math.max(1, Math.ceil(days.length / NAMED));
  const isEstimated = days.some((one) => one.estimated > 0);
  const label = words.chart(days.length, money(most.cost), nameOf(most.day, false), money(total));
  return html`<figure class="day-bars">
    <div class="bars-most dim small number" aria-hidden="true">${money(most.cost)}</div>
    <div class="bars" role="img" aria-label=${label}>
      ${days.map((one) => html`<${Bar} key=${one.day} one=${one} most=${most.cost} />`)}
    </div>
    <div class="bar-names dim small" aria-hidden="true">
      ${days.map((one, index) => html`<span key=${one.day}>${(days.length - 1 - index) % step === 0 ? nameOf(one.day, true) : ""}</span>`)}
    </div>
    ${
      isEstimated
        ? html`<figcaption class="legend small dim"><span class="legend-box said"></span>${words.legendSaid}<span class="legend-box hatched"></span>${words.legendEstimated}</figcaption>`
        : null
    }
  </figure>`;
}

/**
 * @param {{ one: { day: string, cost: number, estimated: number, requests: number }, most: number }} props
 */
function Bar({ one, most }) {
  const height = most > 0 ? (one.cost / most) * 100 : 0;
  const share = estimatedShare({ cost_usd: one.cost, estimated_usd: one.estimated });
  const words_ = words.bar(nameOf(one.day, false), money(one.cost), percentOf(share));
  return html`<div class="bar-slot" title=${words_}>
    <div class="bar-whole" style=${{ height: `${height}%`, minHeight: one.cost > 0 ? "2px" : "0" }}>
      <div class="bar-estimated" style=${{ height: `${share * 100}%` }}></div>
    </div>
  </div>`;
}

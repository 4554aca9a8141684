// A plugin as people look at it: what is wrong with it, and its hooks with their counts and times. Used by the page of plugins and by the panel of a session.

import { age, clock, exact } from "../pure/numbers.js";
import { callsOf } from "../pure/plugin_facts.js";
import { text } from "../text/en.js";
import { html } from "../ui.js";
import { Icon } from "./icon.js";
import { SafeText } from "./text_view.js";
import { useNow } from "./ticking.js";

/** @typedef {import("../pure/plugin_facts.js").PluginRow} PluginRow */

const words = text.plugins;

/** @param {{ row: PluginRow }} props */
export function PluginHead({ row }) {
  return html`<header class="plugin-head">
    <h3 class="cut">${row.order ? html`<span class="dim number">${row.order}.</span> ` : null}<${SafeText} text=${row.name} />${
      row.version ? html` <span class="dim">${row.version}</span>` : null
    }</h3>
    <span class="plugin-words">
      ${row.stuck_hook ? html`<span class="bad">${words.stuckWord}</span>` : null}
      ${row.failures > 0 ? html`<span class="bad">${words.failures(row.failures)}</span>` : null}
      ${row.sessions == null ? null : html`<span class="dim">${words.sessions(row.sessions)}</span>`}
      <span class="dim">${words.calls(callsOf(row))}</span>
    </span>
  </header>`;
}

/** @param {{ row: PluginRow, isSmall?: boolean }} props `isSmall`: where there is room for four columns. */
export function HookTable({ row, isSmall = false }) {
  if (row.hooks.length === 0) return html`<p class="dim plugin-none">${words.noHooks}</p>`;
  const heads = words.columns;
  return html`<table class="hooks" aria-label=${words.tableOf(row.name)}>
    <thead><tr>
      <th scope="col">${heads.hook}</th>
      <th scope="col" class="number">${heads.calls}</th>
      <th scope="col" class="number">${heads.failed}</th>
      ${isSmall ? null : html`<th scope="col" class="number">${heads.p50}</th>`}
      <th scope="col" class="number">${heads.p99}</th>
    </tr></thead>
    <tbody>
      ${row.hooks.map(
        (hook) => html`<tr key=${hook.hook} class=${hook.hook === row.stuck_hook ? "bad" : ""}>
          <th scope="row" class="mono">${hook.hook}${hook.hook === row.stuck_hook ? html` <span>(${words.stuckWord})</span>` : null}</th>
          <td class="number">${exact(hook.calls)}</td>
          <td class=${`number ${hook.failures > 0 ? "bad" : ""}`}>${exact(hook.failures)}</td>
          ${isSmall ? null : html`<td class="number">${hook.calls > 0 ? shortTime(hook.p50_ms) : "–"}</td>`}
          <td class="number">${hook.calls > 0 ? shortTime(hook.p99_ms) : "–"}</td>
        </tr>`,
      )}
    </tbody>
  </table>`;
}

/**
 * A plugin that failed or is stuck, in one row with what it failed with.
 * @param {{ row: PluginRow }} props
 */
export function Trouble({ row }) {
  const now = useNow();
  const last = row.last_failure;
  return html`<span class="bad"><${Icon} name="warn" /></span>
    <span class="trouble-name cut"><${SafeText} text=${row.name} /></span>
    <span class="trouble-words">
      ${row.stuck_hook ? html`<span class="bad">${words.stuck(row.stuck_hook, clock(now - (row.stuck_at_ms ?? now)))}</span>` : null}
      ${row.failures > 0 ? html`<span class="bad">${words.failures(row.failures)}</span>` : null}
      ${last ? html`<span class="dim">${words.lastFailure(last.hook, age(now - last.at_ms))}</span>` : null}
      ${last ? html`<span class="trouble-error"><${SafeText} text=${last.words} /></span>` : null}
    </span>`;
}

/**
 * A duration down to microseconds: most hooks take less than a millisecond.
 * @param {number} ms
 */
export function shortTime(ms) {
  if (ms < 1) return `${Math.max(1, Math.round(ms * 1000))} µs`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return `${(ms / 1000).toFixed(1)} s`;
}

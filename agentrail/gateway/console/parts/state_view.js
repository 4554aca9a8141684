// What a session was behind a record, as data: at a glance, then all of it by name; or what changed since another record. Draws what `state` says.

import { exact, money, tokens } from "../pure/numbers.js";
import { valueAt } from "../pure/past.js";
import { text } from "../text/en.js";
import { html, useState } from "../ui.js";
import { phaseOf } from "./explain_view.js";
import { Json, SafeText } from "./text_view.js";

const words = text.journal.state;

/** How many changes are drawn at first, and how many more at a time. */
const CHANGES = 200;
const MOST_SHOWN = 300;

/** @typedef {{ op: "add" | "remove" | "replace", path: string, value?: any }} PatchStep */

/** @param {{ state: Record<string, any> }} props */
export function StateView({ state }) {
  const { plugins = {}, ...rest } = state;
  return html`<div class="state-told">
    <${Glance} state=${state} />
    ${
      Object.keys(plugins).length > 0
        ? html`<h3>${words.plugins}</h3><div class="state-names">
      ${Object.entries(plugins).map(([name, one]) => html`<${Named} key=${name} name=${name} value=${one.state} note=${one.version ? words.version(one.version) : null} />`)}
    </div>`
        : null
    }
    <h3>${words.all}</h3>
    <div class="state-names">${Object.entries(rest).map(([name, value]) => html`<${Named} key=${name} name=${name} value=${value} />`)}</div>
  </div>`;
}

/** @param {{ state: Record<string, any> }} props */
function Glance({ state }) {
  const usage = state["usage"];
  const facts = [
    [
      words.phase,
      phaseOf(String(state["phase"])) +
        (state["suspended"] ? `, ${words.suspended}` : "") +
        (state["ended"] ? `, ${words.ended}` : ""),
    ],
    [words.messages, exact(lengthOf(state["messages"]))],
    [words.waiting, exact(lengthOf(state["interactions"]))],
    [words.queued, exact(lengthOf(state["queue"]))],
    [words.todos, exact(lengthOf(state["todos"]))],
    usage ? [words.tokens, tokens((usage.input ?? 0) + (usage.output ?? 0))] : null,
    usage && usage.cost_usd !== null ? [words.cost, money(usage.cost_usd ?? 0)] : null,
  ];
  return html`<dl class="why-facts" aria-label=${words.facts}>${facts.map(
    (fact) => fact && html`<div key=${fact[0]}><dt>${fact[0]}</dt><dd>${fact[1]}</dd></div>`,
  )}</dl>`;
}

/** @param {unknown} value */
function lengthOf(value) {
  return Array.isArray(value) ? value.length : 0;
}

/**
 * One name of a state; what stands there is drawn when it is opened.
 * @param {{ name: string, value: any, note?: string | null }} props
 */
function Named({ name, value, note = null }) {
  const [isOpen, setOpen] = useState(false);
  const isPlain = typeof value !== "object" || value === null || Object.keys(value).length === 0;
  if (isPlain) {
    return html`<div class="state-name"><span class="state-key"><${SafeText} text=${name} /></span><span class="cut dim">${note ? `${note}, ` : ""}<${SafeText} text=${briefOf(value)} /></span></div>`;
  }
  return html`<div class="state-name is-open">
    <button type="button" class="state-head" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
      <span class="fold-sign" aria-hidden="true">${isOpen ? "▾" : "▸"}</span>
      <span class="state-key"><${SafeText} text=${name} /></span>
      <span class="cut dim">${note ? `${note}, ` : ""}${briefOf(value)}</span>
    </button>
    ${isOpen ? html`<div class="state-value"><${Json} value=${value} label=${name} /></div>` : null}
  </div>`;
}

/** @param {any} value */
function briefOf(value) {
  if (value === null) return words.none;
  if (typeof value === "boolean") return value ? words.yes : words.no;
  if (Array.isArray(value)) return words.entries(value.length);
  if (typeof value === "object") return words.fields(Object.keys(value).length);
  return String(value);
}

/**
 * What changed from one record to another.
 * @param {object} props
 * @param {number} props.from
 * @param {number} props.to
 * @param {PatchStep[]} props.patch
 * @param {Record<string, any> | null} props.before the state that the patch begins with, where it is loaded
 */
export function PatchView({ from, to, patch, before }) {
  const [count, setCount] = useState(CHANGES);
  const shown = patch.slice(0, count);
  return html`<div class="state-told">
    <p role="status">${words.changed(from, to, patch.length)}</p>
    ${
      patch.length === 0
        ? null
        : html`<ol class="patch">${shown.map(
            (step, place) => html`<li key=${place}>
          <p><span class="dim small">${words.ops[step.op]}</span> <code><${SafeText} text=${step.path === "" ? words.whole : step.path} /></code></p>
          ${step.op === "add" ? null : html`<${Line} sign="−" label=${words.before} value=${before === null ? undefined : valueAt(before, step.path)} kind="removed" />`}
          ${step.op === "remove" ? null : html`<${Line} sign="+" label=${words.after} value=${step.value} kind="added" />`}
        </li>`,
          )}</ol>`
    }
    ${patch.length > count ? html`<button type="button" class="button small" onClick=${() => setCount(count + CHANGES)}>${words.more(Math.min(CHANGES, patch.length - count))}</button>` : null}
  </div>`;
}

/** @param {{ sign: string, label: string, value: any, kind: "added" | "removed" }} props */
function Line({ sign, label, value, kind }) {
  const told = value === undefined ? words.nothing : JSON.stringify(value);
  return html`<p class=${`patch-line is-${kind}`}><span aria-hidden="true">${sign} </span><span class="sr-only">${label}: </span>
    <code dir="auto"><${SafeText} text=${told.length > MOST_SHOWN ? `${told.slice(0, MOST_SHOWN)}…` : told} /></code></p>`;
}

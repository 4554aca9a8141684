// Why a record came to what it came to: what came in, whom it made the plugins be asked, what won, and what was decided. Draws what `explain` says.

import { classOf } from "../pure/past.js";
import { text } from "../text/en.js";
import { html } from "../ui.js";
import { timeOf } from "./journal_slider.js";
import { Json, SafeText } from "./text_view.js";

const words = text.journal;

/**
 * @typedef {object} Link
 * @property {string} plugin
 * @property {number} priority
 * @property {number} round
 * @property {string | null} action
 * @property {Record<string, any>} fields
 * @property {keyof typeof words.why.verdicts} verdict
 * @property {string | null} lost_to
 */

/**
 * @typedef {object} Run
 * @property {string} hook
 * @property {Link[]} links
 * @property {string[]} not_asked
 * @property {{ end: string, action: string | null, by: string | null, fields: Record<string, any> }} outcome
 */

/**
 * @typedef {object} Explained
 * @property {number} at
 * @property {{ kind: string, at_ms: number, effect_id: string | null, begun_by: number | null }} signal
 * @property {[string, string]} phase
 * @property {Run[]} runs
 * @property {{ kind: string, line: string, event: string | null, seq: number | null }[]} effects
 * @property {[number, number] | null} events
 * @property {string | null} drift
 */

const SIGNS = {
  won: "✓",
  kept: "✓",
  lost: "✕",
  silent: "·",
  ignored: "–",
  waits: "…",
  failed: "!",
  failed_closed: "!",
};
const LOOKS = {
  won: "ok",
  kept: "",
  lost: "dim",
  silent: "dim",
  ignored: "dim",
  waits: "warn",
  failed: "bad",
  failed_closed: "bad",
};

/**
 * @param {object} props
 * @param {Explained} props.told
 * @param {Record<string, any> | null} props.body what the record says, where it is loaded
 * @param {(number: number) => void} props.onNumber
 */
export function ExplainView({ told, body, onNumber }) {
  return html`<div class="why-told">
    <${Facts} told=${told} onNumber=${onNumber} />
    ${told.drift ? html`<p class="warn why-drift">${words.why.drift} <${SafeText} text=${told.drift} /></p>` : null}
    <h3>${words.why.asked}</h3>
    ${told.runs.length === 0 ? html`<p class="dim">${words.why.noPlugin}</p>` : told.runs.map((run, place) => html`<${RunView} key=${place} run=${run} />`)}
    <h3>${words.why.effects}</h3>
    ${
      told.effects.length === 0
        ? html`<p class="dim">${words.why.noEffects}</p>`
        : html`<ol class="why-effects">${told.effects.map(
            (effect, place) =>
              html`<li key=${place}><code><${SafeText} text=${effect.line} /></code>${effect.event ? html` <span class="dim">${classOf(effect.event)}</span>` : null}</li>`,
          )}</ol>`
    }
    ${body === null ? null : html`<h3>${words.why.body}</h3><div class="why-body"><${Json} value=${body} label=${words.why.body} /></div>`}
  </div>`;
}

/** @param {{ told: Explained, onNumber: (number: number) => void }} props */
function Facts({ told, onNumber }) {
  const { signal, phase } = told;
  const by = signal.begun_by;
  return html`<dl class="why-facts">
    <div><dt>${words.why.at}</dt><dd><time datetime=${new Date(signal.at_ms).toISOString()} title=${new Date(signal.at_ms).toISOString()}>${timeOf(signal.at_ms)}</time></dd></div>
    <div><dt>${words.why.phase}</dt><dd>${phase[0] === phase[1] ? html`${phaseOf(phase[0])} <span class="dim">${words.why.stays}</span>` : html`${phaseOf(phase[0])} → ${phaseOf(phase[1])}`}</dd></div>
    <div><dt>${words.why.events}</dt><dd>${told.events === null ? html`<span class="dim">${words.why.noEvents}</span>` : words.eventsOf(...told.events)}</dd></div>
    <div><dt>${words.why.begun}</dt><dd>${
      by === null
        ? html`<span class="dim">${words.why.outside}</span>`
        : html`<button type="button" class="link" onClick=${() => onNumber(by)}>${words.why.record(by)}</button>`
    }
      ${signal.effect_id ? html` <code>${signal.effect_id}</code>` : null}</dd></div>
  </dl>`;
}

/** @param {string} phase */
export function phaseOf(phase) {
  return phase.toUpperCase();
}

/** @param {{ run: Run }} props */
function RunView({ run }) {
  return html`<div class="why-run">
    <h4>${run.hook}</h4>
    <table class="why-table">
      <thead><tr><th scope="col" class="number">${words.why.priority}</th><th scope="col">${words.why.plugin}</th><th scope="col">${words.why.answered}</th><th scope="col">${words.why.verdict}</th></tr></thead>
      <tbody>
        ${run.links.map((link, place) => html`<${LinkRows} key=${place} link=${link} />`)}
        ${run.not_asked.map((name) => html`<tr key=${`not ${name}`} class="why-link dim"><td></td><td><${SafeText} text=${name} /></td><td></td><td>${words.why.notAsked}</td></tr>`)}
      </tbody>
    </table>
    <p class="why-outcome"><span class="dim">${words.why.outcome}</span> ${outcomeOf(run.outcome)}</p>
  </div>`;
}

/** @param {{ link: Link }} props */
function LinkRows({ link }) {
  const told =
    link.lost_to === null ? (words.why.verdicts[link.verdict] ?? link.verdict) : words.why.lostTo(link.lost_to);
  return html`<tr class="why-link">
      <td class="number">${link.priority}</td>
      <td><${SafeText} text=${link.plugin} />${link.round > 0 ? html` <span class="dim small">${words.why.round(link.round)}</span>` : null}</td>
      <td class=${link.action === null ? "bad" : ""}>${link.action ?? words.why.failed}</td>
      <td class=${LOOKS[link.verdict] ?? ""}><span aria-hidden="true">${SIGNS[link.verdict] ?? "·"} </span>${told}</td>
    </tr>
    ${
      Object.keys(link.fields).length === 0
        ? null
        : html`<tr><td></td><td colspan="3" class="why-said"><${Fields} fields=${link.fields} /></td></tr>`
    }`;
}

/**
 * What stood in an answer: words as they are, all else as JSON.
 * @param {{ fields: Record<string, any> }} props
 */
function Fields({ fields }) {
  return html`<dl class="why-fields">${Object.entries(fields).map(
    ([name, value]) =>
      html`<div key=${name}><dt>${name}</dt><dd dir="auto"><${SafeText} text=${typeof value === "string" ? value : JSON.stringify(value)} /></dd></div>`,
  )}</dl>`;
}

/** @param {Run["outcome"]} outcome */
function outcomeOf(outcome) {
  if (outcome.end === "decided") return words.why.decided(outcome.action ?? "", outcome.by ?? "");
  if (outcome.end === "waits") return words.why.waits(outcome.by ?? "");
  return words.why.goesOn;
}

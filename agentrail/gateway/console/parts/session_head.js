// The head of an open session: its title, how it stands, what it says it is doing, and the few things that are done with all of it.

import { money } from "../pure/numbers.js";
import { nameOfView } from "../pure/session_name.js";
import { text } from "../text/en.js";
import { html } from "../ui.js";
import { AbortButton } from "./abort_button.js";
import { Brief } from "./brief.js";
import { Icon } from "./icon.js";
import { PhaseWord, phaseOf } from "./phase.js";
import { Countdown, Elapsed } from "./ticking.js";

const words = text.session;

/** @typedef {import("../pure/view.js").View} View */

/**
 * @param {object} props
 * @param {View} props.view
 * @param {any} props.abort of `useAbort`
 * @param {boolean} props.isPanelOpen
 * @param {() => void} props.onPanel
 * @param {() => void} props.onSearch
 * @param {any} props.tools
 */
export function SessionHead({ view, abort, isPanelOpen, onPanel, onSearch, tools }) {
  const phase = phaseOf(view);
  const since = beganAt(view);
  return html`<header class="session-head">
    <a class="icon-button back" href="#/" aria-label=${words.back} title=${words.back}><${Icon} name="left" /></a>
    <div class="session-name">
      <h1 class="session-title" dir="auto"><${Brief} text=${nameOfView(view) ?? words.untitled} /></h1>
      <p class="session-facts">
        ${view.agent_id === null ? null : html`<span class="dim wide-only"><${Brief} text=${view.agent ?? view.agent_id} /></span>`}
        <${PhaseWord} phase=${phase} />
        ${since === null ? null : html`<${Elapsed} from=${since} />`}
        ${view.turn > 1 ? html`<span class="dim">${words.turn(view.turn)}</span>` : null}
        ${view.cost_usd ? html`<span class="dim number">${money(view.cost_usd)}</span>` : null}
        ${view.restarts > 0 ? html`<span class="warn">${words.restarted(view.restarts)}</span>` : null}
        <${Doing} view=${view} />
      </p>
    </div>
    <div class="session-tools">
      <${AbortButton} abort=${abort} view=${view} />
      <button type="button" class="icon-button wide-only" aria-label=${words.search} title=${words.search} onClick=${onSearch}><${Icon} name="search" /></button>
      <span class="wide-only head-tools">${tools}</span>
      <button type="button" class="button panel-button" aria-expanded=${isPanelOpen} onClick=${onPanel}>${words.tabs.now}</button>
    </div>
  </header>`;
}

/**
 * What it says it is doing, or what it waits for before it tries again.
 * @param {{ view: View }} props
 */
function Doing({ view }) {
  if (view.retry !== null) {
    const { attempt, at_ms, delay_ms } = view.retry;
    return html`<span class="warn"><${Countdown} until=${at_ms + delay_ms} words=${(/** @type {string} */ time) => words.retryIn(time, attempt)} over=${words.retryNow(attempt)} /></span>`;
  }
  // Who waits for a person does nothing: what was said of it before would be taken for what it does now.
  return view.status_text === null || phaseOf(view) === "waiting"
    ? null
    : html`<span class="doing dim"><${Brief} text=${view.status_text} /></span>`;
}

/**
 * Since when it works on what it works on.
 * @param {View} view
 */
function beganAt(view) {
  if (view.ended !== null || (view.phase === "idle" && !view.suspended)) return null;
  return view.cycles.at(-1)?.to_ms === null ? (view.cycles.at(-1)?.from_ms ?? null) : null;
}

/**
 * What is done with all of a session: in the head where there is room, else in the panel.
 * @param {{ sessionId: string, journal: unknown, onFork: () => void, onCopyId: () => void, onSearch: () => void }} props
 */
export function SessionTools({ sessionId, journal, onFork, onCopyId, onSearch }) {
  return html`<button type="button" class="button narrow-only" onClick=${onSearch}>${words.search}</button>
    <button type="button" class="button" onClick=${onFork}>${words.fork}</button>
    <button type="button" class="button" title=${sessionId} onClick=${onCopyId}>${words.copyId}</button>
    ${journal}`;
}

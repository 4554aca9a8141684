// The states that every list and panel has: loading, empty, refused, trimmed, failed. Words come from `text/`; nothing is asked for here.

import { text } from "../text/en.js";
import { html, useEffect, useState } from "../ui.js";
import { Icon } from "./icon.js";

const STILL_MS = 150;

/**
 * Nothing for 150 ms, then a still outline: what comes soon is not announced by a flicker.
 * @param {{ rows?: number }} props
 */
export function Loading({ rows = 6 }) {
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), STILL_MS);
    return () => clearTimeout(timer);
  }, []);
  if (!isLate) return html`<div class="loading"></div>`;
  return html`<div class="loading" role="status">
    <span class="sr-only">${text.shell.loading}</span>
    ${Array.from({ length: rows }, (_, index) => html`<div class="outline" key=${index}></div>`)}
  </div>`;
}

/**
 * One sentence, and the one thing to do.
 * @param {{ words: any, action?: any }} props
 */
export function Empty({ words, action = null }) {
  return html`<div class="state"><p>${words}</p>${action}</div>`;
}

/**
 * What the server refused, in its own words.
 * @param {{ error: import("../wire/api.js").ApiError | Error, onRetry?: () => void }} props
 */
export function Problem({ error, onRetry }) {
  const told = /** @type {any} */ (error);
  const words = wordsOf(told);
  return html`<div class="state" role="alert">
    <p class="bad"><${Icon} name="warn" /> ${words}</p>
    ${told.hint ? html`<p class="dim">${told.hint}</p>` : null}
    ${onRetry ? html`<p><button type="button" class="button" onClick=${onRetry}>${text.shell.retry}</button></p>` : null}
  </div>`;
}

/** @param {any} told */
function wordsOf(told) {
  if (told.code === "unreachable") return text.shell.unreachable;
  // Where it begins now is what a person needs, whatever was asked for.
  if (told.code === "trimmed" && typeof told.more?.first === "number") return text.shell.trimmed(told.more.first);
  return told.message || text.shell.refused;
}

/**
 * A page or panel whose scope the token has not; or what else was refused.
 * @param {{ error?: import("../wire/api.js").ApiError | null, scope?: string | null, name?: string, onRetry?: () => void }} props
 */
export function Refused({ error = null, scope = null, name = "", onRetry }) {
  if (scope !== null) {
    return html`<div class="state">
      <p><${Icon} name="lock" /> ${text.shell.needsScope(name, scope)}</p>
      <p class="dim">${text.shell.needsScopeHint(scope)}</p>
    </div>`;
  }
  return html`<${Problem} error=${error ?? new Error(text.shell.refused)} onRetry=${onRetry} />`;
}

/**
 * What came first is kept no longer.
 * @param {{ first: number }} props
 */
export function Trimmed({ first }) {
  return html`<p class="trimmed dim">${text.shell.trimmed(first)}</p>`;
}

// Abort: the button, its key, and the one question that is asked when something is at work that must not run twice.

import { summaryOf } from "../pure/call_summary.js";
import { isBusy } from "../pure/outbox.js";
import { text } from "../text/en.js";
import { html, useEffect, useRef, useState } from "../ui.js";
import { ApiError } from "../wire/api.js";
import { announce } from "./announce.js";
import { Dialog } from "./dialog.js";
import { SafeText } from "./text_view.js";

const words = text.session;

/** @typedef {import("../pure/view.js").View} View */
/** @typedef {import("../pure/view.js").Call} Call */

/**
 * What runs and must not be assumed undone when it is stopped: its tool says `once`, or is not known.
 * @param {View} view
 * @param {Record<string, string>} effects by tool
 * @returns {Call[]}
 */
export function onceAtWork(view, effects) {
  const running = Object.values(view.running).filter((call) => call.state === "running" && !call.survivor);
  return running.filter((call) => (effects[call.name] ?? "once") === "once");
}

/**
 * @param {View} view
 * @param {import("../wire/socket.js").Connection} connection
 * @param {Record<string, string>} effects
 * @returns {{ask: () => void, state: "none" | "asks" | "sent", refused: string | null, surely: () => void, never: () => void, calls: Call[]}}
 */
export function useAbort(view, connection, effects) {
  const [state, setState] = useState(/** @type {"none" | "asks" | "sent"} */ ("none"));
  const [refused, setRefused] = useState(/** @type {string | null} */ (null));
  const now = useRef(state);
  now.current = state;
  const calls = onceAtWork(view, effects);
  const isAnswered = state === "asks" && calls.length === 0;
  useEffect(() => {
    if (!isAnswered) return;
    setState("none");
    announce(words.abortOver);
  }, [isAnswered]);
  const surely = async () => {
    setState("sent");
    setRefused(null);
    announce(words.aborting);
    try {
      await connection.command("abort", view.session_id, {});
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setRefused(words.abortNotSent(error.message || error.code));
    }
    setState("none");
  };
  const ask = () => {
    if (!isBusy(view) || view.ended !== null || now.current === "sent") return;
    if (calls.length > 0 && now.current === "none") setState("asks");
    else void surely();
  };
  return { ask, state, refused, surely, never: () => setState("none"), calls };
}

/** @param {{ abort: ReturnType<typeof useAbort>, view: View }} props */
export function AbortButton({ abort, view }) {
  if (!isBusy(view) || view.ended !== null)
    return abort.refused === null ? null : html`<span class="bad" role="alert">${abort.refused}</span>`;
  return html`${abort.refused === null ? null : html`<span class="bad" role="alert">${abort.refused}</span>`}
    <button type="button" class="button danger abort" disabled=${abort.state === "sent"} aria-keyshortcuts="Control+." onClick=${abort.ask}>
      ${abort.state === "sent" ? words.aborting : words.abort} <kbd class="wide-only">${words.abortKey}</kbd>
    </button>`;
}

/** @param {{ abort: ReturnType<typeof useAbort> }} props */
export function AbortQuestion({ abort }) {
  if (abort.state !== "asks" || abort.calls.length === 0) return null;
  const footer = html`<button type="button" class="button" onClick=${abort.never}>${words.abortNot}</button>
    <button type="button" class="button danger" onClick=${abort.surely}>${words.abortSurely}</button>`;
  return html`<${Dialog} title=${words.abortAsksTitle} onClose=${abort.never} footer=${footer}>
    <p>${words.abortAsks(abort.calls.length)}</p>
    <ul class="plain-list">${abort.calls.map((call) => html`<li key=${call.call_id}><code><${SafeText} text=${call.name} /></code> <${SafeText} text=${summaryOf(call.arguments)} /></li>`)}</ul>
    <p class="dim">${words.abortAsksHint}</p>
  <//>`;
}

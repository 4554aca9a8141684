// A call that waits for a person: who asks and why, all that would run, and the decision. It opens by a person and never by itself; its buttons take nothing
// for half a second after each of its steps is shown. What is sent carries the hash of what was shown, so nothing else runs by it.

import { text } from "../text/en.js";
import { html, useEffect, useRef } from "../ui.js";
import { ApprovalBody } from "./approval_body.js";
import { STILL_MS } from "./guard.js";
import { Guarded } from "./guarded.js";
import { Icon } from "./icon.js";
import { SafeText } from "./safe_text.js";
import { TimeLeft } from "./time_left.js";
import { useOpenOne, usePlace } from "./waiting_context.js";

const words = text.approval;
const SUMMARY_CHARACTERS = 160;

/**
 * @typedef {object} ApprovalProps
 * @property {Record<string, any>} approval as it came: in `approval_required`, in a status, or as a row of what waits (`approval_id`)
 * @property {string} session the session through which it is decided: the one whose call it is, or one above it
 * @property {import("../wire/api.js").Api} api
 * @property {import("../wire/socket.js").Connection} connection
 * @property {(outcome: string) => void} [onDone] it is decided, by this page or before it
 */

/** @param {ApprovalProps} props */
export function ApprovalCard(props) {
  const id = approvalIdOf(props.approval);
  // Another call is another card: nothing that was opened or typed for one is there for the next.
  return html`<${Card} key=${id} ...${props} />`;
}

/** @param {Record<string, any>} approval @returns {string} */
export function approvalIdOf(approval) {
  return approval["id"] ?? approval["approval_id"] ?? "";
}

/** @param {ApprovalProps} props */
function Card({ approval, session, api, connection, onDone = () => {} }) {
  const id = approvalIdOf(approval);
  const { isOpen, turn, takesFocus } = useOpenOne(id);
  const toggledAt = useRef(Number.NEGATIVE_INFINITY);
  /** @type {{ current: HTMLHeadingElement | null }} */
  const title = useRef(null);
  const toggle = () => {
    // A key that is held down opens it once.
    if (performance.now() - toggledAt.current < STILL_MS) return;
    toggledAt.current = performance.now();
    turn(!isOpen);
  };
  useEffect(() => {
    // By a press alone: a card that is drawn again because the list was scrolled takes no focus.
    if (isOpen && takesFocus()) title.current?.focus();
  }, [isOpen]);
  const tool = approval["tool"] ?? "";
  const place = usePlace(id);
  // What a person opened is read from its beginning, also where the list sticks to its end.
  const onShown = () => title.current?.scrollIntoView({ block: "start" });
  return html`<div class=${`approval ${isOpen ? "open" : ""}`} role="group" aria-label=${words.headingOf(tool)} data-waits=${id}>
    <header class="approval-head">
      <span class="approval-sign warn" aria-hidden="true"><${Icon} name="warn" /></span>
      <h2 class="approval-title" tabindex="-1" ref=${title}><span class="sr-only">${words.heading}: </span><span class="mono"><${SafeText} text=${tool} strict /></span>
        ${isOpen ? null : html`<span class="approval-summary dim cut"><${SafeText} text=${summaryOf(approval)} strict /></span>`}
      </h2>
      ${place === null ? null : html`<${PlaceOf} place=${place} isOpen=${isOpen} />`}
      <${TimeLeft} until=${approval["expires_at_ms"] ?? null} />
      <button type="button" class="button small" aria-expanded=${isOpen ? "true" : "false"} onClick=${toggle}>${isOpen ? words.fold : words.review}</button>
    </header>
    ${
      isOpen
        ? html`<${Guarded} value=${approval}><${ApprovalBody} approval=${approval} session=${session} api=${api} connection=${connection} onDone=${onDone} onShown=${onShown} /><//>`
        : null
    }
  </div>`;
}

/** @param {Record<string, any>} approval What it is about, in one line. */
function summaryOf(approval) {
  const command = approval["arguments"]?.["command"];
  const path = approval["arguments"]?.["path"];
  const named = [command, path].find((one) => typeof one === "string");
  const told = approval["summary"] ?? named ?? approval["hint"] ?? "";
  const line = String(told)
    .slice(0, 4 * SUMMARY_CHARACTERS)
    .replace(/\s+/g, " ")
    .trim();
  return line.length > SUMMARY_CHARACTERS ? `${line.slice(0, SUMMARY_CHARACTERS)}…` : line;
}

/**
 * Several calls wait: which of them this is, and from an open one the ways to those beside it. There is no button for all of them.
 * @param {{ place: NonNullable<ReturnType<typeof usePlace>>, isOpen: boolean }} props
 */
function PlaceOf({ place, isOpen }) {
  const told = html`<span class="badge number">${words.placeOf(place.place, place.total)}</span>`;
  if (!isOpen) return told;
  const way = (/** @type {(() => void) | null} */ go, /** @type {string} */ name, /** @type {string} */ icon) =>
    html`<button type="button" class="icon-button" aria-label=${name} title=${name} disabled=${go === null} onClick=${go}><${Icon} name=${icon} /></button>`;
  return html`<span class="approval-place" role="group" aria-label=${words.waitingList}>
    ${way(place.before, words.previousOne, "left")}${told}${way(place.next, words.nextOne, "right")}
  </span>`;
}

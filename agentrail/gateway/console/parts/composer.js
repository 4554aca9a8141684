// Where a person writes to a session. `Enter` sends: a prompt in idle, a steer while it works; `Alt Enter` queues; the button says which. What is typed is
// kept in this tab, and never lost by sending: a message that was not taken stays in the conversation with the server's words.

import { isBusy, waysToSend } from "../pure/outbox.js";
import { text } from "../text/en.js";
import { html, useEffect, useId, useLayoutEffect, useRef, useState } from "../ui.js";
import { ofTab } from "../wire/kept.js";
import { useOutbox } from "./outbox_context.js";
import { SlashCommands, useSlashCommands } from "./slash_commands.js";

const words = text.session;

/**
 * @param {object} props
 * @param {import("../pure/view.js").View} props.view
 * @param {string | null} props.off why nothing can be sent; null: it can
 * @param {(queued: import("../pure/view.js").QueuedPrompt) => void} props.onEditQueued takes the last queued prompt out of the queue
 * @param {{current: HTMLTextAreaElement | null}} props.field
 */
export function Composer({ view, off, onEditQueued, field }) {
  const outbox = useOutbox();
  const id = useId();
  const [draft, setDraft] = useDraft(view.session_id);
  const [isAlt, setAlt] = useState(false);
  outbox.onTakeBack.current = (words) => {
    setDraft(draft === "" ? words : `${words}\n${draft}`);
    field.current?.focus();
  };
  const state = { ...view, ended: off !== null };
  const way = waysToSend(state, isAlt);
  const canSend = off === null && draft.trim() !== "";
  const palette = useSlashCommands(off === null ? draft : "");
  const send = (/** @type {boolean} */ alt) => {
    if (!canSend) return;
    if (!palette.run(draft)) outbox.send(waysToSend(state, alt), draft);
    setDraft("");
  };
  useFitting(field, draft);
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing) return;
    setAlt(event.altKey);
    const last = view.queued.findLast((one) => !one.asked);
    if (event.key === "ArrowUp" && draft === "" && last !== undefined && off === null) {
      event.preventDefault();
      setDraft(wordsOf(last));
      onEditQueued(last);
    }
    if (event.key !== "Enter" || event.shiftKey || event.ctrlKey || event.metaKey || event.repeat) return;
    event.preventDefault();
    send(event.altKey);
  };
  return html`<form class=${`composer ${off === null ? "" : "is-off"}`} onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
    ${off !== null ? html`<p class="composer-off" id=${`${id}-off`}>${off}</p>` : null}
    <${SlashCommands} palette=${palette} choose=${(/** @type {string} */ chosen) => {
      setDraft(chosen);
      field.current?.focus();
    }} />
    <div class="composer-line">
      <label class="sr-only" for=${id}>${words.composer}</label>
      <textarea id=${id} ref=${field} rows="1" class="composer-field" dir="auto" value=${draft} disabled=${off !== null}
        placeholder=${off !== null ? words.placeholders.off : isBusy(view) ? words.placeholders.steer : words.placeholders.send}
        aria-describedby=${off === null ? `${id}-hint` : `${id}-off`}
        onInput=${(/** @type {Event} */ event) => setDraft(/** @type {HTMLTextAreaElement} */ (event.target).value)}
        onKeyDown=${pressed} onKeyUp=${(/** @type {KeyboardEvent} */ event) => setAlt(event.altKey)} onBlur=${() => setAlt(false)}></textarea>
      <div class="composer-buttons">
        ${
          isBusy(view) && off === null
            ? html`<button type="button" class="button" disabled=${!canSend} onClick=${() => send(true)}>${words.verbs.queue}</button>`
            : null
        }
        <button type="button" class="button primary composer-send" disabled=${!canSend} onClick=${() => send(isAlt)}>${words.verbs[way.verb]}</button>
      </div>
    </div>
    <p class="composer-hint dim" id=${`${id}-hint`}>${off === null ? words.verbHints[way.verb] : ""}</p>
  </form>`;
}

/** @param {import("../pure/view.js").QueuedPrompt} queued */
function wordsOf(queued) {
  return queued.content.map((block) => block["text"] ?? "").join("\n");
}

/**
 * What is being written, kept in this tab.
 * @param {string} sessionId
 * @returns {[string, (text: string) => void]}
 */
function useDraft(sessionId) {
  const name = `draft.${sessionId}`;
  const [draft, setDraft] = useState(() => ofTab.get(name) ?? "");
  const change = (/** @type {string} */ next) => {
    ofTab.set(name, next === "" ? null : next);
    setDraft(next);
  };
  return [draft, change];
}

/** Whether the browser makes a field as high as its words by itself, by `field-sizing`: to ask for its height lays the whole page out for each key. */
const FITS_ITSELF = globalThis.CSS?.supports?.("field-sizing", "content") ?? false;

/**
 * Makes the field as high as its words, up to what the style allows.
 * @param {{current: HTMLTextAreaElement | null}} field
 * @param {string} draft
 */
function useFitting(field, draft) {
  const before = useRef(draft.length);
  useLayoutEffect(() => {
    const node = field.current;
    if (node === null) return;
    if (!FITS_ITSELF) {
      node.style.height = "auto";
      node.style.height = `${node.scrollHeight + 2}px`;
    }
    before.current = draft.length;
  }, [draft]);
  useEffect(() => {
    const node = field.current;
    if (node !== null && before.current > 0) node.setSelectionRange(before.current, before.current);
  }, []);
}

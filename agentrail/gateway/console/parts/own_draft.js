// What a person wrote in place of the arguments of a call: kept for the tab until it is decided, and shown, to be copied, where another person has decided. Sends nothing.

import { text } from "../text/en.js";
import { html, useEffect, useState } from "../ui.js";
import { ofTab } from "../wire/kept.js";
import { Icon } from "./icon.js";

const words = text.approval;

/** @type {Set<() => void>} */
const listeners = new Set();

/** @param {string} id Of an approval. */
export const draftName = (id) => `approval.${id}`;

/**
 * @param {string} id
 * @param {string | null} source Null forgets it.
 */
export function keepDraft(id, source) {
  ofTab.set(draftName(id), source);
  for (const listener of [...listeners]) listener();
}

/**
 * Another approval is of the same call: what was written stays with it.
 * @param {string} from
 * @param {string} to
 */
export function moveDraft(from, to) {
  if (from === to) return;
  keepDraft(to, ofTab.get(draftName(from)));
  keepDraft(from, null);
}

/**
 * What was written for an approval, as long as it is kept.
 * @param {string} id
 * @returns {string | null}
 */
export function useOwnDraft(id) {
  const [draft, setDraft] = useState(ofTab.get(draftName(id)));
  useEffect(() => {
    const look = () => setDraft(ofTab.get(draftName(id)));
    look();
    listeners.add(look);
    return () => {
      listeners.delete(look);
    };
  }, [id]);
  return draft;
}

/**
 * Nothing, where nothing was written, or nothing else than what was asked.
 * @param {{ id: string, asked?: string | null }} props
 */
export function OwnDraft({ id, asked = null }) {
  const draft = useOwnDraft(id);
  if (draft === null || draft === asked) return null;
  return html`<div class="own-draft">
    <p><button type="button" class="button small" onClick=${() => navigator.clipboard?.writeText(draft)}><${Icon} name="copy" /> ${words.copyEdited}</button></p>
    <pre class="approval-value" tabindex="0">${draft}</pre>
  </div>`;
}

// The search in a session: over all items that are loaded, since the browser's own sees only what is on the screen. It goes where it finds something.

import { find } from "../pure/feed_rows.js";
import { text } from "../text/en.js";
import { html, useEffect, useId, useMemo, useRef, useState } from "../ui.js";
import { showSoon } from "./conversation.js";
import { Icon } from "./icon.js";
import { makeWords } from "./searched_words.js";

const words = text.session;

/**
 * @param {object} props
 * @param {import("../pure/view.js").View} props.view
 * @param {import("../wire/open_session.js").Older} props.older
 * @param {() => void} props.fetchOlder
 * @param {{current: import("./conversation.js").ConversationHandle | null}} props.handle
 * @param {() => void} props.onClose
 */
export function SessionSearch({ view, older, fetchOlder, handle, onClose }) {
  const id = useId();
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [sought, setSought] = useState("");
  const [at, setAt] = useState(-1);
  const wordsIn = useMemo(makeWords, []);
  const found = useMemo(
    () => find(view.items, sought, (item) => wordsIn(item, view)),
    [view.items, view.live, view.progress, view.children, sought],
  );
  useEffect(() => field.current?.focus(), []);
  const go = (/** @type {number} */ step) => {
    if (found.length === 0) return;
    const next = at < 0 ? (step > 0 ? 0 : found.length - 1) : (at + step + found.length) % found.length;
    setAt(next);
    const key = view.items[found[next] ?? -1]?.key;
    if (key !== undefined) showSoon(handle, key, { focus: false });
  };
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") onClose();
    if (event.key === "Enter") go(event.shiftKey ? -1 : 1);
    if (event.key === "Escape" || event.key === "Enter") event.preventDefault();
  };
  return html`<search class="session-search">
    <label class="sr-only" for=${id}>${words.search}</label>
    <input id=${id} ref=${field} type="search" autocomplete="off" placeholder=${words.search} value=${sought} onKeyDown=${pressed}
      onInput=${(/** @type {Event} */ event) => {
        setSought(/** @type {HTMLInputElement} */ (event.target).value);
        setAt(-1);
      }} />
    <span class="dim search-place" role="status">${sought === "" ? "" : words.searchPlace(at + 1, found.length)}</span>
    <button type="button" class="icon-button" aria-label=${words.searchPrevious} title=${words.searchPrevious} disabled=${found.length === 0} onClick=${() => go(-1)}><${Icon} name="up" /></button>
    <button type="button" class="icon-button" aria-label=${words.searchNext} title=${words.searchNext} disabled=${found.length === 0} onClick=${() => go(1)}><${Icon} name="down" /></button>
    <button type="button" class="icon-button" aria-label=${words.searchClose} title=${words.searchClose} onClick=${onClose}><${Icon} name="close" /></button>
    <p class="dim search-hint">${words.searchAll(view.items.length)}
      ${older.name === "more" ? html` <button type="button" class="link" onClick=${fetchOlder}>${words.searchOlder}</button>` : null}</p>
  </search>`;
}

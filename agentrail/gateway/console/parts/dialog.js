// A dialogue on the browser's own `<dialog>`: focus is held inside, `Esc` closes it, and focus goes back to where it was.

import { text } from "../text/en.js";
import { html, useId, useLayoutEffect, useRef } from "../ui.js";
import { Icon } from "./icon.js";

/**
 * @param {{ title: string, onClose: () => void, children?: any, kind?: string, footer?: any }} props `kind` is a class: "wide", "sheet".
 */
export function Dialog({ title, onClose, children, kind = "", footer = null }) {
  const id = useId();
  /** @type {{ current: HTMLDialogElement | null }} */
  const ref = useRef(null);
  // Before it is painted: what is typed next is meant for it.
  useLayoutEffect(() => {
    const before = document.activeElement;
    const dialog = ref.current;
    if (dialog !== null && !dialog.open) dialog.showModal();
    return () => {
      if (dialog?.open) dialog.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const cancelled = (/** @type {Event} */ event) => {
    event.preventDefault(); // the owner closes it, by drawing it no more
    onClose();
  };
  const clicked = (/** @type {MouseEvent} */ event) => {
    if (event.target === ref.current) onClose(); // outside of what it holds
  };
  return html`<dialog ref=${ref} class=${`dialog ${kind}`} aria-labelledby=${id} onCancel=${cancelled} onClick=${clicked}>
    <div class="dialog-body">
      <header class="dialog-head">
        <h2 id=${id}>${title}</h2>
        <button type="button" class="icon-button" aria-label=${text.shell.close} title=${text.shell.close} onClick=${onClose}><${Icon} name="close" /></button>
      </header>
      <div class="dialog-content">${children}</div>
      ${footer ? html`<footer class="dialog-foot">${footer}</footer>` : null}
    </div>
  </dialog>`;
}

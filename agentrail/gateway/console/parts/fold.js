// Something with one line that says what it is, and more behind it: the button is a whole line, a person's choice is remembered.

import { html, useState } from "../ui.js";
import { useEnv } from "./session_env.js";

/**
 * Whether something stands open, and how a person changes that.
 * @param {string} key what it is remembered under
 * @param {boolean} byItself how it stands until a person says otherwise
 * @returns {[boolean, () => void]}
 */
export function useFold(key, byItself) {
  const { folds } = useEnv();
  const [mine, setMine] = useState(() => folds.get(key));
  const isOpen = mine ?? byItself;
  const toggle = () => {
    folds.set(key, !isOpen);
    setMine(!isOpen);
  };
  return [isOpen, toggle];
}

/**
 * @param {{ name: string, head: any, children?: any, byItself?: boolean, kind?: string, isMain?: boolean }} props `name`: what it is
 *   remembered under; `isMain`: the one that the key `o` turns
 */
export function Fold({ name, head, children, byItself = false, kind = "", isMain = false }) {
  const [isOpen, toggle] = useFold(name, byItself);
  return html`<div class=${`fold ${kind}`}>
    <button type="button" class="fold-head" aria-expanded=${isOpen} data-main-fold=${isMain ? "" : undefined} onClick=${toggle}>
      <span class="fold-sign" aria-hidden="true">${isOpen ? "▾" : "▸"}</span>
      ${head}
    </button>
    ${isOpen ? html`<div class="fold-body">${children}</div>` : null}
  </div>`;
}

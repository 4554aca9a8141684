// What the parts of an open session share: whom they ask, and what a person folded. Nothing that is drawn may enter.

import { createContext, useContext } from "../ui.js";
import { ofTab } from "../wire/kept.js";

/**
 * @typedef {object} Env
 * @property {import("../wire/api.js").Api} api
 * @property {import("../wire/socket.js").Connection} connection
 * @property {string} sessionId the session of the page: what a person decides in a session below is decided through it
 * @property {ReadonlySet<string>} features of the server
 * @property {boolean} isPast whether nothing can be done, because it is over
 * @property {Folds} folds
 */

/** @type {import("../vendor/preact.js").Context<Env>} */
const EnvContext = createContext(/** @type {any} */ (null));

export const EnvProvider = EnvContext.Provider;

/** @returns {Env} */
export function useEnv() {
  return useContext(EnvContext);
}

/** How many things of a session are remembered as opened or closed. */
const MOST = 500;

/** What a person opened and closed in a session, kept in this tab, so that a reload shows the page as it was. */
export class Folds {
  /**
   * @param {string} sessionId
   * @param {import("../wire/kept.js").Kept} [kept]
   */
  constructor(sessionId, kept = ofTab) {
    this._name = `folds.${sessionId}`;
    this._kept = kept;
    /** @type {Map<string, boolean>} */
    this.opened = new Map(pairsOf(kept.get(this._name)));
  }

  /**
   * @param {string} key
   * @returns {boolean | undefined} undefined: it stands as it does by itself
   */
  get(key) {
    return this.opened.get(key);
  }

  /**
   * @param {string} key
   * @param {boolean} isOpen
   */
  set(key, isOpen) {
    this.opened.delete(key);
    this.opened.set(key, isOpen);
    for (const oldest of this.opened.keys()) {
      if (this.opened.size <= MOST) break;
      this.opened.delete(oldest);
    }
    this._kept.set(this._name, JSON.stringify([...this.opened]));
  }
}

/**
 * @param {string | null} text
 * @returns {[string, boolean][]}
 */
function pairsOf(text) {
  try {
    const found = JSON.parse(text ?? "[]");
    return Array.isArray(found) ? found.filter((one) => Array.isArray(one) && typeof one[0] === "string") : [];
  } catch {
    return [];
  }
}

// Asks for a token: the link had none, or one that the server does not take. What was on the page stays where it was, below this.

import { text } from "../text/en.js";
import { html, useState } from "../ui.js";
import { Dialog } from "./dialog.js";

/**
 * @param {{ why: "needed" | "link" | "typed" | "ended", onToken: (token: string) => void, isBusy: boolean, onClose: () => void }} props
 */
export function TokenField({ why, onToken, isBusy, onClose }) {
  const [token, setToken] = useState("");
  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (token.trim() && !isBusy) onToken(token.trim());
  };
  const title = {
    needed: text.shell.tokenNeeded,
    link: text.shell.tokenRefused,
    typed: text.shell.tokenTypedRefused,
    ended: text.shell.tokenEnded,
  }[why];
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form class="stack" onSubmit=${send}>
      <p class="dim">${text.shell.tokenExplained}</p>
      <label class="field">${text.shell.tokenLabel}
        <input type="password" autofocus autocomplete="off" spellcheck=${false} required value=${token}
          onInput=${(/** @type {any} */ event) => setToken(event.target.value)} />
      </label>
      <div class="row-end">
        <button type="submit" class="button primary" disabled=${isBusy || !token.trim()}>${text.shell.tokenSend}</button>
      </div>
    </form>
  <//>`;
}

// A session that is parked because the code of the server folds its journal to other operations: what differs, and the button that continues it.

import { text } from "../text/en.js";
import { html } from "../ui.js";
import { announce } from "./announce.js";
import { Icon } from "./icon.js";
import { SafeText } from "./safe_text.js";
import { useSending } from "./sending.js";
import { Problem } from "./states.js";

const words = text.session.drift;

/**
 * @param {{ error: import("../wire/api.js").ApiError, session: import("../wire/open_session.js").OpenSession, api: import("../wire/api.js").Api }} props
 */
export function Drift({ error, session, api }) {
  const { isBusy, error: refused, send } = useSending();
  const goOn = () =>
    send(api.post(`sessions/${encodeURIComponent(session.sessionId)}/resume`, { on_drift: "go_on" }), () => {
      announce(words.done);
      session.tryAgain();
    });
  const { seq, operation, plugin } = error.more;
  return html`<div class="state" role="alert">
    <p class="bad"><${Icon} name="warn" /> ${words.title}</p>
    <ul>
      ${seq === undefined ? null : html`<li>${words.record(seq)}</li>`}
      ${operation ? html`<li>${words.operation}: <span class="mono"><${SafeText} text=${operation} strict /></span></li>` : null}
      ${plugin ? html`<li>${words.plugin}: <span class="mono"><${SafeText} text=${plugin} strict /></span></li>` : null}
    </ul>
    <p class="dim">${words.explained}</p>
    <p>
      <button type="button" class="button" disabled=${isBusy} onClick=${goOn}>${words.goOn}</button>
      <button type="button" class="button" disabled=${isBusy} onClick=${() => session.tryAgain()}>${text.shell.retry}</button>
    </p>
    ${refused === null ? null : html`<${Problem} error=${refused} />`}
  </div>`;
}

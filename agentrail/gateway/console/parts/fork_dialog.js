// A session that goes on from a record of this one: what stays done outside, and the way to the new one. Nothing is done until a person says so.

import { text } from "../text/en.js";
import { html } from "../ui.js";
import { BehindList, fieldsOf, useBehind } from "./behind.js";
import { Dialog } from "./dialog.js";
import { useGuard } from "./guard.js";
import { useSending } from "./sending.js";
import { Problem } from "./states.js";

const words = text.approval;

/**
 * @param {{ session: string, at?: number | null, event?: number | null, api: import("../wire/api.js").Api, connection: import("../wire/socket.js").Connection,
 *   navigate: (href: string) => void, onClose: () => void }} props `at`: behind which record, or `event`: behind the record of which event; neither
 *   for the last one
 */
export function ForkDialog({ session, at = null, event = null, api, connection, navigate, onClose }) {
  const moment = { at, event };
  const behind = useBehind(api, session, moment);
  const shownAt = at ?? (behind.state === "told" ? behind.at : null);
  const { isBusy, error, send } = useSending();
  const guard = useGuard(`${session} ${at} ${event}`);
  const go = () =>
    send(connection.command("fork", session, fieldsOf("at", moment)), (made) => {
      onClose();
      navigate(`#/s/${encodeURIComponent(made.session_id)}`);
    });
  return html`<${Dialog} title=${words.fork.title(shownAt)} onClose=${onClose} kind="wide"
    footer=${html`<span class="row-end" onKeyDown=${guard.onKeyDown}>
      ${isBusy ? html`<span class="dim" role="status">${words.sending}</span>` : null}
      <button type="button" class="button" onClick=${onClose}>${text.shell.cancel}</button>
      <button type="button" class="button primary" disabled=${isBusy} aria-disabled=${guard.isStill ? "true" : "false"} onClick=${guard.guarded(go)}>${words.fork.yes}</button></span>`}>
    <p>${words.fork.explained}</p>
    <h3>${words.behind.title}</h3>
    <${BehindList} behind=${behind} />
    ${error === null ? null : html`<${Problem} error=${error} />`}
  <//>`;
}

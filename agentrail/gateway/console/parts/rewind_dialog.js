// Going back in a session: what that stops, what stays done outside, and the files if they are to go back too. Nothing is done until a person says so.

import { text } from "../text/en.js";
import { html, useState } from "../ui.js";
import { announce } from "./announce.js";
import { BehindList, fieldsOf, useBehind } from "./behind.js";
import { Dialog } from "./dialog.js";
import { useGuard } from "./guard.js";
import { SafeText } from "./safe_text.js";
import { useSending } from "./sending.js";
import { Problem } from "./states.js";

const words = text.approval;

/**
 * @param {{ session: string, to?: number | null, event?: number | null, api: import("../wire/api.js").Api, connection: import("../wire/socket.js").Connection,
 *   onDone?: (rewound: Record<string, any>) => void, onClose: () => void }} props `to`: behind which record; or `event`: behind the record of which event
 */
export function RewindDialog({ session, to = null, event = null, api, connection, onDone = () => {}, onClose }) {
  const moment = { at: to, event };
  const behind = useBehind(api, session, moment);
  const at = to ?? (behind.state === "told" ? behind.at : null);
  const [files, setFiles] = useState(false);
  const { isBusy, error, send } = useSending();
  const [rewound, setRewound] = useState(/** @type {Record<string, any> | null} */ (null));
  const guard = useGuard(`${session} ${to} ${event} ${behind.state}`);
  const go = () =>
    send(connection.command("rewind", session, { ...fieldsOf("to", moment), files }), (told) => {
      setRewound(told ?? {});
      announce(words.rewind.done);
      onDone(told ?? {});
    });
  if (rewound !== null) {
    return html`<${Dialog} title=${words.rewind.title(at)} onClose=${onClose}
      footer=${html`<button type="button" class="button primary" onClick=${onClose}>${text.shell.close}</button>`}>
      <p role="status">${words.rewind.done}</p><${FilesDone} files=${rewound["files"] ?? null} />
    <//>`;
  }
  const mayGo = !isBusy && (behind.state === "told" || behind.state === "not_told");
  return html`<${Dialog} title=${words.rewind.title(at)} onClose=${onClose} kind="wide"
    footer=${html`<span class="row-end" onKeyDown=${guard.onKeyDown}>
      ${isBusy ? html`<span class="dim" role="status">${words.sending}</span>` : null}
      <button type="button" class="button" onClick=${onClose}>${text.shell.cancel}</button>
      <button type="button" class="button danger" disabled=${!mayGo} aria-disabled=${guard.isStill ? "true" : "false"} onClick=${guard.guarded(go)}>${words.rewind.yes}</button></span>`}>
    <p>${words.rewind.explained}</p>
    <h3>${words.behind.title}</h3>
    <${BehindList} behind=${behind} />
    <label class="check"><input type="checkbox" checked=${files} onChange=${(/** @type {any} */ event) => setFiles(event.target.checked)} /> ${words.rewind.files}</label>
    ${error === null ? null : html`<${Problem} error=${error} />`}
  <//>`;
}

/** @param {{ files: Record<string, any> | null }} props */
function FilesDone({ files }) {
  if (files === null) return null;
  const { restored = [], removed = [], conflicts = [], failed = [] } = files;
  return html`<p>${words.rewind.filesDone(restored.length, removed.length)}</p>
    <${Paths} title=${words.rewind.conflicts} files=${conflicts} /><${Paths} title=${words.rewind.failed} files=${failed} />`;
}

/** @param {{ title: string, files: any[] }} props */
function Paths({ title, files }) {
  if (files.length === 0) return null;
  return html`<p class="warn">${title}</p><ul>${files.map((file) => {
    const path = typeof file === "string" ? file : (file["path"] ?? "");
    return html`<li class="mono small" key=${path}><${SafeText} text=${path} strict /></li>`;
  })}</ul>`;
}

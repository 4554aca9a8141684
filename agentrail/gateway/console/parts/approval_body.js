// The inside of an open approval: it is asked of the server when a person opens it, so that what is shown is as it is now, and decided from what was shown.
// How its arguments and its preview are drawn stands in parts of their own.

import { prettyText } from "../pure/json_text.js";
import { namesOfPath } from "../pure/session_name.js";
import { lookAt } from "../pure/shown_arguments.js";
import { text } from "../text/en.js";
import { html, useEffect, useMemo, useState } from "../ui.js";
import { announce } from "./announce.js";
import { ApprovalActions } from "./approval_actions.js";
import { ApprovalPreview } from "./approval_preview.js";
import { draftOf } from "./arguments_edit.js";
import { ArgumentsView } from "./arguments_view.js";
import { askedAgain } from "./asked_again.js";
import { Diff } from "./diff_view.js";
import { Icon } from "./icon.js";
import { lateSentence } from "./late.js";
import { keepDraft, moveDraft, OwnDraft } from "./own_draft.js";
import { SafeText } from "./safe_text.js";
import { Loading, Problem } from "./states.js";

const words = text.approval;

/** @typedef {import("../pure/shown_arguments.js").ShownArguments} ShownArguments */

/**
 * What came of it, for the person.
 * @typedef {{ state: "open" } | { state: "sending" } | { state: "closed", sentence: string } | { state: "refused", error: any }} Outcome
 */

/**
 * @param {{ approval: Record<string, any>, session: string, api: import("../wire/api.js").Api,
 *   connection: import("../wire/socket.js").Connection, onDone: (outcome: string) => void, onShown: () => void }} props `onShown`: it is
 *   drawn for the first time
 */
export function ApprovalBody({ approval, session, api, connection, onDone, onShown }) {
  // A call that is shown once more, since its arguments were changed, waits under another id.
  const [id, setId] = useState(/** @type {string} */ (approval["id"] ?? approval["approval_id"]));
  const [form, setForm] = useState(/** @type {Record<string, any> | null} */ (null));
  const [failure, setFailure] = useState(/** @type {any} */ (null));
  const [before, setBefore] = useState(/** @type {ShownArguments | null} */ (null));
  const [outcome, setOutcome] = useState(/** @type {Outcome} */ ({ state: "open" }));
  const [count, setCount] = useState(0);
  useEffect(() => {
    const left = new AbortController();
    setFailure(null);
    readForm(api, session, id, approval, left.signal).then(
      (found) => setForm(found),
      (error) => {
        if (left.signal.aborted) return;
        const sentence = lateSentence(error);
        if (sentence === null) setFailure(error);
        else close(sentence);
      },
    );
    return () => left.abort();
  }, [id, count]);
  const shown = useMemo(() => (form === null ? null : lookAt(form["arguments_text"], form["arguments_hash"])), [form]);
  const close = (/** @type {string} */ sentence) => {
    setOutcome({ state: "closed", sentence });
    announce(sentence);
    onDone(sentence);
  };
  const decide = (/** @type {Decision} */ decision) => {
    if (shown === null || outcome.state === "sending") return;
    setOutcome({ state: "sending" });
    connection.command(decision.command, session, { approval_id: id, ...decision.fields }).then(
      () => {
        keepDraft(id, null);
        close(decision.done);
      },
      async (error) => {
        const sentence = lateSentence(error);
        const isAgain = error.code === "already_resolved" && form !== null && !form["is_older"];
        const other = isAgain ? await askedAgain(api, session, form) : null;
        if (other !== null) showChanged(other, shown);
        else if (sentence !== null) close(sentence);
        else if (error.code === "approval_mismatch") showChanged(id, shown);
        else setOutcome({ state: "refused", error });
      },
    );
  };
  const showChanged = (/** @type {string} */ wanted, /** @type {ShownArguments} */ was) => {
    moveDraft(id, wanted);
    setId(wanted);
    setBefore(was);
    setOutcome({ state: "open" });
    setForm(null);
    setCount(count + 1);
  };
  const isShown = shown !== null;
  useEffect(() => {
    if (isShown) onShown();
  }, [isShown]);
  const again = () => setCount(count + 1);
  if (outcome.state === "closed") return html`<${Closed} id=${id} sentence=${outcome.sentence} shown=${shown} />`;
  if (failure !== null) return html`<div class="approval-body"><${Problem} error=${failure} onRetry=${again} /></div>`;
  if (form === null || shown === null) return html`<div class="approval-body"><${Loading} rows=${3} /></div>`;
  return html`<div class="approval-body">
    <${Who} form=${form} />
    ${before === null ? null : html`<${Changed} before=${before} shown=${shown} />`}
    <${Warnings} shown=${shown} form=${form} onReload=${again} />
    <${ApprovalPreview} preview=${form["preview"] ?? null} />
    <${ApprovalActions} form=${form} shown=${shown} outcome=${outcome} step=${`${id} ${shown.hash} ${count}`} approvalId=${id} decide=${decide}>
      <${ArgumentsView} shown=${shown} schema=${form["schema"] ?? null} />
    <//>
  </div>`;
}

/**
 * @typedef {object} Decision
 * @property {"approve" | "reject"} command
 * @property {Record<string, unknown>} fields
 * @property {string} done what is said when it was taken
 */

/**
 * Asks for all that is known. Of a server that has no such route there is what came with the event.
 * @param {import("../wire/api.js").Api} api
 * @param {string} session
 * @param {string} id
 * @param {Record<string, any>} approval
 * @param {AbortSignal} signal
 */
async function readForm(api, session, id, approval, signal) {
  const place = String(id).split("/").map(encodeURIComponent).join("/");
  try {
    return await api.get(`sessions/${encodeURIComponent(session)}/approvals/${place}`, {}, { signal });
  } catch (error) {
    const told = /** @type {any} */ (error);
    if (told.code !== "route_unknown" || approval["arguments"] === undefined) throw error;
    const source = JSON.stringify(approval["arguments"]);
    return { ...approval, approval_id: id, reason: approval["hint"] ?? null, arguments_text: source, is_older: true };
  }
}

/** Who asks and why, in which session, and what the tool promises. @param {{ form: Record<string, any> }} props */
function Who({ form }) {
  const effect = form["effect"] ? /** @type {any} */ (words.effects[form["effect"]] ?? words.effectUnknown) : null;
  return html`<div class="approval-who">
    <p><strong>${form["by"] ? html`<${SafeText} text=${words.asks(form["by"])} strict />` : words.asksUnknown}</strong>
      ${form["reason"] ? html`<span class="approval-reason"><${SafeText} text=${form["reason"]} strict /></span>` : null}</p>
    <p class="small dim"><span>${words.pathLabel} </span><${Path} path=${form["path"] ?? []} words=${form["first_words"] ?? null} />
      ${effect ? html`<span class="badge" title=${effect.hint}>${effect.name}</span>` : null}</p>
  </div>`;
}

/** @param {{ path: any[], words: string | null }} props `words`: what was said to the root first */
function Path({ path, words: first }) {
  const names = namesOfPath(path, path[0]?.title || first);
  return html`<span class="approval-path">${path.map((step, at) => {
    const id = typeof step === "string" ? step : step.session_id;
    return html`${at > 0 ? " › " : ""}<bdi title=${id} key=${id}><${SafeText} text=${names[at]} strict /></bdi>`;
  })}</span>`;
}

/** @param {{ shown: ShownArguments, form: Record<string, any>, onReload: () => void }} props */
function Warnings({ shown, form, onReload }) {
  const { warnings } = words;
  const told = [
    shown.hasHidden ? warnings.hidden : null,
    shown.hasSpaces ? warnings.spaces : null,
    shown.mixed.length > 0 ? html`<${SafeText} text=${warnings.mixed(shown.mixed.join(", "))} strict />` : null,
    shown.unheld.length > 0 ? warnings.unheld(shown.unheld.join(", ")) : null,
    form["is_older"] ? warnings.older : null,
  ].filter((one) => one !== null);
  return html`${told.length > 0 ? html`<ul class="approval-warnings">${told.map((one, at) => html`<li key=${at}><${Icon} name="warn" /> <span>${one}</span></li>`)}</ul>` : null}
    ${
      shown.isAsked
        ? null
        : html`<p class="bad" role="alert"><${Icon} name="warn" /> ${warnings.mismatch} <button type="button" class="button small" onClick=${onReload}>${words.reload}</button></p>`
    }`;
}

/** What a person was shown, and what the call has now. @param {{ before: ShownArguments, shown: ShownArguments }} props */
function Changed({ before, shown }) {
  if (before.hash === shown.hash) return html`<p class="bad" role="alert">${words.mismatchSame}</p>`;
  return html`<div class="approval-changed" role="alert"><p class="bad">${words.mismatchTitle}</p>
    <${Diff} before=${prettyText(before.node)} after=${prettyText(shown.node)} strict /></div>`;
}

/** The card of what is decided; edited arguments are not lost. @param {{ id: string, sentence: string, shown: ShownArguments | null }} props */
function Closed({ id, sentence, shown }) {
  return html`<div class="approval-body"><p role="status">${sentence}</p>
    <${OwnDraft} id=${id} asked=${shown === null ? null : draftOf(shown.node)} />
  </div>`;
}

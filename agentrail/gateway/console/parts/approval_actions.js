// The decision on a call that waits, step by step: look, edit, always, deny. Each step is shown before its button takes anything. Sends nothing itself.

import { plainValue } from "../pure/json_text.js";
import { text } from "../text/en.js";
import { html, useEffect, useMemo, useRef, useState } from "../ui.js";
import { ofTab } from "../wire/kept.js";
import { ArgumentsEdit, draftOf, readDraft } from "./arguments_edit.js";
import { useGuard } from "./guard.js";
import { draftName, keepDraft } from "./own_draft.js";
import { SafeText } from "./safe_text.js";
import { Problem } from "./states.js";

const words = text.approval;

/** @typedef {"look" | "edit" | "always" | "deny"} Step */

/**
 * @typedef {object} ActionProps
 * @property {Record<string, any>} form
 * @property {import("../pure/shown_arguments.js").ShownArguments} shown
 * @property {import("./approval_body.js").Outcome} outcome
 * @property {string} step changes with what is shown
 * @property {string} approvalId
 * @property {(decision: import("./approval_body.js").Decision) => void} decide
 * @property {any} children the arguments, where they are looked at
 */

/** @param {ActionProps} props */
export function ApprovalActions({ form, shown, outcome, step, approvalId, decide, children }) {
  const kept = ofTab.get(draftName(approvalId));
  const asked = /** @type {import("../pure/json_text.js").ObjectNode} */ (shown.node);
  const canEdit = shown.unheld.length === 0 && shown.node.kind === "object" && offers(form, "edit");
  const [at, setAt] = useState(/** @type {Step} */ (kept !== null && canEdit ? "edit" : "look"));
  const [source, setSource] = useState(kept ?? draftOf(shown.node));
  const [isBroken, setBroken] = useState(false);
  const guard = useGuard(`${step} ${at}`);
  const first = useRef(/** @type {HTMLElement | null} */ (null));
  const wasAt = useRef(at);
  useEffect(() => {
    if (wasAt.current !== at) first.current?.focus();
    wasAt.current = at;
  }, [at]);
  const draft = useMemo(() => readDraft(source, shown.node, form["schema"] ?? null), [source, shown, form]);
  const write = (/** @type {string} */ value) => {
    setSource(value);
    keepDraft(approvalId, value);
  };
  const discard = () => {
    keepDraft(approvalId, null);
    setSource(draftOf(shown.node));
    setBroken(false);
    setAt("look");
  };
  const hash = { arguments_hash: shown.hash };
  const allow = (/** @type {Record<string, unknown>} */ fields, /** @type {string} */ done) =>
    decide({ command: "approve", fields: { ...hash, ...fields }, done });
  const allowDraft = () => {
    if (draft.node === null || isBroken) return;
    // What is as it was asked is not sent: the server has it, to the last digit.
    if (draft.isChanged) allow({ kind: "once", arguments: plainValue(draft.node) }, words.decided.edited);
    else allow({ kind: "once" }, words.decided.approved);
  };
  const isBusy = outcome.state === "sending";
  const canAllow = shown.isAsked && !isBusy;
  const isFit = draft.node !== null && draft.faults.length === 0 && !isBroken;
  /** @param {string} label @param {() => void} act @param {boolean} isOn @param {string} [look] */
  const button = (label, act, isOn, look = "") =>
    html`<button type="button" class=${`button ${look}`} disabled=${!isOn} aria-disabled=${guard.isStill ? "true" : "false"} onClick=${guard.guarded(act)}>${label}</button>`;
  const go = (/** @type {Step} */ next) => () => setAt(next);
  return html`<div class="approval-step" tabindex="-1" ref=${first} onKeyDown=${guard.onKeyDown}>
    ${at === "look" || at === "always" || at === "deny" ? children : null}
    ${at === "edit" ? html`<${ArgumentsEdit} asked=${asked} schema=${form["schema"] ?? null} source=${source} draft=${draft} onChange=${write} onBroken=${setBroken} />` : null}
    ${at === "always" ? html`<${Always} always=${form["always"] ?? null} tool=${form["tool"]} />` : null}
    ${at === "deny" ? html`<${Deny} isBusy=${isBusy} guard=${guard} decide=${decide} onBack=${go("look")} />` : null}
    ${outcome.state === "refused" ? html`<p class="bad">${words.refused}</p><${Problem} error=${outcome.error} />` : null}
    ${
      at === "deny"
        ? null
        : html`<div class="approval-actions" role="group" aria-label=${words.heading}>
          ${isBusy ? html`<span class="dim" role="status">${words.sending}</span>` : null}
          ${at === "look" && offers(form, "reject") ? button(words.deny, go("deny"), !isBusy, "danger") : null}
          ${at === "look" && canEdit ? button(words.edit, go("edit"), !isBusy) : null}
          ${at === "look" && offers(form, "always") && form["always"] ? button(words.always, go("always"), canAllow) : null}
          ${at === "look" && offers(form, "approve") ? button(words.allow, () => allow({ kind: "once" }, words.decided.approved), canAllow, "primary") : null}
          ${at === "edit" ? button(words.discard, discard, !isBusy) : null}
          ${at === "edit" ? button(draft.isChanged ? words.allowEdited : words.allow, allowDraft, canAllow && isFit, "primary") : null}
          ${at === "always" ? button(words.back, go("look"), !isBusy) : null}
          ${at === "always" ? button(words.alwaysYes, () => allow({ kind: "always" }, words.decided.always), canAllow, "primary") : null}
        </div>`
    }
  </div>`;
}

/** @param {Record<string, any>} form @param {string} answer */
function offers(form, answer) {
  const options = form["permission_options"];
  return !Array.isArray(options) || options.includes(answer);
}

/** The rule in words, where it holds, and what it would have allowed. @param {{ always: Record<string, any> | null, tool: string }} props */
function Always({ always, tool }) {
  if (always === null) return null;
  /** @type {{ call_id: string, summary: string }[]} */
  const allowed = always["allowed"] ?? [];
  return html`<section class="approval-always">
    <h3>${words.alwaysTitle}</h3>
    <p class="approval-rule"><${SafeText} text=${ruleWords(always["tool"] ?? tool, always["command_family"] ?? null, always["exact"] === true)} strict /></p>
    ${always["command_family"] === null ? html`<p class="warn">${words.everyWarning}</p>` : null}
    <p class="small"><span class="dim">${words.reachLabel}:</span> ${words.reaches[always["reach"]] ?? always["reach"]}</p>
    ${
      allowed.length > 0
        ? html`<p class="small dim">${words.alreadyAllowed}</p>
        <ol class="approval-allowed">${allowed.map((one) => html`<li class="mono small" key=${one.call_id}><${SafeText} text=${one.summary} strict /></li>`)}</ol>`
        : html`<p class="small dim">${words.nothingAllowed}</p>`
    }
  </section>`;
}

/**
 * A rule in words.
 * @param {string} tool
 * @param {string | null} family
 * @param {boolean} isLine
 */
export function ruleWords(tool, family, isLine) {
  if (family === null) return words.ruleEvery(tool);
  return isLine ? words.ruleLine(tool, family) : words.ruleFamily(tool, family);
}

/**
 * @param {{ isBusy: boolean, guard: ReturnType<typeof useGuard>, decide: ActionProps["decide"], onBack: () => void }} props
 */
function Deny({ isBusy, guard, decide, onBack }) {
  const [reason, setReason] = useState("");
  const [goesOn, setGoesOn] = useState(true);
  const deny = () =>
    decide({
      command: "reject",
      fields: { auto_resume: goesOn, ...(reason.trim() ? { reason: reason.trim() } : {}) },
      done: words.decided.rejected,
    });
  return html`<section class="approval-deny">
    <h3>${words.denyTitle}</h3>
    <label class="field"><span>${words.denyReason}</span>
      <textarea rows="2" value=${reason} onInput=${(/** @type {any} */ event) => setReason(event.target.value)}></textarea></label>
    <label class="check"><input type="checkbox" checked=${goesOn} onChange=${(/** @type {any} */ event) => setGoesOn(event.target.checked)} /> ${words.denyGoesOn}</label>
    <div class="approval-actions" role="group" aria-label=${words.denyTitle}>
      ${isBusy ? html`<span class="dim" role="status">${words.sending}</span>` : null}
      <button type="button" class="button" disabled=${isBusy} onClick=${onBack}>${words.back}</button>
      <button type="button" class="button danger" disabled=${isBusy} aria-disabled=${guard.isStill ? "true" : "false"} onClick=${guard.guarded(deny)}>${words.denyYes}</button>
    </div>
  </section>`;
}

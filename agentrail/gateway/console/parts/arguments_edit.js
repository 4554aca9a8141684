// The arguments of a call that waits, edited: as a form or as JSON, one draft for both, read strictly and held against the schema, with what was asked
// and what would run side by side. What is sent is what stands there; nothing is sent from here.

import { isSame } from "../pure/canonical.js";
import { JsonFault, parseJson, prettyText, scalarText, unheldNumbers, withMember } from "../pure/json_text.js";
import { hasHidden } from "../pure/safe_text.js";
import { faultsOf } from "../pure/schema_check.js";
import { text } from "../text/en.js";
import { html, useEffect, useId, useRef, useState } from "../ui.js";
import { Name, ownOf, Switch } from "./arguments_view.js";
import { Diff } from "./diff_view.js";
import { SafeText } from "./safe_text.js";

const words = text.approval;

/** @typedef {import("../pure/json_text.js").JsonNode} JsonNode */
/** @typedef {import("../pure/json_text.js").ObjectNode} ObjectNode */

/**
 * What stands in a draft.
 * @typedef {object} Draft
 * @property {ObjectNode | null} node null where it is no JSON object
 * @property {string | null} fault why it is none, in words
 * @property {string[]} faults what the tool does not take, in words
 * @property {boolean} isChanged whether it is other than what was asked
 */

/**
 * Reads a draft.
 * @param {string} source
 * @param {JsonNode} asked
 * @param {Record<string, any> | null} schema
 * @returns {Draft}
 */
export function readDraft(source, asked, schema) {
  try {
    const node = parseJson(source);
    if (node.kind !== "object") return wrong(words.jsonFaults["object"] ?? "");
    if (unheldNumbers(node).length > 0) return wrong(words.jsonFaults["unheld"] ?? "");
    const faults = faultsOf(node, schema).map(({ path, fault, wanted }) =>
      words.schemaFault(path, words.schemaFaults[fault]?.(wanted ?? "") ?? fault),
    );
    return { node, fault: null, faults, isChanged: !isSame(node, asked) };
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    return wrong(words.jsonFault(words.jsonFaults[error.fault] ?? error.fault, error.line, error.column));
  }
}

/** @param {string} fault @returns {Draft} */
const wrong = (fault) => ({ node: null, fault, faults: [], isChanged: true });

const UNSEEN =
  /\u034f|[\u17b4\u17b5]|[\u180b-\u180f]|[\ufe00-\ufe0f]|[\u007f-\u009f\u00ad\u061c\u115f\u1160\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;

/**
 * Writes arguments to be edited: what is not seen stands as the escape that JSON has for it, so that a field cannot hide it.
 * @param {JsonNode} node
 */
export function draftOf(node) {
  return prettyText(node).replace(UNSEEN, (one) =>
    Array.from({ length: one.length }, (_, at) => `\\u${one.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""),
  );
}

/**
 * @param {{ asked: ObjectNode, schema: Record<string, any> | null, source: string, draft: Draft, onChange: (source: string) => void,
 *   onBroken: (isBroken: boolean) => void }} props `onBroken`: whether a field holds what is no value, so that the draft is not what is seen
 */
export function ArgumentsEdit({ asked, schema, source, draft, onChange, onBroken }) {
  const [isJson, setJson] = useState(false);
  const id = useId();
  const asForm = !isJson && draft.node !== null;
  return html`<section class="approval-arguments">
    <header class="approval-sub">
      <h3>${words.editTitle}</h3>
      <${Switch} label=${words.argumentsView} names=${[words.asForm, words.asJson]} chosen=${asForm ? 0 : 1}
        onChoose=${(/** @type {number} */ index) => setJson(index === 1)} />
    </header>
    ${
      asForm && draft.node !== null
        ? html`<${EditForm} node=${draft.node} schema=${schema} onBroken=${onBroken}
            onChange=${(/** @type {JsonNode} */ node) => onChange(draftOf(node))} />`
        : html`<textarea id=${id} class="mono approval-source" spellcheck=${false} dir="ltr" aria-label=${words.editJson}
            aria-invalid=${draft.fault ? "true" : "false"} aria-describedby=${`${id}-fault`} rows=${rowsOf(source, 6, 24)} value=${source}
            onInput=${(/** @type {any} */ event) => onChange(event.target.value)}></textarea>`
    }
    <div id=${`${id}-fault`} class="approval-faults" role="status">
      ${draft.fault ? html`<p class="bad">${draft.fault}</p>` : null}
      ${
        draft.faults.length > 0
          ? html`<p class="bad">${words.schemaTitle}</p>
          <ul>${draft.faults.map((fault) => html`<li key=${fault}><${SafeText} text=${fault} strict /></li>`)}</ul>`
          : null
      }
    </div>
    ${
      draft.node !== null && draft.isChanged
        ? html`<h3>${words.editChanges}</h3><${Diff} before=${prettyText(asked)} after=${prettyText(draft.node)} strict />`
        : null
    }
    ${draft.node !== null && !draft.isChanged ? html`<p class="dim">${words.editSame}</p>` : null}
  </section>`;
}

/**
 * @param {{ node: ObjectNode, schema: Record<string, any> | null, onChange: (node: ObjectNode) => void, onBroken: (isBroken: boolean) => void }} props
 */
function EditForm({ node, schema, onChange, onBroken }) {
  const broken = useRef(/** @type {Set<string>} */ (new Set()));
  const mark = (/** @type {string} */ name, /** @type {boolean} */ isBroken) => {
    if (isBroken) broken.current.add(name);
    else broken.current.delete(name);
    onBroken(broken.current.size > 0);
  };
  useEffect(() => () => onBroken(false), []);
  const properties = schema?.["properties"] ?? {};
  const needed = new Set(schema?.["required"] ?? []);
  return html`<div class="approval-fields">
    ${node.members.map(
      ([
        name,
        value,
      ]) => html`<${EditField} key=${name} name=${name} node=${value} schema=${ownOf(properties, name)} isNeeded=${needed.has(name)}
        onBroken=${(/** @type {boolean} */ isBroken) => mark(name, isBroken)}
        onChange=${(/** @type {JsonNode} */ made) => onChange(withMember(node, name, made))} />`,
    )}
  </div>`;
}

/**
 * @param {{ name: string, node: JsonNode, schema: Record<string, any>, isNeeded: boolean, onChange: (node: JsonNode) => void,
 *   onBroken: (isBroken: boolean) => void }} props
 */
function EditField({ name, node, schema, isNeeded, onChange, onBroken }) {
  const id = useId();
  return html`<div class="field">
    <label for=${id}><${Name} name=${name} schema=${schema} isNeeded=${isNeeded} /></label>
    <${Control} id=${id} name=${name} node=${node} schema=${schema} onChange=${onChange} onBroken=${onBroken} />
  </div>`;
}

/**
 * @param {{ id: string, name: string, node: JsonNode, schema: Record<string, any>, onChange: (node: JsonNode) => void,
 *   onBroken: (isBroken: boolean) => void }} props
 */
function Control({ id, name, node, schema, onChange, onBroken }) {
  const choices = Array.isArray(schema["enum"]) ? schema["enum"] : null;
  if (node.kind === "string" && choices?.includes(node.value)) {
    return html`<select id=${id} value=${node.value} onChange=${(/** @type {any} */ event) => onChange({ kind: "string", value: event.target.value })}>
      ${choices.filter((one) => typeof one === "string").map((one) => html`<option key=${one} value=${one}>${one}</option>`)}
    </select>`;
  }
  if (node.kind === "literal" && node.value !== null) {
    return html`<select id=${id} value=${String(node.value)} onChange=${(/** @type {any} */ event) => onChange({ kind: "literal", value: event.target.value === "true" })}>
      <option value="true">${words.yes}</option><option value="false">${words.no}</option>
    </select>`;
  }
  if (node.kind === "string") return html`<${TextControl} id=${id} value=${node.value} onChange=${onChange} />`;
  return html`<${JsonControl} id=${id} name=${name} node=${node} onChange=${onChange} onBroken=${onBroken} />`;
}

/** @param {{ id: string, value: string, onChange: (node: JsonNode) => void }} props */
function TextControl({ id, value, onChange }) {
  // A field would take a carriage return for a line feed, and show nothing of what is not seen.
  if (hasHidden(value, true) || value.includes("\r")) {
    return html`<pre id=${id} class="approval-value"><${SafeText} text=${value} strict /></pre><p class="dim small">${words.editHidden}</p>`;
  }
  return html`<textarea id=${id} class="mono" spellcheck=${false} dir="auto" rows=${rowsOf(value, 1, 16)} value=${value}
    onInput=${(/** @type {any} */ event) => onChange({ kind: "string", value: event.target.value })}></textarea>`;
}

/** @param {{ id: string, name: string, node: JsonNode, onChange: (node: JsonNode) => void, onBroken: (isBroken: boolean) => void }} props */
function JsonControl({ id, name, node, onChange, onBroken }) {
  const isNumber = node.kind === "number";
  const [typed, setTyped] = useState(/** @type {string | null} */ (null));
  const own = isNumber ? scalarText(node) : draftOf(node);
  const typing = (/** @type {string} */ value) => {
    const read = readValue(value);
    // What was typed stays as it was typed, while its field has the focus: `1.` on the way to `1.5` is no number.
    setTyped(value);
    onBroken(read === null);
    if (read !== null) onChange(read);
  };
  const value = typed ?? own;
  const isWrong = typed !== null && readValue(typed) === null;
  const left = () => {
    if (!isWrong) setTyped(null);
  };
  const control = isNumber
    ? html`<input id=${id} class="mono" inputmode="decimal" autocomplete="off" value=${value} aria-invalid=${isWrong ? "true" : "false"}
        onBlur=${left} onInput=${(/** @type {any} */ event) => typing(event.target.value)} />`
    : html`<textarea id=${id} class="mono" spellcheck=${false} dir="ltr" rows=${rowsOf(value, 1, 16)} value=${value} aria-invalid=${isWrong ? "true" : "false"}
        onBlur=${left} onInput=${(/** @type {any} */ event) => typing(event.target.value)}></textarea>`;
  return html`${control}${isWrong ? html`<p class="bad small" role="status">${words.notJson(name)}</p>` : null}`;
}

/** @param {string} source @returns {JsonNode | null} */
function readValue(source) {
  try {
    return parseJson(source);
  } catch {
    return null;
  }
}

/** @param {string} value @param {number} least @param {number} most */
function rowsOf(value, least, most) {
  const lines = value.split("\n").reduce((sum, line) => sum + 1 + Math.floor(line.length / 100), 0);
  return Math.min(most, Math.max(least, lines));
}

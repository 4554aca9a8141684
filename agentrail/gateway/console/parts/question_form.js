// The form of a question: a flat object of texts, numbers, flags and choices, as its schema says. What is filled in is read and held against that before it is sent.

import { isHeld, parseJson } from "../pure/json_text.js";
import { faultsOf } from "../pure/schema_check.js";
import { text } from "../text/en.js";
import { html, useId } from "../ui.js";
import { Name } from "./arguments_view.js";
import { SafeText } from "./safe_text.js";

const words = text.approval;

/** @typedef {Record<string, string | boolean>} Filled by name: what a field holds; an empty text is nothing */

/** @param {Record<string, any> | null} schema @returns {Filled} */
export function emptyFormOf(schema) {
  /** @type {Filled} */
  const filled = {};
  for (const [name, own] of Object.entries(/** @type {Record<string, any>} */ (schema?.["properties"] ?? {}))) {
    filled[name] = own.type === "boolean" ? own.default === true : own.default === undefined ? "" : String(own.default);
  }
  return filled;
}

/**
 * Reads what is filled in.
 * @param {Record<string, any>} schema
 * @param {Filled} filled
 * @returns {{ value: Record<string, unknown>, fault: string | null }} `fault` in words; null where it fits
 */
export function readForm(schema, filled) {
  /** @type {Record<string, unknown>} */
  const value = Object.create(null);
  for (const [name, own] of Object.entries(/** @type {Record<string, any>} */ (schema["properties"] ?? {}))) {
    const given = filled[name];
    if (given === undefined || given === "") continue;
    const isNumber = own.type === "number" || own.type === "integer";
    if (isNumber && !isNumberText(String(given)))
      return { value, fault: words.schemaFault(name, words.schemaFaults["type"]?.(own.type) ?? "") };
    value[name] = isNumber ? Number(given) : given;
  }
  const [first] = faultsOf(parseJson(JSON.stringify(value), { allowHalves: true }), schema);
  if (first === undefined) return { value, fault: null };
  return {
    value,
    fault: words.schemaFault(
      first.path.replace(/^\$\.?/, ""),
      words.schemaFaults[first.fault]?.(first.wanted ?? "") ?? first.fault,
    ),
  };
}

/** @param {string} given */
function isNumberText(given) {
  return /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(given.trim()) && isHeld(given.trim());
}

/**
 * @param {{ schema: Record<string, any>, filled: Filled, fault: string | null, onChange: (filled: Filled) => void }} props
 */
export function QuestionForm({ schema, filled, fault, onChange }) {
  const needed = new Set(schema["required"] ?? []);
  return html`<div class="approval-fields">
    ${Object.entries(/** @type {Record<string, any>} */ (schema["properties"] ?? {})).map(
      ([
        name,
        own,
      ]) => html`<${Field} key=${name} name=${name} own=${own} isNeeded=${needed.has(name)} value=${filled[name] ?? ""}
        onChange=${(/** @type {string | boolean} */ value) => onChange({ ...filled, [name]: value })} />`,
    )}
    ${fault === null ? null : html`<p class="dim small" role="status"><${SafeText} text=${fault} strict /></p>`}
  </div>`;
}

/**
 * @param {{ name: string, own: Record<string, any>, isNeeded: boolean, value: string | boolean, onChange: (value: string | boolean) => void }} props
 */
function Field({ name, own, isNeeded, value, onChange }) {
  const id = useId();
  const told = typeof own["title"] === "string" ? { ...own, description: own["description"] ?? own["title"] } : own;
  const label = html`<label for=${id}><${Name} name=${name} schema=${told} isNeeded=${isNeeded} /></label>`;
  if (own["type"] === "boolean") {
    return html`<div class="check"><input id=${id} type="checkbox" checked=${value === true} onChange=${(/** @type {any} */ event) => onChange(event.target.checked)} />${label}</div>`;
  }
  if (Array.isArray(own["enum"])) {
    return html`<div class="field">${label}<select id=${id} value=${value} onChange=${(/** @type {any} */ event) => onChange(event.target.value)}>
      <option value="">${words.notGiven}</option>
      ${own["enum"].map((one) => html`<option key=${one} value=${one}>${one}</option>`)}
    </select></div>`;
  }
  const mode = own["type"] === "number" || own["type"] === "integer" ? "decimal" : "text";
  return html`<div class="field">${label}<input id=${id} inputmode=${mode} autocomplete="off" dir="auto" value=${value}
    onInput=${(/** @type {any} */ event) => onChange(event.target.value)} /></div>`;
}

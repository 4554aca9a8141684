// The form of a question: a flat object of texts, numbers, flags, choices and lists of choices, as its schema says. What is filled in is read and held against that before it is sent.

import { isHeld, parseJson } from "../pure/json_text.js";
import { faultsOf } from "../pure/schema_check.js";
import { text } from "../text/en.js";
import { html, useId } from "../ui.js";
import { Name } from "./arguments_view.js";
import { SafeText } from "./safe_text.js";

const words = text.approval;

/** @typedef {Record<string, string | boolean | string[]>} Filled by name: what a field holds; an empty text is nothing */

/** @param {Record<string, any> | null} schema @returns {Filled} */
export function emptyFormOf(schema) {
  /** @type {Filled} */
  const filled = {};
  for (const [name, own] of Object.entries(/** @type {Record<string, any>} */ (schema?.["properties"] ?? {}))) {
    if (own.type === "boolean") filled[name] = own.default === true;
    else if (own.type === "array") filled[name] = own.default ?? [];
    else filled[name] = own.default === undefined ? "" : String(own.default);
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
  const needed = new Set(schema["required"] ?? []);
  for (const [name, own] of Object.entries(/** @type {Record<string, any>} */ (schema["properties"] ?? {}))) {
    const given = filled[name];
    if (given === undefined || given === "") continue;
    if (Array.isArray(given) && given.length === 0 && !needed.has(name)) continue;
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
        onChange=${(/** @type {Filled[string]} */ value) => onChange({ ...filled, [name]: value })} />`,
    )}
    ${fault === null ? null : html`<p class="dim small" role="status"><${SafeText} text=${fault} strict /></p>`}
  </div>`;
}

/**
 * @param {{ name: string, own: Record<string, any>, isNeeded: boolean, value: Filled[string], onChange: (value: Filled[string]) => void }} props
 */
function Field({ name, own, isNeeded, value, onChange }) {
  const id = useId();
  const told = typeof own["title"] === "string" ? { ...own, description: own["description"] ?? own["title"] } : own;
  const label = html`<label for=${id}><${Name} name=${name} schema=${told} isNeeded=${isNeeded} /></label>`;
  if (own["type"] === "boolean") {
    return html`<div class="check"><input id=${id} type="checkbox" checked=${value === true} onChange=${(/** @type {any} */ event) => onChange(event.target.checked)} />${label}</div>`;
  }
  const choices = choicesOf(own["items"] ?? own);
  if (choices !== null && own["type"] === "array") {
    const isChosen = (/** @type {string} */ one) => Array.isArray(value) && value.includes(one);
    const read = (/** @type {any} */ event) =>
      onChange(Array.from(event.target.selectedOptions, (/** @type {HTMLOptionElement} */ one) => one.value));
    return html`<div class="field">${label}<select id=${id} multiple onChange=${read}>
      ${choices.map(([one, title]) => html`<option key=${one} value=${one} selected=${isChosen(one)}>${title}</option>`)}
    </select></div>`;
  }
  if (choices !== null) {
    return html`<div class="field">${label}<select id=${id} value=${value} onChange=${(/** @type {any} */ event) => onChange(event.target.value)}>
      <option value="">${words.notGiven}</option>
      ${choices.map(([one, title]) => html`<option key=${one} value=${one}>${title}</option>`)}
    </select></div>`;
  }
  const mode = own["type"] === "number" || own["type"] === "integer" ? "decimal" : "text";
  return html`<div class="field">${label}<input id=${id} inputmode=${mode} autocomplete="off" dir="auto" value=${value}
    onInput=${(/** @type {any} */ event) => onChange(event.target.value)} /></div>`;
}

/** @param {Record<string, any>} own @returns {[string, string][] | null} values and titles; null of a field without choices */
function choicesOf(own) {
  const named = own["oneOf"] ?? own["anyOf"];
  if (Array.isArray(named)) return named.map((one) => [one.const, one.title ?? one.const]);
  const titles = own["enumNames"] ?? own["enum"];
  return Array.isArray(own["enum"]) ? own["enum"].map((one, index) => [one, titles[index]]) : null;
}

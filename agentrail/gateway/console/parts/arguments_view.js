// All arguments of a call that waits, as a form by their schema and as JSON: nothing is left out, what is not seen is marked, and a long text says how much
// of it is still to be shown. Nothing is decided here.

import { prettyText, scalarText } from "../pure/json_text.js";
import { text } from "../text/en.js";
import { html, useState } from "../ui.js";
import { SafeText } from "./safe_text.js";

const words = text.approval;

/** @typedef {import("../pure/json_text.js").JsonNode} JsonNode */

/**
 * @param {{ shown: import("../pure/shown_arguments.js").ShownArguments, schema: Record<string, any> | null }} props
 */
export function ArgumentsView({ shown, schema }) {
  const [isJson, setJson] = useState(false);
  const { node } = shown;
  return html`<section class="approval-arguments">
    <header class="approval-sub">
      <h3>${words.argumentsTitle}</h3>
      <span class="mono small dim" title=${shown.hash}>${words.hash(shown.hash.slice(0, 8))}</span>
      <${Switch} label=${words.argumentsView} names=${[words.asForm, words.asJson]} chosen=${isJson ? 1 : 0}
        onChoose=${(/** @type {number} */ index) => setJson(index === 1)} />
    </header>
    ${isJson || node.kind !== "object" ? html`<${AsJson} node=${node} />` : html`<${AsForm} node=${node} schema=${schema} />`}
  </section>`;
}

/**
 * Two or more ways of showing the same.
 * @param {{ label: string, names: string[], chosen: number, onChoose: (index: number) => void }} props
 */
export function Switch({ label, names, chosen, onChoose }) {
  return html`<div class="switch" role="group" aria-label=${label}>
    ${names.map(
      (
        name,
        index,
      ) => html`<button type="button" key=${name} class="switch-part" aria-pressed=${chosen === index ? "true" : "false"}
        onClick=${() => onChoose(index)}>${name}</button>`,
    )}
  </div>`;
}

/** @param {{ node: JsonNode }} props */
function AsJson({ node }) {
  return html`<pre class="approval-json" tabindex="0" dir="ltr" aria-label=${words.asJson}><${SafeText} text=${prettyText(node)} strict /></pre>`;
}

/** @param {{ node: import("../pure/json_text.js").ObjectNode, schema: Record<string, any> | null }} props */
function AsForm({ node, schema }) {
  const properties = schema?.["properties"] ?? {};
  const needed = new Set(schema?.["required"] ?? []);
  const given = new Set(node.members.map(([name]) => name));
  const missing = Object.keys(properties).filter((name) => !given.has(name));
  if (node.members.length === 0 && missing.length === 0) return html`<p class="dim">${words.noArguments}</p>`;
  return html`<dl class="approval-form">
    ${node.members.map(
      ([name, value]) => html`<div key=${name}>
        <dt><${Name} name=${name} schema=${ownOf(properties, name)} isNeeded=${needed.has(name)} /></dt>
        <dd><${Value} node=${value} /></dd>
      </div>`,
    )}
    ${missing.map(
      (name) => html`<div key=${`missing ${name}`}>
        <dt><${Name} name=${name} schema=${ownOf(properties, name)} isNeeded=${needed.has(name)} /></dt>
        <dd class="dim">${words.notGiven}</dd>
      </div>`,
    )}
  </dl>`;
}

/** @param {Record<string, any>} properties @param {string} name @returns {Record<string, any>} */
export function ownOf(properties, name) {
  const found = Object.hasOwn(properties, name) ? properties[name] : null;
  return found !== null && typeof found === "object" ? found : {};
}

/** @param {{ name: string, schema: Record<string, any>, isNeeded: boolean }} props */
export function Name({ name, schema, isNeeded }) {
  const told = typeof schema["description"] === "string" ? schema["description"] : "";
  return html`<span class="mono approval-name"><${SafeText} text=${name} strict /></span>
    ${isNeeded ? html` <span class="dim small">${words.required}</span>` : null}
    ${told ? html`<span class="dim small approval-told"><${SafeText} text=${told} /></span>` : null}`;
}

/** @param {{ node: JsonNode }} props */
function Value({ node }) {
  switch (node.kind) {
    case "string":
      if (node.value === "") return html`<span class="mono dim">""</span>`;
      return html`<pre class="approval-value" dir="auto"><${SafeText} text=${node.value} strict /></pre>`;
    case "object":
    case "array":
      return html`<pre class="approval-value" dir="ltr"><${SafeText} text=${prettyText(node)} strict /></pre>`;
    default:
      return html`<span class="mono">${scalarText(node)}</span>`;
  }
}

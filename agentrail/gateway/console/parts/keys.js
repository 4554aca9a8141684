// Keys of the page: who has which, in which order they are asked, and the dialogue that shows them. Each key has a button too; that is up to its owner.

import { comboOf, isSingle, nextKey, SECOND_KEY_MS } from "../pure/keys.js";
import { text } from "../text/en.js";
import { html, useEffect, useRef, useState } from "../ui.js";
import { ofBrowser } from "../wire/kept.js";
import { Dialog } from "./dialog.js";

/** @typedef {{ run: (event: KeyboardEvent) => void, label: string }} Binding */
/** @typedef {{ current: Record<string, Binding | ((event: KeyboardEvent) => void)>, scope: string }} Layer */

/** @type {Layer[]} Who came last is asked first. */
const layers = [];

let before = "";
let beforeAt = 0;

/**
 * Has keys as long as the component is there. A binding is a function, or `{ run, label }`, which `?` shows; `scope` is the heading that it stands below.
 * Single letters are dead in fields and while a dialogue is open; other keys are not.
 * @param {Record<string, Binding | ((event: KeyboardEvent) => void)>} bindings
 * @param {string} scope
 */
export function useKeys(bindings, scope) {
  const layer = useRef(/** @type {Layer} */ ({ current: bindings, scope }));
  layer.current.current = bindings;
  layer.current.scope = scope;
  useEffect(() => {
    const own = layer.current;
    layers.push(own);
    return () => {
      layers.splice(layers.indexOf(own), 1);
    };
  }, []);
}

/** Whether single letters are keys; a person may switch that off (WCAG 2.1.4). */
export function isSingleOn() {
  return ofBrowser.get("keys") !== "off";
}

/**
 * @param {boolean} isOn
 */
export function setSingleOn(isOn) {
  ofBrowser.set("keys", isOn ? null : "off");
}

/**
 * Listens to the keys of a document.
 * @param {Document} page
 * @returns {() => void} Ends it.
 */
export function startKeys(page) {
  const pressed = (/** @type {KeyboardEvent} */ event) => press(event, page);
  page.addEventListener("keydown", pressed);
  return () => page.removeEventListener("keydown", pressed);
}

/**
 * @param {KeyboardEvent} event
 * @param {Document} page
 */
function press(event, page) {
  if (event.defaultPrevented || event.isComposing) return;
  const combo = comboOf(event);
  if (!combo) return;
  if (isSingle(combo) && (!isSingleOn() || isField(event.target) || page.querySelector("dialog[open]"))) {
    before = "";
    return;
  }
  const known = new Set(layers.flatMap((layer) => Object.keys(layer.current)));
  const { found, waiting } = nextKey(event.timeStamp - beforeAt < SECOND_KEY_MS ? before : "", combo, known);
  before = waiting;
  beforeAt = event.timeStamp;
  if (found === null) return;
  const owner = layers.findLast((layer) => found in layer.current);
  const binding = owner?.current[found];
  if (binding === undefined) return;
  event.preventDefault();
  if (typeof binding === "function") binding(event);
  else binding.run(event);
}

/** @param {EventTarget | null} target */
function isField(target) {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches("input, textarea, select"));
}

/** @returns {{ scope: string, keys: { combo: string, label: string }[] }[]} */
function shownKeys() {
  /** @type {Map<string, { combo: string, label: string }[]>} */
  const scopes = new Map();
  for (const layer of layers) {
    for (const [combo, binding] of Object.entries(layer.current)) {
      if (typeof binding === "function") continue;
      const keys = scopes.get(layer.scope) ?? [];
      if (!keys.some((one) => one.combo === combo)) keys.push({ combo, label: binding.label });
      scopes.set(layer.scope, keys);
    }
  }
  return [...scopes].map(([scope, keys]) => ({ scope, keys }));
}

/**
 * Writes keys as caps.
 * @param {{ combo: string }} props
 */
export function Combo({ combo }) {
  const parts = combo.split(" ");
  const between = isSingle(combo) && parts.length > 1 ? ` ${text.shell.keys.followedBy} ` : " ";
  return html`<span class="combo">${parts.map(
    (part, index) => html`${index ? between : ""}<kbd>${part}</kbd>`,
  )}</span>`;
}

/**
 * The dialogue of `?`.
 * @param {{ onClose: () => void }} props
 */
export function KeysHelp({ onClose }) {
  const [isOn, setOn] = useState(isSingleOn());
  const change = (/** @type {Event} */ event) => {
    const wanted = /** @type {HTMLInputElement} */ (event.target).checked;
    setSingleOn(wanted);
    setOn(wanted);
  };
  return html`<${Dialog} title=${text.shell.keys.title} onClose=${onClose}>
    ${shownKeys().map(
      ({ scope, keys }) => html`<section key=${scope}>
        <h3>${scope}</h3>
        <table class="keys"><tbody>
          ${keys.map(
            ({ combo, label }) =>
              html`<tr key=${combo}><th scope="row"><${Combo} combo=${combo} /></th><td>${label}</td></tr>`,
          )}
        </tbody></table>
      </section>`,
    )}
    <label class="check"><input type="checkbox" checked=${isOn} onChange=${change} /> ${text.shell.keys.single}</label>
    <p class="dim">${text.shell.keys.singleHint}</p>
  <//>`;
}

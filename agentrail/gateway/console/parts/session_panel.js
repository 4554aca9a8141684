// The panel beside the conversation: Now, Timeline, Context, Plugins, as tabs. A tab whose part is not served, or for which the server or the token has not
// what it takes, is not there.

import { NowPanel } from "../pages/now.js";
import { text } from "../text/en.js";
import { html, useEffect, useId, useRef, useState } from "../ui.js";
import { Guarded } from "./guarded.js";
import { Icon } from "./icon.js";
import { Loading } from "./states.js";

const words = text.session;

/** @typedef {"now" | "timeline" | "context" | "plugins"} TabName */

/** @type {Record<Exclude<TabName, "now">, () => Promise<any>>} */
const LOADS = {
  timeline: () => import("../pages/timeline.js"),
  context: () => import("../pages/context.js"),
  plugins: () => import("../pages/session_plugins.js"),
};

/**
 * Which tabs there are.
 * @param {ReadonlySet<string>} features
 * @returns {TabName[]}
 */
export function tabsOf(features) {
  /** @type {TabName[]} */
  const tabs = ["now"];
  // It is made of pages of events, which every caller may read of its own sessions.
  if (features.has("spans") && features.has("events")) tabs.push("timeline");
  if (features.has("context")) tabs.push("context");
  tabs.push("plugins");
  return tabs;
}

/**
 * @param {object} props
 * @param {any} props.shared what every tab is given: `view api connection info select toWaiting`
 * @param {TabName[]} props.tabs
 * @param {boolean} props.isOpen over the conversation, where there is no room beside it
 * @param {() => void} props.onClose
 * @param {any} props.tools what stands in the head where there is room
 */
export function SessionPanel({ shared, tabs, isOpen, onClose, tools }) {
  const [tab, setTab] = useState(/** @type {TabName} */ ("now"));
  const id = useId();
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const focusTab = (/** @type {TabName} */ name) => {
    const node = list.current?.querySelector(`[data-tab="${name}"]`);
    if (node instanceof HTMLElement) node.focus();
  };
  // Over the conversation it has the focus, as a dialogue has.
  useEffect(() => {
    if (!isOpen) return undefined;
    const before = document.activeElement;
    focusTab(tab);
    return () => {
      const at = document.activeElement; // for a moment it is still in the panel that is hidden now
      if (before instanceof HTMLElement && (at === document.body || at?.closest(".session-panel"))) before.focus();
    };
  }, [isOpen]);
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length] ?? "now";
    setTab(next);
    focusTab(next);
  };
  const closeOnEscape = (/** @type {KeyboardEvent} */ event) => {
    const isOfDialog = event.target instanceof Element && event.target.closest("dialog") !== null;
    if (isOpen && event.key === "Escape" && !isOfDialog) onClose();
  };
  return html`<aside class="session-panel" aria-label=${words.panel} onKeyDown=${closeOnEscape}>
    <h2 class="sr-only">${words.panel}</h2>
    <div class="panel-head">
      <div class="tabs" role="tablist" aria-label=${words.panel} ref=${list} onKeyDown=${pressed}>
        ${tabs.map(
          (
            one,
          ) => html`<button key=${one} type="button" role="tab" id=${`${id}-${one}`} data-tab=${one} aria-selected=${one === tab} aria-controls=${`${id}-panel`}
          tabindex=${one === tab ? 0 : -1} class="tab" onClick=${() => setTab(one)}>${words.tabs[one]}</button>`,
        )}
      </div>
      <button type="button" class="icon-button panel-close" aria-label=${words.closePanel} title=${words.closePanel} onClick=${onClose}><${Icon} name="close" /></button>
    </div>
    <div class="panel-tools narrow-only">${tools}</div>
    <div class="panel-body" role="tabpanel" id=${`${id}-panel`} aria-labelledby=${`${id}-${tab}`} tabindex="0">
      <${Guarded} value=${tab}>
        ${tab === "now" ? html`<${NowPanel} view=${shared.view} models=${shared.info.models} select=${shared.select} toWaiting=${shared.toWaiting} />` : html`<${LazyPanel} key=${tab} name=${tab} shared=${shared} />`}
      <//>
    </div>
  </aside>`;
}

/** @param {{ name: Exclude<TabName, "now">, shared: any }} props */
function LazyPanel({ name, shared }) {
  const [Panel, setPanel] = useState(/** @type {any} */ (null));
  const [isMissing, setMissing] = useState(false);
  useEffect(() => {
    let isWanted = true;
    LOADS[name]().then(
      (module) => isWanted && setPanel(() => module.Panel),
      () => isWanted && setMissing(true),
    );
    return () => {
      isWanted = false;
    };
  }, [name]);
  if (isMissing) return html`<p class="dim">${text.shell.pageNotServed}</p>`;
  return Panel === null ? html`<${Loading} rows=${4} />` : html`<${Panel} ...${shared} />`;
}

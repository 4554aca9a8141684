// Light or dark: as the system has it, or as a person chose. The colours stand in css/tokens.css.

import { text } from "../text/en.js";
import { html, useState } from "../ui.js";
import { ofBrowser } from "../wire/kept.js";
import { Icon } from "./icon.js";

/** @typedef {"system" | "light" | "dark"} Theme */

/** @type {readonly Theme[]} */
const THEMES = ["system", "light", "dark"];
const SIGNS = { system: "half", light: "sun", dark: "moon" };

/** @returns {Theme} */
export function chosenTheme() {
  const kept = /** @type {Theme} */ (ofBrowser.get("theme"));
  return THEMES.includes(kept) ? kept : "system";
}

/** @param {Theme} [theme] */
export function applyTheme(theme = chosenTheme()) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

/** A button that goes from one to the next, and says which it is. */
export function ThemeButton() {
  const [theme, setTheme] = useState(chosenTheme());
  const next = () => {
    const wanted = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "system";
    ofBrowser.set("theme", wanted === "system" ? null : wanted);
    applyTheme(wanted);
    setTheme(wanted);
  };
  const words = `${text.shell.theme.label}: ${text.shell.theme[theme]}`;
  return html`<button type="button" class="icon-button" aria-label=${words} title=${words} onClick=${next}>
    <${Icon} name=${SIGNS[theme]} />
  </button>`;
}

// A text on one line, cut where it is long: what stands in a head, a button or a row of a list. All of it stands elsewhere.

import { oneLine } from "../pure/call_summary.js";
import { html } from "../ui.js";
import { SafeText } from "./text_view.js";

/** @param {{ text: string }} props */
export function Brief({ text }) {
  return html`<${SafeText} text=${oneLine(text)} />`;
}

// A text on one line, cut where it is long: what stands in a head, a button or a row of a list. All of it stands elsewhere.

import { oneLine } from "../pure/call_summary.js";
import { html } from "../ui.js";
import { piecesAsNodes } from "./safe_text.js";

/** @param {{ text: string, strict?: boolean }} props `strict`: as of `SafeText` */
export function Brief({ text, strict = false }) {
  return html`<span class="safe">${briefly(text, strict)}</span>`;
}

/**
 * The same for a line that is one of many: without an element of its own.
 * @param {unknown} text
 * @param {boolean} strict
 * @returns {any[]}
 */
export function briefly(text, strict = false) {
  return piecesAsNodes(oneLine(String(text ?? "")), strict);
}

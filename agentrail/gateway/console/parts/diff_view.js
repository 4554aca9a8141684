// What changes in a text, line by line: removed and added lines by sign, colour and place.

import { diffLines } from "../pure/diff.js";
import { characterPlace, LONG_LINE } from "../pure/sizes.js";
import { text as words } from "../text/en.js";
import { html, useMemo, useState } from "../ui.js";
import { piecesAsNodes } from "./safe_text.js";

/** How many lines are shown at first, and how many more with each click. */
const MOST_LINES = 400;

const SIGNS = { same: " ", added: "+", removed: "−" };

/**
 * @param {object} props
 * @param {string} props.before
 * @param {string} props.after
 * @param {string} [props.path] of the file, as a head
 * @param {boolean} [props.strict] as of `SafeText`
 */
export function Diff({ before, after, path = "", strict = false }) {
  const diff = useMemo(() => diffLines(before, after), [before, after]);
  const [most, setMost] = useState(MOST_LINES);
  const lines = diff.hunks.flatMap((hunk, place) => (place === 0 ? hunk.lines : [null, ...hunk.lines]));
  const label = path === "" ? words.parts.changes : words.parts.changesOf(path);
  return html`<div class="diff" role="group" aria-label=${label}>
    <p class="diff-head"><span class="mono">${piecesAsNodes(path, true)}</span>
      <span class="number dim">${words.parts.changeCounts(diff.added, diff.removed)}</span></p>
    ${diff.isWhole ? null : html`<p class="dim small">${words.parts.notWhole}</p>`}
    ${lines.length === 0 ? html`<p class="dim">${words.parts.noChanges}</p>` : null}
    <pre class="diff-lines" tabindex="0" role="group" aria-label=${label} dir="ltr">${lines
      .slice(0, most)
      .map((line, place) => html`<${Line} key=${place} line=${line} strict=${strict} />`)}</pre>
    ${
      lines.length > most
        ? html`<button type="button" class="button small" onClick=${() => setMost(most + MOST_LINES * 5)}>
          ${words.parts.moreLines(lines.length - most)}</button>`
        : null
    }
  </div>`;
}

/**
 * @param {{ line: import("../pure/diff.js").DiffLine | null, strict: boolean }} props null: lines that stay are left out here
 */
function Line({ line, strict }) {
  const [isWhole, setWhole] = useState(false);
  if (line === null) return html`<span class="diff-line diff-skip" aria-hidden="true">⋯</span>`;
  const end = isWhole ? line.text.length : characterPlace(line.text, Math.min(line.text.length, LONG_LINE));
  const [from, to] = line.changed ?? [0, 0];
  const part = (/** @type {number} */ start, /** @type {number} */ stop) =>
    piecesAsNodes(line.text.slice(start, Math.min(stop, end)), strict);
  return html`<span class=${`diff-line diff-${line.kind}`}
    ><span class="diff-number" aria-hidden="true">${line.before ?? ""}</span
    ><span class="diff-number" aria-hidden="true">${line.after ?? ""}</span
    ><span class="diff-sign">${SIGNS[line.kind]}</span
    ><span class="diff-text">${
      from < to && from < end ? [part(0, from), html`<mark>${part(from, to)}</mark>`, part(to, end)] : part(0, end)
    }${
      end < line.text.length
        ? html`… <button type="button" class="button small" onClick=${() => setWhole(true)}>${words.parts.showWholeLines}</button>`
        : null
    }</span></span>`;
}

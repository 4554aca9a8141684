// A text with what is not seen in it made visible. Everything that came from outside and is no Markdown is drawn by this. No markup may enter.

import { bytes, exact } from "../pure/numbers.js";
import { safePieces } from "../pure/safe_text.js";
import { characterPlace, linesEnd, SHOWN, SHOWN_LINES } from "../pure/sizes.js";
import { text as words } from "../text/en.js";
import { html, useMemo, useState } from "../ui.js";

/**
 * @param {object} props
 * @param {string} props.text
 * @param {boolean} [props.strict] for what a person decides about: every character that is not seen is shown, also those that an emoji needs
 */
export function SafeText({ text, strict = false }) {
  const [steps, setSteps] = useState(0);
  const whole = typeof text === "string" ? text : String(text ?? "");
  const most = Math.min(SHOWN * (1 + steps * 5), linesEnd(whole, SHOWN_LINES * (1 + steps * 5)));
  const end = characterPlace(whole, Math.min(most, whole.length));
  const nodes = useMemo(() => piecesAsNodes(whole.slice(0, end), strict), [whole, end, strict]);
  if (end >= whole.length) return html`<span class="safe">${nodes}</span>`;
  return html`<span class="safe">${nodes}…</span>
    <button type="button" class="button small" onClick=${() => setSteps(steps + 1)}>
      ${words.parts.showMore(bytes(whole.length - end))}
    </button>`;
}

/**
 * @param {string} text
 * @param {boolean} strict
 * @returns {any[]}
 */
export function piecesAsNodes(text, strict) {
  return safePieces(text, strict).map((piece) => {
    if (piece.mark === null) return piece.text;
    if (piece.mark === "hidden") return hiddenMark(piece.text);
    return html`<span class="many-spaces" title=${words.parts.manySpaces(piece.text.length)}>${piece.text}</span><span class="hidden-mark"
      >⟦${words.parts.spacesMark(exact(piece.text.length))}⟧</span>`;
  });
}

/** @param {string} shown such as `⟦U+202E⟧` */
export function hiddenMark(shown) {
  return html`<span class="hidden-mark" title=${words.parts.hidden}>${shown}</span>`;
}

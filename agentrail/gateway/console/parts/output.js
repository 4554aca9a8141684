// What a program wrote, in a size that a browser can draw: with the colours of a terminal, cut where it is long, and never without a sign that it is.

import { hasAnsi, parseAnsi, readable, SIXTEEN } from "../pure/ansi.js";
import { bytes, exact } from "../pure/numbers.js";
import { safeText } from "../pure/safe_text.js";
import { cutLines, cutPlace, MOST_SHOWN, SHOWN } from "../pure/sizes.js";
import { text as words } from "../text/en.js";
import { html, useEffect, useMemo, useRef, useState } from "../ui.js";
import { useHighlight } from "./highlighted.js";
import { piecesAsNodes } from "./safe_text.js";

/** More runs than this, and the text is drawn without its styles. */
const MOST_RUNS = 4000;

/** The grounds that a colour has to be read on; as `--raised` and `--panel` in tokens.css, whichever is harder. */
const LIGHT = /** @type {const} */ ([241, 243, 247]);
const DARK = /** @type {const} */ ([37, 42, 51]);

/**
 * @param {object} props
 * @param {string} props.text
 * @param {string} [props.whole] what a download saves, where `text` is only its beginning
 * @param {string | null} [props.mime] `application/json` and its like are coloured as such
 * @param {string} [props.language] as a fence names it
 * @param {string} [props.label] what it is, for who does not see it
 * @param {string} [props.file] the name of the file that a download makes
 * @param {boolean} [props.strict] as of `SafeText`
 */
export function Output({
  text,
  whole = text,
  mime = null,
  language = "",
  label = words.parts.output,
  file = "output.txt",
  strict = false,
}) {
  const [most, setMost] = useState(SHOWN);
  const [isWide, setWide] = useState(false);
  const end = cutPlace(text, most);
  const part = useMemo(() => {
    const shown = text.slice(0, end);
    return isWide ? { text: shown, cut: 0 } : cutLines(shown);
  }, [text, end, isWide]);
  const code = language || (mime?.includes("json") ? "json" : "");
  const isSaved = whole.length > MOST_SHOWN;
  return html`<div class="output">
    <${Pre} text=${part.text} language=${end === text.length ? code : ""} label=${label} strict=${strict} />
    ${
      end < whole.length || part.cut > 0
        ? html`<div class="output-more">
            ${isSaved ? html`<span class="dim">${words.parts.tooLarge(bytes(whole.length), bytes(end))}</span>` : null}
            ${
              end < text.length && !isSaved
                ? html`<button type="button" class="button small" onClick=${() => setMost(MOST_SHOWN)}>${words.parts.showMore(bytes(text.length - end))}</button>`
                : null
            }
            ${
              part.cut > 0
                ? html`<span class="dim">${words.parts.lineCut(exact(part.cut))}</span>
                    ${isSaved ? null : html`<button type="button" class="button small" onClick=${() => setWide(true)}>${words.parts.showWholeLines}</button>`}`
                : null
            }
            <${Download} text=${whole} file=${file} />
          </div>`
        : null
    }
  </div>`;
}

/**
 * @param {{ text: string, language: string, label: string, strict: boolean }} props
 */
function Pre({ text, language, label, strict }) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const nodes = useMemo(
    () => (hasAnsi(text) ? styledNodes(text, strict) : piecesAsNodes(text, strict)),
    [text, strict],
  );
  useHighlight(ref, text, language);
  return html`<pre class="output-text" tabindex="0" role="group" aria-label=${label} dir="ltr"><code ref=${ref}>${nodes}</code></pre>`;
}

/**
 * Lets a text be saved as a file.
 * @param {{ text: string, file: string }} props
 */
export function Download({ text, file }) {
  const address = useRef("");
  useEffect(() => () => URL.revokeObjectURL(address.current), []);
  const save = () => {
    URL.revokeObjectURL(address.current);
    address.current = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    const link = document.createElement("a");
    link.href = address.current;
    link.download = file;
    link.click();
  };
  return html`<button type="button" class="button small" onClick=${save}>${words.parts.download(bytes(text.length))}</button>`;
}

// --- the colours of a terminal

/**
 * @param {string} text
 * @param {boolean} strict
 * @returns {any[]}
 */
function styledNodes(text, strict) {
  const lines = parseAnsi(text);
  const runs = lines.reduce((count, line) => count + line.length, 0);
  if (runs - lines.length > MOST_RUNS)
    return [lines.map((line) => safeText(line.map((run) => run.text).join(""), strict)).join("\n")];
  /** @type {any[]} */
  const nodes = [];
  lines.forEach((line, place) => {
    if (place > 0) nodes.push("\n");
    for (const run of line) nodes.push(runAsNode(run, strict));
  });
  return joinedTexts(nodes);
}

/**
 * Texts beside one another as one, so that a long output is one node and not one for each line.
 * @param {any[]} nodes
 */
function joinedTexts(nodes) {
  /** @type {any[]} */
  const joined = [];
  /** @type {string[]} */
  let texts = [];
  for (const node of nodes) {
    if (typeof node === "string") texts.push(node);
    else {
      if (texts.length > 0) joined.push(texts.join(""));
      texts = [];
      joined.push(node);
    }
  }
  if (texts.length > 0) joined.push(texts.join(""));
  return joined;
}

/**
 * @param {import("../pure/ansi.js").Run} run
 * @param {boolean} strict
 */
function runAsNode(run, strict) {
  const { style } = run;
  const classes = ["bold", "dim", "italic", "underline", "strike"]
    .filter((name) => style[/** @type {"bold"} */ (name)])
    .map((name) => `ansi-${name}`);
  /** @type {[Side, Side]} */
  const [fg, bg] = style.inverse ? [style.bg ?? "ground", style.fg ?? "text"] : [style.fg, style.bg];
  const colours = coloursOf(fg, bg, classes);
  const nodes = piecesAsNodes(run.text, strict);
  if (classes.length === 0 && nodes.length === 1) return nodes[0];
  return html`<span class=${classes.join(" ")} style=${colours}>${nodes}</span>`;
}

/** @typedef {import("../pure/ansi.js").Colour | "ground" | "text" | null} Side */

/**
 * Classes for the colours of the theme; a colour that a program chose is set by itself, so far changed that it can be read.
 * @param {Side} fg
 * @param {Side} bg
 * @param {string[]} classes gets what is needed
 * @returns {Record<string, string> | undefined}
 */
function coloursOf(fg, bg, classes) {
  if (bg === null) {
    if (fg === null) return undefined;
    if (typeof fg === "number") {
      classes.push(`ansi-${fg}`);
      return undefined;
    }
    if (typeof fg === "string") return undefined;
    classes.push("ansi-own");
    return { "--on-light": cssOf(readable(fg, LIGHT)), "--on-dark": cssOf(readable(fg, DARK)) };
  }
  if (bg === "text" && (fg === "ground" || fg === null)) {
    classes.push("ansi-inverse");
    return undefined;
  }
  const ground = numbersOf(bg, [27, 31, 39]);
  const letters = readable(numbersOf(fg, luminous(ground) ? [0, 0, 0] : [255, 255, 255]), ground);
  classes.push("ansi-ground");
  return { "--on-ground": cssOf(letters), "--ground-of": cssOf(ground) };
}

/**
 * @param {Side} side
 * @param {readonly [number, number, number]} otherwise
 * @returns {readonly [number, number, number]}
 */
function numbersOf(side, otherwise) {
  if (side === null || typeof side === "string") return otherwise;
  return typeof side === "number" ? (SIXTEEN[side] ?? otherwise) : side;
}

/** @param {readonly [number, number, number]} colour */
function luminous(colour) {
  return colour[0] * 0.299 + colour[1] * 0.587 + colour[2] * 0.114 > 140;
}

/** @param {readonly [number, number, number]} colour */
function cssOf(colour) {
  return `rgb(${colour[0]} ${colour[1]} ${colour[2]})`;
}

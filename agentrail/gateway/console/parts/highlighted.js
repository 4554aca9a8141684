// Colours in code by ranges of the CSS Highlight API: no node is made for them. Where the browser has none of it, code is plain.

import { TOKEN_KINDS, tokensOf } from "../pure/highlight.js";
import { useEffect } from "../ui.js";

/** How many ranges one code gets: what has more is data. */
const MOST_RANGES = 2000;

/** @type {Map<string, Highlight> | null} */
let registered = null;

/** @returns {Map<string, Highlight> | null} */
function highlights() {
  if (registered !== null) return registered;
  if (typeof CSS === "undefined" || !("highlights" in CSS) || typeof Highlight === "undefined") return null;
  registered = new Map(TOKEN_KINDS.map((kind) => [kind, new Highlight()]));
  for (const [kind, highlight] of registered) CSS.highlights.set(`code-${kind}`, highlight);
  return registered;
}

/**
 * Colour a code while it is seen, when there is time for it.
 * @param {{current: HTMLElement | null}} ref of the element that holds the code as one text
 * @param {string} code
 * @param {string} language empty: none
 */
export function useHighlight(ref, code, language) {
  useEffect(() => {
    const place = ref.current;
    if (place === null || language === "" || highlights() === null || typeof IntersectionObserver === "undefined")
      return undefined;
    /** @type {(() => void) | null} */
    let remove = null;
    const observer = new IntersectionObserver((entries) => {
      if (remove !== null || !entries.some((entry) => entry.isIntersecting)) return;
      remove = whenIdle(() => {
        remove = paint(place, code, language);
      });
    });
    observer.observe(place);
    return () => {
      observer.disconnect();
      remove?.();
    };
  }, [code, language]);
}

/**
 * @param {() => void} work
 * @returns {() => void} takes it back
 */
function whenIdle(work) {
  if (typeof requestIdleCallback === "undefined") {
    const timer = setTimeout(work, 50);
    return () => clearTimeout(timer);
  }
  const asked = requestIdleCallback(work, { timeout: 1000 });
  return () => cancelIdleCallback(asked);
}

/**
 * @param {HTMLElement} place
 * @param {string} code
 * @param {string} language
 * @returns {() => void} takes the colours away
 */
function paint(place, code, language) {
  const all = highlights();
  const node = place.firstChild;
  // With marks for what is not seen in it, the code is no longer one text: it stays plain.
  if (all === null || place.childNodes.length !== 1 || !(node instanceof Text) || node.data !== code) return () => {};
  /** @type {[Highlight, Range][]} */
  const made = [];
  for (const token of tokensOf(code, language).slice(0, MOST_RANGES)) {
    const range = new Range();
    range.setStart(node, token.from);
    range.setEnd(node, token.to);
    const highlight = /** @type {Highlight} */ (all.get(token.kind));
    highlight.add(range);
    made.push([highlight, range]);
  }
  return () => {
    for (const [highlight, range] of made) highlight.delete(range);
  };
}

// Markdown as a tree of plain objects, of a closed table of 24 tags: what `parts/text_view.js` draws. No HTML is ever made.
//
// Pure: no DOM. Nothing of the text decides a tag, an attribute or a class but through the table here. One parse takes at most 16 KiB.

import MarkdownIt from "../vendor/markdown-it.js";
import { otherHost, safeHref } from "./links.js";
import { safePieces } from "./safe_text.js";

/** All tags that a text can become. */
export const TAGS = Object.freeze([
  "p",
  "h4",
  "h5",
  "h6",
  "ul",
  "ol",
  "li",
  "blockquote",
  "pre",
  "code",
  "em",
  "strong",
  "s",
  "a",
  "hr",
  "br",
  "table",
  "thead",
  "tbody",
  "tr",
  "th",
  "td",
  "span",
  "div",
]);

/** How much one parse takes, in UTF-16 units: 11 ms where the machine is warm. */
export const MAX_BLOCK = 16_384;

const MOST_SEARCHED = 200_000;
const MOST_DEFINITIONS = 200;

/** How deep blocks and spans may stand in one another. */
export const MAX_NESTING = 40;

/**
 * @typedef {object} Element
 * @property {string} tag one of `TAGS`
 * @property {"hidden" | "address" | "picture" | "table" | "task" | "checked" | "unchecked" | null} kind what it is besides its tag
 * @property {string | null} href only of `a`
 * @property {"start" | "center" | "end" | null} align only of `th` and `td`
 * @property {number | null} first only of `ol`
 * @property {Node[]} children
 */

/** @typedef {Element | string} Node */

/** @typedef {Record<string, any>} References what `[name]: address` in another part of the message says, as markdown-it keeps it */

const parser = new MarkdownIt({
  html: false,
  linkify: true,
  breaks: false,
  typographer: false,
  maxNesting: MAX_NESTING,
});
// What is no address for us stays text, with all its signs.
parser.validateLink = (/** @type {string} */ address) => safeHref(address) !== null;
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });

/**
 * Parse one part of a message.
 * @param {string} text
 * @param {References} [references] of the whole message
 * @returns {Node[]} the text itself, where it cannot be parsed
 */
export function parseMarkdown(text, references = {}) {
  let tokens;
  try {
    tokens = parser.parse(text, { references: { ...references } });
  } catch {
    // No text is known that does this; it would be shown as it is.
    return [element("p", textNodes(text))];
  }
  const top = element("div");
  build(tokens, [top]);
  return top.children;
}

/** How many signs of a kind a block may have. Each opens something that is looked for up to the end of the block, or becomes a cell. */
const MOST_SIGNS = Object.freeze({ "[": 400, "|": 1200, "@": 400, "<": 4000, "*": 4000, _: 4000, "\n": 600 });

/** How many nodes one block may become: a browser lays some thousands out in a frame, and no more. */
export const MOST_NODES = 3000;

/**
 * Whether a block is drawn as plain text, until a person wants it formatted.
 * @param {string} text
 * @returns {boolean}
 */
export function isHeavy(text) {
  if (text.length > MAX_BLOCK) return true;
  return Object.entries(MOST_SIGNS).some(([sign, most]) => {
    let count = 0;
    for (let at = text.indexOf(sign); at >= 0 && count <= most; at = text.indexOf(sign, at + 1)) count += 1;
    return count > most;
  });
}

/**
 * How many nodes a tree has.
 * @param {readonly Node[]} nodes
 * @returns {number}
 */
export function countNodes(nodes) {
  return nodes.reduce((count, node) => count + 1 + (typeof node === "string" ? 0 : countNodes(node.children)), 0);
}

/**
 * What a message says about names that links in other parts of it use.
 * @param {string} text
 * @returns {References}
 */
export function referencesOf(text) {
  // More of them than this are no help to who reads.
  const lines = text.slice(0, MOST_SEARCHED).match(/^ {0,3}\[[^\]\n]{1,200}\]:[ \t]*\S[^\n]{0,2000}$/gm);
  if (lines === null) return {};
  /** @type {{references?: References}} */
  const found = {};
  try {
    parser.parse(lines.slice(0, MOST_DEFINITIONS).join("\n\n").slice(0, MAX_BLOCK), found);
  } catch {
    return {};
  }
  return found.references ?? {};
}

// --- tokens to nodes

/**
 * @param {string} tag
 * @param {Node[]} children
 * @returns {Element}
 */
function element(tag, children = []) {
  return { tag, kind: null, href: null, align: null, first: null, children };
}

/** What opens a tag, by the type of its token. Headings stand below that of their item, which is an `h3`. */
/** @type {Record<string, string>} */
const OPENS = {
  paragraph_open: "p",
  bullet_list_open: "ul",
  ordered_list_open: "ol",
  list_item_open: "li",
  blockquote_open: "blockquote",
  em_open: "em",
  strong_open: "strong",
  s_open: "s",
  thead_open: "thead",
  tbody_open: "tbody",
  tr_open: "tr",
  th_open: "th",
  td_open: "td",
};

/** @type {Record<string, string>} */
const HEADINGS = { h1: "h4", h2: "h5" };

/**
 * @param {any[]} tokens
 * @param {Element[]} open what is open, the innermost last; never empty
 */
function build(tokens, open) {
  for (const token of tokens) {
    const parent = /** @type {Element} */ (open.at(-1));
    if (token.hidden) continue; // the paragraphs of a tight list
    if (token.nesting === 1) {
      const child = opened(token);
      parent.children.push(child);
      open.push(child.kind === "table" ? /** @type {Element} */ (child.children[0]) : child);
    } else if (token.nesting === -1) {
      if (open.length > 1) close(/** @type {Element} */ (open.pop()), token);
    } else {
      single(token, parent);
    }
  }
}

/**
 * @param {any} token
 * @returns {Element}
 */
function opened(token) {
  const tag = Object.hasOwn(OPENS, token.type) ? OPENS[token.type] : undefined;
  if (token.type === "heading_open") return element(HEADINGS[token.tag] ?? "h6");
  // A wide table scrolls in a box of its own.
  if (token.type === "table_open") return { ...element("div", [element("table")]), kind: "table" };
  if (token.type === "link_open") {
    const href = safeHref(String(token.attrGet("href") ?? ""));
    return href === null ? element("span") : { ...element("a"), href };
  }
  const made = element(tag ?? "span");
  if (tag === "ol") made.first = Number(token.attrGet("start") ?? 1);
  if (tag === "th" || tag === "td") made.align = alignOf(token);
  return made;
}

/**
 * @param {any} token
 * @returns {Element["align"]}
 */
function alignOf(token) {
  const style = String(token.attrGet("style") ?? "");
  if (style.includes("center")) return "center";
  if (style.includes("right")) return "end";
  return style.includes("left") ? "start" : null;
}

/**
 * @param {Element} element_
 * @param {any} token
 */
function close(element_, token) {
  if (element_.tag === "li") markTask(element_);
  if (token.type !== "link_close" || element_.href === null) return;
  const host = otherHost(wordsOf(element_), element_.href);
  if (host !== null) element_.children.push({ ...element("span", [` (${host})`]), kind: "address" });
}

/**
 * Makes a task of an item that begins with `[ ] ` or `[x] `: a box in place of these signs.
 * @param {Element} item
 */
function markTask(item) {
  const [first] = item.children;
  const line = typeof first === "object" && first.tag === "p" ? first : item;
  const [words] = line.children;
  const found = typeof words === "string" ? /^\[([ xX])\]\s+/.exec(words) : null;
  if (typeof words !== "string" || found === null) return;
  const box = element("span", [found[1] === " " ? "☐" : "☑"]);
  box.kind = found[1] === " " ? "unchecked" : "checked";
  item.kind = "task";
  line.children.splice(0, 1, box, ` ${words.slice(found[0].length)}`);
}

/**
 * @param {any} token
 * @param {Element} parent
 */
function single(token, parent) {
  switch (token.type) {
    case "inline":
      build(token.children ?? [], [parent]);
      return;
    case "softbreak":
      parent.children.push("\n");
      return;
    case "hardbreak":
      parent.children.push(element("br"));
      return;
    case "hr":
      parent.children.push(element("hr"));
      return;
    case "code_inline":
      parent.children.push(element("code", textNodes(token.content)));
      return;
    case "code_block":
    case "fence":
      parent.children.push(element("pre", [element("code", textNodes(token.content))]));
      return;
    case "image": {
      const address = String(token.attrGet("src") ?? "");
      const words = token.content === "" ? address : `${token.content} (${address})`;
      parent.children.push({ ...element("span", textNodes(words)), kind: "picture" });
      return;
    }
    default:
      // Text, and whatever a later version of the parser calls it.
      parent.children.push(...textNodes(token.content));
  }
}

/**
 * Text as nodes: what is not seen in it is marked.
 * @param {string} text
 * @returns {Node[]}
 */
export function textNodes(text) {
  return safePieces(text).map((piece) =>
    piece.mark === null ? piece.text : { ...element("span", [piece.text]), kind: "hidden" },
  );
}

/**
 * The words in a node, without its marks.
 * @param {Node} node
 * @returns {string}
 */
export function wordsOf(node) {
  return typeof node === "string" ? node : node.children.map(wordsOf).join("");
}

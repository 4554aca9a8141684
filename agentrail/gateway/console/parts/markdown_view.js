// A message in Markdown: its blocks are parsed one by one, those that are finished once. Nodes come from the table of pure/markdown.js and from nothing else.

import { blocksOf, NO_BLOCKS } from "../pure/blocks.js";
import { countNodes, isHeavy, MOST_NODES, parseMarkdown, referencesOf } from "../pure/markdown.js";
import { text as words } from "../text/en.js";
import { h, html, useEffect, useMemo, useRef, useState } from "../ui.js";
import { Output } from "./output.js";
import { mayParse, onNextFrame, spend } from "./parse_budget.js";
import { hiddenMark, piecesAsNodes } from "./safe_text.js";

/** @typedef {import("../pure/blocks.js").MessageBlock} MessageBlock */
/** @typedef {import("../pure/blocks.js").Blocks} Blocks */
/** @typedef {import("../pure/markdown.js").Node} Node */

/** How many messages are kept with what was made of them. */
const KEPT_MESSAGES = 500;

/** A block that grows is parsed anew at once when it is short, and seldom when it is long: what came since stands behind it as plain text. */
const SHORT = 2048;
const LONG_PAUSE_MS = 150;

/** How many lines of a message are shown at first, and what a block counts besides its own. */
const MOST_LINES = 1500;
const FENCE_COST = 5;

/** What drawing a node costs of the budget of a frame, in characters to parse. */
const NODE_COST = 8;

/** @type {Map<string, Blocks>} the least recently drawn first */
const messages = new Map();
/** @type {WeakMap<MessageBlock, Node[] | "heavy">} `heavy`: more than a browser draws in a frame */
const parsed = new WeakMap();

/**
 * @param {string} text of a message that is complete
 * @param {Blocks} before what was made of it while it streamed
 * @returns {Blocks}
 */
function keptBlocks(text, before) {
  const known = messages.get(text);
  const blocks = known ?? blocksOf(text, before, true);
  messages.delete(text);
  messages.set(text, blocks);
  if (messages.size > KEPT_MESSAGES) messages.delete(/** @type {string} */ (messages.keys().next().value));
  return blocks;
}

/**
 * @param {object} props
 * @param {string} props.text
 * @param {boolean} [props.isFinal] whether no more comes
 */
export function Markdown({ text, isFinal = true }) {
  const before = useRef(NO_BLOCKS);
  const blocks = isFinal ? keptBlocks(text, before.current) : blocksOf(text, before.current);
  before.current = blocks;
  const references = useMemo(() => referencesOf(text), [isFinal ? text : ""]);
  const [steps, setSteps] = useState(1);
  const many = isFinal ? manyOf(blocks.blocks, MOST_LINES * steps) : blocks.blocks.length;
  const left = blocks.blocks.length - many;
  return html`<div class="markdown">
    ${blocks.blocks.slice(0, many).map((block, place) => html`<${Block} key=${place} block=${block} references=${references} />`)}
    ${
      left > 0
        ? html`<p><button type="button" class="button small" onClick=${() => setSteps(steps * 4)}>${words.parts.moreBlocks(left)}</button></p>`
        : null
    }
  </div>`;
}

/**
 * How many blocks of a message are shown: as many as have so many lines together. A message of a thousand items is no reading matter, and takes a second to lay out.
 * @param {readonly MessageBlock[]} blocks
 * @param {number} most
 * @returns {number}
 */
function manyOf(blocks, most) {
  let lines = 0;
  let many = 0;
  while (many < blocks.length && lines <= most) {
    const block = /** @type {MessageBlock} */ (blocks[many]);
    lines += FENCE_COST;
    if (block.kind === "text")
      for (let at = block.text.indexOf("\n"); at >= 0 && lines <= most; at = block.text.indexOf("\n", at + 1))
        lines += 1;
    many += 1;
  }
  return many;
}

/**
 * @param {{ block: MessageBlock, references: import("../pure/markdown.js").References }} props
 */
function Block({ block, references }) {
  if (block.kind === "fence") {
    const label = block.language === "" ? words.parts.code : words.parts.codeIn(block.language);
    const code = block.text.endsWith("\n") ? block.text.slice(0, -1) : block.text;
    return html`<${Output} text=${code} language=${block.closed ? block.language : ""} label=${label} />`;
  }
  return html`<${TextBlock} block=${block} references=${references} />`;
}

/**
 * @param {{ block: MessageBlock, references: import("../pure/markdown.js").References }} props
 */
function TextBlock({ block, references }) {
  const [isWanted, setWanted] = useState(false);
  const { nodes, rest } = useNodes(block, references, isWanted);
  if (nodes === "heavy") {
    return html`<div class="markdown-plain">
      <p class="dim small">${words.parts.longBlock}
        <button type="button" class="button small" onClick=${() => setWanted(true)}>${words.parts.showFormatted}</button></p>
      <${Output} text=${block.text} />
    </div>`;
  }
  // What waits for its turn is shown as it was written, for a frame or two.
  if (nodes === null) return html`<p class="markdown-block words" dir="auto">${piecesAsNodes(block.text, false)}</p>`;
  return html`<div class="markdown-block" dir="auto">${nodes.map(nodeOf)}${
    rest === "" ? null : html`<span class="words">${piecesAsNodes(rest, false)}</span>`
  }</div>`;
}

/**
 * What a block is, as far as it is known. `rest`: what came behind what was parsed. `at`: when that was.
 * @typedef {{nodes: Node[] | "heavy" | null, rest: string, at: number}} Drawn
 */

/**
 * What a block is made of, as soon as this frame has time for it.
 * @param {MessageBlock} block
 * @param {import("../pure/markdown.js").References} references
 * @param {boolean} isWanted whether it is to be parsed however long it is
 * @returns {Drawn}
 */
function useNodes(block, references, isWanted) {
  const [, setTurn] = useState(0);
  const last = useRef({ text: "", nodes: /** @type {Node[] | null} */ (null), at: 0 });
  const found = drawnNow(block, references, isWanted, last.current);
  if (found.rest === "" && typeof found.nodes === "object" && found.nodes !== null) {
    last.current = { text: block.text, nodes: found.nodes, at: found.at };
  }
  const isOpen = found.nodes === null || found.rest !== "";
  useEffect(() => (isOpen ? onNextFrame(() => setTurn((turn) => turn + 1)) : undefined));
  return found;
}

/**
 * @param {MessageBlock} block
 * @param {import("../pure/markdown.js").References} references
 * @param {boolean} isWanted
 * @param {{text: string, nodes: Node[] | null, at: number}} last
 * @returns {Drawn}
 */
function drawnNow(block, references, isWanted, last) {
  const known = parsed.get(block);
  if (known !== undefined && (known !== "heavy" || !isWanted)) return { nodes: known, rest: "", at: last.at };
  if (!isWanted && isHeavy(block.text)) {
    parsed.set(block, "heavy");
    return { nodes: "heavy", rest: "", at: 0 };
  }
  const time = performance.now();
  const grew = last.nodes !== null && block.text.startsWith(last.text);
  const isEarly = !block.closed && grew && block.text.length > SHORT && time - last.at < LONG_PAUSE_MS;
  if (isEarly || !mayParse(block.text.length)) {
    return grew
      ? { nodes: last.nodes, rest: block.text.slice(last.text.length), at: last.at }
      : { nodes: null, rest: "", at: 0 };
  }
  return { nodes: parsedNow(block, references, isWanted), rest: "", at: time };
}

/**
 * @param {MessageBlock} block
 * @param {import("../pure/markdown.js").References} references
 * @param {boolean} isWanted
 * @returns {Node[] | "heavy"}
 */
function parsedNow(block, references, isWanted) {
  const nodes = parseMarkdown(block.text, references);
  const count = countNodes(nodes);
  spend(count * NODE_COST);
  const drawn = count > MOST_NODES && !isWanted ? "heavy" : nodes;
  parsed.set(block, drawn);
  return drawn;
}

/**
 * @param {Node} node
 * @returns {any}
 */
function nodeOf(node) {
  if (typeof node === "string") return node;
  if (node.kind === "hidden") return hiddenMark(/** @type {string} */ (node.children[0]));
  const children = node.children.map(nodeOf);
  return h(/** @type {any} */ (node.tag), attributesOf(node), ...children);
}

/**
 * @param {import("../pure/markdown.js").Element} node
 * @returns {Record<string, any> | null}
 */
function attributesOf(node) {
  if (node.tag === "a") {
    return { href: node.href, title: node.href, target: "_blank", rel: "noopener noreferrer nofollow" };
  }
  if (node.tag === "ol" && node.first !== null && node.first !== 1) return { start: node.first };
  if (node.kind === "table") return { class: "markdown-table", tabindex: 0, role: "group" };
  if (node.kind === "checked" || node.kind === "unchecked") {
    return { class: `markdown-${node.kind}`, role: "img", "aria-label": words.parts.tasks[node.kind] };
  }
  if (node.kind !== null) return { class: `markdown-${node.kind}` };
  if (node.align !== null) return { class: `align-${node.align}` };
  return null;
}

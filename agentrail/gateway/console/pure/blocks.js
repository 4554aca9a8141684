// A message in blocks that can be parsed and drawn one by one: cut at blank lines, and around fences of code.
//
// Pure. It is what makes a long answer cheap while it streams: a block that is finished never changes again, so it is parsed once.

/**
 * A part of a message.
 * @typedef {object} MessageBlock
 * @property {"text" | "fence"} kind
 * @property {string} text its source; of a fence the code alone
 * @property {string} language of a fence, as it was written; empty where it was not
 * @property {number} from where it begins in the message
 * @property {boolean} closed whether nothing that comes can change it
 */

/**
 * A message that may still grow.
 * @typedef {object} Blocks
 * @property {string} text
 * @property {MessageBlock[]} blocks
 * @property {number} from where what is not finished begins
 */

/** @type {Blocks} */
export const NO_BLOCKS = Object.freeze({ text: "", blocks: [], from: 0 });

/** A list that is longer is cut between two of its items; what is longer without a blank line is no text that a person wrote. */
const LONG_LIST = 2048;

/**
 * The blocks of a message. Where it is what it was, and more, those that were finished are the same objects.
 * @param {string} text
 * @param {Blocks} before what this gave for the beginning of it
 * @param {boolean} isFinal whether no more comes
 * @returns {Blocks}
 */
export function blocksOf(text, before = NO_BLOCKS, isFinal = false) {
  if (text === before.text && (!isFinal || before.blocks.at(-1)?.closed !== false)) return before;
  const grew = before.text !== "" && text.startsWith(before.text);
  const kept = grew ? before.blocks.filter((block) => block.closed) : [];
  const found = scan(text, grew ? before.from : 0, isFinal);
  const blocks = [...kept, ...found.blocks];
  const last = blocks.at(-1);
  if (isFinal && last !== undefined && !last.closed) blocks[blocks.length - 1] = { ...last, closed: true };
  return { text, blocks, from: found.start };
}

const FENCE = /^(`{3,}(?=[^`]*$)|~{3,})[ \t]*([^\s`]*)/;
const LIST_ITEM = /^(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$)/;

/**
 * @param {string} text
 * @param {number} from the beginning of a line
 * @param {boolean} isFinal
 * @returns {Scanner} at the end of it
 */
function scan(text, from, isFinal) {
  const scanner = new Scanner(text, from, isFinal);
  while (scanner.at < text.length) scanner.line();
  scanner.done();
  return scanner;
}

class Scanner {
  /**
   * @param {string} text
   * @param {number} from
   * @param {boolean} isFinal whether the last line has ended, though nothing stands behind it
   */
  constructor(text, from, isFinal) {
    this.text = text;
    this.isFinal = isFinal;
    this.at = from;
    this.start = from;
    /** @type {MessageBlock[]} */
    this.blocks = [];
    this.isBlank = false; // whether the line before was blank
    this.isList = false; // whether the block is a list
    /** @type {{sign: string, isTop: boolean, language: string, from: number} | null} */
    this.fence = null;
  }

  line() {
    const newline = this.text.indexOf("\n", this.at);
    const end = newline < 0 ? this.text.length : newline;
    const next = newline < 0 ? this.text.length : newline + 1;
    const line = this.text.slice(this.at, Math.min(end, this.at + 256));
    const isWhole = newline >= 0 || this.isFinal;
    // A line at the margin ends a list, and with it a fence that stands in one of its items.
    if (this.fence !== null && !this.fence.isTop && /^\S/.test(line)) this.fence = null;
    if (this.fence !== null) this.inFence(line, next, isWhole);
    else this.outside(line, next, isWhole);
    this.at = next;
  }

  /**
   * @param {string} line
   * @param {number} next
   * @param {boolean} isWhole
   */
  inFence(line, next, isWhole) {
    const fence = /** @type {NonNullable<Scanner["fence"]>} */ (this.fence);
    const bare = line.trim();
    // A line that has not ended may still become one that closes nothing.
    const closes = isWhole && bare.length >= fence.sign.length && bare === fence.sign.charAt(0).repeat(bare.length);
    if (!closes) return;
    this.fence = null;
    this.isBlank = false;
    if (!fence.isTop) return;
    this.push("fence", this.text.slice(fence.from, this.at), fence.language, true);
    this.start = next;
    this.isList = false;
  }

  /**
   * @param {string} line
   * @param {number} next
   * @param {boolean} isWhole
   */
  outside(line, next, isWhole) {
    if (line.trim() === "") {
      if (isWhole) this.isBlank = true;
      return;
    }
    const opens = FENCE.exec(line.trimStart());
    // The line that opens a fence tells its language, so it has to be whole.
    if (opens !== null && isWhole) {
      const isTop = /^\S/.test(line) || (!this.isList && /^ {1,3}\S/.test(line));
      if (isTop) this.cut();
      this.fence = { sign: /** @type {string} */ (opens[1]), isTop, language: opens[2] ?? "", from: next };
      this.isBlank = false;
      return;
    }
    const isItem = LIST_ITEM.test(line);
    // In a list only a whole line tells whether it is one more item.
    const begins = this.isBlank && /^\S/.test(line) && (isWhole || !this.isList);
    const goesOn = this.isList && isItem && this.at - this.start < LONG_LIST;
    if (begins && !goesOn) this.cut();
    if (this.start === this.at) this.isList = isItem;
    this.isBlank = false;
  }

  /** End the block in front of this line. */
  cut() {
    if (this.at > this.start) this.push("text", this.text.slice(this.start, this.at), "", true);
    this.start = this.at;
    this.isList = false;
  }

  /**
   * @param {"text" | "fence"} kind
   * @param {string} text
   * @param {string} language
   * @param {boolean} closed
   */
  push(kind, text, language, closed) {
    if (kind === "text" && text.trim() === "") return;
    this.blocks.push({ kind, text, language, from: this.start, closed });
  }

  done() {
    if (this.fence?.isTop) this.push("fence", this.text.slice(this.fence.from), this.fence.language, false);
    else if (this.start < this.text.length) this.push("text", this.text.slice(this.start), "", false);
  }
}

// JSON read strictly, with the text of each number as it was written: `JSON.parse` makes another number of `9007199254740993`.
//
// Pure. What comes out is a tree of nodes, which can be written again as it was, checked against a schema, and hashed; no DOM may enter.
// Strict: one value and nothing else, no name twice in one object, no half of a character, and no deeper than `MOST_DEEP`.

/** How deep values may be nested: more than any server takes, and less than the stack of any browser. */
export const MOST_DEEP = 1_000;

/**
 * @typedef {{ kind: "object", members: [string, JsonNode][] }} ObjectNode
 * @typedef {{ kind: "array", items: JsonNode[] }} ArrayNode
 * @typedef {{ kind: "string", value: string }} StringNode
 * @typedef {{ kind: "number", source: string }} NumberNode
 * @typedef {{ kind: "literal", value: boolean | null }} LiteralNode
 * @typedef {ObjectNode | ArrayNode | StringNode | NumberNode | LiteralNode} JsonNode
 */

/** Why a text is not strict JSON, and where. Words for people are made of `fault` in `text/`. */
export class JsonFault extends Error {
  /**
   * @param {"end" | "value" | "rest" | "name" | "colon" | "comma" | "number" | "escape" | "control" | "double" | "deep" | "half"} fault
   * @param {string} source
   * @param {number} at
   * @param {string} [name] Of the member that is there twice.
   */
  constructor(fault, source, at, name = "") {
    super(`${fault} at ${at}`);
    this.fault = fault;
    this.at = at;
    this.name_ = name;
    const before = source.slice(0, at);
    this.line = before.split("\n").length;
    this.column = at - (before.lastIndexOf("\n") + 1) + 1;
  }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const SPACE = /[ \t\n\r]*/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON forbids just these
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const HALF = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;
/** @type {Record<string, string>} */
const ESCAPES = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
/** @type {[string, boolean | null][]} */
const LITERALS = [
  ["true", true],
  ["false", false],
  ["null", null],
];

/**
 * Reads a text.
 * @param {string} source
 * @param {{ allowHalves?: boolean }} [options] `allowHalves`: of what a server sent, which a person does not type
 * @returns {JsonNode}
 * @throws {JsonFault}
 */
export function parseJson(source, options = {}) {
  const reader = new Reader(source, options.allowHalves ?? false);
  reader.skip();
  const node = reader.value(0);
  reader.skip();
  if (reader.at < source.length) throw new JsonFault("rest", source, reader.at);
  return node;
}

class Reader {
  /** @param {string} source @param {boolean} allowHalves */
  constructor(source, allowHalves) {
    this.source = source;
    this.at = 0;
    this.allowHalves = allowHalves;
  }

  skip() {
    SPACE.lastIndex = this.at;
    SPACE.test(this.source);
    this.at = SPACE.lastIndex;
  }

  /** @param {ConstructorParameters<typeof JsonFault>[0]} fault @param {number} [at] @param {string} [name] */
  fail(fault, at = this.at, name = "") {
    return new JsonFault(this.at >= this.source.length && fault !== "double" ? "end" : fault, this.source, at, name);
  }

  /** @param {number} depth @returns {JsonNode} */
  value(depth) {
    if (depth > MOST_DEEP) throw this.fail("deep");
    const first = this.source[this.at];
    if (first === "{") return this.object(depth);
    if (first === "[") return this.array(depth);
    if (first === '"') return { kind: "string", value: this.string() };
    for (const [word, value] of LITERALS) {
      if (!this.source.startsWith(word, this.at)) continue;
      this.at += word.length;
      return { kind: "literal", value };
    }
    return this.number();
  }

  /** @returns {NumberNode} */
  number() {
    NUMBER.lastIndex = this.at;
    const found = NUMBER.exec(this.source);
    if (found === null) throw this.fail("value");
    // Such as `01`, `1.`, `.5` and `1e`: the part in front of what is wrong would be a number.
    const next = this.source[NUMBER.lastIndex] ?? "";
    if (/[\d.eE+-]/.test(next)) throw this.fail("number");
    this.at = NUMBER.lastIndex;
    return { kind: "number", source: found[0] };
  }

  /** @param {number} depth @returns {ObjectNode} */
  object(depth) {
    /** @type {[string, JsonNode][]} */
    const members = [];
    const names = new Set();
    this.at += 1;
    this.skip();
    while (this.source[this.at] !== "}") {
      if (members.length > 0) this.expect(",", "comma");
      if (this.source[this.at] !== '"') throw this.fail("name");
      const at = this.at;
      const name = this.string();
      if (names.has(name)) throw this.fail("double", at, name);
      names.add(name);
      this.skip();
      this.expect(":", "colon");
      members.push([name, this.value(depth + 1)]);
      this.skip();
    }
    this.at += 1;
    return { kind: "object", members };
  }

  /** @param {number} depth @returns {ArrayNode} */
  array(depth) {
    /** @type {JsonNode[]} */
    const items = [];
    this.at += 1;
    this.skip();
    while (this.source[this.at] !== "]") {
      if (items.length > 0) this.expect(",", "comma");
      items.push(this.value(depth + 1));
      this.skip();
    }
    this.at += 1;
    return { kind: "array", items };
  }

  /** @param {string} sign @param {"colon" | "comma"} fault */
  expect(sign, fault) {
    if (this.source[this.at] !== sign) throw this.fail(fault);
    this.at += 1;
    this.skip();
  }

  /** @returns {string} */
  string() {
    const begin = this.at;
    const parts = [];
    this.at += 1;
    for (;;) {
      PLAIN.lastIndex = this.at;
      PLAIN.test(this.source);
      parts.push(this.source.slice(this.at, PLAIN.lastIndex));
      this.at = PLAIN.lastIndex;
      const sign = this.source[this.at];
      if (sign === '"') break;
      if (sign !== "\\") throw this.fail("control");
      parts.push(this.escape());
    }
    this.at += 1;
    const value = parts.join("");
    if (!this.allowHalves && HALF.test(value)) throw new JsonFault("half", this.source, begin);
    return value;
  }

  escape() {
    const sign = this.source[this.at + 1] ?? "";
    if (sign === "u") {
      const digits = this.source.slice(this.at + 2, this.at + 6);
      if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw this.fail("escape");
      this.at += 6;
      return String.fromCharCode(Number.parseInt(digits, 16));
    }
    const meant = ESCAPES[sign];
    if (meant === undefined) throw this.fail("escape");
    this.at += 2;
    return meant;
  }
}

/**
 * Writes a tree as people read it: two spaces a level, each number as it was written.
 * @param {JsonNode} node
 * @param {string} [indent]
 * @returns {string}
 */
export function prettyText(node, indent = "") {
  const inner = `${indent}  `;
  switch (node.kind) {
    case "object": {
      if (node.members.length === 0) return "{}";
      const lines = node.members.map(([name, value]) => `${inner}${JSON.stringify(name)}: ${prettyText(value, inner)}`);
      return `{\n${lines.join(",\n")}\n${indent}}`;
    }
    case "array": {
      if (node.items.length === 0) return "[]";
      return `[\n${node.items.map((item) => inner + prettyText(item, inner)).join(",\n")}\n${indent}]`;
    }
    default:
      return scalarText(node);
  }
}

/**
 * Writes what is no object and no array.
 * @param {StringNode | NumberNode | LiteralNode} node
 */
export function scalarText(node) {
  return node.kind === "number" ? node.source : JSON.stringify(node.value);
}

/**
 * Whether JavaScript holds a number as it was written: a whole one up to 2^53, or one whose digits come out again.
 * @param {string} source
 */
export function isHeld(source) {
  const value = Number(source);
  if (!Number.isFinite(value)) return false;
  if (/^-?\d+$/.test(source)) return Number.isSafeInteger(value) && !Object.is(value, -0);
  return sameDigits(source, value);
}

/**
 * Whether the shortest digits of a value are those of a text: `0.10` and `1e2` are, `0.1000000000000000055` is not.
 * @param {string} source
 * @param {number} value
 */
function sameDigits(source, value) {
  return digitsOf(source) === digitsOf(String(value));
}

/** @param {string} text Of a finite number. */
function digitsOf(text) {
  const [, sign = "", whole = "", part = "", power = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
  const all = whole + part;
  const digits = all.replace(/^0+/, "").replace(/0+$/, "");
  if (digits === "") return "0";
  const zeros = all.length - all.replace(/0+$/, "").length;
  return `${sign}${digits}e${Number(power) - part.length + zeros}`;
}

/**
 * The numbers that JavaScript cannot hold, by their texts, each once.
 * @param {JsonNode} node
 * @returns {string[]}
 */
export function unheldNumbers(node) {
  /** @type {Set<string>} */
  const found = new Set();
  walk(node, (one) => {
    if (one.kind === "number" && !isHeld(one.source)) found.add(one.source);
  });
  return [...found];
}

/**
 * All texts of a tree: the names of members too.
 * @param {JsonNode} node
 * @returns {string[]}
 */
export function textsOf(node) {
  /** @type {string[]} */
  const found = [];
  walk(node, (one) => {
    if (one.kind === "string") found.push(one.value);
    if (one.kind === "object") for (const [name] of one.members) found.push(name);
  });
  return found;
}

/**
 * @param {JsonNode} node
 * @param {(node: JsonNode) => void} see
 */
function walk(node, see) {
  see(node);
  if (node.kind === "object") for (const [, value] of node.members) walk(value, see);
  if (node.kind === "array") for (const item of node.items) walk(item, see);
}

/**
 * Makes the value of a tree that `JSON.stringify` writes as it was: numbers keep their text where the browser can do that, so that `1.0` is
 * not sent as `1`. Only of a tree without `unheldNumbers`.
 * @param {JsonNode} node
 * @returns {any}
 */
export function plainValue(node) {
  switch (node.kind) {
    case "object": {
      // Without a prototype: `__proto__` is a name like others.
      const made = Object.create(null);
      for (const [name, value] of node.members) made[name] = plainValue(value);
      return made;
    }
    case "array":
      return node.items.map(plainValue);
    case "number":
      return rawNumber(node.source);
    default:
      return node.value;
  }
}

/** @param {string} source */
function rawNumber(source) {
  const value = Number(source);
  const raw = /** @type {any} */ (JSON).rawJSON;
  return String(value) === source || typeof raw !== "function" ? value : raw(source);
}

/**
 * Makes a tree of a value, as `JSON.stringify` would write it.
 * @param {unknown} value
 * @returns {JsonNode}
 */
export function nodeOf(value) {
  return parseJson(JSON.stringify(value) ?? "null", { allowHalves: true });
}

/**
 * Puts a value in the place of a member, or behind the last one; the others stay as they are.
 * @param {ObjectNode} node
 * @param {string} name
 * @param {JsonNode | null} value null takes the member away
 * @returns {ObjectNode}
 */
export function withMember(node, name, value) {
  const isThere = node.members.some(([one]) => one === name);
  if (value === null) return { kind: "object", members: node.members.filter(([one]) => one !== name) };
  if (!isThere) return { kind: "object", members: [...node.members, [name, value]] };
  return { kind: "object", members: node.members.map(([one, old]) => (one === name ? [one, value] : [one, old])) };
}

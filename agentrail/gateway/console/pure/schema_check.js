// Arguments held against the schema of a tool, before they are sent: what a person wrote wrongly is named where it stands. The server holds them
// against it once more, and has the last word: what is not known here (formats, conditions, references elsewhere) is let pass.
//
// Pure. Of JSON Schema, draft 2020-12, this knows the words that tools use. Faults are data; words for people are made of them in `text/`.

import { canonicalText, isSame } from "./canonical.js";
import { nodeOf } from "./json_text.js";

/** @typedef {import("./json_text.js").JsonNode} JsonNode */

/**
 * @typedef {object} Fault
 * @property {string} path such as `$.orders[2].id`
 * @property {"type" | "required" | "unknown" | "enum" | "least" | "most" | "short" | "long" | "pattern" | "few" | "many" | "unique" | "multiple" | "none" | "several" | "never"} fault
 * @property {string} [wanted] what was expected
 */

/** @typedef {Record<string, any> | boolean} Schema */

const MOST_FAULTS = 10;
const MOST_DEEP = 64;

/**
 * Holds a value against a schema.
 * @param {JsonNode} node
 * @param {Schema | null} schema
 * @returns {Fault[]} at most ten; none where all is well, or there is no schema
 */
export function faultsOf(node, schema) {
  if (schema === null || schema === undefined) return [];
  const check = new Check(schema);
  check.hold(node, schema, "$", 0);
  return check.faults.slice(0, MOST_FAULTS);
}

class Check {
  /** @param {Schema} root */
  constructor(root) {
    this.root = root;
    /** @type {Fault[]} */
    this.faults = [];
  }

  /** @param {string} path @param {Fault["fault"]} fault @param {unknown} [wanted] */
  add(path, fault, wanted) {
    this.faults.push(wanted === undefined ? { path, fault } : { path, fault, wanted: String(wanted) });
  }

  /** @param {JsonNode} node @param {Schema} schema @param {string} path @param {number} depth @returns {void} */
  hold(node, schema, path, depth) {
    if (depth > MOST_DEEP || this.faults.length >= MOST_FAULTS || schema === true) return;
    if (schema === false) {
      this.add(path, "never");
      return;
    }
    const referred = typeof schema["$ref"] === "string" ? this.find(schema["$ref"]) : null;
    if (referred !== null) this.hold(node, referred, path, depth + 1);
    if (!this.holdKind(node, schema, path)) return;
    this.holdWords(node, schema, path);
    if (node.kind === "string") this.holdText(node.value, schema, path);
    if (node.kind === "number") this.holdNumber(Number(node.source), schema, path);
    if (node.kind === "array") this.holdItems(node, schema, path, depth);
    if (node.kind === "object") this.holdMembers(node, schema, path, depth);
    this.holdChoices(node, schema, path, depth);
  }

  /** @param {string} reference @returns {Schema | null} */
  find(reference) {
    if (!reference.startsWith("#")) return null;
    /** @type {any} */
    let found = this.root;
    for (const part of reference.slice(1).split("/").slice(1)) {
      const name = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
      if (found === null || typeof found !== "object" || !Object.hasOwn(found, name)) return null;
      found = found[name];
    }
    return found;
  }

  /** @param {JsonNode} node @param {Record<string, any>} schema @param {string} path */
  holdKind(node, schema, path) {
    const wanted = schema["type"];
    if (wanted === undefined) return true;
    const kinds = Array.isArray(wanted) ? wanted : [wanted];
    if (kinds.some((kind) => isOfKind(node, kind))) return true;
    this.add(path, "type", kinds.join(", "));
    return false;
  }

  /** @param {JsonNode} node @param {Record<string, any>} schema @param {string} path */
  holdWords(node, schema, path) {
    if ("const" in schema && !isEqual(node, schema["const"])) this.add(path, "enum", JSON.stringify(schema["const"]));
    const words = schema["enum"];
    if (Array.isArray(words) && !words.some((word) => isEqual(node, word))) {
      this.add(path, "enum", words.map((word) => JSON.stringify(word)).join(", "));
    }
  }

  /** @param {string} text @param {Record<string, any>} schema @param {string} path */
  holdText(text, schema, path) {
    const { minLength, maxLength, pattern } = schema;
    const length = minLength === undefined && maxLength === undefined ? 0 : [...text].length;
    if (length < (minLength ?? 0)) this.add(path, "short", minLength);
    if (length > (maxLength ?? Number.POSITIVE_INFINITY)) this.add(path, "long", maxLength);
    if (typeof pattern === "string" && !fits(pattern, text)) this.add(path, "pattern", pattern);
  }

  /** @param {number} value @param {Record<string, any>} schema @param {string} path */
  holdNumber(value, schema, path) {
    const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema;
    if (value < (minimum ?? -Infinity)) this.add(path, "least", minimum);
    if (value > (maximum ?? Infinity)) this.add(path, "most", maximum);
    if (value <= (exclusiveMinimum ?? -Infinity)) this.add(path, "least", `> ${exclusiveMinimum}`);
    if (value >= (exclusiveMaximum ?? Infinity)) this.add(path, "most", `< ${exclusiveMaximum}`);
    // Of fractions the remainder is no whole number for reasons of its own: the server says of those.
    const isWhole = Number.isSafeInteger(multipleOf) && Number.isSafeInteger(value);
    if (isWhole && value % multipleOf !== 0) this.add(path, "multiple", multipleOf);
  }

  /** @param {import("./json_text.js").ArrayNode} node @param {Record<string, any>} schema @param {string} path @param {number} depth */
  holdItems(node, schema, path, depth) {
    const { minItems, maxItems, uniqueItems, prefixItems, items } = schema;
    if (node.items.length < (minItems ?? 0)) this.add(path, "few", minItems);
    if (node.items.length > (maxItems ?? Number.POSITIVE_INFINITY)) this.add(path, "many", maxItems);
    if (uniqueItems === true && new Set(node.items.map(canonicalText)).size < node.items.length)
      this.add(path, "unique");
    const first = Array.isArray(prefixItems) ? prefixItems : [];
    node.items.forEach((item, index) => {
      const own = index < first.length ? first[index] : items;
      if (own !== undefined) this.hold(item, own, `${path}[${index}]`, depth + 1);
    });
  }

  /** @param {import("./json_text.js").ObjectNode} node @param {Record<string, any>} schema @param {string} path @param {number} depth */
  holdMembers(node, schema, path, depth) {
    const properties = schema["properties"] ?? {};
    const names = new Set(node.members.map(([name]) => name));
    for (const name of schema["required"] ?? []) {
      if (!names.has(name)) this.add(stepOf(path, name), "required");
    }
    if (names.size < (schema["minProperties"] ?? 0)) this.add(path, "few", schema["minProperties"]);
    if (names.size > (schema["maxProperties"] ?? Number.POSITIVE_INFINITY))
      this.add(path, "many", schema["maxProperties"]);
    for (const [name, value] of node.members) {
      const step = stepOf(path, name);
      if (Object.hasOwn(properties, name)) this.hold(value, properties[name], step, depth + 1);
      else if (!hasPattern(schema, name)) this.holdOther(value, schema["additionalProperties"], step, depth);
    }
  }

  /** @param {JsonNode} value @param {Schema | undefined} other @param {string} path @param {number} depth */
  holdOther(value, other, path, depth) {
    if (other === false) this.add(path, "unknown");
    else if (other !== undefined) this.hold(value, other, path, depth + 1);
  }

  /** @param {JsonNode} node @param {Record<string, any>} schema @param {string} path @param {number} depth */
  holdChoices(node, schema, path, depth) {
    for (const one of schema["allOf"] ?? []) this.hold(node, one, path, depth + 1);
    if (Array.isArray(schema["anyOf"]) && this.fitting(node, schema["anyOf"], depth) === 0) this.add(path, "none");
    if (Array.isArray(schema["oneOf"])) {
      const count = this.fitting(node, schema["oneOf"], depth);
      if (count !== 1) this.add(path, count === 0 ? "none" : "several");
    }
    if (schema["not"] !== undefined && this.fitting(node, [schema["not"]], depth) === 1) this.add(path, "never");
  }

  /** @param {JsonNode} node @param {Schema[]} choices @param {number} depth */
  fitting(node, choices, depth) {
    return choices.filter((choice) => {
      const alone = new Check(this.root);
      alone.hold(node, choice, "$", depth + 1);
      return alone.faults.length === 0;
    }).length;
  }
}

/** @param {JsonNode} node @param {string} kind */
function isOfKind(node, kind) {
  switch (kind) {
    case "integer":
      return node.kind === "number" && Number.isInteger(Number(node.source));
    case "boolean":
      return node.kind === "literal" && node.value !== null;
    case "null":
      return node.kind === "literal" && node.value === null;
    case "object":
    case "array":
    case "string":
    case "number":
      return node.kind === kind;
    default:
      return true;
  }
}

/** @param {JsonNode} node @param {unknown} value */
function isEqual(node, value) {
  if (node.kind === "number") return typeof value === "number" && Number(node.source) === value;
  return isSame(node, nodeOf(value));
}

/** @param {string} path @param {string} name */
function stepOf(path, name) {
  return /^[A-Za-z_]\w*$/.test(name) ? `${path}.${name}` : `${path}[${JSON.stringify(name)}]`;
}

/** @param {Record<string, any>} schema @param {string} name */
function hasPattern(schema, name) {
  return Object.keys(schema["patternProperties"] ?? {}).some((pattern) => fits(pattern, name));
}

/** @param {string} pattern @param {string} text Of a pattern that this browser cannot read, the server says. */
function fits(pattern, text) {
  // One that takes long on a long text would hold the page: it is left to the server, which bounds it.
  if (text.length > 2_000) return true;
  try {
    return new RegExp(pattern, "u").test(text);
  } catch {
    return true;
  }
}

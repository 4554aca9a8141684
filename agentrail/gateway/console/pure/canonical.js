// Arguments in the one form that is hashed, and their SHA-256: equal to the server's `arguments_hash`, so that a page can show that
// what stands on the screen is what would run.
//
// Pure. The hash is worked out here and not by WebCrypto, which browsers have on `https:` and on the machine itself only: a console that is
// reached by `http:` in a network at home would show no hash just where a stranger could change what it is sent.

/** @typedef {import("./json_text.js").JsonNode} JsonNode */

/**
 * Writes a tree in the form that is hashed: names sorted by their characters, no spaces, each number as it was written. What a server hashed
 * comes in `arguments_text`, whose numbers are written as it hashes them.
 * @param {JsonNode} node
 * @returns {string}
 */
export function canonicalText(node) {
  // Half of a character has no UTF-8: then the server writes all that is not ASCII as escapes.
  return write(node, hasHalves(node) ? asciiText : plainText);
}

/**
 * The SHA-256 of a tree in that form.
 * @param {JsonNode} node
 * @returns {string} 64 hexadecimal digits
 */
export function hashOf(node) {
  return sha256(new TextEncoder().encode(canonicalText(node)));
}

/**
 * Whether two trees are the same arguments: `1` and `1.0` are two, as they are to the server; the order of names says nothing.
 * @param {JsonNode} one
 * @param {JsonNode} other
 */
export function isSame(one, other) {
  return canonicalText(one) === canonicalText(other);
}

/**
 * @param {JsonNode} node
 * @param {(text: string) => string} quote
 * @returns {string}
 */
function write(node, quote) {
  switch (node.kind) {
    case "object": {
      const members = [...node.members].sort(([one], [other]) => compareCharacters(one, other));
      return `{${members.map(([name, value]) => `${quote(name)}:${write(value, quote)}`).join(",")}}`;
    }
    case "array":
      return `[${node.items.map((item) => write(item, quote)).join(",")}]`;
    case "string":
      return quote(node.value);
    case "number":
      return node.source;
    default:
      return String(node.value);
  }
}

/**
 * By characters, as the server sorts; JavaScript sorts by halves of them.
 * @param {string} one
 * @param {string} other
 */
export function compareCharacters(one, other) {
  const most = Math.min(one.length, other.length);
  let at = 0;
  while (at < most && one.charCodeAt(at) === other.charCodeAt(at)) at += 1;
  if (at === most) return one.length - other.length;
  // Where both halves of a character differ in the second one only, both begin with the same half.
  if (at > 0 && isLead(one.charCodeAt(at - 1)) && isTrail(one.charCodeAt(at)) && isTrail(other.charCodeAt(at))) at -= 1;
  return Number(one.codePointAt(at)) - Number(other.codePointAt(at));
}

/** @param {number} unit */
const isLead = (unit) => unit >= 0xd800 && unit <= 0xdbff;
/** @param {number} unit */
const isTrail = (unit) => unit >= 0xdc00 && unit <= 0xdfff;

/** @type {Record<string, string>} */
const SHORT = { '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** @param {string} one */
const escaped = (one) => SHORT[one] ?? `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`;

/** @param {string} text */
function plainText(text) {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is escaped
  return `"${text.replace(/["\\\u0000-\u001f]/g, escaped)}"`;
}

/** @param {string} text */
function asciiText(text) {
  return `"${text.replace(/["\\]|[^ -~]/g, escaped)}"`;
}

const HALF = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

/** @param {JsonNode} node @returns {boolean} */
function hasHalves(node) {
  if (node.kind === "string") return HALF.test(node.value);
  if (node.kind === "array") return node.items.some(hasHalves);
  return node.kind === "object" && node.members.some(([name, value]) => HALF.test(name) || hasHalves(value));
}

// --- SHA-256, FIPS 180-4

const PRIMES = firstPrimes(64);
const K = Uint32Array.from(PRIMES, (prime) => fractionOf(Math.cbrt(prime)));
const H = Uint32Array.from(PRIMES.slice(0, 8), (prime) => fractionOf(Math.sqrt(prime)));

/**
 * @param {Uint8Array} bytes
 * @returns {string} 64 hexadecimal digits
 */
export function sha256(bytes) {
  const state = H.slice();
  const schedule = new Uint32Array(64);
  const padded = paddedOf(bytes);
  const view = new DataView(padded.buffer);
  for (let at = 0; at < padded.length; at += 64) {
    for (let n = 0; n < 16; n += 1) schedule[n] = view.getUint32(at + 4 * n);
    compress(state, schedule);
  }
  return Array.from(state, (word) => word.toString(16).padStart(8, "0")).join("");
}

/** @param {Uint8Array} bytes */
function paddedOf(bytes) {
  const padded = new Uint8Array((((bytes.length + 8) >> 6) + 1) << 6);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 0x20000000));
  view.setUint32(padded.length - 4, (bytes.length << 3) >>> 0);
  return padded;
}

/**
 * @param {Uint32Array} state
 * @param {Uint32Array} w
 */
function compress(state, w) {
  for (let n = 16; n < 64; n += 1) {
    const early = at(w, n - 15);
    const late = at(w, n - 2);
    const s0 = turn(early, 7) ^ turn(early, 18) ^ (early >>> 3);
    const s1 = turn(late, 17) ^ turn(late, 19) ^ (late >>> 10);
    w[n] = at(w, n - 16) + s0 + at(w, n - 7) + s1;
  }
  let [a, b, c, d, e, f, g, h] = /** @type {[number, number, number, number, number, number, number, number]} */ ([
    ...state,
  ]);
  for (let n = 0; n < 64; n += 1) {
    const s1 = turn(e, 6) ^ turn(e, 11) ^ turn(e, 25);
    const first = (h + s1 + ((e & f) ^ (~e & g)) + at(K, n) + at(w, n)) | 0;
    const s0 = turn(a, 2) ^ turn(a, 13) ^ turn(a, 22);
    const second = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + first) | 0;
    d = c;
    c = b;
    b = a;
    a = (first + second) | 0;
  }
  [a, b, c, d, e, f, g, h].forEach((word, n) => {
    state[n] = at(state, n) + word;
  });
}

/** @param {Uint32Array} words @param {number} n */
const at = (words, n) => /** @type {number} */ (words[n]);

/** @param {number} word @param {number} by */
const turn = (word, by) => (word >>> by) | (word << (32 - by));

/** @param {number} count @returns {number[]} */
function firstPrimes(count) {
  /** @type {number[]} */
  const primes = [];
  for (let n = 2; primes.length < count; n += 1) if (primes.every((prime) => n % prime !== 0)) primes.push(n);
  return primes;
}

/**
 * The first 32 bits behind the point. A float has 52 bits, of which at most three are in front of it here.
 * @param {number} root
 */
function fractionOf(root) {
  return Math.floor((root - Math.floor(root)) * 0x1_0000_0000);
}

// Strict JSON, canonical arguments and their hash; the schema check. The fuzz against Python stands in test_canonical.py, which calls canonical_stdin.mjs.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  canonicalText,
  compareCharacters,
  hashOf,
  isSame,
  sha256,
} from "../../../agentrail/gateway/console/pure/canonical.js";
import {
  isHeld,
  JsonFault,
  parseJson,
  plainValue,
  prettyText,
  unheldNumbers,
  withMember,
} from "../../../agentrail/gateway/console/pure/json_text.js";
import { faultsOf } from "../../../agentrail/gateway/console/pure/schema_check.js";
import { cutAt, lookAt } from "../../../agentrail/gateway/console/pure/shown_arguments.js";

const bytes = (text) => new TextEncoder().encode(text);

test("SHA-256 has its known values, at each length around a block", async () => {
  assert.equal(sha256(bytes("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  for (const length of [0, 1, 55, 56, 63, 64, 65, 119, 120, 1000, 60_000]) {
    const given = Uint8Array.from({ length }, (_, at) => (at * 7) % 256);
    const known = Buffer.from(await crypto.subtle.digest("SHA-256", given)).toString("hex");
    assert.equal(sha256(given), known, `${length} bytes`);
  }
});

test("JSON is read strictly, and a fault says where it is", () => {
  const faults = {
    '{"a":1,}': "name",
    "[1 2]": "comma",
    '{"a":1,"a":2}': "double",
    "01": "number",
    "1.": "number",
    "[1e]": "number",
    '"\\x"': "escape",
    '"\\u00g0"': "escape",
    tru: "value",
    NaN: "value",
    '{"a"': "end",
    '"a\nb"': "control",
    "1 2": "rest",
    "{a:1}": "name",
    "{'a':1}": "name",
    "": "end",
    '"\\ud800"': "half",
    "\ufeff{}": "value",
    "[1,]": "value",
    "// 1\n2": "value",
  };
  for (const [source, fault] of Object.entries(faults)) {
    assert.throws(
      () => parseJson(source),
      (error) => error instanceof JsonFault && error.fault === fault,
      source,
    );
  }
  assert.throws(
    () => parseJson("[".repeat(5000)),
    (error) => error.fault === "deep",
  );
  try {
    parseJson('{\n  "a": 1,\n  "b" 2\n}');
    assert.fail();
  } catch (error) {
    assert.deepEqual([error.fault, error.line, error.column], ["colon", 3, 7]);
  }
});

test("what JSON.parse takes is taken, and means the same", () => {
  for (const value of [null, true, [], {}, "", 'é\u2028"\\\n', [1, -0.5, 1e21, 1e-7], { a: { b: [{}] }, "": 1 }]) {
    const source = JSON.stringify(value);
    assert.deepEqual(JSON.parse(prettyText(parseJson(source))), value);
    assert.deepEqual(JSON.parse(JSON.stringify(plainValue(parseJson(source)))), value);
  }
  assert.equal(
    JSON.stringify(plainValue(parseJson('{"__proto__":1,"a":1.0}'))),
    JSON.rawJSON ? '{"__proto__":1,"a":1.0}' : '{"__proto__":1,"a":1}',
  );
});

test("numbers that JavaScript cannot hold are named by their text", () => {
  const held = ["0", "-1", "1.0", "0.10", "1e2", "9007199254740991", "1.7976931348623157e308", "0.1", "5e-324"];
  const lost = [
    "9007199254740993",
    "-0",
    "1e400",
    "123456789012345678901234567890",
    "0.1000000000000000055",
    "9007199254740992",
  ];
  for (const source of held) assert.ok(isHeld(source), source);
  for (const source of lost) assert.ok(!isHeld(source), source);
  assert.deepEqual(unheldNumbers(parseJson('{"a":[9007199254740993,1,9007199254740993],"b":1e999}')), [
    "9007199254740993",
    "1e999",
  ]);
});

test("names are sorted by characters, not by halves of them", () => {
  const names = ["\u{1f600}", "\ue000", "\uffff", "b", "a", "ab", "", "\u{1f601}", "\ud7ff"];
  assert.deepEqual([...names].sort(compareCharacters), [
    "",
    "a",
    "ab",
    "b",
    "\ud7ff",
    "\ue000",
    "\uffff",
    "\u{1f600}",
    "\u{1f601}",
  ]);
  const node = parseJson(`{"\u{1f600}":1,"\ue000":2}`);
  assert.equal(canonicalText(node), `{"\ue000":2,"\u{1f600}":1}`);
});

test("what is the same in another order is the same; another number is another value", () => {
  assert.ok(isSame(parseJson('{"a":1,"b":[1,2]}'), parseJson('{ "b": [1, 2], "a": 1 }')));
  assert.ok(!isSame(parseJson('{"a":1}'), parseJson('{"a":1.0}')));
  assert.ok(!isSame(parseJson('{"a":[1,2]}'), parseJson('{"a":[2,1]}')));
  assert.equal(hashOf(parseJson('{"a":1,"b":2}')), hashOf(parseJson('{"b":2,"a":1}')));
});

test("a member is replaced in its place, added behind, or taken away", () => {
  const node = parseJson('{"a":1,"b":9007199254740993}');
  const two = { kind: "number", source: "2" };
  assert.equal(canonicalText(withMember(node, "a", two)), '{"a":2,"b":9007199254740993}');
  assert.deepEqual(
    withMember(node, "c", two).members.map(([name]) => name),
    ["a", "b", "c"],
  );
  assert.equal(canonicalText(withMember(node, "a", null)), '{"b":9007199254740993}');
});

test("what is not seen, pushed away or mixed is noticed in texts and names", () => {
  const hash = hashOf(parseJson('{"a":"x"}'));
  const plain = lookAt('{"a":"x"}', hash);
  assert.deepEqual([plain.isAsked, plain.hasHidden, plain.hasSpaces, plain.mixed], [true, false, false, []]);
  assert.equal(lookAt('{"a":"y"}', hash).isAsked, false);
  assert.ok(lookAt('{"a\\u202e":1}', "").hasHidden);
  assert.ok(lookAt('{"a":"\\u200b"}', "").hasHidden);
  assert.ok(lookAt(JSON.stringify({ a: `x${" ".repeat(41)}y` }), "").hasSpaces);
  assert.ok(!lookAt(JSON.stringify({ a: `x${" ".repeat(40)}y` }), "").hasSpaces);
  assert.deepEqual(lookAt('{"a":["p\\u0430ypal", "привет", "paypal"]}', "").mixed, ["p\u0430ypal"]);
  assert.equal(cutAt("a".repeat(30_000)), 20_000);
  assert.equal(cutAt(`${"a".repeat(19_999)}\u{1f600}${"a".repeat(9_000)}`), 19_999);
});

test("a schema names each fault with its place", () => {
  const schema = {
    type: "object",
    properties: {
      path: { type: "string", minLength: 1, pattern: "^[a-z]+$" },
      n: { type: "integer", minimum: 1, maximum: 10 },
      how: { enum: ["a", "b", 1] },
      list: { type: "array", items: { $ref: "#/$defs/one" }, minItems: 1, uniqueItems: true },
      some: { anyOf: [{ type: "null" }, { type: "string" }] },
    },
    $defs: {
      one: { type: "object", required: ["id"], additionalProperties: false, properties: { id: { type: "number" } } },
    },
    required: ["path"],
    additionalProperties: false,
  };
  const told = (source) => faultsOf(parseJson(source), schema).map(({ path, fault }) => `${path} ${fault}`);
  assert.deepEqual(told('{"path":"a","n":2,"how":1.0,"list":[{"id":1}],"some":null}'), []);
  assert.deepEqual(told("{}"), ["$.path required"]);
  assert.deepEqual(told('{"path":"","n":1.5,"x y":1}'), [
    "$.path short",
    "$.path pattern",
    "$.n type",
    '$["x y"] unknown',
  ]);
  assert.deepEqual(told('{"path":"A","n":11,"how":"c","some":1}'), [
    "$.path pattern",
    "$.n most",
    "$.how enum",
    "$.some none",
  ]);
  assert.deepEqual(told('{"path":"a","list":[]}'), ["$.list few"]);
  assert.deepEqual(told('{"path":"a","list":[{"id":1},{"id":1}]}'), ["$.list unique"]);
  assert.deepEqual(told('{"path":"a","list":[{},{"id":"1","z":0}]}'), [
    "$.list[0].id required",
    "$.list[1].id type",
    "$.list[1].z unknown",
  ]);
  assert.deepEqual(told("[]"), ["$ type"]);
  assert.equal(faultsOf(parseJson(`[${"1,".repeat(50)}1]`), { items: { type: "string" } }).length, 10);
});

test("a schema that refers to itself, or holds what is no pattern, does not hold the page", () => {
  const tree = { $ref: "#" };
  assert.deepEqual(faultsOf(parseJson("1"), tree), []);
  const looped = { type: "object", properties: { next: { $ref: "#" } } };
  assert.deepEqual(faultsOf(parseJson('{"next":{"next":{}}}'), looped), []);
  assert.deepEqual(faultsOf(parseJson('"a"'), { pattern: "(" }), []);
  assert.deepEqual(faultsOf(parseJson("1"), null), []);
});

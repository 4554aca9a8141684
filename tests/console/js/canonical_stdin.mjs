// Reads a JSON array of texts from its input, and writes for each what the console makes of it: `{canonical, hash}` or `{fault}`. For test_canonical.py.

import { readFileSync } from "node:fs";
import { canonicalText, hashOf } from "../../../agentrail/gateway/console/pure/canonical.js";
import { parseJson } from "../../../agentrail/gateway/console/pure/json_text.js";

const told = JSON.parse(readFileSync(0, "utf8")).map((source) => {
  try {
    const node = parseJson(source, { allowHalves: true });
    return { canonical: canonicalText(node), hash: hashOf(node) };
  } catch (error) {
    return { fault: error.fault ?? String(error) };
  }
});
process.stdout.write(JSON.stringify(told));

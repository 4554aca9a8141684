// What a model said aloud, without the inline tags that the session takes out: `<status>…</status>` and `<title>…</title>`. Deltas come without them, complete
// messages with them, so that without this an answer would change when it is complete. Pure; the rule is that of `agentrail/core/policy/tags.py`.

const MOST = 500;
const TAGS = ["status", "title"];
const MARKS = { none: /<(?=status>|title>)|`{1,3}/g, inline: /[`\n]/g, fence: /`{1,3}/g };

/**
 * @param {string} text all of it
 * @returns {string} the same text, where there is no tag in it
 */
export function withoutTags(text) {
  if (!text.includes("<status>") && !text.includes("<title>")) return text;
  /** @type {"none" | "inline" | "fence"} */
  let code = "none";
  let seen = "";
  let shown = 0;
  let place = 0;
  for (;;) {
    const mark = nextMark(code, text, place);
    if (mark === null) return seen + text.slice(shown);
    place = mark.index + mark[0].length;
    if (mark[0] === "<") {
      const behind = behindTag(text, mark.index);
      if (behind < 0) continue;
      seen += text.slice(shown, mark.index);
      shown = behind;
      place = behind;
    } else if (code === "inline") {
      code = "none";
    } else if (mark[0] === "```") {
      code = code === "none" ? "fence" : "none";
    } else if (mark[0] === "`" && code === "none") {
      code = "inline";
    }
  }
}

/**
 * @param {"none" | "inline" | "fence"} code whether one stands in code
 * @param {string} text
 * @param {number} from
 */
function nextMark(code, text, from) {
  const marks = MARKS[code];
  marks.lastIndex = from;
  return marks.exec(text);
}

/**
 * @param {string} text
 * @param {number} start of a `<`
 * @returns {number} the place behind the tag that begins there; -1 where none does
 */
function behindTag(text, start) {
  for (const name of TAGS) {
    if (!text.startsWith(`<${name}>`, start)) continue;
    const begin = start + name.length + 2;
    const ending = `</${name}>`;
    const end = text.slice(begin, begin + MOST + ending.length).indexOf(ending);
    return end < 0 ? -1 : begin + end + ending.length;
  }
  return -1;
}

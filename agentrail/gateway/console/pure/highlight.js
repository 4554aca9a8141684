// Which parts of a code are strings, numbers, words of the language and remarks: as ranges, for the CSS Highlight API. Pure.
//
// It reads JSON, diffs, shell and Python, and what looks like them, well enough to be read with more ease; it understands none of them.

/** @typedef {"string" | "number" | "word" | "remark" | "name" | "added" | "removed"} TokenKind */

/** @typedef {{from: number, to: number, kind: TokenKind}} Token */

/** How long a code may be; a longer one stays plain. */
export const MAX_CODE = 8192;

/** The kinds, for who registers a highlight for each. @type {readonly TokenKind[]} */
export const TOKEN_KINDS = Object.freeze(["string", "number", "word", "remark", "name", "added", "removed"]);

const PYTHON_WORDS =
  "False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|match|nonlocal|not|or|pass|raise|return|try|while|with|yield";
const SCRIPT_WORDS =
  "async|await|break|case|catch|class|const|continue|default|delete|do|else|export|extends|false|finally|for|function|if|import|in|instanceof|interface|let|new|null|of|return|static|super|switch|this|throw|true|try|type|typeof|undefined|var|void|while|yield";
const SHELL_WORDS = "case|do|done|elif|else|esac|export|fi|for|function|if|in|local|return|set|then|until|while";

// One expression for each language; the name of the group that matched is the kind. Strings end with their line, so that a quote that
// is never closed does not colour the rest, and so that no expression goes back over what it has read.
/** @type {Record<string, RegExp>} */
const RULES = {
  json: /(?<name>"(?:[^"\\\n]|\\.)*"(?=\s{0,8}:))|(?<string>"(?:[^"\\\n]|\\.)*"?)|(?<number>-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b)|(?<word>\b(?:true|false|null)\b)/g,
  python: new RegExp(
    `(?<remark>#[^\\n]*)|(?<string>"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:[^"\\\\\\n]|\\\\.)*"?|'(?:[^'\\\\\\n]|\\\\.)*'?)|(?<number>\\b\\d[\\w.]*)|(?<word>\\b(?:${PYTHON_WORDS})\\b)`,
    "g",
  ),
  script: new RegExp(
    `(?<remark>\\/\\/[^\\n]*|\\/\\*[^]*?(?:\\*\\/|$))|(?<string>"(?:[^"\\\\\\n]|\\\\.)*"?|'(?:[^'\\\\\\n]|\\\\.)*'?|\`(?:[^\`\\\\]|\\\\.)*\`?)|(?<number>\\b\\d[\\w.]*)|(?<word>\\b(?:${SCRIPT_WORDS})\\b)`,
    "g",
  ),
  shell: new RegExp(
    `(?<remark>(?<=^|\\s)#[^\\n]*)|(?<string>"(?:[^"\\\\\\n]|\\\\.)*"?|'[^'\\n]*'?)|(?<name>\\$\\{?\\w+\\}?|(?<=\\s)--?[A-Za-z][\\w-]*)|(?<word>\\b(?:${SHELL_WORDS})\\b)`,
    "g",
  ),
  diff: /(?<name>^(?:\+\+\+|---|@@|diff |index )[^\n]*)|(?<added>^\+[^\n]*)|(?<removed>^-[^\n]*)/gm,
};

/** @type {Record<string, string>} */
const LANGUAGES = {
  json: "json",
  jsonc: "json",
  json5: "json",
  jsonl: "json",
  py: "python",
  python: "python",
  python3: "python",
  toml: "python",
  yaml: "python",
  yml: "python",
  sh: "shell",
  bash: "shell",
  zsh: "shell",
  shell: "shell",
  console: "shell",
  dockerfile: "shell",
  js: "script",
  javascript: "script",
  ts: "script",
  typescript: "script",
  jsx: "script",
  tsx: "script",
  java: "script",
  c: "script",
  cpp: "script",
  go: "script",
  rust: "script",
  rs: "script",
  css: "script",
  diff: "diff",
  patch: "diff",
};

/**
 * @param {string} code
 * @param {string} language as a fence names it; empty where it names none
 * @returns {Token[]} in order, apart from one another; none of a language that is not known, or of a code that is too long
 */
export function tokensOf(code, language) {
  const name = language.toLowerCase();
  const rule = Object.hasOwn(LANGUAGES, name) ? RULES[/** @type {string} */ (LANGUAGES[name])] : undefined;
  if (rule === undefined || code.length > MAX_CODE) return [];
  /** @type {Token[]} */
  const tokens = [];
  for (const match of code.matchAll(rule)) {
    const kind = TOKEN_KINDS.find((one) => match.groups?.[one] !== undefined);
    if (kind !== undefined && match[0] !== "")
      tokens.push({ from: match.index, to: match.index + match[0].length, kind });
  }
  return tokens;
}

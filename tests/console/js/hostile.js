// The golden hostile corpus: texts that try to become markup, to lead away, to hide, or to hang who draws them. By name; the same everywhere that a text from
// outside is shown. No DOM, no files: node's tests and the pages in a browser both take it from here.

const SCRIPT = "<script>globalThis.__hit = 1</script>";

/** Spellings of `javascript:` and its like, thirty of them and some. */
export const ADDRESSES = [
  "javascript:alert(1)",
  "JaVaScRiPt:alert(1)",
  " javascript:alert(1)",
  "\tjavascript:alert(1)",
  "java\tscript:alert(1)",
  "java\nscript:alert(1)",
  "java\rscript:alert(1)",
  "java\u0000script:alert(1)",
  "\u0001javascript:alert(1)",
  "javascript\u200b:alert(1)",
  "java\u00adscript:alert(1)",
  "javascript&colon;alert(1)",
  "javascript&#58;alert(1)",
  "javascript&#x3A;alert(1)",
  "&#106;avascript:alert(1)",
  "&#x6A&#x61&#x76&#x61script:alert(1)",
  "javascript://%0aalert(1)",
  "javascript:/*--></title></style></script>*/alert(1)",
  "javascript:void(0)",
  "javascript%3Aalert(1)",
  "vbscript:msgbox(1)",
  "livescript:alert(1)",
  "data:text/html,<script>alert(1)</script>",
  "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
  "data:image/svg+xml,<svg onload=alert(1)>",
  "blob:https://example.com/1",
  "file:///etc/passwd",
  "filesystem:http://example.com/x",
  "view-source:http://example.com",
  "about:blank",
  "ws://example.com",
  "ftp://example.com/x",
  "intent://example.com#Intent;end",
  "jar:http://example.com!/x",
  "feed:javascript:alert(1)",
  "//example.com/x",
  "/api/sessions",
  "?token=1",
  "#/tree",
  "../x",
  "http:javascript:alert(1)//",
  "https:",
  "http://",
  "mailto",
  "tel:123",
  "sms:123",
];

const HTML = [
  SCRIPT,
  "<img src=x onerror=globalThis.__hit=1>",
  "<img src=https://example.com/pixel.png>",
  "<svg onload=globalThis.__hit=1><use href='https://example.com/x.svg#a'/></svg>",
  "<math><mtext><table><mglyph><style><img src=x onerror=globalThis.__hit=1>",
  "<iframe srcdoc='<script>parent.__hit=1</script>'></iframe>",
  "<a href='javascript:globalThis.__hit=1'>x</a>",
  "<form action=https://example.com><input name=a></form><button formaction=https://example.com>x</button>",
  "<link rel=stylesheet href=https://example.com/x.css><style>@import 'https://example.com/y.css'</style>",
  "<meta http-equiv=refresh content='0;url=https://example.com'><base href=https://example.com>",
  "<details open ontoggle=globalThis.__hit=1><summary>x</summary></details>",
  "</pre></code></div></body></html>",
  "<!-- <p>-->x<!--",
  "<![CDATA[x]]><?php echo 1 ?><!DOCTYPE html>",
  "&lt;script&gt;&#60;b&#62;",
].join("\n");

const deep = (/** @type {string} */ sign, /** @type {number} */ many, end = "") =>
  `${sign.repeat(many)}x${end.repeat(many)}`;

/** @returns {Record<string, string>} */
export function hostileTexts() {
  return {
    html: HTML,
    links: ADDRESSES.map((address, place) => `[link ${place}](${address}) <${address}> ![picture](${address})`).join(
      "\n\n",
    ),
    links_by_reference: ADDRESSES.map((address, place) => `[r${place}]\n\n[r${place}]: ${address} "title"`).join(
      "\n\n",
    ),
    misleading_link:
      "[https://bank.example](https://other.example) [x](https://bank.example@other.example) https://bаnk.example",
    bidi: "rm -rf \u202e/emoh\u202c \u2066isolated\u2069 \u200fright\u200e \u061cالعربية",
    invisible:
      "a\u200bb\u200cc\u200dd\u2060e\ufeffg\u00adh\u180ei\u{e0041}\u{e007f}j\u115fk\u3164l\ufe0fm\u2028n\u2029o\u0000p",
    surrogates: "half \ud800 half \udfff pair \ud83d\ude00 turned \ude00\ud83d",
    ansi: "\u001b[31mred\u001b[0m \u001b[38;5;196mcube\u001b[48;2;255;255;255;38;2;255;255;254mwhite on white\u001b[0m \u001b[8mhidden\u001b[28m \u001b[2J\u001b[1;1H\u001b[?1049h over\rOVER",
    osc: "\u001b]8;;javascript:alert(1)\u0007click\u001b]8;;\u0007 \u001b]0;title\u001b\\ \u001b]52;c;ZXZpbA==\u0007 \u001bP1$r\u001b\\ \u009b31m \u001b]never closed",
    controls: Array.from({ length: 32 }, (_, code) => String.fromCharCode(code)).join("x"),
    deep_lists: Array.from({ length: 2000 }, (_, depth) => `${"  ".repeat(depth)}- x`)
      .join("\n")
      .slice(0, 200_000),
    deep_quotes: deep("> ", 2000),
    deep_brackets: deep("[", 5000, "]"),
    deep_links: `${"[".repeat(3000)}x${"](http://a)".repeat(3000)}`,
    stars: "*a ".repeat(8000),
    underscores: "_".repeat(15_000),
    stars_and_words: "**a_".repeat(5000),
    backticks: Array.from({ length: 300 }, (_, many) => "`".repeat(many)).join(" "),
    open_links: "[a](<".repeat(4000),
    open_pictures: "![".repeat(8000),
    pointed: "<".repeat(15_000),
    entities: "&#x1F600;&amp;&notanentity;".repeat(600),
    reference_flood: Array.from({ length: 2000 }, (_, place) => `[a${place % 7}]: http://a/${place}`).join("\n"),
    table: `${"|a".repeat(200)}|\n${"|-".repeat(200)}|\n${`${"|x".repeat(200)}|\n`.repeat(30)}`,
    wide_table: `|${"a|".repeat(4000)}\n|${"-|".repeat(4000)}\n`,
    headings: "# ".repeat(5000),
    fence_that_never_ends: `\`\`\`js\n${"let x = 1;\n\n".repeat(2000)}`,
    fences: "```\n~~~\n".repeat(3000),
    urls: "http://a.b/c?d ".repeat(1200),
    mails: "a@".repeat(8000),
    numbers: Array.from({ length: 3000 }, (_, place) => `${place}. x`).join("\n\n"),
    spaces: `rm a${" ".repeat(5000)}; rm -rf /`,
    blank_lines: "\n".repeat(20_000),
    long_line: "x".repeat(5_000_000),
    long_line_of_signs: "⟦U+202E⟧\u202e".repeat(50_000),
    emoji: "👩‍👩‍👧‍👦🏳️‍🌈🇩🇪👍🏽".repeat(500),
    combining: `Z${"\u0300".repeat(5000)}algo`,
    right_to_left: "שלום עולם (a) [b] <c> 123",
    pseudo_json: '{"__proto__": {"polluted": 1}, "a": 12345678901234567890, "a": 1e400}',
    prototype_names: "constructor __proto__ toString",
  };
}

/** Those that are short enough to stand in a title, a name or a reason. @returns {Record<string, string>} */
export function hostileNames() {
  return Object.fromEntries(Object.entries(hostileTexts()).map(([name, text]) => [name, text.slice(0, 2000)]));
}

// How much of a long text is shown: cuts that never fall into the middle of a character, a line or a sequence where that can be helped. Pure.

/** How much of an output is shown at first, in UTF-16 units. */
export const SHOWN = 20_000;

/** How many lines of a text that stands in a row of its own are shown at first: twenty thousand empty ones are a wall. */
export const SHOWN_LINES = 400;

/** How much of it can be shown at all; what is longer can be downloaded. */
export const MOST_SHOWN = 200_000;

/** How long a line may be; a browser takes a second for one of five million characters. */
export const LONG_LINE = 2000;

/**
 * Where to cut a text, at or a little in front of a place: behind a line where one ends near, never within a character or a sequence.
 * @param {string} text
 * @param {number} most
 * @returns {number}
 */
export function cutPlace(text, most) {
  if (text.length <= most) return text.length;
  const line = text.lastIndexOf("\n", most - 1);
  if (line >= most * 0.75) return line + 1;
  // A sequence of a terminal that begins shortly before would be shown in two halves.
  const begins = text.lastIndexOf("\u001b", most - 1);
  const at = begins >= 0 && most - begins < 32 ? begins : most;
  return characterPlace(text, at);
}

/**
 * Where so many lines end.
 * @param {string} text
 * @param {number} lines
 * @returns {number} the end of the text, where it has no more
 */
export function linesEnd(text, lines) {
  let at = -1;
  for (let line = 0; line < lines; line += 1) {
    at = text.indexOf("\n", at + 1);
    if (at < 0) return text.length;
  }
  return at;
}

/**
 * A place that is not within a character.
 * @param {string} text
 * @param {number} at
 * @returns {number}
 */
export function characterPlace(text, at) {
  const code = text.charCodeAt(at - 1);
  return at > 0 && at < text.length && code >= 0xd800 && code <= 0xdbff ? at - 1 : at;
}

/**
 * The lines of a text that are too long, cut; the others stay.
 * @param {string} text
 * @param {number} most
 * @returns {{text: string, cut: number}} `cut`: how many characters were left out, all lines together
 */
export function cutLines(text, most = LONG_LINE) {
  if (text.length <= most) return { text, cut: 0 };
  let cut = 0;
  const lines = text.split("\n").map((line) => {
    if (line.length <= most) return line;
    const at = characterPlace(line, most);
    cut += line.length - at;
    return `${line.slice(0, at)}…`;
  });
  return cut === 0 ? { text, cut } : { text: lines.join("\n"), cut };
}

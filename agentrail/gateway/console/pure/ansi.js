// The output of a terminal as lines of text with styles: colours and weights stay, everything else that it could tell a terminal is removed.
//
// Pure, and linear in the text. A carriage return overwrites its line, as it did on the screen of who ran the command.

/**
 * How a run of text looks. Colours: a number below 16 is one of the theme's, three numbers are red, green, blue.
 * @typedef {object} Style
 * @property {Colour | null} fg
 * @property {Colour | null} bg
 * @property {boolean} bold
 * @property {boolean} dim
 * @property {boolean} italic
 * @property {boolean} underline
 * @property {boolean} strike
 * @property {boolean} inverse
 */

/** @typedef {number | readonly [number, number, number]} Colour */

/** @typedef {{text: string, style: Style}} Run */

/** @type {Style} */
const PLAIN = Object.freeze({
  fg: null,
  bg: null,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  strike: false,
  inverse: false,
});

/** What a sequence may have at most; what goes beyond it is no sequence that a program would write. */
const MAX_PARAMETERS = 64;

// In turn: a string for the terminal (title, link, and their like) up to its end, or to the end of the line where it has none; a control
// sequence; any other escape; a single control. All parts exclude one another, so none is read twice.
const SEQUENCE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  /(?:\u001b[\]PX^_]|[\u0090\u0098\u009d-\u009f])[^\u0007\u001b\u009c\n]*(?:\u0007|\u001b\\|\u009c)?|(?:\u001b\[|\u009b)([0-?]*)([ -/]*)([@-~])?|\u001b[ -/]*[0-~]?|[\u0007\u0008\u000b\u000c\u000e-\u001a\u001c-\u001f\u0080-\u008f\u0091-\u0097\u0099\u009a\u009c]/g;

/**
 * Read the output of a terminal.
 * @param {string} text
 * @returns {Run[][]} its lines; runs beside one another have different styles
 */
export function parseAnsi(text) {
  const screen = new Screen();
  let from = 0;
  for (const match of text.matchAll(SEQUENCE)) {
    screen.write(text.slice(from, match.index));
    if (match[3] === "m" && match[2] === "") screen.style = styled(screen.style, match[1] ?? "");
    from = match.index + match[0].length;
  }
  screen.write(text.slice(from));
  return screen.done();
}

/** Whether a text has anything that `parseAnsi` would take out or overwrite. @param {string} text */
export function hasAnsi(text) {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return /[\u001b\u0080-\u009f\u0007\u0008]|\r(?!\n)/.test(text);
}

/** The lines that are being written. */
class Screen {
  constructor() {
    this.style = PLAIN;
    /** @type {Run[][]} */
    this.lines = [];
    /** @type {Run[]} what stands in front of the place where it is written, when nothing was overwritten */
    this.runs = [];
    /** @type {string[] | null} the characters of a line that is being overwritten */
    this.cells = null;
    /** @type {Style[]} */
    this.styles = [];
    this.column = 0;
  }

  /** @param {string} text without sequences */
  write(text) {
    if (text === "") return;
    let from = 0;
    for (let at = 0; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      if (code !== 10 && code !== 13) continue;
      this.put(text.slice(from, at));
      from = at + 1;
      if (code === 10) this.endLine();
      else if (text.charCodeAt(at + 1) !== 10) this.goBack();
    }
    this.put(text.slice(from));
  }

  /** @param {string} text within one line */
  put(text) {
    if (text === "") return;
    if (this.cells === null) {
      addRun(this.runs, text, this.style);
      return;
    }
    for (const one of text) {
      this.cells[this.column] = one;
      this.styles[this.column] = this.style;
      this.column += 1;
    }
  }

  /** To the first column: from here on single characters are kept, until the line ends. */
  goBack() {
    if (this.cells === null) {
      this.cells = [];
      this.styles = [];
      for (const run of this.runs) {
        for (const one of run.text) {
          this.cells.push(one);
          this.styles.push(run.style);
        }
      }
    }
    this.column = 0;
  }

  endLine() {
    if (this.cells !== null) {
      this.runs = [];
      for (const [place, one] of this.cells.entries())
        addRun(this.runs, one, /** @type {Style} */ (this.styles[place]));
      this.cells = null;
      this.column = 0;
    }
    this.lines.push(this.runs);
    this.runs = [];
  }

  done() {
    this.endLine();
    return this.lines;
  }
}

/**
 * @param {Run[]} runs
 * @param {string} text
 * @param {Style} style
 */
function addRun(runs, text, style) {
  const last = runs.at(-1);
  if (last !== undefined && (last.style === style || isSame(last.style, style))) last.text += text;
  else runs.push({ text, style });
}

/**
 * @param {Style} one
 * @param {Style} other
 */
function isSame(one, other) {
  return (
    String(one.fg) === String(other.fg) &&
    String(one.bg) === String(other.bg) &&
    one.bold === other.bold &&
    one.dim === other.dim &&
    one.italic === other.italic &&
    one.underline === other.underline &&
    one.strike === other.strike &&
    one.inverse === other.inverse
  );
}

/** @type {Record<number, Partial<Style>>} */
const SWITCHES = {
  1: { bold: true },
  2: { dim: true },
  3: { italic: true },
  4: { underline: true },
  7: { inverse: true },
  9: { strike: true },
  21: { underline: true },
  22: { bold: false, dim: false },
  23: { italic: false },
  24: { underline: false },
  27: { inverse: false },
  29: { strike: false },
  39: { fg: null },
  49: { bg: null },
};

/**
 * @param {Style} style
 * @param {string} parameters between `[` and `m`
 * @returns {Style}
 */
function styled(style, parameters) {
  // What begins with another character is a sequence of its own that ends with the same letter.
  if (/[^0-9;:]/.test(parameters)) return style;
  const all = parameters.split(";").slice(0, MAX_PARAMETERS);
  let next = style;
  for (let at = 0; at < all.length; at += 1) {
    const [first, ...rest] = /** @type {string} */ (all[at]).split(":");
    const code = Number(first || 0);
    if (code === 38 || code === 48 || code === 58) {
      const parts = rest.length > 0 ? rest : all.slice(at + 1, at + 5);
      const { colour, used } = colourOf(parts, rest.length > 0);
      if (rest.length === 0) at += used;
      if (colour !== null && code !== 58) next = { ...next, [code === 38 ? "fg" : "bg"]: colour };
    } else if (code === 0) next = PLAIN;
    else if (code === 4 && rest[0] === "0") next = { ...next, underline: false };
    else if (code >= 30 && code <= 37) next = { ...next, fg: code - 30 };
    else if (code >= 90 && code <= 97) next = { ...next, fg: code - 82 };
    else if (code >= 40 && code <= 47) next = { ...next, bg: code - 40 };
    else if (code >= 100 && code <= 107) next = { ...next, bg: code - 92 };
    else if (SWITCHES[code] !== undefined) next = { ...next, ...SWITCHES[code] };
    // Hidden text (8) and blinking (5) are not: what is there is shown, and stands still.
  }
  return next;
}

/**
 * @param {string[]} parts behind 38 or 48
 * @param {boolean} colons whether they were parted by colons, where a colour space may stand in front of the three
 * @returns {{colour: Colour | null, used: number}}
 */
function colourOf(parts, colons) {
  if (parts[0] === "5") {
    const index = Number(parts[1] || 0);
    return { colour: index <= 255 ? paletteColour(index) : null, used: 2 };
  }
  if (parts[0] !== "2") return { colour: null, used: 1 };
  const three = (colons && parts.length > 4 ? parts.slice(2, 5) : parts.slice(1, 4)).map((part) => Number(part || 0));
  const [red = 0, green = 0, blue = 0] = three;
  const isColour = three.every((value) => value <= 255);
  return { colour: isColour ? [red, green, blue] : null, used: 4 };
}

/**
 * One of the 256: sixteen of the theme, a cube, and greys.
 * @param {number} index
 * @returns {Colour}
 */
function paletteColour(index) {
  if (index < 16) return index;
  if (index > 231) {
    const grey = 8 + (index - 232) * 10;
    return [grey, grey, grey];
  }
  const level = (/** @type {number} */ step) => (step === 0 ? 0 : 55 + step * 40);
  const place = index - 16;
  return [level(Math.floor(place / 36)), level(Math.floor(place / 6) % 6), level(place % 6)];
}

// --- colours that can be read

/** The sixteen as numbers, for where one of them stands on another ground than the page's. */
export const SIXTEEN = Object.freeze(
  /** @type {[number, number, number][]} */ ([
    [0, 0, 0],
    [179, 38, 30],
    [25, 112, 58],
    [138, 83, 0],
    [11, 95, 206],
    [107, 63, 160],
    [0, 110, 125],
    [200, 204, 212],
    [89, 97, 111],
    [220, 70, 60],
    [60, 160, 90],
    [190, 130, 20],
    [90, 150, 240],
    [160, 110, 220],
    [40, 160, 175],
    [255, 255, 255],
  ]),
);

/** The least contrast of a colour that a program chose. */
export const CONTRAST = 4.5;

/**
 * A colour that can be read on a ground: itself, or what comes of it towards black or white until the contrast is enough.
 * @param {readonly [number, number, number]} colour
 * @param {readonly [number, number, number]} ground
 * @returns {[number, number, number]}
 */
export function readable(colour, ground) {
  if (contrast(colour, ground) >= CONTRAST) return [colour[0], colour[1], colour[2]];
  const end = contrast([0, 0, 0], ground) >= contrast([255, 255, 255], ground) ? 0 : 255;
  let low = 0;
  let high = 1;
  for (let step = 0; step < 10; step += 1) {
    const middle = (low + high) / 2;
    if (contrast(mixed(colour, end, middle), ground) >= CONTRAST) high = middle;
    else low = middle;
  }
  return mixed(colour, end, high);
}

/**
 * @param {readonly [number, number, number]} colour
 * @param {number} end 0 is black, 255 white
 * @param {number} share of `end`
 * @returns {[number, number, number]}
 */
function mixed(colour, end, share) {
  const one = (/** @type {number} */ value) => {
    const exact = value + (end - value) * share;
    // Rounding goes towards the end too, or the last step would take back what the search has found.
    return end === 0 ? Math.floor(exact) : Math.ceil(exact);
  };
  return [one(colour[0]), one(colour[1]), one(colour[2])];
}

/**
 * The contrast of WCAG 2.
 * @param {readonly [number, number, number]} one
 * @param {readonly [number, number, number]} other
 * @returns {number} from 1 to 21
 */
export function contrast(one, other) {
  const first = luminance(one) + 0.05;
  const second = luminance(other) + 0.05;
  return first > second ? first / second : second / first;
}

/** @param {readonly [number, number, number]} colour */
function luminance(colour) {
  const [red, green, blue] = colour.map((value) => {
    const part = value / 255;
    return part <= 0.040_45 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return (
    0.2126 * /** @type {number} */ (red) +
    0.7152 * /** @type {number} */ (green) +
    0.0722 * /** @type {number} */ (blue)
  );
}

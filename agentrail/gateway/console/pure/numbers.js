// Numbers as people read them: tokens, money, times, sizes. Pure; no words but units, which are the same in every language that we have.

const THOUSANDS = new Intl.NumberFormat("en-US");

/**
 * @param {number} value a whole number
 * @returns {string} `12,345`
 */
export function exact(value) {
  return THOUSANDS.format(value);
}

/**
 * @param {number} value how many tokens
 * @returns {string} `940`, `12.3k`, `80k`, `1.2M`: at most four characters and a unit
 */
export function tokens(value) {
  return scaled(value, 1000, ["", "k", "M", "G"]);
}

/**
 * @param {number} value how many bytes
 * @returns {string} `940 B`, `41 KB`, `1.2 MB`
 */
export function bytes(value) {
  return scaled(value, 1024, [" B", " KB", " MB", " GB"]);
}

/**
 * @param {number} value
 * @param {number} step
 * @param {string[]} units
 */
function scaled(value, step, units) {
  let unit = 0;
  let rest = Math.max(0, value);
  // 999.6 would be written as 1000.
  while (unit < units.length - 1 && rounded(rest, unit) >= step) {
    rest /= step;
    unit += 1;
  }
  return `${rounded(rest, unit)}${units[unit]}`;
}

/**
 * @param {number} rest
 * @param {number} unit
 */
function rounded(rest, unit) {
  return unit === 0 || rest >= 99.95 ? Math.round(rest) : Math.round(rest * 10) / 10;
}

/**
 * @param {number} usd
 * @returns {string} `$4.10`, `$0.04`; two digits that count where it is less than a cent: `$0.0012`
 */
export function money(usd) {
  if (usd === 0) return "$0.00";
  const sign = usd < 0 ? "-" : "";
  const value = Math.abs(usd);
  if (value >= 1000) return `${sign}$${THOUSANDS.format(Math.round(value))}`;
  if (value >= 0.01) return `${sign}$${value.toFixed(2)}`;
  const digits = Math.min(12, 1 - Math.floor(Math.log10(value)));
  return `${sign}$${value.toFixed(digits).replace(/0+$/, "")}`;
}

/**
 * How long something took.
 * @param {number} ms
 * @returns {string} `12 ms`, `3.2 s`, `1:02`, `2:05:09`
 */
export function duration(ms) {
  const value = Math.max(0, ms);
  if (value < 999.5) return `${Math.round(value)} ms`;
  if (value < 59_950) return `${(Math.round(value / 100) / 10).toFixed(1)} s`;
  return clock(value);
}

/**
 * A time that runs, in seconds: for what counts up or down before one's eyes.
 * @param {number} ms
 * @returns {string} `0:12`, `1:02`, `2:05:09`
 */
export function clock(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const two = (/** @type {number} */ value) => String(value).padStart(2, "0");
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

/**
 * How long ago something was, or how long something has run, in one unit.
 * @param {number} ms
 * @returns {string} `3 s`, `14 m`, `2 h`, `5 d`
 */
export function age(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/**
 * @param {number} part
 * @param {number} whole
 * @returns {number} from 0 to 100, whole; 0 of nothing
 */
export function percent(part, whole) {
  if (!(whole > 0)) return 0;
  return Math.min(100, Math.max(0, Math.round((part / whole) * 100)));
}

// Which key was pressed, and what follows of several: `Ctrl K`, `Alt Enter`, `g` then `s`. Pure: gets what an event of the browser says, and no event.

/**
 * @typedef {object} Pressed
 * @property {string} key
 * @property {boolean} [ctrlKey]
 * @property {boolean} [metaKey]
 * @property {boolean} [altKey]
 * @property {boolean} [shiftKey]
 */

/** How long the second key of two may take. */
export const SECOND_KEY_MS = 1_500;

const MODIFIERS = new Set(["Control", "Meta", "Alt", "Shift", "AltGraph"]);
const NAMES = new Map([
  [" ", "Space"],
  ["Esc", "Escape"],
]);

/**
 * Names a key as bindings do: modifiers in the order Ctrl, Alt, Shift. ⌘ counts as Ctrl. Shift is named only in front of keys that have a name, since `?` is
 * its own key wherever it lies.
 * @param {Pressed} pressed
 * @returns {string} Empty for a modifier alone.
 */
export function comboOf(pressed) {
  if (MODIFIERS.has(pressed.key)) return "";
  const isNamed = [...pressed.key].length > 1;
  const key =
    NAMES.get(pressed.key) ??
    (isNamed ? pressed.key : pressed.ctrlKey || pressed.metaKey ? pressed.key.toUpperCase() : pressed.key);
  const parts = [];
  if (pressed.ctrlKey || pressed.metaKey) parts.push("Ctrl");
  if (pressed.altKey) parts.push("Alt");
  if (pressed.shiftKey && isNamed) parts.push("Shift");
  return [...parts, key].join(" ");
}

/**
 * Says whether keys are a letter or sign alone, which can be switched off and is dead in fields.
 * @param {string} combo
 */
export function isSingle(combo) {
  return combo.split(" ").every((part) => [...part].length === 1);
}

/**
 * Goes one key on: what is meant by it behind what was pressed before.
 * @param {string} before The first key of two, if it was pressed lately; else empty.
 * @param {string} combo
 * @param {ReadonlySet<string>} bindings Such as `g s` or `Ctrl K`.
 * @returns {{ found: string | null, waiting: string }} The binding that is meant, or the first key of one that is not whole yet.
 */
export function nextKey(before, combo, bindings) {
  const both = before ? `${before} ${combo}` : combo;
  if (bindings.has(both)) return { found: both, waiting: "" };
  if (before && bindings.has(combo)) return { found: combo, waiting: "" };
  const begins = [...bindings].some((one) => isSingle(one) && one.startsWith(`${combo} `));
  return { found: null, waiting: begins ? combo : "" };
}

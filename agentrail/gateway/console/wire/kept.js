// What a browser keeps for a tab or for good, where it lets us; where it does not, it is kept as long as the page. Nothing else may ask for storage.

/**
 * @typedef {object} Kept
 * @property {(name: string) => string | null} get
 * @property {(name: string, value: string | null) => void} set Null forgets.
 */

/**
 * Opens one of the browser's storages.
 * @param {() => Storage} find Gives it, or throws: some browsers do where cookies are off.
 * @returns {Kept}
 */
export function openKept(find) {
  /** @type {Map<string, string>} */
  const memory = new Map();
  /** @type {Storage | null} */
  let storage = null;
  try {
    storage = find();
  } catch {
    storage = null;
  }
  return {
    get(name) {
      try {
        return storage?.getItem(`agentrail.${name}`) ?? memory.get(name) ?? null;
      } catch {
        return memory.get(name) ?? null;
      }
    },
    set(name, value) {
      if (value === null) memory.delete(name);
      else memory.set(name, value);
      try {
        if (value === null) storage?.removeItem(`agentrail.${name}`);
        else storage?.setItem(`agentrail.${name}`, value);
      } catch {
        // It is full, or not allowed: what is in memory has to do.
      }
    },
  };
}

/** Of this tab: the token, drafts. Kept until the tab is closed. */
export const ofTab = openKept(() => globalThis.sessionStorage);

/** Of this browser: theme, keys. Never a token. */
export const ofBrowser = openKept(() => globalThis.localStorage);

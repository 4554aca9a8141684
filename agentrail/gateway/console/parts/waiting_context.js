// What waits for a person in the open session and below: which of them a card is, which one stands open, and the way to the next. One is open at a time,
// and none by itself. Nothing that is drawn, and no words, may enter.

import { waitingIn } from "../pure/waiting.js";
import { createContext, html, useContext, useMemo, useRef, useState } from "../ui.js";

/**
 * @typedef {object} WaitingShared
 * @property {readonly string[]} keys of the approvals that wait, oldest first
 * @property {string | null} open the key of the one that a person opened
 * @property {string | null} decided the key of what this page decided last
 * @property {(key: string) => void} note says that this page decided one
 * @property {(key: string | null) => void} turn opens one in place of the one before; null closes it
 * @property {(key: string) => void} goTo opens one and shows it where it stands
 * @property {(key: string) => boolean} takesFocus whether it was opened by a person a moment ago: true once
 */

/** @type {import("../vendor/preact.js").Context<WaitingShared | null>} */
const WaitingContext = createContext(/** @type {WaitingShared | null} */ (null));

/** @param {{ view: import("../pure/view.js").View, show: (item: string) => void, children?: any }} props `show`: brings an item into sight */
export function WaitingProvider({ view, show, children }) {
  const [open, setOpen] = useState(/** @type {string | null} */ (null));
  const [decided, note] = useState(/** @type {string | null} */ (null));
  const fresh = useRef(/** @type {string | null} */ (null));
  const all = waitingIn(view).filter((one) => one.kind === "approval");
  const joined = all.map((one) => one.key).join("\n");
  const latest = useRef({ all, show });
  latest.current = { all, show };
  // The same value as long as the same calls wait: cards are not drawn anew for each word that streams.
  const shared = useMemo(() => {
    const turn = (/** @type {string | null} */ key) => {
      fresh.current = key;
      setOpen(key);
    };
    const goTo = (/** @type {string} */ key) => {
      const found = latest.current.all.find((one) => one.key === key);
      turn(key);
      if (found !== undefined) latest.current.show(found.item);
    };
    const takesFocus = (/** @type {string} */ key) => {
      const isFresh = fresh.current === key;
      if (isFresh) fresh.current = null;
      return isFresh;
    };
    return { keys: joined === "" ? [] : joined.split("\n"), open, decided, note, turn, goTo, takesFocus };
  }, [joined, open, decided]);
  return html`<${WaitingContext.Provider} value=${shared}>${children}<//>`;
}

/**
 * Whether the card of an approval stands open, and how a person changes that: where several wait, one opens in place of the other.
 * @param {string} id of its approval
 * @returns {{ isOpen: boolean, turn: (isOpen: boolean) => void, takesFocus: () => boolean }}
 */
export function useOpenOne(id) {
  const shared = useContext(WaitingContext);
  const [isOpen, setOpen] = useState(false);
  const fresh = useRef(false);
  if (shared !== null) {
    const key = keyOf(id);
    return {
      isOpen: shared.open === key,
      turn: (isOpened) => shared.turn(isOpened ? key : null),
      takesFocus: () => shared.takesFocus(key),
    };
  }
  return {
    isOpen,
    turn: (isOpened) => {
      fresh.current = isOpened;
      setOpen(isOpened);
    },
    takesFocus: () => {
      const isFresh = fresh.current;
      fresh.current = false;
      return isFresh;
    },
  };
}

/**
 * Which of the calls that wait one is, and the ways to those beside it.
 * @param {string} id of its approval
 * @returns {{ place: number, total: number, before: (() => void) | null, next: (() => void) | null } | null} null where that is not known here, or it
 *   waits alone
 */
export function usePlace(id) {
  const shared = useContext(WaitingContext);
  const at = shared?.keys.indexOf(keyOf(id)) ?? -1;
  if (shared === null || at < 0 || shared.keys.length < 2) return null;
  const to = (/** @type {number} */ place) => {
    const key = shared.keys[place];
    return key === undefined ? null : () => shared.goTo(key);
  };
  return { place: at + 1, total: shared.keys.length, before: to(at - 1), next: to(at + 1) };
}

/** @returns {((key: string) => void) | null} says that this page decided something, by the key of its item; null where nothing is kept of that */
export function useNote() {
  return useContext(WaitingContext)?.note ?? null;
}

/**
 * The way to the one that has waited longest, behind what this page decided last.
 * @param {string} key of the item that was decided
 * @returns {{ left: number, open: () => void } | null} null: nothing waits any more, another one stands open already, or was decided since
 */
export function useNext(key) {
  const shared = useContext(WaitingContext);
  const first = shared?.keys[0];
  if (shared === null || shared.decided !== key || first === undefined) return null;
  if (shared.keys.includes(shared.open ?? "")) return null;
  return { left: shared.keys.length, open: () => shared.goTo(first) };
}

/** What opens an approval where it stands, for lists of what waits. @returns {((key: string) => void) | null} */
export function useGoTo() {
  return useContext(WaitingContext)?.goTo ?? null;
}

/** @param {string} id */
const keyOf = (id) => `approval:${id}`;

// What keeps a key that was meant for something else from deciding: for half a second after a card or a step of it is shown, its buttons take nothing, and
// a key that is held down never presses one. No words, and nothing that is drawn, may enter.

import { useCallback, useEffect, useRef, useState } from "../ui.js";

/** How long buttons take nothing after they were shown. */
export const STILL_MS = 500;

/**
 * Guards the buttons of something that is shown since `step` changed last.
 * @param {unknown} step changes with what is shown, such as the name of a step, or the id of a call
 * @returns {{ isStill: boolean, guarded: (act: (event: Event) => void) => (event: Event) => void, onKeyDown: (event: KeyboardEvent) => void }}
 *   `isStill`: the time is not over, and the buttons look so; `guarded` makes a handler of a click that does nothing until then; `onKeyDown` is for what
 *   stands around the buttons
 */
export function useGuard(step) {
  const since = useRef({ step: /** @type {unknown} */ (undefined), at: Number.NEGATIVE_INFINITY });
  if (since.current.step !== step) since.current = { step, at: performance.now() };
  const isOver = () => performance.now() - since.current.at >= STILL_MS;
  const [, look] = useState(0);
  useEffect(() => {
    /** @type {any} */
    let timer = null;
    const wait = () => {
      timer = setTimeout(() => (isOver() ? look((count) => count + 1) : wait()), STILL_MS / 5);
    };
    wait();
    return () => clearTimeout(timer);
  }, [step]);
  const guarded = useCallback(
    (/** @type {(event: Event) => void} */ act) => (/** @type {Event} */ event) => {
      if (isOver()) act(event);
    },
    [],
  );
  const onKeyDown = useCallback((/** @type {KeyboardEvent} */ event) => {
    const presses = event.key === "Enter" || event.key === " ";
    if (!presses || !(event.target instanceof HTMLButtonElement)) return;
    if (event.repeat || !isOver()) event.preventDefault();
  }, []);
  return { isStill: !isOver(), guarded, onKeyDown };
}

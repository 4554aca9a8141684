// A command whose answer is awaited in place: whether it is on its way, and what refused it.

import { useState } from "../ui.js";

export function useSending() {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {any} */ (null));
  const send = (/** @type {Promise<any>} */ sent, /** @type {(told: any) => void} */ onDone) => {
    setBusy(true);
    setError(null);
    sent.then(
      (told) => {
        setBusy(false);
        onDone(told);
      },
      (refused) => {
        setBusy(false);
        setError(refused);
      },
    );
  };
  return { isBusy, error, send };
}

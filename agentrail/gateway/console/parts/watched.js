// Rows that a page watches, as long as it is shown. What they say and how they are drawn is not known here.

import { useEffect, useState } from "../ui.js";
import { whenStill } from "./when_still.js";

/**
 * @param {import("../wire/socket.js").Connection} connection
 * @param {import("../pure/rows.js").WatchName} what
 * @param {Record<string, unknown>} [filter] The same object for the same wish.
 * @returns {{ rows: ReadonlyMap<string, any> | null, total: number, error: import("../wire/api.js").ApiError | null }} Null until the first rows came.
 */
export function useRows(connection, what, filter = NOTHING) {
  const [shown, setShown] = useState({ rows: /** @type {ReadonlyMap<string, any> | null} */ (null), total: 0 });
  const [error, setError] = useState(/** @type {import("../wire/api.js").ApiError | null} */ (null));
  useEffect(() => {
    setError(null);
    /** @type {typeof shown | null} */
    let coming = null;
    let stop = () => {};
    const show = () => {
      if (coming !== null) setShown(coming);
      coming = null;
    };
    const end = connection.watch(what, filter, {
      onRows: (rows, total) => {
        if (coming === null) stop = whenStill(show);
        coming = { rows, total };
      },
      onRefused: setError,
    });
    return () => {
      stop();
      end();
    };
  }, [connection, what, filter]);
  return { ...shown, error };
}

/** @type {Record<string, unknown>} */
const NOTHING = {};

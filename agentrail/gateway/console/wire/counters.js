// What is counted since the page was opened, shown under *Connection*. Numbers only.

/** @typedef {"frames" | "events" | "doubled" | "bad_frames" | "unknown_frames" | "lag" | "reconnects" | "given_up" | "drawing_failures" | "errors"} CounterName */

/** @returns {Record<CounterName, number>} */
export function emptyCounters() {
  return {
    frames: 0,
    events: 0,
    doubled: 0,
    bad_frames: 0,
    unknown_frames: 0,
    lag: 0,
    reconnects: 0,
    given_up: 0,
    drawing_failures: 0,
    errors: 0,
  };
}

/** Those of this page. */
export const counters = emptyCounters();

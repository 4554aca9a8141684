// How long to wait before a server is tried again, and for its welcome: the same as `agentrail.remote.dialer`. Pure.

export const FIRST_MS = 250;
export const MOST_MS = 10_000;

/** How long a connection has to last for the next attempt to count as the first one again. */
export const STEADY_MS = 5_000;

const MOST_ASKED_MS = 60_000;

export const HANDSHAKE_MS = 10_000;
const MOST_HANDSHAKE_MS = 60_000;

/**
 * Says how long a handshake may take: twice as long after each one that took too long, so that a crowded server can admit everybody in the end.
 * @param {number} tooSlow How many took too long, right before this one.
 */
export function handshakeMs(tooSlow) {
  return Math.min(HANDSHAKE_MS * 2 ** Math.min(tooSlow, 16), MOST_HANDSHAKE_MS);
}

/**
 * Says how long to wait before an attempt: between half of the delay and all of it, which is a quarter of a second, doubled each time, up to ten.
 * @param {number} attempt How many were made since the last connection that lasted.
 * @param {number} jitter From 0 up to 1, so that many readers of one server do not all come back at once.
 * @param {number | null} [askedMs] What the server asked to wait, where it did; never less than that, but never more than a minute.
 */
export function reconnectMs(attempt, jitter, askedMs = null) {
  const delay = Math.min(FIRST_MS * 2 ** Math.min(attempt, 16), MOST_MS) * (0.5 + jitter / 2);
  return askedMs === null ? delay : Math.max(delay, Math.min(Math.max(askedMs, 0), MOST_ASKED_MS));
}

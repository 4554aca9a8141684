// Pages of a session's events with all their words. The server cuts large values out of a page; each event that lacks words is fetched again, whole.

import { lacksWords } from "../pure/cut_words.js";

/** @typedef {import("../pure/view.js").WireEvent} WireEvent */

/** Whole events that are fetched at the same time. */
const AT_ONCE = 4;

/**
 * Fetches a page. Fails as a whole if an event cannot be fetched, so that the page can be tried again.
 * @param {import("./api.js").Api} api
 * @param {string} sessionId
 * @param {import("./api.js").Params} params `before` or `after`, `limit`, `kinds`
 * @param {{ signal?: AbortSignal }} [options]
 * @returns {Promise<any>} as `GET /sessions/{id}/events?format=json`
 */
export async function getEventPage(api, sessionId, params, options = {}) {
  const path = `sessions/${encodeURIComponent(sessionId)}/events`;
  const page = await api.get(path, { format: "json", ...params }, options);
  /** @type {WireEvent[]} */
  const events = page.events;
  const lacking = [...events.keys()].filter((at) => lacksWords(/** @type {WireEvent} */ (events[at])));
  const fetchOne = async (/** @type {number} */ at) => {
    const { seq } = /** @type {WireEvent} */ (events[at]);
    const asked = { format: "json", after: seq - 1, limit: 1, whole: true };
    const [whole] = (await api.get(path, asked, options)).events;
    // Another number: the session went back in the meantime, and the event no longer counts.
    if (whole?.seq === seq) events[at] = whole;
  };
  while (lacking.length > 0) await Promise.all(lacking.splice(0, AT_ONCE).map(fetchOne));
  return page;
}

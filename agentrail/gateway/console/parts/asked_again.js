// Finds the approval under which a call waits again that was decided already: a person wrote other arguments, a plugin changed those, and what became of them is
// shown once more, under another id. Asks the server; draws nothing.

import { ApiError } from "../wire/api.js";

/**
 * @param {import("../wire/api.js").Api} api
 * @param {string} session The one through which it is decided.
 * @param {Record<string, any>} form The approval as it was shown.
 * @returns {Promise<string | null>} Its id; null where the call waits no more, or that cannot be known.
 */
export async function askedAgain(api, session, form) {
  try {
    const { status } = await api.get(`sessions/${encodeURIComponent(session)}`);
    const wanted = placeOf(form["path"]);
    // A model may name calls of two agents alike: the path tells them apart.
    const found = approvalsIn(status).find(
      (one) =>
        one["call_id"] === form["call_id"] && one["id"] !== form["approval_id"] && placeOf(one["path"]) === wanted,
    );
    return found?.["id"] ?? null;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return null; // how the first one ended is told all the same
  }
}

/**
 * @param {Record<string, any> | null | undefined} status
 * @returns {Record<string, any>[]} Those of a session and of all below it.
 */
function approvalsIn(status) {
  const below = (status?.["children"] ?? []).flatMap((/** @type {any} */ child) => approvalsIn(child.status));
  return [...(status?.["approvals"] ?? []), ...below];
}

/** @param {any[] | undefined} path Of ids, or of steps that have one. */
function placeOf(path) {
  return (path ?? []).map((step) => (typeof step === "string" ? step : step["session_id"])).join("\n");
}

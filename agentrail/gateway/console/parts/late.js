// What a refused decision means, in a sentence: who decided before, how and when; or that the time was over. Only words of `text/` may enter.

import { text } from "../text/en.js";

const words = text.approval.late;

/** @type {Record<string, string>} */
const CLOSED = {
  already_resolved: "approved",
  approval_expired: "timeout",
  approval_unknown: "gone",
  interaction_error: "gone",
};

/**
 * Says how something was decided that a person came too late for.
 * @param {import("../wire/api.js").ApiError} error
 * @param {boolean} [isQuestion]
 * @returns {string | null} null: it is not decided, and the error is another one
 */
export function lateSentence(error, isQuestion = false) {
  const closed = CLOSED[error.code];
  if (closed === undefined) return null;
  if (closed === "gone") return words.gone;
  const decided = error.more["decided"] ?? { how: error.more["status"] ?? closed, by: error.more["by"] ?? null };
  return sentenceOf(decided, isQuestion);
}

/**
 * @param {{ how: string, by?: string | null, at_ms?: number | null }} decided
 * @param {boolean} isQuestion
 */
function sentenceOf(decided, isQuestion) {
  const at = typeof decided.at_ms === "number" ? text.approval.atTime(timeOf(decided.at_ms)) : "";
  switch (decided.how) {
    case "approved":
      if (isQuestion) return words.answered(at);
      return decided.by === "rule" ? words.rule(at) : words.approved(at);
    case "rejected":
      return words.rejected(at);
    case "timeout":
      return words.timeout(at);
    case "aborted":
      return words.aborted(at);
    case "superseded":
      return words.superseded(at);
    default:
      return words.gone;
  }
}

/** @param {number} ms */
export function timeOf(ms) {
  return new Date(ms).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

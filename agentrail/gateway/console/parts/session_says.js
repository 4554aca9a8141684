// What of a session is said to those who do not see it: whole sentences about what a person waits for, never what streams. Draws nothing.

import { sentencesBetween } from "../pure/session_news.js";
import { text } from "../text/en.js";
import { useEffect, useRef } from "../ui.js";
import { announce } from "./announce.js";

const says = text.session.says;

/** @typedef {import("../pure/view.js").View} View */

/** @param {import("../pure/session_news.js").News} news */
function sentenceOf({ kind, words, calls }) {
  switch (kind) {
    case "approval":
      return says.approval(words);
    case "question":
      return says.question;
    case "end":
      return says.answered(calls);
    case "abort":
      return says.aborted;
    case "error":
      return says.failed(words);
    case "ended":
      return says.ended;
  }
}

/**
 * @param {View} view
 * @param {boolean} isReady whether what is known so far was shown before: what a page begins with is not news
 */
export function useSentences(view, isReady) {
  const before = useRef(/** @type {View | null} */ (null));
  useEffect(() => {
    const last = before.current;
    before.current = isReady ? view : null;
    if (last === null || !isReady) return;
    for (const news of sentencesBetween(last, view)) announce(sentenceOf(news));
  }, [view, isReady]);
}

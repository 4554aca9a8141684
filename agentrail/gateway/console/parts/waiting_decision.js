// A decision or a question in a row of what waits, opened there by a person. Of an approval all is asked by its own part; a question is read from how its
// session stands, since its row has only what a row has room for.

import { questionIn } from "../pure/waiting.js";
import { text } from "../text/en.js";
import { html, useEffect, useState } from "../ui.js";
import { ApprovalBody } from "./approval_body.js";
import { Guarded } from "./guarded.js";
import { QuestionCard } from "./question_card.js";
import { Loading, Problem } from "./states.js";

/** @typedef {import("../pure/rows.js").Row} Row */

/**
 * @param {{ row: Row, api: import("../wire/api.js").Api, connection: import("../wire/socket.js").Connection }} props
 */
export function WaitingDecision({ row, api, connection }) {
  const title = row["kind"] === "approval" ? text.approval.headingOf(row["tool"] ?? "") : text.approval.questionTitle;
  if (row["kind"] !== "approval") {
    return html`<section aria-label=${title}><${Guarded} value=${row}><${Question} row=${row} api=${api} connection=${connection} /><//></section>`;
  }
  return html`<section class="approval open" aria-label=${title}>
    <h3 class="sr-only">${title}</h3>
    <${Guarded} value=${row}><${ApprovalBody} approval=${row} session=${row["session_id"]} api=${api} connection=${connection} onDone=${nothing} onShown=${nothing} /><//>
  </section>`;
}

function nothing() {}

/** @param {{ row: Row, api: import("../wire/api.js").Api, connection: import("../wire/socket.js").Connection }} props */
function Question({ row, api, connection }) {
  /** @type {[{ name: "loading" | "gone" } | { name: "asked", question: Record<string, any> } | { name: "failed", error: Error }, (state: any) => void]} */
  const [state, setState] = useState(/** @type {any} */ ({ name: "loading" }));
  const [count, setCount] = useState(0);
  useEffect(() => {
    const left = new AbortController();
    setState({ name: "loading" });
    api.get(`sessions/${encodeURIComponent(row["session_id"])}`, {}, { signal: left.signal }).then(
      (told) => {
        const question = questionIn(told["status"], row["ref"]);
        setState(question === null ? { name: "gone" } : { name: "asked", question });
      },
      (error) => {
        if (left.signal.aborted) return;
        setState(error.status === 404 ? { name: "gone" } : { name: "failed", error });
      },
    );
    return () => left.abort();
  }, [row["session_id"], row["ref"], count]);
  switch (state.name) {
    case "loading":
      return html`<${Loading} rows=${2} />`;
    case "gone":
      return html`<div class="approval question"><p class="approval-body" role="status">${text.approval.late.gone}</p></div>`;
    case "failed":
      return html`<${Problem} error=${state.error} onRetry=${() => setCount(count + 1)} />`;
    case "asked":
      return html`<${QuestionCard} question=${state.question} session=${row["session_id"]} api=${api} connection=${connection} takesFocus />`;
  }
}

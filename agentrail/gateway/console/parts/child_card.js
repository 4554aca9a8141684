// A session that works for a call, inside the card of that call: its own conversation, drawn by the same parts, up to eight deep. Only its last items are
// nodes; the rest comes when a person asks, or stands in its own session.

import { rowsOf } from "../pure/feed_rows.js";
import { hrefOf } from "../pure/route.js";
import { nameOfChild } from "../pure/session_name.js";
import { text } from "../text/en.js";
import { html, useMemo, useState } from "../ui.js";
import { Brief } from "./brief.js";
import { useFold } from "./fold.js";
import { PhaseWord } from "./phase.js";
import { ConversationRow } from "./rows.js";
import { Output } from "./text_view.js";

/** @typedef {import("../pure/view.js").Child} Child */

const words = text.session;
const DEEPEST = 8;
const SHOWN = 20;
const NO_GROUPS = new Map();

/**
 * @param {{ child: Child, depth: number }} props `depth`: how many sessions stand above it
 */
export function ChildCard({ child, depth }) {
  const waits = child.view !== null && (child.view.approvals.length > 0 || child.view.questions.length > 0);
  const [isOpen, toggle] = useFold(`child/${child.session_id}`, !child.ended || waits);
  const name = nameOfChild(child);
  return html`<section class="child" aria-label=${words.child(name)}>
    <div class="call-line">
      <button type="button" class="call-head" aria-expanded=${isOpen} onClick=${toggle}>
        <span class="fold-sign" aria-hidden="true">${isOpen ? "▾" : "▸"}</span>
        <span class="call-name"><${Brief} text=${name} /></span>
        <span class="call-summary"><${Brief} text=${child.description ?? ""} /></span>
        <${PhaseWord} phase=${child.ended ? "ended" : (child.phase ?? "loading")} suspended=${child.view?.suspended ?? false} />
      </button>
      <a class="button small" href=${hrefOf("/s/:id", { id: child.session_id })}>${words.childOpen}</a>
    </div>
    ${isOpen ? html`<${ChildBody} child=${child} depth=${depth} />` : null}
  </section>`;
}

/** @param {{ child: Child, depth: number }} props */
function ChildBody({ child, depth }) {
  const [shown, setShown] = useState(SHOWN);
  const { view } = child;
  const rows = useMemo(
    () => (view === null ? [] : rowsOf(view.items, view.cycles, NO_GROUPS)),
    [view?.items, view?.cycles],
  );
  if (depth >= DEEPEST) return html`<p class="dim">${words.childDeep}</p>`;
  const earlier = Math.max(0, rows.length - shown);
  return html`<div class="child-body">
    ${
      earlier > 0
        ? html`<button type="button" class="link" onClick=${() => setShown(shown + 50)}>${words.childEarlier(earlier)}</button>`
        : null
    }
    ${view === null || rows.length === 0 ? html`<p class="dim">${words.childNothing}</p>` : null}
    ${
      view === null
        ? null
        : rows
            .slice(earlier)
            .map(
              (row) =>
                html`<div class="child-row" key=${row.key}><${ConversationRow} row=${row} view=${view} depth=${depth + 1} /></div>`,
            )
    }
    ${
      child.result !== null
        ? html`<section class="part" aria-label=${words.childResult}>
          <h4 class="part-title">${words.childResult}</h4>
          <${Output} text=${child.result.text} mime="text/plain" />
        </section>`
        : null
    }
  </div>`;
}

// What a person decides or decided, where it stands in the conversation: the card of what waits, or one line that says how it ended. The line of an
// approval opens: what was asked stands behind it, and what was edited in vain, so that it can be copied.

import { summaryOf } from "../pure/call_summary.js";
import { duration } from "../pure/numbers.js";
import { text } from "../text/en.js";
import { html, useEffect, useRef, useState } from "../ui.js";
import { ApprovalCard } from "./approval_card.js";
import { useFold } from "./fold.js";
import { Icon } from "./icon.js";
import { At } from "./items.js";
import { timeOf } from "./late.js";
import { OwnDraft, useOwnDraft } from "./own_draft.js";
import { QuestionCard } from "./question_card.js";
import { useEnv } from "./session_env.js";
import { Json, SafeText } from "./text_view.js";
import { useNext, useNote } from "./waiting_context.js";

/** @typedef {import("../pure/view.js").DecisionItem} Decided */

const words = text.session;
/** @type {Record<string, string>} */
const DECIDERS = words.decidedBy;

/** @param {{ item: Decided, sessionId: string, tool: string | null }} props `tool`: whose call asks, of a question */
export function DecisionItem({ item, tool }) {
  const { api, connection, sessionId, isPast } = useEnv();
  // Decided by this page: the event that says so may come before the answer to what was sent, so it is known here and not in the card.
  const [isOwn, setOwn] = useState(false);
  const note = useNote();
  const onDone = () => {
    setOwn(true);
    note?.(item.key);
  };
  const isOpen = item.state === "open" && !isPast;
  // What waits below is decided through the session of the page, which the person has; `path` in what was asked says whose it is.
  if (isOpen && item.of === "approval") {
    return html`<div class="item item-decision"><${ApprovalCard} approval=${item.asked} session=${sessionId} api=${api} connection=${connection} onDone=${onDone} /></div>`;
  }
  if (isOpen && item.of === "question") {
    return html`<div class="item item-decision"><${QuestionCard} question=${item.asked} tool=${tool} session=${sessionId} api=${api} connection=${connection} onDone=${onDone} /></div>`;
  }
  return html`<${DecisionLine} item=${item} isOwn=${isOwn} />`;
}

/** @param {Decided} item */
function lookOf(item) {
  if (item.state === "open") return { look: "warn", sign: "!" };
  return ["approved", "answered", "made"].includes(item.state)
    ? { look: "ok", sign: "✓" }
    : { look: "warn", sign: "⊘" };
}

/** @param {{ item: Decided, isOwn: boolean }} props */
function DecisionLine({ item, isOwn }) {
  const { look, sign } = lookOf(item);
  const at = item.decided_at_ms ?? item.at_ms;
  const line = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    // The button that was pressed is gone with its card, and the focus with it: it goes on where the card was.
    if (!isOwn || (document.activeElement ?? document.body) !== document.body) return;
    const next = line.current?.querySelector(".decided-head") ?? line.current?.closest("[data-key]");
    if (next instanceof HTMLElement) next.focus({ preventScroll: true });
  }, [isOwn]);
  return html`<div class="item item-notice item-decided" ref=${line}>
    <span class=${`notice-sign ${look}`} aria-hidden="true">${sign}</span>
    <div class="notice-main">
      ${item.of === "approval" && item.state !== "open" ? html`<${OpeningLine} item=${item} isOwn=${isOwn} />` : html`<${PlainLine} item=${item} />`}
      ${isOwn ? html`<${NextOne} decided=${item.key} />` : null}
    </div>
    ${at > 0 ? html`<${At} ms=${at} />` : null}
  </div>`;
}

/** @param {{ item: Decided }} props */
function PlainLine({ item }) {
  const { look } = lookOf(item);
  const how = howOf(item);
  const who = whoOf(item);
  return html`${how ? html`<span class=${look}>${how}</span> ` : null}<${SafeText} text=${whatOf(item)} />
    ${who ? html` <span class="dim">${words.by(who)}</span>` : null}
    <${Said} item=${item} />`;
}

/**
 * An approval that is decided: what, how and by whom on one line, and what was asked behind it.
 * @param {{ item: Decided, isOwn: boolean }} props
 */
function OpeningLine({ item, isOwn }) {
  const { look } = lookOf(item);
  const own = useOwnDraft(item.id);
  const hasDraft = own !== null && !(item.state === "approved" && isOwn);
  const [isOpen, toggle] = useFold(`decided/${item.id}`, hasDraft);
  const how = howOf(item) ?? item.state;
  const who = whoOf(item);
  return html`<button type="button" class="fold-head decided-head" aria-expanded=${isOpen} data-main-fold onClick=${toggle}>
      <span class="fold-sign" aria-hidden="true">${isOpen ? "▾" : "▸"}</span>
      <span class="decided-what"><${SafeText} text=${whatOf(item)} /></span>
      <span class="decided-summary dim"><${SafeText} text=${summaryOf(item.asked["arguments"])} /></span>
      <span class="decided-how"><span class=${look}>${how}</span>${who ? html` <span class="dim">${words.by(who)}</span>` : null}</span>
    </button>
    <${Said} item=${item} />
    ${isOpen ? html`<${Asked} item=${item} hasDraft=${hasDraft} />` : null}`;
}

/** What was answered, and why not. @param {{ item: Decided }} props */
function Said({ item }) {
  return html`${typeof item.answer === "string" ? html` <span>“<${SafeText} text=${item.answer} />”</span>` : null}
    ${item.reason ? html` <span class="dim"><${SafeText} text=${item.reason} /></span>` : null}`;
}

/** @param {{ item: Decided, hasDraft: boolean }} props */
function Asked({ item, hasDraft }) {
  const { asked } = item;
  const from = asked["requested_at_ms"] ?? item.at_ms;
  const to = item.decided_at_ms;
  return html`<div class="decided-body">
    ${to !== null && from > 0 ? html`<p class="dim">${words.askedAndDecided(timeOf(from), timeOf(to), duration(Math.max(0, to - from)))}</p>` : null}
    ${asked["hint"] ? html`<p class="dim"><${SafeText} text=${words.askedBecause(asked["hint"])} /></p>` : null}
    <${Json} value=${asked["arguments"] ?? {}} label=${words.callArguments} />
    ${hasDraft ? html`<${OwnDraft} id=${item.id} />` : null}
  </div>`;
}

/** Others still wait: the next one is shown and opened by a press, one at a time. @param {{ decided: string }} props */
function NextOne({ decided }) {
  const next = useNext(decided);
  if (next === null) return null;
  return html`<p class="buttons"><button type="button" class="button small" onClick=${next.open}>${words.nextWaiting(next.left)} <${Icon} name="right" /></button></p>`;
}

/**
 * What the line of a decision says, for the search.
 * @param {Decided} item
 */
export function lineOf(item) {
  return `${howOf(item) ?? ""} ${whatOf(item)} ${whoOf(item)}`;
}

/** @param {Decided} item */
function howOf(item) {
  return /** @type {Record<string, string>} */ (words.decisions)[item.state];
}

/** @param {Decided} item */
function whoOf(item) {
  if (item.user !== null) return item.user;
  return item.by === null ? "" : (DECIDERS[item.by] ?? item.by);
}

/** @param {Decided} item */
function whatOf(item) {
  switch (item.of) {
    case "rule":
      return words.ruleOf(item.asked["tool"] ?? "", item.asked["command_family"] ?? null, item.asked["exact"] === true);
    case "question":
      return words.questionOf(item.asked["question"] ?? "");
    case "client_call":
      return words.clientCallOf(item.asked["name"] ?? "");
    default:
      return words.approvalOf(item.asked["tool"] ?? "");
  }
}

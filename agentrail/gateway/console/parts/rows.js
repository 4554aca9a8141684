// One row of a conversation: an item, a group of calls, the end of a cycle, or something that was sent. A row is drawn again when what it shows is another
// object, and not because something else changed: the words that stream change two hundred times a second.

import { itemOf } from "../pure/draft.js";
import { Component, html } from "../ui.js";
import { CallCard } from "./call_card.js";
import { DecisionItem } from "./decision_item.js";
import { Guarded } from "./guarded.js";
import { AnswerItem, CycleEnd, GapItem, NoticeItem, PromptItem, SentItem } from "./items.js";

/** @typedef {import("../pure/view.js").View} View */
/** @typedef {import("../pure/feed_rows.js").Row} Row */

/**
 * @typedef {object} RowProps
 * @property {Row} row
 * @property {View} view whose row it is
 * @property {number} [depth] how many sessions stand above
 * @property {any} [group] what draws a group of calls, where there are any
 */

/** @param {RowProps} props */
export function ConversationRow({ row, view, depth = 1, group = null }) {
  switch (row.kind) {
    case "group":
      return group === null ? null : html`<${group} row=${row} />`;
    case "cycle":
      return html`<${Still} draw=${CycleEnd} cycle=${row.cycle} />`;
    case "sent":
      return html`<${Still} draw=${SentItem} sent=${row.sent} />`;
    case "item":
      return html`<${Guarded} value=${row.item}><${Still} draw=${drawItem} ...${partsOf(row.item, view)} depth=${depth} /><//>`;
  }
}

/**
 * What of a view an item shows, beside itself.
 * @param {import("../pure/view.js").Item} item
 * @param {View} view
 */
function partsOf(item, view) {
  const shared = { item, sessionId: view.session_id };
  if (item.type === "answer") return { ...shared, live: view.live?.key === item.key ? view.live : null };
  if (item.type === "call") {
    const children = item.call.children.map((id) => view.children[id]).filter((child) => child !== undefined);
    return { ...shared, progress: view.progress[item.call.call_id], children };
  }
  if (item.type === "decision" && item.of === "question") return { ...shared, tool: toolOf(view, item.call_id) };
  // A receipt names calls of the same session, so it is drawn with what is known of them.
  return item.type === "notice" && item.kind === "agent_abort" ? { ...shared, items: view.items } : shared;
}

/**
 * The tool of a call.
 * @param {View} view
 * @param {string | null} callId
 * @returns {string | null} null where the call is not named, or not loaded
 */
function toolOf(view, callId) {
  const item = callId === null ? null : itemOf(view, `call:${callId}`);
  return item?.type === "call" ? item.call.name : null;
}

/** @param {any} props */
function drawItem({ item, sessionId, live, progress, children, depth, items, tool }) {
  switch (item.type) {
    case "prompt":
      return html`<${PromptItem} item=${item} />`;
    case "answer":
      return html`<${AnswerItem} item=${item} live=${live} />`;
    case "call":
      return html`<div class="item item-call"><${CallCard} call=${item.call} sessionId=${sessionId} progress=${progress} children=${children} depth=${depth} /></div>`;
    case "decision":
      return html`<${DecisionItem} item=${item} tool=${tool ?? null} />`;
    case "gap":
      return html`<${GapItem} item=${item} />`;
    default:
      return html`<${NoticeItem} item=${item} items=${items} sessionId=${sessionId} />`;
  }
}

/**
 * Draws again only when one of its properties is another one; lists are compared by what they hold.
 * @extends {Component<Record<string, any> & {draw: (props: any) => any}, {}>}
 */
class Still extends Component {
  /** @param {Record<string, any>} next */
  shouldComponentUpdate(next) {
    const before = /** @type {Record<string, any>} */ (this.props);
    for (const name of Object.keys(next)) if (!isSame(before[name], next[name])) return true;
    return Object.keys(before).length !== Object.keys(next).length;
  }

  render() {
    const { draw, ...rest } = this.props;
    return html`<${draw} ...${rest} />`;
  }
}

/**
 * @param {unknown} one
 * @param {unknown} other
 */
function isSame(one, other) {
  if (one === other) return true;
  if (!Array.isArray(one) || !Array.isArray(other) || one.length !== other.length || one.length > 100) return false;
  return one.every((value, place) => value === other[place]);
}

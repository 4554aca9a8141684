// An abort and its receipt, in words that a person can act on: what may have happened outside, what runs on, what is gone.

import { summaryOf } from "../pure/call_summary.js";
import { duration } from "../pure/numbers.js";
import { factsOf } from "../pure/receipt_facts.js";
import { text } from "../text/en.js";
import { html, useState } from "../ui.js";
import { ApiError } from "../wire/api.js";
import { At } from "./items.js";
import { useEnv } from "./session_env.js";
import { SafeText } from "./text_view.js";

/** @typedef {import("../pure/receipt_facts.js").Fact} Fact */
/** @typedef {import("../pure/receipt_facts.js").Named} Named */
/** @typedef {import("../pure/view.js").Item} Item */

const words = text.session;
const says = words.receipt;

/**
 * @param {{ item: import("../pure/view.js").NoticeItem, items: readonly Item[], sessionId: string }} props
 */
export function ReceiptView({ item, items, sessionId }) {
  const receipt = item.end?.["receipt"] ?? null;
  const reason = item.event["reason"];
  const callOf = (/** @type {string} */ callId) => knownCall(items, callId);
  return html`<section class="item item-receipt" aria-label=${says.title}>
    <h3 class="receipt-title"><span aria-hidden="true">■ </span><${SafeText} text=${reason ? says.titled(reason) : says.title} />
      <span class="dim receipt-took">${receipt === null ? says.waiting : says.took(duration(receipt.milliseconds ?? 0))}</span>
      <${At} ms=${item.at_ms} />
    </h3>
    ${receipt === null ? null : html`<ul class="plain-list receipt-facts">${factsOf(receipt, callOf).map((fact) => html`<${FactLine} key=${fact.kind} fact=${fact} items=${items} sessionId=${sessionId} />`)}</ul>`}
  </section>`;
}

/** @param {{ fact: Fact, items: readonly Item[], sessionId: string }} props */
function FactLine({ fact, items, sessionId }) {
  const sentence =
    typeof says[fact.kind] === "string" ? says[fact.kind] : /** @type {any} */ (says[fact.kind])(fact.count);
  const look = fact.level === "plain" ? "dim" : fact.level;
  return html`<li class=${`fact fact-${fact.kind}`}>
    <span class=${`fact-sign ${look}`}>${says.signs[fact.kind]}</span>
    <div class="fact-main">
      ${
        fact.named.length === 0
          ? null
          : html`<ul class="plain-list">${fact.named.map((named, place) => html`<li key=${place}><${NamedLine} named=${named} isRunning=${fact.kind === "survivors" && runs(items, named)} sessionId=${sessionId} /></li>`)}</ul>`
      }
      <span class=${fact.named.length === 0 ? "" : "dim"}>${sentence}</span>
    </div>
  </li>`;
}

/** @param {{ named: Named, isRunning: boolean, sessionId: string }} props */
function NamedLine({ named, isRunning, sessionId }) {
  const facts = [
    named.age_ms === null ? "" : says.age(duration(named.age_ms)),
    named.pid === null ? "" : says.pid(named.pid),
  ].filter((one) => one !== "");
  return html`<code><${SafeText} text=${named.name} /></code> <${SafeText} text=${named.summary} />
    ${facts.length > 0 ? html` <span class="dim">${facts.join(", ")}</span>` : null}
    ${isRunning && named.call_id !== null ? html` <${StopSurvivor} callId=${named.call_id} name=${named.name} sessionId=${sessionId} />` : null}`;
}

/** @param {{ callId: string, name: string, sessionId: string }} props */
function StopSurvivor({ callId, name, sessionId }) {
  const { connection, isPast } = useEnv();
  const [told, setTold] = useState("");
  if (isPast) return null;
  const stop = async () => {
    setTold(words.stopping);
    try {
      await connection.command("abort_tool", sessionId, { call_id: callId });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setTold(error.message || error.code);
    }
  };
  return html`<button type="button" class="button small" disabled=${told !== ""} aria-label=${words.stopCallNamed(name)} onClick=${stop}>${words.stopCall}</button>
    ${told === "" ? null : html` <span class="dim" role="status">${told}</span>`}`;
}

/**
 * @param {readonly Item[]} items
 * @param {string} callId
 * @returns {{name: string, summary: string} | null}
 */
function knownCall(items, callId) {
  const found = items.find((item) => item.type === "call" && item.call.call_id === callId);
  return found?.type === "call"
    ? { name: found.call.name, summary: summaryOf(found.call.arguments ?? found.call.asked) }
    : null;
}

/**
 * @param {readonly Item[]} items
 * @param {Named} named
 */
function runs(items, named) {
  const found = items.find((item) => item.type === "call" && item.call.call_id === named.call_id);
  return found?.type === "call" && (found.call.state === "running" || found.call.survivor);
}

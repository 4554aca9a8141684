// What a notice says: a sentence for each kind of event that this page knows, and the name and JSON of one that it does not.

import { duration, money, tokens } from "../pure/numbers.js";
import { text } from "../text/en.js";
import { html } from "../ui.js";
import { useFold } from "./fold.js";
import { Json, SafeText } from "./text_view.js";

/** @typedef {import("../pure/view.js").NoticeItem} NoticeItem */
/** @typedef {import("../pure/view.js").WireEvent} WireEvent */

const words = text.session;
const says = words.notices;

/** @type {Record<string, (event: WireEvent, end: WireEvent | null) => string>} */
const SENTENCES = {
  session_start: () => says.session_start,
  session_restarted: (event) => says.session_restarted(event["incarnation"], event["reason"]),
  session_recovered: (event) => says.session_recovered(event["decisions"]?.length ?? 0),
  session_end: (event) => says.session_end(event["reason"]),
  session_parked: (event) => says.session_parked(event["reason"]),
  agent_suspended: () => says.agent_suspended,
  agent_resumed: () => says.agent_resumed,
  agent_changed: (event) => says.agent_changed(event["to_agent"], event["note"] ?? null),
  agent_error: (event) => says.agent_error(errorOf(event["error"])),
  max_turns_reached: (event) => says.max_turns_reached(event["turns"]),
  signal_quarantined: (event) => says.signal_quarantined(event["signal_kind"], errorOf(event["error"])),
  model_switched: (event) => says.model_switched(event["from_model"], event["to_model"], event["by"]),
  context_overflow: (event) => says.context_overflow(errorOf(event["error"])),
  compact_due: () => says.compact_due,
  compact_start: (_event, end) => (end === null ? says.compact_start : compacted(end)),
  compact_end: (event) => compacted(event),
  compact_skipped: (event) => compacted(event),
  loop_detected: (event) => says.loop_detected(event["type"], event["name"], event["count"]),
  budget_warning: (event) => says.budget_warning(amountOf(event["spent"]), amountOf(event["limit"])),
  citation_unknown: (event) => says.citation_unknown(event["citations"].join(", ")),
  content_policy_violated: (event) => says.content_policy_violated(event["summary"]),
  memory_flushed: (event) => says.memory_flushed(event["count"]),
  skill_opened: (event) => says.skill_opened(event["name"]),
  skill_closed: (event) => says.skill_closed(event["name"]),
  plugin_failed: (event) => says.plugin_failed(event["plugin"], event["hook"], errorOf(event["error"])),
  plugin_slow: (event) => says.plugin_slow(event["plugin"], event["hook"], duration(event["milliseconds"])),
  action_ignored: (event) => says.action_ignored(event["plugin"], event["hook"], event["action"]),
  plugin_opts_updated: (event) => says.plugin_opts_updated(event["plugin"], event["success"], errorOf(event["error"])),
  plugin_event: (event) => says.plugin_event(event["name"]),
  tool_source_changed: (event) => says.tool_source_changed(event["source"], event["state"], event["reason"] ?? ""),
  tools_updated: (event) => toolsOf(event),
  title_generated: () => says.title_generated,
  plan_generated: () => says.plan,
  plan_completed: () => says.planDone,
};

/** Of these the payload is worth a look as well. */
const WITH_JSON = new Set(["plugin_event", "unknown", "session_recovered", "memory_flushed"]);

/** @param {NoticeItem} item */
export function sentenceOf(item) {
  const made = Object.hasOwn(SENTENCES, item.kind) ? SENTENCES[item.kind] : undefined;
  return made === undefined ? words.unknownEvent : made(item.event, item.end);
}

/** @param {{ item: NoticeItem }} props */
export function NoticeWords({ item }) {
  const made = Object.hasOwn(SENTENCES, item.kind) ? SENTENCES[item.kind] : undefined;
  if (item.kind === "plan_generated" || item.kind === "plan_completed") return html`<${PlanNotice} item=${item} />`;
  return html`<span><${SafeText} text=${sentenceOf(item)} /></span>
    ${made === undefined || WITH_JSON.has(item.kind) ? html`<${Raw} item=${item} isUnknown=${made === undefined} />` : null}`;
}

/** @param {{ item: NoticeItem, isUnknown: boolean }} props */
function Raw({ item, isUnknown }) {
  const [isOpen, toggle] = useFold(`json/${item.key}`, false);
  return html` ${isUnknown ? html`<code><${SafeText} text=${item.event.kind} /></code> ` : null}
    <button type="button" class="link" aria-expanded=${isOpen} data-main-fold onClick=${toggle}>${isOpen ? words.hideJson : words.showJson}</button>
    ${isOpen ? html`<${Json} value=${item.event} />` : null}`;
}

/** @param {{ item: NoticeItem }} props */
function PlanNotice({ item }) {
  const steps = item.event["plan"]?.steps ?? [];
  return html`<span>${item.kind === "plan_completed" ? says.planDone : says.plan}</span>
    <ol class="plan">
      ${steps.map((/** @type {any} */ step) => html`<li key=${step.index} class=${step.done ? "dim" : ""}><${SafeText} text=${step.content} /></li>`)}
    </ol>`;
}

/** @param {WireEvent} event */
function compacted(event) {
  if (event.kind === "compact_skipped") return says.compact_skipped(event["by"], event["reason"] ?? "");
  return says.compact_end(event["removed"], tokens(event["tokens_before"]), tokens(event["tokens_after"]));
}

/** @param {WireEvent} event */
function toolsOf(event) {
  const added = event["attached"] ?? [];
  const gone = event["detached"] ?? [];
  const told = [
    added.length > 0 ? says.tools_attached(added.join(", ")) : "",
    gone.length > 0 ? says.tools_detached(gone.join(", ")) : "",
  ];
  return told.filter((one) => one !== "").join(" · ");
}

/** @param {any} error */
function errorOf(error) {
  return error?.message ?? error?.code ?? "";
}

/** @param {any} amount */
export function amountOf(amount) {
  return amount?.unit === "usd" ? money(amount.value) : tokens(amount?.value ?? 0);
}

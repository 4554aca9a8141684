// What stands in a conversation beside calls and decisions: words of people, answers, notices, gaps, ends of cycles, and what was sent and is not confirmed.
// Each draws one value that it is given.

import { cutBytes } from "../pure/call_summary.js";
import { duration, money, tokens } from "../pure/numbers.js";
import { text } from "../text/en.js";
import { html } from "../ui.js";
import { Fold } from "./fold.js";
import { ImageView } from "./image_view.js";
import { NoticeWords } from "./notice_words.js";
import { useOutbox } from "./outbox_context.js";
import { ReceiptView } from "./receipt.js";
import { Json, Markdown, SafeText } from "./text_view.js";
import { Countdown, Elapsed } from "./ticking.js";

const words = text.session;

/**
 * Who speaks and when, beside what is said.
 * @param {{ who: string, at: number, kind?: string, children?: any, extra?: any }} props
 */
function Spoken({ who, at, kind = "", children, extra = null }) {
  return html`<div class=${`item item-spoken ${kind}`}>
    <div class="item-side"><span class="item-who">${who}</span>${at > 0 ? html`<${At} ms=${at} />` : null}${extra}</div>
    <div class="item-main">${children}</div>
  </div>`;
}

const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });

/**
 * A time of the day as it is here; the whole of it is its title.
 * @param {{ ms: number }} props
 */
export function At({ ms }) {
  const iso = new Date(ms).toISOString();
  return html`<time class="item-at" datetime=${iso} title=${iso}>${TIME.format(ms)}</time>`;
}

/** @param {{ item: import("../pure/view.js").PromptItem }} props */
export function PromptItem({ item }) {
  const told = /** @type {Record<string, string>} */ (words.promptStates)[item.state];
  const by = item.by.join(", ");
  return html`<${Spoken} who=${words.origins[item.origin] ?? words.you} at=${item.at_ms} kind=${`prompt prompt-${item.origin} is-${item.state}`}>
    ${
      item.content === null
        ? html`<p class="dim">${words.notLoaded}</p>`
        : item.content.map(
            (block, place) => html`<${Block} key=${place} block=${block} isPlain=${item.origin !== "summary"} />`,
          )
    }
    ${
      told || item.reason || by
        ? html`<p class="dim prompt-fate">${told ? html`<span class="warn">${told}</span> ` : null}
          ${by ? html`<${SafeText} text=${words.by(by)} /> ` : null}${item.reason ? html`<${SafeText} text=${item.reason} />` : null}</p>`
        : null
    }
  <//>`;
}

/**
 * A piece of what a person said. Their words are shown as they stand: a person who writes `*` means `*`.
 * @param {{ block: import("../pure/view.js").Block, isPlain: boolean }} props
 */
function Block({ block, isPlain }) {
  if (block.kind === "text" && typeof block["text"] === "string") {
    return isPlain
      ? html`<p class="words" dir="auto"><${SafeText} text=${block["text"]} /></p>`
      : html`<${Markdown} text=${block["text"]} isFinal />`;
  }
  if (cutBytes(block) > 0) return html`<p class="dim">${words.notLoaded}</p>`;
  if (block.kind === "image") return html`<${ImageView} image=${block} />`;
  if (block.kind === "file_ref")
    return html`<p class="chip"><${SafeText} text=${words.file(block["path"] ?? "")} /></p>`;
  return html`<${Json} value=${block} />`;
}

/**
 * @param {{ item: import("../pure/view.js").AnswerItem, live: import("../pure/view.js").Live | null }} props
 */
export function AnswerItem({ item, live }) {
  const said = live?.text ?? item.text;
  const thought = live?.thinking ?? item.thinking;
  const isOver =
    item.state === "complete" || item.state === "cut" || item.state === "failed" || item.state === "stopped";
  const extra = item.attempt > 1 ? html`<span class="item-extra dim">${words.attempt(item.attempt)}</span>` : null;
  return html`<${Spoken} who=${words.assistant} at=${item.at_ms} kind=${`answer is-${item.state}`} extra=${extra}>
    ${item.attempts.map((one) => html`<${Attempt} key=${one.attempt} failed=${one} isLast=${item.state === "pausing" && one === item.attempts.at(-1)} />`)}
    ${thought !== "" ? html`<${Thinking} text=${thought} name=${item.key} isRunning=${!isOver && said === ""} />` : null}
    ${said !== "" ? html`<${Markdown} text=${said} isFinal=${isOver} />` : null}
    <${AnswerState} item=${item} live=${live} hasWords=${said !== ""} />
  <//>`;
}

/**
 * @param {{ item: import("../pure/view.js").AnswerItem, live: import("../pure/view.js").Live | null, hasWords: boolean }} props
 */
function AnswerState({ item, live, hasWords }) {
  if (live?.stalled_seconds != null)
    return html`<p class="warn">${words.stalled(duration(live.stalled_seconds * 1_000))}</p>`;
  switch (item.state) {
    case "waiting":
      return html`<p class="dim answer-state"><span class="accent" aria-hidden="true">● </span>${words.answerStates.waiting} <${Elapsed} from=${item.at_ms} /></p>`;
    case "streaming":
      return hasWords
        ? null
        : html`<p class="dim answer-state"><span class="accent" aria-hidden="true">● </span>${words.answerStates.streaming}</p>`;
    case "cut":
    case "stopped":
      return html`<p class="warn answer-state"><span aria-hidden="true">■ </span>${words.answerStates[item.state]}</p>`;
    case "failed":
      return html`<p class="bad answer-state"><span aria-hidden="true">✕ </span>${words.answerStates.failed}</p>`;
    default:
      return null;
  }
}

/**
 * @param {{ failed: {attempt: number, error: {message: string}, discarded: boolean, delay_ms: number | null, at_ms: number}, isLast: boolean }} props
 */
function Attempt({ failed, isLast }) {
  const next = failed.attempt + 1;
  return html`<p class="warn attempt"><span aria-hidden="true">↻ </span>
    <${SafeText} text=${words.attemptFailed(failed.attempt, failed.error?.message ?? "")} />${failed.discarded ? ` ${words.attemptDiscarded}` : ""}
    ${
      isLast && failed.delay_ms !== null
        ? html` <${Countdown} until=${failed.at_ms + failed.delay_ms} words=${(/** @type {string} */ time) => words.retryIn(time, next)} over=${words.retryNow(next)} />`
        : null
    }
  </p>`;
}

/** @param {{ text: string, name: string, isRunning: boolean }} props */
function Thinking({ text: thought, name, isRunning }) {
  const head = html`<span class="thinking-word">${words.thinking}</span>
    ${isRunning ? html`<span class="thinking-tail" aria-hidden="true"><${SafeText} text=${tailOf(thought)} /></span>` : null}`;
  return html`<${Fold} name=${`thinking/${name}`} kind="thinking" head=${head}>
    <p class="words" dir="auto"><${SafeText} text=${thought} /></p>
  <//>`;
}

/** @param {string} thought */
function tailOf(thought) {
  return thought.slice(-160).replace(/\s+/g, " ").trim();
}

/**
 * @param {{ item: import("../pure/view.js").NoticeItem, items?: readonly import("../pure/view.js").Item[], sessionId: string }} props
 */
export function NoticeItem({ item, items = [], sessionId }) {
  const sign = { info: "·", warn: "!", bad: "✕" }[item.level];
  if (item.kind === "agent_abort") return html`<${ReceiptView} item=${item} items=${items} sessionId=${sessionId} />`;
  return html`<div class=${`item item-notice ${item.level === "info" ? "dim" : item.level}`}>
    <span class="notice-sign" aria-hidden="true">${sign}</span>
    <div class="notice-main"><${NoticeWords} item=${item} /></div>
    ${item.at_ms > 0 ? html`<${At} ms=${item.at_ms} />` : null}
  </div>`;
}

/** @param {{ item: import("../pure/view.js").GapItem }} props */
export function GapItem({ item }) {
  return html`<div class="item item-line warn"><span>${words.gap(item.from_seq, item.to_seq)}</span></div>`;
}

/** @param {{ cycle: import("../pure/view.js").Cycle }} props */
export function CycleEnd({ cycle }) {
  const end = words.cycleEnds[cycle.outcome ?? "end"];
  const why =
    cycle.outcome === "end"
      ? /** @type {Record<string, string>} */ (words.cycleReasons)[cycle.reason ?? ""]
      : undefined;
  const took = cycle.from_ms !== null && cycle.to_ms !== null ? duration(cycle.to_ms - cycle.from_ms) : null;
  const look = cycle.outcome === "error" ? "bad" : cycle.outcome === "abort" ? "warn" : "";
  const sign = cycle.outcome === "error" ? "✕" : cycle.outcome === "abort" ? "■" : "✓";
  const facts = [
    took,
    cycle.calls > 0 ? words.callCount(cycle.calls) : null,
    cycle.usage !== null ? words.now.inOut(tokens(cycle.usage.input), tokens(cycle.usage.output)) : null,
    cycle.usage?.cost_usd ? money(cycle.usage.cost_usd) : null,
  ].filter((fact) => fact !== null);
  return html`<div class="item item-line dim"><span><span class=${look}><span aria-hidden="true">${sign}\u00a0</span>${why ? `${end}, ${why}` : end}</span>
    ${facts.map((fact) => html`<span class="cycle-fact">${fact}</span>`)}</span></div>`;
}

/** @param {{ sent: import("../pure/outbox.js").Sent }} props */
export function SentItem({ sent }) {
  const outbox = useOutbox();
  const isFailed = sent.state === "failed";
  return html`<${Spoken} who=${sent.name === "steer" ? words.origins.steer : words.you} at=${sent.at_ms} kind=${`prompt sent is-${sent.state}`}>
    <p class="words" dir="auto"><${SafeText} text=${sent.text} /></p>
    <p class=${isFailed ? "bad prompt-fate" : "dim prompt-fate"} role=${isFailed ? "alert" : undefined}>
      <span aria-hidden="true">${isFailed ? "✕ " : sent.state === "sent" ? "✓ " : "… "}</span>${wordOfSent(sent)}
      ${isFailed && sent.error !== null ? html`: <${SafeText} text=${sent.error.message || words.lostAnswer} />` : null}
      ${isFailed && sent.error?.hint ? html` <span class="dim"><${SafeText} text=${sent.error.hint} /></span>` : null}
    </p>
    ${
      isFailed
        ? html`<p class="buttons">
          <button type="button" class="button small" onClick=${() => outbox.again(sent.client_id)}>${words.tryAgain}</button>
          <button type="button" class="button small" onClick=${() => outbox.takeBack(sent.client_id)}>${words.takeBack}</button>
        </p>`
        : null
    }
  <//>`;
}

/** @param {import("../pure/outbox.js").Sent} sent */
function wordOfSent(sent) {
  if (sent.state !== "sent") return words.sendStates[sent.state];
  if (sent.name === "steer")
    return /** @type {Record<string, string>} */ (words.sentSteer)[sent.status ?? ""] ?? words.sendStates.sent;
  return sent.position === null ? words.sendStates.sent : words.sentQueued(sent.position);
}

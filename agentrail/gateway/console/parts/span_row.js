// What one row of a timeline draws: its name, and its bars where they stood. HTML with places as lengths of CSS; no SVG, no canvas.

import { age, duration } from "../pure/numbers.js";
import { barOf, endOf, lengthOf, placeOf } from "../pure/timeline_rows.js";
import { text } from "../text/en.js";
import { html } from "../ui.js";
import { SafeText } from "./safe_text.js";

const words = text.timeline;

/** @typedef {import("../pure/timeline_rows.js").TimelineRow} TimelineRow */

/** @type {Record<string, string>} */
const SIGNS = { cycle: "◆", request: "→", call: "ƒ", gate: "⚑", child: "⎇", compaction: "⤓" };

const QUIET = new Set(["done", "approved"]);

/**
 * How a row stands, in a word.
 * @param {import("../pure/spans.js").Span} span
 * @returns {string}
 */
export function stateOf(span) {
  const outcome = span.outcome ?? "open";
  return words.outcomes[outcome] ?? outcome;
}

/**
 * What a row is called.
 * @param {TimelineRow} row
 * @param {number} number of a cycle
 * @returns {string}
 */
export function nameOf(row, number) {
  const { span } = row;
  const told = span.attributes;
  switch (span.kind) {
    case "cycle":
      return String(told.prompt || (number > 0 ? words.cycle(number) : words.cycleBelow));
    case "request":
      return String(told.model ?? span.name);
    case "call":
      return String(told.tool ?? span.name);
    case "gate":
      return span.name === "approval" ? words.approval : span.name;
    case "child":
      return String(told.description || words.agent);
    default:
      return words.compaction;
  }
}

/** @param {{ row: TimelineRow, number: number }} props */
export function SpanName({ row, number }) {
  const { span, last, attempts } = row;
  const name = nameOf(row, number);
  const outcome = last.outcome ?? "open";
  return html`<span class="span-sign" aria-hidden="true">${SIGNS[span.kind] ?? "•"}</span>
    <span class="span-name" title=${name} dir="auto"><${SafeText} text=${name} /></span>
    ${attempts.length > 1 ? html`<span class="span-note dim" title=${words.attempts(attempts.length)}><span aria-hidden="true">×${attempts.length}</span><span class="sr-only">${words.attempts(attempts.length)}</span></span>` : null}
    ${QUIET.has(outcome) ? null : html`<span class=${`span-note ${toneOf(outcome)}`}>${stateOf(last)}</span>`}`;
}

/**
 * @param {string} outcome
 * @returns {string}
 */
export function toneOf(outcome) {
  if (outcome === "open") return "accent";
  if (outcome === "error" || outcome === "failed" || outcome === "blocked" || outcome === "unknown") return "bad";
  if (QUIET.has(outcome)) return "ok";
  return "warn";
}

/** @param {{ row: TimelineRow, isTop: boolean, now: number }} props */
export function SpanBar({ row, isTop, now }) {
  const { scale, span, last, attempts } = row;
  const begun = duration(span.from_ms - scale.from_ms);
  const took = duration(endOf(last, now) - span.from_ms);
  const marks = attempts.flatMap((one) => one.marks);
  // Its words are a label, and no text out of sight: a timeline has thousands of rows, and each element of them is laid out.
  return html`<span class="span-track" role="img" aria-label=${words.barWords(begun, took, stateOf(last))}>
      ${attempts.map((one) => html`<${Bar} key=${one.key} scale=${scale} span=${one} now=${now} />`)}
      ${isTop ? scale.idle.map((one, place) => html`<${Idle} key=${one.from_ms} scale=${scale} idle=${one} place=${place} />`) : null}
      ${marks.map((mark, place) => html`<${Mark} key=${place} scale=${scale} mark=${mark} />`)}
    </span>`;
}

/** @param {{ scale: import("../pure/timeline_rows.js").Scale, span: import("../pure/spans.js").Span, now: number }} props */
function Bar({ scale, span, now }) {
  const bar = barOf(scale, span, now);
  const style = {
    insetInlineStart: `min(${lengthOf(scale, bar.from, bar.idleBefore)}, 100% - 2px)`,
    width: `max(2px, ${lengthOf(scale, bar.to - bar.from, bar.idleWithin)})`,
  };
  return html`<span class=${`span-bar is-${span.kind} ${toneOf(span.outcome ?? "open")}`} style=${style}></span>`;
}

/** @param {{ scale: import("../pure/timeline_rows.js").Scale, idle: { from_ms: number, to_ms: number }, place: number }} props */
function Idle({ scale, idle, place }) {
  const { share } = placeOf(scale, idle.from_ms);
  const took = idle.to_ms - idle.from_ms;
  const style = { insetInlineStart: lengthOf(scale, share, place), width: `${scale.idlePx}px` };
  return html`<span class="span-idle" style=${style} title=${words.idle(duration(took))}>${scale.idlePx >= 20 ? age(took).replace(" ", "") : ""}</span>`;
}

/** @param {{ scale: import("../pure/timeline_rows.js").Scale, mark: import("../pure/spans.js").Mark }} props */
function Mark({ scale, mark }) {
  const { share, idle } = placeOf(scale, mark.at_ms);
  const style = { insetInlineStart: `min(${lengthOf(scale, share, idle)}, 100% - 2px)` };
  return html`<span class="span-tick" style=${style} title=${markWords(mark)}></span>`;
}

/**
 * @param {import("../pure/spans.js").Mark} mark
 * @returns {string}
 */
export function markWords(mark) {
  const said = words.actions[mark.action] ?? mark.action;
  const who = mark.plugin === "" ? said : `${mark.plugin} ${said}`;
  const detail =
    mark.detail === null
      ? ""
      : ` (${mark.action === "slow" || mark.action === "retry" ? detailTime(mark.detail) : mark.detail})`;
  return `${who}${mark.hook === "" ? "" : ` · ${mark.hook}`}${detail}`;
}

/** @param {string} detail */
function detailTime(detail) {
  return /^\d+$/.test(detail) ? duration(Number(detail)) : detail;
}

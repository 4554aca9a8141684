// The slider over the records of a journal: the browser's own range input, its keys, and the marks above it. Which record is meant is for its owner to keep.

import { classOf, numberAfterKey, ticksOf } from "../pure/past.js";
import { text } from "../text/en.js";
import { html, useMemo } from "../ui.js";

const words = text.journal;

/** How many marks are drawn at most; what falls together is one. */
const PLACES = 240;

const SIGNS = { cycle: "", abort: "!", restart: "↻", rewind: "◆" };

const TIME = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});

/**
 * The time of a record as it is here.
 * @param {number} ms
 */
export function timeOf(ms) {
  return TIME.format(ms);
}

/**
 * @param {object} props
 * @param {number} props.first
 * @param {number} props.last
 * @param {number} props.number
 * @param {import("../pure/past.js").JournalRecord | undefined} props.record of that number, where it is loaded
 * @param {readonly import("../pure/past.js").Mark[]} props.marks
 * @param {(number: number) => void} props.onNumber
 */
export function JournalSlider({ first, last, number, record, marks, onNumber }) {
  const ticks = useMemo(() => ticksOf(marks, first, last, PLACES), [marks, first, last]);
  const told = words.sliderValue(
    number,
    last,
    record ? classOf(record.kind) : null,
    record ? timeOf(record.at_ms) : null,
  );
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const wanted = numberAfterKey(event, number, first, last, marks);
    if (wanted === null) return;
    event.preventDefault();
    event.stopPropagation();
    onNumber(wanted);
  };
  return html`<div class="slider">
    <div class="slider-line">
      <div class="slider-ticks" aria-hidden="true">
        ${ticks.map(
          (
            tick,
          ) => html`<span key=${tick.number} class=${`slider-tick is-${tick.kind}`} style=${{ left: `${tick.at * 100}%` }}
            title=${words.markTitle(words.marks[tick.kind], tick.number, tick.count)}>${SIGNS[tick.kind]}</span>`,
        )}
      </div>
      <input type="range" class="slider-range" min=${first} max=${last} step="1" value=${number} aria-label=${words.slider} aria-valuetext=${told} title=${words.sliderHint}
        onKeyDown=${pressed} onInput=${(/** @type {any} */ event) => onNumber(Number(event.target.value))} />
    </div>
    <div class="slider-foot">
      <span class="number dim">${first}</span>
      <output class="slider-told">${told}</output>
      <span class="number dim">${last}</span>
    </div>
  </div>`;
}

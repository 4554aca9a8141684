// Signs, drawn: many of those that Unicode has are missing in the fonts of some systems. Each stands beside words, or on a button that has a name.

import { html } from "../ui.js";

/** @type {Record<string, string>} One path each, in a square of 16. */
const PATHS = {
  search: "M7 2.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 0 1 0-9M10.5 10.5 14 14",
  sun: "M8 5a3 3 0 1 1 0 6a3 3 0 0 1 0-6M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  moon: "M13.5 9.5A6 6 0 1 1 6.5 2.5a5 5 0 0 0 7 7z",
  half: "M8 2a6 6 0 1 1 0 12a6 6 0 0 1 0-12M8 2v12M8 4.5h3.5M8 8h5.5M8 11.5h3.5",
  help: "M5.5 6a2.5 2.5 0 1 1 3.5 2.300c-.7.3-1 .8-1 1.700M8 12.700v.1",
  close: "M4 4l8 8M12 4l-8 8",
  check: "M3 8.5l3.5 3.5L13 4.5",
  warn: "M8 2.5 14.5 13.5h-13zM8 6.5v3.5M8 11.800v.1",
  info: "M8 2a6 6 0 1 1 0 12a6 6 0 0 1 0-12M8 7.5v3.5M8 5.100v.1",
  lock: "M4 7.5h8v6H4zM5.5 7.5V5.5a2.5 2.5 0 0 1 5 0v2",
  right: "M6 3.5 10.5 8 6 12.5",
  down: "M3.5 6 8 10.5 12.5 6",
  up: "M3.5 10 8 5.5 12.5 10",
  left: "M10 3.5 5.5 8 10 12.5",
  end: "M8 2.5v9M4 8l4 4 4-4M3 14.5h10",
  copy: "M5.5 5.5h7.5v8H5.5zM10.5 5.5v-3H3v8h2.5",
  stop: "M4 4h8v8H4z",
  play: "M5 3.5 12.5 8 5 12.5z",
  plus: "M8 3v10M3 8h10",
  edit: "M3 13l.7-2.800L11 3l2 2-7.2 7.300z",
  fork: "M4.5 3v10M4.5 9.5c5 0 6.5-1.5 6.5-5M11 4.5V3M3 3h3M9.5 3h3M3 13h3",
  back: "M6 3.5 2.5 7 6 10.5M2.5 7H10a3.5 3.5 0 0 1 0 7H7",
  filter: "M2.5 4h11M4.5 8h7M6.5 12h3",
  download: "M8 2.5v7.5M5 7l3 3 3-3M3 13.5h10",
  more: "M3.5 8h.1M8 8h.1M12.5 8h.1",
  open: "M9.5 3H13v3.5M13 3 8 8M6.5 4H3v9h9V9.5",
};

/** @typedef {keyof typeof PATHS} IconName */

/**
 * @param {{ name: string, label?: string, class?: string }} props `label` only where no words stand beside it.
 */
export function Icon({ name, label, class: kind = "" }) {
  return html`<svg class=${`icon ${kind}`} viewBox="0 0 16 16" width="16" height="16" fill="none" stroke="currentColor" stroke-width="1.5"
    stroke-linecap="round" stroke-linejoin="round" role=${label ? "img" : undefined} aria-label=${label} aria-hidden=${label ? undefined : "true"}>
    <path d=${PATHS[name] ?? PATHS.info} />
  </svg>`;
}

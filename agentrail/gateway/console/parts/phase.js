// The phase of a session as a sign and a word.

import { text } from "../text/en.js";
import { html } from "../ui.js";

const words = text.session;

const LOOKS = /** @type {Record<string, [string, string]>} */ ({
  idle: ["○", "dim"],
  running: ["●", "accent"],
  streaming: ["●", "accent"],
  executing_tools: ["●", "accent"],
  waiting: ["!", "warn"],
  stopping: ["■", "warn"],
  asleep: ["○", "dim"],
  ended: ["□", "dim"],
  parked: ["✕", "bad"],
  loading: ["…", "dim"],
});

/**
 * What is said of how a session stands, in one word.
 * @param {{ phase: string, suspended?: boolean, tearing_down?: boolean, ended?: {parked: boolean} | null }} view
 * @returns {string}
 */
export function phaseOf(view) {
  if (view.ended) return view.ended.parked ? "parked" : "ended";
  if (view.tearing_down) return "stopping";
  return view.suspended ? "waiting" : view.phase;
}

/**
 * @param {{ phase: string, suspended?: boolean }} props
 */
export function PhaseWord({ phase, suspended = false }) {
  const told = suspended ? "waiting" : phase;
  const [sign, look] = LOOKS[told] ?? ["·", "dim"];
  const word = /** @type {Record<string, string>} */ (words.phases)[told] ?? words.phaseUnknown(told);
  return html`<span class=${`phase ${look}`}><span aria-hidden="true">${sign}</span> ${word}</span>`;
}

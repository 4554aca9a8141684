// The time that is left to decide, counted down each second. Words come from `text/`.

import { clock } from "../pure/numbers.js";
import { text } from "../text/en.js";
import { html, useEffect, useState } from "../ui.js";

const words = text.approval;
const LITTLE_MS = 30_000;

/**
 * @param {{ until: number | null }} props milliseconds since 1970; null: it waits without a limit
 */
export function TimeLeft({ until }) {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (until === null) return;
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, [until]);
  if (until === null) return html`<span class="dim small">${words.noTime}</span>`;
  const left = until - now;
  const look = left <= LITTLE_MS ? "warn" : "dim";
  const shown = left > 0 ? words.timeLeft(clock(left)) : words.timeOver;
  return html`<span class=${`small number ${look}`} title=${new Date(until).toISOString()}>${shown}</span>`;
}

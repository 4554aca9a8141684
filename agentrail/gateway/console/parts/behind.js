// What stays done outside when a session goes back, or another one goes on from an earlier record: asked of the server without doing anything. Nothing is decided here.

import { text } from "../text/en.js";
import { html, useEffect, useState } from "../ui.js";
import { SafeText } from "./safe_text.js";
import { Loading, Problem } from "./states.js";

const words = text.approval;

/**
 * @typedef {{ state: "asking" } | { state: "told", calls: Record<string, any>[], at: number | null } | { state: "not_told" } | { state: "failed", error: any }} Behind
 */

/**
 * A moment of a session: behind a record, or behind the record of an event, which readers know who may not read journals; neither is the last one.
 * @typedef {{ at?: number | null | undefined, event?: number | null | undefined }} Moment
 */

/**
 * The fields that name a moment.
 * @param {"to" | "at"} name
 * @param {Moment} moment
 * @returns {Record<string, number>}
 */
export function fieldsOf(name, { at, event }) {
  if (typeof event === "number") return { event };
  return typeof at === "number" ? { [name]: at } : {};
}

/**
 * Asks which calls behind a moment are not taken back.
 * @param {import("../wire/api.js").Api} api
 * @param {string} session
 * @param {Moment} moment
 * @returns {Behind}
 */
export function useBehind(api, session, moment) {
  const [behind, setBehind] = useState(/** @type {Behind} */ ({ state: "asking" }));
  useEffect(() => {
    const place = fieldsOf("to", moment);
    if (Object.keys(place).length === 0) {
      setBehind({ state: "told", calls: [], at: null });
      return;
    }
    const left = new AbortController();
    api.post(`sessions/${encodeURIComponent(session)}/rewind`, { ...place, dry: true }, { signal: left.signal }).then(
      (told) => setBehind({ state: "told", calls: told.calls ?? [], at: told.at }),
      (error) => {
        if (left.signal.aborted) return;
        // A server of before it: it names a field that it does not know, and has done nothing.
        if (error.code === "field_unknown") setBehind({ state: "not_told" });
        else setBehind({ state: "failed", error });
      },
    );
    return () => left.abort();
  }, [api, session, moment.at, moment.event]);
  return behind;
}

/** @param {{ behind: Behind }} props */
export function BehindList({ behind }) {
  switch (behind.state) {
    case "asking":
      return html`<${Loading} rows=${2} />`;
    case "failed":
      return html`<${Problem} error=${behind.error} />`;
    case "not_told":
      return html`<p class="warn">${words.behind.notTold}</p>`;
    default:
      return html`<${Calls} calls=${behind.calls} />`;
  }
}

/** @param {{ calls: Record<string, any>[] }} props */
function Calls({ calls }) {
  const { behind, effects } = words;
  if (calls.length === 0) return html`<p class="dim">${behind.none}</p>`;
  return html`<p class="warn">${behind.count(calls.length)}</p>
    <div class="behind-scroll" tabindex="0" role="group" aria-label=${behind.title}><table class="behind">
      <thead><tr><th scope="col">${behind.tool}</th><th scope="col">${behind.outcome}</th><th scope="col">${behind.effect}</th><th scope="col" class="number">${behind.record}</th></tr></thead>
      <tbody>${calls.map(
        (call) => html`<tr key=${call["call_id"]}>
          <td><span class="mono"><${SafeText} text=${call["name"] ?? ""} strict /></span> <span class="dim small"><${SafeText} text=${call["summary"] ?? ""} strict /></span></td>
          <td>${behind.outcomes[call["outcome"]] ?? call["outcome"] ?? ""}</td>
          <td>${effects[call["effect_class"]]?.name ?? call["effect_class"] ?? ""}</td>
          <td class="number">${call["number"] ?? ""}</td>
        </tr>`,
      )}</tbody>
    </table></div>`;
}

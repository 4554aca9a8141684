// The slash commands above the composer: those that what is typed may be, and what the last one told. The server says which there are, and runs them.

import { commandIn, commandsFor } from "../pure/commands.js";
import { text } from "../text/en.js";
import { html, useEffect, useState } from "../ui.js";
import { ApiError } from "../wire/api.js";
import { useEnv } from "./session_env.js";
import { SafeText } from "./text_view.js";

const words = text.session;

/**
 * @typedef {object} Palette
 * @property {readonly import("../pure/commands.js").CommandRow[]} offered
 * @property {{name: string, lines: readonly string[]} | null} told what the last one told
 * @property {() => void} close
 * @property {(draft: string) => boolean} run false: the draft is no command
 */

/**
 * @param {string} draft
 * @returns {Palette}
 */
export function useSlashCommands(draft) {
  const { api, sessionId } = useEnv();
  const [rows, setRows] = useState(/** @type {readonly import("../pure/commands.js").CommandRow[]} */ ([]));
  const [told, setTold] = useState(/** @type {Palette["told"]} */ (null));
  const isWanted = draft.startsWith("/");
  useEffect(() => {
    if (!isWanted) return undefined;
    const left = new AbortController();
    api.get("commands", { session_id: sessionId }, { signal: left.signal }).then(
      (listed) => setRows(listed.commands ?? []),
      () => {}, // a server without commands takes the words as they are
    );
    return () => left.abort();
  }, [isWanted, sessionId]);
  return {
    offered: commandsFor(rows, draft),
    told,
    close: () => setTold(null),
    run(typed) {
      const found = commandIn(rows, typed);
      if (found === null) return false;
      const { name } = found.row;
      api.post(`commands/${encodeURIComponent(name)}`, { text: found.text, session_id: sessionId }).then(
        (done) => setTold((done?.lines ?? []).length === 0 ? null : { name, lines: done.lines }),
        (error) => {
          if (!(error instanceof ApiError)) throw error;
          setTold({ name, lines: [error.message || words.lostAnswer] });
        },
      );
      return true;
    },
  };
}

/** @param {{ palette: Palette, choose: (draft: string) => void }} props */
export function SlashCommands({ palette, choose }) {
  const { offered, told } = palette;
  return html`${
    offered.length === 0
      ? null
      : html`<ul class="plain-list slash-list" aria-label=${words.commands}>
          ${offered.map(
            (row) => html`<li key=${row.name}>
              <button type="button" class="link slash-row" disabled=${!row.available} title=${row.why_not ?? ""}
                onClick=${() => choose(row.arguments === "" ? `/${row.name}` : `/${row.name} `)}>
                <code>/<${SafeText} text=${`${row.name} ${row.arguments}`.trim()} /></code>
                <span class="dim"> <${SafeText} text=${row.why_not ?? row.description} /></span>
              </button>
            </li>`,
          )}
        </ul>`
  }
    ${
      told === null
        ? null
        : html`<section class="slash-told" role="status" aria-label=${words.commandTold(told.name)}>
          <button type="button" class="link" onClick=${palette.close}>${words.commandClose}</button>
          <pre><${SafeText} text=${told.lines.join("\n")} /></pre>
        </section>`
    }`;
}

// The panel *Plugins* of a session: its plugins in the order in which they are asked, what the conversation tells of them, and, for who may inspect, how those of
// the same name do over all sessions.

import { NoticeWords } from "../parts/notice_words.js";
import { HookTable } from "../parts/plugin_parts.js";
import { Empty, Loading, Problem } from "../parts/states.js";
import { SafeText } from "../parts/text_view.js";
import { useRows } from "../parts/watched.js";
import { noticesByPlugin } from "../pure/plugin_facts.js";
import { text } from "../text/en.js";
import { html, useEffect, useMemo, useState } from "../ui.js";
import { ApiError } from "../wire/api.js";

const words = text.plugins.panel;
/** How many notices of one plugin are listed; the newest ones. */
const LISTED = 5;

/** @typedef {{ name: string, version: string, priority: number }} Loaded */

/**
 * @param {object} props
 * @param {import("../pure/view.js").View} props.view
 * @param {import("../wire/api.js").Api} props.api
 * @param {import("../wire/socket.js").Connection} props.connection
 * @param {import("../pages.js").Info} props.info
 * @param {(key: string) => void} props.select
 */
export function Panel({ view, api, connection, info, select }) {
  const [loaded, setLoaded] = useState(/** @type {Loaded[] | null} */ (null));
  const [error, setError] = useState(/** @type {ApiError | null} */ (null));
  const notices = useMemo(() => noticesByPlugin(view.items), [view.items]);
  // Plugins may come and go with options and changes of the session: they are asked for again when one of those was told.
  const changes = [...notices.values()].reduce((sum, one) => sum + one.other.length, 0);
  const ask = () => {
    setError(null);
    api.get(`sessions/${encodeURIComponent(view.session_id)}`).then(
      (told) => setLoaded(told.status?.plugins ?? []),
      (failure) => setError(failure instanceof ApiError ? failure : new ApiError(0, {})),
    );
  };
  useEffect(ask, [api, view.session_id, changes]);
  if (error !== null) return html`<${Problem} error=${error} onRetry=${ask} />`;
  if (loaded === null) return html`<${Loading} rows=${3} />`;
  const gone = [...notices.keys()].filter((name) => !loaded.some((one) => one.name === name));
  if (loaded.length === 0 && gone.length === 0) return html`<${Empty} words=${words.none} />`;
  const mayInspect = info.principal.scopes.includes("inspect") && info.features.includes("plugin_calls");
  return html`<div class="session-plugins">
    <p class="dim small">${words.asked} ${words.loaded}</p>
    <ol>
      ${loaded.map((one) => html`<li key=${one.name}><${One} plugin=${one} told=${notices.get(one.name)} select=${select} /></li>`)}
      ${gone.map((name) => html`<li key=${name}><${One} plugin=${{ name, version: "", priority: null }} told=${notices.get(name)} select=${select} /></li>`)}
    </ol>
    ${mayInspect ? html`<${OverAll} connection=${connection} names=${loaded.map((one) => one.name)} />` : null}
  </div>`;
}

/**
 * @param {object} props
 * @param {{ name: string, version: string, priority: number | null }} props.plugin
 * @param {ReturnType<ReturnType<typeof noticesByPlugin>["get"]>} props.told
 * @param {(key: string) => void} props.select
 */
function One({ plugin, told, select }) {
  const said = told ?? { failed: [], slow: [], ignored: [], other: [] };
  const listed = [...said.failed, ...said.slow, ...said.ignored, ...said.other]
    .sort((one, other) => other.seq - one.seq)
    .slice(0, LISTED);
  return html`<section class="one-plugin">
    <h2 class="cut plugin-name"><${SafeText} text=${plugin.name} />${isVersion(plugin.version) ? html` <span class="dim">${plugin.version}</span>` : null}</h2>
    <p class="plugin-words">
      <span class="dim">${plugin.priority === null ? words.gone : words.priority(plugin.priority)}</span>
      ${said.failed.length > 0 ? html`<span class="bad">${words.failed(said.failed.length)}</span>` : null}
      ${said.slow.length > 0 ? html`<span class="warn">${words.slow(said.slow.length)}</span>` : null}
      ${said.ignored.length > 0 ? html`<span class="warn">${words.ignored(said.ignored.length)}</span>` : null}
      ${listed.length === 0 ? html`<span class="dim">${words.well}</span>` : null}
    </p>
    ${
      listed.length > 0
        ? html`<ul class="plugin-notices">${listed.map(
            (item) =>
              html`<li key=${item.key}><button type="button" class="link" onClick=${() => select(item.key)}>#${item.seq}</button> <${NoticeWords} item=${item} /></li>`,
          )}</ul>`
        : null
    }
  </section>`;
}

/** One that was never given says nothing. @param {string} version */
const isVersion = (version) => version !== "" && version !== "0";

/** @param {{ connection: import("../wire/socket.js").Connection, names: string[] }} props */
function OverAll({ connection, names }) {
  const { rows } = useRows(connection, "plugins");
  const shown =
    rows === null ? [] : names.map((name) => rows.get(`session:${name}`)).filter((row) => row !== undefined);
  if (shown.length === 0) return null;
  return html`<section>
    <h2 class="plugin-name">${words.over}</h2>
    ${shown.map((row) => html`<div key=${row.key} class="over-all"><h3 class="cut"><${SafeText} text=${row.name} /></h3><${HookTable} row=${row} isSmall /></div>`)}
  </section>`;
}

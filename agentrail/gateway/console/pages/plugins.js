// The page *Plugins*: those that failed or are stuck, those of the host in their order, those of sessions by name; live. What they come to over all their
// hooks is said in `pure/plugin_facts.js`.

import { HookTable, PluginHead, Trouble } from "../parts/plugin_parts.js";
import { Empty, Loading, Problem } from "../parts/states.js";
import { useRows } from "../parts/watched.js";
import { byKind, isTroubled, troubled } from "../pure/plugin_facts.js";
import { text } from "../text/en.js";
import { html } from "../ui.js";

const words = text.plugins;

/** @param {import("../pages.js").PageProps} props */
function Page({ connection, info }) {
  // An older server is not asked for what it would refuse.
  if (info.features.includes("plugin_calls")) return html`<${Live} connection=${connection} />`;
  return html`<h1>${words.title}</h1><${Empty} words=${text.shell.pageOfOlderServer(words.title)} />`;
}

/** @param {{ connection: import("../wire/socket.js").Connection }} props */
function Live({ connection }) {
  const { rows, error } = useRows(connection, "plugins");
  if (error !== null) return html`<h1>${words.title}</h1><${Problem} error=${error} />`;
  if (rows === null) return html`<h1>${words.title}</h1><${Loading} />`;
  const all = /** @type {import("../pure/plugin_facts.js").PluginRow[]} */ ([...rows.values()]);
  const { host, session } = byKind(all);
  const bad = troubled(all);
  return html`<div class="plugins-page" role="group" tabindex="0" aria-label=${words.title}>
    <h1>${words.title}</h1>
    <section aria-labelledby="plugins-bad">
      <h2 id="plugins-bad">${words.troubled}</h2>
      ${
        bad.length === 0
          ? html`<p class="dim">${words.allWell}</p>`
          : html`<ul class="trouble">${bad.map((row) => html`<li key=${row.key}><${Trouble} row=${row} /></li>`)}</ul>`
      }
    </section>
    <section aria-labelledby="plugins-host">
      <h2 id="plugins-host">${words.ofHost}</h2>
      ${host.length === 0 ? html`<${Empty} words=${words.noneOfHost} action=${html`<p class="dim"><code>${words.noneOfHostHint}</code></p>`} />` : html`<${Cards} rows=${host} />`}
    </section>
    <section aria-labelledby="plugins-session">
      <h2 id="plugins-session">${words.ofSessions}</h2>
      ${session.length === 0 ? html`<${Empty} words=${words.noneOfSessions} />` : html`<${Cards} rows=${session} />`}
    </section>
    <p class="dim small">${words.hint}</p>
  </div>`;
}

/** @param {{ rows: import("../pure/plugin_facts.js").PluginRow[] }} props */
function Cards({ rows }) {
  return html`<div class="plugin-cards">
    ${rows.map(
      (row) => html`<article key=${row.key} class=${`plugin-card panel ${isTroubled(row) ? "plugin-bad" : ""}`}>
        <${PluginHead} row=${row} />
        <${HookTable} row=${row} />
      </article>`,
    )}
  </div>`;
}

export const page = { route: "/plugins", title: words.title, Page };

// The palette of Ctrl K: pages, commands, and sessions by their titles. What a command does is its owner's.

import { hrefOf } from "../pure/route.js";
import { nameOf } from "../pure/session_name.js";
import { text } from "../text/en.js";
import { html, useEffect, useId, useMemo, useRef, useState } from "../ui.js";
import { Brief } from "./brief.js";
import { Dialog } from "./dialog.js";

const MOST = 50;
const ASK_AFTER_MS = 150;

/** @typedef {{ key: string, kind: "page" | "session" | "command", label: string, run: () => void }} Entry */

/**
 * @param {{ entries: Entry[], api: import("../wire/api.js").Api, navigate: (href: string) => void, onClose: () => void }} props
 */
export function CommandPalette({ entries, api, navigate, onClose }) {
  const [query, setQuery] = useState("");
  const [sessions, setSessions] = useState(/** @type {Entry[]} */ ([]));
  const [at, setAt] = useState(0);
  const id = useId();
  /** @type {{ current: HTMLElement | null }} */
  const list = useRef(null);
  useEffect(() => {
    const asked = new AbortController();
    const timer = setTimeout(() => {
      findSessions(api, query, asked.signal, navigate).then(setSessions, () => setSessions([]));
    }, ASK_AFTER_MS);
    return () => {
      clearTimeout(timer);
      asked.abort();
    };
  }, [query]);
  const found = useMemo(() => {
    const wanted = query.trim().toLowerCase();
    const own = entries.filter((one) => one.label.toLowerCase().includes(wanted));
    return [...own, ...sessions].slice(0, MOST);
  }, [entries, sessions, query]);
  const chosen = Math.min(at, found.length - 1);
  useEffect(() => {
    list.current?.children[chosen]?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const go = (/** @type {Entry | undefined} */ entry) => {
    if (entry === undefined) return;
    onClose();
    entry.run();
  };
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "ArrowDown") setAt(Math.min(chosen + 1, found.length - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(chosen - 1, 0));
    else if (event.key === "Enter") go(found[chosen]);
    else return;
    event.preventDefault();
  };
  return html`<${Dialog} title=${text.shell.palette.title} onClose=${onClose} kind="palette">
    <input class="palette-field" role="combobox" aria-expanded="true" aria-controls=${id} autofocus
      aria-activedescendant=${found.length ? `${id}-${chosen}` : undefined}
      aria-label=${text.shell.palette.placeholder} placeholder=${text.shell.palette.placeholder} value=${query}
      onInput=${(/** @type {any} */ event) => {
        setQuery(event.target.value);
        setAt(0);
      }} onKeyDown=${pressed} />
    <p class="sr-only" role="status">${found.length ? text.shell.palette.found(found.length) : text.shell.palette.nothing}</p>
    <ul class="palette-list" role="listbox" id=${id} ref=${list} aria-label=${text.shell.palette.title}>
      ${found.map(
        (
          entry,
          index,
        ) => html`<li key=${entry.key} id=${`${id}-${index}`} role="option" aria-selected=${index === chosen}
          onClick=${() => go(entry)} onMouseMove=${() => setAt(index)}>
          <span dir="auto" class="cut"><${Brief} text=${entry.label} /></span><span class="dim">${text.shell.palette[entry.kind]}</span>
        </li>`,
      )}
    </ul>
    ${found.length ? null : html`<p class="dim" aria-hidden="true">${text.shell.palette.nothing}</p>`}
  <//>`;
}

/**
 * @param {import("../wire/api.js").Api} api
 * @param {string} query
 * @param {AbortSignal} signal
 * @param {(href: string) => void} navigate
 * @returns {Promise<Entry[]>}
 */
async function findSessions(api, query, signal, navigate) {
  const wanted = query.trim();
  const params = wanted ? { limit: 20, q: wanted } : { limit: 20 };
  const { sessions } = await api.get("sessions", params, { signal });
  return sessions.map((/** @type {any} */ row) => ({
    key: `session ${row.session_id}`,
    kind: "session",
    label: nameOf(row) ?? row.session_id,
    run: () => navigate(hrefOf("/s/:id", { id: row.session_id })),
  }));
}

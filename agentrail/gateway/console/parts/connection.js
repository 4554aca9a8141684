// How the connection stands: a word in the bar, a line below it while it is lost, and a panel with what was counted.

import { text } from "../text/en.js";
import { html, useEffect, useState } from "../ui.js";
import { counters } from "../wire/counters.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icon.js";

/** @typedef {import("../wire/socket.js").Connection} Connection */

const LOST_MS = 1_000;
const TICK_MS = 250;

const SIGNS = { connecting: "◌", live: "●", lost: "▲", refused: "✕" };

/**
 * @param {Connection} connection
 * @returns {import("../wire/socket.js").ConnectionState}
 */
export function useConnectionState(connection) {
  const [state, setState] = useState(connection.state);
  useEffect(() => {
    setState(connection.state);
    return connection.onState(setState);
  }, [connection]);
  return state;
}

/** @param {number} ms */
const clock = (ms) => new Date(ms).toLocaleTimeString();

/**
 * @param {{ connection: Connection, onOpen: () => void }} props
 */
export function ConnectionButton({ connection, onOpen }) {
  const state = useConnectionState(connection);
  const words = state.paused ? text.shell.connection.paused : text.shell.connection[state.name];
  return html`<button type="button" class=${`connection-button ${state.name}`} onClick=${onOpen} title=${text.shell.connection.title}>
    <span aria-hidden="true">${SIGNS[state.name]}</span> <span class="connection-word">${words}</span>
  </button>`;
}

/**
 * Stands below the bar from a second after the loss on; all else stays readable.
 * @param {{ connection: Connection, caughtUp: number | null }} props
 */
export function ConnectionBar({ connection, caughtUp }) {
  const state = useConnectionState(connection);
  const [now, setNow] = useState(Date.now());
  const isLost = state.name === "lost";
  useEffect(() => {
    if (!isLost) return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, [isLost]);
  if (isLost && now - state.since_ms >= LOST_MS) {
    const seconds = state.next_try_ms === null ? 0 : Math.max(0, Math.ceil((state.next_try_ms - now) / 1_000));
    const asOf = state.as_of_ms === null ? null : clock(state.as_of_ms);
    return html`<div class="connection-bar lost">
      <span><${Icon} name="warn" /> ${text.shell.connection.lostBar(seconds, asOf)}</span>
      <button type="button" class="button small" onClick=${() => connection.tryNow()}>${text.shell.connection.tryNow}</button>
    </div>`;
  }
  if (caughtUp !== null)
    return html`<div class="connection-bar back"><${Icon} name="check" /> ${text.shell.connection.caughtUp(caughtUp)}</div>`;
  return null;
}

/**
 * @param {{ connection: Connection, info: import("../pages.js").Info, onClose: () => void, onForget: (() => void) | null }} props
 */
export function ConnectionPanel({ connection, info, onClose, onForget }) {
  const state = useConnectionState(connection);
  const [, redraw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => redraw((before) => before + 1), 1_000);
    return () => clearInterval(timer);
  }, []);
  const words = text.shell.connection;
  const { principal } = info;
  const facts = [
    [words.state, `${words[state.name]}, ${words.since} ${clock(state.since_ms)}`],
    [words.server, info.version || words.unknown],
    [words.protocol, info.protocol],
    [words.caller, principal.user ? `${principal.user} (${principal.tenant})` : principal.tenant || words.unknown],
    [words.scopes, principal.scopes.join(", ") || words.none],
    [
      words.expires,
      principal.expires_at_ms === null ? words.never : new Date(principal.expires_at_ms).toLocaleString(),
    ],
    [words.features, info.features.join(", ") || words.none],
  ];
  return html`<${Dialog} title=${words.title} onClose=${onClose}
    footer=${onForget ? html`<button type="button" class="button" onClick=${onForget}>${words.switchOff}</button>` : null}>
    <dl class="facts">${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    <h3>${words.counters}</h3>
    <dl class="facts numbers">
      ${Object.entries(counters).map(
        ([name, count]) => html`<div key=${name}>
          <dt>${text.shell.counters[/** @type {keyof typeof counters} */ (name)]}</dt><dd>${count.toLocaleString()}</dd>
        </div>`,
      )}
    </dl>
  <//>`;
}

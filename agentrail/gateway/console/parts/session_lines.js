// One line of the list of sessions: a heading, something that waits, or a session. Each line is one link, so it is opened by a click, by Enter, or in a new tab.

import { age, exact, money, tokens } from "../pure/numbers.js";
import { hrefOf } from "../pure/route.js";
import { safeText } from "../pure/safe_text.js";
import { nameOf, namesOfPath } from "../pure/session_name.js";
import { phaseOfRow } from "../pure/session_rows.js";
import { text } from "../text/en.js";
import { Component, html, useEffect, useState } from "../ui.js";
import { briefly } from "./brief.js";
import { Icon } from "./icon.js";
import { Loading, Problem } from "./states.js";
import { Countdown, Elapsed } from "./ticking.js";

const words = text.sessions;
const AGES_MS = 10_000;

/** @typedef {import("../pure/rows.js").Row} Row */

/** @type {Record<string, [string, string]>} A sign and a colour for each phase; the word stands beside it. */
const LOOKS = {
  idle: ["○", "dim"],
  asleep: ["○", "dim"],
  ended: ["□", "dim"],
  running: ["●", "accent"],
  streaming: ["●", "accent"],
  executing_tools: ["●", "accent"],
  waiting: ["!", "warn"],
  stopping: ["■", "warn"],
};

/**
 * @param {{ item: { group: import("../pure/session_rows.js").Group, count: number, isFolded: boolean }, toggle: (group: string) => void }} props
 */
export function GroupHead({ item, toggle }) {
  return html`<div class=${`group-head ${item.group}`}>
    <h2><button type="button" class="group-fold" aria-expanded=${!item.isFolded} onClick=${() => toggle(item.group)}>
      <${Icon} name=${item.isFolded ? "right" : "down"} />
      <span>${words.groups[item.group]}</span> <span class="count">${exact(item.count)}</span>
    </button></h2>
    ${
      item.group === "waiting" || item.isFolded
        ? null
        : html`<span class="heads" aria-hidden="true"><span class="number">${words.columns.tokens}</span><span class="number">${words.columns.cost}</span><span class="number">${words.columns.age}</span></span>`
    }
  </div>`;
}

/**
 * Something that waits for a person, and since when: a link to where it waits, and a button that shows the decision here.
 * @param {{ row: Row, session: string, isCurrent: boolean, isOpen: boolean, toggle: ((key: string) => void) | null, api: import("../wire/api.js").Api, connection: import("../wire/socket.js").Connection }} props
 *   `session`: what its root is called; `toggle`: null where it is decided elsewhere, such as beside its session
 */
export function WaitingLine({ row, session, isCurrent, isOpen, toggle, api, connection }) {
  const isApproval = row["kind"] === "approval";
  const steps = namesOfPath(Array.isArray(row["path"]) ? row["path"] : [], session);
  const href = hrefOf("/s/:id", { id: row["session_id"], waits: isApproval ? row["approval_id"] : row["ref"] });
  const shownIn = isApproval
    ? words.decideOn(row["tool"] ?? "", session)
    : words.answerIn(row["summary"] ?? "", session);
  return html`<div class=${`waiting-row ${isOpen ? "open" : ""}`}>
    <div class="waiting-head">
      <a class="line waiting-line" href=${href} aria-current=${isCurrent ? "true" : undefined}>
        <span class="sign warn" aria-hidden="true">${isApproval ? "!" : "?"}</span>
        <span class="what"><span class="sr-only">${isApproval ? words.approvalOf : words.question}: </span>${row["tool"] ? html`<code class="tool">${briefly(row["tool"], true)}</code>` : null}<span class="cut" dir="auto" title=${hintOf(row["summary"])}>${briefly(row["summary"], true)}</span></span>
        <span class="where cut dim" dir="auto" title=${hintOf((steps.length > 1 ? steps : [session]).join(" › "))}>${briefly(session, true)}${steps.length > 1 ? html` <bdi>› ${briefly(steps.at(-1), true)}</bdi>` : null}</span>
        <span class="time number">${
          row["expires_at_ms"] === null || row["expires_at_ms"] === undefined
            ? html`<${Elapsed} from=${row["at_ms"]} words=${words.since} />`
            : html`<${Countdown} until=${row["expires_at_ms"]} words=${words.left} over=${words.runsOut} />`
        }</span>
      </a>
      ${
        toggle === null
          ? null
          : html`<button type="button" class="button small decide" aria-expanded=${isOpen} aria-label=${hintOf(shownIn)} onClick=${() => toggle(row["key"])}>${isOpen ? words.decideLater : isApproval ? words.decide : words.answer}</button>`
      }
    </div>
    ${isOpen && toggle !== null ? html`<${Decision} row=${row} api=${api} connection=${connection} />` : null}
  </div>`;
}

/**
 * The decision itself, which is loaded when the first one is opened.
 * @param {{ row: Row, api: import("../wire/api.js").Api, connection: import("../wire/socket.js").Connection }} props
 */
function Decision({ row, api, connection }) {
  const [found, setFound] = useState(/** @type {any} */ (null));
  const [failed, setFailed] = useState(/** @type {Error | null} */ (null));
  useEffect(() => {
    import("./waiting_decision.js").then((module) => setFound(() => module.WaitingDecision), setFailed);
  }, []);
  if (failed !== null) return html`<${Problem} error=${new Error(text.shell.pageNotServed)} />`;
  if (found === null) return html`<${Loading} rows=${2} />`;
  return html`<${found} row=${row} api=${api} connection=${connection} />`;
}

/**
 * Draws a line again only where what it shows is another one: a list that is scrolled, or of which another row changed, draws none of those that stay.
 * @extends {Component<Record<string, any> & { draw: (props: any) => any }, {}>}
 */
export class StillLine extends Component {
  /** @param {Record<string, any>} next */
  shouldComponentUpdate(next) {
    const before = /** @type {Record<string, any>} */ (this.props);
    return Object.keys(next).some((name) => next[name] !== before[name]);
  }

  render() {
    const { draw, ...rest } = this.props;
    return html`<${draw} ...${rest} />`;
  }
}

/**
 * @param {{ row: Row, isOpen: boolean, withUser: boolean }} props
 */
export function SessionLine({ row, isOpen, withUser }) {
  const phase = phaseOfRow(row);
  const [sign, look] = LOOKS[phase] ?? ["·", "dim"];
  const word = /** @type {Record<string, string>} */ (words.phases)[phase] ?? words.phaseUnknown(phase);
  const name = nameOf(row);
  const waiting = words.waits(row["waiting"]?.approvals ?? 0, row["waiting"]?.questions ?? 0);
  return html`<a class=${`line session-line ${phase === "ended" ? "is-ended" : ""}`} href=${hrefOf("/s/:id", { id: row["session_id"] })} aria-current=${isOpen ? "true" : undefined}>
    <span class=${`told ${look}`}><span aria-hidden="true">${sign}</span> ${word}</span>
    <span class="name cut" dir="auto" title=${hintOf(name ? `${name} · ${row["session_id"]}` : row["session_id"])}>${name === null ? html`<span class="dim mono">${row["session_id"]}</span>` : briefly(name)}</span>
    <span class="doing cut">
      ${row["tool"] ? html`<code class="tool">${briefly(words.doing(row["tool"].name, row["running"] - 1))}</code> <${Elapsed} from=${row["tool"].since_ms} />` : null}
      ${waiting && !row["tool"] ? html`<span class="warn">${waiting}</span>` : null}
      ${row["outcome"] === "failed" || row["outcome"] === "aborted" ? html`<span class=${row["outcome"] === "failed" ? "bad" : "dim"}>${/** @type {any} */ (words.outcomes)[row["outcome"]]}</span>` : null}
      ${row["queued"] > 0 ? html`<span class="dim">${words.queued(row["queued"])}</span>` : null}
      ${row["restarts"] > 0 ? html`<span class="warn">${words.restarts(row["restarts"])}</span>` : null}
    </span>
    <span class="profile cut dim" title=${hintOf(row["model"])}>${briefly(row["agent_id"] ?? words.noProfile)}${withUser && row["user"] ? html` <bdi class="user">${briefly(words.ofUser(row["user"]))}</bdi>` : null}</span>
    <span class="tokens number dim">${typeof row["tokens"] === "number" ? tokens(row["tokens"]) : ""}</span>
    <span class="cost number">${costOf(row)}</span>
    <${Age} at=${row["changed_at_ms"]} />
  </a>`;
}

/**
 * Words for a hint or a label, with what is not seen made visible there too.
 * @param {unknown} told
 */
function hintOf(told) {
  return safeText(String(told ?? ""), true);
}

/** @param {Row} row */
function costOf(row) {
  if (typeof row["cost_usd"] === "number") return money(row["cost_usd"]);
  return typeof row["tokens"] === "number" && row["tokens"] > 0
    ? html`<span class="dim" title=${words.costUnknown}>$?</span>`
    : "";
}

/**
 * How long ago something was; counted on from time to time, so that a list at rest draws next to nothing.
 * @param {{ at: number }} props
 */
function Age({ at }) {
  const now = useSometimes();
  if (!at) return html`<span class="time number dim"></span>`;
  return html`<time class="time number dim" datetime=${new Date(at).toISOString()} title=${new Date(at).toISOString()}>${age(Math.max(0, now - at))}</time>`;
}

/** @type {Set<(now: number) => void>} */
const waitingForTime = new Set();
/** @type {any} */
let timer = null;

/** @returns {number} The time, in milliseconds since 1970; again each ten seconds. */
function useSometimes() {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    waitingForTime.add(setNow);
    timer ??= setInterval(() => {
      for (const tell of [...waitingForTime]) tell(Date.now());
    }, AGES_MS);
    return () => {
      waitingForTime.delete(setNow);
      if (waitingForTime.size > 0) return;
      clearInterval(timer);
      timer = null;
    };
  }, []);
  return now;
}

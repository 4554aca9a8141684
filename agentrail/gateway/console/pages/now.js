// The panel *Now*: what waits for a person, what runs, what is to be done, what waits in the queue, who works for it, and what it costs.

import { amountOf } from "../parts/notice_words.js";
import { PhaseWord } from "../parts/phase.js";
import { Rules } from "../parts/rules.js";
import { useEnv } from "../parts/session_env.js";
import { SafeText } from "../parts/text_view.js";
import { Elapsed } from "../parts/ticking.js";
import { useGoTo } from "../parts/waiting_context.js";
import { oneLine, summaryOf } from "../pure/call_summary.js";
import { money, tokens } from "../pure/numbers.js";
import { hrefOf } from "../pure/route.js";
import { nameBelow, nameOfChild } from "../pure/session_name.js";
import { waitingIn } from "../pure/waiting.js";
import { text } from "../text/en.js";
import { html, useId, useState } from "../ui.js";
import { ApiError } from "../wire/api.js";

/** @typedef {import("../pure/view.js").View} View */

const words = text.session;
const says = words.now;

/**
 * @param {object} props
 * @param {View} props.view
 * @param {readonly {model: string}[]} props.models
 * @param {(key: string) => void} props.select shows an item of the conversation
 * @param {(one: import("../pure/waiting.js").WaitingHere) => void} props.toWaiting goes to where something is answered
 */
export function NowPanel({ view, models, select, toWaiting }) {
  return html`<div class="now">
    <${Waiting} view=${view} toWaiting=${toWaiting} />
    <${Running} view=${view} select=${select} />
    <${Todos} view=${view} />
    <${Queue} view=${view} />
    <${Agents} view=${view} />
    <${Money} view=${view} />
    <${Model} view=${view} models=${models} />
    <${AlwaysAllowed} view=${view} />
  </div>`;
}

/** @param {{ view: View }} props */
function AlwaysAllowed({ view }) {
  const { api, sessionId, features } = useEnv();
  if (!features.has("rules")) return null;
  const made = view.items.filter((item) => item.type === "decision" && item.of === "rule").length;
  return html`<${Section} title=${text.approval.rules.title}><${Rules} session=${sessionId} api=${api} stamp=${made} called=${(/** @type {string} */ id) => nameBelow(view, id)} /><//>`;
}

/** @param {{ title: string, count?: number | null, children?: any }} props */
function Section({ title, count = null, children }) {
  const id = useId();
  return html`<section class="now-section" aria-labelledby=${id}>
    <h3 id=${id} class="now-title">${title}${count === null ? null : html` <span class="dim">${count}</span>`}</h3>
    ${children}
  </section>`;
}

/** @param {{ view: View, toWaiting: (one: import("../pure/waiting.js").WaitingHere) => void }} props */
function Waiting({ view, toWaiting }) {
  const review = useGoTo();
  const all = waitingIn(view);
  if (all.length === 0) return null;
  return html`<${Section} title=${says.waiting} count=${all.length}>
    <ul class="plain-list">
      ${all.map(
        (one) => html`<li key=${one.key} class="now-row">
        <span class="warn" aria-hidden="true">${one.kind === "question" ? "?" : "!"}</span>
        <span class="now-main"><code><${SafeText} text=${one.name} /></code> <${SafeText} text=${one.summary} /></span>
        <button type="button" class="button small" onClick=${() => (one.kind === "question" || review === null ? toWaiting(one) : review(one.key))}>${one.kind === "question" ? words.answerIt : words.review}</button>
      </li>`,
      )}
    </ul>
  <//>`;
}

/** @param {{ view: View, select: (key: string) => void }} props */
function Running({ view, select }) {
  const calls = Object.values(view.running);
  return html`<${Section} title=${says.running} count=${calls.length || null}>
    ${calls.length === 0 ? html`<p class="dim">${says.runningNone}</p>` : null}
    <ul class="plain-list">
      ${calls.map(
        (call) => html`<li key=${call.call_id} class="now-row">
        <span class="accent" aria-hidden="true">●</span>
        <button type="button" class="link now-main" title=${words.openCall} onClick=${() => select(`call:${call.call_id}`)}>
          <code><${SafeText} text=${call.name} /></code> <${SafeText} text=${summaryOf(call.arguments)} />
        </button>
        ${call.started_at_ms === null ? null : html`<${Elapsed} from=${call.started_at_ms} />`}
      </li>`,
      )}
    </ul>
  <//>`;
}

/** @param {{ view: View }} props */
function Todos({ view }) {
  const done = view.todos.filter((todo) => todo.status === "completed").length;
  return html`${
    view.todos.length === 0
      ? null
      : html`<${Section} title=${says.todos} count=${`${done}/${view.todos.length}`}>
          <ul class="plain-list todos">
            ${view.todos.map((todo) => html`<${Tick} key=${todo.id} words=${todo.content} state=${todo.status} />`)}
          </ul>
        <//>`
  }
    ${
      view.plan === null
        ? null
        : html`<${Section} title=${says.plan} count=${`${view.plan.steps.filter((step) => step.done).length}/${view.plan.steps.length}`}>
          <ol class="plain-list todos">
            ${view.plan.steps.map((step) => html`<${Tick} key=${step.index} words=${toldOf(step)} state=${stepState(step)} />`)}
          </ol>
        <//>`
    }`;
}

const TICKS = /** @type {Record<string, string>} */ ({
  pending: "☐",
  in_progress: "◐",
  completed: "☑",
  cancelled: "⊘",
  failed: "☒",
  skipped: "⊘",
});

/** @param {import("../pure/view.js").PlanStep} step */
function toldOf(step) {
  const came = step.error ?? step.result;
  return came ? `${step.content}: ${came}` : step.content;
}

/** @param {import("../pure/view.js").PlanStep} step */
function stepState(step) {
  // What waits says nothing; what was written before there were five states says only whether it is done.
  return step.status ?? (step.done ? "completed" : "pending");
}

/** @param {{ words: string, state: string }} props */
function Tick({ words: told, state }) {
  const named = /** @type {Record<string, string>} */ (says.todoStates)[state] ?? state;
  const look = state === "in_progress" ? "accent" : state === "pending" ? "" : "dim";
  return html`<li class=${`now-row todo is-${state}`}>
    <span class=${look} aria-hidden="true">${TICKS[state] ?? "☐"}</span><span class="sr-only">${named}: </span>
    <span class="now-main ${look === "dim" ? "dim" : ""}" dir="auto"><${SafeText} text=${told} /></span>
  </li>`;
}

/** @param {{ view: View }} props */
function Queue({ view }) {
  if (view.queued.length === 0 && view.steers.length === 0) return null;
  return html`${
    view.steers.length === 0
      ? null
      : html`<${Section} title=${says.steers} count=${view.steers.length}>
          <ul class="plain-list">${view.steers.map((steer) => html`<li key=${steer.ref} class="now-row"><span class="now-main" dir="auto"><${SafeText} text=${oneLine(steer.text)} /></span></li>`)}</ul>
        <//>`
  }
    ${
      view.queued.length === 0
        ? null
        : html`<${Section} title=${says.queue} count=${view.queued.length}>
          <ol class="plain-list">${view.queued.map((queued) => html`<${QueuedLine} key=${queued.ref} queued=${queued} sessionId=${view.session_id} />`)}</ol>
        <//>`
    }`;
}

/** @param {{ queued: import("../pure/view.js").QueuedPrompt, sessionId: string }} props */
function QueuedLine({ queued, sessionId }) {
  const { connection, isPast } = useEnv();
  const [isAsked, setAsked] = useState(false);
  const [refused, setRefused] = useState(/** @type {string | null} */ (null));
  const told = oneLine(queued.content.map((block) => block["text"] ?? block["path"] ?? block.kind).join(" "));
  const remove = async () => {
    setAsked(true);
    setRefused(null);
    const error = await cancelQueued(connection, sessionId, queued);
    setRefused(error === null ? null : error.message || error.code);
    setAsked(error === null);
  };
  return html`<li class="now-row">
    <span class="now-main" dir="auto"><${SafeText} text=${told} /></span>
    ${
      queued.request_id === null || isPast
        ? null
        : html`<button type="button" class="button small" disabled=${isAsked} aria-label=${says.removeNamed(told)} onClick=${remove}>${isAsked ? says.removing : says.remove}</button>`
    }
    ${refused === null ? null : html`<span class="bad" role="alert">${says.notRemoved(refused)}</span>`}
  </li>`;
}

/**
 * Takes a prompt out of the queue.
 * @param {import("../wire/socket.js").Connection} connection
 * @param {string} sessionId
 * @param {import("../pure/view.js").QueuedPrompt} queued
 * @returns {Promise<ApiError | null>} why it could not be; null: it is out
 */
export async function cancelQueued(connection, sessionId, queued) {
  try {
    await connection.command("cancel", sessionId, { request_id: queued.request_id });
    return null;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return error;
  }
}

/** @param {{ view: View }} props */
function Agents({ view }) {
  const children = Object.values(view.children);
  if (children.length === 0) return null;
  return html`<${Section} title=${says.agents} count=${children.length}>
    <ul class="plain-list">
      ${children.map(
        (child) => html`<li key=${child.session_id} class="now-row">
        <a class="now-main" href=${hrefOf("/s/:id", { id: child.session_id })}><${SafeText} text=${nameOfChild(child)} /></a>
        <${PhaseWord} phase=${child.ended ? "ended" : (child.phase ?? "loading")} suspended=${child.view?.suspended ?? false} />
      </li>`,
      )}
    </ul>
  <//>`;
}

/** @param {{ view: View }} props */
function Money({ view }) {
  const { usage, context, budget } = view;
  const left = view.budget_left?.["cost_usd"] ?? null;
  const share = context?.window ? Math.min(1, context.tokens / context.window) : null;
  const estimated = usage.estimated ? html` <span class="dim">${says.estimated}</span>` : null;
  return html`<${Section} title=${says.money}>
    <dl class="facts-list">
      <dt>${says.cost}</dt><dd>${view.cost_usd === null ? html`<span class="dim">${says.costUnknown}</span>` : money(view.cost_usd)}${estimated}</dd>
      <dt>${says.tokens}</dt><dd>${says.inOut(tokens(usage.input), tokens(usage.output))}</dd>
      ${usage.cache_read > 0 ? html`<dt>${says.cached}</dt><dd>${tokens(usage.cache_read)}</dd>` : null}
      ${context === null ? null : html`<dt>${says.context}</dt><dd>${context.window ? says.ofWindow(tokens(context.tokens), tokens(context.window)) : tokens(context.tokens)}</dd>`}
      ${left === null ? null : html`<dt>${says.left}</dt><dd>${money(left)}</dd>`}
      ${budget === null ? null : html`<dt>${says.budget}</dt><dd class="warn">${says.ofBudget(amountOf(budget.spent), amountOf(budget.limit))}</dd>`}
    </dl>
    ${share === null ? null : html`<${Bar} share=${share} />`}
    <p class="dim now-seq">${says.lastEvent(view.seq)}</p>
  <//>`;
}

/** How full something is; the number stands above it in words. */
function Bar(/** @type {{ share: number }} */ { share }) {
  const fit = (/** @type {HTMLElement | null} */ node) =>
    node?.style.setProperty("width", `${Math.round(share * 100)}%`);
  return html`<div class="fill" aria-hidden="true"><div class=${`fill-part ${share > 0.8 ? "is-high" : ""}`} ref=${fit}></div></div>`;
}

/**
 * The model, and its switch: from the next request on another one is asked.
 * @param {{ view: View, models: readonly {model: string}[] }} props
 */
function Model({ view, models }) {
  const { connection, isPast } = useEnv();
  const id = useId();
  const [told, setTold] = useState("");
  const [isBad, setBad] = useState(false);
  const known = models.map((one) => one.model);
  const all = view.model !== null && !known.includes(view.model) ? [view.model, ...known] : known;
  const change = async (/** @type {Event} */ event) => {
    const chosen = /** @type {HTMLSelectElement} */ (event.target).value;
    setTold("");
    try {
      await connection.command("switch_model", view.session_id, { model: chosen });
      setBad(false);
      setTold(says.modelSwitched);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setBad(true);
      setTold(says.modelRefused(error.message || error.code));
    }
  };
  return html`<section class="now-section" aria-labelledby=${`${id}-title`}>
    <h3 class="now-title" id=${`${id}-title`}>${says.model}</h3>
    ${
      all.length < 2 || isPast || view.ended
        ? html`<p><code><${SafeText} text=${view.model ?? ""} /></code></p>`
        : html`<label class="sr-only" for=${id}>${says.modelSwitch}</label>
          <select id=${id} class="select" value=${view.model ?? ""} onChange=${change}>${all.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select>`
    }
    ${told === "" ? null : html`<p class=${isBad ? "bad" : "dim"} role=${isBad ? "alert" : "status"}>${told}</p>`}
  </section>`;
}

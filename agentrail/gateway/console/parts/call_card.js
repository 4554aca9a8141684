// A call where it stands in the conversation: one line that says what it is and how it goes, and behind it arguments, changes of files, progress and result.
// Draws what it is given; the whole of what was cut for the wire is asked for when a person wants it.

import { cutBytes, fileChangeOf, isOver, opensByItself, summaryOf } from "../pure/call_summary.js";
import { pathPart } from "../pure/links.js";
import { bytes, duration } from "../pure/numbers.js";
import { text } from "../text/en.js";
import { html, useState } from "../ui.js";
import { ApiError } from "../wire/api.js";
import { Brief } from "./brief.js";
import { ChildCard } from "./child_card.js";
import { useFold } from "./fold.js";
import { ImageView } from "./image_view.js";
import { useEnv } from "./session_env.js";
import { Diff, Json, Output, SafeText } from "./text_view.js";
import { Elapsed } from "./ticking.js";

/** @typedef {import("../pure/view.js").Call} Call */
/** @typedef {import("../pure/view.js").Child} Child */

const words = text.session;

/** A sign and a colour for each state: neither stands without the word. */
const LOOKS = /** @type {Record<string, [string, string]>} */ ({
  asked: ["…", "dim"],
  waiting: ["!", "warn"],
  running: ["●", "accent"],
  pausing: ["↻", "warn"],
  done: ["✓", "ok"],
  failed: ["✕", "bad"],
  blocked: ["⊘", "warn"],
  rejected: ["⊘", "warn"],
  skipped: ["↷", "dim"],
  unknown_tool: ["?", "warn"],
  killed: ["■", "warn"],
  uncertain: ["?", "bad"],
});

/**
 * @param {{ call: Call, sessionId: string, progress?: string | undefined, children?: Child[], depth?: number }} props `sessionId`: whose call it is
 */
export function CallCard({ call, sessionId, progress, children = [], depth = 1 }) {
  const [isOpen, toggle] = useFold(`${sessionId}/${call.call_id}`, opensByItself(call));
  const isRunning = call.state === "running" || call.state === "pausing";
  return html`<div class=${`call call-${call.state}`} data-call=${call.call_id}>
    <div class="call-line">
      <button type="button" class="call-head" aria-expanded=${isOpen} data-main-fold onClick=${toggle}>
        <span class="fold-sign" aria-hidden="true">${isOpen ? "▾" : "▸"}</span>
        <span class="call-name"><${Brief} text=${call.name} /></span>
        <span class="call-summary"><${SafeText} text=${summaryOf(call.arguments ?? call.asked)} /></span>
        ${call.attempts > 1 ? html`<span class="call-tries dim">${words.attempts(call.attempts)}</span>` : null}
        <${CallState} call=${call} />
        <span class="call-time">${timeOf(call)}</span>
      </button>
      ${isRunning || call.survivor ? html`<${StopButton} call=${call} sessionId=${sessionId} />` : null}
    </div>
    ${!isOpen && progress !== undefined ? html`<p class="call-progress-line"><${SafeText} text=${lastLine(progress)} /></p>` : null}
    ${isOpen ? html`<${CallBody} call=${call} sessionId=${sessionId} progress=${progress} children=${children} depth=${depth} />` : null}
  </div>`;
}

/** @param {{ call: Call }} props */
function CallState({ call }) {
  const [sign, look] = LOOKS[call.state] ?? ["·", "dim"];
  const named =
    /** @type {Record<string, string>} */ (words.callStates)[call.state] ?? words.callStateUnknown(call.state);
  const word = call.survivor ? words.survivor : call.stopping ? words.stopping : named;
  return html`<span class=${`call-state ${look}`}><span aria-hidden="true">${sign}</span> ${word}</span>`;
}

/** @param {Call} call */
function timeOf(call) {
  if (call.duration_ms !== null) return html`<span class="time">${duration(call.duration_ms)}</span>`;
  if (call.started_at_ms === null) return null;
  if (!isOver(call) || call.survivor) return html`<${Elapsed} from=${call.started_at_ms} />`;
  const took = (call.ended_at_ms ?? call.started_at_ms) - call.started_at_ms;
  return took > 0 ? html`<span class="time">${duration(took)}</span>` : null;
}

/** @param {string} progress */
function lastLine(progress) {
  return progress.slice(-400).trimEnd().split("\n").at(-1)?.slice(-200) ?? "";
}

/**
 * Stops this call alone; the cycle goes on.
 * @param {{ call: Call, sessionId: string }} props
 */
function StopButton({ call, sessionId }) {
  const { connection, isPast } = useEnv();
  const [isAsked, setAsked] = useState(false);
  const [refused, setRefused] = useState(/** @type {string | null} */ (null));
  if (isPast) return null;
  const stop = async () => {
    setAsked(true);
    setRefused(null);
    try {
      await connection.command("abort_tool", sessionId, { call_id: call.call_id });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setRefused(error.message || error.code);
      setAsked(false);
    }
  };
  return html`${refused === null ? null : html`<span class="bad call-refused" role="alert">${refused}</span>`}
    <button type="button" class="button small" disabled=${isAsked} aria-label=${words.stopCallNamed(call.name)} onClick=${stop}>
      ${isAsked ? words.stopping : words.stopCall}
    </button>`;
}

/**
 * @param {{ call: Call, sessionId: string, progress: string | undefined, children: Child[], depth: number }} props
 */
function CallBody({ call, sessionId, progress, children, depth }) {
  const [whole, load, problem] = useWhole(call, sessionId);
  const shown = whole === null ? call : { ...call, ...wholeCall(call, whole) };
  const missing = whole === null ? cutBytes(call.arguments) + cutBytes(call.result) : leftOf(whole);
  return html`<div class="call-body">
    ${call.reason ? html`<p class="call-reason warn"><${SafeText} text=${words.blockedBy(call.by ?? "", call.reason)} /></p>` : null}
    <${Arguments} call=${shown} source=${whole?.arguments_text ?? null} />
    ${call.retries.map((one) => html`<p key=${one.attempt} class="warn"><${SafeText} text=${words.attemptFailed(one.attempt, one.error)} /></p>`)}
    ${progress !== undefined ? html`<${Part} title=${words.progress}><${Output} text=${progress} mime="text/plain" /><//>` : null}
    ${children.map((child) => html`<${ChildCard} key=${child.session_id} child=${child} depth=${depth} />`)}
    <${Result} call=${shown} />
    ${call.offloaded ? html`<${Offloaded} file=${call.offloaded} sessionId=${sessionId} />` : null}
    ${whole?.gates?.length ? html`<${Gates} gates=${whole.gates} />` : null}
    ${missing > 0 ? html`<button type="button" class="button small" onClick=${load}>${words.loadCut(bytes(missing))}</button>` : null}
    ${problem !== null ? html`<p class="bad" role="alert">${words.loadFailed(problem)}</p>` : null}
  </div>`;
}

/** @param {{ title: string, children?: any, kind?: string }} props */
function Part({ title, children, kind = "" }) {
  return html`<section class=${`part ${kind}`} aria-label=${title}><h4 class="part-title">${title}</h4>${children}</section>`;
}

/**
 * The arguments: of a change of a file the change, of a command the command line, else JSON.
 * @param {{ call: Call, source: string | null }} props
 */
function Arguments({ call, source }) {
  const change = fileChangeOf(call);
  const wasChanged = call.asked !== null && call.arguments !== null && !sameJson(call.asked, call.arguments);
  return html`${change === null ? html`<${PlainArguments} call=${call} source=${source} />` : html`<${FileChange} change=${change} />`}
    ${wasChanged ? html`<${Part} title=${words.argumentsAsked}><${Json} value=${call.asked} /><//>` : null}
    ${call.malformed !== null ? html`<${Part} title=${words.argumentsMalformed}><${Output} text=${call.malformed} mime="text/plain" /><//>` : null}`;
}

/** @param {{ call: Call, source: string | null }} props */
function PlainArguments({ call, source }) {
  const args = call.arguments ?? call.asked;
  if (args === null) return null;
  if (Object.keys(args).length === 0) return html`<p class="dim">${words.noArguments}</p>`;
  if (typeof args.command === "string") {
    const { command, ...rest } = args;
    return html`<${Part} title=${words.callArguments}>
      <${Output} text=${command} mime="text/x-shellscript" />
      ${Object.keys(rest).length > 0 ? html`<${Json} value=${rest} />` : null}
    <//>`;
  }
  return html`<${Part} title=${words.callArguments}><${Json} value=${args} source=${source ?? undefined} /><//>`;
}

/** @param {{ change: {path: string, before: string, after: string, whole: boolean, is_new: boolean} }} props */
function FileChange({ change }) {
  return html`<${Part} title=${words.fileChange}>
    ${change.is_new ? html`<p class="dim"><${SafeText} text=${words.fileNew(change.path)} /></p>` : null}
    ${change.whole && !change.is_new ? html`<p class="dim"><${SafeText} text=${words.fileWritten(change.path)} /></p>` : null}
    <${Diff} before=${change.before} after=${change.after} path=${change.path} />
  <//>`;
}

/** @param {{ call: Call }} props */
function Result({ call }) {
  const { result } = call;
  if (result === null) return null;
  const images = result.images ?? [];
  // A change of a file that went well answers with the diff that is shown already.
  const isShown = call.name === "edit_file" && call.state === "done" && fileChangeOf(call) !== null;
  const title = result.is_error ? words.resultError : words.result;
  return html`${
    isShown || (result.text === "" && images.length > 0)
      ? null
      : html`<${Part} title=${title} kind=${result.is_error ? "is-error" : ""}><${Output} text=${textOf(result.text)} mime="text/plain" /><//>`
  }
    ${images.map((image, place) => html`<${ImageView} key=${place} image=${image} />`)}
    ${hasDetails(result.details) ? html`<${Details} details=${result.details} call=${call} />` : null}`;
}

/** @param {unknown} told what was cut for the wire is no text */
function textOf(told) {
  return typeof told === "string" ? told : "";
}

/** @param {any} details */
function hasDetails(details) {
  if (details === null || details === undefined) return false;
  const names = typeof details === "object" ? Object.keys(details) : ["value"];
  return names.some((name) => name !== "file"); // of a changed file all is said above
}

/** @param {{ details: unknown, call: Call }} props */
function Details({ details, call }) {
  const [isOpen, toggle] = useFold(`details/${call.call_id}`, false);
  return html`<button type="button" class="link" aria-expanded=${isOpen} onClick=${toggle}>${isOpen ? "▾" : "▸"} ${words.details}</button>
    ${isOpen ? html`<${Json} value=${details} />` : null}`;
}

/** @param {{ gates: {gate: string, verdict: string, by?: string | null, reason?: string | null}[] }} props */
function Gates({ gates }) {
  return html`<${Part} title=${words.gates}>
    <ul class="plain-list">
      ${gates.map(
        (one, place) => html`<li key=${place}><${SafeText} text=${words.gate(one.by ?? one.gate, one.verdict)} />
        ${one.reason ? html` <span class="dim"><${SafeText} text=${one.reason} /></span>` : null}</li>`,
      )}
    </ul>
  <//>`;
}

/**
 * The file of a result that was too large for the model.
 * @param {{ file: {path: string, bytes: number}, sessionId: string }} props
 */
function Offloaded({ file, sessionId }) {
  const { api } = useEnv();
  const [content, setContent] = useState(/** @type {string | null} */ (null));
  const [problem, setProblem] = useState(/** @type {string | null} */ (null));
  const address = `sessions/${encodeURIComponent(sessionId)}/files/${file.path.split("/").map(pathPart).join("/")}`;
  const attempt = async (/** @type {() => Promise<void>} */ act) => {
    setProblem(null);
    try {
      await act();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(error.message || error.code);
    }
  };
  const show = () => attempt(async () => setContent(await api.getText(address)));
  const keep = () => attempt(async () => save(await api.getBlob(address), file.path.split("/").at(-1) ?? "result"));
  return html`<p class="offloaded dim"><${SafeText} text=${words.offloaded(file.path, bytes(file.bytes))} /></p>
    <p class="buttons">
      ${content === null ? html`<button type="button" class="button small" onClick=${show}>${words.offloadedOpen}</button>` : null}
      <button type="button" class="button small" onClick=${keep}>${words.offloadedSave}</button>
    </p>
    ${problem !== null ? html`<p class="bad" role="alert">${words.loadFailed(problem)}</p>` : null}
    ${content !== null ? html`<${Output} text=${content} mime="text/plain" />` : null}`;
}

/**
 * Gives a file to the person, as a download.
 * @param {Blob} blob
 * @param {string} name
 */
export function save(blob, name) {
  const link = document.createElement("a");
  const address = URL.createObjectURL(blob);
  link.href = address;
  link.download = name.replace(/[^\w.-]+/g, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/**
 * What the server tells of a call when it is asked for all of it.
 * @param {Call} call
 * @param {string} sessionId
 * @returns {[any, () => Promise<void>, string | null]} what it told, how to ask, and why it was refused
 */
function useWhole(call, sessionId) {
  const { api } = useEnv();
  const [whole, setWhole] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {string | null} */ (null));
  const load = async () => {
    setProblem(null);
    try {
      const path = `sessions/${encodeURIComponent(sessionId)}/calls/${encodeURIComponent(call.call_id)}`;
      const from = whole?.result?.to_bytes;
      const told = await api.get(path, from === undefined ? {} : { result_from: from });
      setWhole(from === undefined ? told : joined(whole, told));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(error.message || error.code);
    }
  };
  return [whole, load, problem];
}

/**
 * How many bytes of a result were not told yet: they come in ranges.
 * @param {any} whole
 */
function leftOf(whole) {
  const { size, to_bytes } = whole.result ?? {};
  return typeof size === "number" && typeof to_bytes === "number" ? Math.max(0, size - to_bytes) : 0;
}

/**
 * @param {any} whole
 * @param {any} next the range behind it
 */
function joined(whole, next) {
  const result = { ...next.result, content: whole.result.content + (next.result?.content ?? "") };
  return { ...whole, result };
}

/**
 * @param {Call} call
 * @param {any} whole
 * @returns {Partial<Call>}
 */
function wholeCall(call, whole) {
  const result =
    whole.result === null ? call.result : { .../** @type {any} */ (call.result ?? {}), text: whole.result.content };
  return {
    arguments: whole.effective_arguments ?? whole.arguments ?? call.arguments,
    asked: whole.arguments ?? call.asked,
    result,
  };
}

/**
 * @param {unknown} one
 * @param {unknown} other
 */
function sameJson(one, other) {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

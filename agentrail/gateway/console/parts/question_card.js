// A question of the model, or of a tool: its options, its form or a field, and the answer; or a no. What was typed stays in this tab until it was taken.

import { safeHref } from "../pure/links.js";
import { questionIn } from "../pure/waiting.js";
import { text } from "../text/en.js";
import { html, useEffect, useId, useMemo, useRef, useState } from "../ui.js";
import { ofTab } from "../wire/kept.js";
import { announce } from "./announce.js";
import { useGuard } from "./guard.js";
import { Icon } from "./icon.js";
import { lateSentence } from "./late.js";
import { emptyFormOf, QuestionForm, readForm } from "./question_form.js";
import { SafeText } from "./safe_text.js";
import { Problem } from "./states.js";
import { TimeLeft } from "./time_left.js";

const words = text.approval;

/** The model itself asks by it: that is no news. */
const ASKING_TOOL = "ask_user";

/**
 * @typedef {object} QuestionProps
 * @property {Record<string, any>} question as it came: `ref`, `question`, `options`, `schema`, `url`; of a status, `expires_at_ms` too
 * @property {string | null} [tool] whose call asks; null where that is not known
 * @property {string} session the session through which it is answered: the one that asks, or one above it
 * @property {import("../wire/api.js").Api} api
 * @property {import("../wire/socket.js").Connection} connection
 * @property {(outcome: string) => void} [onDone]
 * @property {boolean} [takesFocus] a person opened it: its first field has the focus
 */

/** @param {QuestionProps} props */
export function QuestionCard(props) {
  return html`<${Card} key=${props.question.ref} ...${props} />`;
}

/** @param {QuestionProps} props */
function Card({ question, tool = null, session, api, connection, onDone = () => {}, takesFocus = false }) {
  const { ref } = question;
  const name = `question.${ref}`;
  const title = useId();
  const schema = question.schema ?? null;
  const [typed, setTyped] = useState(() => ofTab.get(name) ?? "");
  const [chosen, setChosen] = useState(-1);
  const [filled, setFilled] = useState(() => emptyFormOf(schema));
  const [state, setState] = useState(/** @type {"open" | "sending" | "closed"} */ ("open"));
  const [sentence, setSentence] = useState("");
  const [error, setError] = useState(/** @type {any} */ (null));
  const guard = useGuard(ref);
  const until = useDeadline(question, session, api);
  const card = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const first = takesFocus ? card.current?.querySelector("input, select, textarea") : null;
    if (first instanceof HTMLElement) first.focus();
  }, []);
  const read = useMemo(() => (schema === null ? null : readForm(schema, filled)), [schema, filled]);
  const close = (/** @type {string} */ said) => {
    ofTab.set(name, null);
    setSentence(said);
    setState("closed");
    announce(said);
    onDone(said);
  };
  const send = (
    /** @type {string} */ command,
    /** @type {Record<string, unknown>} */ fields,
    /** @type {string} */ done,
  ) => {
    if (state === "sending") return;
    setState("sending");
    setError(null);
    connection.command(command, session, { ref, ...fields }).then(
      () => close(done),
      (refused) => {
        const late = lateSentence(refused, true);
        if (late !== null) close(late);
        else {
          setError(refused);
          setState("open");
        }
      },
    );
  };
  const answer = () => {
    if (read !== null)
      return read.fault === null ? send("respond", { response: read.value }, words.decided.answered) : undefined;
    const response = typed.trim() ? typed : chosen;
    return send("respond", { response }, words.decided.answered);
  };
  if (state === "closed")
    return html`<div class="approval question"><p class="approval-body" role="status">${sentence}</p></div>`;
  const isReady = read === null ? typed.trim() !== "" || chosen >= 0 : read.fault === null;
  const type = (/** @type {string} */ value) => {
    setTyped(value);
    ofTab.set(name, value || null);
    if (value.trim()) setChosen(-1);
  };
  return html`<div class="approval question open" role="group" aria-labelledby=${title} data-waits=${ref} ref=${card}>
    <header class="approval-head">
      <span class="approval-sign accent" aria-hidden="true"><${Icon} name="help" /></span>
      <h2 class="approval-title" id=${title}>${words.questionTitle}${tool === null || tool === ASKING_TOOL ? null : html` <span class="dim small"><${SafeText} text=${words.askedBy(tool)} strict /></span>`}</h2>
      ${until === undefined ? null : html`<${TimeLeft} until=${until} />`}
    </header>
    <div class="approval-body" onKeyDown=${guard.onKeyDown}>
      <p class="question-text" dir="auto"><${SafeText} text=${question.question ?? ""} /></p>
      <${Address} url=${question.url ?? null} />
      ${
        schema === null
          ? html`<${Options} options=${question.options ?? []} chosen=${chosen} onChoose=${(
              /** @type {number} */ index,
            ) => {
              setChosen(index);
              setTyped("");
            }} />
          <label class="field"><span class="dim small">${(question.options ?? []).length > 0 ? words.choose : words.answerLabel}</span>
            <textarea rows="2" dir="auto" value=${typed} onInput=${(/** @type {any} */ event) => type(event.target.value)}></textarea></label>`
          : html`<${QuestionForm} schema=${schema} filled=${filled} fault=${read?.fault ?? null} onChange=${setFilled} />`
      }
      ${error === null ? null : html`<p class="bad">${words.refused}</p><${Problem} error=${error} />`}
      <div class="approval-actions" role="group" aria-label=${words.questionTitle}>
        ${state === "sending" ? html`<span class="dim" role="status">${words.sending}</span>` : null}
        <button type="button" class="button" disabled=${state === "sending"} onClick=${guard.guarded(() => send("decline", {}, words.decided.declined))}>${words.decline}</button>
        <button type="button" class="button primary" disabled=${state === "sending" || !isReady} aria-disabled=${guard.isStill ? "true" : "false"} onClick=${guard.guarded(answer)}>${words.answer}</button>
      </div>
    </div>
  </div>`;
}

/**
 * The deadline of a question. No event has it, but the status of its session.
 * @param {Record<string, any>} question
 * @param {string} session
 * @param {import("../wire/api.js").Api} api
 * @returns {number | null | undefined} undefined: not known, or not yet
 */
function useDeadline(question, session, api) {
  const [until, setUntil] = useState(question["expires_at_ms"]);
  useEffect(() => {
    if (until !== undefined) return;
    api.get(`sessions/${encodeURIComponent(session)}`).then(
      (told) => setUntil(questionIn(told["status"], question["ref"])?.["expires_at_ms"]),
      () => {}, // the question can be answered without it
    );
  }, []);
  return until;
}

/** @param {{ options: string[], chosen: number, onChoose: (index: number) => void }} props */
function Options({ options, chosen, onChoose }) {
  const name = useId();
  if (options.length === 0) return null;
  return html`<div class="question-options" role="radiogroup" aria-label=${words.choose}>
    ${options.map(
      (option, index) => html`<label class="check question-option" key=${index}>
        <input type="radio" name=${name} checked=${chosen === index} onChange=${() => onChoose(index)} /> <span dir="auto"><${SafeText} text=${option} /></span>
      </label>`,
    )}
  </div>`;
}

/** An address that the question names: shown whole, never opened by itself. @param {{ url: string | null }} props */
function Address({ url }) {
  if (url === null) return null;
  const href = safeHref(url);
  return html`<p class="small">${words.questionUrl} ${
    href === null
      ? html`<code><${SafeText} text=${url} strict /></code>`
      : html`<a href=${href} target="_blank" rel="noopener noreferrer nofollow"><${SafeText} text=${url} strict /></a>`
  }</p>`;
}

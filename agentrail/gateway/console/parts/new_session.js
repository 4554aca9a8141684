// The dialogue that creates a session: with which profile, and which model in place of the profile's. What it is created with is the server's to judge.

import { hrefOf } from "../pure/route.js";
import { text } from "../text/en.js";
import { html, useId, useState } from "../ui.js";
import { Dialog } from "./dialog.js";
import { SafeText } from "./safe_text.js";
import { useSending } from "./sending.js";
import { Problem } from "./states.js";

const words = text.sessions.create;
const OTHER = "other";

/**
 * @param {{ api: import("../wire/api.js").Api, info: import("../pages.js").Info, navigate: (href: string) => void, onClose: () => void }} props
 */
export function NewSessionDialog({ api, info, navigate, onClose }) {
  const { profiles, models } = info;
  const [profile, setProfile] = useState(profiles[0]?.agent_id ?? "");
  const [choice, setChoice] = useState("");
  const [model, setModel] = useState("");
  const { isBusy, error: problem, send } = useSending();
  const id = useId();
  const chosen = profiles.find((one) => one.agent_id === profile) ?? null;
  const wanted = choice === OTHER ? model.trim() : choice;
  const create = (/** @type {Event} */ event) => {
    event.preventDefault();
    /** @type {Record<string, string>} */
    const body = {};
    if (profile) body["agent_id"] = profile;
    if (wanted) body["model"] = wanted;
    send(api.post("sessions", body), (made) => {
      onClose();
      navigate(hrefOf("/s/:id", { id: made.session_id }));
    });
  };
  const footer = html`<button type="button" class="button" onClick=${onClose}>${text.shell.cancel}</button>
    <button type="submit" form=${`${id}-form`} class="button primary" disabled=${isBusy || (choice === OTHER && !wanted)}>${isBusy ? words.sending : words.send}</button>`;
  return html`<${Dialog} title=${words.title} onClose=${onClose} footer=${footer}>
    <form id=${`${id}-form`} class="stack" onSubmit=${create}>
      ${
        profiles.length > 0
          ? html`<fieldset class="profiles">
            <legend>${words.profile}</legend>
            ${profiles.map(
              (one) => html`<label key=${one.agent_id} class="profile-choice">
                <input type="radio" name="profile" value=${one.agent_id} checked=${one.agent_id === profile} onChange=${() => setProfile(one.agent_id)} />
                <span><span class="profile-name" dir="auto">${/** @type {any} */ (one).name ?? one.agent_id}</span>${one.description ? html`<span class="dim" dir="auto">${one.description}</span>` : null}
                ${/** @type {any} */ (one).fault ? html`<span class="warn small"><${SafeText} text=${/** @type {any} */ (one).fault} /></span>` : null}</span>
              </label>`,
            )}
          </fieldset>`
          : html`<label class="field"><span>${words.profile}</span><input value=${profile} autocomplete="off" spellcheck=${false} onInput=${(/** @type {any} */ event) => setProfile(event.target.value)} /></label>`
      }
      <label class="field"><span>${words.model}</span>
        <select value=${choice} onChange=${(/** @type {any} */ event) => setChoice(event.target.value)}>
          <option value="">${chosen?.model ? words.modelOf(chosen.model) : words.modelUsual}</option>
          ${models.filter((one) => one.model !== chosen?.model && !one.model.includes(":object")).map((one) => html`<option key=${one.model} value=${one.model}>${one.model}</option>`)}
          <option value=${OTHER}>${words.modelOther}</option>
        </select>
      </label>
      ${
        choice === OTHER
          ? html`<label class="field"><span>${words.modelName}</span>
            <input class="mono" value=${model} autocomplete="off" spellcheck=${false} aria-describedby=${`${id}-hint`} onInput=${(/** @type {any} */ event) => setModel(event.target.value)} />
            <span id=${`${id}-hint`} class="dim small">${words.modelHint}</span></label>`
          : null
      }
      ${problem ? html`<${Problem} error=${problem} />` : null}
    </form>
  <//>`;
}

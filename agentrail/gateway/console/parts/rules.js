// What people always allow in a session and in those that work for it: each rule in words, where it holds and since when, and the way to take it back.

import { text } from "../text/en.js";
import { html, useEffect, useState } from "../ui.js";
import { announce } from "./announce.js";
import { ruleWords } from "./approval_actions.js";
import { SafeText } from "./safe_text.js";
import { Empty, Loading, Problem } from "./states.js";

const words = text.approval.rules;

/**
 * @param {{ session: string, api: import("../wire/api.js").Api, stamp?: unknown, called?: (id: string) => string }} props `stamp`: another one asks again,
 *   such as the number of rules that events told of; `called`: what a session below is called
 */
export function Rules({ session, api, stamp, called = (id) => id }) {
  const [rules, setRules] = useState(/** @type {Record<string, any>[] | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [said, setSaid] = useState("");
  const [count, setCount] = useState(0);
  const place = `sessions/${encodeURIComponent(session)}/rules`;
  useEffect(() => {
    const left = new AbortController();
    api.get(place, {}, { signal: left.signal }).then(
      (told) => {
        setError(null);
        setRules(told.rules);
      },
      (failed) => left.signal.aborted || setError(failed),
    );
    return () => left.abort();
  }, [api, place, stamp, count]);
  const tell = (/** @type {string} */ sentence) => {
    setSaid(sentence);
    announce(sentence);
    setCount((before) => before + 1);
  };
  const revoke = (/** @type {Record<string, any>} */ rule) =>
    api.delete(`${place}/${encodeURIComponent(rule["rule_id"])}`).then(
      () => tell(rule["breaks"] === true ? words.ended : words.revoked),
      (failed) => (failed.code === "rule_unknown" ? tell(words.gone) : setError(failed)),
    );
  const again = () => setCount(count + 1);
  return html`<div class="rules" role="group" aria-label=${words.title}>
    ${error === null ? null : html`<${Problem} error=${error} onRetry=${again} />`}
    ${rules === null && error === null ? html`<${Loading} rows=${2} />` : null}
    ${rules?.length === 0 ? html`<${Empty} words=${words.empty} />` : null}
    ${rules !== null && rules.length > 0 ? html`<ul class="rule-list">${rules.map((rule) => html`<${RuleRow} key=${`${rule["session_id"]} ${rule["rule_id"]}`} rule=${rule} session=${session} called=${called} onRevoke=${revoke} />`)}</ul>` : null}
    ${said ? html`<p class="dim small" role="status">${said}</p>` : null}
  </div>`;
}

/** @param {{ rule: Record<string, any>, session: string, called: (id: string) => string, onRevoke: (rule: Record<string, any>) => void }} props */
function RuleRow({ rule, session, called, onRevoke }) {
  const allows =
    rule["breaks"] === true
      ? words.breakpoint(rule["tool"] ?? "*")
      : ruleWords(rule["tool"] ?? "", rule["command_family"] ?? null, rule["exact"] === true);
  const since = typeof rule["at_ms"] === "number" ? new Date(rule["at_ms"]) : null;
  return html`<li class="rule-row">
    <div class="rule-main"><span><${SafeText} text=${allows} strict /></span>
      <span class="dim small">${rule["session_id"] === session ? words.here : html`<${SafeText} text=${words.inSession(called(rule["session_id"] ?? ""))} strict />`} · ${words.since}
        ${since === null ? ` ${words.unknownTime}` : html` <time datetime=${since.toISOString()} title=${since.toISOString()}>${since.toLocaleTimeString()}</time>`}</span></div>
    <button type="button" class="button small" aria-label=${words.revokeOf(allows)} onClick=${() => onRevoke(rule)}>${words.revoke}</button>
  </li>`;
}

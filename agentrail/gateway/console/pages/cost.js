// The page *Cost*: today and this month against budgets, a bar for each day, a table by profile, model, user or session, and its CSV. The sums are the
// server's; nothing is added up here.

import { announce } from "../parts/announce.js";
import { Brief } from "../parts/brief.js";
import { DayBars } from "../parts/day_bars.js";
import { Icon } from "../parts/icon.js";
import { Empty, Loading, Problem } from "../parts/states.js";
import { budgetLines, csvOf, dayIn, daysOf, estimatedShare, percentOf, standOf } from "../pure/cost_facts.js";
import { exact, money, percent, tokens } from "../pure/numbers.js";
import { hrefOf } from "../pure/route.js";
import { safeText } from "../pure/safe_text.js";
import { text } from "../text/en.js";
import { html, useCallback, useEffect, useState } from "../ui.js";
import { ApiError } from "../wire/api.js";

const words = text.cost;

/** @typedef {import("../pure/cost_facts.js").Amount} Amount */
/** @typedef {import("../pure/cost_facts.js").BudgetLine} BudgetLine */
/** @typedef {"profile" | "model" | "user" | "session" | "day"} Way */
/**
 * @typedef {object} Told
 * @property {Way} by
 * @property {string} tz
 * @property {Amount[]} rows
 * @property {Amount} total
 * @property {Amount} today
 * @property {Amount} month
 * @property {{ name: string, used_usd: number, limit_usd: number }[]} budgets
 * @property {string[]} unread
 * @property {import("../pure/cost_facts.js").DayBudget[]} [day_budgets] Of an older server none.
 * @property {Record<string, string>} [names] What sessions are called, by their ids.
 */

/** @type {Way[]} */
const WAYS = ["profile", "model", "user", "session", "day"];
const RANGES = [7, 30, 90, 0];
const UNREAD_NAMED = 5;

/** @param {import("../pages.js").PageProps} props */
function Page({ api, info, params, navigate }) {
  if (!info.features.includes("cost"))
    return html`<h1>${words.title}</h1><${Empty} words=${text.shell.pageOfOlderServer(words.title)} />`;
  if (!info.journal)
    return html`<h1>${words.title}</h1><${Empty} words=${words.noJournal} action=${html`<p class="dim"><code>${words.noJournalHint}</code></p>`} />`;
  const way = WAYS.find((one) => one === params["by"]) ?? "profile";
  const days = RANGES.find((one) => String(one) === params["days"]) ?? 30;
  const go = (/** @type {Record<string, string>} */ next) =>
    navigate(hrefOf("/cost", { by: way, days: String(days), ...next }), { replace: true });
  return html`<${Costs} api=${api} way=${way} days=${days} go=${go} />`;
}

/**
 * @param {import("../wire/api.js").Api} api
 * @param {Way} way
 * @param {number} days
 */
function useCosts(api, way, days) {
  const [told, setTold] = useState(/** @type {{ chart: Told, table: Told } | null} */ (null));
  const [error, setError] = useState(/** @type {ApiError | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  const [round, setRound] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const asked = { tz: zone, since: days > 0 ? `${days}d` : null };
    const options = { signal: stop.signal };
    setBusy(true);
    const chart = api.get("inspect/cost", { ...asked, by: "day" }, options);
    const table = way === "day" ? chart : api.get("inspect/cost", { ...asked, by: way }, options);
    Promise.all([chart, table])
      .then(
        ([one, other]) => {
          setTold({ chart: one, table: other });
          setError(null);
          if (round > 0) announce(words.refreshed);
        },
        (failure) => {
          if (!stop.signal.aborted) setError(failure instanceof ApiError ? failure : new ApiError(0, {}));
        },
      )
      .finally(() => {
        if (!stop.signal.aborted) setBusy(false);
      });
    return () => stop.abort();
  }, [api, way, days, round]);
  const refresh = useCallback(() => setRound((one) => one + 1), []);
  return { told, error, isBusy, refresh };
}

/**
 * @param {{ api: import("../wire/api.js").Api, way: Way, days: number, go: (next: Record<string, string>) => void }} props
 */
function Costs({ api, way, days, go }) {
  const { told, error, isBusy, refresh } = useCosts(api, way, days);
  if (told === null) {
    return html`<h1>${words.title}</h1>${error ? html`<${Problem} error=${error} onRetry=${refresh} />` : html`<${Loading} />`}`;
  }
  const { chart, table } = told;
  const lines = budgetLines(chart);
  const bars = daysOf(chart.rows, dayIn(Date.now(), chart.tz), days > 0 ? days : null);
  return html`<div class="cost-page" aria-busy=${isBusy}>
    <div class="section-head">
      <h1>${words.title}</h1>
      <button type="button" class="button small" onClick=${refresh} disabled=${isBusy}>${words.refresh}</button>
    </div>
    ${error ? html`<${Problem} error=${error} onRetry=${refresh} />` : null}
    <div class="cost-tiles">
      <${Tile} title=${words.today} amount=${chart.today}><${OfDay} line=${lines.find((one) => one.of === "tenant") ?? null} /><//>
      <${Tile} title=${words.month} amount=${chart.month} />
      <${Budgets} lines=${lines} names=${chart.names ?? {}} />
    </div>
    <section aria-labelledby="cost-days">
      <div class="section-head">
        <h2 id="cost-days">${words.byDay} <span class="dim small">${words.zone(chart.tz)}</span></h2>
        <label class="cost-field"><span class="dim">${words.range}</span>
          <select value=${String(days)} onChange=${(/** @type {any} */ event) => go({ days: event.target.value })}>
            ${RANGES.map((one) => html`<option key=${one} value=${String(one)}>${one > 0 ? words.lastDays(one) : words.allDays}</option>`)}
          </select>
        </label>
      </div>
      <${DayBars} days=${bars} total=${chart.total.cost_usd} />
    </section>
    <section aria-labelledby="cost-table">
      <div class="section-head">
        <h2 id="cost-table">${words.table(words.ways[way])}</h2>
        <span class="cost-tools">
          <label class="cost-field"><span class="dim">${words.by}</span>
            <select value=${way} onChange=${(/** @type {any} */ event) => go({ by: event.target.value })}>
              ${WAYS.map((one) => html`<option key=${one} value=${one}>${words.ways[one]}</option>`)}
            </select>
          </label>
          <button type="button" class="button" title=${words.csvTitle} onClick=${() => download(table)}><${Icon} name="download" />${words.csv}</button>
        </span>
      </div>
      ${table.rows.length === 0 ? html`<${Empty} words=${words.empty} action=${html`<a class="button" href="#/">${words.emptyAction}</a>`} />` : html`<${CostTable} told=${table} way=${way} />`}
    </section>
    ${table.unread.length > 0 ? html`<p class="warn"><${Icon} name="warn" /> ${words.unread(table.unread.slice(0, UNREAD_NAMED).join(", "), table.unread.length - UNREAD_NAMED)}</p>` : null}
  </div>`;
}

/** @param {{ title: string, amount: Amount, children?: any }} props */
function Tile({ title, amount, children }) {
  return html`<div class="tile panel">
    <span class="dim">${title}</span>
    <span class="tile-number">${money(amount.cost_usd)}</span>
    <span class="dim small">${words.inOut(tokens(amount.tokens_in), tokens(amount.tokens_out))}</span>
    <${Notes} amount=${amount} />
    ${children}
  </div>`;
}

/**
 * What all together may spend today: a day of the budget is one of UTC, whatever the days are that are looked at.
 * @param {{ line: BudgetLine | null }} props
 */
function OfDay({ line }) {
  if (line === null) return null;
  return html`<${Meter} line=${line} label=${words.budgets} />
    <span class=${`small ${LOOKS[standOf(line)]}`}>${words.ofDay(money(line.used), money(line.limit))}</span>
    <${Overrun} line=${line} /><${Spent} line=${line} />`;
}

/** @type {Record<ReturnType<typeof standOf>, string>} */
const LOOKS = { well: "dim", near: "warn", spent: "bad" };

/** @param {{ line: BudgetLine, label: string }} props */
function Meter({ line, label }) {
  const used = percent(line.used, line.limit);
  return html`<meter class="meter" min="0" max="100" low="80" high="99.9" optimum="0" value=${used} aria-label=${label}>${used} %</meter>`;
}

/** @param {{ line: BudgetLine }} props */
function Overrun({ line }) {
  return line.overrun > 0 ? html`<span class="small dim">${words.overrun(money(line.overrun))}</span>` : null;
}

/** @param {{ line: BudgetLine }} props */
function Spent({ line }) {
  if (line.resets_at_ms === null || standOf(line) !== "spent") return null;
  const at = new Date(line.resets_at_ms);
  return html`<span class="small bad budget-spent" title=${at.toISOString()}>${words.spent(at.toLocaleTimeString())}</span>`;
}

/** @param {{ amount: Amount }} props */
function Notes({ amount }) {
  const share = percentOf(estimatedShare(amount));
  return html`${share > 0 ? html`<span class="small estimated-note" title=${words.estimatedHint}>${words.estimated(share)}</span>` : null}
    ${amount.unpriced > 0 ? html`<span class="warn small">${words.unpriced(amount.unpriced)}</span>` : null}`;
}

/**
 * Where the name of a budget leads: to its session, or to those of its user.
 * @param {BudgetLine} line
 */
function leadsTo(line) {
  if (line.of === "session") return hrefOf("/s/:id", { id: line.name });
  return line.of === "user" && line.name ? hrefOf("/", { q: line.name }) : null;
}

/** @param {{ lines: BudgetLine[], names: Record<string, string> }} props */
function Budgets({ lines, names }) {
  return html`<div class="tile panel tile-wide">
    <span class="dim">${words.budgets}</span>
    ${lines.length === 0 ? html`<span class="dim small">${words.noBudgets}</span>` : null}
    <ul class="budgets">
      ${lines.map((line) => {
        const called = line.of === "session" ? (names[line.name] ?? null) : null;
        const name = html`<${Brief} text=${line.name || words.noName} />`;
        const href = leadsTo(line);
        return html`<li key=${line.key}>
          <span class="cost-name"><${Called} name=${called} /><span class="cut">${href === null ? name : html`<a href=${href}>${name}</a>`}${line.of === "session" ? null : html` <span class="dim small">${words.whose[line.of]}</span>`}</span></span>
          <${Meter} line=${line} label=${safeText(called ?? (line.name || words.noName))} />
          <span class=${`number ${standOf(line) === "well" ? "" : LOOKS[standOf(line)]}`}>${words.ofLimit(money(line.used), money(line.limit))}</span>
          <${Overrun} line=${line} /><${Spent} line=${line} />
        </li>`;
      })}
    </ul>
  </div>`;
}

/** @param {{ told: Told, way: Way }} props */
function CostTable({ told, way }) {
  const heads = words.columns;
  const cached = percentOf(told.total.tokens_in > 0 ? told.total.cached / told.total.tokens_in : 0);
  return html`<div class="cost-scroll" role="group" aria-labelledby="cost-table" tabindex="0"><table class="cost-table">
    <thead><tr>
      <th scope="col">${words.ways[way]}</th>
      ${[heads.requests, heads.tokens_in, heads.cached, heads.tokens_out, heads.cost, heads.share].map((one) => html`<th key=${one} scope="col" class="number">${one}</th>`)}
    </tr></thead>
    <tbody>${told.rows.map((row) => html`<${CostRow} key=${row.key} row=${row} name=${way === "session" ? (told.names?.[row.key] ?? null) : null} way=${way} most=${told.rows.reduce((most, one) => Math.max(most, one.cost_usd), 0)} />`)}</tbody>
    <tfoot><${CostRow} row=${{ ...told.total, key: words.total }} name=${null} way="total" most=${0} /></tfoot>
  </table></div>
  ${cached > 0 ? html`<p class="dim small">${words.fromCache(cached)}</p>` : null}`;
}

/**
 * What a session is called, above its id.
 * @param {{ name: string | null }} props
 */
function Called({ name }) {
  return name === null ? null : html`<bdi class="called cut" title=${safeText(name)}><${Brief} text=${name} /></bdi>`;
}

/** @param {{ row: Amount, name: string | null, way: Way | "total", most: number }} props `name`: what a session is called */
function CostRow({ row, name: called, way, most }) {
  const share = percentOf(estimatedShare(row));
  const name = row.key === "" ? html`<span class="dim">${words.noName}</span>` : html`<${Brief} text=${row.key} />`;
  return html`<tr>
    <th scope="row"><${Called} name=${called} /><span class="cut">${way === "session" && row.key ? html`<a href=${hrefOf("/s/:id", { id: row.key })}>${name}</a>` : name}</span></th>
    <td class="number">${exact(row.requests)}</td>
    <td class="number" title=${exact(row.tokens_in)}>${tokens(row.tokens_in)}</td>
    <td class="number" title=${exact(row.cached)}>${tokens(row.cached)}</td>
    <td class="number" title=${exact(row.tokens_out)}>${tokens(row.tokens_out)}</td>
    <td class="number cost-cell" title=${`$${row.cost_usd}`}>
      ${most > 0 ? html`<span class="share" style=${{ width: `${percent(row.cost_usd, most)}%` }}></span>` : null}<span class="cost-number">${money(row.cost_usd)}</span>
    </td>
    <td class="number">${share > 0 ? html`<span class="estimated-note">${share} %</span>` : ""}${row.unpriced > 0 ? html` <span class="warn" title=${words.unpriced(row.unpriced)}>+${exact(row.unpriced)} ?</span>` : null}</td>
  </tr>`;
}

/**
 * Gives the table as a file; nothing is asked of the server for it.
 * @param {Told} told
 */
function download(told) {
  const address = URL.createObjectURL(new Blob([csvOf(told.rows)], { type: "text/csv;charset=utf-8" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = words.fileName(told.by);
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

export const page = { route: "/cost", title: words.title, Page };

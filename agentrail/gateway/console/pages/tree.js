// The page *Tree*: nodes that want to be looked at, then the whole supervision tree, live. What a node comes to is said in `pure/tree_facts.js`.

import { announce } from "../parts/announce.js";
import { Dialog } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { useKeys } from "../parts/keys.js";
import { useSending } from "../parts/sending.js";
import { Empty, Loading, Problem } from "../parts/states.js";
import { SafeText } from "../parts/text_view.js";
import { useNow } from "../parts/ticking.js";
import { TreeGrid } from "../parts/tree_grid.js";
import { useRows } from "../parts/watched.js";
import { age, exact } from "../pure/numbers.js";
import { hrefOf } from "../pure/route.js";
import {
  aboutOf,
  nextChangeAt,
  nodesToLookAt,
  nodesWith,
  restartOf,
  sessionAbove,
  sortedNodes,
  whysOf,
} from "../pure/tree_facts.js";
import { treeRows } from "../pure/tree_rows.js";
import { text } from "../text/en.js";
import { html, useEffect, useMemo, useReducer, useRef, useState } from "../ui.js";

/** @typedef {import("../pure/tree_facts.js").Node} Node */

const words = text.tree;
/** How many nodes stand above the tree; the rest is counted. */
const LOOKED_AT = 8;

const NAME = { key: "name", label: words.columns.name, class: "tree-name" };
const COLUMNS = [
  { ...NAME, width: "minmax(20ch, 3fr)" },
  { key: "status", label: words.columns.status, width: "minmax(18ch, 1fr)" },
  { key: "restarts", label: words.columns.restarts, width: "9ch", isNumber: true, isSortable: true },
  { key: "mailbox", label: words.columns.mailbox, width: "9ch", isNumber: true, isSortable: true },
  { key: "uptime", label: words.columns.uptime, width: "7ch", isNumber: true, isSortable: true },
  { key: "exit", label: words.columns.exit, width: "minmax(16ch, 3fr)" },
];
/** Where there is little room; letters that wait are told above the tree. */
const NARROW = [
  { ...NAME, width: "minmax(12ch, 3fr)" },
  { key: "status", label: words.columns.status, width: "minmax(8ch, 2fr)" },
  { key: "uptime", label: words.columns.uptime, width: "6ch", isNumber: true, isSortable: true },
];

/** @param {import("../pages.js").PageProps} props */
function Page({ connection, api, info }) {
  // An older server is not asked for what it would refuse.
  if (info.features.includes("tree")) return html`<${Live} connection=${connection} api=${api} />`;
  return html`<h1>${words.title}</h1><${Empty} words=${text.shell.pageOfOlderServer(words.title)} />`;
}

/** @param {{ connection: import("../wire/socket.js").Connection, api: import("../wire/api.js").Api }} props */
function Live({ connection, api }) {
  const { rows, error } = useRows(connection, "tree");
  if (error !== null) return html`<h1>${words.title}</h1><${Problem} error=${error} />`;
  if (rows === null) return html`<h1>${words.title}</h1><${Loading} />`;
  return html`<${Nodes} rows=${rows} api=${api} />`;
}

/** @param {{ rows: ReadonlyMap<string, Node>, api: import("../wire/api.js").Api }} props */
function Nodes({ rows, api }) {
  const [selected, setSelected] = useState(/** @type {string | null} */ (null));
  const now = useNodesNow(rows);
  const shown = selected === null ? null : (rows.get(selected) ?? null);
  return html`<div class="tree-page">
    <${LookFirst} rows=${rows} now=${now} select=${setSelected} />
    <${Whole} rows=${rows} selected=${selected} select=${setSelected} />
    ${shown ? html`<${NodeDialog} node=${shown} owner=${sessionAbove(rows, shown)} api=${api} onClose=${() => setSelected(null)} />` : null}
  </div>`;
}

/**
 * The time, each second as long as a restart is shown with how long ago it was, and else only when something else changes.
 * @param {ReadonlyMap<string, Node>} rows
 */
function useNodesNow(rows) {
  const [second, tick] = useReducer((/** @type {number} */ count) => count + 1, 0);
  const now = useMemo(() => Date.now(), [rows, second]);
  const isTicking = useMemo(() => nextChangeAt(rows.values(), now) !== null, [rows, now]);
  useEffect(() => {
    if (!isTicking) return undefined;
    const timer = setInterval(() => tick(0), 1_000);
    return () => clearInterval(timer);
  }, [isTicking]);
  return now;
}

/** @param {{ rows: ReadonlyMap<string, Node>, now: number, select: (key: string) => void }} props */
function LookFirst({ rows, now, select }) {
  const found = useMemo(() => nodesToLookAt(rows.values(), now), [rows, now]);
  const told = useRef(/** @type {Set<string>} */ (new Set()));
  useEffect(() => {
    const urgent = found.filter(({ whys }) => whys[0] !== "letters");
    for (const { node, whys } of urgent) {
      const name = `${node.key} ${whys[0]} ${node.incarnation}`;
      if (!told.current.has(name))
        announce(words.announced(aboutOf(node) ?? node.name, words.whys[whys[0] ?? "stuck"]));
      told.current.add(name);
    }
  }, [rows]);
  return html`<section class="look-first" aria-labelledby="look-first">
    <h1>${words.title} <span class="dim count">${words.nodes(rows.size)}</span></h1>
    <h2 id="look-first">${words.lookFirst}</h2>
    ${found.length === 0 ? html`<p class="dim">${words.allWell}</p>` : null}
    <ul>
      ${found.slice(0, LOOKED_AT).map(
        ({ node, whys }) => html`<li key=${node.key}>
          <button type="button" class="look" onClick=${() => select(node.key)}>
            <${WhySign} whys=${whys} />
            <span class="look-name cut"><${Called} node=${node} /></span>
            <${WhyWords} node=${node} whys=${whys} now=${now} />
          </button>
        </li>`,
      )}
    </ul>
    ${found.length > LOOKED_AT ? html`<p class="dim">${words.more(found.length - LOOKED_AT)}</p>` : null}
  </section>`;
}

/** @param {{ whys: import("../pure/tree_facts.js").Why[] }} props */
function WhySign({ whys }) {
  const kind = whys[0] === "letters" ? "dim" : whys[0] === "restarted" ? "warn" : "bad";
  return html`<span class=${kind}><${Icon} name=${whys[0] === "letters" ? "info" : "warn"} /></span>`;
}

/** @param {{ node: Node, whys: import("../pure/tree_facts.js").Why[], now: number }} props */
function WhyWords({ node, whys, now }) {
  return html`<span class="look-words">
    ${whys.map((why) => html`<span key=${why} class=${why === "letters" ? "dim" : why === "restarted" ? "warn" : "bad"}>${sayWhy(node, why, now)}</span>`)}
    ${node.exits?.length && whys[0] !== "letters" ? html`<span class="dim cut"><${SafeText} text=${node.exits.at(-1)?.reason ?? ""} /></span>` : null}
  </span>`;
}

/**
 * @param {Node} node
 * @param {import("../pure/tree_facts.js").Why} why
 * @param {number} now
 */
function sayWhy(node, why, now) {
  const restart = why === "restarted" ? restartOf(node, now) : null;
  if (restart !== null) {
    const within = restart.withinMs === null ? null : age(restart.withinMs);
    return words.restarted(age(restart.agoMs), restart.used, restart.allowed, within);
  }
  if (why === "letters") return words.letters(node.mailbox ?? 0);
  if (why === "parked") return words.parkedAgo(age(now - (node.exits?.at(-1)?.at_ms ?? now)));
  return words.whys[why];
}

/** @param {{ rows: ReadonlyMap<string, Node>, selected: string | null, select: (key: string) => void }} props */
function Whole({ rows, selected, select }) {
  const [sort, setSort] = useState(/** @type {{ key: string, isDescending: boolean } | null} */ (null));
  const [folded, setFolded] = useState(/** @type {ReadonlySet<string>} */ (new Set()));
  const [wanted, setWanted] = useState("");
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const isNarrow = useNarrow();
  useKeys({ "/": { label: words.find, run: () => field.current?.focus() } }, words.title);
  const shown = useMemo(() => {
    const nodes = sortedNodes(nodesWith([...rows.values()], wanted), sort);
    return treeRows(nodes, {
      keyOf: (one) => one.key,
      parentOf: (one) => one.parent,
      isFolded: (key) => folded.has(key),
    });
  }, [rows, sort, folded, wanted]);
  const toggle = (/** @type {string} */ key, /** @type {boolean} */ isOpen) => {
    setFolded((/** @type {ReadonlySet<string>} */ before) => {
      const next = new Set(before);
      if (isOpen) next.delete(key);
      else next.add(key);
      return next;
    });
  };
  const order = (/** @type {{ key: string, isDescending: boolean }} */ next) => {
    // A third click on a column gives the order of the tree back.
    const isThird = sort?.key === next.key && next.isDescending && !sort.isDescending;
    setSort(isThird ? null : next);
  };
  return html`<section class="whole-tree" aria-labelledby="whole-tree">
    <div class="section-head">
      <h2 id="whole-tree">${words.whole}</h2>
      <input type="search" class="find" ref=${field} value=${wanted} placeholder=${words.find} aria-label=${words.find}
        onInput=${(/** @type {any} */ event) => setWanted(event.target.value)} />
    </div>
    ${
      shown.length === 0
        ? html`<${Empty} words=${words.nothingFound} />`
        : html`<${TreeGrid} label=${words.label} columns=${isNarrow ? NARROW : COLUMNS} rows=${shown} draw=${drawCell} rowClass=${classOfRow}
            onToggle=${toggle} onSelect=${(/** @type {any} */ row) => select(row.key)} selected=${selected} sort=${sort} onSort=${order} />`
    }
    ${rows.size <= 1 ? html`<${Empty} words=${words.empty} action=${html`<a class="button" href="#/">${words.emptyAction}</a>`} />` : null}
  </section>`;
}

function useNarrow() {
  const [isNarrow, setNarrow] = useState(matchMedia("(max-width: 720px)").matches);
  useEffect(() => {
    const media = matchMedia("(max-width: 720px)");
    const changed = () => setNarrow(media.matches);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, []);
  return isNarrow;
}

/** @param {{ value: Node }} row */
const classOfRow = ({ value }) => {
  const whys = whysOf(value, Date.now());
  return whys.includes("stuck") || whys.includes("parked") ? "node-bad" : whys.includes("restarted") ? "node-warn" : "";
};

/**
 * @param {{ value: Node }} row
 * @param {{ key: string }} column
 */
function drawCell({ value }, { key }) {
  switch (key) {
    case "name":
      return html`<${NameCell} node=${value} />`;
    case "status":
      return html`<${StatusWord} node=${value} />`;
    case "restarts":
      return exact(value.restarts);
    case "mailbox":
      return value.mailbox == null ? html`<span class="dim">–</span>` : exact(value.mailbox);
    case "uptime":
      return value.up_at_ms == null ? html`<span class="dim">–</span>` : html`<${Up} at=${value.up_at_ms} />`;
    default:
      return value.exits?.length
        ? html`<span class="cut dim" title=${value.exits.at(-1)?.reason}><${SafeText} text=${value.exits.at(-1)?.reason ?? ""} /></span>`
        : null;
  }
}

/** @param {{ node: Node }} props */
function NameCell({ node }) {
  const isRecent = restartOf(node, Date.now()) !== null;
  const about = aboutOf(node);
  return html`<span class="node-name">
    <span class="cut" title=${about === null ? node.name : `${about} · ${node.name}`}><${Called} node=${node} /></span>
    ${isRecent ? html`<${RestartNote} node=${node} />` : null}
  </span>`;
}

/**
 * What a node is called: what its session is about, and dim behind it the id that logs and the command line know it by.
 * @param {{ node: Node }} props
 */
function Called({ node }) {
  const about = aboutOf(node);
  if (about === null) return html`<${SafeText} text=${node.name} />`;
  return html`<bdi class="node-title"><${SafeText} text=${about} /></bdi> <span class="node-id dim mono"><${SafeText} text=${node.name} /></span>`;
}

/** @param {{ node: Node }} props */
function RestartNote({ node }) {
  const now = useNow();
  const words_ = restartOf(node, now) === null ? null : sayWhy(node, "restarted", now);
  return words_ === null ? null : html`<span class="warn small cut">${words_}</span>`;
}

/** @param {{ node: Node }} props */
function StatusWord({ node }) {
  const status = words.statuses[node.status] ?? node.status;
  const kind = node.stuck || node.status === "parked" ? "bad" : node.status === "running" ? "" : "warn";
  const phase =
    node.phase && node.phase !== "idle" ? html` <span class="dim">${node.phase.replaceAll("_", " ")}</span>` : null;
  return html`<span class="cut"><span class=${kind}>${status}</span>${phase}</span>`;
}

const MINUTE_MS = 60_000;

/**
 * How long something is up; drawn again when that reads otherwise.
 * @param {{ at: number }} props
 */
function Up({ at }) {
  const [, setRound] = useState(0);
  const ms = Math.max(0, Date.now() - at);
  useEffect(() => {
    const wait = ms < MINUTE_MS ? 1_000 : MINUTE_MS;
    const timer = setInterval(() => setRound((one) => one + 1), wait);
    return () => clearInterval(timer);
  }, [at, ms < MINUTE_MS]);
  return html`<span title=${new Date(at).toISOString()}>${age(ms)}</span>`;
}

/** @param {{ node: Node, owner: string | null, api: import("../wire/api.js").Api, onClose: () => void }} props */
function NodeDialog({ node, owner, api, onClose }) {
  const facts = words.facts;
  const about = aboutOf(node);
  const budget = node.intensity;
  /** @type {[string, any][]} */
  const told = [
    [facts.kind, words.kinds[node.kind] ?? node.kind],
    [facts.status, html`<${StatusWord} node=${node} />`],
    [
      facts.up,
      node.up_at_ms == null
        ? words.never
        : html`<time datetime=${new Date(node.up_at_ms).toISOString()}>${new Date(node.up_at_ms).toLocaleString()}</time>`,
    ],
    [facts.incarnation, exact(node.incarnation)],
    [facts.restarts, exact(node.restarts)],
    [facts.mailbox, node.mailbox == null ? words.none : exact(node.mailbox)],
    [facts.intensity, budget ? words.budget(budget.used, budget.allowed, age(budget.within_ms)) : words.noBudget],
  ];
  if (node.strategy) told.push([facts.strategy, node.strategy.replaceAll("_", " ")]);
  const exits = [...(node.exits ?? [])].reverse();
  const foot = node.session_id
    ? html`<a class="button primary" href=${hrefOf("/s/:id", { id: node.session_id })}>${words.openSession}</a>`
    : node.kind === "source"
      ? html`<${RestartButton} node=${node} owner=${owner} api=${api} onClose=${onClose} />`
      : null;
  if (about !== null) told.unshift([facts.id, html`<span class="mono"><${SafeText} text=${node.name} /></span>`]);
  return html`<${Dialog} title=${`${words.details} ${about ?? node.name}`} onClose=${onClose} footer=${foot}>
    <dl class="facts">${told.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    <h3>${words.lastExits}</h3>
    ${
      exits.length === 0
        ? html`<p class="dim">${words.noExits}</p>`
        : html`<ol class="exits">${exits.map(
            (
              one,
            ) => html`<li key=${one.at_ms}><time class="dim" datetime=${new Date(one.at_ms).toISOString()}>${new Date(one.at_ms).toLocaleTimeString()}</time>
            <span><${SafeText} text=${one.reason} /></span></li>`,
          )}</ol>`
    }
  <//>`;
}

/** @param {{ node: Node, owner: string | null, api: import("../wire/api.js").Api, onClose: () => void }} props */
function RestartButton({ node, owner, api, onClose }) {
  const { isBusy, error, send } = useSending();
  const restart = () => send(api.post("inspect/sources/restart", { source: node.name, session_id: owner }), onClose);
  return html`${error === null ? null : html`<${Problem} error=${error} />`}
    <button type="button" class="button primary" disabled=${isBusy} onClick=${restart}>${words.restartServer}</button>`;
}

export const page = { route: "/tree", title: words.title, Page };

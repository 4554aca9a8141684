// What a timeline shows of its spans: rows, where each bar stands, what is idle, and what is used below. Pure; no clock: now is given.
//
// Each cycle has a scale of its own: between two cycles hours may lie, in which nothing is to be seen. Within a cycle idle stretches are folded.

/** @typedef {import("./spans.js").Span} Span */

/** From which length on a stretch in which nothing works is folded. */
export const IDLE_MS = 2_000;

/** How wide a folded stretch is, in pixels; less where there are many. */
export const IDLE_PX = 24;

const MAX_IDLE_PX = 192;

/**
 * @typedef {object} Scale
 * @property {number} from_ms
 * @property {number} to_ms
 * @property {{ from_ms: number, to_ms: number }[]} idle In order.
 * @property {number} idlePx How wide each of them is.
 * @property {number} busy_ms All that is not idle.
 */

/**
 * @typedef {object} Bar
 * @property {Span} span
 * @property {number} from Where it begins: a share of the busy part.
 * @property {number} to
 * @property {number} idleBefore How many folded stretches lie in front of its beginning.
 * @property {number} idleWithin And in it.
 */

/**
 * @typedef {object} Totals
 * @property {number} tokens_in
 * @property {number} tokens_out
 * @property {number | null} cost_usd Null as soon as one price is not known.
 */

/**
 * @typedef {object} TimelineRow
 * @property {string} key
 * @property {string | null} parent
 * @property {Span} span The first of its attempts, which names it.
 * @property {Span} last The last of them, which says how it stands.
 * @property {Span[]} attempts
 * @property {Scale} scale
 * @property {Totals} own
 * @property {Totals} sum With all that is below.
 */

/**
 * Makes the rows of a timeline, each in front of what lies below it: attempts at one request stand in one.
 * @param {readonly Span[]} spans
 * @param {number} now
 * @returns {TimelineRow[]}
 */
export function timelineRows(spans, now) {
  const roots = rootsOf(spans);
  const scales = scalesOf(spans, roots, now);
  /** @type {Map<string, TimelineRow>} */
  const rows = new Map();
  /** @type {Map<string, string>} */
  const rowOf = new Map();
  for (const span of spans) {
    const first = span.attributes.row;
    const known = span.kind === "request" && first !== span.key ? rows.get(first) : undefined;
    if (known !== undefined) {
      known.attempts.push(span);
      known.last = span;
      known.own = added(known.own, ownOf(span));
      rowOf.set(span.key, first);
      continue;
    }
    rowOf.set(span.key, span.key);
    const scale = /** @type {Scale} */ (scales.get(roots.get(span.key) ?? span.key));
    rows.set(span.key, {
      key: span.key,
      parent: span.parent,
      span,
      last: span,
      attempts: [span],
      scale,
      own: ownOf(span),
      sum: NOTHING,
    });
  }
  const ordered = [...rows.values()];
  for (const row of ordered) row.parent = row.parent === null ? null : (rowOf.get(row.parent) ?? null);
  sumUp(ordered, rows);
  return ordered;
}

/** @type {Totals} */
const NOTHING = { tokens_in: 0, tokens_out: 0, cost_usd: 0 };

/**
 * What a span has used itself; of one that uses none, nothing.
 * @param {Span} span
 * @returns {Totals}
 */
function ownOf(span) {
  if (span.tokens_in === null && span.tokens_out === null) return NOTHING;
  return { tokens_in: span.tokens_in ?? 0, tokens_out: span.tokens_out ?? 0, cost_usd: span.cost_usd };
}

/**
 * @param {Totals} one
 * @param {Totals} other
 * @returns {Totals}
 */
function added(one, other) {
  const isKnown = one.cost_usd !== null && other.cost_usd !== null;
  return {
    tokens_in: one.tokens_in + other.tokens_in,
    tokens_out: one.tokens_out + other.tokens_out,
    cost_usd: isKnown ? /** @type {number} */ (one.cost_usd) + /** @type {number} */ (other.cost_usd) : null,
  };
}

/**
 * From below to the top: what is above began before, but for gates, which use nothing.
 * @param {TimelineRow[]} ordered
 * @param {Map<string, TimelineRow>} rows
 */
function sumUp(ordered, rows) {
  for (const row of ordered) row.sum = row.own;
  for (let at = ordered.length - 1; at >= 0; at -= 1) {
    const row = /** @type {TimelineRow} */ (ordered[at]);
    const above = row.parent === null ? undefined : rows.get(row.parent);
    if (above !== undefined) above.sum = added(above.sum, row.sum);
  }
}

/**
 * The top span of each: that of its cycle, mostly.
 * @param {readonly Span[]} spans
 * @returns {Map<string, string>}
 */
function rootsOf(spans) {
  const parents = new Map(spans.map((span) => [span.key, span.parent]));
  /** @type {Map<string, string>} */
  const roots = new Map();
  for (const { key } of spans) {
    /** @type {string[]} */
    const way = [];
    let at = key;
    for (;;) {
      const known = roots.get(at);
      const parent = parents.get(at);
      if (known !== undefined || parent === null || parent === undefined || way.length > spans.length) {
        const root = known ?? at;
        roots.set(at, root);
        for (const one of way) roots.set(one, root);
        break;
      }
      way.push(at);
      at = parent;
    }
  }
  return roots;
}

/**
 * @param {readonly Span[]} spans
 * @param {Map<string, string>} roots
 * @param {number} now
 * @returns {Map<string, Scale>}
 */
function scalesOf(spans, roots, now) {
  /** @type {Map<string, Span[]>} */
  const groups = new Map();
  for (const span of spans) {
    const root = roots.get(span.key) ?? span.key;
    const group = groups.get(root);
    if (group === undefined) groups.set(root, [span]);
    else group.push(span);
  }
  return new Map([...groups].map(([root, group]) => [root, scaleOf(group, now)]));
}

/**
 * The scale of spans that belong together: from the first to the last moment, what is idle in between folded.
 * @param {readonly Span[]} spans At least one.
 * @param {number} now The end of those that are open.
 * @returns {Scale}
 */
export function scaleOf(spans, now) {
  const ends = spans.map((span) => endOf(span, now));
  const from = spans.reduce((least, span) => Math.min(least, span.from_ms), Number.POSITIVE_INFINITY);
  const to = ends.reduce((most, end) => Math.max(most, end), from);
  // A cycle is at work as long as something in it is, and a gate waits for people.
  const work = spans
    .map((span, place) => ({ kind: span.kind, from_ms: span.from_ms, to_ms: ends[place] ?? span.from_ms }))
    .filter((span) => span.kind === "request" || span.kind === "call" || span.kind === "compaction")
    .sort((one, other) => one.from_ms - other.from_ms);
  /** @type {Scale["idle"]} */
  const idle = [];
  let reached = from;
  for (const span of [...work, { from_ms: to, to_ms: to }]) {
    if (span.from_ms - reached > IDLE_MS) idle.push({ from_ms: reached, to_ms: span.from_ms });
    reached = Math.max(reached, span.to_ms);
  }
  const idleMs = idle.reduce((sum, one) => sum + one.to_ms - one.from_ms, 0);
  const idlePx = Math.min(IDLE_PX, MAX_IDLE_PX / Math.max(1, idle.length));
  return { from_ms: from, to_ms: to, idle, idlePx, busy_ms: Math.max(1, to - from - idleMs) };
}

/**
 * When a span ends, or has come to by now; never before it begins.
 * @param {Span} span
 * @param {number} now
 */
export function endOf(span, now) {
  return Math.max(span.from_ms, span.to_ms ?? now);
}

/**
 * Where a moment stands: a share of what is busy, and the folded stretches in front of it. One in an idle stretch stands at its beginning.
 * @param {Scale} scale
 * @param {number} at
 * @returns {{ share: number, idle: number }}
 */
export function placeOf(scale, at) {
  let moment = at;
  let idle = 0;
  let idleMs = 0;
  for (const one of scale.idle) {
    if (moment < one.to_ms) {
      moment = Math.min(moment, one.from_ms);
      break;
    }
    idle += 1;
    idleMs += one.to_ms - one.from_ms;
  }
  return { share: Math.min(1, Math.max(0, (moment - scale.from_ms - idleMs) / scale.busy_ms)), idle };
}

/**
 * @param {Scale} scale
 * @param {Span} span
 * @param {number} now
 * @returns {Bar}
 */
export function barOf(scale, span, now) {
  const from = placeOf(scale, span.from_ms);
  const to = placeOf(scale, endOf(span, now));
  return {
    span,
    from: from.share,
    to: Math.max(from.share, to.share),
    idleBefore: from.idle,
    idleWithin: Math.max(0, to.idle - from.idle),
  };
}

/**
 * A place as a length of CSS: the busy part has what the folded stretches leave.
 * @param {Scale} scale
 * @param {number} share
 * @param {number} idle
 * @returns {string}
 */
export function lengthOf(scale, share, idle) {
  const folded = scale.idle.length * scale.idlePx;
  const part = Math.round(share * 1e6) / 1e6;
  const px = Math.round((idle - part * scale.idle.length) * scale.idlePx * 100) / 100;
  return folded === 0 ? `${Math.round(part * 1e5) / 1e3}%` : `calc(${Math.round(part * 1e5) / 1e3}% + ${px}px)`;
}

/**
 * Which item of a conversation a span belongs to; null where none is loaded.
 * @param {Span} span
 * @param {(key: string) => Span | undefined} byKey
 * @param {readonly { key: string, type: string, seq: number, ref?: string | null }[]} items In order.
 * @returns {string | null}
 */
export function itemOf(span, byKey, items) {
  const own = topOf(span, byKey);
  const callId = own.attributes.call_id;
  if (typeof callId === "string") {
    const key = `call:${callId}`;
    if (items.some((item) => item.key === key)) return key;
  }
  if (own.kind === "cycle") {
    const prompt = items.find((item) => item.type === "prompt" && item.ref === own.attributes.ref);
    if (prompt !== undefined) return prompt.key;
  }
  let found = null;
  for (const item of items) {
    if (item.seq > 0 && item.seq <= own.seq) found = item.key;
  }
  return found;
}

/**
 * Of what happens in a child's session, the span of the child in this one.
 * @param {Span} span
 * @param {(key: string) => Span | undefined} byKey
 */
function topOf(span, byKey) {
  let top = span;
  let at = span.parent === null ? undefined : byKey(span.parent);
  for (let depth = 0; at !== undefined && depth < 100; depth += 1) {
    if (at.kind === "child") top = at;
    at = at.parent === null ? undefined : byKey(at.parent);
  }
  return top;
}

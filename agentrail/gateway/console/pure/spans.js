// What the events of a session come to as spans: cycles, requests, calls, gates, children and compactions. Pure; the same fold as
// `core/journal/timeline.py`, which golden files hold it together with. What is never replayed does not enter, nor do clocks.
//
// Spans are the fold's own and go on changing while they are open; `version` says whether anything has.

/**
 * @typedef {object} Mark
 * @property {number} at_ms
 * @property {string} plugin Empty where no plugin acted.
 * @property {string} hook
 * @property {string} action `failed`, `slow`, `ignored`, `intervened`, `options`, `event`, `model`, `steered`, `suspended`, `resumed`, `retry`, `loop`, `budget`,
 *   `restarted`, `recovered`, `skipped`.
 * @property {string | null} detail
 */

/**
 * @typedef {object} Span
 * @property {string} key
 * @property {string | null} parent
 * @property {"cycle" | "request" | "call" | "gate" | "child" | "compaction"} kind
 * @property {string} name
 * @property {number} from_ms
 * @property {number | null} to_ms Null while it is open.
 * @property {number} seq
 * @property {number | null} to_seq
 * @property {string | null} outcome
 * @property {number | null} attempt
 * @property {number | null} tokens_in
 * @property {number | null} tokens_out
 * @property {number | null} cost_usd
 * @property {Mark[]} marks
 * @property {Record<string, any>} attributes
 */

const MAX_HEAD_CHARACTERS = 120;

/** The kinds of events that the fold hears; others say nothing of spans. */
export const TIMELINE_KINDS = /** @type {const} */ ([
  "abort_settled",
  "action_ignored",
  "agent_abort",
  "agent_end",
  "agent_error",
  "agent_resumed",
  "agent_start",
  "agent_suspended",
  "approval_required",
  "approval_resolved",
  "budget_warning",
  "compact_end",
  "compact_skipped",
  "compact_start",
  "context_overflow",
  "intervention",
  "large_result_offloaded",
  "loop_detected",
  "message_start",
  "model_switched",
  "plugin_event",
  "plugin_failed",
  "plugin_opts_updated",
  "plugin_slow",
  "prompt_received",
  "request_start",
  "response_complete",
  "retry",
  "session_end",
  "session_recovered",
  "session_restarted",
  "steering_applied",
  "stream_error",
  "subagent_end",
  "subagent_event",
  "subagent_start",
  "tool_blocked",
  "tool_call_unknown",
  "tool_execution_end",
  "tool_execution_metrics",
  "tool_execution_start",
  "tool_killed",
  "tool_retry",
  "tool_skipped_for_steering",
]);

/** The spans of one session, and of those that work for it, as far as its own events tell of them. */
export class Timeline {
  constructor() {
    /** @type {Span[]} In the order in which they began. */
    this.spans = [];
    /** How often anything has changed. */
    this.version = 0;
    /** The number of the last event that was heard. */
    this.seq = 0;
    /** @type {Map<string, Span>} */
    const children = new Map();
    this._children = children;
    this._root = new Lane(this.spans, children, null);
    /** @type {Map<string, Lane>} */
    this._lanes = new Map();
  }

  /**
   * Takes an event in its wire form. One that is never replayed, and one whose number was taken already, change nothing.
   * @param {Record<string, any>} event
   */
  hear(event) {
    if (event.ephemeral || typeof event.seq !== "number" || event.seq <= this.seq) return;
    this.seq = event.seq;
    this.version += 1;
    if (event.kind !== "subagent_event") {
      this._root.hear(event, event.seq, event.at_ms);
      return;
    }
    const inner = event.event;
    if (typeof inner?.session_id !== "string" || inner.kind === "subagent_event") return;
    let lane = this._lanes.get(inner.session_id);
    if (lane === undefined) {
      lane = new Lane(this.spans, this._children, this._children.get(inner.session_id) ?? null);
      this._lanes.set(inner.session_id, lane);
    }
    lane.hear(inner, event.seq, inner.at_ms);
  }
}

/**
 * @param {Iterable<Record<string, any>>} events
 * @returns {Span[]}
 */
export function timelineOf(events) {
  const timeline = new Timeline();
  for (const event of events) timeline.hear(event);
  return timeline.spans;
}

/** @type {Record<string, string>} */
const VERDICTS = {
  tool_killed: "killed",
  tool_skipped_for_steering: "skipped",
  tool_call_unknown: "unknown",
  tool_blocked: "blocked",
};

/** The spans of one of the sessions, and which of them are open. */
class Lane {
  /**
   * @param {Span[]} spans
   * @param {Map<string, Span>} children Of all lanes.
   * @param {Span | null} above
   */
  constructor(spans, children, above) {
    this.spans = spans;
    this.children = children;
    this.above = above;
    /** @type {Span | null} */
    this.cycle = null;
    /** @type {Span | null} */
    this.endedCycle = null;
    /** @type {Span | null} */
    this.request = null;
    /** @type {Span | null} */
    this.firstRequest = null;
    /** @type {Span | null} */
    this.compaction = null;
    /** @type {Map<string, Span>} */
    this.calls = new Map();
    /** @type {Map<string, Span>} */
    this.gates = new Map();
    /** @type {{ ref: string, said: string } | null} */
    this.prompt = null;
  }

  /**
   * @param {Record<string, any>} event
   * @param {number} seq
   * @param {number} at
   */
  hear(event, seq, at) {
    const handler = HANDLERS[event.kind];
    if (handler !== undefined) {
      handler(this, event, seq, at);
      return;
    }
    const marks = MARKS[event.kind];
    if (marks !== undefined) for (const mark of marks(event, at)) this.mark(mark);
  }

  /**
   * @param {Record<string, any>} event
   * @param {number} seq
   * @param {number} at
   */
  beginCycle(event, seq, at) {
    this.cutAll(seq, at);
    end(this.cycle, seq, at, "incomplete");
    const span = this.begin("cycle", "invoke_agent", seq, at, this.above);
    span.attributes.ref = event.ref;
    if (this.prompt?.ref === event.ref) {
      span.attributes.prompt = this.prompt?.said;
      this.prompt = null;
    }
    this.cycle = span;
    this.firstRequest = null;
  }

  /**
   * @param {number} seq
   * @param {number} at
   * @param {string} outcome
   * @param {Record<string, any>} attributes
   */
  endCycle(seq, at, outcome, attributes) {
    this.cutAll(seq, at);
    const span = this.cycle;
    this.cycle = null;
    if (span !== null) {
      Object.assign(span.attributes, attributes);
      end(span, seq, at, outcome);
      this.endedCycle = span;
    }
  }

  /**
   * @param {Record<string, any>} event
   * @param {number} seq
   * @param {number} at
   */
  beginRequest(event, seq, at) {
    end(this.request, seq, at, "incomplete");
    const span = this.begin("request", `chat ${event.model}`, seq, at, this.cycle);
    span.attempt = event.attempt ?? 1;
    span.attributes.model = event.model;
    span.attributes.messages = event.messages;
    if (span.attempt === 1 || this.firstRequest === null) this.firstRequest = span;
    span.attributes.row = this.firstRequest.key;
    this.request = span;
  }

  /**
   * @param {string} code
   * @param {number} seq
   * @param {number} at
   */
  failRequest(code, seq, at) {
    const span = this.request;
    this.request = null;
    if (span !== null) {
      span.attributes.error = code;
      end(span, seq, at, "error");
    }
  }

  /**
   * @param {Record<string, any>} event
   * @param {number} seq
   * @param {number} at
   */
  beginCall(event, seq, at) {
    const span = this.begin("call", `execute_tool ${event.name}`, seq, at, this.cycle);
    span.attempt = 1;
    span.attributes.tool = event.name;
    span.attributes.call_id = event.call_id;
    this.calls.set(event.call_id, span);
    for (const gate of this.gates.values()) {
      if (gate.attributes.call_id === event.call_id) gate.parent = span.key;
    }
  }

  /**
   * @param {Record<string, any>} event
   * @param {number} seq
   * @param {number} at
   */
  endCall(event, seq, at) {
    const known = this.calls.get(event.call_id);
    if (known === undefined) return;
    const usual = event.result?.is_error ? "error" : "done";
    end(known, seq, at, known.attributes.verdict ?? usual);
    this.calls.delete(event.call_id);
    for (const [id, gate] of this.gates) {
      if (gate.attributes.call_id === event.call_id) this.gates.delete(id);
    }
  }

  /**
   * Puts a mark on what is at work: the request that is out, else the only call that runs, else the cycle.
   * @param {Mark} mark
   */
  mark(mark) {
    const only = this.calls.size === 1 ? (this.calls.values().next().value ?? null) : null;
    (this.request ?? only ?? this.cycle ?? this.above)?.marks.push(mark);
  }

  /**
   * @param {Span["kind"]} kind
   * @param {string} name
   * @param {number} seq
   * @param {number} at
   * @param {Span | null} above
   * @returns {Span}
   */
  begin(kind, name, seq, at, above) {
    /** @type {Span} */
    const span = {
      key: `${kind}:${seq}`,
      parent: (above ?? this.above)?.key ?? null,
      kind,
      name,
      from_ms: at,
      to_ms: null,
      seq,
      to_seq: null,
      outcome: null,
      attempt: null,
      tokens_in: null,
      tokens_out: null,
      cost_usd: null,
      marks: [],
      attributes: {},
    };
    this.spans.push(span);
    return span;
  }

  /**
   * Ends all of a cycle whose own end has not come, and will not.
   * @param {number} seq
   * @param {number} at
   */
  cutAll(seq, at) {
    for (const span of [this.request, this.compaction, ...this.calls.values()]) {
      end(span, seq, at, "incomplete");
    }
    this.request = null;
    this.compaction = null;
    this.calls.clear();
    this.gates.clear();
  }
}

/**
 * @param {Span | null} span
 * @param {number} seq
 * @param {number} at
 * @param {string} outcome
 */
function end(span, seq, at, outcome) {
  if (span === null) return;
  span.to_ms = Math.max(at, span.from_ms);
  span.to_seq = seq;
  span.outcome = outcome;
}

/**
 * @param {number} at_ms
 * @param {string} action
 * @param {Partial<Mark>} [more]
 * @returns {Mark}
 */
function markOf(at_ms, action, more = {}) {
  return { at_ms, plugin: "", hook: "", action, detail: null, ...more };
}

/**
 * The beginning of a text, by characters as Python counts them; nothing of one that was cut out of its page.
 * @param {unknown} text
 * @returns {string}
 */
function head(text) {
  if (typeof text !== "string") return "";
  return text.length <= MAX_HEAD_CHARACTERS
    ? text
    : [...text.slice(0, 2 * MAX_HEAD_CHARACTERS)].slice(0, MAX_HEAD_CHARACTERS).join("");
}

/** @typedef {(lane: Lane, event: Record<string, any>, seq: number, at: number) => void} Handler */

/** @type {Handler} */
const verdict = (lane, event, seq, at) => {
  const known = lane.calls.get(event.call_id);
  if (known === undefined) return;
  known.attributes.verdict = VERDICTS[event.kind];
  if (event.kind !== "tool_blocked") return;
  const gate = lane.begin("gate", event.by, seq, at, known);
  Object.assign(gate.attributes, { tool: event.name, call_id: event.call_id, by: event.by });
  end(gate, seq, at, "blocked");
};

/** @type {Handler} */
const broken = (lane, event, seq, at) => lane.failRequest(event.error.code, seq, at);

/** @type {Readonly<Record<string, Handler | undefined>>} */
const HANDLERS = {
  prompt_received: (lane, event) => {
    const blocks = Array.isArray(event.content) ? event.content : [];
    const said = blocks
      .map((/** @type {any} */ one) => (one.kind === "text" && typeof one.text === "string" ? one.text : ""))
      .join("");
    lane.prompt = { ref: event.ref, said: head(said) };
  },
  agent_start: (lane, event, seq, at) => lane.beginCycle(event, seq, at),
  agent_end: (lane, event, seq, at) =>
    lane.endCycle(seq, at, "done", {
      stop_reason: event.stop_reason,
      turns: event.turns ?? 0,
      total_in: event.usage.input,
      total_out: event.usage.output,
      total_usd: event.usage.cost_usd,
    }),
  agent_abort: (lane, event, seq, at) => lane.endCycle(seq, at, "aborted", { reason: event.reason }),
  agent_error: (lane, event, seq, at) => {
    lane.failRequest(event.error.code, seq, at);
    lane.endCycle(seq, at, "failed", { error: event.error.code });
  },
  abort_settled: (lane, event) => {
    if (lane.endedCycle === null) return;
    lane.endedCycle.attributes.abort_ms = event.receipt.milliseconds;
    lane.endedCycle.attributes.unknown_calls = event.receipt.unknown?.length ?? 0;
  },
  session_end: (lane, _event, seq, at) => {
    lane.cutAll(seq, at);
    end(lane.cycle, seq, at, "incomplete");
    lane.cycle = null;
  },
  request_start: (lane, event, seq, at) => lane.beginRequest(event, seq, at),
  message_start: (lane, _event, _seq, at) => {
    if (lane.request !== null) lane.request.attributes.first_chunk_ms = at - lane.request.from_ms;
  },
  response_complete: (lane, event, seq, at) => {
    const span = lane.request;
    lane.request = null;
    if (span === null) return;
    const usage = event.usage;
    span.tokens_in = usage.input;
    span.tokens_out = usage.output;
    span.cost_usd = usage.cost_usd ?? null;
    Object.assign(span.attributes, {
      stop_reason: event.stop_reason,
      cache_read: usage.cache_read,
      cache_write: usage.cache_write,
      estimated: usage.estimated,
    });
    end(span, seq, at, "done");
  },
  stream_error: broken,
  context_overflow: broken,
  retry: (lane, event, seq, at) => {
    lane.mark(markOf(at, "retry", { detail: String(event.delay_ms) }));
    lane.failRequest(event.error.code, seq, at);
  },
  model_switched: (lane, event, seq, at) => {
    lane.mark(markOf(at, "model", { plugin: event.by, detail: event.to_model }));
    if (event.by === "fallback") lane.failRequest("fallback", seq, at);
  },
  tool_execution_start: (lane, event, seq, at) => lane.beginCall(event, seq, at),
  tool_execution_end: (lane, event, seq, at) => lane.endCall(event, seq, at),
  tool_execution_metrics: (lane, event) => {
    const known = lane.calls.get(event.call_id);
    if (known === undefined) return;
    known.attempt = event.attempts ?? 1;
    known.attributes.duration_ms = event.duration_ms;
  },
  tool_retry: (lane, event, _seq, at) => {
    const known = lane.calls.get(event.call_id);
    if (known === undefined) return;
    known.attempt = event.attempt + 1;
    known.marks.push(markOf(at, "retry", { detail: event.error.code }));
  },
  tool_blocked: verdict,
  tool_killed: verdict,
  tool_skipped_for_steering: verdict,
  tool_call_unknown: verdict,
  large_result_offloaded: (lane, event) => {
    const known = lane.calls.get(event.call_id);
    if (known !== undefined) known.attributes.offloaded = event.path;
  },
  approval_required: (lane, event, seq, at) => {
    const asked = event.approval;
    const gate = lane.begin("gate", "approval", seq, at, lane.calls.get(asked.call_id) ?? lane.cycle);
    Object.assign(gate.attributes, { tool: asked.tool, call_id: asked.call_id, approval_id: asked.id });
    gate.to_ms = at;
    gate.outcome = "waiting";
    lane.gates.set(asked.id, gate);
  },
  approval_resolved: (lane, event, seq, at) => {
    const known = lane.gates.get(event.approval.id);
    if (known === undefined) return;
    known.outcome = event.status;
    known.to_seq = seq;
    known.attributes.by = event.by;
    known.attributes.waited_ms = Math.max(at - known.from_ms, 0);
  },
  subagent_start: (lane, event, seq, at) => {
    const span = lane.begin("child", "invoke_agent", seq, at, lane.calls.get(event.call_id) ?? lane.cycle);
    Object.assign(span.attributes, {
      child_id: event.child_id,
      call_id: event.call_id,
      description: head(event.description),
    });
    lane.children.set(event.child_id, span);
  },
  subagent_end: (lane, event, seq, at) => {
    const known = lane.children.get(event.child_id);
    if (known !== undefined && known.to_ms === null) end(known, seq, at, event.result?.is_error ? "error" : "done");
  },
  compact_start: (lane, event, seq, at) => {
    end(lane.compaction, seq, at, "incomplete");
    lane.compaction = lane.begin("compaction", "compact", seq, at, lane.cycle);
    lane.compaction.attributes.reason = event.reason;
  },
  compact_end: (lane, event, seq, at) => {
    const span = lane.compaction;
    lane.compaction = null;
    if (span === null) return;
    Object.assign(span.attributes, {
      removed: event.removed,
      tokens_before: event.tokens_before,
      tokens_after: event.tokens_after,
    });
    end(span, seq, at, "done");
  },
  compact_skipped: (lane, event, seq, at) => {
    end(lane.compaction, seq, at, "skipped");
    lane.compaction = null;
    lane.mark(markOf(at, "skipped", { plugin: event.by, detail: event.reason ?? "plugin" }));
  },
};

/** @type {Readonly<Record<string, ((event: Record<string, any>, at: number) => Mark[]) | undefined>>} */
const MARKS = {
  plugin_failed: (event, at) => [
    markOf(at, "failed", { plugin: event.plugin, hook: event.hook, detail: event.error.code }),
  ],
  plugin_slow: (event, at) => [
    markOf(at, "slow", { plugin: event.plugin, hook: event.hook, detail: String(event.milliseconds) }),
  ],
  action_ignored: (event, at) => [
    markOf(at, "ignored", { plugin: event.plugin, hook: event.hook, detail: event.action }),
  ],
  intervention: (event, at) => event.by.map((/** @type {string} */ plugin) => markOf(at, "intervened", { plugin })),
  plugin_opts_updated: (event, at) => [
    markOf(at, "options", { plugin: event.plugin, detail: event.success ? "applied" : "refused" }),
  ],
  plugin_event: (event, at) => [markOf(at, "event", { detail: event.name })],
  steering_applied: (event, at) => [markOf(at, "steered", { detail: String(event.count) })],
  agent_suspended: (event, at) => [markOf(at, "suspended", { detail: String(event.waiting.length) })],
  agent_resumed: (event, at) => [markOf(at, "resumed", { detail: event.trigger })],
  loop_detected: (event, at) => [markOf(at, "loop", { detail: event.type })],
  budget_warning: (_event, at) => [markOf(at, "budget")],
  session_restarted: (_event, at) => [markOf(at, "restarted")],
  session_recovered: (event, at) => [markOf(at, "recovered", { detail: String(event.decisions.length) })],
};

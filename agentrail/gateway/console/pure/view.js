// What one open session looks like: the types that `fold.js` makes and every page reads, and how they begin.
//
// Pure data: no DOM, no words for people, no clock. A view is never changed; what changes it makes another one, in which everything
// that stayed the same is the same object, so that who draws compares with `===`.

/**
 * An event as it came over the wire: its head, and the fields of its kind under their own names.
 * @typedef {Record<string, any> & {kind: string, seq: number, at_ms: number, session_id?: string, ephemeral?: boolean}} WireEvent
 */

/**
 * A piece of what was said, as in `docs/reference/events.md`: `text`, `image`, `file_ref`.
 * @typedef {{kind: string} & Record<string, any>} Block
 */

/**
 * Tokens and money of a response, a cycle or a session.
 * @typedef {object} Usage
 * @property {number} input
 * @property {number} output
 * @property {number} cache_read
 * @property {number} cache_write
 * @property {number} reasoning
 * @property {number | null} cost_usd null as soon as one price is unknown
 * @property {boolean} estimated
 */

/**
 * A step of a plan; one that waits says no status.
 * @typedef {{index: number, content: string, done: boolean, status?: string, result?: string, error?: string}} PlanStep
 */

/**
 * An error as data.
 * @typedef {{code: string, message: string, retryable?: boolean, retry_after_seconds?: number | null}} ErrorInfo
 */

/**
 * What a call is answered with.
 * @typedef {{call_id: string, name: string, text: string, is_error?: boolean, details?: any, images?: Block[]}} ToolResult
 */

/**
 * How far a call is. `asked`: the model wants it, and what becomes of it is not known. `waiting`: for a person or for the client.
 * `pausing`: it failed and is tried again. The rest are ends: `done` and `failed` ran; `blocked`, `rejected`, `skipped` and
 * `unknown_tool` did not; `killed` was stopped; `uncertain` may have happened or not.
 * @typedef {"asked"|"waiting"|"running"|"pausing"|"done"|"failed"|"blocked"|"rejected"|"skipped"|"unknown_tool"|"killed"|"uncertain"} CallState
 */

/**
 * A call of a tool.
 * @typedef {object} Call
 * @property {string} call_id unique in its session
 * @property {string} name of the tool
 * @property {CallState} state
 * @property {Record<string, any> | null} arguments those it runs with, as soon as the verdict is known; before, those of the model; null: no JSON object
 * @property {Record<string, any> | null} asked those of the model, where they are known
 * @property {string | null} malformed what the model wrote in place of a JSON object
 * @property {number | null} started_at_ms
 * @property {number | null} ended_at_ms
 * @property {number | null} duration_ms only of one that ran, and behind its end
 * @property {number} attempts how often it was tried
 * @property {{attempt: number, error: string, at_ms: number}[]} retries the attempts that failed and were followed by another
 * @property {ToolResult | null} result
 * @property {string | null} reason why it was blocked, rejected, stopped or skipped
 * @property {string | null} by which plugin blocked it, or who rejected it
 * @property {string | null} approval_id what a person decides, or decided, about it
 * @property {string | null} ref of the question or the call of the client that it waits for
 * @property {{path: string, bytes: number} | null} offloaded where the whole result is, when it was too large for the model
 * @property {string[]} children the sessions that work for it, in the order in which they began; more of them is in `View.children`
 * @property {boolean} survivor whether an abort let it run on
 * @property {boolean} stopping whether it is answered already, and its task has not ended yet
 */

/**
 * What all items have.
 * @typedef {object} ItemBase
 * @property {string} key unique in its view, and the same for as long as the item is there
 * @property {number} seq of the event that it began with; 0 of one that only a snapshot told of
 * @property {number} at_ms of that event; 0 of one that only a snapshot told of
 * @property {string | null} cycle the `key` of its cycle; null outside of one, or where its beginning is not loaded
 */

/**
 * Words that the model reads as coming from the user. `working`: their cycle runs. Those that wait are in `View.queued` and `View.steers`.
 * @typedef {ItemBase & {
 *   type: "prompt",
 *   ref: string | null,
 *   origin: "prompt" | "steer" | "intervention" | "note" | "summary",
 *   state: "working" | "done" | "dropped" | "rejected" | "taken",
 *   content: Block[] | null,
 *   reason: string | null,
 *   by: string[],
 *   via: string | null,
 *   request_id: string | null,
 * }} PromptItem `content` is null where it is not loaded; `by`: the plugins of an intervention, or the one that took it
 */

/**
 * A response of the model. While it streams, its words are in `View.live`, whose `key` is this one's, and not here.
 * @typedef {ItemBase & {
 *   type: "answer",
 *   model: string | null,
 *   state: "waiting" | "streaming" | "pausing" | "complete" | "cut" | "failed" | "stopped",
 *   attempt: number,
 *   text: string,
 *   thinking: string,
 *   calls: string[],
 *   attempts: {attempt: number, error: ErrorInfo, discarded: boolean, delay_ms: number | null, at_ms: number}[],
 *   usage: Usage | null,
 *   stop_reason: string | null,
 *   ended_at_ms: number | null,
 * }} AnswerItem `cut`: an abort ended it early, and `text` is what was kept; `attempts`: those that failed
 */

/**
 * A call where it stands in the conversation.
 * @typedef {ItemBase & {type: "call", call: Call}} CallItem
 */

/**
 * What a person decides or decided. `rule`: calls like this one need no approval any more.
 * @typedef {ItemBase & {
 *   type: "decision",
 *   of: "approval" | "question" | "client_call" | "rule",
 *   id: string,
 *   state: string,
 *   asked: Record<string, any>,
 *   call_id: string | null,
 *   by: string | null,
 *   user: string | null,
 *   answer: any,
 *   reason: string | null,
 *   decided_at_ms: number | null,
 * }} DecisionItem `state`: `open`, or how it was decided (`approved`, `rejected`, `timeout`, `aborted`, `superseded`, `answered`,
 *   `declined`, `closed`); `asked`: the approval, the question, the call of the client or the rule as it came; `id`: what decides it
 */

/**
 * Anything else that happened. `kind` is the event's, or `unknown` for one that this page does not know, whose name is in `event.kind`.
 * @typedef {ItemBase & {
 *   type: "notice",
 *   kind: string,
 *   level: "info" | "warn" | "bad",
 *   event: WireEvent,
 *   end: WireEvent | null,
 * }} NoticeItem `end`: what finished what `event` began (`abort_settled` of `agent_abort`, `compact_end` of `compact_start`)
 */

/**
 * Events that are not kept, or not by this page.
 * @typedef {ItemBase & {type: "gap", from_seq: number, to_seq: number}} GapItem
 */

/** @typedef {PromptItem | AnswerItem | CallItem | DecisionItem | NoticeItem | GapItem} Item */

/**
 * From `AgentStart` to its end.
 * @typedef {object} Cycle
 * @property {string} key
 * @property {string | null} ref the prompt that it works on
 * @property {string | null} request_id
 * @property {number | null} from_seq null where its beginning is not loaded
 * @property {number | null} to_seq null while it runs
 * @property {number | null} from_ms
 * @property {number | null} to_ms
 * @property {"end" | "abort" | "error" | null} outcome
 * @property {string | null} reason why it stopped, or was aborted
 * @property {ErrorInfo | null} error
 * @property {Usage | null} usage
 * @property {number} turns how often the model was asked
 * @property {number} calls how many calls it made
 */

/**
 * What streams, and is in no committed event yet.
 * @typedef {object} Live
 * @property {string | null} key of the answer that it belongs to
 * @property {number} attempt
 * @property {string} text
 * @property {string} thinking
 * @property {number | null} stalled_seconds nothing has come for so long
 * @property {boolean} incomplete whether some of it was not sent to this reader; the answer, when it is complete, has all of it
 */

/**
 * A session that works for a call.
 * @typedef {object} Child
 * @property {string} session_id
 * @property {string | null} call_id of the session above it
 * @property {string | null} agent_id
 * @property {string | null} description what it is to do
 * @property {string | null} phase
 * @property {boolean} ended
 * @property {ToolResult | null} result
 * @property {View | null} view what it has published so far, as far as it is loaded; null: nothing yet
 */

/**
 * A prompt that has not had its turn yet.
 * @typedef {{ref: string, content: Block[], request_id: string | null, via?: string | null, at_ms: number, asked?: boolean}} QueuedPrompt `asked`: it
 *   is its turn, and plugins are asked about it
 */

/**
 * Words for the running cycle that have not entered it yet.
 * @typedef {{ref: string, text: string, at_ms: number}} QueuedSteer
 */

/**
 * A pause before the request is sent again.
 * @typedef {{attempt: number, delay_ms: number, at_ms: number, error: ErrorInfo}} RetryPause
 */

/**
 * One open session.
 * @typedef {object} View
 * @property {string} session_id
 * @property {number} seq of the last committed event that it knows; 0 before the first
 * @property {number | null} first_seq of the first event whose items are here; null: none are
 * @property {number | null} kept_first of the first event that the server keeps; null: not known
 * @property {string | null} title
 * @property {string | null} first_words as the snapshot said them
 * @property {string | null} agent_id
 * @property {string | null} agent as which of its agents it works since it was handed over
 * @property {"idle" | "running" | "streaming" | "executing_tools"} phase
 * @property {boolean} suspended
 * @property {boolean} tearing_down
 * @property {string | null} model
 * @property {number} turn of the running cycle, from 1; 0 in idle
 * @property {Item[]} items in the order in which they began
 * @property {Cycle[]} cycles
 * @property {Live | null} live
 * @property {Record<string, string>} progress what each running call said last, by `call_id`
 * @property {Record<string, Call>} running the calls that began and have no result yet, by `call_id`
 * @property {Record<string, any>[]} approvals that wait here; those of children are in `children`
 * @property {Record<string, any>[]} questions that wait here
 * @property {Record<string, any>[]} client_calls that wait here
 * @property {QueuedPrompt[]} queued
 * @property {QueuedSteer[]} steers
 * @property {{id: string, content: string, status: string}[]} todos
 * @property {{steps: PlanStep[], goal?: string} | null} plan
 * @property {Record<string, Child>} children
 * @property {Usage} usage
 * @property {number | null} cost_usd
 * @property {{tokens: number, window: number | null} | null} context
 * @property {{spent: any, limit: any} | null} budget the last warning
 * @property {Record<string, any> | null} budget_left as the snapshot said it
 * @property {string | null} status_text what the model says it is doing
 * @property {RetryPause | null} retry
 * @property {number} restarts
 * @property {{reason: string, parked: boolean, at_ms: number} | null} ended
 * @property {{from_seq: number, to_seq: number}[]} gaps
 * @property {number | null} torn_at the number of an event that came too early; the reader subscribes again behind `seq`
 * @property {Inner} inner
 */

/**
 * What only the fold reads.
 * @typedef {object} Inner
 * @property {WireEvent[]} log the events of `items`, in order; may be longer than `length`, when a later view shares it
 * @property {number} length how many of `log` are this view's
 * @property {Map<string, number>} index where an item is said to stand; shared between views, so it is looked up and then checked
 * @property {string | null} answer the key of the answer that is being waited for
 * @property {string | null} cycle the key of the cycle that runs
 * @property {Usage | null} before the usage in front of the running cycle; null: this reader came later
 * @property {Item[]} base items that the snapshot told of, in place of those whose events are not loaded
 * @property {boolean} is_child whose events may have gaps, because not all of them appear on the session above
 * @property {string | null} compacting the key of the notice of a compaction that runs
 * @property {string | null} aborting the key of the notice of an abort that is not settled
 * @property {Record<string, string>} cut what an abort left of an answer, by the prompt, as a snapshot told it: no event does
 * @property {string | null} own_model the model that it goes back to at the end of a cycle; null: not known
 * @property {boolean} is_prepared whether `turn` counts a request already that is not sent yet
 * @property {number} depth how many sessions stand above this one
 */

/** @type {Usage} */
export const NO_USAGE = Object.freeze({
  input: 0,
  output: 0,
  cache_read: 0,
  cache_write: 0,
  reasoning: 0,
  cost_usd: 0,
  estimated: false,
});

/**
 * A session of which nothing is known.
 * @param {string} sessionId
 * @returns {View}
 */
export function emptyView(sessionId) {
  return {
    session_id: sessionId,
    seq: 0,
    first_seq: null,
    kept_first: null,
    title: null,
    first_words: null,
    agent_id: null,
    agent: null,
    phase: "idle",
    suspended: false,
    tearing_down: false,
    model: null,
    turn: 0,
    items: [],
    cycles: [],
    live: null,
    progress: {},
    running: {},
    approvals: [],
    questions: [],
    client_calls: [],
    queued: [],
    steers: [],
    todos: [],
    plan: null,
    children: {},
    usage: NO_USAGE,
    cost_usd: 0,
    context: null,
    budget: null,
    budget_left: null,
    status_text: null,
    retry: null,
    restarts: 0,
    ended: null,
    gaps: [],
    torn_at: null,
    inner: emptyInner(),
  };
}

/** @returns {Inner} */
export function emptyInner() {
  return {
    log: [],
    length: 0,
    index: new Map(),
    answer: null,
    cycle: null,
    before: NO_USAGE,
    base: [],
    is_child: false,
    compacting: null,
    aborting: null,
    cut: {},
    own_model: null,
    is_prepared: false,
    depth: 0,
  };
}

/**
 * A call of which only the name is known.
 * @param {string} callId
 * @param {string} name
 * @returns {Call}
 */
export function newCall(callId, name) {
  return {
    call_id: callId,
    name,
    state: "asked",
    arguments: null,
    asked: null,
    malformed: null,
    started_at_ms: null,
    ended_at_ms: null,
    duration_ms: null,
    attempts: 1,
    retries: [],
    result: null,
    reason: null,
    by: null,
    approval_id: null,
    ref: null,
    offloaded: null,
    children: [],
    survivor: false,
    stopping: false,
  };
}

/**
 * Add two usages up. A price that is unknown makes the sum unknown.
 * @param {Usage} one
 * @param {Usage} other
 * @returns {Usage}
 */
export function addUsage(one, other) {
  const cost = one.cost_usd === null || other.cost_usd === null ? null : one.cost_usd + other.cost_usd;
  return {
    input: one.input + other.input,
    output: one.output + other.output,
    cache_read: one.cache_read + other.cache_read,
    cache_write: one.cache_write + other.cache_write,
    reasoning: one.reasoning + other.reasoning,
    cost_usd: cost,
    estimated: one.estimated || other.estimated,
  };
}

/**
 * The text of blocks, joined as the model reads them.
 * @param {readonly Block[]} blocks
 * @param {string} kind `text` or `thinking`
 * @returns {string}
 */
export function textOf(blocks, kind) {
  let text = "";
  for (const block of blocks) {
    if (block.kind === kind && typeof block.text === "string") text += block.text;
  }
  return text;
}

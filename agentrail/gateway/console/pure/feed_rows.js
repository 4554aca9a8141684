// The rows of a conversation: its items one by one, long stretches of calls folded into groups of a hundred, and the end of each cycle.
//
// Pure: no DOM, no words. Rows are made anew each time, which for fifty thousand items is a few milliseconds; who draws compares the items in them.

/** @typedef {import("./view.js").Item} Item */
/** @typedef {import("./view.js").Cycle} Cycle */
/** @typedef {import("./view.js").Call} Call */
/** @typedef {import("./outbox.js").Sent} Sent */

/**
 * @typedef {{key: string, kind: "item", item: Item}} ItemRow
 * @typedef {{key: string, kind: "group", first: number, last: number, opened: boolean, failed: number, active: number, start: number, stop: number}} GroupRow
 *   `first` and `last`: the positions of the calls of their stretch, from 1; `active`: those that run or wait; `start`: the place of its first item, `stop`
 *   that behind its last one
 * @typedef {{key: string, kind: "cycle", cycle: Cycle, end: Item}} CycleRow the end of a cycle, behind its last item
 * @typedef {{key: string, kind: "sent", sent: Sent}} SentRow what was sent and no event shows yet
 * @typedef {ItemRow | GroupRow | CycleRow | SentRow} Row
 */

/** How many calls stand in one group, and how many in a row make groups at all. */
export const GROUP = 100;

const ACTIVE = new Set(["waiting", "running", "pausing"]);
const FAILED = new Set(["failed", "killed", "uncertain"]);

/**
 * @param {readonly Item[]} items
 * @param {readonly Cycle[]} cycles
 * @param {ReadonlyMap<string, boolean>} opened which groups a person opened or closed, by key; the last group of a stretch is open by itself
 * @returns {Row[]}
 */
export function rowsOf(items, cycles, opened) {
  const ends = endsOf(items, cycles);
  /** @type {Row[]} */
  const rows = [];
  let place = 0;
  while (place < items.length) {
    const behind = stretchFrom(items, place);
    if (behind - place > GROUP) putGroups(rows, items, place, behind, opened, ends);
    else for (let one = place; one < behind; one += 1) putItem(rows, /** @type {Item} */ (items[one]), one, ends);
    place = behind;
  }
  return rows;
}

/**
 * Where a stretch of calls ends: decisions about them belong to it, words do not.
 * @param {readonly Item[]} items
 * @param {number} place
 * @returns {number} the place behind it; of anything but a call the next place
 */
function stretchFrom(items, place) {
  let behind = place + 1;
  if (items[place]?.type !== "call") return behind;
  while (behind < items.length && items[behind]?.type === "call" && items[behind]?.cycle === items[place]?.cycle)
    behind += 1;
  return behind;
}

/**
 * @param {Row[]} rows
 * @param {readonly Item[]} items
 * @param {number} from
 * @param {number} behind
 * @param {ReadonlyMap<string, boolean>} opened
 * @param {ReadonlyMap<number, Cycle>} ends
 */
function putGroups(rows, items, from, behind, opened, ends) {
  for (let start = from; start < behind; start += GROUP) {
    const stop = Math.min(start + GROUP, behind);
    const group = groupOf(items, start, stop, from);
    const isLast = stop === behind;
    group.opened = opened.get(group.key) ?? (isLast || group.active > 0);
    rows.push(group);
    for (let one = start; one < stop; one += 1) {
      if (group.opened) putItem(rows, /** @type {Item} */ (items[one]), one, ends);
      else putEnd(rows, /** @type {Item} */ (items[one]), one, ends);
    }
  }
}

/**
 * @param {readonly Item[]} items
 * @param {number} start
 * @param {number} stop
 * @param {number} from where the stretch begins
 * @returns {GroupRow}
 */
function groupOf(items, start, stop, from) {
  const first = /** @type {Item} */ (items[start]);
  let failed = 0;
  let active = 0;
  for (let place = start; place < stop; place += 1) {
    const item = items[place];
    if (item?.type !== "call") continue;
    if (FAILED.has(item.call.state)) failed += 1;
    if (ACTIVE.has(item.call.state)) active += 1;
  }
  return {
    key: `group:${first.key}`,
    kind: "group",
    first: start - from + 1,
    last: stop - from,
    opened: false,
    failed,
    active,
    start,
    stop,
  };
}

/**
 * @param {Row[]} rows
 * @param {Item} item
 * @param {number} place
 * @param {ReadonlyMap<number, Cycle>} ends
 */
function putItem(rows, item, place, ends) {
  rows.push({ key: item.key, kind: "item", item });
  putEnd(rows, item, place, ends);
}

/**
 * @param {Row[]} rows
 * @param {Item} item
 * @param {number} place
 * @param {ReadonlyMap<number, Cycle>} ends
 */
function putEnd(rows, item, place, ends) {
  const cycle = ends.get(place);
  if (cycle !== undefined) rows.push({ key: `end:${cycle.key}`, kind: "cycle", cycle, end: item });
}

/**
 * Behind which places a cycle ended.
 * @param {readonly Item[]} items
 * @param {readonly Cycle[]} cycles
 * @returns {Map<number, Cycle>}
 */
function endsOf(items, cycles) {
  /** @type {Map<string, Cycle>} */
  const ended = new Map();
  for (const cycle of cycles) if (cycle.outcome !== null) ended.set(cycle.key, cycle);
  /** @type {Map<number, Cycle>} */
  const ends = new Map();
  for (let place = items.length - 1; place >= 0 && ended.size > 0; place -= 1) {
    const key = items[place]?.cycle ?? null;
    const cycle = key === null ? undefined : ended.get(key);
    if (cycle === undefined) continue;
    ends.set(place, cycle);
    ended.delete(cycle.key);
  }
  return ends;
}

/**
 * The key of the row that shows an item: its own, or its group's where that is closed.
 * @param {readonly Row[]} rows
 * @param {readonly Item[]} items
 * @param {number} place of the item
 * @returns {string | null} null: no row does
 */
export function rowKeyOf(rows, items, place) {
  const key = items[place]?.key;
  let group = null;
  for (const row of rows) {
    if (row.key === key) return row.key;
    if (row.kind === "group" && row.start <= place && place < row.stop) group = row.key;
  }
  return group;
}

/**
 * The next row that begins a cycle: the words of a person that are no steer.
 * @param {readonly Row[]} rows
 * @param {number} from the place of the current row; -1 for none
 * @param {1 | -1} step
 * @returns {number} its place; -1 where there is none
 */
export function cycleRow(rows, from, step) {
  const begin = from < 0 ? (step > 0 ? 0 : rows.length - 1) : from + step;
  for (let place = begin; place >= 0 && place < rows.length; place += step) {
    const row = rows[place];
    if (row?.kind === "item" && row.item.type === "prompt" && row.item.origin === "prompt") return place;
  }
  return -1;
}

/**
 * The first row that waits for a person.
 * @param {readonly Row[]} rows
 * @returns {number} its place; -1 where nothing waits
 */
export function waitingRow(rows) {
  return rows.findIndex((row) => row.kind === "item" && row.item.type === "decision" && row.item.state === "open");
}

/**
 * All places where a text occurs, upper and lower case alike: as it was written, or as it is drawn, without the signs of Markdown and on one line.
 * @param {readonly Item[]} items
 * @param {string} sought
 * @param {(item: Item) => string} textOf
 * @param {number} most
 * @returns {number[]} places of items, in order
 */
export function find(items, sought, textOf, most = 1_000) {
  const wanted = sought.trim().toLowerCase();
  const drawn = asDrawn(wanted);
  /** @type {number[]} */
  const found = [];
  if (wanted === "") return found;
  for (let place = 0; place < items.length && found.length < most; place += 1) {
    const text = textOf(/** @type {Item} */ (items[place])).toLowerCase();
    if (text.includes(wanted) || (drawn !== "" && asDrawn(text).includes(drawn))) found.push(place);
  }
  return found;
}

/**
 * A text about as it is seen: signs of Markdown and targets of links are left out, and a line end is a space.
 * @param {string} text
 */
function asDrawn(text) {
  return text
    .replace(/\]\([^()\s]*\)|[*_`~#>|[\]\\]+/g, "")
    .replace(/\s+/g, " ")
    .trim();
}

/**
 * What of an item a search looks at, and a copy takes.
 * @param {Item} item
 * @returns {string}
 */
export function wordsOf(item) {
  switch (item.type) {
    case "prompt":
      return (item.content ?? []).map((block) => block.text ?? block.path ?? block.name ?? "").join("\n");
    case "answer":
      return item.thinking === "" ? item.text : `${item.text}\n${item.thinking}`;
    case "call":
      return wordsOfCall(item.call);
    case "decision":
      return `${item.asked.tool ?? item.asked.question ?? ""}\n${shortJson(item.asked.arguments)}\n${plainly(item.asked)}\n${plainly(item["answer"])}\n${item.reason ?? ""}`;
    case "notice":
      return `${item.event.kind}\n${shortJson(item.event)}`;
    case "gap":
      return "";
  }
}

/**
 * @param {Call} call
 * @returns {string}
 */
function wordsOfCall(call) {
  return `${call.name}\n${shortJson(call.arguments)}\n${plainly(call.arguments)}\n${call.result?.text ?? ""}\n${call.reason ?? ""}`;
}

/** How much of a value is searched: a result of megabytes would hold the page for each letter that is typed. */
const SEARCHED = 20_000;

/**
 * The texts in a value as they are shown: in JSON, quotes and line ends in them are escaped.
 * @param {unknown} value
 * @returns {string} at most as much as is searched
 */
function plainly(value) {
  /** @type {string[]} */
  const found = [];
  let left = SEARCHED;
  const waiting = [value];
  while (waiting.length > 0 && left > 0) {
    const one = waiting.pop();
    if (typeof one === "string") {
      found.push(one.slice(0, left));
      left -= one.length + 1;
    } else if (typeof one === "object" && one !== null) {
      // From the last on, so that the first one is taken next; a list of a million is no text.
      waiting.push(...Object.values(one).slice(0, 1_000).reverse());
      left -= 1;
    }
  }
  return found.join("\n");
}

/**
 * @param {unknown} value
 * @returns {string}
 */
function shortJson(value) {
  if (value === undefined || value === null) return "";
  try {
    return JSON.stringify(value).slice(0, SEARCHED);
  } catch {
    return "";
  }
}

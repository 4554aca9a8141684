// Where an item of a conversation ends, in numbers of events: a fork at a message has all of it, and nothing of what was said next. Pure.

/**
 * The number of the last event of an item: in front of the next one of its cycle, or the end of that cycle.
 * @param {import("./view.js").View} view
 * @param {{ seq: number, cycle: string | null }} item
 * @returns {number}
 */
export function lastSeqOf(view, item) {
  const next = view.items.find((one) => one.seq > item.seq);
  if (next === undefined) return view.seq;
  // The prompt of the next cycle stands by the number of its beginning, and came before that.
  const cycle = next.cycle === item.cycle ? undefined : view.cycles.find((one) => one.key === item.cycle);
  return cycle?.to_seq ?? next.seq - 1;
}

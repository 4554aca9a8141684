// Which rows of a long list exist: those in its window, and some around it, a few more in each frame. Pure: it knows numbers of rows, and no heights.

/** @typedef {{ first: number, last: number }} Rows both counted; none where `last` is in front of `first` */

/** How many rows out of sight are made in one frame, on either side. */
const OUT_OF_SIGHT = 4;

/**
 * Which rows are to exist next, of those that do: first those in the window, then those around it.
 * @param {Rows} now
 * @param {Rows} wanted
 * @param {Rows} seen
 * @param {number} left how many may be made in this frame
 * @returns {{ rows: Rows, left: number }} with how many may be made behind that
 */
export function rowsNow(now, wanted, seen, left) {
  const isElsewhere = now.first > seen.last || now.last < seen.first;
  let { first, last } = isElsewhere ? { first: seen.first, last: seen.first - 1 } : now;
  const make = (/** @type {number} */ missing, /** @type {number} */ most) => {
    const made = Math.max(0, Math.min(missing, most, left));
    left -= made;
    return made;
  };
  last += make(seen.last - last, left);
  first -= make(first - seen.first, left);
  if (last >= seen.last && first <= seen.first) {
    last += make(wanted.last - last, OUT_OF_SIGHT);
    first -= make(first - wanted.first, OUT_OF_SIGHT);
  }
  return { rows: { first: Math.max(first, wanted.first), last: Math.min(last, wanted.last) }, left };
}

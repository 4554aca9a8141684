/**
 * How high the rows of a long list are, and where each begins: a Fenwick tree, so that a list of a hundred thousand rows takes a
 * measurement, and finds the row at a place, in some seventeen steps.
 *
 * Pure: it is told what was measured. Rows that were not measured yet count as an estimate. All numbers are CSS pixels.
 */

export class Heights {
  /** @param {number} estimate of a row that was not measured yet, above 0 */
  constructor(estimate) {
    this.estimate = Math.max(1, estimate);
    this.count = 0;
    /** @type {Float64Array} */
    this.heights = new Float64Array(64);
    /** @type {Float64Array} sums of stretches, from 1 on */
    this.tree = new Float64Array(65);
  }

  /** All rows together. */
  get total() {
    return this.top(this.count);
  }

  /**
   * Say how many rows there are. Those that are new stand at the end, with the estimate, or with what is known of them.
   * @param {number} count
   * @param {(row: number) => number | undefined} [known] the height of a row, where it was measured before
   */
  resize(count, known = () => undefined) {
    if (count < this.count) {
      this.count = count;
      this.rebuild();
      return;
    }
    if (count === this.count) return;
    const many = count - this.count;
    this.reserve(count);
    const first = this.count;
    for (let row = first; row < count; row += 1) this.heights[row] = safe(known(row), this.estimate);
    this.count = count;
    // A few rows at the end are added one by one; many are summed at once.
    if (many * 8 > count) this.rebuild();
    else for (let row = first; row < count; row += 1) this.append(row);
  }

  /**
   * Rows came in front; those that were there move down.
   * @param {number} many
   * @param {(row: number) => number | undefined} [known] the height of a new row
   */
  prepend(many, known = () => undefined) {
    if (many <= 0) return;
    const count = this.count + many;
    this.reserve(count);
    this.heights.copyWithin(many, 0, this.count);
    for (let row = 0; row < many; row += 1) this.heights[row] = safe(known(row), this.estimate);
    this.count = count;
    this.rebuild();
  }

  /**
   * A row was measured.
   * @param {number} row
   * @param {number} height
   * @returns {number} by how much it changed
   */
  set(row, height) {
    if (row < 0 || row >= this.count) return 0;
    const next = safe(height, this.estimate);
    const change = next - /** @type {number} */ (this.heights[row]);
    if (change === 0) return 0;
    this.heights[row] = next;
    for (let at = row + 1; at <= this.count; at += at & -at)
      this.tree[at] = /** @type {number} */ (this.tree[at]) + change;
    return change;
  }

  /**
   * @param {number} row
   * @returns {number} its height; 0 of a row that there is not
   */
  height(row) {
    return row >= 0 && row < this.count ? /** @type {number} */ (this.heights[row]) : 0;
  }

  /**
   * Where a row begins.
   * @param {number} row from 0 to `count`, whose top is the end
   * @returns {number}
   */
  top(row) {
    let sum = 0;
    for (let at = Math.min(Math.max(row, 0), this.count); at > 0; at -= at & -at)
      sum += /** @type {number} */ (this.tree[at]);
    return sum;
  }

  /**
   * The row at a place.
   * @param {number} place from the top; above the first it is the first, below the last the last
   * @returns {number} -1 of an empty list
   */
  rowAt(place) {
    if (this.count === 0) return -1;
    let at = 0;
    let left = place;
    for (let stretch = highestBit(this.count); stretch > 0; stretch >>= 1) {
      const next = at + stretch;
      if (next <= this.count && /** @type {number} */ (this.tree[next]) <= left) {
        at = next;
        left -= /** @type {number} */ (this.tree[next]);
      }
    }
    return Math.min(at, this.count - 1);
  }

  /** @param {number} count */
  reserve(count) {
    if (count <= this.heights.length) return;
    const size = Math.max(count, this.heights.length * 2);
    const heights = new Float64Array(size);
    heights.set(this.heights.subarray(0, this.count));
    this.heights = heights;
    const tree = new Float64Array(size + 1);
    tree.set(this.tree.subarray(0, this.count + 1));
    this.tree = tree;
  }

  /** @param {number} row the last one */
  append(row) {
    const at = row + 1;
    let sum = /** @type {number} */ (this.heights[row]);
    for (let part = 1; part < (at & -at); part <<= 1) sum += /** @type {number} */ (this.tree[at - part]);
    this.tree[at] = sum;
  }

  rebuild() {
    this.tree.fill(0);
    for (let row = 0; row < this.count; row += 1) this.append(row);
  }
}

/**
 * @param {number | undefined} height
 * @param {number} estimate
 */
function safe(height, estimate) {
  return height !== undefined && Number.isFinite(height) && height >= 0 ? height : estimate;
}

/** @param {number} count */
function highestBit(count) {
  return count < 1 ? 0 : 1 << (31 - Math.clz32(count));
}

/** Numbers that are the same in each run. */

/**
 * @param {number} seed
 * @returns {(below: number) => number} a whole number from 0 on
 */
export function randomOf(seed) {
  let state = seed >>> 0 || 1;
  return (below) => {
    // xorshift32
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return below < 1 ? 0 : state % below;
  };
}

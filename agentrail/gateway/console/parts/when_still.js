// Whether a person scrolls now: rows that come meanwhile wait until they have stopped, so that a list neither moves under the finger nor stutters. What is
// drawn is no matter of this.

/** How long after the last scrolled pixel a list is at rest, and how long at most it is not drawn anew because of that. */
const REST_MS = 120;
const MOST_MS = 1_000;

let scrolledAt = Number.NEGATIVE_INFINITY;

/** Says that a person has scrolled a list. */
export function noteScrolled() {
  scrolledAt = performance.now();
}

/**
 * Does something in the next frame in which no list is scrolled, within a second in any case.
 * @param {() => void} run
 * @returns {() => void} takes it back
 */
export function whenStill(run) {
  // A page that is not seen has no frames, and its title is to say what waits all the same.
  if (document.hidden) {
    const timer = setTimeout(run);
    return () => clearTimeout(timer);
  }
  const asked = performance.now();
  let frame = requestAnimationFrame(look);
  return () => cancelAnimationFrame(frame);

  function look() {
    const now = performance.now();
    if (now - scrolledAt < REST_MS && now - asked < MOST_MS) frame = requestAnimationFrame(look);
    else run();
  }
}

// Asks for something that is wanted over and over, such as the state behind a slider: a moment after the last wish, one request at a time, and only the
// answer to the last wish is told. Pure of the DOM; its clock is given to it.

/**
 * @template T, R
 * @typedef {object} LastWinsParts
 * @property {(wanted: T) => Promise<R>} ask
 * @property {(wanted: T, answer: R) => void} tell Of the last wish alone.
 * @property {(wanted: T, error: unknown) => void} fail As `tell`.
 * @property {number} [waitMs] How long nothing else may have been wanted; 120.
 * @property {{ setTimeout: (run: () => void, ms: number) => any, clearTimeout: (timer: any) => void }} [timers]
 */

export const WAIT_MS = 120;

/** @template T, R */
export class LastWins {
  /** @param {LastWinsParts<T, R>} parts */
  constructor({ ask, tell, fail, waitMs = WAIT_MS, timers }) {
    this._ask = ask;
    this._tell = tell;
    this._fail = fail;
    this._waitMs = waitMs;
    // A browser's own functions want to be called on `window`.
    this._timers = timers ?? {
      setTimeout: (/** @type {() => void} */ run, /** @type {number} */ ms) => setTimeout(run, ms),
      clearTimeout: (/** @type {any} */ timer) => clearTimeout(timer),
    };
    /** @type {{ value: T } | null} The last wish that has no answer yet. */
    this._wanted = null;
    /** @type {any} */
    this._timer = null;
    this._isDue = false;
    this._isAsking = false;
  }

  /**
   * Wants something else. What is under way goes on, and its answer is not told.
   * @param {T} value
   * @param {{ now?: boolean }} [options] Whether without waiting for further wishes.
   */
  want(value, { now = false } = {}) {
    this._wanted = { value };
    this._isDue = now;
    this._timers.clearTimeout(this._timer);
    if (now) {
      this._go();
      return;
    }
    this._timer = this._timers.setTimeout(() => {
      this._isDue = true;
      this._go();
    }, this._waitMs);
  }

  /** Wants nothing any more; no answer is told. */
  stop() {
    this._timers.clearTimeout(this._timer);
    this._wanted = null;
    this._isDue = false;
  }

  _go() {
    const wanted = this._wanted;
    if (this._isAsking || !this._isDue || wanted === null) return;
    this._isAsking = true;
    this._isDue = false;
    const over = () => {
      this._isAsking = false;
      if (this._wanted === wanted) {
        this._wanted = null;
        return true;
      }
      this._go();
      return false;
    };
    this._ask(wanted.value).then(
      (answer) => over() && this._tell(wanted.value, answer),
      (error) => over() && this._fail(wanted.value, error),
    );
  }
}

// A long list of which only the rows near the window exist: those in it at once, those around it a few in each frame. Rows are measured, not assumed; what is
// looked at stays where it is when rows above it change, and "stick to the end" ends with the first upward scroll. Knows nothing of what a row is.

import { Heights } from "../pure/heights.js";
import { rowsNow } from "../pure/window_rows.js";
import { Component, html } from "../ui.js";
import { noteScrolled } from "./when_still.js";

/** How far above and below the window rows exist, in pixels. */
const AROUND = 160;
/** How many rows are made in one frame: what is in sight of any usual window, so that a jump takes one frame and a few short ones. */
const ROWS_A_FRAME = 30;
/** From how far below its start on the list asks for more. */
const NEAR_START = 800;
const AT_END = 4;

/**
 * @template T
 * @typedef {object} WindowListProps
 * @property {readonly T[]} items
 * @property {(item: T) => string} keyOf The same for the same row whenever the list changes.
 * @property {(item: T, index: number) => any} draw
 * @property {number} [estimate] Of the height of a row that was not measured yet; 32.
 * @property {string} [label]
 * @property {string} [role] Of the list: "feed", "list", "rowgroup"; none unless given.
 * @property {string} [rowRole] Of each row: "article", "listitem", "row".
 * @property {(item: T, index: number) => Record<string, any>} [rowProps] More attributes of a row.
 * @property {string} [class]
 * @property {boolean} [stickToEnd] Whether it begins at its end, and stays there until it is scrolled up.
 * @property {boolean} [stickToStart] Whether it stays at its start while it is there: what comes in front is seen, and moves nothing else away.
 * @property {() => void} [onNearStart] More could be had in front; called once for each first item.
 * @property {(isAtEnd: boolean) => void} [onEnd] Told when the end comes into sight or leaves it.
 * @property {(first: number, last: number) => void} [onVisible] Which rows are in the window.
 * @property {string | null} [keep] The key of a row that exists wherever it is, such as the active one.
 * @property {{ current: any }} [ref] Gets the list, for `scrollToEnd` and `scrollToKey`; Preact 11 gives it to components as any other property.
 * @property {number} [tabIndex] Of the list, 0: keys scroll it; -1 where its rows take focus.
 */

/**
 * @template T
 * @extends {Component<WindowListProps<T>, { first: number, last: number }>}
 */
export class WindowList extends Component {
  /** @param {WindowListProps<T>} props */
  constructor(props) {
    super(props);
    this.state = { first: 0, last: -1 };
    this.heights = new Heights(props.estimate ?? 32);
    /** @type {string[]} */
    this.keys = [];
    /** @type {Map<string, number>} Of each row that was ever measured, also of one that is away for now. */
    this.measured = new Map();
    /** @type {Map<string, number>} Of these those that are not as high as was estimated: in a list of like rows there are none, and none is looked for. */
    this.unusual = new Map();
    /** @type {Map<string, HTMLElement>} */
    this.rows = new Map();
    /** @type {HTMLElement | null} */
    this.box = null;
    /** @type {HTMLElement | null} */
    this.space = null;
    this.isStuck = props.stickToEnd ?? false;
    this.isAtEnd = true;
    this.ownTop = 0;
    /** @type {string | null} For which first row more was asked for. */
    this.askedAt = null;
    /** @type {string | null} */
    this.focused = null;
    /** @type {ResizeObserver | null} */
    this.observer = null;
    /** @type {Map<string, { index: number, node: any }>} Rows as they were drawn last, of the properties that the list has now. */
    this.drawn = new Map();
    /** @type {WindowListProps<T> | null} */
    this.drawnFor = null;
    /** How many rows may be made before the next frame, and that frame; 0 where none is asked for. */
    this.left = ROWS_A_FRAME;
    this.frame = 0;
    this.goOn = this.goOn.bind(this);
    /** @type {(() => void) | null} */
    this.endWithout = null;
    this.scrolled = this.scrolled.bind(this);
    this.resized = this.resized.bind(this);
    this.takeRow = this.takeRow.bind(this);
    this.take(props.items);
  }

  // --- what others ask of it

  /** Goes to the end, and stays there. */
  scrollToEnd() {
    this.isStuck = this.props.stickToEnd ?? false;
    this.moveTo(this.heights.total);
    this.look();
  }

  /**
   * Brings a row into the window.
   * @param {string} key
   * @param {"start" | "nearest"} [where]
   * @returns {boolean} Whether there is such a row.
   */
  scrollToKey(key, where = "nearest") {
    const index = this.keys.indexOf(key);
    if (index < 0 || this.box === null) return false;
    const top = this.heights.top(index);
    const height = this.heights.height(index);
    const { scrollTop, clientHeight } = this.box;
    if (where === "start" || top < scrollTop) this.moveTo(top);
    else if (top + height > scrollTop + clientHeight) this.moveTo(Math.min(top, top + height - clientHeight));
    this.isStuck = this.isStuck && this.endIsSeen();
    this.look();
    return true;
  }

  // --- its life

  componentDidMount() {
    this.tellOwner(this);
    if (typeof ResizeObserver === "function") {
      this.observer = new ResizeObserver(this.resized);
      if (this.box !== null) this.observer.observe(this.box);
      for (const row of this.rows.values()) this.observer.observe(row);
    } else this.watchWithout();
    this.settle();
    this.look();
  }

  /**
   * Gives itself to who asked by `ref`: Preact 11 hands the `ref` of a class on as a property like any other.
   * @param {WindowList<T> | null} itself
   */
  tellOwner(itself) {
    const ref = /** @type {any} */ (this.props).ref;
    if (typeof ref === "function") ref(itself);
    else if (ref) ref.current = itself;
  }

  /** @param {WindowListProps<T>} next */
  componentWillReceiveProps(next) {
    if (next.items !== this.props.items) this.take(next.items);
  }

  componentDidUpdate() {
    this.settle();
    this.look();
  }

  componentWillUnmount() {
    this.tellOwner(null);
    cancelAnimationFrame(this.frame);
    this.observer?.disconnect();
    this.endWithout?.();
  }

  /** Where a browser has no observer of sizes, all rows that exist are measured whenever something in them, or the window, changes: they are few. */
  watchWithout() {
    const { box, space } = this;
    if (box === null || space === null) return;
    const again = () => this.resized([box, ...this.rows.values()].map((target) => ({ target })));
    const changes = new MutationObserver(again);
    changes.observe(space, { subtree: true, childList: true, characterData: true });
    window.addEventListener("resize", again);
    this.endWithout = () => {
      changes.disconnect();
      window.removeEventListener("resize", again);
    };
  }

  // --- rows

  /**
   * Takes the items over: rows that came at either end move nothing else; anything else is measured by what is known of its key.
   * @param {readonly T[]} items
   */
  take(items) {
    const { keyOf } = this.props;
    const keys = items.map(keyOf);
    const before = this.keys;
    this.anchor = this.anchorNow();
    const known = (/** @type {number} */ row) => this.unusual.get(keys[row] ?? "");
    let same = 0;
    while (same < before.length && before[same] === keys[same]) same += 1;
    const more = keys.length - before.length;
    if (same === before.length) {
      this.heights.resize(keys.length, known);
    } else if (more > 0 && before.every((key, index) => key === keys[index + more])) {
      this.heights.prepend(more, known);
    } else {
      this.heights = new Heights(this.heights.estimate);
      this.heights.resize(keys.length, this.unusual.size > 0 ? known : undefined);
    }
    this.keys = keys;
  }

  /** The first row of the window, and how far above its edge it begins. */
  anchorNow() {
    if (this.box === null || this.keys.length === 0) return null;
    const top = this.box.scrollTop;
    if (this.props.stickToStart && top < 1) return null;
    const index = this.heights.rowAt(top);
    return { key: this.keys[index] ?? "", below: this.heights.top(index) - top };
  }

  /** Measures what is new, and puts everything where it belongs, before any of it is painted. */
  settle() {
    this.anchor ??= this.anchorNow();
    for (const [key, row] of this.rows) {
      if (!this.measured.has(key)) this.measure(key, row.offsetHeight);
    }
    this.place();
  }

  /**
   * @param {string} key
   * @param {number} height
   */
  measure(key, height) {
    if (this.measured.get(key) === height) return false;
    this.measured.set(key, height);
    if (height === this.heights.estimate) this.unusual.delete(key);
    else this.unusual.set(key, height);
    const index = Number(this.rows.get(key)?.dataset.index ?? -1);
    if (this.keys[index] !== key) return false;
    return this.heights.set(index, height) !== 0;
  }

  place() {
    const { anchor } = this;
    this.anchor = null; // of this moment: kept, it would take the list back to where it once was
    if (this.space === null) return;
    // A person may have scrolled since, and the event of that may still be on its way: what is drawn now must not take them back.
    if (this.isStuck && this.isScrolledUp()) this.isStuck = false;
    this.space.style.height = `${this.heights.total}px`;
    for (const row of this.rows.values()) row.style.top = `${this.heights.top(Number(row.dataset.index))}px`;
    if (this.isStuck) {
      this.moveTo(this.heights.total);
      return;
    }
    if (!anchor) return;
    const index = this.keys.indexOf(anchor.key);
    if (index >= 0) this.moveTo(this.heights.top(index) - anchor.below);
  }

  /** @param {number} top */
  moveTo(top) {
    if (this.box === null) return;
    const most = Math.max(0, this.heights.total - this.box.clientHeight);
    const wanted = Math.round(Math.min(Math.max(top, 0), most));
    if (Math.abs(this.box.scrollTop - wanted) >= 1) this.box.scrollTop = wanted;
    this.ownTop = this.box.scrollTop;
  }

  /** @param {readonly { target: Element }[]} entries */
  resized(entries) {
    const anchor = this.anchorNow();
    let isOther = false;
    for (const { target } of entries) {
      if (target === this.box) isOther = true;
      else if (target instanceof HTMLElement && target.isConnected) {
        isOther = this.measure(target.dataset.key ?? "", target.offsetHeight) || isOther;
      }
    }
    if (!isOther) return;
    this.anchor = anchor;
    this.place();
    this.look();
  }

  /** @param {HTMLElement | null} row */
  takeRow(row) {
    if (row !== null) {
      this.rows.set(row.dataset.key ?? "", row);
      this.observer?.observe(row);
      return;
    }
    for (const [key, one] of this.rows) {
      if (one.isConnected) continue;
      this.rows.delete(key);
      this.observer?.unobserve(one);
    }
  }

  // --- the window

  scrolled() {
    if (this.box === null) return;
    const top = this.box.scrollTop;
    if (Math.abs(top - this.ownTop) >= 1) noteScrolled();
    if (this.isScrolledUp()) this.isStuck = false;
    else if (this.props.stickToEnd && this.endIsSeen()) this.isStuck = true;
    this.ownTop = top;
    this.look();
  }

  /** Whether the list stands higher than where it was put, and that is not because it has become shorter or its window higher. */
  isScrolledUp() {
    const { box } = this;
    return (
      box !== null && box.scrollTop < this.ownTop - 1 && box.scrollTop + box.clientHeight < box.scrollHeight - AT_END
    );
  }

  endIsSeen() {
    return this.box !== null && this.box.scrollTop + this.box.clientHeight >= this.heights.total - AT_END;
  }

  /** Finds out which rows are near the window, and draws anew if they are others. */
  look() {
    if (this.box === null) return;
    const { scrollTop, clientHeight } = this.box;
    const seen = this.rowsBetween(scrollTop, scrollTop + clientHeight - 1);
    this.reach(this.rowsBetween(scrollTop - AROUND, scrollTop + clientHeight + AROUND), seen);
    if (this.keys.length > 0) this.props.onVisible?.(seen.first, seen.last);
    const isAtEnd = this.endIsSeen();
    if (isAtEnd !== this.isAtEnd) {
      this.isAtEnd = isAtEnd;
      this.props.onEnd?.(isAtEnd);
    }
    const start = this.keys[0] ?? null;
    if (scrollTop < NEAR_START && start !== null && start !== this.askedAt && clientHeight > 0) {
      this.askedAt = start;
      this.props.onNearStart?.();
    }
  }

  /**
   * @param {number} top
   * @param {number} bottom
   * @returns {import("../pure/window_rows.js").Rows}
   */
  rowsBetween(top, bottom) {
    if (this.keys.length === 0) return { first: 0, last: -1 };
    return { first: this.heights.rowAt(top), last: this.heights.rowAt(bottom) };
  }

  /**
   * Draws what is in the window, and then what is around it, as many rows as one frame makes; the next frame goes on.
   * @param {import("../pure/window_rows.js").Rows} wanted
   * @param {import("../pure/window_rows.js").Rows} seen
   */
  reach(wanted, seen) {
    const { rows, left } = rowsNow(this.state, wanted, seen, this.left);
    this.left = left;
    const isWhole = rows.first === wanted.first && rows.last === wanted.last;
    if (this.frame === 0 && (!isWhole || left < ROWS_A_FRAME)) this.frame = requestAnimationFrame(this.goOn);
    if (rows.first !== this.state.first || rows.last !== this.state.last) this.setState(rows);
  }

  goOn() {
    this.frame = 0;
    this.left = ROWS_A_FRAME;
    this.look();
  }

  /** @returns {number[]} */
  shown() {
    const last = Math.min(this.state.last, this.keys.length - 1);
    const found = [];
    for (let index = Math.min(this.state.first, last + 1); index <= last; index += 1) found.push(index);
    for (const key of [this.focused, this.props.keep ?? null]) {
      const index = key === null ? -1 : this.keys.indexOf(key);
      // It has the focus, or is spoken of: it may not vanish because the list is scrolled.
      if (index >= 0 && !found.includes(index)) found.push(index);
    }
    return found.sort((one, other) => one - other);
  }

  /** @param {FocusEvent} event */
  focusedIn(event) {
    const row = event.target instanceof Element ? event.target.closest("[data-key]") : null;
    this.focused = row instanceof HTMLElement ? (row.dataset.key ?? null) : null;
  }

  /**
   * A row, the same object as before where nothing but the place of the window is other: then it is not looked through again.
   * @param {number} index
   */
  row(index) {
    const { items, draw, rowRole, rowProps } = this.props;
    const item = items[index];
    const key = this.keys[index];
    if (item === undefined || key === undefined) return null;
    const known = this.drawn.get(key);
    if (known?.index === index) return known.node;
    const isCounted = rowRole === "article" || rowRole === "listitem";
    // It stands where it belongs from the first: to move it when it is measured would lay the page out twice in a frame.
    const given = rowProps?.(item, index) ?? {};
    const style = { ...given["style"], top: `${this.heights.top(index)}px` };
    const node = html`<div key=${key} class="window-row" data-key=${key} data-index=${index} role=${rowRole} ref=${this.takeRow}
      aria-posinset=${isCounted ? index + 1 : undefined} aria-setsize=${isCounted ? items.length : undefined}
      ...${given} style=${style}>${draw(item, index)}</div>`;
    this.drawn.set(key, { index, node });
    return node;
  }

  /** @returns {any[]} */
  drawnRows() {
    if (this.drawnFor !== this.props) this.drawn.clear();
    const shown = this.shown();
    const rows = shown.map((index) => this.row(index));
    const kept = new Set(shown.map((index) => this.keys[index]));
    for (const key of this.drawn.keys()) if (!kept.has(key)) this.drawn.delete(key);
    this.drawnFor = this.props;
    return rows;
  }

  render() {
    const { label, role } = this.props;
    return html`<div class=${`window-list ${this.props.class ?? ""}`} role=${role} aria-label=${label} tabindex=${this.props.tabIndex ?? 0}
      ref=${(/** @type {HTMLElement | null} */ box) => {
        this.box = box;
      }} onScroll=${this.scrolled} onFocusIn=${(/** @type {FocusEvent} */ event) => this.focusedIn(event)}>
      <div class="window-space" role="presentation" ref=${(/** @type {HTMLElement | null} */ space) => {
        this.space = space;
      }}>${this.drawnRows()}</div>
    </div>`;
  }
}

// A tree, or a plain table, of which only the rows near the window exist: `role=treegrid` or `grid`, keys of the ARIA pattern, sorting by its columns. What
// stands in a cell is drawn by its owner; which rows there are too, mostly by `pure/tree_rows.js`.

import { afterKey } from "../pure/tree_keys.js";
import { text } from "../text/en.js";
import { Component, html, useEffect, useId, useRef, useState } from "../ui.js";
import { WindowList } from "./window_list.js";

/**
 * @typedef {object} Column
 * @property {string} key
 * @property {string} label
 * @property {string} [width] Of CSS grid, such as "minmax(12ch, 2fr)" or "9ch"; "1fr" unless given.
 * @property {boolean} [isNumber] Aligned at its end, in figures of one width.
 * @property {boolean} [isSortable]
 * @property {string} [class]
 */

/**
 * @template T
 * @typedef {object} TreeGridProps
 * @property {string} label
 * @property {readonly Column[]} columns The first one is indented by the level.
 * @property {readonly import("../pure/tree_rows.js").TreeRow<T>[]} rows
 * @property {(row: import("../pure/tree_rows.js").TreeRow<T>, column: Column) => any} draw
 * @property {(row: import("../pure/tree_rows.js").TreeRow<T>) => string} [rowClass]
 * @property {(key: string, isOpen: boolean) => void} [onToggle] Without it nothing is folded.
 * @property {(row: import("../pure/tree_rows.js").TreeRow<T>) => void} [onSelect] Enter, or a click.
 * @property {string | null} [selected]
 * @property {{ key: string, isDescending: boolean } | null} [sort]
 * @property {(sort: { key: string, isDescending: boolean }) => void} [onSort]
 * @property {boolean} [isFlat] A table without levels: `role=grid`.
 * @property {number} [estimate]
 */

/**
 * @template T
 * @param {TreeGridProps<T>} props
 */
export function TreeGrid(props) {
  const {
    label,
    columns,
    rows,
    draw,
    onToggle,
    onSelect,
    selected = null,
    sort = null,
    onSort,
    isFlat = false,
  } = props;
  const [activeKey, drawActive] = useState(/** @type {string | null} */ (null));
  const latest = useRef(activeKey); // two keys may be pressed before anything is drawn
  const setActive = (/** @type {string | null} */ key) => {
    latest.current = key;
    drawActive(key);
  };
  /** @type {{ current: WindowList<import("../pure/tree_rows.js").TreeRow<T>> | null }} */
  const list = useRef(null);
  const id = useId();
  const placeOf = (/** @type {string | null} */ key) =>
    Math.max(
      0,
      rows.findIndex((row) => row.key === (key ?? selected)),
    );
  const at = placeOf(activeKey);
  const active = rows[at] ?? null;
  const template = { gridTemplateColumns: columns.map((one) => one.width ?? "1fr").join(" ") };
  useEffect(() => {
    if (activeKey !== null) list.current?.scrollToKey(activeKey);
  }, [activeKey]);
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    if (event.target !== event.currentTarget || active === null) return; // a button inside of a cell has its own keys
    const from = placeOf(latest.current);
    const row = rows[from] ?? active;
    const wanted = afterKey(event.key, rows, from, onToggle !== undefined);
    if (wanted === null) {
      if (event.key !== "Enter" || onSelect === undefined) return;
      onSelect(row);
    } else if (typeof wanted === "number") setActive(rows[wanted]?.key ?? null);
    else onToggle?.(row.key, wanted.isOpen);
    event.preventDefault();
  };
  const rowId = (/** @type {number} */ index) => `${id}-${index}`;
  return html`<div class="tree-grid" role=${isFlat ? "grid" : "treegrid"} aria-label=${label} aria-rowcount=${rows.length + 1} aria-colcount=${columns.length}
    tabindex="0" aria-activedescendant=${active ? rowId(at) : undefined} onKeyDown=${pressed}>
    <div role="rowgroup" class="tree-head"><div role="row" aria-rowindex="1" class="tree-row" style=${template}>
      ${columns.map((column) => html`<${Head} key=${column.key} column=${column} sort=${sort} onSort=${onSort} />`)}
    </div></div>
    <${WindowList} ref=${list} role="rowgroup" rowRole="row" class="tree-body" items=${rows} estimate=${props.estimate ?? 32} tabIndex=${-1}
      keyOf=${keyOfRow} keep=${active?.key ?? null}
      rowProps=${(/** @type {any} */ row, /** @type {number} */ index) => ({
        id: rowId(index),
        class: `window-row tree-row ${row.key === active?.key ? "active" : ""} ${props.rowClass?.(row) ?? ""}`,
        style: template,
        "aria-rowindex": index + 2,
        "aria-selected": onSelect ? row.key === selected : undefined,
        ...(isFlat
          ? {}
          : {
              "aria-level": row.level,
              "aria-posinset": row.place,
              "aria-setsize": row.siblings,
              "aria-expanded": row.isOpen === null || !onToggle ? undefined : row.isOpen,
            }),
        onClick: () => {
          setActive(row.key);
          onSelect?.(row);
        },
      })}
      draw=${(/** @type {any} */ row) => html`<${Cells} row=${row} columns=${columns} draw=${draw} isFlat=${isFlat} onToggle=${onToggle} />`} />
  </div>`;
}

/**
 * The cells of a row. They are drawn again when what they show is another object, and not because the list is scrolled; `draw` and `columns` are the same
 * ones then, and what goes on with time alone looks after itself.
 * @extends {Component<{ row: import("../pure/tree_rows.js").TreeRow<any>, columns: readonly Column[], draw: any, isFlat: boolean, onToggle: any }, {}>}
 */
class Cells extends Component {
  /** @param {any} next */
  shouldComponentUpdate(next) {
    const { row, columns, draw } = this.props;
    return (
      next.row.value !== row.value ||
      next.row.isOpen !== row.isOpen ||
      next.row.level !== row.level ||
      next.columns !== columns ||
      next.draw !== draw
    );
  }

  render() {
    const { row, columns, draw, isFlat, onToggle } = this.props;
    return columns.map(
      (column, index) => html`<div key=${column.key} role="gridcell" class=${classOf(column)}>
        ${index === 0 && !isFlat ? html`<${Indent} row=${row} onToggle=${onToggle} />` : null}${draw(row, column)}
      </div>`,
    );
  }
}

/** @param {{ key: string }} row */
const keyOfRow = (row) => row.key;

/** @param {Column} column */
const classOf = (column) => `tree-cell ${column.isNumber ? "number" : ""} ${column.class ?? ""}`;

/**
 * @param {{ row: import("../pure/tree_rows.js").TreeRow<any>, onToggle: ((key: string, isOpen: boolean) => void) | undefined }} props
 */
function Indent({ row, onToggle }) {
  const toggle = (/** @type {Event} */ event) => {
    event.stopPropagation();
    onToggle?.(row.key, !row.isOpen);
  };
  return html`<span class="tree-indent" style=${{ width: `${(row.level - 1) * 16}px` }}></span>
    ${
      row.isOpen === null || !onToggle
        ? html`<span class="tree-fold"></span>`
        : html`<button type="button" class="tree-fold" tabindex="-1" aria-label=${row.isOpen ? text.shell.list.collapse : text.shell.list.expand} onClick=${toggle}>
          <span aria-hidden="true">${row.isOpen ? "▾" : "▸"}</span>
        </button>`
    }`;
}

/**
 * @param {{ column: Column, sort: { key: string, isDescending: boolean } | null, onSort: ((sort: { key: string, isDescending: boolean }) => void) | undefined }} props
 */
function Head({ column, sort, onSort }) {
  const isSorted = sort?.key === column.key;
  const order = !isSorted ? "none" : sort.isDescending ? "descending" : "ascending";
  if (!column.isSortable || !onSort) {
    return html`<div role="columnheader" class=${classOf(column)}>${column.label}</div>`;
  }
  // Numbers are looked at from the largest on.
  const next = { key: column.key, isDescending: isSorted ? !sort.isDescending : Boolean(column.isNumber) };
  return html`<div role="columnheader" class=${classOf(column)} aria-sort=${order}>
    <button type="button" class="tree-sort" onClick=${() => onSort(next)}>${column.label}<span aria-hidden="true">${
      isSorted ? (sort.isDescending ? " ▾" : " ▴") : ""
    }</span></button>
  </div>`;
}

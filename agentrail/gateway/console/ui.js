// The one door to what draws: Preact, its hooks, and `html`, which is htm bound to `h`. Nothing of ours may enter but that binding.

import htm from "./vendor/htm.js";
import { h } from "./vendor/preact.js";

export {
  useCallback,
  useContext,
  useEffect,
  useErrorBoundary,
  useId,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
} from "./vendor/hooks.js";
export { Component, createContext, createRef, Fragment, h, render } from "./vendor/preact.js";

/**
 * Makes nodes of a template: html`<p class="dim">${text}</p>`. Text in it becomes text, whatever it holds.
 * @type {(strings: TemplateStringsArray, ...values: any[]) => import("./vendor/preact.js").VNode<any>}
 */
export const html = /** @type {any} */ (htm.bind(h));

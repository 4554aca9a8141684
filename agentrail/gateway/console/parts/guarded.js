// An edge around what is drawn: an exception in a component shows "could not be drawn" and the JSON of what it was to show; the page goes on.

import { text } from "../text/en.js";
import { Component, html } from "../ui.js";
import { counters } from "../wire/counters.js";
import { Icon } from "./icon.js";

const MOST_CHARACTERS = 20_000;

/**
 * @typedef {object} GuardedProps
 * @property {unknown} [value] What is drawn; shown as JSON if that fails.
 * @property {any} [children]
 */

/** @extends {Component<GuardedProps, { error: Error | null, of: unknown }>} */
export class Guarded extends Component {
  /** @param {GuardedProps} props */
  constructor(props) {
    super(props);
    this.state = { error: null, of: undefined };
  }

  /** @param {Error} error */
  componentDidCatch(error) {
    counters.drawing_failures += 1;
    console.error(error);
    this.setState({ error, of: this.props.value });
  }

  render() {
    const { error, of } = this.state;
    // Another value is tried anew.
    if (error === null || of !== this.props.value) return this.props.children;
    return html`<div class="not-drawn" role="group" aria-label=${text.shell.couldNotBeDrawn}>
      <p class="bad"><${Icon} name="warn" /> ${text.shell.couldNotBeDrawn}</p>
      <p class="dim">${text.shell.couldNotBeDrawnHint}</p>
      <pre tabindex="0">${shown(this.props.value)}</pre>
    </div>`;
  }
}

/** @param {unknown} value */
function shown(value) {
  try {
    return (JSON.stringify(value, null, 2) ?? "").slice(0, MOST_CHARACTERS);
  } catch {
    return "";
  }
}

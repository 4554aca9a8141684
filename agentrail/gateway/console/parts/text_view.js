// How texts that came from outside are drawn: Markdown, output, JSON, changes, and plain. The one door to these parts; 15.6 of the specification
// is kept behind it.

import { compactJson, prettyJson } from "../pure/pretty_json.js";
import { MOST_SHOWN, SHOWN } from "../pure/sizes.js";
import { text as words } from "../text/en.js";
import { html, useMemo } from "../ui.js";
import { Output } from "./output.js";

export { Diff } from "./diff_view.js";
export { Markdown } from "./markdown_view.js";
export { Download, Output } from "./output.js";
export { SafeText } from "./safe_text.js";

/**
 * A value as JSON.
 * @param {object} props
 * @param {unknown} [props.value]
 * @param {string} [props.source] its source text, which is shown in place of the value: numbers stay as they were written
 * @param {boolean} [props.strict] as of `SafeText`
 * @param {string} [props.label]
 */
export function Json({ value, source, strict = false, label = words.parts.json }) {
  const { shown, whole } = useMemo(() => {
    const compact = source ?? compactJson(value);
    // What can only be saved is not indented to its end for that.
    const isLarge = compact.length > MOST_SHOWN;
    const shown = prettyJson(isLarge ? compact.slice(0, SHOWN) : compact);
    return { shown, whole: isLarge ? compact : shown };
  }, [value, source]);
  return html`<${Output} text=${shown} whole=${whole} mime="application/json" label=${label} file="value.json" strict=${strict} />`;
}

// Words of the console: shared parts that show texts, outputs and changes. Constants, and functions with numbers and plurals; nothing else may enter.

/** @param {string} size */
export const showMore = (size) => `Show ${size} more`;
/** @param {string} size */
export const download = (size) => `Download all (${size})`;
/** @param {string} size @param {string} shown */
export const tooLarge = (size, shown) => `${size}, of which the first ${shown} are shown.`;
/** @param {string} count */
export const lineCut = (count) => `Long lines are cut: ${count} characters are not shown.`;
export const showWholeLines = "Show whole lines";
export const showFormatted = "Show with formatting";
export const longBlock = "A long passage, shown without formatting.";
/** @param {number} count */
export const moreBlocks = (count) => (count === 1 ? "Show one more passage" : `Show ${count} more passages`);
export const output = "Output";
export const code = "Code";
/** @param {string} language */
export const codeIn = (language) => `Code: ${language}`;
export const json = "JSON";
export const hidden = "Invisible character";
/** @param {number} count */
export const manySpaces = (count) => `${count} spaces in a row`;
/** @param {string} count */
export const spacesMark = (count) => `${count} spaces`;
/** @param {string} path */
export const changesOf = (path) => `Changes of ${path}`;
export const changes = "Changes";
/** @param {number} added @param {number} removed */
export const changeCounts = (added, removed) => `+${added} −${removed}`;
export const noChanges = "No changes.";
export const notWhole = "The texts have little in common: everything is shown as changed.";
/** @param {number} count */
export const moreLines = (count) => (count === 1 ? "Show one more line" : `Show ${count} more lines`);
/** @param {string} address */
export const leadsTo = (address) => `Link to ${address}`;
export const tasks = { checked: "Done", unchecked: "Not done" };

// Addresses of pages: fragments such as `#/s/ID/journal?at=12`. Pure; knows no window and no page.

import { pathPart } from "./links.js";

/**
 * @typedef {object} Place
 * @property {string} path Of the fragment, such as `/s/ID`; `/` for nothing.
 * @property {Record<string, string>} query What stands behind its question mark.
 */

/**
 * Reads a fragment.
 * @param {string} hash With or without its `#`.
 * @returns {Place}
 */
export function placeOf(hash) {
  const text = hash.startsWith("#") ? hash.slice(1) : hash;
  const [path = "", query = ""] = splitOnce(text, "?");
  return { path: path.startsWith("/") ? path : "/", query: Object.fromEntries(new URLSearchParams(query)) };
}

/**
 * Says what the parts of a path are called by a pattern such as `/s/:id/journal`; null where it does not fit.
 * @param {string} pattern
 * @param {string} path
 * @returns {Record<string, string> | null}
 */
export function matchPath(pattern, path) {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return null;
  /** @type {Record<string, string>} */
  const params = {};
  for (const [index, part] of wanted.entries()) {
    const found = given[index] ?? "";
    if (part.startsWith(":")) {
      const value = decoded(found);
      if (!value) return null;
      params[part.slice(1)] = value;
    } else if (part !== found) {
      return null;
    }
  }
  return params;
}

/**
 * Writes an address: `hrefOf("/s/:id/journal", { id: "a b", at: 3 })` gives `#/s/a%20b/journal?at=3`.
 * @param {string} pattern
 * @param {Record<string, string | number | null | undefined>} [params] What the pattern names goes into the path, all else behind `?`.
 */
export function hrefOf(pattern, params = {}) {
  const rest = new Map(Object.entries(params));
  const path = pattern
    .split("/")
    .map((part) => {
      if (!part.startsWith(":")) return part;
      const value = rest.get(part.slice(1));
      rest.delete(part.slice(1));
      return pathPart(String(value ?? ""));
    })
    .join("/");
  const query = new URLSearchParams();
  for (const [name, value] of rest) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `#${path}?${text}` : `#${path}`;
}

/**
 * Takes a token out of a fragment: `#token=…&to=/s/ID` gives both; a fragment that is a place gives null.
 * @param {string} hash
 * @returns {{ token: string, to: string } | null}
 */
export function tokenOf(hash) {
  const text = hash.startsWith("#") ? hash.slice(1) : hash;
  if (text.startsWith("/")) return null;
  const given = new URLSearchParams(text);
  const token = given.get("token");
  if (token === null) return null;
  const to = given.get("to") ?? "/";
  return { token, to: to.startsWith("/") ? to : "/" };
}

/**
 * @param {string} text
 * @param {string} separator
 */
function splitOnce(text, separator) {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + separator.length)];
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return ""; // half of an escape: such an address was made by no link of ours
  }
}

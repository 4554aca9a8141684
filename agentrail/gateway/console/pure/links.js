// Which addresses a page may lead to, and how they are shown. Pure.

/** The schemes that a link may have. */
const SCHEMES = new Set(["http:", "https:", "mailto:"]);

// What browsers take out of an address before they read it, and what a person does not see in one.
const UNSEEN_RANGES = [
  "\\u0000-\\u0020\\u007f-\\u00a0", // controls and spaces
  "\\u00ad\\u061c\\u1680\\u180e\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u206f\\u3000\\ufeff\\u{e0000}-\\u{e0fff}",
];
const UNSEEN = new RegExp(`[${UNSEEN_RANGES.join("")}]`, "gu");

/** Longer ones are data, not addresses. */
const MAX_ADDRESS = 4096;

/**
 * An address as a link may have it.
 * @param {string} address as it was written
 * @returns {string | null} whole and in its plain form, such as `https://xn--pypal-4ve.com/`; null: it is shown as text
 */
export function safeHref(address) {
  if (address.length > MAX_ADDRESS) return null;
  const seen = address.replace(UNSEEN, "");
  // Without a scheme it would lead into this server.
  if (!/^[a-z]+:/i.test(seen)) return null;
  let url;
  try {
    url = new URL(seen);
  } catch {
    return null;
  }
  if (!SCHEMES.has(url.protocol)) return null;
  if (url.protocol !== "mailto:" && url.host === "") return null;
  return url.href;
}

/**
 * Where a link really leads, when its words name another place.
 * @param {string} words
 * @param {string} href of `safeHref`
 * @returns {string | null} the host that it leads to; null: the words do not say otherwise
 */
export function otherHost(words, href) {
  const named = /^\s*(?:[a-z]+:\/\/)?([^\s/@?#]+\.[^\s/@?#]+)/i.exec(words)?.[1];
  const host = new URL(href).host || href.replace(/^mailto:[^@]*@?/, "").replace(/\?.*$/, "");
  // Someone in front of an `@` is no host: `https://bank.example@other.example` leads to the other one.
  if (named === undefined) return /^https?:\/\/[^/]*@/i.test(words.trim()) ? host : null;
  return named.toLowerCase() === host.toLowerCase() || named.toLowerCase() === `www.${host}` ? null : host;
}

/**
 * A text as one part of a path. Half a surrogate pair, of which no address can be made, becomes the sign for what cannot be read: what is asked for then is
 * not there, and the server says so.
 * @param {string} text
 * @returns {string}
 */
export function pathPart(text) {
  return encodeURIComponent(text.replace(/\p{Cs}/gu, "\ufffd"));
}

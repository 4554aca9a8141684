// Pictures that a tool or a person gave as data, shown by `blob:` addresses. Four formats and no others: SVG is a program. Text with an address is never
// fetched.

import { bytes } from "../pure/numbers.js";
import { text } from "../text/en.js";
import { html, useEffect, useState } from "../ui.js";

const words = text.session;
const FORMATS = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const SHOWN_BYTES = 256 * 1_024;
const MOST_BYTES = 4 * 1_024 * 1_024;

/**
 * @param {{ image: {media_type?: string, data?: unknown, name?: string} }} props
 */
export function ImageView({ image }) {
  const name = image.name ?? "image";
  const type = image.media_type ?? "";
  const size = typeof image.data === "string" ? Math.floor((image.data.length * 3) / 4) : 0;
  const [isWanted, setWanted] = useState(size <= SHOWN_BYTES);
  const [address, setAddress] = useState(/** @type {string | null} */ (null));
  const [isBroken, setBroken] = useState(false);
  const why = reasonAgainst(type, size, image.data, isBroken);
  const isShown = why === null && isWanted;
  useEffect(() => {
    if (!isShown) return undefined;
    const made = addressOf(/** @type {string} */ (image.data), type);
    if (made === null) {
      setBroken(true);
      return undefined;
    }
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [isShown, image.data, type]);
  if (why !== null) return html`<p class="dim">${words.imageNotShown(name, why)}</p>`;
  if (!isWanted) {
    return html`<button type="button" class="button" onClick=${() => setWanted(true)}>${words.showImage(name, bytes(size))}</button>`;
  }
  if (address === null) return html`<p class="dim">${words.image(name)}</p>`;
  return html`<img class="picture" src=${address} alt=${words.image(name)} title=${name} onError=${() => setBroken(true)} />`;
}

/**
 * @param {string} type
 * @param {number} size
 * @param {unknown} data
 * @param {boolean} isBroken
 * @returns {string | null} why it is not shown
 */
function reasonAgainst(type, size, data, isBroken) {
  if (!FORMATS.has(type)) return type;
  if (size > MOST_BYTES) return words.imageTooLarge;
  return typeof data !== "string" || isBroken ? words.imageBroken : null;
}

/**
 * @param {string} data in base64
 * @param {string} type
 * @returns {string | null} null where it is none
 */
function addressOf(data, type) {
  try {
    const raw = atob(data);
    const parts = new Uint8Array(raw.length);
    for (let place = 0; place < raw.length; place += 1) parts[place] = raw.charCodeAt(place);
    return URL.createObjectURL(new Blob([parts], { type }));
  } catch {
    return null;
  }
}

// What a session is called wherever it is shown: its title, else what was said to it first. The id stands only where there are no words. Pure.

/** How many characters of a first prompt are a name; the server's rows have as many. */
const MOST = 80;

/**
 * @param {Record<string, any>} about A row, a node, a snapshot, or a step on the way to a session.
 * @returns {string | null} null where it has neither title nor words
 */
export function nameOf(about) {
  return about["title"] || about["first_words"] || null;
}

/**
 * What an open session is called. Its prompts are looked at where the server did not say the first words: they came after the snapshot, or it is an older one.
 * @param {import("./view.js").View} view
 * @returns {string | null}
 */
export function nameOfView(view) {
  return nameOf(view) ?? firstWords(view);
}

/**
 * @param {import("./view.js").View} view
 * @returns {string | null}
 */
function firstWords(view) {
  const first = view.items.find((item) => item.type === "prompt" && item.origin === "prompt") ?? view.queued[0];
  const blocks = /** @type {any[]} */ (first !== undefined && "content" in first ? (first.content ?? []) : []);
  const said = blocks.map((block) => (typeof block.text === "string" ? block.text.slice(0, 2 * MOST) : "")).join("");
  return [...said.trim().replace(/\s+/gu, " ")].slice(0, MOST).join("") || null;
}

/**
 * What the sessions of a path are called, the root in front.
 * @param {readonly any[]} path Steps, or ids of an older server.
 * @param {string | null} root What the root is called, where that is known.
 * @returns {string[]}
 */
export function namesOfPath(path, root) {
  return path.map((step, place) => {
    const about = typeof step === "string" ? { session_id: step } : step;
    return (place === 0 ? root : null) ?? nameOf(about) ?? String(about["session_id"] ?? "");
  });
}

/**
 * What a session that works for another one is called: which agent it is, else what it calls itself, else what it is to do.
 * @param {import("./view.js").Child} child
 * @returns {string}
 */
export function nameOfChild(child) {
  return child.agent_id || child.view?.title || child.description || child.session_id;
}

/**
 * What a session is called that works in a view, however deep.
 * @param {import("./view.js").View} view
 * @param {string} sessionId
 * @returns {string} its id where it is not there
 */
export function nameBelow(view, sessionId) {
  for (const child of Object.values(view.children)) {
    if (child.session_id === sessionId) return nameOfChild(child);
    const below = child.view === null ? sessionId : nameBelow(child.view, sessionId);
    if (below !== sessionId) return below;
  }
  return sessionId;
}

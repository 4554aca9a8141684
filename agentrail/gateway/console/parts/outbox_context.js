// What this tab sent to a session and is not shown by its events yet: sent once, repeated under its name, kept over a reload. Draws nothing.

import { accepted, failed, outboxOf, sending, sendingAgain, unseen, without } from "../pure/outbox.js";
import { createContext, useContext, useEffect, useMemo, useRef, useState } from "../ui.js";
import { ApiError } from "../wire/api.js";
import { ofTab } from "../wire/kept.js";

/** @typedef {import("../pure/outbox.js").Sent} Sent */

/**
 * @typedef {object} Outbox
 * @property {readonly Sent[]} all
 * @property {(way: {name: "prompt" | "steer", queue: boolean}, text: string) => void} send
 * @property {(clientId: string) => void} again
 * @property {(clientId: string) => void} takeBack gives its words back to the composer
 * @property {{current: (text: string) => void}} onTakeBack who takes them
 */

/** @type {import("../vendor/preact.js").Context<Outbox>} */
const OutboxContext = createContext(/** @type {any} */ (null));

export const OutboxProvider = OutboxContext.Provider;

/** @returns {Outbox} */
export function useOutbox() {
  return useContext(OutboxContext);
}

/** A name that no other message has: `crypto.randomUUID` is missing where the page came over plain HTTP from another machine. */
function newName() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `console-${[...bytes].map((one) => one.toString(16).padStart(2, "0")).join("")}`;
}

/**
 * The outbox of one session.
 * @param {string} sessionId
 * @param {import("../wire/socket.js").Connection} connection
 * @param {number} seq of the last event that is shown
 * @param {(sent: Sent, error: ApiError | null) => void} onAnswer told of each receipt and each refusal
 * @returns {Outbox}
 */
export function useNewOutbox(sessionId, connection, seq, onAnswer) {
  const name = `outbox.${sessionId}`;
  const [all, setAll] = useState(() => outboxOf(ofTab.get(name)));
  /** @type {{current: readonly Sent[]}} */
  const now = useRef(all);
  const onTakeBack = useRef((/** @type {string} */ _text) => {});
  const told = useRef(onAnswer);
  told.current = onAnswer;
  const change = (/** @type {readonly Sent[]} */ next) => {
    if (next === now.current) return;
    now.current = next;
    ofTab.set(name, next.length === 0 ? null : JSON.stringify(next));
    setAll(next);
  };
  const deliver = async (/** @type {Sent} */ sent) => {
    try {
      const receipt = await connection.command(sent.name, sessionId, fieldsOf(sent));
      change(accepted(now.current, sent.client_id, receipt));
      told.current(/** @type {Sent} */ (now.current.find((one) => one.client_id === sent.client_id) ?? sent), null);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      change(failed(now.current, sent.client_id, { code: error.code, message: error.message, hint: error.hint }));
      told.current(sent, error);
    }
  };
  useEffect(() => {
    // What was under way when the page was left is sent again under its name: where it had arrived, its first receipt comes back.
    for (const one of now.current) if (one.state === "sending") void deliver(one);
  }, []);
  useEffect(() => change(unseen(now.current, seq)), [seq, all]);
  return useMemo(
    () => ({
      all,
      onTakeBack,
      send(way, text) {
        const client_id = newName();
        change(sending(now.current, { client_id, name: way.name, queue: way.queue, text, at_ms: Date.now() }));
        void deliver(/** @type {Sent} */ (now.current.at(-1)));
      },
      again(clientId) {
        const found = now.current.find((one) => one.client_id === clientId);
        if (found?.state !== "failed") return;
        change(sendingAgain(now.current, clientId));
        void deliver(found);
      },
      takeBack(clientId) {
        const found = now.current.find((one) => one.client_id === clientId);
        if (found === undefined) return;
        change(without(now.current, clientId));
        onTakeBack.current(found.text);
      },
    }),
    [all],
  );
}

/** @param {Sent} sent */
function fieldsOf(sent) {
  const fields = { message: sent.text, client_id: sent.client_id };
  return sent.name === "prompt" ? { ...fields, when_busy: "queue" } : fields;
}

// Calls of the server over HTTP. The token goes into a header and nowhere else; no words for people are made here.

/**
 * What the server answered in place of what was asked, or that it could not be reached (`status` 0, `code` "unreachable").
 */
export class ApiError extends Error {
  /**
   * @param {number} status Of HTTP; 0 where there was no answer.
   * @param {{ code?: string, message?: string, hint?: string | null } & Record<string, unknown>} told
   */
  constructor(status, told) {
    super(told.message ?? "");
    this.name = "ApiError";
    this.status = status;
    this.code = told.code ?? "unknown";
    this.hint = told.hint ?? null;
    /** @type {Record<string, any>} All else that the error says, such as `decided` or `first`. */
    this.more = told;
  }
}

/** @typedef {Record<string, string | number | boolean | null | undefined | readonly (string | number)[]>} Params */

export class Api {
  /**
   * @param {string} base Where the routes stand, with a slash at the end; the console lies below it.
   * @param {string | null} token
   * @param {typeof fetch} [fetcher]
   */
  constructor(base, token, fetcher = (...given) => fetch(...given)) {
    this.base = base;
    this.token = token;
    /** @type {(error: ApiError) => void} */
    this.onUnauthorized = () => {};
    this._fetch = fetcher;
  }

  /**
   * @param {string} path Without a slash in front, its parts encoded.
   * @param {Params} [params] Null and undefined are left out; several values are joined by commas.
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {Promise<any>}
   */
  async get(path, params = {}, options = {}) {
    return JSON.parse(await this.getText(path, params, options));
  }

  /**
   * The answer as it came, for numbers that JavaScript cannot hold.
   * @param {string} path
   * @param {Params} [params]
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {Promise<string>}
   */
  async getText(path, params = {}, options = {}) {
    const answer = await this._call("GET", withParams(path, params), undefined, options);
    return unlessCut(answer.text(), options);
  }

  /**
   * A file as it is, for a download or a picture.
   * @param {string} path
   * @param {Params} [params]
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {Promise<Blob>}
   */
  async getBlob(path, params = {}, options = {}) {
    const answer = await this._call("GET", withParams(path, params), undefined, options);
    return unlessCut(answer.blob(), options);
  }

  /**
   * @param {string} path
   * @param {unknown} [body] A value; or the text of one, where it was written by hand.
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {Promise<any>} Null where there is no body in the answer.
   */
  async post(path, body = {}, options = {}) {
    const answer = await this._call("POST", path, JSON.stringify(body), options);
    const text = await unlessCut(answer.text(), options);
    return text ? JSON.parse(text) : null;
  }

  /**
   * @param {string} path
   * @param {Params} [params]
   * @param {{ signal?: AbortSignal }} [options]
   */
  async delete(path, params = {}, options = {}) {
    await this._call("DELETE", withParams(path, params), undefined, options);
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {string | undefined} body
   * @param {{ signal?: AbortSignal }} options
   */
  async _call(method, path, body, options) {
    /** @type {Record<string, string>} */
    const headers = { accept: "application/json" };
    if (this.token) headers.authorization = `Bearer ${this.token}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    /** @type {RequestInit} */
    const asked = { method, headers, cache: "no-store", credentials: "omit", redirect: "error" };
    if (body !== undefined) asked.body = body;
    if (options.signal) asked.signal = options.signal;
    const answer = await unlessCut(this._fetch(this.base + path, asked), options);
    if (answer.ok) return answer;
    const error = new ApiError(answer.status, await toldBy(answer));
    if (answer.status === 401) this.onUnauthorized(error);
    throw error;
  }
}

/**
 * A server that is killed may have sent the head of its answer and not all of its body: that is no answer either.
 * @template T
 * @param {Promise<T>} answered
 * @param {{ signal?: AbortSignal }} options
 * @returns {Promise<T>}
 */
async function unlessCut(answered, options) {
  try {
    return await answered;
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, { code: "unreachable", message: "" });
  }
}

/** @param {Response} answer */
async function toldBy(answer) {
  try {
    const told = JSON.parse(await answer.text());
    if (told?.error && typeof told.error === "object") return told.error;
  } catch {
    // A proxy answered in words of its own.
  }
  return { code: `http_${answer.status}`, message: answer.statusText };
}

/**
 * @param {string} path
 * @param {Params} params
 */
function withParams(path, params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value === null || value === undefined) continue;
    query.set(name, Array.isArray(value) ? value.join(",") : String(value));
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

// What a call that waits would do: the change of a file, or the command line. Made by the server of the file as it is now. Nothing is decided here.

import { text } from "../text/en.js";
import { html } from "../ui.js";
import { Diff } from "./diff_view.js";
import { SafeText } from "./safe_text.js";

const words = text.approval;

/** @param {{ preview: Record<string, any> | null }} props */
export function ApprovalPreview({ preview }) {
  if (preview === null || preview === undefined) return null;
  return preview["kind"] === "diff"
    ? html`<${FilePreview} preview=${preview} />`
    : html`<${CommandPreview} preview=${preview} />`;
}

/** @param {{ preview: Record<string, any> }} props */
function FilePreview({ preview }) {
  const { path, before, after, before_sha256: digest, fault } = preview;
  const isTold = typeof before === "string" && typeof after === "string";
  return html`<section class="approval-preview">
    <header class="approval-sub">
      <h3>${words.previewFile}</h3>
      <span class="mono small dim" title=${digest ?? ""}>${digest ? words.fileHash(digest.slice(0, 8)) : fault ? "" : words.newFile}</span>
    </header>
    ${isTold ? html`<${Diff} before=${before} after=${after} path=${path} strict />` : html`<p class="mono"><${SafeText} text=${path ?? ""} strict /></p>`}
    ${fault ? html`<p class="warn"><${SafeText} text=${fault} strict /></p>` : null}
  </section>`;
}

/** @param {{ preview: Record<string, any> }} props */
function CommandPreview({ preview }) {
  const { line, argv, cwd } = preview;
  return html`<section class="approval-preview">
    <header class="approval-sub"><h3>${words.previewCommand}</h3></header>
    <pre class="approval-line" dir="ltr" tabindex="0" aria-label=${words.previewCommand}><${SafeText} text=${line ?? ""} strict /></pre>
    <dl class="approval-facts small">
      ${cwd === null || cwd === undefined ? null : html`<div><dt>${words.directory}</dt><dd class="mono">${cwd === "." ? words.workspaceRoot : html`<${SafeText} text=${cwd} strict />`}</dd></div>`}
      ${
        Array.isArray(argv)
          ? html`<div><dt>${words.words}</dt><dd class="mono">${argv.map((word, at) => html`<span class="approval-word" key=${at}><${SafeText} text=${word} strict /></span> `)}</dd></div>`
          : null
      }
    </dl>
  </section>`;
}

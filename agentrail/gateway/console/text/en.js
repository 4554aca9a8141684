// All words that a person reads, by area: `text.session.send`. What shows them takes them from here and nowhere else.
// `?pseudo` in the address gives the pseudo-locale, by which a test finds what does not.

import * as approval from "./en/approval.js";
import * as cost from "./en/cost.js";
import * as journal from "./en/journal.js";
import * as parts from "./en/parts.js";
import * as plugins from "./en/plugins.js";
import * as session from "./en/session.js";
import * as sessions from "./en/sessions.js";
import * as shell from "./en/shell.js";
import * as timeline from "./en/timeline.js";
import * as tree from "./en/tree.js";
import { pseudoOf } from "./pseudo.js";

const words = { shell, parts, sessions, session, approval, timeline, journal, tree, cost, plugins };

const isPseudo = new URLSearchParams(globalThis.location?.search ?? "").has("pseudo");

export const text = isPseudo ? pseudoOf(words) : words;

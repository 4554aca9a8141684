// Words of the console: cost. Constants, and functions with numbers and plurals; nothing else may enter.

export const title = "Cost";
export const today = "Today";
export const month = "This month";
export const budgets = "Budgets";
export const noBudgets = "No active session has a cost budget, and there is no daily budget.";
/** @param {string} used @param {string} limit */
export const ofLimit = (used, limit) => `${used} of ${limit}`;
/** @param {string} used @param {string} limit */
export const ofDay = (used, limit) => `${used} of ${limit} a day, in UTC`;
/** @param {string} time */
export const spent = (time) => `Exhausted: new messages are refused until ${time}. Running work continues.`;
/** @param {string} amount */
export const overrun = (amount) => `Cycles under way may add up to ${amount}.`;
export const whose = { user: "user, per day", tenant: "all users, per day" };
/** @param {string} input @param {string} output */
export const inOut = (input, output) => `${input} in, ${output} out`;
/** @param {number} percent */
export const estimated = (percent) => `${percent} % estimated`;
/** @param {number} count */
export const unpriced = (count) =>
  count === 1 ? "1 request without a price" : `${count.toLocaleString("en-US")} requests without a price`;
export const estimatedHint = "Usage that a provider did not report is estimated.";
export const byDay = "By day";
export const by = "By";
export const range = "Days";
/** @param {number} days */
export const lastDays = (days) => `last ${days} days`;
export const allDays = "all days";
export const ways = { profile: "profile", model: "model", user: "user", session: "session", day: "day" };
export const columns = {
  key: "Name",
  requests: "Requests",
  tokens_in: "In",
  cached: "Cached",
  tokens_out: "Out",
  cost: "Cost",
  share: "Estimated",
};
export const total = "Total";
export const noName = "unnamed";
/** @param {string} way */
export const table = (way) => `Cost by ${way}`;
/** @param {number} days @param {string} most @param {string} day @param {string} sum */
export const chart = (days, most, day, sum) =>
  `Cost of ${days} days: ${sum} in total, at most ${most} on ${day}. The table lists the numbers.`;
/** @param {string} day @param {string} cost @param {number} percent */
export const bar = (day, cost, percent) =>
  percent > 0 ? `${day}: ${cost}, ${percent} % of it estimated` : `${day}: ${cost}`;
export const legendSaid = "reported by the provider";
export const legendEstimated = "estimated";
export const csv = "CSV";
export const csvTitle = "Download the table as CSV, with every digit";
/** @param {string} way */
export const fileName = (way) => `cost-by-${way}.csv`;
export const refresh = "Refresh";
export const refreshed = "Refreshed";
export const empty = "No usage in this period.";
export const emptyAction = "Start a session";
export const noJournal = "Usage is read from journals, and this server keeps none.";
export const noJournalHint = 'Give create_app a store, such as store="sqlite:sessions.db".';
/** @param {string} names @param {number} more */
export const unread = (names, more) =>
  `Incomplete: the journals of these sessions cannot be read: ${names}${more > 0 ? ` and ${more} more` : ""}`;
/** @param {string} zone */
export const zone = (zone) => `Days of ${zone}`;
/** @param {number} percent */
export const fromCache = (percent) => `${percent} % of the input came from a cache`;

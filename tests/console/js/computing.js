/** How long a piece of work computes. */

/**
 * How many milliseconds of a processor it takes: how busy the machine is with others does not count.
 * @param {() => unknown} work
 */
export function computingMs(work) {
  const began = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(began);
  return (user + system) / 1000;
}

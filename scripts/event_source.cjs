// Readers of event streams as a browser has them: the EventSource of Node, with `node --experimental-eventsource`.
// Argument: the kinds of events, as JSON. A line of input is a session and its URL; a line of output is one event.
'use strict';
const kinds = JSON.parse(process.argv[2]);

function follow(session, url) {
  let last = 0;
  const say = (kind, event) => {
    const isLast = kind === 'done' || kind === 'events_lost';
    const isCommitted = !isLast && event.lastEventId !== '' && !JSON.parse(event.data).ephemeral;
    if (isCommitted) last = Number(event.lastEventId);
    if (isCommitted || isLast)
      process.stdout.write(`${JSON.stringify({ session, kind, seq: isCommitted ? last : 0, data: event.data })}\n`);
  };
  const open = () => {
    const source = new EventSource(`${url}?after=${last}`);
    for (const kind of [...kinds, 'done', 'events_lost']) source.addEventListener(kind, (event) => say(kind, event));
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) setTimeout(open, 200 + 800 * Math.random()); // refused, as with 503
    };
  };
  open();
}

require('node:readline')
  .createInterface({ input: process.stdin })
  .on('line', (line) => follow(...JSON.parse(line)))
  .on('close', () => process.exit(0));

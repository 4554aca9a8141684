// A program of somebody else over our WebSocket, with the package `ws`: hello, create, subscribe, prompt, and all events to the end of the
// cycle. Prints one JSON object. Called as: node socket.cjs <folder of ws> <url> <token>
'use strict';
const [, , folder, url, token] = process.argv;
const WebSocket = require(folder);

const socket = new WebSocket(url, 'agentrail.v1', { headers: { Authorization: `Bearer ${token}` } });
const told = { protocol: null, frames: [], seqs: [], text: '', replies: {}, pong: null };
const send = (frame) => socket.send(JSON.stringify(frame));

const onFrame = {
  welcome: () => send({ type: 'create', id: 'c', session_id: 'main' }),
  reply: (frame) => {
    told.replies[frame.id] = frame.ok ? frame.result : frame.error.code;
    if (frame.id === 'c') send({ type: 'subscribe', id: 's', session_id: 'main' });
  },
  subscribed: () => {
    send({ type: 'prompt', id: 'p', session_id: 'main', message: 'Hi \u2028 there', client_id: 'once' });
    send({ type: 'prompt', id: 'again', session_id: 'main', message: 'Hi \u2028 there', client_id: 'once' });
    send({ type: 'dance', id: 'd', session_id: 'main' });
  },
  event: ({ event }) => {
    if (!event.ephemeral) told.seqs.push(event.seq);
    if (event.kind === 'message_delta') told.text += event.delta;
    if (event.kind === 'agent_end') send({ type: 'ping', n: 7 });
  },
  pong: (frame) => {
    told.pong = frame.n;
    socket.close(1000);
  },
};

socket.on('open', () => {
  told.protocol = socket.protocol;
  send({ type: 'hello', heartbeat: 20 });
});
socket.on('message', (data) => {
  const frame = JSON.parse(data);
  told.frames.push(frame.type);
  (onFrame[frame.type] || (() => {}))(frame);
});
socket.on('close', (code) => {
  console.log(JSON.stringify({ ...told, code }));
});
socket.on('error', (error) => {
  console.error(error.message);
  process.exitCode = 1;
});

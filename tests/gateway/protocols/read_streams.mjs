// Reads UI message streams with the `ai` SDK: each part through its published schema, and each stream through its client.
// In: JSON on stdin, {name: [stream, …]}. Out: JSON, {name: [{parts, faults, error, message}, …]}. AI_SDK: its module.
import { text } from 'node:stream/consumers';

const { DefaultChatTransport, readUIMessageStream, uiMessageChunkSchema } = await import(process.env.AI_SDK);
const schema = uiMessageChunkSchema();

function partsOf(stream) {
  const frames = stream.split('\n\n').filter(frame => frame.startsWith('data: ')).map(frame => frame.slice(6));
  return frames.filter(frame => frame !== '[DONE]').map(frame => JSON.parse(frame));
}

async function readStream(stream, before) {
  const faults = [];
  const parts = partsOf(stream);
  for (const part of parts) {
    const judged = await schema.validate(part);
    if (!judged.success) faults.push(`${JSON.stringify(part)}: ${judged.error.message.slice(0, 300)}`);
  }
  const transport = new DefaultChatTransport({
    api: 'http://here/', fetch: async () => new Response(stream, { headers: { 'content-type': 'text/event-stream' } }),
  });
  const chunks = await transport.sendMessages({ chatId: 'c', messages: [], trigger: 'submit-message' });
  const begun = parts.find(part => part.type === 'start')?.messageId;
  let message = before.get(begun);
  let error = null;
  const given = message === undefined ? {} : { message: structuredClone(message) };
  for await (const one of readUIMessageStream({ ...given, stream: chunks, onError: raised => { error ??= raised.message; } })) {
    message = one;
  }
  if (begun !== undefined) before.set(begun, message);
  return { parts: parts.length, faults, error, message };
}

const found = {};
for (const [name, streams] of Object.entries(JSON.parse(await text(process.stdin)))) {
  const before = new Map();
  found[name] = [];
  for (const stream of streams) found[name].push(await readStream(stream, before));
}
console.log(JSON.stringify(found));

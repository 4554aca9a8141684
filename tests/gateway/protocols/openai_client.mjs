// The official client with a function of its own, over a real connection: `runTools` calls it until the answer has come.
// In: TALK, JSON {base, model, stream, headers}. Out: JSON. OPENAI: its module.
const { default: OpenAI } = await import(process.env.OPENAI);
const { base, model, stream, headers } = JSON.parse(process.env.TALK);

const shown = [];
const client = new OpenAI({ baseURL: base, apiKey: 'none', maxRetries: 0, defaultHeaders: headers });
const runner = client.chat.completions.runTools({
  model, stream,
  messages: [{ role: 'user', content: 'Show them.' }],
  tools: [{
    type: 'function',
    function: {
      name: 'show',
      description: 'Show a place.',
      parameters: { type: 'object', properties: { at: { type: 'string' } } },
      parse: JSON.parse,
      function: ({ at }) => { shown.push(at); return `seen ${at}`; },
    },
  }],
});
const text = await runner.finalContent();
console.log(JSON.stringify({ shown, text, roles: runner.messages.map(message => message.role) }));

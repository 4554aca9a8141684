// The `ai` SDK over its OpenAI-compatible provider, with a function of its own, over a real connection.
// In: TALK, JSON {base, model, stream, headers}. Out: JSON. AI_SDK and PROVIDER: its modules.
const { generateText, streamText, stepCountIs, tool, jsonSchema } = await import(process.env.AI_SDK);
const { createOpenAICompatible } = await import(process.env.PROVIDER);
const { base, model, stream, headers } = JSON.parse(process.env.TALK);

const shown = [];
const provider = createOpenAICompatible({ name: 'ours', baseURL: base, apiKey: 'none', headers, includeUsage: true });
const asked = {
  model: provider(model),
  prompt: 'Show them.',
  maxRetries: 0,
  stopWhen: stepCountIs(5),
  tools: {
    show: tool({
      description: 'Show a place.',
      inputSchema: jsonSchema({ type: 'object', properties: { at: { type: 'string' } } }),
      execute: ({ at }) => { shown.push(at); return `seen ${at}`; },
    }),
  },
};
const result = stream ? streamText(asked) : await generateText(asked);
const text = await result.text;
const usage = await result.usage;
const reasons = (await result.steps).map(step => step.finishReason);
const failed = await generateText({ ...asked, model: provider('nobody') }).catch(error => error.statusCode);
console.log(JSON.stringify({ shown, text, reasons, tokens: usage.totalTokens, failed }));

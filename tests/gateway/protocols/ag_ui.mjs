// A front end with the official AG-UI client, which verifies the order of events, enforces their types and keeps the messages.
// In: RUNS, JSON {streams: {name: [stream, …]}} or {url, headers, steps: [[what, …arguments], …]}. Out: JSON. AG_UI: its module.
const { HttpAgent } = await import(process.env.AG_UI);

const warned = [];
console.warn = (...told) => warned.push(told.join(' ').slice(0, 300));
console.error = () => {};

function agentOf(config) {
  const errors = [];
  const events = [];
  const agent = new HttpAgent({ threadId: 't1', ...config });
  agent.subscribe({
    onEvent: ({ event }) => { events.push(event.type); },
    onRunFailed: ({ error }) => { errors.push(error.message); },
    onRunErrorEvent: ({ event }) => { errors.push(`${event.code}: ${event.message}`); },
  });
  return { agent, errors, events };
}

const resumed = (agent, payloads) => agent.pendingInterrupts.map((one, place) =>
  payloads[place] === null
    ? { interruptId: one.id, status: 'cancelled' }
    : { interruptId: one.id, status: 'resolved', payload: payloads[place] ?? { approved: true } });

async function readStreams(streams) {
  const responses = [...streams];
  const { agent, errors, events } = agentOf({
    url: 'http://here/',
    fetch: async () => new Response(responses.shift(), { headers: { 'content-type': 'text/event-stream' } }),
  });
  while (responses.length) {
    const resume = resumed(agent, []);
    await agent.runAgent(resume.length ? { resume } : {}).catch(() => {});
  }
  return { errors, events, messages: agent.messages, interrupts: agent.pendingInterrupts.length };
}

async function drive({ url, headers, steps }) {
  const { agent, errors, events } = agentOf({ url, headers });
  let pending = [];
  agent.subscribe({ onRunFinishedEvent: params => { pending = params.pendingToolCallIds ?? []; } });
  const run = parameters => agent.runAgent(parameters).catch(() => {});
  for (const [what, given, parameters] of steps) {
    switch (what) {
      case 'say':
        agent.addMessage({ id: `u${agent.messages.length}`, role: 'user', content: given });
        await run(parameters);
        break;
      case 'resume': await run({ ...parameters, resume: resumed(agent, given) }); break;
      case 'forget': agent.pendingInterrupts = []; break;
      case 'give':
        for (const id of pending) agent.addMessage({ id: `r-${id}`, role: 'tool', toolCallId: id, content: given });
        await run(parameters);
        break;
      case 'say_and_abort': { // closes the connection in mid-text
        agent.addMessage({ id: `u${agent.messages.length}`, role: 'user', content: given });
        const { unsubscribe } = agent.subscribe({ onTextMessageContentEvent: () => agent.abortRun() });
        await run(parameters);
        unsubscribe();
        break;
      }
    }
  }
  return { errors, events, pending, messages: agent.messages, state: agent.state, interrupts: agent.pendingInterrupts };
}

const told = JSON.parse(process.env.RUNS);
const found = {};
if (told.streams) for (const [name, streams] of Object.entries(told.streams)) found[name] = await readStreams(streams);
console.log(JSON.stringify(told.streams ? { found, warned } : { ...(await drive(told)), warned }));

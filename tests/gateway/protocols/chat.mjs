// A chat as `useChat` has it, over a real connection: what a page does, line by line, and what it shows in the end.
// In: CHAT, JSON {api, id, steps: [[what, …arguments], …], auto}. Out: JSON. AI_SDK: its module.
const sdk = await import(process.env.AI_SDK);
const { api, id, steps, headers } = JSON.parse(process.env.CHAT);
const { AbstractChat, DefaultChatTransport } = sdk;

// As in @ai-sdk/react, without a page: a list, a status, an error.
class State {
  status = 'ready';
  error = undefined;
  messages = [];
  pushMessage = message => { this.messages = [...this.messages, message]; };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (place, message) => { this.messages = this.messages.with(place, this.snapshot(message)); };
  snapshot = value => structuredClone(value);
}

const called = [];
const data = [];
const errors = [];
const state = new State();
class Chat extends AbstractChat {}
const chat = new Chat({
  id, state,
  transport: new DefaultChatTransport({ api, headers }),
  sendAutomaticallyWhen: options =>
    sdk.lastAssistantMessageIsCompleteWithApprovalResponses(options) ||
    sdk.lastAssistantMessageIsCompleteWithToolCalls(options),
  onToolCall: ({ toolCall }) => { called.push(toolCall.toolName); },
  onData: part => { data.push(part.type); },
  onError: error => { errors.push(error.message); },
});

const tools = () => state.messages.flatMap(message => message.parts).filter(part => part.type === 'dynamic-tool');
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));
async function quiet() {
  for (let still = 0; still < 3; still = ['ready', 'error'].includes(chat.status) ? still + 1 : 0) await sleep(20);
}

for (const [what, ...given] of steps) {
  switch (what) {
    case 'say': await chat.sendMessage({ text: given[0] }); break;
    case 'decide': {
      const asked = tools().filter(part => part.state === 'approval-requested')[0];
      await chat.addToolApprovalResponse({ id: asked.approval.id, approved: given[0], reason: given[1] });
      break;
    }
    case 'give': {
      const open = tools().filter(part => part.state === 'input-available')[0];
      await chat.addToolOutput({ tool: open.toolName, toolCallId: open.toolCallId, output: given[0] });
      break;
    }
    case 'say_and_stop': { // closes the connection in the middle of the response
      const said = chat.sendMessage({ text: given[0] });
      while (!state.messages.at(-1)?.parts.some(part => part.type === 'text' && part.text && state.messages.at(-1).role === 'assistant')) await sleep(5);
      await chat.stop();
      await said;
      break;
    }
    case 'resume': await chat.resumeStream(); break;
    case 'regenerate': await chat.regenerate(); break;
  }
  await quiet();
}
console.log(JSON.stringify({ status: chat.status, messages: state.messages, called, data, errors }));

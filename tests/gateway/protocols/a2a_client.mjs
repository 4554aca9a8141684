// The official client for JavaScript, over a real connection: what P-031 names, by one binding.
// In: TALK, JSON {base, binding}. Out: JSON. A2A: the folder of its modules.
const { SendMessageRequest, GetTaskRequest, ListTasksRequest, StreamResponse, Task } = await import(`${process.env.A2A}/index.js`);
const { ClientFactory, ClientFactoryOptions } = await import(`${process.env.A2A}/client/index.js`);
const { base, binding } = JSON.parse(process.env.TALK);

const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { preferredTransports: [binding] });
const client = await new ClientFactory(options).createFromUrl(base);
const words = (messageId, text, more = {}) => SendMessageRequest.fromJSON({
  message: { messageId, role: 'ROLE_USER', parts: [{ text }], ...more.message }, configuration: more.configuration,
});
const read = async (stream) => {
  const frames = [];
  for await (const frame of stream) frames.push(StreamResponse.toJSON(frame));
  return frames;
};
const refused = async (call) => {
  try { await call(); return null; } catch (error) { return error.constructor.name; }
};

const told = { binding: client.transport.protocolName };
told.sent = Task.toJSON(await client.sendMessage(words('m-1', 'Hi')));
const context = { contextId: told.sent.contextId };
told.streamed = await read(client.sendMessageStream(words('m-2', 'And?', { message: context })));
told.got = Task.toJSON(await client.getTask(GetTaskRequest.fromJSON({ id: told.sent.id })));
const begun = await client.sendMessage(words('m-3', 'Long', { message: context, configuration: { returnImmediately: true } }));
told.followed = [];
for await (const frame of client.resubscribeTask({ id: begun.id })) {
  told.followed.push(StreamResponse.toJSON(frame));
  if (told.canceled === undefined && frame.payload?.$case === 'artifactUpdate') {
    told.canceled = Task.toJSON(await client.cancelTask({ id: begun.id }));
  }
}
const { tasks, totalSize } = await client.listTasks(ListTasksRequest.fromJSON({ contextId: context.contextId }));
told.listed = [tasks.map(task => task.id), totalSize];
told.refused = [
  await refused(() => client.getTask(GetTaskRequest.fromJSON({ id: 'none' }))),
  await refused(() => client.cancelTask({ id: told.sent.id })),
  await refused(() => read(client.resubscribeTask({ id: told.sent.id }))),
  await refused(() => client.createTaskPushNotificationConfig({ taskId: told.sent.id, url: 'http://x.example' })),
  await refused(() => client.sendMessage(words('m-2', 'Other', { message: context }))),
];
console.log(JSON.stringify(told));

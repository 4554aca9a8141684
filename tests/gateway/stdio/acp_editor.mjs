// An editor made of the official SDK: opens a session, prompts, decides, edits an unsaved buffer, cancels and loads.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const { client, methods, ndJsonStream, PROTOCOL_VERSION } = await import(process.env.ACP);
const [command, ...args] = JSON.parse(process.env.AGENT);
const cwd = process.env.WORKSPACE;
const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const told = { updates: [], asked: [], buffers: { [`${cwd}/notes.md`]: "one, unsaved\n" } };

const editor = client({ name: "editor" })
  .onNotification(methods.client.session.update, ({ params }) => told.updates.push(params.update))
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    told.asked.push(params.options.map((one) => one.kind));
    return { outcome: { outcome: "selected", optionId: "allow_once" } };
  })
  .onRequest(methods.client.fs.readTextFile, ({ params }) => {
    if (!(params.path in told.buffers)) throw new Error("there is no such buffer");
    return { content: told.buffers[params.path] };
  })
  .onRequest(methods.client.fs.writeTextFile, ({ params }) => {
    told.buffers[params.path] = params.content;
    return {};
  });

await editor.connectWith(stream, async (context) => {
  const fs = { readTextFile: true, writeTextFile: true };
  told.initialized = await context.request(methods.agent.initialize, {
    protocolVersion: PROTOCOL_VERSION,
    clientCapabilities: { fs },
  });
  const { sessionId } = await context.request(methods.agent.session.new, { cwd, mcpServers: [] });
  const prompt = [{ type: "text", text: "Change the notes" }];
  told.answered = await context.request(methods.agent.session.prompt, { sessionId, prompt });
  told.listed = await context.request(methods.agent.session.list, {});
  const seen = told.updates.length;
  await context.request(methods.agent.session.load, { sessionId, cwd, mcpServers: [] });
  told.loaded = told.updates.slice(seen).map((one) => one.sessionUpdate);
});
agent.stdin.end();
told.code = await new Promise((resolve) => agent.on("exit", resolve));
console.log(JSON.stringify(told));
process.exit(0);

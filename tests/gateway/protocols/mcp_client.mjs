// The official client of JavaScript against our server: lists, calls, and cancels a call. The address is the first argument.
import { Client, StreamableHTTPClientTransport } from "../../../.peers/mcp-clients/node_modules/@modelcontextprotocol/client/dist/index.mjs";

const client = new Client({ name: "peer", version: "1" }, { versionNegotiation: { mode: "auto" } });
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
const { tools } = await client.listTools();
const said = await client.callTool({ name: "desk", arguments: { prompt: "Hi" } });
const stop = new AbortController();
setTimeout(() => stop.abort(), 300);
const cut = await client.callTool({ name: "hang", arguments: {} }, { signal: stop.signal }).catch(() => "cancelled");
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), said: said.structuredContent.text, cut }));
await client.close();

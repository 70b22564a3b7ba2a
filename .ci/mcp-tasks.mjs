// Has the official TypeScript client of the extension io.modelcontextprotocol/tasks call tools at an address of MCP, and fails unless a call
// becomes a task, is asked for until it is over, and ends with its result. See mcp-clients.
import { createTaskSessionFromClient, resultFromTaskOutcome } from "@modelcontextprotocol/ext-tasks/client";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [address, token] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${token}` };
const framing = {
  protocolVersion: "2026-07-28",
  clientInfo: { name: "mcp-tasks", version: "0" },
  clientCapabilities: { extensions: { "io.modelcontextprotocol/tasks": {} } },
};

// dispatch sends a request as revision 2026-07-28 has it, and returns the answer. Sent counts methods, and ids are those of tasks.
let id = 0;
const sent = {}, ids = new Set();
async function dispatch(request) {
  const { method, params = {} } = request;
  sent[method] = (sent[method] ?? 0) + 1;
  const name = params.taskId ?? params.name ?? params.uri;
  const response = await fetch(address, {
    method: "POST",
    headers: {
      ...headers, "Content-Type": "application/json", Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": framing.protocolVersion, "Mcp-Method": method, ...(name === undefined ? {} : { "Mcp-Name": name }),
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: ++id, ...request }),
  });
  const text = await response.text();
  const line = text.split("\n").find((l) => l.startsWith("data: "));
  const answer = JSON.parse(line === undefined ? text : line.slice(6));
  if (answer.result?.taskId !== undefined) ids.add(answer.result.taskId);
  return answer.error === undefined ? { kind: "result", result: answer.result } : { kind: "error", error: answer.error };
}

const client = new Client(framing.clientInfo, { capabilities: framing.clientCapabilities, versionNegotiation: { mode: "auto" } });
await client.connect(new StreamableHTTPClientTransport(new URL(address), { requestInit: { headers } }));
const session = createTaskSessionFromClient(client, {
  endpointId: "millrace", rawDispatch: dispatch, v2RequestFraming: framing,
});
const execution = await session.callTool("sleep", { ms: 2500 });
const { outcome } = await execution.settle();
const result = resultFromTaskOutcome(outcome);
if (result.content?.[0]?.text !== "slept for 2500 ms" || ids.size !== 1 || !(sent["tasks/get"] >= 2)) {
  throw new Error(`the result is ${JSON.stringify(result)} after ${JSON.stringify(sent)}, with ${ids.size} tasks`);
}
await session.close();
await client.close();
console.log(`ext-tasks: a task was created, asked for ${sent["tasks/get"]} times, and ended with its result`);

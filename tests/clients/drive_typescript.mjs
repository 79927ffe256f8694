// The official TypeScript clients, driven through every case of the matrix. First words: the folder whose
// node_modules to use, and the plan as JSON; prints one JSON report. `mode` "1" is @modelcontextprotocol/sdk,
// "legacy" and "auto" are @modelcontextprotocol/client. It does what an application would do, and judges nothing.
import { createRequire } from "node:module";

const require = createRequire(`${process.argv[2]}/`);
const plan = JSON.parse(process.argv[3]);
const first = plan.mode === "1";
const { Client } = require(first ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client");
const { StdioClientTransport } = require(
  first ? "@modelcontextprotocol/sdk/client/stdio.js" : "@modelcontextprotocol/client/stdio",
);
const version = require(
  first ? `${process.argv[2]}/node_modules/@modelcontextprotocol/sdk/package.json`
        : `${process.argv[2]}/node_modules/@modelcontextprotocol/client/package.json`,
).version;

const options = first ? {} : { versionNegotiation: { mode: plan.mode } };
const client = new Client({ name: "matrix", version: "1" }, options);
const asked = (name, args, more) =>
  first ? client.callTool({ name, arguments: args }, undefined, more) : client.callTool({ name, arguments: args }, more);

const plain = (result) => ({
  isError: Boolean(result.isError),
  structured: result.structuredContent ?? null,
  texts: result.content.map((part) => (part.type === "text" ? part.text : part.type)),
  meta: result._meta ?? null,
});

const acts = {
  call: async (name, args) => plain(await asked(name, args)),
  fault: async (name, args) => {
    try {
      return { answered: plain(await asked(name, args)) };
    } catch (fault) {
      return { code: fault.code, message: fault.message };
    }
  },
  progress: async (name, args) => {
    const heard = [];
    let release; // while the call runs, another one lets it go on
    const onprogress = (note) => {
      release ??= asked("drill_release", { tag: args.tag });
      heard.push([note.progress, note.total ?? null, note.message ?? null]);
    };
    const answer = plain(await asked(name, args, { onprogress }));
    return { heard, answer, release: plain(await release) };
  },
  cancel: async (name, args) => {
    const stop = new AbortController();
    try {
      await asked(name, args, { signal: stop.signal, onprogress: () => stop.abort("the user pressed escape") });
      return { given_up: false };
    } catch {
      return { given_up: stop.signal.aborted };
    }
  },
};

const { command, args, env } = plan;
await client.connect(new StdioClientTransport({ command, args, env, stderr: "inherit" }));
const report = {
  sdk: version,
  protocol: first ? null : client.getNegotiatedProtocolVersion(), // the first generation does not tell
  server: client.getServerVersion().name,
  instructions: client.getInstructions(),
  tools: (await client.listTools()).tools,
};
for (const step of plan.steps) report[step.name] = await acts[step.act](step.tool, step.arguments);
await client.close();
console.log(JSON.stringify(report));

/**
 * What a TypeScript connector imports: name your functions, and they are served as an interface's tools.
 *
 *     import { Failure, InputFile, serve } from "handler_connector";
 *
 *     serve({
 *       async ocr_extract(args, call) {
 *         const page = await (args.path as InputFile).read();
 *         if (page[0] !== 0x25) throw new Failure("unsupported_format", "the first byte is not a PDF's");
 *         return { pages: [{ text: await readText(page, call.signal) }] };
 *       },
 *     });
 *
 * A function gets the arguments, already validated against the interface, and a `Call`; it returns what the
 * interface's output schema says. Several calls run at once. What is printed goes to the connector's log.
 * Wire: MCP, one JSON message a line, on the socket in HANDLER_CONNECTOR_SOCKET. Nothing of it is fetched.
 */

export { request, type Sending, Unsent } from "./handler_gate.ts";

const INBOX = "/run/connector/in";
const OUTBOX = "/run/connector/out";
const MAX_LINE_BYTES = 16 * 2 ** 20; // a request is at most 4 MiB at the agents' door; the rest is for escapes
const VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const INFO = { name: "handler-connector", version: "1" };

export type Arguments = Record<string, unknown>;
export type Tool = (args: Arguments, call: Call) => Promise<Arguments> | Arguments;
type Message = Record<string, unknown>;
type Send = (message: Message) => Promise<void>;

/** Ends a call with one of the interface's error codes; `diagnostic` is for operators, no agent sees it. */
export class Failure extends Error {
  constructor(readonly code: string, readonly diagnostic = "") {
    super(diagnostic);
    this.name = "Failure";
  }
}

/** A file that the agent handed in; `size` is in bytes. */
export class InputFile {
  constructor(readonly name: string, readonly mediaType: string, readonly size: number, readonly path: string) {}

  /** All its bytes. */
  read(): Promise<Uint8Array<ArrayBuffer>> {
    return Deno.readFile(this.path);
  }

  /** The file, open for reading: for what is too large to hold. */
  open(): Promise<Deno.FsFile> {
    return Deno.open(this.path);
  }
}

/** A file that the agent asked for: write it once. `name` is the agent's. */
export class OutputFile {
  constructor(readonly name: string, readonly blob: string, readonly path: string) {}

  /** Makes `data` the file's content. */
  write(data: Uint8Array): Promise<void> {
    return Deno.writeFile(this.path, data);
  }
}

/** One call that is running: whether anybody still waits, and how far it is. */
export class Call {
  readonly #stop = new AbortController();
  readonly #token: unknown;
  #last = -1;

  constructor(private readonly send: Send, readonly id: unknown, params: Message) {
    this.#token = record(params._meta)?.progressToken;
  }

  /** Aborted once nobody waits: hand it to `fetch`. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Tells how far the call is. `done` grows: what does not is left out. Free when nobody listens. */
  progress(done: number, total?: number): void {
    if (this.#token === undefined || done <= this.#last || this.signal.aborted) return;
    this.#last = done;
    const params = { progressToken: this.#token, progress: done, ...(total === undefined ? {} : { total }) };
    this.send({ method: "notifications/progress", params });
  }

  /** Nobody waits any more. */
  cancel(): void {
    this.#stop.abort();
  }
}

/** The secret that the binding put into a slot of `connector.toml`; undefined where it put none. */
export function secret(slot: string): string | undefined {
  const name = slot.toUpperCase().replaceAll("-", "_");
  const file = Deno.env.get(`HANDLER_SECRET_FILE_${name}`);
  if (file) return Deno.readTextFileSync(file);
  const variable = Deno.env.get(`HANDLER_SECRET_ENV_${name}`);
  return variable ? Deno.env.get(variable) : undefined;
}

/** Serves `tools` (tool name → function) until the process is stopped. */
export async function serve(tools: Record<string, Tool>): Promise<void> {
  const path = Deno.env.get("HANDLER_CONNECTOR_SOCKET");
  if (!path) throw new Error("HANDLER_CONNECTOR_SOCKET is not set: Handler starts connectors");
  for await (const wire of Deno.listen({ transport: "unix", path })) new Connection(wire, tools).run();
}

/** One client: reads its lines, answers each call as it ends. */
class Connection {
  readonly #calls = new Map<unknown, Call>();
  readonly #wire: Deno.Conn;
  readonly #tools: Map<string, Tool>;
  #writing: Promise<void> = Promise.resolve();

  constructor(wire: Deno.Conn, tools: Record<string, Tool>) {
    this.#wire = wire;
    this.#tools = new Map(Object.entries(tools));
  }

  /** Reads until the client leaves or breaks the framing; then nobody waits for its calls. */
  async run(): Promise<void> {
    try {
      for await (const line of lines(this.#wire)) this.#read(line);
    } catch (fault) {
      if (!(fault instanceof Deno.errors.ConnectionReset)) console.error(fault);
    } finally {
      for (const call of this.#calls.values()) call.cancel();
      try {
        this.#wire.close();
      } catch {
        // it is closed already
      }
    }
  }

  #read(line: string): void {
    let message: Message | undefined;
    try {
      message = record(JSON.parse(line));
    } catch {
      this.#fail(null, -32700, "the line is not JSON");
      return;
    }
    if (!message || typeof message.method !== "string") return; // an answer to what was never asked
    const params = record(message.params) ?? {};
    if (message.id === undefined) {
      if (message.method === "notifications/cancelled") this.#calls.get(params.requestId)?.cancel();
      return;
    }
    if (message.method === "tools/call") this.#call(message.id, params);
    else this.#answer(message.id, message.method, params);
  }

  #answer(id: unknown, method: string, params: Message): void {
    const asked = params.protocolVersion;
    switch (method) {
      case "initialize":
        this.#send({
          id,
          result: {
            protocolVersion: VERSIONS.includes(String(asked)) ? asked : VERSIONS[0],
            capabilities: { tools: {} },
            serverInfo: INFO,
          },
        });
        break;
      case "server/discover":
        this.#send({
          id,
          result: {
            resultType: "complete",
            supportedVersions: VERSIONS,
            capabilities: { tools: {} },
            ttlMs: 0,
            cacheScope: "private",
            _meta: { "io.modelcontextprotocol/serverInfo": INFO },
          },
        });
        break;
      case "tools/list": {
        const tools = [...this.#tools.keys()].sort().map((name) => ({ name, inputSchema: { type: "object" } }));
        this.#send({ id, result: { tools } });
        break;
      }
      case "ping":
        this.#send({ id, result: {} });
        break;
      default:
        this.#fail(id, -32601, "there is no such method");
    }
  }

  async #call(id: unknown, params: Message): Promise<void> {
    const tool = this.#tools.get(String(params.name));
    if (!tool) return this.#fail(id, -32602, "there is no such tool");
    if (this.#calls.has(id)) return this.#fail(id, -32600, "a call with this id is still running");
    const call = new Call((message) => this.#send(message), id, params);
    this.#calls.set(id, call);
    const given = Object.fromEntries(Object.entries(record(params.arguments) ?? {}).map(([k, v]) => [k, unwrapped(v)]));
    let result: Message;
    try {
      result = await success(await tool(given, call), given);
    } catch (fault) {
      result = failed(fault);
    }
    this.#calls.delete(id);
    if (!call.signal.aborted) await this.#send({ id, result });
  }

  #fail(id: unknown, code: number, message: string): void {
    this.#send({ id, error: { code, message } });
  }

  /** One message after the other; a client that has left is no error of a call. */
  #send(message: Message): Promise<void> {
    const data = new TextEncoder().encode(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
    this.#writing = this.#writing.then(async () => {
      for (let sent = 0; sent < data.length;) sent += await this.#wire.write(data.subarray(sent));
    }).catch(() => {});
    return this.#writing;
  }
}

/** The lines of a connection; ends where one is longer than a line may be. */
async function* lines(wire: Deno.Conn): AsyncGenerator<string> {
  const text = new TextDecoder("utf-8", { fatal: true });
  const held: Uint8Array[] = [];
  let size = 0;
  for await (const part of wire.readable) {
    let rest = part;
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      held.push(rest.subarray(0, end));
      yield text.decode(joined(held));
      held.length = size = 0;
      rest = rest.subarray(end + 1);
    }
    held.push(rest);
    size += rest.length;
    if (size > MAX_LINE_BYTES) return;
  }
}

function joined(parts: Uint8Array[]): Uint8Array {
  if (parts.length === 1) return parts[0];
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function record(value: unknown): Message | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value as Message : undefined;
}

/** An argument as the connector sees it: hand-offs become files, everything else stays. */
function unwrapped(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(unwrapped);
  const found = record(value);
  const blob = found?.blob;
  if (!found || typeof blob !== "string" || blob.includes("/")) return value;
  switch (Object.keys(found).sort().join()) {
    case "blob,mediaType,name,size":
      return new InputFile(String(found.name), String(found.mediaType), Number(found.size), `${INBOX}/${blob}`);
    case "blob,name":
      return new OutputFile(String(found.name), blob, `${OUTBOX}/${blob}`);
    default:
      return value; // an agent's own words, in a tool that takes maps
  }
}

async function success(answer: Arguments, given: Arguments): Promise<Message> {
  const files: Message = {};
  for (const [key, value] of Object.entries(given)) {
    if (!(value instanceof OutputFile)) continue;
    const size = await Deno.stat(value.path).then((found) => found.size, () => undefined);
    if (size !== undefined) files[key] = { blob: value.blob, size };
  }
  const more = Object.keys(files).length ? { _meta: { "ai.handler/files": files } } : {};
  return { structuredContent: answer, content: [], ...more };
}

/** An error as the wire says it; of what is no `Failure`, the class alone goes to operators, all of it to the log. */
function failed(fault: unknown): Message {
  let code = "unavailable";
  let diagnostic = "";
  if (fault instanceof Failure) {
    code = fault.code;
    diagnostic = fault.diagnostic.slice(0, 2000);
  } else {
    console.error(fault);
    // Its text may repeat what an agent sent: that is in the log alone.
    diagnostic = `${fault instanceof Error ? fault.name : typeof fault}; the log says more`;
  }
  const text = JSON.stringify({ error: code, message: `the connector answered ${code}` });
  return { isError: true, _meta: { "ai.handler/error": { code, diagnostic } }, content: [{ type: "text", text }] };
}

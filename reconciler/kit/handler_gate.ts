/**
 * How a TypeScript connector sends HTTP: plainly, through the gate beside its sandbox, which adds secrets and TLS.
 *
 *     import { request, Unsent } from "handler_connector";
 *
 *     const answer = await request("POST", "https://api.example.com/v1/pages", { headers, body, call });
 *     if (answer.status === 200) return await answer.json();
 *
 * A request says whose call it serves, and ends with it.
 */
import type { Call } from "./handler_connector.ts";

export type Sending = {
  headers?: HeadersInit;
  body?: Uint8Array | string;
  /** The call that it serves: given up with it. Without one it is a request of the connector's own. */
  call?: Call;
  signal?: AbortSignal;
  /** How many bytes the answer's body may have; the gate hands on 1 GiB at most. */
  most?: number;
};

const OURS = ["host", "content-length", "transfer-encoding", "connection", "x-handler-call"];
const HEAD_BYTES = 131_072; // more than a head has
const BARE = [101, 204, 205, 304];

/** Nothing was sent, or nothing handed on: `cause` is a word ("unlisted", "tls", "echo"), `message` a sentence. */
export class Unsent extends Error {
  constructor(override readonly cause: string, why: string) {
    super(why);
    this.name = "Unsent";
  }
}

/**
 * Sends one HTTP request through the gate: https to what `egress` lists, with the headers of the secret slots
 * added on the way. Redirects are answers like others. Throws `Unsent`, and what `signal` or the call was
 * aborted for.
 */
export async function request(method: string, url: string, more: Sending = {}): Promise<Response> {
  const said = written(method, url, more);
  const signals = [more.signal, more.call?.signal].filter((one) => one !== undefined);
  const signal = AbortSignal.any(signals);
  signal.throwIfAborted();
  const wire = await reached();
  const leave = () => closed(wire);
  signal.addEventListener("abort", leave);
  try {
    signal.throwIfAborted(); // meanwhile
    await sent(wire, said);
    return answered(await received(wire, more.most), method, more.most);
  } catch (fault) {
    signal.throwIfAborted();
    throw fault;
  } finally {
    signal.removeEventListener("abort", leave);
    closed(wire);
  }
}

async function reached(): Promise<Deno.UnixConn> {
  const path = Deno.env.get("HANDLER_GATE_SOCKET");
  if (!path) throw new Unsent("request", "there is no gate: connector.toml lists no egress");
  try {
    return await Deno.connect({ transport: "unix", path });
  } catch (fault) {
    throw new Unsent("request", `the gate is not reached: ${(fault as Error).name}`);
  }
}

/** The request's bytes, in parts. Whatever would end a line early is refused before anything is sent. */
function written(method: string, url: string, more: Sending): Uint8Array[] {
  const body = typeof more.body === "string" ? new TextEncoder().encode(more.body) : more.body;
  let at: URL;
  let own: Headers;
  try {
    at = new URL(url);
    own = new Headers(more.headers);
  } catch {
    throw new Unsent("request", "this is no address, or a header has no form of one");
  }
  if (!/^[A-Z]+$/.test(method)) throw new Unsent("request", "a method is capital letters");
  at.hash = "";
  const lines = [`${method} ${at.href} HTTP/1.1`, `Host: ${at.host}`];
  for (const [name, value] of own) if (!OURS.includes(name)) lines.push(`${name}: ${value}`);
  if (more.call) lines.push(`x-handler-call: ${more.call.id}`);
  if (body || ["POST", "PUT", "PATCH"].includes(method)) lines.push(`Content-Length: ${body?.length ?? 0}`);
  const head = bytes([...lines, "", ""].join("\r\n"));
  return body ? [head, body] : [head];
}

/** Sends it; a gate that refused it before it was all said tells why in its answer. */
async function sent(wire: Deno.Conn, parts: Uint8Array[]): Promise<void> {
  try {
    for (const part of parts) {
      for (let at = 0; at < part.length;) at += await wire.write(part.subarray(at));
    }
  } catch (fault) {
    if (!(fault instanceof Deno.errors.BrokenPipe)) throw broken(fault);
  }
}

async function received(wire: Deno.Conn, most = Infinity): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  const room = new Uint8Array(65_536);
  let all = 0;
  try {
    for (let size = await wire.read(room); size !== null; size = await wire.read(room)) {
      parts.push(room.slice(0, size));
      all += size;
      if (all > 6 * most + HEAD_BYTES) throw long(most); // a byte in a chunk of its own takes six
    }
  } catch (fault) {
    if (fault instanceof Unsent) throw fault;
    if (!(fault instanceof Deno.errors.ConnectionReset)) throw broken(fault);
  }
  return joined(parts);
}

function answered(data: Uint8Array<ArrayBuffer>, method: string, most = Infinity): Response {
  const end = ended(data);
  if (end < 0) throw broken();
  const [first, ...lines] = text(data.subarray(0, end)).split("\r\n");
  const status = Number(/^HTTP\/1\.1 ([0-9]{3}) /.exec(first)?.[1]);
  const pairs = lines.map((line): [string, string] => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon), line.slice(colon + 1).trim()];
  });
  const headers = new Headers(pairs);
  const isBare = method === "HEAD" || BARE.includes(status);
  const body = isBare ? null : whole(data.subarray(end + 4), headers);
  const cause = headers.get("x-handler-refused");
  if (cause) throw new Unsent(cause, text(body ?? new Uint8Array()).trim());
  if (body && body.length > most) throw long(most);
  for (const name of ["content-length", "transfer-encoding", "connection"]) headers.delete(name);
  try {
    return new Response(body, { status, headers });
  } catch {
    throw new Unsent("answer", "the answer has a status that none may have");
  }
}

/** A body without its framing; Unsent where it is not all there. */
function whole(data: Uint8Array<ArrayBuffer>, headers: Headers): Uint8Array<ArrayBuffer> {
  if (!headers.has("transfer-encoding")) {
    if (data.length !== Number(headers.get("content-length"))) throw broken();
    return data;
  }
  const parts: Uint8Array[] = [];
  for (let at = 0;;) {
    const line = data.indexOf(10, at);
    const size = line < 0 ? NaN : parseInt(text(data.subarray(at, line)), 16);
    if (!(line + 1 + size + 2 <= data.length)) throw broken();
    if (size === 0) return joined(parts);
    parts.push(data.subarray(line + 1, line + 1 + size));
    at = line + 1 + size + 2;
  }
}

function ended(data: Uint8Array): number {
  for (let at = data.indexOf(13); at >= 0; at = data.indexOf(13, at + 1)) {
    if (data[at + 1] === 10 && data[at + 2] === 13 && data[at + 3] === 10) return at;
  }
  return -1;
}

function long(most: number): Unsent {
  return new Unsent("bytes", `the answer has more than ${most} bytes`);
}

function broken(fault?: unknown): Unsent {
  return new Unsent("answer", `the answer broke off${fault ? `: ${(fault as Error).name}` : ""}`);
}

function bytes(line: string): Uint8Array {
  return Uint8Array.from(line, (one) => one.charCodeAt(0));
}

function text(data: Uint8Array): string {
  return Array.from(data, (one) => String.fromCharCode(one)).join("");
}

function joined(parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

function closed(wire: Deno.Conn): void {
  try {
    wire.close();
  } catch {
    // it is closed already
  }
}

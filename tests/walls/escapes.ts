// What a script of deno's tries, by deno's own means: the same aims as `escapes.py`, which no deno can run.
// An attempt has succeeded when its function returns; what stopped it is the name of what it threw.
import { serve } from "handler_connector";

type Given = Record<string, any>;
const attempts = new Map<string, (given: Given) => unknown>();
function attempt(words: string, wall: string, act: (given: Given) => unknown): void {
  attempts.set(words, act);
}

async function written(path: string): Promise<void> {
  const block = new Uint8Array(2 ** 20);
  using file = await Deno.open(path, { write: true, create: true });
  for (let count = 0; count < 512; count++) await file.write(block);
}

attempt("a server of this machine by TCP", "deno's permissions", (given) => Deno.connect({ hostname: "127.0.0.1", port: given.tcp }));
attempt("the internet by TCP", "deno's permissions", () => Deno.connect({ hostname: "192.0.2.1", port: 443 }));
attempt("a cloud's metadata by fetch", "deno's permissions", () => fetch("http://169.254.169.254/latest/meta-data/"));
attempt("a web socket to a server of this machine", "deno's permissions", (given) => new WebSocket(`ws://127.0.0.1:${given.tcp}/`));
attempt("a name looked up", "own mounts", () => Deno.resolveDns("example.com", "A"));
attempt("node's sockets", "deno's permissions", async (given) => {
  const net = await import("node:net");
  await new Promise((come, go) => net.connect(given.tcp, "127.0.0.1", () => come(0)).on("error", go));
});
attempt("a port of its own", "deno's permissions", () => Deno.listen({ hostname: "127.0.0.1", port: 0 }));
attempt("the controller's control socket", "deno's permissions", (given) => Deno.connect({ transport: "unix", path: given.control }));
attempt("another connector's socket", "deno's permissions", (given) => Deno.connect({ transport: "unix", path: given.other }));
attempt("a module of the network, fetched", "no module from outside", () => import("https://example.com/x.ts"));
attempt("a package of npm, fetched", "no module from outside", () => import("npm:left-pad@1.3.0"));
attempt("a module outside of its folder", "own mounts", () => import("file:///etc/passwd"));
attempt("/etc/passwd, read", "deno's permissions", () => Deno.readTextFile("/etc/passwd"));
attempt("/etc/passwd, read by node's means", "deno's permissions", async () => (await import("node:fs")).readFileSync("/etc/passwd"));
attempt("a home, listed", "own mounts", (given) => Deno.readDirSync(given.home).next());
attempt("the state folder, listed", "own mounts", (given) => Deno.readDirSync(given.state).next());
attempt("a secret of the controller's user, read", "own mounts", (given) => Deno.readTextFile(given.secret));
attempt("the environment of the controller, read", "deno's permissions", (given) => Deno.readTextFile(`/proc/${given.pid}/environ`));
attempt("the environment of the first process, read", "deno's permissions", () => Deno.readTextFile("/proc/1/environ"));
attempt("a link to /etc/passwd", "deno's permissions", () => Deno.symlink("/etc/passwd", "/tmp/link"));
attempt("the names of the input files of other calls", "permissions", () => {
  const found = [...Deno.readDirSync("/run/connector/in")];
  if (found.length === 0) throw Object.assign(new Error("nothing to see"), { name: "empty" });
  return found.map((one) => one.name);
});
attempt("the names of the output files of other calls", "permissions", () => [...Deno.readDirSync("/run/connector/out")]);
attempt("its own code, overwritten", "deno's permissions", () => Deno.writeTextFile("/app/main.ts", ""));
attempt("the kit, overwritten", "deno's permissions", () => Deno.writeTextFile("/kit/handler_connector.ts", ""));
attempt("a file beside its socket, made", "deno's permissions", () => Deno.writeTextFile("/run/connector/x", ""));
attempt("a program, run", "deno's permissions", () => new Deno.Command("/usr/bin/deno").output());
attempt("a program, run by node's means", "deno's permissions", async () => {
  const { spawn } = await import("node:child_process");
  await new Promise((come, go) => spawn("/usr/bin/deno", ["--version"]).on("error", go).on("exit", come));
});
attempt("a library of the system, loaded", "deno's permissions", () => Deno.dlopen("libc.so.6", { getpid: { parameters: [], result: "i32" } }));
attempt("an add-on of node's, loaded", "deno's permissions", async () => {
  const { createRequire } = await import("node:module");
  await Deno.writeTextFile("/tmp/x.node", "");
  createRequire("file:///app/main.ts")("/tmp/x.node");
});
attempt("the controller, sent a signal", "deno's permissions", (given) => Deno.kill(given.pid, "SIGTERM"));
attempt("the machine's name and memory, asked for", "deno's permissions", () => [Deno.hostname(), Deno.systemMemoryInfo()]);
attempt("more permissions, asked for", "deno's permissions", async () => {
  const { state } = await Deno.permissions.request({ name: "run" });
  if (state !== "granted") throw new Deno.errors.NotCapable(state);
});
attempt("more permissions, by a worker of its own", "deno's permissions", async () => {
  const code = "Deno.readTextFile('/etc/passwd').then(() => postMessage('read'), (fault) => postMessage(fault.name))";
  const worker = new Worker(`data:text/javascript,${encodeURIComponent(code)}`, { type: "module" });
  const said = await new Promise((come) => (worker.onmessage = (event) => come(event.data)));
  worker.terminate();
  if (said !== "read") throw new Deno.errors.NotCapable(String(said));
});
attempt("512 MiB in its /tmp", "bound on scratch space", () => written("/tmp/big"));
attempt("512 MiB among its output files", "bound on scratch space", () => written("/run/connector/out/big"));

async function ventured(act: (given: Given) => unknown, given: Given): Promise<Record<string, string>> {
  try {
    return { passed: String(await act(given)).slice(0, 200) };
  } catch (fault) {
    const { name, message } = fault as Error;
    return { stopped: name, message: message.slice(0, 200) };
  }
}

serve({
  async run(args) {
    const found: Record<string, Record<string, string>> = {};
    for (const [words, act] of attempts) found[words] = await ventured(act, args.given);
    return { answer: found };
  },
});

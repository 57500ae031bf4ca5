// Does what a test asks for, one JSON line after another, with the code of examples/append.ts; answers in the same order.
//   driver.mjs URL NAMESPACE      {"keysOf", "partitions"} | {"keys", "argv"} | {"session", "events"}
import { createInterface } from "node:readline";
import { call, connect, SessionLog } from "../../examples/append.ts";
import { keysOf, slot } from "../../examples/keys.ts";

type Request =
  | { keysOf: string; partitions: number }
  | { keys: string[]; argv: string[] }
  | { session: string; events: [string, unknown][] };

const store = await connect(process.argv[2]!, process.argv[3]);
const logs = new Map<string, SessionLog>();

async function answer(request: Request): Promise<unknown> {
  if ("keysOf" in request) {
    return { slot: slot(request.keysOf), keys: keysOf(request.keysOf, request.partitions) };
  }
  try {
    if ("argv" in request) return { reply: await call(store.redis, request.keys, request.argv) };
    const log = logs.get(request.session) ?? new SessionLog(store, request.session);
    logs.set(request.session, log);
    return { positions: await log.append(...request.events) };
  } catch (error) {
    return { error: (error as Error).message };
  }
}

console.log(JSON.stringify({ ready: true }));
let told: Promise<void> = Promise.resolve();
for await (const line of createInterface({ input: process.stdin })) {
  const pending = answer(JSON.parse(line) as Request);
  told = told.then(async () => console.log(JSON.stringify(await pending)));
}
await told;
store.redis.disconnect();

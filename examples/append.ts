// Appends to a session's log from TypeScript, with the whole retry rule of docs/WRITE_PROTOCOL.md.
//
//   todo-write script append > append.lua
//
//   const log = new SessionLog(await connect("redis://127.0.0.1:6379/0"), "session-id");
//   await log.append(["turn/start", { turn: 1 }], ["todo/write", { todos: [{ content: "build", status: "pending" }] }]);
//
// To check a `todo/write` is the caller's part: the script stores what it gets, and a broken list is shown as broken.
import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis, ReplyError } from "ioredis";
import { keysOf } from "./keys.ts";

const LUA = readFileSync(new URL("append.lua", import.meta.url));
const SHA = createHash("sha1").update(LUA).digest("hex");
const BUDGET_MS = 5000;
const PASSES_BY_ITSELF =
  /^(OOM|LOADING|READONLY|BUSY|NOSCRIPT|NOREPLICAS|MISCONF|UNBLOCKED|MOVED|ASK|TRYAGAIN|CLUSTERDOWN|MASTERDOWN) |max number of clients/;

export interface Store {
  redis: Redis;
  namespace: string;
  partitions: number;
}

/** A connection that repeats nothing by itself, waits 1 s for an answer, and is replaced when it owes one. */
export async function connect(url: string, namespace = "todo"): Promise<Store> {
  const redis = new Redis(url, {
    commandTimeout: 1000,
    socketTimeout: 1000,
    connectTimeout: 1000,
    retryStrategy: () => 100,
    lazyConnect: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    reconnectOnError: (error) => error.message.startsWith("READONLY"), // another server is the primary now
  });
  redis.on("error", () => {}); // each try tells its own
  await redis.connect();
  const meta = `${namespace}:meta`;
  await redis.multi().hsetnx(meta, "layout", "1").hsetnx(meta, "partitions", "64").exec();
  const [layout, partitions] = await redis.hmget(meta, "layout", "partitions");
  if (layout !== "1") throw new Error(`${meta}: layout ${layout} is not the one of this program, 1`);
  return { redis, namespace, partitions: Number(partitions) };
}

/** One try: `["ok" | "landed", first, last]` or `["moved" | "rewound" | "unknown", position, op]`. */
export async function call(redis: Redis, keys: string[], argv: string[]): Promise<string[]> {
  const reply = redis.evalsha(SHA, keys.length, ...keys, ...argv).catch((error: Error) => {
    if (!error.message.startsWith("NOSCRIPT ")) throw error;
    return redis.eval(LUA, keys.length, ...keys, ...argv);
  });
  return reply as Promise<string[]>;
}

export class SessionLog {
  private readonly keys: string[];
  private tail?: { position: string; op: string }; // the last event this writer knows of; "new": no log
  private before: Promise<unknown> = Promise.resolve();

  constructor(private readonly store: Store, private readonly session: string) {
    this.keys = keysOf(session, store.partitions, store.namespace);
  }

  /** Appends all of the events or none, behind those of earlier calls; their positions. Rejects with what is known. */
  append(...events: [type: string, data: unknown][]): Promise<string[]> {
    const positions = this.before.then(() => this.appendNow(events));
    this.before = positions.catch(() => {});
    return positions;
  }

  private async appendNow(events: [string, unknown][]): Promise<string[]> {
    const fields = events.flatMap(([type, data]) => [type, String(Date.now()), JSON.stringify(data)]);
    const op = randomBytes(6).toString("base64url"); // the same in every try of this call, so that it lands once
    const ends = Date.now() + BUDGET_MS;
    for (let outcome = "not saved", sent = false; ; sent = false) {
      let answer: string[];
      try {
        this.tail ??= await this.readTail();
        sent = true;
        answer = await call(this.store.redis, this.keys, [this.session, this.tail.position, this.tail.op, op, ...fields]);
      } catch (error) {
        const refused = error instanceof ReplyError;
        const { message } = error as Error;
        if (sent && !refused) outcome = "may have been saved"; // no answer: only the same op can tell
        if ((refused && !PASSES_BY_ITSELF.test(message)) || Date.now() > ends) throw new Error(`${outcome}: ${message}`);
        await sleep(20 + 200 * Math.random());
        continue;
      }
      const [word, position, last] = answer as [string, string, string];
      if (word === "ok" || word === "landed") {
        this.tail = { position: last, op };
        const [epoch, seq] = position.split("-");
        return events.map((_, n) => `${epoch}-${Number(seq) + n}`);
      }
      this.tail = position ? { position, op: last } : { position: "new", op: "" }; // the server's, from now on
      if (word === "unknown") outcome = "may have been saved";
      if (word !== "moved" || Date.now() > ends) throw new Error(`${outcome}: ${word}, the log ends with ${position || "nothing"}`);
    }
  }

  private async readTail(): Promise<{ position: string; op: string }> {
    const [entry] = await this.store.redis.xrevrange(this.keys[0]!, "+", "-", "COUNT", 1);
    if (!entry) return { position: "new", op: "" };
    const [position, fields] = entry;
    const named = Object.fromEntries(fields.flatMap((name, n) => (n % 2 ? [] : [[name, fields[n + 1]!]])));
    return { position, op: named["op"] ?? "" };
  }
}

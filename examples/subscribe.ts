// Follows the plan of one session from TypeScript: the attach rule of docs/SUBSCRIBE.md, by its numbers.
//
//   const plan = new Plan("redis://127.0.0.1:6379/0", "session-id", ({ values, state }) => draw(values.todos, state));
import { Redis } from "ioredis";
import type { Deleted, Frame, Mark } from "./frames.js";
import { stemOf } from "./keys.ts";

interface Held { epoch: number; rev: string } // newer by epoch, then by the number in rev; equal only as a whole
const NOTHING: Held = { epoch: -1, rev: "0-" };
const number = ({ rev }: Held) => parseInt(rev);
const order = (a: Held, b: Held) => a.epoch - b.epoch || number(a) - number(b);
const rowOf = (pos?: string | null, rev?: string | null) => (pos ? { epoch: parseInt(pos), rev: rev ?? "0-" } : NOTHING);

export class Plan {
  values: Record<string, unknown> = {}; // no key: no such unit or session; null: no plan; []: an empty one
  stale: Record<string, Mark> = {};
  state: "live" | "behind" | "reconnecting" = "reconnecting";
  private stem = "";
  private whole = NOTHING; // the newest of all that is held
  private floor = NOTHING; // what a key holds that no frame has changed since
  private held = new Map<string, Held>(); // by key
  private kept: Map<string, Frame | Deleted> | undefined = new Map(); // while a baseline is read
  private turn: Promise<void> = Promise.resolve(); // baselines are read one after another
  private readonly redis: Redis;
  private readonly channel: Redis;
  private readonly timer = setInterval(() => void this.poll().catch(() => this.channel.disconnect(true)), 3000);

  constructor(url: string, readonly session: string, readonly show: (plan: Plan) => void, readonly namespace = "todo") {
    const options = { commandTimeout: 2000, maxRetriesPerRequest: 0, autoResubscribe: false, retryStrategy: () => 200 };
    [this.redis, this.channel] = [new Redis(url, options), new Redis(url, options)];
    for (const redis of [this.redis, this.channel]) redis.on("error", () => {}).on("close", () => this.tell("reconnecting"));
    this.channel.on("ready", () => void this.attach().catch(() => this.channel.disconnect(true)));
    this.channel.on("message", (_, message) => this.take(JSON.parse(message) as Frame | Deleted));
  }
  close = (): void => (clearInterval(this.timer), this.redis.disconnect(), this.channel.disconnect());
  private async attach() { // 1 to 3, at first and after every lost connection
    this.stem = stemOf(this.session, Number(await this.redis.hget(`${this.namespace}:meta`, "partitions") ?? 64), this.namespace);
    await this.channel.subscribe(`${this.stem}updates:${this.session}`);
    await this.read("live");
  }
  private read = (state = this.state) => (this.turn = this.turn.catch(() => {}).then(() => this.replace(state)));
  private async replace(state: Plan["state"]) { // 4
    this.kept ??= new Map();
    const row = await this.redis.hgetall(`${this.stem}proj:${this.session}`);
    const json = (name: string) => (row[name] === undefined ? [] : [[name.split(".")[0]!, JSON.parse(row[name])]]);
    const keys = (row["units"] ?? "").split(",").map((unit) => unit.split(":")[0]!);
    this.begin(rowOf(row["pos"], row["rev"]));
    this.values = Object.fromEntries(keys.flatMap(json));
    this.stale = Object.fromEntries(keys.map((key) => `${key}.stale`).flatMap(json));
    const frames = [...this.kept.values()].sort(order);
    this.kept = undefined;
    for (const frame of frames) this.take(frame);
    this.tell(state);
  }
  private begin = (held: Held) => ([this.whole, this.floor, this.values, this.stale, this.held] = [held, held, {}, {}, new Map()]);
  private take(frame: Frame | Deleted) { // 5
    const key = frame.type === "session/projection" ? frame.key : "", whole = this.whole, known = [whole];
    if (this.kept) return void (order(frame, this.kept.get(key) ?? NOTHING) > 0 && this.kept.set(key, frame));
    if (key) known.push(this.held.get(key) ?? this.floor);
    let doubt = known.some((one) => order(frame, one) === 0 && frame.rev !== one.rev);
    if (!doubt && order(frame, known.at(-1)!) > 0) {
      if (frame.type === "session/deleted") return this.begin(frame), this.show(this);
      if (frame.epoch > whole.epoch) this.begin({ epoch: frame.epoch, rev: "0-" });
      if (order(frame, this.whole) > 0) this.whole = frame;
      this.held.set(key, frame), (this.values[key] = frame.value);
      frame.stale ? (this.stale[key] = frame.stale) : delete this.stale[key];
      this.show(this);
      doubt = frame.epoch !== whole.epoch || number(frame) > number(whole) + 1;
    }
    if (doubt) void this.read().catch(() => {}); // the poll reads again
  }
  private async poll() { // 6
    const [[seconds], [pos, rev], [oldest]] = await Promise.all([this.redis.time(), this.redis.hmget(`${this.stem}proj:${this.session}`, "pos", "rev"),
      this.redis.xrange(`${this.stem}feed`, "-", "+", "COUNT", 1), this.channel.ping()]);
    const row = rowOf(pos, rev), state = oldest && Number(seconds) * 1000 - parseInt(oldest[0]) >= 3000 ? "behind" : "live";
    if (this.kept || row.epoch !== this.whole.epoch || row.rev !== this.whole.rev) await this.read(state);
    else if (state !== this.state) this.tell(state);
  }
  private tell = (state: Plan["state"]) => this.show(Object.assign(this, { state }));
}

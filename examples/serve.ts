// A TypeScript host: one `todo-write serve` for all its sessions, a session being whatever names a conversation.
import { spawn } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { createInterface } from "node:readline";

const child = spawn("todo-write", ["serve", "--parallel"], { stdio: ["pipe", "pipe", "inherit"] });
const answers = new EventEmitter().setMaxListeners(0).on("error", () => {}); // by id; an error is for all who wait
createInterface(child.stdout).on("line", (line) => answers.emit(JSON.parse(line).id, JSON.parse(line)));
child.on("close", () => answers.emit("error", new Error("todo-write serve has ended")));
child.stdin.on("error", (error) => answers.emit("error", error));
let count = 0;

async function ask(request: object): Promise<{ text: string; ok: boolean }> {
  const id = `${count++}`;
  child.stdin.write(JSON.stringify({ id, ...request }) + "\n", (error) => error && answers.emit("error", error));
  const [answer] = await once(answers, id);
  if (answer.error) throw new Error(answer.error);
  return answer;
}
/** One call: the text is the model's, a tool error unless `ok`. */
export const call = (session: string, args: unknown) => ask({ session, call: args });
/** One turn around whatever the host does for a prompt; `turn` is its number in the session, from 1. */
export async function turn<T>(session: string, turn: number, run: () => Promise<T>): Promise<T> {
  const end = (kind: string) => ask({ session, type: "turn/end", data: { turn, reason: { kind } } });
  await ask({ session, type: "turn/start", data: { turn } });
  const result = await run().catch((error) => end("error").then(() => Promise.reject(error)));
  return end("completed").then(() => result);
}
export const close = () => child.stdin.end();

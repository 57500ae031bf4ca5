// A host of one session, a turn per line: the lists a scripted model sends, or "fail". Prints what the model was told.
//   serve_driver.mjs SESSION      [[{"todos": …}, …], …] | "fail"
import { createInterface } from "node:readline";
import { call, close, turn } from "../../examples/serve.ts";

const session = process.argv[2]!;
let number = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const script = JSON.parse(line) as unknown[][] | "fail";
  const told: unknown[] = [];
  try {
    await turn(session, ++number, async () => {
      if (script === "fail") throw new Error("the model is away");
      for (const calls of script) told.push(...(await Promise.all(calls.map((args) => call(session, args)))));
    });
    console.log(JSON.stringify(told));
  } catch (error) {
    console.log(JSON.stringify({ error: (error as Error).message }));
  }
}
close();

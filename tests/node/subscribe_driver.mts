// Follows a session with the code of examples/subscribe.ts and prints what it shows, a JSON line a change.
//   subscribe_driver.mjs URL SESSION NAMESPACE
import { Plan } from "../../examples/subscribe.ts";

const [url, session, namespace] = process.argv.slice(2) as [string, string, string];
const plan = new Plan(url, session, ({ values, stale, state }) => console.log(JSON.stringify({ values, stale, state })), namespace);
process.stdin.on("end", () => plan.close()).resume();

// Requests to the gateway, by addresses relative to the page: under any prefix, behind any proxy.

export class Refused extends Error {
  constructor(status, problem) {
    super(problem?.what ?? `the gateway answered ${status}`);
    this.status = status;
    this.problem = problem;
  }
}

/** The JSON answer; raises Refused, or TypeError when nobody answers. */
export async function ask(path, parameters = {}, options = {}) {
  const answer = await fetch(address(path, parameters), { cache: "no-store", ...options });
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw new Refused(answer.status, body?.error);
  return body;
}

export function address(path, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== ""));
  return `api/${path}${query.size ? `?${query}` : ""}`;
}

export function sessionPath(session) {
  return `sessions/${encodeURIComponent(session)}`;
}

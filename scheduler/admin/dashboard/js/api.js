/**
 * Questions to the admin API, and acts: one place that speaks HTTP.
 *
 * Addresses are relative to the page, so the dashboard works under any path it is mounted at.
 * A refusal is an error with the API's own words.
 */

import { readJson, writeJson } from "./json_text.js";
import { authorization, signIn } from "./session.js";

const BASE = new URL("api/v1/", document.baseURI);

/** The API refused, or did not answer. */
export class Refused extends Error {
  constructor(status, body) {
    super(body.detail ?? "it was refused without a reason");
    this.status = status;
    this.code = body.code ?? "";
    this.body = body;
  }
}

/** Ask; parameters that are null or empty are left out, lists are repeated. */
export function ask(path, parameters = {}, options = {}) {
  const address = new URL(path, BASE);
  for (const [name, value] of Object.entries(parameters)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== "")
        address.searchParams.append(name, each);
    }
  }
  return answered(address, options);
}

/** Act. */
export function act(path, body, method = "POST") {
  return answered(new URL(path, BASE), {
    method,
    body: writeJson(body),
    headers: { "Content-Type": "application/json" },
  });
}

/** Open the event stream; the caller reads its body. */
export async function openStream(signal) {
  return sent(new URL("stream", BASE), { signal });
}

async function answered(address, options) {
  const answer = await sent(address, options);
  return answer.status === 204 ? null : readJson(await answer.text());
}

async function sent(address, options) {
  for (;;) {
    let answer;
    try {
      answer = await fetch(address, {
        ...options,
        headers: { ...options.headers, ...authorization() },
        credentials: "omit",
        cache: "no-store",
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refused(0, { detail: "the admin API does not answer", code: "no-answer" });
    }
    if (answer.status === 401) {
      await signIn();
      continue;
    }
    if (!answer.ok) throw new Refused(answer.status, await words(answer));
    return answer;
  }
}

async function words(answer) {
  try {
    return await answer.json();
  } catch {
    return { detail: `${answer.status} ${answer.statusText}` };
  }
}

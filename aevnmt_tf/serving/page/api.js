// The server's REST API, as TensorFlow Serving speaks it, and its errors as sentences.

const TIMEOUT = 120_000; // milliseconds

// What went wrong, as a sentence for people. kind: down, busy, timeout, refused, failed.
export class ServerError extends Error {
  constructor(message, kind) {
    super(message);
    this.kind = kind;
  }
}

// The names of the models.
export async function models() {
  const { models } = await ask("v1/models");
  return models;
}

export class Model {
  constructor(name) {
    this.name = name;
    this.url = `v1/models/${encodeURIComponent(name)}`;
    this.version = null;
    this.signatures = {};
    this.text = {};
  }

  // Reads the version that is served and, where that is a new one, its signatures.
  async refresh() {
    const { model_version_status: versions } = await ask(this.url);
    const ready = versions.filter((version) => version.state === "AVAILABLE");
    if (!ready.length) {
      throw new ServerError(`The model ${this.name} is not ready yet.`, "busy");
    }
    const newest = ready.map((v) => v.version).sort((a, b) => Number(b) - Number(a))[0];
    if (newest !== this.version) {
      const { metadata } = await ask(`${this.url}/metadata`);
      this.signatures = metadata.signature_def.signature_def;
      this.text = metadata.text || {}; // what kind of text it takes; only this server says so
      this.version = newest;
    }
  }

  has(signature) {
    return Object.hasOwn(this.signatures, signature);
  }

  // Whether samples draw a z: "latent", "plain" (no) or "unknown".
  kind() {
    if (this.has("embed")) return "latent";
    if (!this.has("score")) return "unknown"; // an ensemble
    return Object.hasOwn(this.signatures.score.outputs, "kl") ? "latent" : "plain";
  }

  // Outputs by name, each with one entry a sentence.
  async predict(signature, inputs, signal) {
    const body = JSON.stringify({ signature_name: signature, inputs });
    const { outputs } = await ask(`${this.url}:predict`, { method: "POST", body, signal });
    const names = Object.keys(this.signatures[signature].outputs);
    // The name of a single output is left out.
    return names.length === 1 ? { [names[0]]: outputs } : outputs;
  }
}

async function ask(url, { method = "GET", body, signal } = {}) {
  const controller = new AbortController();
  const stop = () => controller.abort();
  signal?.addEventListener("abort", stop);
  if (signal?.aborted) stop(); // its event is over
  let late = false;
  const timer = setTimeout(() => { late = true; stop(); }, TIMEOUT);
  try {
    const headers = body ? { "Content-Type": "application/json" } : {};
    const response = await fetch(url, {
      method, body, headers, signal: controller.signal, cache: "no-store",
    });
    const text = await response.text();
    if (!response.ok) throw refusal(response, text);
    return parsed(text);
  } catch (error) {
    if (error instanceof ServerError || signal?.aborted) throw error;
    if (late) throw new ServerError("The server took too long to answer.", "timeout");
    throw new ServerError("The server does not answer. Is it still running?", "down");
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", stop);
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new ServerError("The server's answer is not JSON.", "failed");
  }
}

function refusal(response, text) {
  let reason = `${response.status} ${response.statusText}`.trim();
  try {
    reason = JSON.parse(text).error || reason;
  } catch { /* Not from the server itself, perhaps from a proxy. */ }
  const { status } = response;
  if (status === 429) {
    const seconds = Number(response.headers.get("Retry-After"));
    const when = seconds > 0 ? `in ${seconds} s` : "in a moment";
    return new ServerError(`The server is busy: its queue is full. Try again ${when}.`, "busy");
  }
  if (status === 503) return new ServerError(`The server is not ready: ${reason}`, "busy");
  if (status >= 500) return new ServerError(`The server failed: ${reason}`, "failed");
  return new ServerError(`The server refused this: ${reason}`, "refused");
}

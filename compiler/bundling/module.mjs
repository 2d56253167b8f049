/* @NAME@: a model compiled by Stepwell @VERSION@ for WebAssembly with vectors of 128 bits. docs/deploy.md of Stepwell explains this interface.

   import { open } from "./@NAME@.mjs";
   const model = await open();
   const outputs = model.run({ name: new Float32Array(...) });  // or { name: { data, shape } }
@SIGNATURE@ */

/* Element types by their numbers in ONNX: name and array. Halves without an array of their own are their bits. */
const Half = globalThis.Float16Array ?? Uint16Array;
const TYPES = {
  1: ["float32", Float32Array], 2: ["uint8", Uint8Array], 3: ["int8", Int8Array], 4: ["uint16", Uint16Array], 5: ["int16", Int16Array],
  6: ["int32", Int32Array], 7: ["int64", BigInt64Array], 9: ["bool", Uint8Array], 10: ["float16", Half], 11: ["float64", Float64Array],
  12: ["uint32", Uint32Array], 13: ["uint64", BigUint64Array], 16: ["bfloat16", Uint16Array], 17: ["float8_e4m3fn", Uint8Array],
  18: ["float8_e4m3fnuz", Uint8Array], 19: ["float8_e5m2", Uint8Array], 20: ["float8_e5m2fnuz", Uint8Array], 21: ["uint4", Uint8Array],
  22: ["int4", Int8Array], 23: ["float4_e2m1fn", Uint8Array], 24: ["float8_e8m0fnu", Uint8Array], 25: ["uint2", Uint8Array], 26: ["int2", Int8Array],
};
const KINDS = ["", "bad argument", "bad weights", "bad cpu", "no memory", "limit", "bad sizes", "bad index", "cancelled"];
const BAD_ARGUMENT = 1, NO_MEMORY = 4;
const UNVERIFIED = 1;
const SECTION = "stepwell.weights"; // of a module with embedded weights
const TENSOR = 144, SHAPE = 16; // stepwell_tensor of the header: bytes, and where its sizes begin
const MAX_RANK = 16;

/** An error of the run time: `status` is its number in the header, `kind` its name. */
export class StepwellError extends Error {
  constructor(status, message) {
    super(message);
    this.name = "StepwellError";
    this.status = status;
    this.kind = KINDS[status] ?? "";
  }
}

const bad = (message) => new StepwellError(BAD_ARGUMENT, `@NAME@: ${message}`);

/* Bytes at a URL, in a file of Node, or in memory. */
async function bytesOf(source, what) {
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  if (typeof source !== "string" && !(source instanceof URL)) throw bad(`${what}: expected a URL or bytes, got ${source === null ? "null" : typeof source}`);
  const url = new URL(source, globalThis.location?.href ?? `file://${globalThis.process?.cwd()}/`);
  if (url.protocol === "file:" && globalThis.process?.versions?.node) {
    const files = await import(/* @vite-ignore */ /* webpackIgnore: true */ "node:fs/promises");
    return files.readFile(url);
  }
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${answer.statusText}`);
  return new Uint8Array(await answer.arrayBuffer());
}

/** Open the model: its module, and the file of its weights unless they are embedded, as URLs or bytes. Both are beside this file by default. */
export async function open(source = new URL("@NAME@.wasm", import.meta.url), weights = undefined, { verify = true } = {}) {
  const module = source instanceof WebAssembly.Module ? source : await WebAssembly.compile(await bytesOf(source, "module"));
  const embedded = WebAssembly.Module.customSections(module, SECTION)[0];
  const given = weights ?? embedded ?? new URL("@NAME@.weights", typeof source === "string" || source instanceof URL ? new URL(source, import.meta.url) : import.meta.url);
  const content = await bytesOf(given, "weights");
  const { exports } = await WebAssembly.instantiate(module);
  return new Model(exports, content, verify ? 0 : UNVERIFIED);
}

/** A model with its state. Each is independent of all others, and so is each that `open` returns for one bundle. */
export class Model {
  #code;
  #inputs;
  #outputs;
  #buffers;
  #tensors;

  constructor(exports, weights, flags) {
    this.#code = exports;
    const memory = this.#take(weights.length);
    new Uint8Array(exports.memory.buffer, memory, weights.length).set(weights);
    const status = exports.open(memory, weights.length, flags);
    if (status !== 0) throw this.#error(status);
    this.#inputs = this.#infos(false);
    this.#outputs = this.#infos(true);
    this.#buffers = this.#inputs.map(() => ({ at: 0, bytes: 0 }));
    this.#tensors = this.#take((this.#inputs.length + this.#outputs.length + 1) * TENSOR);
  }

  /** What the model takes: name, dtype, and shape, in which a free size is its name, and one that only a run can tell null. */
  get inputs() { return this.#inputs; }

  /** What it returns. */
  get outputs() { return this.#outputs; }

  /** Run on arrays by name; returns `{ name: { data, shape, dtype } }`. Throws StepwellError. */
  run(arrays) {
    if (this.#code === null) throw bad("the model is closed");
    const unknown = Object.keys(arrays ?? {}).find((name) => !this.#inputs.some((info) => info.name === name));
    if (unknown !== undefined) throw bad(`unknown input '${unknown}', expected ${this.#inputs.map((info) => info.name).join(", ")}`);
    this.#inputs.forEach((info, number) => this.#give(info, number, arrays?.[info.name]));
    const results = this.#tensors + this.#inputs.length * TENSOR;
    new Uint8Array(this.#code.memory.buffer, results, this.#outputs.length * TENSOR).fill(0);
    const status = this.#run(results);
    try {
      if (status !== 0) throw this.#error(status);
      return Object.fromEntries(this.#outputs.map((info, number) => [info.name, this.#result(info, results + number * TENSOR)]));
    } finally {
      this.#outputs.forEach((_, number) => this.#free(results + number * TENSOR));
    }
  }

  /** Forget the state that the model keeps from run to run, such as KV caches. */
  reset() {
    if (this.#code === null) throw bad("the model is closed");
    this.#code.reset();
  }

  /** Give the memory back; no run may follow. */
  close() { this.#code = null; }

  get #view() { return new DataView(this.#code.memory.buffer); }

  #take(bytes) {
    const at = this.#code.take(bytes) >>> 0;
    if (at === 0) throw new StepwellError(NO_MEMORY, `@NAME@: no memory for ${bytes} bytes`);
    return at;
  }

  #error(status) { return new StepwellError(status, this.#text(this.#code.message())); }

  #text(address) {
    const memory = new Uint8Array(this.#code.memory.buffer), at = address >>> 0;
    return new TextDecoder().decode(memory.slice(at, memory.indexOf(0, at)));
  }

  #infos(output) {
    const infos = [];
    for (let number = 0; ; ++number) {
      const at = this.#code.info(output, number) >>> 0, view = this.#view;
      if (at === 0) return Object.freeze(infos);
      const [name, type, rank, sizes, symbols] = [0, 4, 8, 12, 16].map((offset) => view.getUint32(at + offset, true));
      const shape = Array.from({ length: rank }, (_, d) => {
        const size = view.getBigInt64(sizes + 8 * d, true), symbol = symbols && view.getUint32(symbols + 4 * d, true);
        return size >= 0n ? Number(size) : symbol ? this.#text(symbol) : null;
      });
      infos.push(Object.freeze({ name: this.#text(name), dtype: TYPES[type][0], shape: Object.freeze(shape), type }));
    }
  }

  /* Copy an input to the module's memory, and describe it there. */
  #give(info, number, given) {
    const Kind = TYPES[info.type][1], what = `input '${info.name}'`;
    if (given === undefined || given === null) throw bad(`${what}: expected an array, got ${given}`);
    const data = ArrayBuffer.isView(given) ? given : given.data;
    const fits = data instanceof Kind || (Kind === Half && data instanceof Uint16Array) || (Kind === Uint8Array && data instanceof Uint8ClampedArray);
    if (!fits) throw bad(`${what}: expected ${Kind.name} for ${info.dtype}, got ${data?.constructor?.name ?? typeof data}`);
    const shape = Array.from(given.shape ?? shapeOf(info, data.length, what));
    if (shape.length > MAX_RANK || !shape.every((size) => Number.isSafeInteger(size) && size >= 0))
      throw bad(`${what}: expected a shape of at most ${MAX_RANK} sizes, got ${shape.join("x")}`);
    if (shape.reduce((count, size) => count * size, 1) !== data.length)
      throw bad(`${what}: expected as many elements as a shape of ${shape.join("x") || "a scalar"} has, got ${data.length}`);
    const buffer = this.#buffers[number];
    if (buffer.bytes < data.byteLength || buffer.at === 0) {
      if (buffer.at !== 0) this.#code.give(buffer.at);
      buffer.at = buffer.bytes = 0;
      buffer.at = this.#take(data.byteLength);
      buffer.bytes = data.byteLength;
    }
    new Uint8Array(this.#code.memory.buffer, buffer.at, data.byteLength).set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    const at = this.#tensors + number * TENSOR, view = this.#view;
    [buffer.at, data.byteLength, info.type, shape.length].forEach((value, place) => view.setUint32(at + 4 * place, value, true));
    shape.forEach((size, d) => view.setBigInt64(at + SHAPE + 8 * d, BigInt(size), true));
  }

  #run(results) {
    try {
      return this.#code.run(this.#tensors, results);
    } catch (error) { // such as too deep a recursion: what the memory holds is then undefined
      this.close();
      throw new StepwellError(NO_MEMORY, `@NAME@: the module failed: ${error.message}`);
    }
  }

  #result(info, at) {
    const view = this.#view, Kind = TYPES[info.type][1], start = view.getUint32(at, true), bytes = view.getUint32(at + 4, true);
    const shape = Array.from({ length: view.getInt32(at + 12, true) }, (_, d) => Number(view.getBigInt64(at + SHAPE + 8 * d, true)));
    return { data: new Kind(this.#code.memory.buffer.slice(start, start + bytes)), shape, dtype: info.dtype };
  }

  /* Free what a run has allocated: outputs without elements have no memory of their own. */
  #free(at) {
    if (this.#code !== null && this.#view.getUint32(at + 4, true) !== 0) this.#code.give(this.#view.getUint32(at, true));
  }
}

/* The shape of an array that was given without one. */
function shapeOf(info, count, what) {
  const free = info.shape.filter((size) => typeof size !== "number").length;
  if (free > 1) throw bad(`${what}: expected { data, shape } for ${info.shape.join("x")}, got an array without a shape`);
  const known = info.shape.reduce((product, size) => (typeof size === "number" ? product * size : product), 1);
  return info.shape.map((size) => (typeof size === "number" ? size : known === 0 ? 0 : count / known));
}

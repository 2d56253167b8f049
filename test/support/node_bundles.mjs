/* Runs bundles for WebAssembly: the request is a file of JSON, arrays are parts of binary files (node_bundles.py). */
import fs from "node:fs";
import { pathToFileURL } from "node:url";

const KINDS = {
  float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array,
  uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array, bool: Uint8Array, float16: Uint16Array, bfloat16: Uint16Array,
};
const answers = [];
for (const { module, data, out, runs } of JSON.parse(fs.readFileSync(process.argv[2], "utf8"))) {
  const bytes = fs.readFileSync(data), written = [], answer = [];
  let at = 0, model;
  try {
    model = await (await import(pathToFileURL(module))).open();
  } catch (error) {
    answers.push([{ name: error.name, kind: error.kind ?? "", message: error.message }]);
    continue;
  }
  for (const run of runs) {
    if (run === null) {
      model.reset();
      continue;
    }
    const feed = Object.fromEntries(run.map(({ name, dtype, shape, offset, count }) => {
      const Kind = KINDS[dtype], size = Kind.BYTES_PER_ELEMENT * count;
      return [name, { data: new Kind(bytes.buffer.slice(bytes.byteOffset + offset, bytes.byteOffset + offset + size)), shape }];
    }));
    try {
      answer.push(Object.entries(model.run(feed)).map(([name, { data, shape, dtype }]) => {
        written.push(Buffer.from(data.buffer, data.byteOffset, data.byteLength));
        at += data.byteLength;
        return { name, shape, dtype, offset: at - data.byteLength };
      }));
    } catch (error) {
      answer.push({ name: error.name, kind: error.kind ?? "", message: error.message });
    }
  }
  fs.writeFileSync(out, Buffer.concat(written));
  answers.push(answer);
}
process.stdout.write(JSON.stringify(answers));

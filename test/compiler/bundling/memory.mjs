/* Takes and gives memory of a module at random, and checks that blocks are aligned, keep their content, and become one when all are given back. */
import fs from "node:fs";

const { exports } = await WebAssembly.instantiate(new WebAssembly.Module(fs.readFileSync(process.argv[2])));
const SIZE = 3_000_000, held = [];
let state = 50;
const random = (below) => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) % below;
const bytes = (at, count) => new Uint8Array(exports.memory.buffer, at, count);
const expect = (fact, message) => {
  if (!fact) throw new Error(message);
};
const give = (place) => {
  const [{ at, count, mark }] = held.splice(place, 1);
  expect(bytes(at, count).every((byte) => byte === mark), "a block has lost its content");
  exports.give(at);
};
exports.give(exports.take(SIZE));
const before = exports.memory.buffer.byteLength;
for (let round = 0; round < 3000; ++round) {
  if (held.length < 40 && random(3) > 0) {
    const count = random(random(4) ? 300 : 60_000), at = exports.take(count) >>> 0, mark = round % 251;
    expect(at !== 0 && at % 64 === 0, `a block at ${at}`);
    bytes(at, count).fill(mark);
    held.push({ at, count, mark });
  } else if (held.length) {
    give(random(held.length));
  }
}
while (held.length) give(random(held.length));
expect(exports.take(SIZE) !== 0 && exports.memory.buffer.byteLength === before, "memory is not one block again");
expect(exports.take(2 ** 31) === 0 && exports.take(2 ** 32 - 1) === 0, "more memory than there is");

/* Draws strokes, turns them into the 8 x 8 grey pixels that the network was trained on, and shows its probabilities. */
import { open } from "./digits/digits.mjs";

const SIDE = 8, CELL = 4; // pixels of the network's image, and of the larger image that each is the mean of
const FINE = SIDE * CELL;
const TALL = FINE - 6, WIDE = 20; // most of what a digit of the training data takes up, from the middle of its strokes
const STROKE = 6; // the width of its strokes

const pad = document.getElementById("pad"), pen = pad.getContext("2d");
const seen = document.getElementById("seen").getContext("2d");
const fine = Object.assign(document.createElement("canvas"), { width: FINE, height: FINE }).getContext("2d", { willReadFrequently: true });
const answer = document.getElementById("answer");
const rows = Array.from({ length: 10 }, (_, digit) => addRow(digit));
const strokes = [];
let model = null;

function addRow(digit) {
  const row = document.createElement("li"), [name, track, share] = ["span", "div", "span"].map((kind) => row.appendChild(document.createElement(kind)));
  const fill = track.appendChild(document.createElement("div"));
  name.textContent = digit;
  [track.className, fill.className, share.className] = ["track", "fill", "share"];
  document.getElementById("bars").append(row);
  return { row, fill, share };
}

function trace(context, points, width) {
  context.lineWidth = width;
  context.lineCap = context.lineJoin = "round";
  context.beginPath();
  points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
  if (points.length === 1) context.lineTo(points[0][0] + 0.01, points[0][1]);
  context.stroke();
}

/* Scale and centre the strokes as the training data are, and take the mean of each 4 x 4 block. */
function pixels() {
  const all = strokes.flat(), ends = (axis) => [Math.min(...all.map((p) => p[axis])), Math.max(...all.map((p) => p[axis]))];
  const [left, right] = ends(0), [top, bottom] = ends(1);
  const down = Math.min(TALL / Math.max(bottom - top, 1), (2 * WIDE) / Math.max(right - left, 1), 0.2), across = Math.min(down, WIDE / Math.max(right - left, 1));
  const place = ([x, y]) => [FINE / 2 + (x - (left + right) / 2) * across, FINE / 2 + (y - (top + bottom) / 2) * down];
  fine.clearRect(0, 0, FINE, FINE);
  for (const stroke of strokes) trace(fine, stroke.map(place), STROKE);
  const { data } = fine.getImageData(0, 0, FINE, FINE), image = new Float32Array(SIDE * SIDE);
  for (let y = 0; y < FINE; ++y)
    for (let x = 0; x < FINE; ++x)
      image[Math.floor(y / CELL) * SIDE + Math.floor(x / CELL)] += data[4 * (y * FINE + x) + 3] / (255 * CELL * CELL);
  return image;
}

function show(image, probabilities) {
  const colour = getComputedStyle(document.body).color;
  pen.clearRect(0, 0, pad.width, pad.height);
  pen.strokeStyle = colour;
  for (const stroke of strokes) trace(pen, stroke, pad.width / 14);
  seen.clearRect(0, 0, SIDE, SIDE);
  seen.fillStyle = colour;
  image?.forEach((grey, at) => {
    seen.globalAlpha = Math.min(grey, 1);
    seen.fillRect(at % SIDE, Math.floor(at / SIDE), 1, 1);
  });
  const best = probabilities ? probabilities.indexOf(Math.max(...probabilities)) : -1;
  rows.forEach(({ row, fill, share }, digit) => {
    const part = probabilities ? probabilities[digit] : 0;
    row.classList.toggle("best", digit === best);
    fill.style.width = `${100 * part}%`;
    share.textContent = probabilities ? `${(100 * part).toFixed(1)} %` : "–";
  });
  answer.textContent = probabilities ? `This is a ${best}.` : model ? "Draw with the mouse, a pen or a finger." : answer.textContent;
}

function classify() {
  const image = strokes.length ? pixels() : null;
  show(image, image && model ? model.run({ image }).probability.data : null);
}

function point(event) {
  const box = pad.getBoundingClientRect();
  return [((event.clientX - box.left) * pad.width) / box.width, ((event.clientY - box.top) * pad.height) / box.height];
}

pad.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  pad.setPointerCapture(event.pointerId);
  strokes.push([point(event)]);
  classify();
});
pad.addEventListener("pointermove", (event) => {
  if (!pad.hasPointerCapture(event.pointerId)) return;
  strokes.at(-1).push(...(event.getCoalescedEvents?.() ?? [event]).map(point));
  classify();
});
document.getElementById("clear").addEventListener("click", () => {
  strokes.length = 0;
  classify();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", classify);

show(null, null);
try {
  model = await open();
  classify();
} catch (error) {
  answer.textContent = `The model cannot be loaded: ${error.message}`;
}

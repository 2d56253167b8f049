"""The network that reads lines of text in the package rapidocr-onnxruntime (PP-OCRv4), on lines that are drawn here."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from real_data.packages import file_of
from real_data.trial import Answer, Outputs, Say, Trial, as_feeds, equal, for_samples

__all__ = ["character_accuracy", "drawn_line", "trials"]

CALIBRATION, LINES = 48, 300
HEIGHT, WIDTH = 48, 320  # what the network reads
FONTS = [
    "DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSansMono", "DejaVuSerif", "DejaVuSerif-Italic", "STIXGeneral", "STIXGeneralBol",
]  # fmt: skip
BEGINNINGS = [*"bcdfghklmnprstvw", "br", "ch", "cl", "fl", "gr", "pl", "sh", "st", "th", "tr"]
VOWELS = [*"aeiou", "ea", "oo"]
ENDINGS = [*"nrstl", "ck", "nd"]


def trials(folds: int, say: Say) -> Iterator[Trial]:
    """One trial: nothing is trained here, so that there are no folds."""
    say("ocr: drawing lines of text")
    model = onnx.load(file_of("rapidocr_onnxruntime", "models/*_rec_infer.onnx"))
    fonts = [file_of("matplotlib", f"mpl-data/fonts/ttf/{name}.ttf") for name in FONTS]
    random = np.random.default_rng(5)
    drawn = [drawn_line(random, fonts) for _ in range(CALIBRATION + LINES)]
    alphabet = _alphabet(model)
    feeds = as_feeds((_pixels(image) for image, _ in drawn), model.graph.input[0].name)
    name = model.graph.output[0].name

    def answer(outputs: Outputs) -> str:
        return _decoded(outputs[name][0], alphabet)

    texts: list[Answer | None] = [text.replace(" ", "") for _, text in drawn[CALIBRATION:]]
    scores = {"accuracy": equal, "characters": character_accuracy}
    yield Trial("ocr", 0, for_samples(model, feeds[0]), feeds[:CALIBRATION], feeds[CALIBRATION:], texts, answer, scores)


def drawn_line(random: np.random.Generator, fonts: Sequence[Path]) -> tuple[Image.Image, str]:
    """A line of one to three words or numbers, a little turned, blurred and noisy, and its text."""
    text = " ".join(_word(random) for _ in range(random.integers(1, 4)))
    font = ImageFont.truetype(str(fonts[int(random.integers(len(fonts)))]), int(random.integers(22, 40)))
    left, top, right, bottom = (int(side) for side in font.getbbox(text))
    margin = int(random.integers(4, 10))
    paper, ink = int(random.integers(180, 256)), int(random.integers(0, 90))
    image = Image.new("L", (right - left + 2 * margin, bottom - top + 2 * margin), paper)
    ImageDraw.Draw(image).text((margin - left, margin - top), text, fill=ink, font=font)
    image = image.rotate(float(random.uniform(-1.5, 1.5)), Image.Resampling.BICUBIC, fillcolor=paper)
    image = image.filter(ImageFilter.GaussianBlur(float(random.uniform(0, 0.8))))
    noisy = np.asarray(image, np.float32) + random.normal(0, random.uniform(0, 12), (image.height, image.width))
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8)), text


def _word(random: np.random.Generator) -> str:
    if random.random() < 0.3:
        number = float(random.integers(1, 10 ** int(random.integers(1, 7))))
        return f"{number / 100:.2f}" if random.random() < 0.4 else f"{number:.0f}"
    word = "".join(str(random.choice(BEGINNINGS)) + str(random.choice(VOWELS)) for _ in range(random.integers(1, 3))) + str(random.choice(ENDINGS))
    return str(random.choice([word, word, word.capitalize(), word.upper()]))


def _pixels(image: Image.Image) -> np.ndarray:
    """float32[3, 48, 320] from -1 to 1: as high as that, with the same sides while it is not too wide, and zeros on the right."""
    width = min(WIDTH, -(-HEIGHT * image.width // image.height))
    resized = np.asarray(image.resize((width, HEIGHT), Image.Resampling.BILINEAR), np.float32) / 127.5 - 1
    padded = np.zeros((3, HEIGHT, WIDTH), np.float32)
    padded[:, :, :width] = resized
    return padded


def _alphabet(model: onnx.ModelProto) -> list[str]:
    """The symbol of each of the network's classes: the blank, those listed in its file, and the space."""
    (listed,) = [entry.value for entry in model.metadata_props if entry.key == "character"]
    return ["", *listed.splitlines(), " "]


def _decoded(scores: np.ndarray, alphabet: Sequence[str]) -> str:
    """The best path through `scores` [steps, classes], repetitions and blanks left out (Graves et al., 2006), without spaces.

    The network often misses spaces or adds them; the evaluation that it was made with ignores them, too.
    """
    best = scores.argmax(-1)
    starts = np.flatnonzero(np.diff(best, prepend=-1))
    return "".join(alphabet[best[start]] for start in starts).replace(" ", "")


def character_accuracy(answer: Answer, truth: Answer) -> float:
    """1 - edit distance (Levenshtein, 1966) / length of the true text, and at least 0."""
    read, text = str(answer), str(truth)
    row = list(range(len(text) + 1))
    for i, character in enumerate(read):
        diagonal, row[0] = row[0], i + 1
        for j, other in enumerate(text):
            diagonal, row[j + 1] = row[j + 1], min(row[j] + 1, row[j + 1] + 1, diagonal + (character != other))
    return max(0.0, 1 - row[-1] / len(text))

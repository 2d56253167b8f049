"""The example of a page: digits that are drawn in it are classified."""

import http.server
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from chromium import needs_chromium, open_page
from doc_examples import read
from node_bundles import needs_node

from stepwell.cli.main import main

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "browser"
MOST = 150_000  # bytes of all that the page loads
STROKES = {  # in hundredths of the area
    0: [[(50, 20), (38, 26), (33, 40), (32, 55), (36, 70), (48, 80), (60, 76), (67, 62), (68, 45), (64, 28), (54, 20), (50, 20)]],
    1: [[(40, 32), (52, 20), (52, 40), (52, 60), (52, 82)]],
    4: [[(56, 18), (45, 38), (32, 58), (50, 58), (72, 58)], [(60, 40), (59, 60), (57, 84)]],
    7: [[(30, 22), (50, 21), (70, 21), (62, 40), (52, 60), (46, 84)], [(40, 52), (68, 50)]],
}


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and prints nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The URL of a server of a folder on this machine."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_digits_that_are_drawn_are_classified(tmp_path: Path) -> None:
    needs_node()
    needs_chromium()
    folder = tmp_path / "page"
    folder.mkdir()
    for file in ("index.html", "draw.js"):
        shutil.copy(EXAMPLE / file, folder)
    command = next(command.text for command in read(EXAMPLE / "README.md")[0] if command.text.startswith("stepwell bundle"))
    assert command.endswith(" -o examples/browser/digits")
    words = command.split()[1:-1]
    assert main([*(str(ROOT / word) if word.startswith("examples/") else word for word in words), str(folder / "digits")]) == 0
    loaded = [folder / "index.html", folder / "draw.js", *(folder / "digits" / f"digits.{ending}" for ending in ("mjs", "wasm", "weights"))]
    assert sum(file.stat().st_size for file in loaded) < MOST
    with served(folder) as url, open_page(url, tmp_path) as page:
        page.wait_for("document.getElementById('answer')?.textContent.startsWith('Draw with')")
        box = page.value("(({x, y, width}) => [x, y, width])(document.getElementById('pad').getBoundingClientRect())")
        for draw in (page.drag, page.touch):
            for digit, strokes in STROKES.items():
                for stroke in strokes:
                    draw([(box[0] + box[2] * x / 100, box[1] + box[2] * y / 100) for x, y in stroke])
                assert page.value("document.getElementById('answer').textContent") == f"This is a {digit}."
                assert page.value("document.querySelector('.best').firstChild.textContent") == str(digit)
                page.value("document.getElementById('clear').click()")
        assert page.value("document.querySelectorAll('.best').length") == 0
        requests = page.value("performance.getEntriesByType('resource').map((entry) => entry.name)")
        assert {name.rpartition("/")[2] for name in requests} == {"draw.js", "digits.mjs", "digits.wasm", "digits.weights"}
        assert all(name.startswith(url) for name in requests)

"""How a recurrent layer is cut into pieces that run on threads."""

from dataclasses import replace

from every import every

from stepwell.dialects.target.registry import resolve
from stepwell.passes.schedule.sequences import chunks_on_threads

SMALL, LARGE = (4, 8, 128, 16), (4, 32, 512, 16)  # weights that a core's own cache holds, and that it does not


@every(
    ("steps", "directions", "batch", "weights", "cores", "chunks"),
    [
        (50, 2, 8, SMALL, 1, 0),  # nothing to share
        (50, 2, 8, SMALL, 2, 1),  # a direction each
        (50, 1, 8, SMALL, 2, 2),  # a part of the batch each
        (50, 2, 8, SMALL, 4, 2),  # both
        (50, 2, 1, SMALL, 2, 1),
        (50, 1, 1, SMALL, 2, 0),  # one sequence in one direction
        (50, 1, 2, SMALL, 2, 0),  # a product of one row takes as long as one of two
        (50, 1, 7, SMALL, 2, 0),  # chunks have as many sequences each
        (50, 1, 9, SMALL, 4, 3),
        (1, 2, 1, (1, 1, 16, 16), 2, 0),  # too little to do
        (50, 1, 8, LARGE, 2, 2),
        (50, 1, 8, LARGE, 8, 0),  # all cores read a part of the weights in each step; two would read all of them
        (50, 0, 8, SMALL, 2, 0),
        (50, 2, 0, SMALL, 2, 0),
        (0, 2, 8, SMALL, 2, 0),
    ],
)
def test_chunks(steps: int, directions: int, batch: int, weights: tuple[int, ...], cores: int, chunks: int) -> None:
    target = replace(resolve("x86-64-v3"), cores=cores)
    assert chunks_on_threads(steps, directions, batch, weights, 32, target) == chunks


def test_narrow_weights_are_near() -> None:
    """They fill half of the cache, so that chunks of few sequences read them as fast as large ones."""
    target = replace(resolve("x86-64-v3"), cores=4)
    size = int(0.6 * target.caches.l2)
    assert chunks_on_threads(50, 1, 8, (size // 2,), 16, target) == 4
    assert chunks_on_threads(50, 1, 8, (size // 2,), 32, target) == 0

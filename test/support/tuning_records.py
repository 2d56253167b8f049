"""Records of tuning from a machine that never was: the times of schedules follow a rule that the analytic model knows only half of."""

import math
from collections.abc import Iterator
from random import Random

from stepwell.database.records import Candidate, Phase, Samples, State, Workload, WorkloadInfo
from stepwell.tuning.outcomes import Record

UNROLLS, WIDTHS, DEPTHS = (1, 2, 3, 4, 6, 8, 12), (4, 8, 16), (0, 1, 2, 4)


def seconds(size: int, unroll: int, width: int, depth: int) -> float:
    """Rows of tiles, the more at once the better; but more than 64 numbers spill, and wide vectors do not pay for small sizes."""
    return 1.0 / unroll + (1.0 if unroll * width > 64 else 0.0) + (0.5 if width == 16 and size < 64 else 4 / width) + 0.02 * depth


def predicted(unroll: int, depth: int) -> float:
    """The analytic model knows nothing of spills and widths."""
    return 1.0 / unroll + 0.02 * depth


def records(networks: int = 4, kernels: int = 6, candidates: int = 30, seed: int = 0, kind: str = "schedule") -> Iterator[Record]:
    """Each kernel of each network with random candidates, the default first; some of them crash."""
    random = Random(seed)
    for network in range(networks):
        for kernel in range(kernels):
            size = random.choice((16, 32, 64, 256, 1024))
            workload = Workload(kind, f"{network}:{kernel}", "", "target", 1)
            info = WorkloadInfo(f"kernel{kernel}", f"net{network}", (), {"size": float(size)})
            others = [(u, w, d) for u in UNROLLS for w in WIDTHS for d in DEPTHS if (u, w, d) != (4, 4, 0)]
            knobs = [(4, 4, 0), *random.sample(others, candidates - 1)]
            usual = seconds(size, *knobs[0])
            for unroll, width, depth in knobs:
                text = f"unroll={unroll} width={width} depth={depth}"
                fails = unroll == 12 and width >= 8
                features = {"unroll": float(unroll), "width": float(width), **({"depth": float(depth)} if depth else {})}
                candidate = Candidate(
                    text, "default" if (unroll, width, depth) == knobs[0] else "random", State.CRASHED if fails else State.BUILT,
                    predicted=1e-6 * predicted(unroll, depth), features=features,
                )  # fmt: skip
                ratios = tuple(math.log(seconds(size, unroll, width, depth) / usual) + random.gauss(0, 0.01) for _ in range(5))
                samples = [] if fails else [Samples(text, "unroll=4 width=4 depth=0", Phase.SEARCH, ratios, 1e-6, "cpu")]
                yield workload, info, candidate, samples, f"net{network}"

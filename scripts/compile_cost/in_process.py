"""Programs that run in a separate process, with the package of one of the checkouts, and print the cost of parts as a line of JSON.

They are called with `levels`, `passes` or `onnxruntime`, and the file of a model.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any


def levels(path: str) -> dict[str, float]:
    """CPU seconds of this process until the package is imported, then for each level, then for a run. Compiler processes are not included."""
    import stepwell

    found: dict[str, float] = {}

    def reached(level: str, _: float = 0.0) -> None:
        # The clock starts with the process. What a level imports is part of the level, as it is in a command.
        found[level] = time.process_time() - sum(found.values())

    reached("import")
    model = stepwell.compile(path, on_level=reached)
    reached("load")
    shapes = [[size for size in info.shape if isinstance(size, int)] for info in model.inputs]
    if all(len(shape) == len(info.shape) for shape, info in zip(shapes, model.inputs, strict=True)):  # none is free
        import numpy as np

        model(*(np.ones(shape, info.dtype) for shape, info in zip(shapes, model.inputs, strict=True)))
        reached("run")
    return found


def passes(path: str) -> dict[str, tuple[float, int]]:
    """CPU seconds of each pass, verification of its result included, and how often it ran. All passes run in this process."""
    import stepwell
    from stepwell.passes.framework.instrumentation import Instrumentation

    found: dict[str, tuple[float, int]] = {}

    class Watch(Instrumentation):
        begin_of_pass = 0.0

        def before(self, *_: Any) -> None:
            self.begin_of_pass = time.process_time()

        def after(self, step: Any, *_: Any) -> None:
            seconds, count = found.get(step.name, (0.0, 0))
            found[step.name] = seconds + time.process_time() - self.begin_of_pass, count + 1

    stepwell.compile(path, cache=False, instrumentation=Watch())
    return found


def onnxruntime(path: str) -> dict[str, float]:
    """CPU seconds of this process for the import, then for the session and a run."""
    import numpy as np
    import onnxruntime as ort

    imported = time.process_time()
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(bool)": np.bool_}
    kinds |= {f"tensor({sign}int{bits})": np.dtype(f"{sign}int{bits}").type for sign in ("", "u") for bits in (8, 16, 32, 64)}
    shapes = {x: [size if isinstance(size, int) else 1 for size in x.shape] for x in session.get_inputs()}
    session.run(None, {x.name: np.ones(shape, kinds[x.type]) for x, shape in shapes.items()})
    return {"import": imported, "session": time.process_time() - imported}


PROGRAMS: dict[str, Callable[[str], Any]] = {"levels": levels, "passes": passes, "onnxruntime": onnxruntime}

if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file, whose modules nobody means to import
    print(json.dumps(PROGRAMS[sys.argv[1]](sys.argv[2])))

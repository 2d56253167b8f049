"""A version of kernels for one row: code that asks for no threads, beside the code for all numbers of rows.

    stepwell inspect model.onnx --specialise never --explain product --load examples/plugins/own_version.py

For one row there is seldom enough work for several threads, but the code for all sizes computes how much there is before it decides. The version does
not ask. A plan chooses otherwise for one node: `{"version": 2, "choices": {"version-serial": {"product": "one version"}}}`.
"""

from dataclasses import dataclass, replace

from stepwell.plugin import KernelVersionPass, PassState, ScheduleInfo, Structured, VersionProposal, func, ops_below, register_pass


@register_pass("version-serial", level="scheduled", after="assign-schedules", optional=True)
@dataclass
class VersionSerial(KernelVersionPass):
    """Give kernels whose threaded loops have one dynamic size a version that runs on one thread, for small values of that size.

    rewrite: @k { generic {sched.nest = <parallel = 1>} }  ->  @k and @k.few { generic {sched.nest = <parallel = 0>} }
    """

    same_bits = True  # the number of threads changes no result
    most: int = 1

    def propose(self, subject: func.FuncOp, state: PassState) -> VersionProposal[func.FuncOp] | None:
        threaded = [Structured(op) for op in ops_below(subject.operation, "linalg.generic") if ScheduleInfo(op).nest.parallel]
        sizes = {size for op in threaded for size in op.bounds if not isinstance(size, int)}
        if len(sizes) != 1:
            return None
        return VersionProposal(threaded[0].operation, sizes.pop(), self.most, on_one_thread, reason="which asks for no threads")


def on_one_thread(copy: func.FuncOp) -> None:
    """Let all loops of a kernel run on the calling thread."""
    for op in ops_below(copy.operation, "linalg.generic"):
        ScheduleInfo(op).nest = replace(ScheduleInfo(op).nest, parallel=0)


if __name__ == "__main__":
    import re

    import numpy as np
    import small_models

    import stepwell

    random = np.random.default_rng(0)
    x, w = random.standard_normal((5, 64), np.float32), random.standard_normal((64, 48), np.float32)
    y = np.maximum(x.astype(np.float64) @ w, 0)
    model = small_models.chain([("MatMul", ["x", "w"], {}), ("Relu", ["@"], {})], x, y.astype(np.float32), w=w)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    few, every = stepwell.lower(model, "scheduled", specialise="never").text().split("func.func private")[1:]
    assert [set(re.findall("parallel = ([0-9])", code)) > {"0"} for code in (few, every)] == [False, True], "products for one row use no threads"
    compiled = stepwell.compile(model, specialise="never")
    for rows in (1, 5):
        error = np.abs(compiled.run({"x": x[:rows]})["y"] - y[:rows]).max()
        print(f"{rows} rows: the greatest error is {error:.3g}")
        assert error <= 1e-5 * np.abs(y).max()

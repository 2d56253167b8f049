"""What the graph passes must not change: random graphs, evaluated by reference meanings before and after."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import stepwell.passes.graph  # noqa: F401  (registers the passes)
from stepwell.dialects.core.mlir import func, ir, make_context, ops_below
from stepwell.dialects.core.types import TensorType, type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.interpreter.evaluate import evaluate
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.rewriting import find_function
from stepwell.passes.framework.runner import PassRunner

CONTEXT = make_context()
PIPELINE = (
    "fold-constants,remove-identities,simplify-algebra,fold-batch-norm,fold-constants,remove-identities,canonicalize,cse,"
    "use-sub-pixels,make-padding-explicit,fold-constants,remove-identities,use-products,convert-layout,canonicalize,skip-padding,pack-matmul,cse,"
    "remove-identities,fuse-operators,outline-kernels"
)
PIPELINES = (
    "fold-constants", "remove-identities", "simplify-algebra", "fold-batch-norm", "simplify-algebra,fold-batch-norm", "make-padding-explicit",
    "make-padding-explicit,convert-layout", "make-padding-explicit,convert-layout{block=2}",
    "make-padding-explicit,convert-layout{block=4},canonicalize",
    "make-padding-explicit,convert-layout{block=2},canonicalize,skip-padding",
    "pack-matmul", "pack-matmul{width=3}", "make-padding-explicit,use-products", "use-sub-pixels",
    "fuse-operators", "fuse-operators,outline-kernels", PIPELINE,
)  # fmt: skip
# Everything is computed in f64, so that any real mistake stands out: graphs of a dozen ops with at most a few hundred terms each.
TOLERANCE = 1e-10
IN_MAIN = {"graph.parameter", "graph.reshape", "graph.concat", "tensor.empty", "func.call", "func.return"}


class RandomGraph:
    """Builds a function @main of random ops, mostly on images of a few channels."""

    def __init__(self, draw, builder: GraphBuilder, inputs: list[ir.Value]) -> None:
        self.draw, self.b = draw, builder
        self.values = list(inputs)

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def pick(self, values):
        return values[self.number(0, len(values) - 1)]

    def flip(self) -> bool:
        return self.draw(st.booleans())

    def constant(self, *shape: int, positive: bool = False) -> ir.Value:
        """Random and asymmetric, or one of the numbers that algebra knows."""
        rng = np.random.default_rng(self.number(0, 1 << 30))
        special = self.pick([None, None, None, 0.0, 1.0, 2.0, -1.0, 0.25])
        array = rng.uniform(0.5, 2, shape)
        if not positive:
            array = array * rng.choice([-1, 1], shape) if special is None else np.full(shape, special)
        array = np.asarray(array)  # numpy makes scalars of arrays without dimensions
        return self.b.weight("w", array) if self.flip() else self.b.constant(value=array)

    def step(self) -> None:
        """Add one op on a value made so far."""
        x = self.pick(self.values[-4:])
        t = type_of(x)
        families = [self.elementwise, self.movement]
        if t.rank == 4 and min(t.static_shape) > 0:
            families += [self.image, self.image, self.by_channel, self.by_channel]
        if t.rank == 2:
            families += [self.matrix, self.matrix]
        self.values.append(self.pick(families)(x, t))

    def elementwise(self, x, t):
        same = [v for v in self.values if v.type == x.type]
        b = self.b
        return self.pick([
            lambda: b.relu(x), lambda: b.sigmoid(x), lambda: b.neg(x), lambda: b.abs(x), lambda: b.tanh(x),
            lambda: b.clamp(x, min=self.pick([-np.inf, -1.0, 0.0]), max=self.pick([np.inf, 1.0, 6.0])),
            lambda: b.add(x, self.pick(same)), lambda: b.mul(b.sigmoid(x), x), lambda: b.maximum(x, self.constant()),
            lambda: b.minimum(self.constant(), x), lambda: b.pow(b.tanh(x), b.constant(value=np.array(self.pick([1.0, 2.0, 3.0])))),
            lambda: b.mul(x, self.constant()), lambda: b.add(self.constant(), x), lambda: b.div(x, self.constant(positive=True)),
            lambda: b.sub(x, self.constant()), lambda: b.sub(self.constant(), x), lambda: b.cast(x, to="f64", saturate=False),
        ])()  # fmt: skip

    def by_channel(self, x, t):
        b, c = self.b, t.shape[1]
        return self.pick([
            lambda: b.mul(x, self.constant(c, 1, 1)), lambda: b.add(x, self.constant(1, c, 1, 1)), lambda: b.add(self.constant(c, 1, 1), x),
            lambda: b.div(x, self.constant(c, 1, 1, positive=True)), lambda: b.sub(x, self.constant(c, 1, 1)),
            lambda: b.batch_norm(x, *(self.constant(c) for _ in range(3)), self.constant(c, positive=True), epsilon=1e-5),
            lambda: b.mul(x, b.expand(self.constant(1, c, 1, 1), shape=t.static_shape)),
        ])()  # fmt: skip

    def image(self, x, t):
        b, (_, c, h, w) = self.b, t.static_shape
        kernel = (self.number(1, min(3, h)), self.number(1, min(3, w)))
        strides, pads = (self.number(1, 2), self.number(1, 2)), tuple(self.number(0, k - 1) for k in (*kernel, *kernel))
        group = self.pick([g for g in (1, 2, 3, c) if c % g == 0])
        filters = group * self.number(1, 2)
        window = {"strides": strides, "pads": pads, "dilations": (1, 1)}
        unpadded = {**window, "pads": (0,) * 4}
        ceil = self.flip()
        return self.pick([
            lambda: b.conv(x, self.constant(filters, c // group, *kernel), group=group, **window),
            lambda: b.conv(x, self.constant(filters, c // group, *kernel), group=group, **unpadded),
            lambda: self.shuffle(x, t),
            lambda: b.conv_transpose(x, self.constant(c, filters // group, *kernel), group=group, output_padding=(0, 0), **unpadded),
            lambda: b.max_pool(x, kernel=kernel, ceil_mode=ceil, **window),
            lambda: b.avg_pool(x, kernel=kernel, ceil_mode=ceil, count_include_pad=self.flip(), **window),
            lambda: b.reduce_sum(x, axes=(2, 3), keepdims=self.flip()),
            lambda: b.softmax(x, axis=1),
        ])()  # fmt: skip

    def shuffle(self, x, t):
        """A permutation of channels, as the transposition of a matrix of them; or of channels and rows, which is none."""
        b, (n, c, h, w) = self.b, t.static_shape
        group = self.pick([g for g in (1, 2, 3, c) if c % g == 0])
        perm = self.pick([(0, 2, 1, 3, 4), (0, 2, 1, 3, 4), (0, 2, 1, 4, 3)]) if h == w else (0, 2, 1, 3, 4)
        return b.reshape(b.transpose(b.reshape(x, shape=(n, group, c // group, h, w)), perm=perm), shape=(n, c, h, w))

    def matrix(self, x, t):
        b, n = self.b, self.number(1, 4)
        return self.pick([
            lambda: b.matmul(x, self.constant(t.shape[1], n)),
            lambda: b.matmul(self.constant(n, t.shape[0]), x),
            lambda: b.mul(x, self.constant(t.shape[1])),
            lambda: b.add(x, self.constant(t.shape[1])),
            lambda: b.mul(x, self.constant(t.shape[0], 1)),
        ])()  # fmt: skip

    def movement(self, x, t):
        b, shape = self.b, t.static_shape
        perm, second = (tuple(self.draw(st.permutations(range(t.rank)))) for _ in range(2))
        last = shape[perm[-1]] if shape else 1
        low, high = (tuple(self.number(0, 1) for _ in shape) for _ in range(2))
        return self.pick([
            lambda: b.transpose(b.transpose(x, perm=perm), perm=second),
            lambda: b.transpose(b.add(b.transpose(x, perm=perm), self.constant(last)), perm=second) if shape else x,
            lambda: b.transpose(b.relu(b.transpose(x, perm=perm)), perm=tuple(int(i) for i in np.argsort(perm))),
            lambda: b.reshape(b.reshape(x, shape=(-1,)), shape=shape),
            lambda: b.reshape(x, shape=(shape[0], -1) if all(shape) else shape),
            lambda: b.reshape(x, shape=shape),
            lambda: b.pad(x, low=low, high=high, mode="constant", value=self.pick([0.0, 1.5])),
            lambda: b.slice(x, starts=(0,) * t.rank, sizes=shape, steps=(1,) * t.rank),
            lambda: b.slice(x, starts=tuple(s - 1 for s in shape), sizes=shape, steps=(-1,) * t.rank),
            lambda: b.concat([x, self.pick([v for v in self.values if v.type == x.type])], axis=self.number(0, t.rank - 1)),
        ])()  # fmt: skip


@st.composite
def graphs(draw):
    """(module, weights, inputs)"""
    shape = tuple(draw(st.integers(1, size)) for size in (2, 6, 5, 5))
    argument = TensorType("f64", shape)
    weights = WeightTable()
    with CONTEXT, ir.Location.name("test"):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ir.FunctionType.get([argument.to_mlir()] * 2, []))
            block = main.add_entry_block()
        with ir.InsertionPoint(block):
            graph = RandomGraph(draw, GraphBuilder(weights), list(block.arguments))
            for _ in range(draw(st.integers(1, 12))):
                graph.step()
            results = graph.values[-draw(st.integers(1, 2)) :]
            func.ReturnOp(results)
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([argument.to_mlir()] * 2, [v.type for v in results]))
        assert module.operation.verify()
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    return module, weights, {f"input{i}": rng.standard_normal(shape) for i in range(2)}


def run(module: ir.Module, weights: WeightTable, pipeline: str) -> PassState:
    state = PassState(weights=weights)
    PassRunner(state).run(module, pipeline)
    return state


def assert_close(got, want) -> None:
    assert list(got) == list(want)
    for name, expected in want.items():
        scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
        np.testing.assert_allclose(got[name], expected, rtol=0, atol=TOLERANCE * scale)


@pytest.mark.parametrize("examples", [12, pytest.param(40, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda p: "all" if p == PIPELINE else p)
def test_random_graphs_mean_the_same(pipeline, examples):
    @settings(max_examples=examples)
    @given(graphs())
    def check(graph):
        module, weights, inputs = graph
        before = evaluate(module, weights, inputs)
        text = str(module)
        run(module, weights, pipeline)
        try:
            assert_close(evaluate(module, weights, inputs), before)
        except AssertionError:
            print(text, module, sep="\n")
            raise

    check()


@settings(max_examples=25)
@given(graphs())
def test_invariants_of_the_whole_pipeline(graph):
    module, weights, _ = graph
    run(module, weights, PIPELINE)
    for op in ops_below(module.operation):
        if op.name in ("graph.conv", "graph.max_pool", "graph.avg_pool"):
            attributes = op.opview.attribute_values()
            assert not any(attributes["pads"])
            assert not attributes.get("ceil_mode", False)
        assert op.name not in ("graph.batch_norm", "graph.fused")
    main = find_function(module.operation, "main")
    outside = [o.operation for o in main.regions[0].blocks[0].operations]
    assert {o.name for o in outside} <= IN_MAIN
    called = {o.attributes["callee"].value for o in outside if o.name == "func.call"}
    kernels = {f.sym_name.value: f for f in (o.opview for o in module.body.operations) if f.sym_name.value != "main"}
    assert called == set(kernels)
    for kernel in kernels.values():
        assert "stepwell.kernel" in kernel.attributes
        assert "llvm.no_inline" in kernel.attributes
        assert not list(list(kernel.regions[0].blocks[0].arguments)[-1].uses)


@given(graphs())
@settings(max_examples=20)
def test_outlining_is_the_same_every_time(graph):
    module, weights, _ = graph
    copy = ir.Module.parse(str(module), CONTEXT)
    run(module, WeightTable(weights), PIPELINE)
    run(copy, WeightTable(weights), PIPELINE)
    assert str(module) == str(copy)

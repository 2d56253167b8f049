"""What docs/kernels.md says of kernels is checked: of IR that people write, and after stages in which a plugin has a say."""

import pytest
from onnx import TensorProto, helper

import stepwell
from stepwell.dialects.core.weights import WeightTable

KIND = "tensor<4x6xf32>"
SCHEDULED = "sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 1, 1>, vector = 1 : i64, width = 8 : i64}>"


def module(body: str, *, arguments: str = f"%x: {KIND}, %d: {KIND}", result: str = KIND, packed: bool = True) -> str:
    """A model of one kernel on 4 x 6 numbers, with `body` in it."""
    return f"""
      func.func private @k({arguments}) -> {result} attributes {{stepwell.kernel, llvm.no_inline}} {{
        {body}
      }}
      func.func @main(%x: {KIND}{", %weights: memref<?xi8>" if packed else ""}) -> {KIND} {{
        %d = tensor.empty() : {KIND}
        return %d : {KIND}
      }}"""


def generic(attributes: str = "") -> str:
    return f"""
      %e = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]{attributes}}} ins(%x : {KIND}) outs(%d : {KIND}) {{
      ^bb0(%a: f32, %b: f32):
        %s = arith.addf %a, %a : f32
        linalg.yield %s : f32
      }} -> {KIND}
      return %e : {KIND}"""


def read(text: str, level: str) -> None:
    stepwell.read_ir(text, level, WeightTable())


def refused(text: str, level: str, message: str) -> None:
    with pytest.raises(stepwell.IRError) as caught:
        read(text, level)
    assert message in str(caught.value)
    assert "docs/kernels.md" in str(caught.value)


def test_kernels_that_keep_the_contract() -> None:
    read(module(f'%y = "graph.relu"(%x) : ({KIND}) -> {KIND}\n return %y : {KIND}', packed=False), "graph-opt")
    read(module(generic(), packed=False), "graph-opt")  # what may be there a level below may be there
    read(module(generic()), "linalg")
    read(module(generic(f", {SCHEDULED}")), "scheduled")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f'%y = "graph.add"(%x, %d) : ({KIND}, {KIND}) -> {KIND}\n return %y : {KIND}', "kernel @k: 'graph.add' of "),
        (f'%y = "graph.add"(%x, %d) : ({KIND}, {KIND}) -> {KIND}\n return %y : {KIND}', "reads a destination, which holds nothing"),
        (f'%y = "graph.parameter"() {{id = "w"}} : () -> {KIND}\n return %y : {KIND}', "must not be in a kernel: weights are arguments of it"),
        (f'%y = "graph.fused"(%x) ({{^bb0(%a: {KIND}): "graph.yield"(%a) : ({KIND}) -> ()}}) : ({KIND}) -> {KIND}\n return %y : {KIND}',
         "has regions and cannot be in a kernel"),
        (f"%y = func.call @k(%x, %d) : ({KIND}, {KIND}) -> {KIND}\n return %y : {KIND}", "'func.call' of "),
    ],
)  # fmt: skip
def test_at_level_graph_opt(body: str, message: str) -> None:
    refused(module(body, packed=False), "graph-opt", message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f'%y = "graph.relu"(%x) : ({KIND}) -> {KIND}\n return %y : {KIND}',
         "is left at level linalg: it needs a lowering, or a pass on level linalg that converts it"),
        (f"%y = linalg.exp ins(%x : {KIND}) outs(%d : {KIND}) -> {KIND}\n return %y : {KIND}", "write it as linalg.generic"),
        (f"%y = func.call @k(%x, %d) : ({KIND}, {KIND}) -> {KIND}\n return %y : {KIND}", "'func.call' of "),
        (f'cf.br ^a\n ^a:\n return %x : {KIND}', "kernel @k must be one block that ends in func.return"),
    ],
)  # fmt: skip
def test_at_level_linalg(body: str, message: str) -> None:
    refused(module(body), "linalg", message)


def test_a_structured_op_without_a_schedule() -> None:
    refused(module(generic()), "scheduled", "has no schedule: the attribute 'sched.nest' is missing (pass assign-schedules)")


@pytest.mark.parametrize(
    ("arguments", "result", "message"),
    [
        (f"%x: {KIND}", "tensor<4x5xf32>", "must take a destination for each result behind its inputs: its last arguments must be (tensor<4x5xf32>)"),
        (
            "%x: tensor<?x6xf32>, %d: tensor<?x6xf32>",
            "tensor<?x6xf32>",
            "argument 0 must have a static shape, or one whose sizes have names, got tensor<?x6xf32>",
        ),
        ("%x: tensor<4x6xui8>, %d: tensor<4x6xui8>", "tensor<4x6xui8>", "argument 0 must be signless, got tensor<4x6xui8>"),
        ("%x: tensor<4x6xi9>, %d: tensor<4x6xi9>", "tensor<4x6xi9>", "argument 0: element type i9 is not supported"),
    ],
)
def test_signatures_on_tensors(arguments: str, result: str, message: str) -> None:
    body = f"%y = tensor.empty({'%n' if '?' in result else ''}) : {result}\n return %y : {result}"
    if "?" in result:
        body = f"%c = arith.constant 0 : index\n %n = tensor.dim %x, %c : {result}\n {body}"
    refused(module(body, arguments=arguments, result=result), "linalg", message)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("(%x: memref<4x6xf32>, %d: memref<?x6xf32>) attributes {stepwell.kernel} { return }", "argument 1 must be a memref of static shape"),
        ("(%d: memref<4x6xf32>) -> index attributes {stepwell.kernel} { %c = arith.constant 0 : index\n return %c : index }",
         "must return nothing, it returns index"),
        ("(%d: memref<4x6xf32>) attributes {stepwell.kernel, stepwell.results = 2 : i64} { return }",
         "has 1 arguments, fewer than its 2 destinations"),
    ],
)  # fmt: skip
def test_signatures_on_memory(kernel: str, message: str) -> None:
    attributes = 'stepwell.inputs = [["x", tensor<4x6xf32>]], stepwell.outputs = [["y", tensor<4x6xf32>]]'
    main = "func.func @main(%x: memref<4x6xf32>, %y: memref<4x6xf32>, %w: memref<?xi8>, %s: memref<?xi8>) { return }"
    refused(f"module attributes {{{attributes}}} {{ func.func private @k{kernel}\n {main} }}", "affine", message)


def test_a_pass_that_breaks_it_is_named_by_its_level() -> None:
    """Also where no plugin is loaded: an edited stage is looked at."""
    sides = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 6])] for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "g", *sides)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    pipeline = stepwell.Pipeline.default().insert_after("collapse-dimensions#2", "linalg-specialize-generic-ops")
    with pytest.raises(stepwell.PassError, match=r"level linalg: kernel @exp_\w+: 'linalg.\w+' of .* write it as linalg.generic"):
        stepwell.lower(model, "linalg", pipeline=pipeline)

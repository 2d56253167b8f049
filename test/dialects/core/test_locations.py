"""Locations that name nodes, read through fusion and inlining."""

from stepwell.dialects.core.locations import node_location, node_names, renumber_nodes, strip_node_names
from stepwell.dialects.core.mlir import ir, make_context


def test_names_come_back() -> None:
    context = make_context()
    location = node_location('a "strange" name', 41, context)
    assert str(location) == 'loc("a \\22strange\\22 name"("model.onnx":42:0))'
    assert node_names(location) == ['a "strange" name']


def test_fused_and_call_site_locations_name_all_their_nodes_once() -> None:
    context = make_context()
    a, b, c = (node_location(name, index, context) for name, index in (("a", 7), ("b", 3), ("c", 5)))
    fused = ir.Location.fused([b, a, b], context=context)
    assert node_names(fused) == ["b", "a"]
    inlined = ir.Location.callsite(fused, [c], context=context)
    assert node_names(inlined) == ["b", "a", "c"]
    wrapped = ir.Location.name("kernel", childLoc=inlined, context=context)
    assert node_names(wrapped) == ["kernel", "b", "a", "c"]


def test_locations_without_a_node() -> None:
    context = make_context()
    for location in (
        ir.Location.unknown(context),
        ir.Location.file("other.mlir", 3, 1, context=context),
        ir.Location.file("model.onnx", 0, 0, context=context),
    ):
        assert node_names(location) == []


MODULE = """
#a = loc("{a}"("model.onnx":{first}:0))
#b = loc("{b}"("model.onnx":{second}:0))
module {{
  func.func @f(%x: i32 loc(#b), %y: i32 loc(callsite(#a at fused<"kept">[#b, "other.mlir":7:2]))) -> i32 {{
    %0 = arith.addi %x, %y : i32 loc(fused[#b, #a])
    return %0 : i32 loc(unknown)
  }} loc(#a)
}} loc("model.onnx":0:0)
"""


def test_nodes_of_a_part_are_numbered_in_order_of_appearance() -> None:
    one, other = (
        ir.Module.parse(MODULE.format(a=a, b=b, first=first, second=second), make_context()).operation
        for a, b, first, second in (("conv", "relu", 9, 4), ('odd \\22name(\\22', "x", 70, 71))
    )
    assert renumber_nodes(one) == (8, 3)
    assert renumber_nodes(other) == (69, 70)
    texts = [op.get_asm(enable_debug_info=True) for op in (one, other)]
    assert texts[0] != texts[1], "they have names"
    assert '"conv"' in texts[0]
    for op in (one, other):
        strip_node_names(op)
    texts = [op.get_asm(enable_debug_info=True) for op in (one, other)]
    assert texts[0] == texts[1]
    for kept in ('"model.onnx":1:0', '"model.onnx":2:0', '"model.onnx":0:0', 'fused<"kept">', '"other.mlir":7:2', "callsite"):
        assert kept in texts[0], kept

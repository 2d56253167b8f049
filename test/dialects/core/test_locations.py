"""Locations that name nodes, read through fusion and inlining."""

from stepwell.dialects.core.locations import node_index, node_location, node_names
from stepwell.dialects.core.mlir import ir, make_context


def test_names_and_indices_come_back() -> None:
    context = make_context()
    location = node_location('a "strange" name', 41, context)
    assert str(location) == 'loc("a \\22strange\\22 name"("model.onnx":42:0))'
    assert (node_names(location), node_index(location)) == (['a "strange" name'], 41)


def test_fused_and_call_site_locations_name_all_their_nodes_once() -> None:
    context = make_context()
    a, b, c = (node_location(name, index, context) for name, index in (("a", 7), ("b", 3), ("c", 5)))
    fused = ir.Location.fused([b, a, b], context=context)
    assert (node_names(fused), node_index(fused)) == (["b", "a"], 3)
    inlined = ir.Location.callsite(fused, [c], context=context)
    assert (node_names(inlined), node_index(inlined)) == (["b", "a", "c"], 3)
    wrapped = ir.Location.name("kernel", childLoc=inlined, context=context)
    assert node_names(wrapped) == ["kernel", "b", "a", "c"]


def test_locations_without_a_node() -> None:
    context = make_context()
    for location in (
        ir.Location.unknown(context),
        ir.Location.file("other.mlir", 3, 1, context=context),
        ir.Location.file("model.onnx", 0, 0, context=context),
    ):
        assert (node_names(location), node_index(location)) == ([], None)

"""The pass that tells LLVM which instructions functions may use."""


from stepwell.dialects.core.llvm_ops import llvm_functions
from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.target.description import REQUIRES, TRIPLE, Target
from stepwell.dialects.target.families import features_of_intrinsic
from stepwell.dialects.target.host import host, narrows_host, runs_here
from stepwell.passes.framework.registry import Pass, PassState, register_pass


@register_pass("set-target", level="llvm")
class SetTarget(Pass):
    """Compile functions for a target with fewer instructions than this machine, or functions that use instructions only the target has.

    rewrite: llvm.func {...}  ->  llvm.func {target_cpu = "x86-64-v3", target_features = #llvm.target_features<["+avx", …]>, ...}

    Without these attributes, code is made for the compiling machine. That is right if this machine is the target. It is also done for targets whose
    code this machine could not run: only their schedules are used, except in functions with instructions that only the target has. The objects of
    such functions contain a symbol, because of which machines without these instructions refuse them. If even the family differs, the module gets the
    target's triple, and only an emitter for that family accepts it.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        target = state.target
        if target is None:
            return
        narrow, foreign = narrows_host(target), not runs_here(target)
        for function in llvm_functions(op):
            if len(function.regions[0].blocks) == 0 or not (narrow or (foreign and lacks(function))):
                continue
            confine(function, target)
            state.count(self.name)
            if target.family != host().family:
                op.attributes[TRIPLE] = ir.StringAttr.get(target.triple)
            elif foreign:
                mark(function, target.features)


def confine(function: ir.Operation, target: Target) -> None:
    """Restrict a function to the target's instructions."""
    features = ", ".join(f'"+{name}"' for name in sorted(target.features))
    function.attributes["target_cpu"] = ir.StringAttr.get(target.cpu)
    function.attributes["target_features"] = ir.Attribute.parse(f"#llvm.target_features<[{features}]>")


def confine_all(module: ir.Operation, target: Target) -> None:
    """Restrict all functions to a target of this machine's family, for code that will run there and not here."""
    with module.context:
        for function in llvm_functions(module):
            if len(function.regions[0].blocks) > 0:
                confine(function, target)


def lacks(function: ir.Operation) -> bool:
    """Whether a function calls intrinsics for which this machine has no instruction."""
    names = [ir.StringAttr(call.attributes["intrin"]).value for call in ops_below(function, "llvm.call_intrinsic")]
    return any(not any(feature in host().features for feature in features) for name in names if (features := features_of_intrinsic(name)))


def mark(function: ir.Operation, features: frozenset[str]) -> None:
    """Add the symbol that names the features a function needs beyond this machine's instructions."""
    name = ir.StringAttr(function.attributes["sym_name"]).value
    missing = ",".join(sorted(features - host().features))
    byte, number = (ir.IntegerType.get_signless(bits) for bits in (8, 32))
    attributes = {
        "sym_name": ir.StringAttr.get(f"{REQUIRES}{name}:{missing}"), "global_type": ir.TypeAttr.get(byte), "constant": ir.UnitAttr.get(),
        "linkage": ir.Attribute.parse("#llvm.linkage<external>"), "value": ir.IntegerAttr.get(byte, 0), "addr_space": ir.IntegerAttr.get(number, 0),
    }  # fmt: skip
    with ir.InsertionPoint(function), function.location:
        ir.Operation.create("llvm.mlir.global", attributes=attributes, regions=1)

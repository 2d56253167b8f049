"""The pass that tells LLVM which instructions functions may use."""

from dataclasses import dataclass

from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.target.host import narrows_host
from stepwell.passes.framework.registry import Pass, PassState, register_pass


@register_pass("set-target", level="llvm")
@dataclass
class SetTarget(Pass):
    """Compile functions for a target that has fewer instructions than this machine.

    rewrite: llvm.func {...}  ->  llvm.func {target_cpu = "x86-64-v3", target_features = #llvm.target_features<["+avx", …]>, ...}

    Without these attributes, code is made for the machine that compiles it. That is right if this machine is the target. It is also done
    for targets whose code this machine could not run: of these it takes the schedules alone.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        target = state.target
        if target is None or not narrows_host(target):
            return
        features = ", ".join(f'"+{name}"' for name in sorted(target.features))
        for function in ops_below(op, "llvm.func"):
            if len(function.regions[0].blocks) > 0:
                function.attributes["target_cpu"] = ir.StringAttr.get(target.cpu)
                function.attributes["target_features"] = ir.Attribute.parse(f"#llvm.target_features<[{features}]>")
                state.count(self.name)

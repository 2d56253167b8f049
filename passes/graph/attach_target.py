"""The pass that puts the description of the target on a module."""


from stepwell.dialects.core.mlir import ir
from stepwell.dialects.support.errors import PassError
from stepwell.dialects.target.dialect import TargetInfo
from stepwell.passes.framework.registry import Pass, PassState, register_pass


@register_pass("attach-target", level="graph")
class AttachTarget(Pass):
    """Put the description of the target on the module, as `target.description`, before the first pass that needs it.

    Does nothing if no target is named. IR that names a target cannot be compiled for another one.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        """See the class."""
        if state.target is None:
            return
        known = TargetInfo(op).target
        difference = known.difference(state.target) if known is not None else None
        if difference is not None:
            raise PassError(f"the IR is for another target: {difference}")
        if known is None:
            TargetInfo(op).target = state.target

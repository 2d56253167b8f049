"""What passes that propose versions share: which kernels may get one, what is chosen, copied and reported."""

from collections.abc import Callable
from typing import Any

import pytest

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import ir, make_context, parse_module
from stepwell.dialects.core.sizes import symbol
from stepwell.dialects.support.errors import PassError
from stepwell.passes.framework.decisions import Decisions, NoMatch
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.rewriting import functions
from stepwell.passes.framework.versions import KernelVersionPass, VersionProposal, add_argument, launches

MODULE = """
module attributes {stepwell.size_hints = {n = 8 : i64}} {
  func.func @main(%x: tensor<?xf32, "n">) -> tensor<?xf32, "n"> {
    %0 = call @k(%x, %x) : (tensor<?xf32, "n">, tensor<?xf32, "n">) -> tensor<?xf32, "n">
    return %0 : tensor<?xf32, "n">
  }
  func.func private @k(%x: tensor<?xf32, "n">, %out: tensor<?xf32, "n">) -> tensor<?xf32, "n">
      attributes {stepwell.kernel, stepwell.overwrites = array<i64: 0, 0>} {
    return %x : tensor<?xf32, "n">
  }
}
"""


class Mine(KernelVersionPass):
    name = "version-mine"
    given: Callable[[Any], Any]

    def propose(self, subject: Any, state: PassState) -> VersionProposal | NoMatch | None:
        found: VersionProposal | NoMatch | None = self.given(subject)
        return found


def run(*given: Callable[[Any], Any], then: Callable[[Any], None] = lambda module: None) -> list[str]:
    """Run the pass with each way to propose; what it reports."""
    with make_context() as context, ir.Location.unknown():
        module = parse_module(MODULE, context, "m.mlir").operation
        state = PassState(decisions=Decisions())
        for propose in given:
            made = Mine()
            made.given = propose
            made.run(module, state)
        then(module)
        assert module.verify()
        assert state.decisions is not None
        return [decision.what for decision in state.decisions]


def none_is_added(module: Any) -> None:
    assert [function.sym_name.value for function in functions(module)] == ["main", "k"]


def proposal(kernel: Any, **more: Any) -> VersionProposal:
    return VersionProposal(kernel.operation, symbol("n"), 2, **more)


def test_a_kernel_gets_one_version() -> None:
    """With hints for smaller sizes; the pass that comes next, or again, leaves both alone."""

    def check(module: Any) -> None:
        _, few, kernel = functions(module)
        assert (few.sym_name.value, KernelInfo(kernel).version) == ("k.few", None)
        assert str(KernelInfo(few).version) == "Version(of='k', size=n, most=2)"
        assert KernelInfo(few).hints == {"n": 2}

    said = run(lambda kernel: proposal(kernel, reason="to be seen"), proposal, then=check)
    assert said == ["version-mine/func.func: two versions, of one version, two versions", "gets a version for n up to 2, to be seen"]


def test_a_version_that_does_not_pay_is_not_made() -> None:
    said = run(
        lambda kernel: proposal(kernel, pays=False, seconds=lambda: (2e-6, 3e-6)), lambda kernel: NoMatch("not today"), lambda kernel: None,
        then=none_is_added,
    )  # fmt: skip
    chosen = "version-mine/func.func: one version, of one version 2 us, two versions 3 us"
    assert said == [chosen, "one version computes all values of n", "not today"]


def test_a_version_may_have_an_argument_of_its_own() -> None:
    """At the same place in both kernels and in their launches; what counts arguments follows."""

    def specialised(kernel: Any) -> VersionProposal:
        def specialise(copy: Any) -> None:
            operands = {call: call.operands[0] for call in launches(kernel)}
            argument = add_argument(kernel, copy, 0, operands)
            copy.regions[0].blocks[0].operations[0].operation.operands[0] = argument

        return proposal(kernel, specialise=specialise)

    def check(module: Any) -> None:
        main, few, kernel = functions(module)
        assert [len(function.arguments) for function in (few, kernel)] == [3, 3]
        assert [list(KernelInfo(function).overwrites) for function in (few, kernel)] == [[(1, 0)], [(1, 0)]]
        returned = [function.regions[0].blocks[0].operations[0].operation.operands[0] for function in (few, kernel)]
        assert [value.arg_number for value in returned] == [0, 1]
        assert len(launches(kernel)[0].operands) == 3
        assert main.regions[0].blocks[0].operations[1].operation.operands[0].owner == launches(kernel)[0]

    run(specialised, then=check)


def test_what_is_no_proposal_is_an_error() -> None:
    with pytest.raises(PassError, match=r"pass 'version-mine': propose must give a VersionProposal, NoMatch or None, got 3"):
        run(lambda kernel: 3)

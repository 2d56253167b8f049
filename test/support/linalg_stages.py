"""Kernels of a few linalg ops on tensors, each written in a line, and the fusion groups of such kernels."""

from collections.abc import Sequence

from stepwell.dialects.core.mlir import ir, ops_below, parse_module
from stepwell.passes.linalg.fusion_group import FusionGroup

Line = tuple[str, str]  # of an op: its result, and what it is, as in "i j | k: x[i, k] w[k, j]"


class ParsedGroup(FusionGroup):
    """A fusion group with its function, which keeps the module of its ops alive."""

    def __init__(self, module: ir.Module, function: ir.Operation) -> None:
        found = FusionGroup.from_kernel(function)
        super().__init__(found.stages, found.edges)
        self.module, self.function = module, function


def group_of(arguments: dict[str, str], lines: Sequence[Line], shapes: dict[str, str]) -> ParsedGroup:
    """The fusion group of a kernel. `arguments` and `shapes` give the shape of each value, as in "4x6".

    A line `("y", "i j | k: x[i, k] w[k, j]")` is an op over the parallel loops i and j whose result `y[i, j]` sums, over k, the products of what
    it reads; without loops behind `|` the sum of what it reads. `("z", "= y")` is y in the shape of z. `("y", "y + i j: r[i, j]")` adds to y in
    place, and `("w", "constant")` is an array of twos. The context must be entered.
    """
    known, now, body = {**arguments, **shapes}, {name: f"%{name}" for name in arguments}, []
    for number, (result, what) in enumerate(lines):
        own = f"tensor<{known[result]}xf32>"
        name = f"%v{number}"
        if what == "constant":
            body.append(f"{name} = arith.constant dense<2.0> : {own}")
        elif what.startswith("= "):
            source = what[2:]
            body.append(_reshape(name, now[source], known[source], known[result]))
        else:
            out = f"%e{number}"
            if what.startswith(f"{result} + "):
                out, what = now[result], what.removeprefix(f"{result} + ")
            else:
                body.append(f"%e{number} = tensor.empty() : {own}")
            body.append(f"{name} = {_generic(what, known, now, out, own)}")
        now[result] = name
    signature = ", ".join(f"%{name}: tensor<{shape}xf32>" for name, shape in arguments.items())
    last = lines[-1][0]
    kind = f"tensor<{known[last]}xf32>"
    text = f"func.func @kernel({signature}) -> {kind} {{\n" + "\n".join(body) + f"\nreturn {now[last]} : {kind}\n}}"
    module = parse_module(text, ir.Context.current)
    [function] = ops_below(module.operation, "func.func")
    return ParsedGroup(module, function)


def _generic(what: str, known: dict[str, str], now: dict[str, str], out: str, own: str) -> str:
    loops, _, reads = what.partition(": ")
    parallel, _, reduced = (part.split() for part in loops.partition("|"))
    read = [item.removesuffix("]").partition("[")[::2] for item in reads.replace("] ", "]\n").split("\n")]
    every = ", ".join((*parallel, *reduced))
    unused, read = [name.startswith("?") for name, _ in read], [(name.removeprefix("?"), at) for name, at in read]
    maps = [f"affine_map<({every}) -> ({at})>" for at in (*(at for _, at in read), ", ".join(parallel))]
    kinds = ['"parallel"'] * len(parallel) + ['"reduction"'] * len(reduced)
    values = [f"%a{i}" for i in range(len(read))]
    combine = "arith.mulf" if reduced else "arith.addf"
    used = [value for value, shape_only in zip(values, unused, strict=True) if not shape_only]
    steps, so_far = [], used[0]
    for i, value in enumerate(used[1:]):
        steps.append(f"%p{i} = {combine} {so_far}, {value} : f32")
        so_far = f"%p{i}"
    if reduced or not out.startswith("%e"):
        steps.append(f"%s = arith.addf %acc, {so_far} : f32")
        so_far = "%s"
    types = ", ".join(f"tensor<{known[name]}xf32>" for name, _ in read)
    return f"""linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = [{", ".join(kinds)}]}}
        ins({", ".join(now[name] for name, _ in read)} : {types}) outs({out} : {own}) {{
      ^bb0({", ".join(f"{v}: f32" for v in (*values, "%acc"))}):
        {" ".join(step + chr(10) for step in steps)} linalg.yield {so_far} : f32
      }} -> {own}"""


def _reshape(name: str, source: str, old: str, new: str) -> str:
    """Neighbouring dimensions merged; both shapes begin alike."""
    a, b = old.split("x"), new.split("x")
    groups = [[i] for i in range(len(b) - 1)] + [list(range(len(b) - 1, len(a)))]
    return f"{name} = tensor.collapse_shape {source} {groups} : tensor<{old}xf32> into tensor<{new}xf32>"

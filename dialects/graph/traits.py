"""Traits: what is true of all ops of a class, stated in the op's declaration and queried by passes at run time."""

import enum


class Trait:
    """Base of the traits that MLIR does not know. `traits=[Pure, Elementwise]` states them, `has_trait` asks for them."""

    @staticmethod
    def attach(operation_name: str) -> None:
        """What the bindings call for each trait of an op; MLIR is told nothing of these."""


class Elementwise(Trait):
    """Each element of the result comes from one element of each operand, which are broadcast as numpy's are.

    Such an op is fused with others, carried through blocked layouts, and moved across reshapes and transpositions.
    """


class MovesData(Trait):
    """The result holds elements of the first operand and no others."""


class KeepsFinite(Trait):
    """Finite operands give finite results, unless these overflow: so the filling of a block does no harm."""


class KeepsChannels(Trait):
    """Each channel (dimension 1) of the result comes from the same channel of the first operand."""


class Fusion(enum.Enum):
    """How an op may be fused with others into one kernel (after TVM, OSDI 2018)."""

    INJECTIVE = "element-wise: joins any group that computes one of its operands"
    REDUCTION = "a reduction: reads its first operand once, so element-wise ops before it join its group, and those after it"
    COMPLEX = "a contraction, pooling or normalisation: takes element-wise ops after it into its group"
    OPAQUE = "anything else: a group of its own"
    PAD = "constant padding: may end a group"
    FREE = "no computation: stays outside of groups"

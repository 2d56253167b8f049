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


class Exact(Trait):
    """The standard of its arithmetic (IEEE 754, or that of whole numbers) says every bit of the result.

    Its `reference` then gives what compiled code gives, so passes may try a rewrite on all values that an operand can have.
    """


class Converts(Trait):
    """Each element of the result is the first operand's in another type or unit: that costs less than to store and load the wider of the two.

    Where the result is wider, a reduction that reads it computes it in its own kernel.
    """


class MovesData(Trait):
    """The result holds elements of the first operand and no others, whatever their type is.

    A dequantisation moves behind such an op, as do casts; the result has the range of the operand. With no other operand, the places that the
    elements come from follow from the types and attributes alone, and the op is computed now if its operand is known, or moved across a cast.
    """


class KeepsAll(Trait):
    """Each element of the first operand is in the result, once or more often, unless the result is empty; elements of any type are copied.

    What is asked of all elements of the result of an op that also states `MovesData`, such as whether indices are in range, is asked of its operand.
    """


class KeepsEach(KeepsAll):
    """Each element of the first operand is in the result exactly once; the result may hold others, which follow from the attributes alone.

    So a cast costs the same in front of the op and behind it: passes put one to a narrower type in front, and the op moves fewer bytes.
    """


class JoinsData(Trait):
    """The result holds the elements of all operands, each once, and no others, whatever their type is.

    Quantisation, dequantisation and casts of all operands move across the op. Element-wise ops that make an operand for this op alone
    share its kernel, and write their results where they belong, if the op's lowering inserts each operand into a slice of the result.
    """


class ChoosesData(Trait):
    """Each element of the result is the greatest, or the least, of some elements of the first operand.

    An increasing function of the elements may be applied in front of the op instead of behind it: dequantisation by a positive scale, rounding.
    """


class Pools(Trait):
    """Each element of the result is computed from a window of one channel of the first operand, (N, C, spatial…) or blocked (N, C / b, spatial…, b).

    The attributes are those of `max_pool`: `kernel`, `strides`, `pads`, `dilations` and `ceil_mode`. Such an op stays in the blocked layout. It is
    computed in one kernel with element-wise ops that make its image, or a convolution that does, if its windows do not overlap.
    """


class SumsProducts(Trait):
    """Each element of the result is a sum of products of an element of the first of two operands with one of the second.

    Elements are summed in the operands' type, and the op is lowered to one contraction (`contract`). `sum_of_products` says which elements meet. Then
    the op is computed in integers if its operands are quantised, reads them in the narrowest type for which the target has an instruction, rounds
    them to bf16 if the options ask for that, and reads casts and transpositions of its operands in its own kernel.
    """


class Convolves(Trait):
    """Each element of the result is a sum over windows of an image, the first operand, of its products with a filter's, of the second.

    Each element of both is read often, so operands in f16 or bf16 are widened once, in front of the op, and its result stays wide.
    """


class ComputesRows(Trait):
    """A few rows (dimension 2) of the blocked result (N, C / b, rows, …, b) can be computed from a few rows of the first operand.

    So a pooling whose windows do not overlap, or a pointwise convolution, shares a kernel with it, and a loop over rows.
    """


class KeepsFinite(Trait):
    """Finite operands give finite results, unless these overflow: so the filling of a block does no harm."""


class KeepsChannels(Trait):
    """Each channel (dimension 1) of the result comes from the same channel of the first operand.

    The order of channels that a later convolution in groups asks for is asked of that operand. One that also states `ComputesRows` computes its
    rows for a pointwise convolution.
    """


class Speculatable(Trait):
    """The op has a result for all operands of its types, and no effect: it may be computed where it otherwise might not be, as in front of a loop."""


class Fusion(enum.Enum):
    """How an op may be fused with others into one kernel (after TVM, OSDI 2018)."""

    INJECTIVE = "element-wise: joins any group that computes one of its operands"
    REDUCTION = "a reduction: reads its first operand once, so element-wise ops before it join its group, and those after it"
    COMPLEX = "a contraction, pooling or normalisation: takes element-wise ops after it into its group"
    OPAQUE = "anything else: a group of its own"
    PAD = "constant padding: may end a group"
    FREE = "no computation: stays outside of groups"

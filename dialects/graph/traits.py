"""Traits: properties of all ops of a class, declared with the op and queried by passes at run time."""

import enum


class Trait:
    """The base class of traits that MLIR does not know. `traits=[Pure, Elementwise]` declares them, `has_trait` queries them."""

    @staticmethod
    def attach(operation_name: str) -> None:
        """Called by the bindings for each trait of an op; these traits are not registered with MLIR."""


class Elementwise(Trait):
    """Each element of the result comes from one element of each operand, which are broadcast as in numpy.

    Such an op is fused with others, carried through blocked layouts, and moved across reshapes and transpositions.
    """


class Exact(Trait):
    """The standard for its arithmetic (IEEE 754, or integer arithmetic) determines every bit of the result.

    Its `reference` then gives the same result as compiled code, so passes may test a rewrite on all values that an operand can have.
    """


class Converts(Trait):
    """Each element of the result is the first operand's in another type or unit, at less cost than a store and load of the wider of the two.

    If the result is wider, a reduction that reads it recomputes it in its own kernel.
    """


class MovesData(Trait):
    """The result consists of elements of the first operand only, of any type.

    A dequantisation or a cast is moved behind such an op; the result has the range of the operand. Without other operands, the source positions
    follow from the types and attributes alone. Then the op is folded if its operand is known, or moved across a cast.
    """


class KeepsAll(Trait):
    """Each element of the first operand is in the result at least once, unless the result is empty; elements of any type are copied.

    A check of all elements of the result of an op that also has the trait `MovesData`, such as an index check, is moved to its operand.
    """


class KeepsEach(KeepsAll):
    """Each element of the first operand is in the result exactly once; other elements of the result follow from the attributes alone.

    A cast therefore costs the same before and after the op. Passes put a cast to a narrower type first, so that the op moves fewer bytes.
    """


class JoinsData(Trait):
    """The result consists of the elements of all operands, each exactly once, of any type.

    Quantisation, dequantisation and casts of all operands are moved across the op. Element-wise ops whose result is used only by this op share its
    kernel, and write their results in place, if the op's lowering inserts each operand into a slice of the result.
    """


class ChoosesData(Trait):
    """Each element of the result is the maximum or minimum of some elements of the first operand.

    An increasing function of the elements, such as dequantisation by a positive scale or rounding, may be applied before the op instead of after it.
    """


class Pools(Trait):
    """Each element of the result is computed from a window of one channel of the first operand, (N, C, spatial…) or blocked (N, C / b, spatial…, b).

    The attributes are those of `max_pool`: `kernel`, `strides`, `pads`, `dilations` and `ceil_mode`. Such an op stays in the blocked layout. If its
    windows do not overlap, it shares a kernel with the element-wise ops or the convolution that produce its image.
    """


class SumsProducts(Trait):
    """Each element of the result is a sum of products of elements of the first operand and of the second (of two).

    The sum is in the operands' type, and the op is lowered to one contraction (`contract`). `sum_of_products` describes the mapping of dimensions.
    With this trait, the op is computed in integers if its operands are quantised, reads them in the narrowest type for which the target has an
    instruction, rounds them to bf16 if the options ask for it, and reads casts and transpositions of its operands in its own kernel.
    """


class Convolves(Trait):
    """Each element of the result is a sum over a window of the image (first operand) times a filter (second operand).

    Each element of both is read many times, so operands in f16 or bf16 are widened once, before the op, and its result stays wide.
    """


class ComputesRows(Trait):
    """A few rows (dimension 2) of the blocked result (N, C / b, rows, …, b) can be computed from a few rows of the first operand.

    A pooling with windows that do not overlap, or a pointwise convolution, can therefore share a kernel and a loop over rows with it.
    """


class KeepsFinite(Trait):
    """Finite operands give finite results, unless these overflow; the padding of a block is therefore harmless."""


class KeepsChannels(Trait):
    """Each channel (dimension 1) of the result comes from the same channel of the first operand.

    A channel order that a later grouped convolution requires is then required of that operand. An op that also has the trait `ComputesRows` computes
    its rows for a pointwise convolution.
    """


class Speculatable(Trait):
    """The op has a result for all operands of its types, and no effect. It may be executed speculatively, for example in front of a loop."""


class Fusion(enum.Enum):
    """How an op may be fused with others into one kernel (after TVM, OSDI 2018)."""

    INJECTIVE = "element-wise: joins any group that computes one of its operands"
    REDUCTION = "a reduction: reads its first operand once, so element-wise ops before it join its group, and those after it"
    COMPLEX = "a contraction, pooling or normalisation: takes element-wise ops after it into its group"
    OPAQUE = "anything else: a group of its own"
    PAD = "constant padding: may end a group"
    FREE = "no computation: stays outside of groups"

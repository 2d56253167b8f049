"""Folds batch norms, and factors and terms for each channel, into the weights of the preceding convolutions and products."""

from typing import TypeAlias

import numpy as np
from onnx import ModelProto, NodeProto

from stepwell.quantizer.graphs import GraphEditor, attribute, is_standard, operand, rank_of, replace, value_types

AFFINE = ("Add", "Sub", "Mul", "Div")


def weight_axis(node: NodeProto, rank: int) -> int | None:
    """The axis of a product's weights, of that rank, that runs over the channels of its result; None if no axis does.

    For a grouped ConvTranspose it runs over the channels of one group.
    """
    if node.op_type == "Conv":
        return 0
    if node.op_type == "ConvTranspose":
        return 1
    if node.op_type == "Gemm":
        return 0 if attribute(node, "transB", 0) else 1
    return 1 if node.op_type == "MatMul" and rank == 2 else None


def groups_of(node: NodeProto) -> int:
    """The number of groups of a product's channels that share an index along `weight_axis`."""
    return int(attribute(node, "group", 1)) if node.op_type == "ConvTranspose" else 1


def fold_scales(model: ModelProto) -> None:
    """Fold, in place, ops after a convolution or product that are affine in each channel:

    rewrite: product(x, w, b) * k + t -> product(x, w * k, b * k + t)

    This applies if they are the product's only readers: BatchNormalization in inference, Mul, Div, Add and Sub with a stored operand of one number,
    or of one for each channel. alpha and beta of Gemm likewise.
    """
    folder = _Folder(model)
    for node in model.graph.node:
        folder.fold_gemm(node)
    folder.fold_all()


_Affine: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Factor and term of `x * factor + term`, in f64: one number for each channel, or one for all."""


class _Folder(GraphEditor):
    def __init__(self, model: ModelProto) -> None:
        super().__init__(model)
        self.ranks = {name: rank_of(value) for name, value in value_types(model).items()}

    def fold_all(self) -> None:
        """Fold everything possible."""
        folded: set[int] = set()
        for node in self.graph.node:
            if not is_standard(node, "Conv", "ConvTranspose", "Gemm", "MatMul") or id(node) in folded:
                continue
            after = self.links.only_reader(node.output[0])
            while after is not None and is_standard(after, "BatchNormalization", *AFFINE) and self._fold(node, after):
                folded.add(id(after))
                self.links.makers[node.output[0]] = node
                after = self.links.only_reader(node.output[0])
        replace(self.graph.node, [node for node in self.graph.node if id(node) not in folded])

    def fold_gemm(self, node: NodeProto) -> None:
        """Set alpha and beta of a Gemm to 1, if its operands are stored."""
        if not is_standard(node, "Gemm"):
            return
        for name, place in (("alpha", 1), ("beta", 2)):
            factor = float(attribute(node, name, 1.0))
            array = self.links.array(operand(node, place))
            if factor != 1 and array is not None:
                self._put(node, place, array * array.dtype.type(factor))
                next(a for a in node.attribute if a.name == name).f = 1.0

    def _fold(self, node: NodeProto, after: NodeProto) -> bool:
        weights = self.links.array(node.input[1])
        axis = None if weights is None else weight_axis(node, weights.ndim)
        if weights is None or axis is None or weights.dtype != np.float32:
            return False
        groups = groups_of(node)
        channels = weights.shape[axis] * groups
        affine = self._affine(after, node.output[0], channels, node.op_type)
        bias = self._bias(node, channels)
        if affine is None or bias is None or (node.op_type == "MatMul" and affine[1].any()):
            return False
        factor, term = np.broadcast_to(affine[0], channels), affine[1]
        if groups == 1:
            along = factor.reshape([-1 if i == axis else 1 for i in range(weights.ndim)])
        else:  # inputs of each group, then channels of one group
            within = factor.reshape(groups, 1, -1)
            along = np.broadcast_to(within, (groups, weights.shape[0] // groups, within.shape[2])).reshape(weights.shape[0], -1)
            along = along.reshape(*along.shape, *(1,) * (weights.ndim - 2))
        self._put(node, 1, (weights * along).astype(np.float32))
        shifted = (bias * factor + term).astype(np.float32)
        if node.op_type != "MatMul" and (len(node.input) > 2 or shifted.any()):
            self._put(node, 2, shifted)
        node.output[0] = after.output[0]
        return True

    def _put(self, node: NodeProto, place: int, array: np.ndarray) -> None:
        """Replace an operand of a node by a stored array of its own."""
        before = operand(node, place)
        while len(node.input) <= place:
            node.input.append("")
        node.input[place] = self.store(f"{before}.folded" if before else f"{node.name}.bias", array)

    def _bias(self, node: NodeProto, channels: int) -> np.ndarray | None:
        """The bias of a product, one number for each channel; None if it is not stored, or has another form."""
        if not operand(node, 2):
            return np.zeros(channels)
        array = self.links.array(node.input[2])
        if array is None or array.size not in (1, channels) or (array.ndim > 1 and array.shape[-1] != array.size):
            return None
        return np.broadcast_to(array.reshape(-1), channels).astype(np.float64)

    def _affine(self, node: NodeProto, x: str, channels: int, product: str) -> _Affine | None:
        """The affine function that a node applies to `x`, a product's result; None if it does anything else."""
        rank = self.ranks.get(x)
        if rank is None:
            return None
        axis = rank - 1 if product in ("Gemm", "MatMul") else 1
        if node.op_type == "BatchNormalization":
            return self._batch_norm(node) if node.input[0] == x and axis == 1 else None
        other = [name for name in node.input if name != x]
        array = self.links.array(other[0]) if len(other) == 1 else None
        if array is None or array.dtype != np.float32 or (node.input[0] != x and node.op_type in ("Sub", "Div")):
            return None
        if array.ndim > rank or array.size not in (1, channels):
            return None
        shape = (1,) * (rank - array.ndim) + array.shape
        if array.size != 1 and shape[axis] != channels:
            return None
        values = array.reshape(-1).astype(np.float64)
        if node.op_type == "Div" and not values.all():
            return None
        if node.op_type in ("Add", "Sub"):
            return np.ones(1), values if node.op_type == "Add" else -values
        return values if node.op_type == "Mul" else 1 / values, np.zeros(1)

    def _batch_norm(self, node: NodeProto) -> _Affine | None:
        if attribute(node, "training_mode", 0) or any(self.links.readers.get(name) or name in self.links.outputs for name in node.output[1:] if name):
            return None
        arrays = [self.links.array(name) for name in node.input[1:5]]
        if any(array is None for array in arrays):
            return None
        scale, shift, mean, variance = (np.asarray(array, np.float64) for array in arrays)
        factor = scale / np.sqrt(variance + float(attribute(node, "epsilon", 1e-5)))
        return factor, shift - mean * factor

"""The `graph` dialect by op family; importing this registers every op."""

from stepwell.dialects.graph.attention import AttentionOp
from stepwell.dialects.graph.base import Graph, GraphOp, op_class, op_classes
from stepwell.dialects.graph.builder import GraphBuilder
from stepwell.dialects.graph.constants import ConstantOp, ParameterOp
from stepwell.dialects.graph.contraction import Col2ImOp, ConvOp, ConvTransposeOp, MatmulOp
from stepwell.dialects.graph.control import FusedOp, IfOp, LoopOp, RequireOp, YieldOp
from stepwell.dialects.graph.data_sizes import BindSizesOp, FirstOp, KeepOp, KeptBoxesOp, NonZeroPlacesOp, OrderRowsOp
from stepwell.dialects.graph.elementwise import (
    AbsOp,
    AddOp,
    CeilOp,
    ClampOp,
    DivOp,
    EluOp,
    FloorOp,
    LeakyReluOp,
    MaximumOp,
    MinimumOp,
    ModOp,
    MulOp,
    NegOp,
    PowOp,
    ReciprocalOp,
    ReluOp,
    RoundOp,
    SignOp,
    SubOp,
)
from stepwell.dialects.graph.indexing import (
    AtRoundOp,
    DynamicSliceOp,
    GatherElementsOp,
    GatherNdOp,
    GatherOp,
    NonZeroOp,
    ScatterElementsOp,
    ScatterNdOp,
    SliceOp,
)
from stepwell.dialects.graph.known import constant_value
from stepwell.dialects.graph.linear_algebra import DetOp, PairwiseCouplingOp
from stepwell.dialects.graph.logic import (
    AndOp,
    BitCastOp,
    BitwiseAndOp,
    BitwiseNotOp,
    BitwiseOrOp,
    BitwiseXorOp,
    CastOp,
    EqualOp,
    GreaterEqualOp,
    GreaterOp,
    IsInfOp,
    IsNanOp,
    LessEqualOp,
    LessOp,
    NotOp,
    OrOp,
    SelectOp,
    ShiftLeftOp,
    ShiftRightOp,
    XorOp,
)
from stepwell.dialects.graph.normalization import BatchNormOp, LrnOp
from stepwell.dialects.graph.pixel_shuffle import PixelShuffleOp
from stepwell.dialects.graph.pooling import AvgPoolOp, MaxPoolOp
from stepwell.dialects.graph.quantization import DequantizeOp, FakeQuantizeOp, QuantizeOp
from stepwell.dialects.graph.quantized_recurrence import QuantizedLstmOp
from stepwell.dialects.graph.random_bits import RandomBitsOp
from stepwell.dialects.graph.recurrence import GruOp, LstmOp, RnnOp
from stepwell.dialects.graph.reduction import (
    ArgMaxOp,
    ArgMinOp,
    CumprodOp,
    CumsumOp,
    LogSoftmaxOp,
    ReduceMaxOp,
    ReduceMinOp,
    ReduceProdOp,
    ReduceSumOp,
    SoftmaxOp,
    TopKOp,
)
from stepwell.dialects.graph.resize import ResizeOp
from stepwell.dialects.graph.sampling import InterpolateOp, RoiAlignOp, RoiMaxPoolOp
from stepwell.dialects.graph.selection import NonMaxSuppressionOp, UniqueOp
from stepwell.dialects.graph.shape import (
    ConcatOp,
    DynamicExpandOp,
    DynamicReshapeOp,
    ExpandOp,
    PadOp,
    RangeOp,
    ReshapeOp,
    ShapeOfOp,
    SizesOp,
    TileOp,
    TransposeOp,
)
from stepwell.dialects.graph.state import OverwriteOp
from stepwell.dialects.graph.text import CountNgramsOp
from stepwell.dialects.graph.transcendental import (
    AcoshOp,
    AcosOp,
    AsinhOp,
    AsinOp,
    AtanhOp,
    AtanOp,
    CoshOp,
    CosOp,
    ErfOp,
    ExpOp,
    LogOp,
    RsqrtOp,
    SigmoidOp,
    SinhOp,
    SinOp,
    SoftplusOp,
    SqrtOp,
    TanhOp,
    TanOp,
)
from stepwell.dialects.graph.trees import TreeEnsembleOp

__all__ = [  # noqa: RUF022 (by family)
    "Graph", "GraphBuilder", "GraphOp", "constant_value", "op_class", "op_classes",
    "AddOp", "SubOp", "MulOp", "DivOp", "ModOp", "PowOp", "MaximumOp", "MinimumOp", "NegOp", "AbsOp", "SignOp", "ReciprocalOp", "FloorOp",
    "CeilOp", "RoundOp", "ReluOp", "LeakyReluOp", "EluOp", "ClampOp",
    "SqrtOp", "RsqrtOp", "ExpOp", "LogOp", "SinOp", "CosOp", "TanOp", "AsinOp", "AcosOp", "AtanOp", "SinhOp", "CoshOp", "TanhOp",
    "AsinhOp", "AcoshOp", "AtanhOp", "ErfOp", "SigmoidOp", "SoftplusOp",
    "EqualOp", "LessOp", "LessEqualOp", "GreaterOp", "GreaterEqualOp", "AndOp", "OrOp", "XorOp", "NotOp", "BitwiseAndOp", "BitwiseOrOp",
    "BitwiseXorOp", "BitwiseNotOp", "ShiftLeftOp", "ShiftRightOp", "IsNanOp", "IsInfOp", "SelectOp", "CastOp", "BitCastOp",
    "QuantizeOp", "DequantizeOp", "FakeQuantizeOp",
    "ReduceSumOp", "ReduceProdOp", "ReduceMaxOp", "ReduceMinOp", "ArgMaxOp", "ArgMinOp", "CumsumOp", "CumprodOp", "SoftmaxOp",
    "LogSoftmaxOp", "TopKOp",
    "MatmulOp", "ConvOp", "ConvTransposeOp", "Col2ImOp", "AttentionOp", "DetOp", "PairwiseCouplingOp",
    "LstmOp", "GruOp", "RnnOp", "QuantizedLstmOp",
    "MaxPoolOp", "AvgPoolOp",
    "BatchNormOp", "LrnOp",
    "ReshapeOp", "DynamicReshapeOp", "TransposeOp", "ExpandOp", "DynamicExpandOp", "TileOp", "ConcatOp", "PadOp", "ShapeOfOp", "SizesOp", "RangeOp",
    "SliceOp", "DynamicSliceOp", "GatherOp", "GatherElementsOp", "GatherNdOp", "ScatterElementsOp", "ScatterNdOp", "NonZeroOp", "AtRoundOp",
    "ResizeOp", "InterpolateOp", "RoiAlignOp", "RoiMaxPoolOp", "TreeEnsembleOp",
    "UniqueOp", "NonMaxSuppressionOp", "CountNgramsOp", "RandomBitsOp",
    "BindSizesOp", "FirstOp", "KeepOp", "NonZeroPlacesOp", "OrderRowsOp", "KeptBoxesOp", "OverwriteOp",
    "ConstantOp", "ParameterOp",
    "PixelShuffleOp", "YieldOp", "FusedOp", "IfOp", "LoopOp", "RequireOp",
]  # fmt: skip

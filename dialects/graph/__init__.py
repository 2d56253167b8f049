"""The `graph` dialect by op family; importing this module registers every op."""

from stepwell.dialects.graph.attention import AttentionOp as AttentionOp
from stepwell.dialects.graph.base import Graph as Graph, GraphOp as GraphOp, op_class as op_class, op_classes as op_classes
from stepwell.dialects.graph.builder import GraphBuilder as GraphBuilder
from stepwell.dialects.graph.constants import ConstantOp as ConstantOp, ParameterOp as ParameterOp
from stepwell.dialects.graph.contraction import Col2ImOp as Col2ImOp, ConvOp as ConvOp, ConvTransposeOp as ConvTransposeOp, MatmulOp as MatmulOp
from stepwell.dialects.graph.control import FusedOp as FusedOp, IfOp as IfOp, LoopOp as LoopOp, RequireOp as RequireOp, YieldOp as YieldOp
from stepwell.dialects.graph.data_sizes import (
    BindSizesOp as BindSizesOp,
    FirstOp as FirstOp,
    KeepOp as KeepOp,
    KeptBoxesOp as KeptBoxesOp,
    NonZeroPlacesOp as NonZeroPlacesOp,
    OrderRowsOp as OrderRowsOp,
)
from stepwell.dialects.graph.elementwise import (
    AbsOp as AbsOp,
    AddOp as AddOp,
    CeilOp as CeilOp,
    ClampOp as ClampOp,
    DivOp as DivOp,
    EluOp as EluOp,
    FloorOp as FloorOp,
    LeakyReluOp as LeakyReluOp,
    MaximumOp as MaximumOp,
    MinimumOp as MinimumOp,
    ModOp as ModOp,
    MulOp as MulOp,
    NegOp as NegOp,
    PowOp as PowOp,
    ReciprocalOp as ReciprocalOp,
    ReluOp as ReluOp,
    RoundOp as RoundOp,
    SignOp as SignOp,
    SubOp as SubOp,
)
from stepwell.dialects.graph.indexing import (
    AtRoundOp as AtRoundOp,
    DynamicSliceOp as DynamicSliceOp,
    GatherElementsOp as GatherElementsOp,
    GatherNdOp as GatherNdOp,
    GatherOp as GatherOp,
    NonZeroOp as NonZeroOp,
    ScatterElementsOp as ScatterElementsOp,
    ScatterNdOp as ScatterNdOp,
    SliceOp as SliceOp,
)
from stepwell.dialects.graph.known import constant_value as constant_value
from stepwell.dialects.graph.linear_algebra import DetOp as DetOp, PairwiseCouplingOp as PairwiseCouplingOp
from stepwell.dialects.graph.logic import (
    AndOp as AndOp,
    BitCastOp as BitCastOp,
    BitwiseAndOp as BitwiseAndOp,
    BitwiseNotOp as BitwiseNotOp,
    BitwiseOrOp as BitwiseOrOp,
    BitwiseXorOp as BitwiseXorOp,
    CastOp as CastOp,
    EqualOp as EqualOp,
    GreaterEqualOp as GreaterEqualOp,
    GreaterOp as GreaterOp,
    IsInfOp as IsInfOp,
    IsNanOp as IsNanOp,
    LessEqualOp as LessEqualOp,
    LessOp as LessOp,
    NotOp as NotOp,
    OrOp as OrOp,
    SelectOp as SelectOp,
    ShiftLeftOp as ShiftLeftOp,
    ShiftRightOp as ShiftRightOp,
    XorOp as XorOp,
)
from stepwell.dialects.graph.normalization import BatchNormOp as BatchNormOp, LrnOp as LrnOp
from stepwell.dialects.graph.pixel_shuffle import PixelShuffleOp as PixelShuffleOp
from stepwell.dialects.graph.pooling import AvgPoolOp as AvgPoolOp, MaxPoolOp as MaxPoolOp
from stepwell.dialects.graph.quantization import DequantizeOp as DequantizeOp, FakeQuantizeOp as FakeQuantizeOp, QuantizeOp as QuantizeOp
from stepwell.dialects.graph.quantized_recurrence import QuantizedLstmOp as QuantizedLstmOp
from stepwell.dialects.graph.random_bits import RandomBitsOp as RandomBitsOp
from stepwell.dialects.graph.recurrence import GruOp as GruOp, LstmOp as LstmOp, RnnOp as RnnOp
from stepwell.dialects.graph.reduction import (
    ArgMaxOp as ArgMaxOp,
    ArgMinOp as ArgMinOp,
    CumprodOp as CumprodOp,
    CumsumOp as CumsumOp,
    LogSoftmaxOp as LogSoftmaxOp,
    ReduceMaxOp as ReduceMaxOp,
    ReduceMinOp as ReduceMinOp,
    ReduceProdOp as ReduceProdOp,
    ReduceSumOp as ReduceSumOp,
    SoftmaxOp as SoftmaxOp,
    TopKOp as TopKOp,
)
from stepwell.dialects.graph.resize import ResizeOp as ResizeOp
from stepwell.dialects.graph.sampling import InterpolateOp as InterpolateOp, RoiAlignOp as RoiAlignOp, RoiMaxPoolOp as RoiMaxPoolOp
from stepwell.dialects.graph.selection import NonMaxSuppressionOp as NonMaxSuppressionOp, UniqueOp as UniqueOp
from stepwell.dialects.graph.shape import (
    ConcatOp as ConcatOp,
    DynamicExpandOp as DynamicExpandOp,
    DynamicReshapeOp as DynamicReshapeOp,
    ExpandOp as ExpandOp,
    PadOp as PadOp,
    RangeOp as RangeOp,
    ReshapeOp as ReshapeOp,
    ShapeOfOp as ShapeOfOp,
    SizesOp as SizesOp,
    TileOp as TileOp,
    TransposeOp as TransposeOp,
)
from stepwell.dialects.graph.state import OverwriteOp as OverwriteOp
from stepwell.dialects.graph.text import CountNgramsOp as CountNgramsOp
from stepwell.dialects.graph.transcendental import (
    AcoshOp as AcoshOp,
    AcosOp as AcosOp,
    AsinhOp as AsinhOp,
    AsinOp as AsinOp,
    AtanhOp as AtanhOp,
    AtanOp as AtanOp,
    CoshOp as CoshOp,
    CosOp as CosOp,
    ErfOp as ErfOp,
    ExpOp as ExpOp,
    LogOp as LogOp,
    RsqrtOp as RsqrtOp,
    SigmoidOp as SigmoidOp,
    SinhOp as SinhOp,
    SinOp as SinOp,
    SoftplusOp as SoftplusOp,
    SqrtOp as SqrtOp,
    TanhOp as TanhOp,
    TanOp as TanOp,
)
from stepwell.dialects.graph.trees import TreeEnsembleOp as TreeEnsembleOp

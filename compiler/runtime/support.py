"""Functions that compiled code may call but not every platform provides: rounding to bfloat16."""

from collections.abc import Iterable

# Round to nearest even by adding half a unit (less one when the kept part is even) to the bits; NaN keeps its sign and becomes quiet.
_F32_TO_BF16 = """
define linkonce_odr i16 @stepwell_f32_to_bf16_bits(i32 %bits) {
  %high = lshr i32 %bits, 16
  %odd = and i32 %high, 1
  %bias = add i32 %odd, 32767
  %sum = add i32 %bits, %bias
  %rounded = lshr i32 %sum, 16
  %quiet = or i32 %high, 64
  %magnitude = and i32 %bits, 2147483647
  %nan = icmp ugt i32 %magnitude, 2139095040
  %result = select i1 %nan, i32 %quiet, i32 %rounded
  %narrow = trunc i32 %result to i16
  ret i16 %narrow
}
"""

HELPERS = {
    "__truncsfbf2": """
define bfloat @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %narrow = call i16 @stepwell_f32_to_bf16_bits(i32 %bits)
  %result = bitcast i16 %narrow to bfloat
  ret bfloat %result
}
""",
    # Rounding f64 -> f32 -> bf16 to nearest would round twice, so the first step rounds to odd, which keeps the bits that the second needs.
    "__truncdfbf2": """
define bfloat @__truncdfbf2(double %x) {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %near_bits = bitcast float %near to i32
  %lost = fcmp one double %back, %x
  %even_bit = and i32 %near_bits, 1
  %even = icmp eq i32 %even_bit, 0
  %adjust = and i1 %lost, %even
  %near_size = call double @llvm.fabs.f64(double %back)
  %size = call double @llvm.fabs.f64(double %x)
  %away = fcmp ogt double %near_size, %size
  %step = select i1 %away, i32 -1, i32 1
  %odd_bits = add i32 %near_bits, %step
  %bits = select i1 %adjust, i32 %odd_bits, i32 %near_bits
  %narrow = call i16 @stepwell_f32_to_bf16_bits(i32 %bits)
  %result = bitcast i16 %narrow to bfloat
  ret bfloat %result
}
declare double @llvm.fabs.f64(double)
""",
}


def module(names: Iterable[str]) -> str:
    """LLVM IR that defines the helpers `names`."""
    return _F32_TO_BF16 + "".join(HELPERS[name] for name in names)

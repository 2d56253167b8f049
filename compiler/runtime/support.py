"""Functions that compiled code may call but not every platform provides: conversions between floats and those of 16 bits."""

from collections.abc import Iterable

# float16 and bfloat16 are passed as their types, since each machine has its own rule for that. NaN keeps its sign and upper bits and becomes quiet.
_SHARED = """
; Round to nearest even by adding half a unit (less one when the kept part is even) to the bits.
define internal i16 @stepwell_f32_to_bf16_bits(i32 %bits) {
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

; The same, where the exponent changes its bias by 112. Below 2^-14, adding a half leaves a multiple of the smallest float16, rounded by the addition.
define internal i16 @stepwell_f32_to_f16_bits(i32 %bits) {
  %sign_bit = lshr i32 %bits, 16
  %sign = and i32 %sign_bit, 32768
  %magnitude = and i32 %bits, 2147483647
  %upper = lshr i32 %magnitude, 13
  %odd = and i32 %upper, 1
  %rebiased = sub i32 %magnitude, 939524096
  %bias = add i32 %odd, 4095
  %sum = add i32 %rebiased, %bias
  %normal = lshr i32 %sum, 13
  %size = bitcast i32 %magnitude to float
  %shifted = fadd float %size, 5.0e-1
  %shifted_bits = bitcast float %shifted to i32
  %denormal = sub i32 %shifted_bits, 1056964608
  %is_small = icmp ult i32 %magnitude, 947912704
  %finite = select i1 %is_small, i32 %denormal, i32 %normal
  %is_large = icmp ugt i32 %magnitude, 1199566847
  %number = select i1 %is_large, i32 31744, i32 %finite
  %payload = and i32 %upper, 1023
  %quiet = or i32 %payload, 32256
  %nan = icmp ugt i32 %magnitude, 2139095040
  %unsigned = select i1 %nan, i32 %quiet, i32 %number
  %result = or i32 %unsigned, %sign
  %narrow = trunc i32 %result to i16
  ret i16 %narrow
}

; Scaling by 2^112 changes the bias of the exponent, and is exact for denormal numbers too.
define internal float @stepwell_f16_bits_to_f32(i16 %half) {
  %bits = zext i16 %half to i32
  %sign_bit = and i32 %bits, 32768
  %sign = shl i32 %sign_bit, 16
  %magnitude = and i32 %bits, 32767
  %placed = shl i32 %magnitude, 13
  %small = bitcast i32 %placed to float
  %scaled = fmul float %small, 0x46F0000000000000
  %number = bitcast float %scaled to i32
  %special = or i32 %placed, 2139095040
  %quiet = or i32 %placed, 2143289344
  %nan = icmp ugt i32 %magnitude, 31744
  %not_finite = icmp ugt i32 %magnitude, 31743
  %infinite_or_nan = select i1 %nan, i32 %quiet, i32 %special
  %unsigned = select i1 %not_finite, i32 %infinite_or_nan, i32 %number
  %result_bits = or i32 %unsigned, %sign
  %result = bitcast i32 %result_bits to float
  ret float %result
}

; Rounding f64 -> f32 -> 16 bits to nearest would round twice, so the first step rounds to odd, which keeps the bits that the second needs.
define internal i32 @stepwell_f64_to_f32_odd_bits(double %x) {
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
  ret i32 %bits
}
declare double @llvm.fabs.f64(double)
"""


def _rounding(name: str, source: str, result: str) -> str:
    """A function that rounds a float or double to a type of 16 bits."""
    part = {"half": "f16", "bfloat": "bf16"}[result]
    bits = "bitcast float %x to i32" if source == "float" else "call i32 @stepwell_f64_to_f32_odd_bits(double %x)"
    return f"""
define {result} @{name}({source} %x) {{
  %bits = {bits}
  %narrow = call i16 @stepwell_f32_to_{part}_bits(i32 %bits)
  %result = bitcast i16 %narrow to {result}
  ret {result} %result
}}
"""


HELPERS = {
    "__truncsfbf2": _rounding("__truncsfbf2", "float", "bfloat"),
    "__truncdfbf2": _rounding("__truncdfbf2", "double", "bfloat"),
    "__truncsfhf2": _rounding("__truncsfhf2", "float", "half"),
    "__truncdfhf2": _rounding("__truncdfhf2", "double", "half"),
    "__extendhfsf2": """
define float @__extendhfsf2(half %x) {
  %bits = bitcast half %x to i16
  %result = call float @stepwell_f16_bits_to_f32(i16 %bits)
  ret float %result
}
""",
}
"""LLVM IR that defines a function, by its name; it may call functions of `_SHARED`."""


def module(names: Iterable[str]) -> str:
    """LLVM IR, for any machine, that defines the helpers `names`."""
    return _SHARED + "".join(HELPERS[name] for name in names)

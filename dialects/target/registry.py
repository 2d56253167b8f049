"""Targets by name: ours, the host, and those that plugins register."""

from collections.abc import Callable

from stepwell.dialects.support.errors import InputError, shown
from stepwell.dialects.support.extensions import extension
from stepwell.dialects.target.description import Target, describe
from stepwell.dialects.target.host import host

_X86_V3 = frozenset({"sse2", "sse4.2", "avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe", "popcnt"})
_X86_V4 = _X86_V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_X86, _AARCH64 = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
_NAMED = {
    "x86-64-v2": (_X86, "x86-64-v2", frozenset({"sse2", "sse4.2", "popcnt"})),
    "x86-64-v3": (_X86, "x86-64-v3", _X86_V3),
    "x86-64-v4": (_X86, "x86-64-v4", _X86_V4),
    "avx-vnni": (_X86, "x86-64-v3", _X86_V3 | {"avxvnni"}),
    "x86-64-v4-vnni": (_X86, "x86-64-v4", _X86_V4 | {"avx512vnni"}),
    "x86-64-v4-bf16": (_X86, "x86-64-v4", _X86_V4 | {"avx512vnni", "avx512bf16"}),
    "x86-64-v4-amx": (_X86, "x86-64-v4", _X86_V4 | {"avx512vnni", "avx512bf16", "amx-tile", "amx-bf16", "amx-int8"}),
    "aarch64-neon": (_AARCH64, "generic", frozenset({"neon", "fp-armv8"})),
    "aarch64-dotprod": (_AARCH64, "neoverse-n1", frozenset({"neon", "fp-armv8", "dotprod"})),
    "riscv64-v": ("riscv64-unknown-linux-gnu", "generic-rv64", frozenset({"64bit", "m", "a", "f", "d", "c", "v", "zvl128b"})),
    "wasm32-simd128": ("wasm32-unknown-unknown", "generic", frozenset({"simd128", "bulk-memory", "nontrapping-fptoint", "sign-ext"})),
}
_REGISTERED: dict[str, Target | Callable[[], Target]] = {"host": host}


def register_target(name: str, target: Target | Callable[[], Target]) -> None:
    """Register a machine under a name for `--target` and `target=`; a function is called when the target is first needed.

    Raises InputError if another target has the name.
    """
    if not isinstance(name, str) or not name:
        raise InputError(f"expected the name of a target, got {shown(name)}")
    if name in target_names() and _REGISTERED.get(name) != target:
        raise InputError(f"target '{name}' is already there")
    if not isinstance(target, Target):
        extension(target)
    _REGISTERED[name] = target


def is_built_in(name: str) -> bool:
    """Whether a name is one of our own targets, whose meaning never changes."""
    return name == "host" or name in _NAMED


def target_names() -> tuple[str, ...]:
    """The names of all targets."""
    return tuple(dict.fromkeys(("host", *_NAMED, *_REGISTERED)))


def resolve(target: "str | Target") -> Target:
    """The target named `target`: one of `target_names()`. Raises InputError for an unknown name."""
    if isinstance(target, Target):
        return target
    known = _REGISTERED.get(check_name(target))
    if known is None:
        return describe(target, *_NAMED[target])
    found = known if isinstance(known, Target) else known()
    if not isinstance(found, Target):
        raise InputError(f"target '{target}': expected a Target, its function gives {shown(found)}")
    return found


def check_name(target: str) -> str:
    """`target` itself. Raises InputError if no target has that name."""
    if target not in target_names():
        raise InputError(f"unknown target '{target}'; known: {', '.join(target_names())}")
    return target

"""Objects of the functions that a model's code calls and no library of its machine has, kept in the cache."""

from collections.abc import Sequence

from stepwell.backends.llvm_cpu.emit_object import object_of_text
from stepwell.cache.disk import Cache
from stepwell.cache.fingerprint import code_generation
from stepwell.dialects.support.digests import key_of
from stepwell.dialects.target.description import Target
from stepwell.runtime import support


def helper_object(names: Sequence[str], target: Target, store: Cache | None) -> bytes:
    """An object of the helpers `names` of `support`, from the cache if possible. Raises CodegenError if LLVM cannot make it."""
    generation = code_generation(target) if store is not None else None
    if store is None or generation is None:
        return object_of_text(support.module(names), target)
    key = key_of("helpers", generation, support.module(names))
    known = store.get("objects", key)
    if known is None:
        known = object_of_text(support.module(names), target)
        store.put("objects", key, known)
    return known

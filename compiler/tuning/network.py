"""A network that is tuned: lowered once, with a module of its own for each kernel, and the requests that build its candidates."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from stepwell.analysis.random_inputs import random_array
from stepwell.dialects.sched.plan_file import Plan
from stepwell.dialects.support.errors import InputError, UnsupportedError, shown
from stepwell.driver.lowering import descend, lower, read_ir
from stepwell.options import CompileOptions
from stepwell.passes.schedule.candidates import SCHEDULE
from stepwell.pipelines.lowered import Lowered
from stepwell.pipelines.routes import DEFAULT
from stepwell.signature import TensorInfo
from stepwell.tuning.blobs import Blob
from stepwell.tuning.builds import (
    SCHEDULED,
    Inputs,
    IsolatedKernel,
    KernelBuild,
    NetworkBuild,
    Put,
    below,
    isolated_kernels,
    program_of,
    promises,
    stored_inputs,
)
from stepwell.tuning.device import Built
from stepwell.tuning.measuring import PARTS
from stepwell.tuning.program import KernelCode, Program
from stepwell.tuning.sites import ALL_FLOORS, Site, find_sites, plan_of
from stepwell.tuning.subject import Part, Taken, Texts, site_key


class Network:
    """A network as `Subject`, with the plan that is part of it.

    Raises the errors of `lower`, InputError for a backend without native code, and UnsupportedError for a network that is more than a list of kernels
    of static sizes.
    """

    def __init__(
        self, source: str | bytes, options: CompileOptions, *, name: str, content: str = "", threads: int, put: Put,
        inputs: Mapping[str, np.ndarray] | None = None, rounding: bool = False, floors: Sequence[str] = ALL_FLOORS,
        sent: str | bytes | Blob | None = None,
    ) -> None:  # fmt: skip
        """`inputs` are the data of runs by name, random ones if None; `put` stores large data. With `rounding`, candidates may change bits.

        `sent` is the source for other processes, which may be on other machines; by default `source`.
        """
        if options.backend != DEFAULT:
            raise InputError(f"backend: kernels are timed in native code, expected '{DEFAULT}', got {shown(options.backend)}")
        self.source, self.options, self.name, self.content, self.threads = source, options, name, content, threads
        self._sent = source if sent is None else sent
        self._put, self._arrays, self._rounding, self._floors = put, inputs, rounding, tuple(floors)
        self._lowered = lower(source, SCHEDULED, options=options, recording=True)
        if self._lowered.border is not None:
            raise UnsupportedError("tuning a network with strings or maps is not supported")
        self._inputs = self._stored(inputs)
        self._kernels, self.program = self._compiled()
        found = find_sites(
            self._lowered, network=name, content=content, threads=threads, rounding=rounding, floors=floors, relower=self._relowered,
            in_place=self.program.in_place,
        )
        sites = [site for site in found if site.space.size() > 1]
        self.parts = tuple(self._parts(sites))
        self._sites = {site_key(site): site for site in sites}

    @property
    def whole(self) -> Built:
        """See `Subject`."""
        return Built(self.program.digest, self.program)

    def request(self, part: str, texts: Texts) -> KernelBuild | NetworkBuild:
        """See `Subject`."""
        if part == PARTS:
            return self.request_whole({part: texts})
        return KernelBuild(self._kernels[part], {self._sites[key].op: text for key, text in texts.items()}, below(self.options))

    def request_whole(self, taken: Taken) -> NetworkBuild:
        """See `Subject`."""
        return NetworkBuild(self._sent, replace(self.options, plan=None), self.plan(taken), self._inputs)

    def exchanged(self, built: Mapping[str, Built]) -> Built | None:
        """See `Subject`: code may be exchanged unless it takes more scratch memory than the network has for its kernel."""
        objects = dict(self.program.objects)
        for name, one in built.items():
            if name == PARTS or not isinstance(one.code, KernelCode):
                return None
            own = self.program.kernel(name).scratch_bytes
            if (one.code.scratch_bytes is None) != (own is None) or (one.code.scratch_bytes or 0) > (own or 0):
                return None
            objects[name] = one.code.code
        program = replace(self.program, objects=objects)
        return Built(program.digest, program)

    def plan(self, taken: Taken) -> Plan:
        """See `Subject`."""
        chosen = {self._sites[key]: text for texts in taken.values() for key, text in texts.items()}
        return plan_of(chosen, self._lowered.target, self.options.chosen)

    def rebased(self, texts: Texts) -> "Network":
        """See `Subject`."""
        options = replace(self.options, plan=self.plan({PARTS: texts}))
        return Network(
            self.source, options, name=self.name, content=self.content, threads=self.threads, put=self._put, inputs=self._arrays,
            rounding=self._rounding, floors=self._floors, sent=self._sent,
        )  # fmt: skip

    def _stored(self, given: Mapping[str, np.ndarray] | None) -> Inputs:
        info = self._lowered.info
        infos = [TensorInfo.from_type(name, kind, info.any_integers) for name, kind in info.inputs]
        names = [one.name for one in infos]
        if given is not None and set(given) != set(names):
            raise InputError(f"inputs: expected {', '.join(names) or 'none'}, got {', '.join(map(shown, given)) or 'none'}")
        arrays = given if given is not None else {one.name: random_array(one, 0, number) for number, one in enumerate(infos)}
        return stored_inputs(infos, arrays, self._put)

    def _compiled(self) -> tuple[Mapping[str, IsolatedKernel], Program]:
        """The kernels in modules of their own, and the network as it is."""
        copy = read_ir(self._lowered.text(), SCHEDULED, self._lowered.weights, options=below(self.options))
        descend(copy, "affine", keep=False)
        with copy.module.context:
            promised = promises(copy)
        program = program_of(copy, self._inputs, self._put)
        return {name: replace(kernel, promises=promised[name]) for name, kernel in isolated_kernels(self._lowered).items()}, program

    def _parts(self, sites: Sequence[Site]) -> "list[Part]":
        by_kernel: dict[str, list[Site]] = {}
        for site in sites:
            if site.kind == SCHEDULE:
                by_kernel.setdefault(site.info.name.partition(":")[0], []).append(site)
        parts = []
        for name, own in by_kernel.items():
            code = self.program.kernel(name)
            parts.append(Part(name, own, Built(code.digest, code)))
        others = [site for site in sites if site.kind != SCHEDULE]
        return [*parts, Part(PARTS, others, self.whole)] if others else parts

    def _relowered(self, plan: Plan) -> Lowered:
        return lower(self.source, SCHEDULED, options=replace(self.options, plan=plan))

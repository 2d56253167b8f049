"""Levels are records that are asked what holds, and paths of them are the ways that backends go."""

import pytest

from stepwell.dialects.support.errors import InputError, PipelineError
from stepwell.passes.framework import levels
from stepwell.passes.framework.levels import Level, LevelPath, find_level, level_names, register_level
from stepwell.passes.framework.registry import Pass, register_pass
from stepwell.pipelines.routes import CPU_PATH


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Level:
    monkeypatch.setattr(levels, "_REGISTERED", dict(levels._REGISTERED))
    return register_level(Level("own", outlined=True, arena=True, interpretable=True))


def test_the_default_path() -> None:
    assert CPU_PATH.stages == ("graph-opt", "linalg", "scheduled", "affine", "llvm")
    assert (CPU_PATH.outlined, CPU_PATH.packed, CPU_PATH.last) == ("graph-opt", "linalg", "llvm")
    assert CPU_PATH.interpretable == ("graph", "graph-opt", "linalg", "scheduled")
    assert CPU_PATH.in_f64 == ("graph", "graph-opt")
    assert [level.name for level in CPU_PATH.levels if level.scheduled] == ["scheduled", "affine", "llvm"]
    assert [level.name for level in CPU_PATH.levels if level.buffers] == ["affine", "llvm"]


def test_a_path_knows_the_order(own: Level) -> None:
    path = LevelPath("graph", "graph-opt", "linalg", own.name)
    assert path.above("own") == "linalg"
    assert path.since("linalg") == ("linalg", "own")
    assert path.between("graph", "linalg") == ("graph-opt", "linalg")
    assert path.between("own", "own") == ()
    assert path.begins_with(LevelPath("graph", "graph-opt"))
    assert not path.begins_with(CPU_PATH)
    assert "own" in path
    assert "affine" not in path
    with pytest.raises(InputError, match="level 'linalg' lies above 'own': lowering goes downwards only"):
        path.between("own", "linalg")
    with pytest.raises(InputError, match="the path graph, graph-opt, linalg, own has no level 'affine'"):
        path.between("graph", "affine")
    with pytest.raises(InputError, match="there is no level above 'graph'"):
        path.above("graph")
    with pytest.raises(InputError, match="the path graph has no level with an arena"):
        _ = LevelPath("graph").packed


def test_a_path_that_cannot_be(own: Level) -> None:
    register_level(Level("tensors", outlined=True, arena=True, scheduled=True))
    for names in ((), ("graph-opt", "linalg"), ("graph", "graph-opt", "graph")):
        with pytest.raises(InputError, match="expected a path of different levels that begins at graph, got "):
            LevelPath(*names)
    with pytest.raises(InputError, match=r"unknown level 'attic'; the levels are: graph, .*, llvm, own, tensors$"):
        LevelPath("graph", "attic")
    with pytest.raises(InputError, match="level 'own' cannot come below 'scheduled': it lacks scheduled=True, which holds above"):
        LevelPath("graph", "graph-opt", "linalg", "scheduled", own.name)
    with pytest.raises(InputError, match="level 'tensors' cannot come below 'affine': it lacks buffers=True"):
        LevelPath("graph", "graph-opt", "linalg", "scheduled", "affine", "tensors")


def test_registering(own: Level) -> None:
    assert level_names()[-1] == "own"
    assert find_level("own") is own
    assert register_level(Level("own", outlined=True, arena=True, interpretable=True)) == own, "a plugin may be loaded again"
    for name in ("own", "graph"):
        with pytest.raises(InputError, match=f"level '{name}' is already there"):
            register_level(Level(name, outlined=True))
    with pytest.raises(InputError, match="expected a Level, got 'own'"):
        register_level("own")  # type: ignore[arg-type]
    for name in ("", "a b", "x(", 3):
        with pytest.raises(InputError, match="expected the name of a level, of letters, digits, - and _, got "):
            Level(name)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="level 'odd': buffers=True needs arena=True"):
        Level("odd", outlined=True, buffers=True)
    with pytest.raises(InputError, match="level 'odd': arena=True needs outlined=True"):
        Level("odd", arena=True)


def test_passes_work_on_registered_levels(own: Level) -> None:
    class Nothing(Pass):
        """Nothing."""

    register_pass("nothing-at-all", level=own.name)
    with pytest.raises(PipelineError, match=r"pass 'nothing-at-all': level must be one of graph, .*, llvm, own, got 'attic'"):
        register_pass("nothing-at-all", level="attic")(Nothing)

"""The tables that a run ends with."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from real_data.compare import Summary
from real_data.verdicts import Verdict

__all__ = ["show_summaries", "show_verdicts"]


def show_summaries(out: Console, found: Sequence[Summary]) -> None:
    """A table for each task, a row for each setting in each engine."""
    for task in dict.fromkeys(summary.task for summary in found):
        own = [summary for summary in found if summary.task == task]
        names = list(own[0].accuracy)
        title = f"{task}: {own[0].samples} samples, {own[0].folds} {'fold' if own[0].folds == 1 else 'folds'}; losses in points"
        table = _table(title, ("quantiser", "setting", "runs in"), (*(f"{name} %" for name in names), "loss", "±", "lost", "won", "agreement %"))
        for s in own:
            figures = [f"{s.accuracy[name]:.2f}" for name in names]
            figures += [f"{s.loss:.2f}", f"{s.error:.2f}", str(s.lost), str(s.won), f"{s.agreement:.2f}"]
            table.add_row(s.quantiser, s.setting, s.engine, *figures)
        out.print(table)
        out.print()


def show_verdicts(out: Console, found: Sequence[Verdict]) -> None:
    """The best settings side by side, and what is not as asked."""
    table = _table("the best setting of each quantiser, in its own engine", ("task", "stepwell"), ("loss", "agreement %"))
    for name in ("onnxruntime", "verdict"):
        table.add_column(name)
        if name == "onnxruntime":
            table.add_column("loss", justify="right")
    for v in found:
        ours = (v.ours.setting, f"{v.ours.loss:.2f}", f"{v.ours.agreement:.2f}")
        table.add_row(v.task, *ours, v.theirs.setting, f"{v.theirs.loss:.2f}", "; ".join(v.problems) or "ok")
    out.print(table)


def _table(title: str, words: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for head in words:
        table.add_column(head)
    for head in numbers:
        table.add_column(head, justify="right")
    return table

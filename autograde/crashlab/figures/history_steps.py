"""The steps of a thread that are shown: a long one is folded where nothing but nodes happened."""

from crashlab.history import Checkpoint, History

LONG = 16  # a thread of more steps is folded
ENDS = 3  # steps that stay at both ends of a folded thread


def columns(checkpoints: list[Checkpoint]) -> list[range]:
    """Return the steps of each column: one, or a run of steps that is folded.

    More than `LONG` steps are folded. Those at both ends stay, and all at which more happened than
    that nodes ran.
    """
    if not checkpoints:
        return []
    steps = range(min(c.step for c in checkpoints), max(c.step for c in checkpoints) + 1)
    forked = {child for c in checkpoints if len(c.children) > 1 for child in c.children}
    kept = {*steps[:ENDS], *steps[-ENDS:]}
    kept |= {c.step for c in checkpoints if c.id in forked or _notable(c)}
    found: list[range] = []
    for step in steps:
        if len(steps) > LONG and found and step not in kept and found[-1][-1] not in kept:
            found[-1] = range(found[-1].start, step + 1)
        else:
            found.append(range(step, step + 1))
    return found


def _notable(each: Checkpoint) -> bool:
    happened = any(task.questions or task.error for task in each.tasks)
    return len(each.children) != 1 or each.source in ("update", "fork") or happened


def unfolded(thread: History, steps: list[range], namespace: str = "") -> list[Checkpoint]:
    """Return the checkpoints that are not folded away, those of subgraphs after their owner."""
    single = {column[0] for column in steps if len(column) == 1}
    found = []
    for each in thread.of(namespace):
        if each.step in single:
            found.append(each)
            for inner in thread.within(each):
                found += unfolded(thread, columns(thread.of(inner)), inner)
    return found

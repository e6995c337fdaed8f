"""The command `crashlab`: check and drill for learners; course, release and class for authors."""

import argparse
import sys
from pathlib import Path

from crashlab.course.paths import HERE, CourseError


def main(arguments: list[str] | None = None) -> int:
    """Run one subcommand; 0 if all is well, 1 if points are lost, 2 if it could not be done."""
    parser = argparse.ArgumentParser(prog="crashlab", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    command = commands.add_parser("check", help="judge your notebook, test by test")
    command.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    command.set_defaults(run=lambda options: _check(options.notebooks))
    command = commands.add_parser("drill", help="say answers aloud, and meet them again when due")
    command.add_argument("--lang", choices=("en", "zh"), default="en", help="of the questions")
    command.add_argument("--mock", action="store_true", help="a mock interview of 20 minutes")
    command.add_argument("--record", type=Path, metavar="FOLDER", help="where your ratings are")
    command.add_argument(
        "--export", nargs="+", metavar=("anki", "FILE"), help="write the questions for Anki instead"
    )
    command.set_defaults(run=_drill)
    command = commands.add_parser("course", help="run the solution notebooks")
    command.add_argument("name", nargs="?", default="", help="one of them, e.g. 02_checkpoint")
    command.set_defaults(run=lambda options: _course(options.name))
    command = commands.add_parser("release", help="remake solution and student notebooks")
    command.set_defaults(run=lambda options: _release())
    command = commands.add_parser("class", help="let nbgrader grade the known wrong answers")
    command.add_argument("name", nargs="?", default="", help="of one notebook, e.g. 02_checkpoint")
    command.set_defaults(run=lambda options: _class(options.name))
    options = parser.parse_args(arguments)
    try:
        return options.run(options)
    except CourseError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


# Each command imports what it needs: nbgrader alone takes a second.


def _check(paths: list[Path]) -> int:
    from crashlab.course.check import check

    passed, unreadable = True, False
    for path in paths:
        print(f"{path.name}: running …", flush=True)
        try:
            judgement = check(path)
        except CourseError as error:
            print(error, file=sys.stderr)
            unreadable = True
            continue
        passed = passed and judgement.passed
        for note in judgement.notes:
            print(f"  {note}")
        for verdict in judgement.verdicts:
            name = f"{verdict.exercise}: {verdict.test}".removeprefix(": ")
            worth = f"{verdict.earned:g} of {verdict.points:g}"
            print(f"  {verdict.status:<13}  {worth:>7}  {name}")
            for line in verdict.sentence.splitlines():
                print(f"{'':26}{line}")
        earned = sum(verdict.earned for verdict in judgement.verdicts)
        possible = sum(verdict.points for verdict in judgement.verdicts)
        print(f"  {earned:g} of {possible:g} points")
    return 2 if unreadable else 0 if passed else 1


def _drill(options: argparse.Namespace) -> int:
    from crashlab.drill.terminal import main as drill

    if not options.export:
        return drill(options.lang, options.mock, options.record)
    kind, *files = options.export
    if kind != "anki" or len(files) > 1:
        raise CourseError("--export takes the word anki, and a FILE if you like.")
    return drill(options.lang, anki=Path(*files or ["crashlab.apkg"]))


def _course(name: str) -> int:
    from crashlab.course.run_course import run_course

    runs = run_course(name)
    _table(
        ["notebook", "points", "seconds"],
        [
            (run.notebook, f"{run.earned:g} of {run.possible:g}", f"{run.seconds:.1f}")
            for run in runs
        ],
    )
    for run in runs:
        for cell in run.broken:
            print(f"{run.notebook}, {cell.place}: {cell.failure.sentence}")
    return 1 if any(run.broken for run in runs) else 0


def _release() -> int:
    from crashlab.course.release import release

    for path in release():
        print(f"removed {HERE.name(path)}: its author file is gone")
    return 0


def _class(name: str) -> int:
    from crashlab.course.sample_class import grade_sample_class

    scores, path = grade_sample_class(name=name)
    _table(
        ["student", "notebook", "misconception", "points", "expected", "status"],
        [
            (
                score.submission.student,
                score.submission.author.stem,
                score.submission.why,
                f"{score.earned:g} of {score.possible:g}",
                f"{score.expected:g}",
                score.status,
            )
            for score in scores
        ],
    )
    for score in scores:
        for line in score.differences:
            print(f"{score.submission.student}, {score.submission.author.stem}: {line}")
    print(f"written to {HERE.name(path)}")
    return 0 if all(score.as_expected for score in scores) else 1


def _table(heads: list[str], rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in [heads, *rows]:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


if __name__ == "__main__":
    sys.exit(main())

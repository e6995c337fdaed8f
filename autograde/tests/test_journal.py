"""What nodes did is written down outside the graph, survives every kill, and is drawn as it is."""

import asyncio
import json
import operator
import os
import pickle
import sqlite3
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from matplotlib.figure import Figure

from crashlab import BenchError, Life, WorkFolder, launch
from crashlab.figures import graph_lives, save_png
from crashlab.figures.graph_lives import AGAIN, DONE, KEPT, PAUSED, RAISED, draw
from crashlab.figures.lives import ENDS
from crashlab.figures.style import INK
from crashlab.journal import Journal, Record
from crashlab.source import Point

THREAD = {"configurable": {"thread_id": "t"}}
FINISHED = Life("run", "finished", value="done")
KILLED = Life("run", "killed", point=Point(__file__, 1, 1))


class State(TypedDict):
    done: Annotated[list, operator.add]


def graph(*nodes: Any, edges: list[tuple[Any, str]], folder: WorkFolder | None = None) -> Any:
    builder = StateGraph(State)
    for node in nodes:
        builder.add_node(node.__name__, node)
    for edge in edges:
        builder.add_edge(*edge)
    if folder is None:
        return builder.compile()
    file = sqlite3.connect(folder.path / "graph.db", check_same_thread=False)
    return builder.compile(checkpointer=SqliteSaver(file))


def told(records: list[Record]) -> list[tuple]:
    return [(r.node, r.what, r.word) for r in records]


# The journal


def two_steps(folder: WorkFolder, state: dict | None) -> list:
    journal = Journal(folder.path / "journal.jsonl")

    def book(state: State) -> dict:
        with journal.node("book"):
            journal.effect("room")
            return {"done": ["book"]}

    def pay(state: State) -> dict:
        with journal.node("pay"):
            journal.effect("money")
            journal.effect("receipt")
            return {"done": ["pay"]}

    run = graph(book, pay, edges=[(START, "book"), ("book", "pay")], folder=folder)
    return run.invoke(state, THREAD, durability="sync")["done"]


def test_a_kill_inside_a_node_and_the_life_after_it() -> None:
    with WorkFolder.fresh() as folder:
        journal = Journal(folder.path / "journal.jsonl")
        assert (journal.lives(), journal.count("money"), journal.torn()) == ([], 0, 0)
        first = launch(two_steps, folder, {"done": []}, kill_before='"receipt"')
        second = launch(two_steps, folder, None)
        assert (first.end, second.result()) == ("killed", ["book", "pay"])
        one, two = journal.lives()
        assert told(one) == [
            ("book", "entered", ""),
            ("book", "effect", "room"),
            ("book", "left", ""),
            ("pay", "entered", ""),
            ("pay", "effect", "money"),
        ]
        assert told(two) == [
            ("pay", "entered", ""),
            ("pay", "effect", "money"),
            ("pay", "effect", "receipt"),
            ("pay", "left", ""),
        ]
        assert [r.life for r in one + two] == [1] * 5 + [2] * 4
        assert [r.entry for r in one + two] == [1, 1, 1, 2, 2, 3, 3, 3, 3]
        assert [journal.count(word) for word in ("room", "money", "receipt")] == [1, 2, 1]
        assert [journal.entered(node) for node in ("book", "pay")] == [1, 2]
        assert repr(journal) == "journal.jsonl: 9 records of 2 lives"

        shown = repr(graph_lives(journal, [first, second]))
        assert "Life 1: book (room); pay (money) did not end; was killed before line" in shown
        assert "Life 2: pay (money again, receipt); finished and returned ['book', 'pay']." in shown
        check_numbers(draw(journal.lives(), [first, second], ""), journal)


def test_a_kill_after_the_last_line_of_a_node_leaves_it_open() -> None:
    def run(path: Path) -> None:
        journal = Journal(path)
        with journal.node("a"):
            journal.effect("x")

    with WorkFolder.fresh() as folder:
        path = folder.path / "journal.jsonl"
        assert launch(run, path, kill_before="with journal", visit=2).end == "killed"
        assert told(Journal(path).lives()[0])[-1] == ("a", "effect", "x")


def test_an_interrupt_is_resumed_in_a_new_process() -> None:
    def run(folder: WorkFolder, state: object) -> dict:
        journal = Journal(folder.path / "journal.jsonl")

        def approve(state: State) -> dict:
            with journal.node("approve"):
                journal.effect("mail to the boss")
                return {"done": [interrupt("ok?")]}

        run = graph(approve, edges=[(START, "approve")], folder=folder)
        return run.invoke(state, THREAD, durability="sync")["done"]

    with WorkFolder.fresh() as folder:
        journal = Journal(folder.path / "journal.jsonl")
        assert launch(run, folder, {"done": []}).result() == []
        assert launch(run, folder, Command(resume="yes")).result() == ["yes"]
        assert (journal.entered("approve"), journal.count("mail to the boss")) == (2, 2)
        assert [life[-1].what for life in journal.lives()] == ["paused", "left"]
        assert journal.lives()[0][-1].word == "GraphInterrupt"
        assert "approve (mail to the boss) paused." in repr(graph_lives(journal))
        check_numbers(draw(journal.lives(), None, ""), journal)


def test_an_exception_is_written_down_and_goes_on(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    with pytest.raises(LookupError, match="gone"), journal.node("fetch"):
        raise LookupError("gone")
    journal.effect("clean up")
    assert told(journal.lives()[0])[1:] == [
        ("fetch", "raised", "LookupError"),
        (None, "effect", "clean up"),
    ]
    words = repr(graph_lives(journal))
    assert "Life 1: fetch raised LookupError; clean up outside any node." in words


def siblings(folder: WorkFolder, state: dict | None) -> list:
    journal = Journal(folder.path / "journal.jsonl")
    begun = threading.Event()

    def weather(state: State) -> dict:
        with journal.node("weather"):
            begun.wait(5)
            journal.effect("ask")
            return {"done": ["weather"]}

    def news(state: State) -> dict:
        with journal.node("news"):
            begun.set()
            journal.effect("buy")
            time.sleep(0.3)  # until LangGraph has saved what its sibling returned
            journal.effect("translate")
            return {"done": ["news"]}

    edges = [(START, "weather"), (START, "news")]
    run = graph(weather, news, edges=edges, folder=folder)
    return run.invoke(state, THREAD, durability="sync")["done"]


def test_of_two_parallel_nodes_one_is_killed_and_resumed() -> None:
    with WorkFolder.fresh() as folder:
        journal = Journal(folder.path / "journal.jsonl")
        ends = [launch(siblings, folder, {"done": []}, kill_before='"translate"')]
        ends += [launch(siblings, folder, None)]
        assert [end.end for end in ends] == ["killed", "finished"]
        one, two = journal.lives()
        nodes = {r.word: r.node for r in one + two if r.what == "effect"}
        assert nodes == {"ask": "weather", "buy": "news", "translate": "news"}
        assert ("weather", "left", "") in told(one)
        assert ("news", "left", "") not in told(one)
        assert {r.node for r in two} == {"news"}
        assert "at the same time: " in repr(graph_lives(journal, ends))
        check_numbers(draw(journal.lives(), ends, ""), journal)


def owners(journal: Journal) -> dict[str, str | None]:
    """Return for each effect the node that the journal gives it to."""
    return {r.word: r.node for life in journal.lives() for r in life if r.what == "effect"}


def test_effects_of_parallel_nodes_and_of_their_tasks_keep_apart(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    both = threading.Barrier(2, timeout=5)
    threads = set()

    @task
    def call(word: str) -> None:
        journal.effect(word)
        threads.add(threading.current_thread())

    def make(name: str) -> Any:
        def node(state: State) -> None:
            with journal.node(name):
                both.wait()  # now both are entered
                journal.effect(f"{name} itself")
                threads.add(threading.current_thread())
                for future in [call(f"{name} task {i}") for i in range(3)]:
                    future.result()
                both.wait()

        node.__name__ = name
        return node

    graph(make("a"), make("b"), edges=[(START, "a"), (START, "b")]).invoke({"done": []})
    assert threading.current_thread() not in threads
    assert len(threads) > 2
    found = owners(journal)
    assert len(found) == 8
    assert all(node == word.split()[0] for word, node in found.items())


def test_effects_of_async_nodes_in_one_thread_keep_apart(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")

    async def run() -> None:
        turn = asyncio.Event()

        async def a(state: State) -> None:
            with journal.node("a"):
                await turn.wait()
                journal.effect("a late")  # b was entered since
                await asyncio.to_thread(journal.effect, "a in a thread")

        async def b(state: State) -> None:
            with journal.node("b"):
                turn.set()
                await asyncio.sleep(0.05)
                journal.effect("b late")  # a has left since

        await graph(a, b, edges=[(START, "a"), (START, "b")]).ainvoke({"done": []})

    asyncio.run(run())
    assert owners(journal) == {"a late": "a", "a in a thread": "a", "b late": "b"}


def test_a_node_inside_a_node_and_the_rest_of_the_outer_one(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    with journal.node("outer"):
        with journal.node("inner"):
            journal.effect("in")
        journal.effect("out")
    journal.effect("after")
    assert owners(journal) == {"in": "inner", "out": "outer", "after": None}


def test_it_travels_and_needs_no_open_file(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.effect("before")
    assert pickle.loads(pickle.dumps(journal)) == journal

    def elsewhere() -> None:
        with journal.node("there"):  # from the closure, as in a notebook
            journal.effect("far")

    launch(elsewhere).result()
    assert owners(journal) == {"before": None, "far": "there"}
    assert len(journal.lives()) == 2


def test_a_fork_is_a_life_of_its_own(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")

    def forks() -> None:
        journal.effect("parent")
        if os.fork() == 0:
            journal.effect("child")
            os._exit(0)
        os.wait()

    launch(forks).result()
    assert [[r.word for r in life] for life in journal.lives()] == [["parent"], ["child"]]


def test_threads_and_processes_write_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")

    def writes() -> None:
        def work(name: str) -> None:
            with journal.node(name):
                for i in range(50):
                    journal.effect(f"{i} " + "x" * 300)

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with ThreadPoolExecutor() as pool:
        for future in [pool.submit(launch, writes) for _ in range(3)]:
            future.result().result()
    lives = journal.lives()
    assert (len(lives), journal.torn()) == (3, 0)
    for life in lives:
        for entry in {record.entry for record in life}:
            mine = [r.word.split(" ")[0] for r in life if r.entry == entry]
            assert mine == ["", *map(str, range(50)), ""]


@pytest.mark.parametrize("size", [1, 50, 150, 250])
def test_a_kill_inside_a_write_tears_one_record_and_spoils_no_other(
    tmp_path: Path, size: int
) -> None:
    journal = Journal(tmp_path / "journal.jsonl")

    def writes() -> None:
        for word in ("one", "two", "three", "four"):
            journal.effect(word)

    assert launch(writes, kill_in_write=size).end == "killed"
    data = journal.path.read_bytes()
    torn = int(not data.endswith((b"}", b"\n")))
    assert len(data) == size
    assert (sum(map(len, journal.lives())), journal.torn()) == (data.count(b"}"), torn)
    launch(writes).result()
    assert [r.word for r in journal.lives()[-1]] == ["one", "two", "three", "four"]
    assert journal.torn() == torn


def test_a_file_cut_anywhere_is_read_as_far_as_it_is_whole(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.effect("grün")
    first = len(journal.path.read_bytes())
    journal.effect("grün")
    data = journal.path.read_bytes()
    for size in range(len(data) + 1):
        journal.path.write_bytes(data[:size])
        whole = (size >= first) + (size == len(data))
        assert journal.count("grün") == whole
        assert journal.torn() == (size not in (0, 1, first, first + 1, len(data)))
    journal.path.write_bytes(data[:-1])
    assert repr(journal) == "journal.jsonl: 1 records of 1 lives, 1 torn left out"
    assert repr(graph_lives(journal)).endswith("Left out: 1 torn record.")
    assert "Left out: 2 torn records." in texts(draw([], None, "", torn=2))


def test_a_kill_from_outside_at_any_moment_loses_nothing_that_was_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")

    def forever() -> None:
        i = 0
        while True:
            journal.effect(str(i))
            i += 1

    assert launch(forever, deadline=0.3).end == "stuck"
    (life,) = journal.lives()
    assert journal.torn() == 0
    assert [r.word for r in life] == [str(i) for i in range(len(life))]
    assert len(life) > 100


def test_a_write_in_pieces_is_made_whole_and_a_full_disk_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OSError, match="No space left"):
        Journal(Path("/dev/full")).effect("x")
    journal, write = Journal(tmp_path / "journal.jsonl"), os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:5]))
    journal.effect("x")
    assert (journal.count("x"), journal.torn()) == (1, 0)


def test_a_line_can_be_read_by_people(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    with journal.node("send"):
        journal.effect("a letter\nof two lines")
    line = json.loads(journal.path.read_text().splitlines()[2])
    assert {key: line[key] for key in ("node", "what", "word")} == {
        "node": "send",
        "what": "effect",
        "word": "a letter\nof two lines",
    }
    assert journal.count("a letter\nof two lines") == 1


# The picture


def marks(figure: Figure) -> list[tuple[object, str, float, float]]:
    """Return shape, colour and place of each mark."""
    lines = [line for line in figure.axes[0].lines if line.get_linestyle() == "None"]
    return [
        (line.get_marker(), line.get_markerfacecolor(), line.get_xdata()[0], line.get_ydata()[0])
        for line in lines
    ]


def numbers(figure: Figure) -> Counter:
    looks = [(shape, colour) for shape, colour, _, _ in marks(figure)]
    kinds = {"done": DONE, "again": AGAIN, "paused": PAUSED, "raised": RAISED, "X": ENDS["killed"]}
    return Counter(
        name
        for name, mark in kinds.items()
        for look in looks
        if look[0] is mark.marker or look == (mark.marker, mark.colour)
    )


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def boxes(figure: Figure) -> list[tuple[float, float, float]]:
    """Return left, right and upper edge of each bar."""
    return [(b.get_x(), b.get_x() + b.get_width(), b.get_y()) for b in figure.axes[0].patches]


def check_numbers(figure: Figure, journal: Journal) -> None:
    """What is drawn is what was written: each effect, each repetition, each bar and its end."""
    records = [record for life in journal.lives() for record in life]
    effects = Counter(r.word for r in records if r.what == "effect")
    ends = Counter(r.what for r in records)
    cut = [mark for mark in marks(figure) for _, x, _ in boxes(figure) if mark[::2] == ("X", x)]
    found, shown = numbers(figure), Counter(texts(figure))
    assert found["done"] == len(effects)
    assert found["again"] - shown["had been done before"] == effects.total() - len(effects)
    assert found["paused"] - shown["paused by an interrupt"] == ends["paused"]
    assert len(boxes(figure)) == ends["entered"]
    assert len(cut) == ends["entered"] - ends["left"] - ends["paused"]
    assert all(shown[word] == number for word, number in effects.items())
    entered = Counter(r.node for r in records if r.what == "entered")
    assert all(shown[node] == number for node, number in entered.items())


def life(number: int, *steps: str, first: int = 1) -> list[Record]:
    """Write records as `"a> a:x a<"`; `!` stands for a paused, `?` for a raised end."""
    entries: dict[str, int] = {}
    found = []
    for step in " ".join(steps).split():
        node, sign, word = step.partition(next(c for c in step if c in ">:<!?"))
        if sign == ">":
            entries[node] = first + len({r.entry for r in found})
        what = {">": "entered", ":": "effect", "<": "left", "!": "paused", "?": "raised"}[sign]
        found.append(Record(number, node, 100 * number + entries[node], what, word))
    return found


def test_one_after_the_other_and_side_by_side() -> None:
    figure = draw([life(1, "a> a:x a< b> c> b:y c:z c< b< d> d<")], None, "")
    a, b, c, d = boxes(figure)
    assert a[2] == b[2] == d[2] < c[2]
    assert a[1] < b[0] < c[0] < c[1] < b[1] < d[0]
    places = dict(zip("xyz", [x for _, _, x, _ in marks(figure)], strict=True))
    assert c[0] < places["y"] < places["z"] < c[1]


def test_a_killed_bar_is_open_and_has_the_sign_of_the_kill() -> None:
    figure = draw([life(1, "a> b> a:x b:a-longer-word b<")], [KILLED], "")
    a, b = boxes(figure)
    assert b[1] < a[1]
    (kill,) = [mark for mark in marks(figure) if mark[0] == "X"]
    assert kill[2] == a[1]
    edges = [line for line in figure.axes[0].lines if line.get_linestyle() == "-"]
    assert [len(line.get_xdata()) for line in edges] == [4, 5]  # three sides, and all round


def test_what_is_not_known_is_not_said() -> None:
    lives = [life(1, "a> a:x"), life(2, "a> a:x a<")]
    words = repr(graph_lives(lives))
    assert "Life 1: a (x) did not end; ended inside a." in words
    assert "kill" not in words
    assert words.endswith("Life 2: a (x again).")


def test_a_kill_between_two_nodes_and_one_before_the_first() -> None:
    figure = draw([[], life(2, "a> a<")], [KILLED, KILLED], "")
    (bar,) = boxes(figure)
    assert numbers(figure)["X"] == 2
    assert all(mark[2] > bar[1] or mark[3] < bar[2] for mark in marks(figure))
    assert "Life 1: nothing written; was killed" in repr(graph_lives([[]], [KILLED]))


def test_repeated_in_the_same_life_is_red_too() -> None:
    figure = draw([life(1, "a> a:x a? a> a:x a:y a!")], None, "")
    found = numbers(figure)
    assert (found["done"], found["again"] - 1, found["raised"]) == (2, 1, 1)  # and one in the key
    assert found["paused"] - 1 == 1


def test_a_missing_end_is_refused() -> None:
    with pytest.raises(BenchError, match="1 lives in the journal, but 2 ends"):
        graph_lives([life(1, "a> a<")], [KILLED, FINISHED])
    assert "finished" in repr(graph_lives([[], life(1, "a> a<")], [KILLED, FINISHED]))
    assert repr(graph_lives([life(1, "a> a<")], [None])).endswith("Life 1: a.")


def loop(steps: int, killed_after: int) -> list[list[Record]]:
    """Return an agent loop with a call in each step and a second one in every third."""

    def step(number: int) -> str:
        calls = [f"tools:call-{number}a"] + [f"tools:call-{number}b"] * (number % 3 == 0)
        return f"agent> agent< tools> {' '.join(calls)} tools<"

    one = [step(i) for i in range(1, killed_after + 1)]
    two = [step(i) for i in range(killed_after, steps + 1)]
    return [life(1, *one)[:-1], life(2, *two)]


LONG = [
    life(1, "a> " + " ".join(f"a:look-{i}" for i in range(40))),
    life(2, *(f"{name}>" for name in "abcdefgh"), *(f"{n}:w-{n}-{i}" for i in "12" for n in "hgf")),
    [Record(3, "n" * 90, 1, "entered"), Record(3, "n" * 90, 1, "effect", "pay $5,\ntip $1 " * 9)],
]


@pytest.mark.parametrize(
    ("lives", "ends"),
    [
        (loop(18, 12), [KILLED, FINISHED]),
        (LONG, [KILLED, KILLED, Life("run", "raised", reason="raised " + "because " * 40)]),
        ([life(1, "a> b> a:x b? a!")], [FINISHED]),
    ],
)
def test_all_is_legible_and_nothing_is_cut_off(lives: list, ends: list) -> None:
    figure = draw(lives, ends, "Lives", torn=2)
    width, height = figure.get_size_inches() * figure.dpi
    assert width <= 900
    shown = figure.axes[0].texts
    assert all(text.get_fontsize() * figure.dpi / 72 >= 11 for text in shown)
    found = [text.get_window_extent() for text in shown if text.get_text()]
    for i, box in enumerate(found):
        assert box.x0 >= 0
        assert box.x1 <= width
        assert box.y0 >= 0
        assert box.y1 <= height
        assert not any(box.overlaps(other) for other in found[:i])
        for _, _, x, y in marks(figure):
            assert not box.contains(x, height - y)


def test_of_many_calls_none_is_left_out() -> None:
    lives = loop(18, 12)
    calls = Counter(r.word for records in lives for r in records if r.what == "effect")
    shown = Counter(texts(draw(lives, None, "")))
    assert (len(calls), calls.total()) == (24, 26)
    assert all(shown[call] == number for call, number in calls.items())
    assert (shown["agent"], shown["tools"]) == (19, 19)
    wide = Counter(texts(draw(LONG[:1], None, "")))
    assert all(wide[f"look-{i}"] == 1 for i in range(40))
    assert wide["… a"] > 1


def test_a_very_long_life_is_folded_and_says_so() -> None:
    lives = [life(1, *(f"n{i}> n{i}:{i % 150} n{i}<" for i in range(200)))]
    figure = draw(lives, None, "")
    note = f"… {200 - 2 * KEPT} more nodes with {200 - 2 * KEPT} effects, 20 of them done before …"
    assert note in texts(figure)
    assert len(boxes(figure)) == 2 * KEPT
    assert note in repr(graph_lives(lives))


def test_it_takes_the_ink_of_the_page_and_is_told_in_words(tmp_path: Path) -> None:
    lives = [life(1, "a> a:x a!")]
    picture = graph_lives(lives, [FINISHED], "A <title>")
    markup = picture._repr_html_()
    said = "A &lt;title&gt;. Life 1: a (x) paused; finished and returned &#x27;done&#x27;."
    assert f'aria-label="{said}"' in markup
    assert INK not in markup
    assert "currentColor" in markup
    save_png(draw(lives, None, "", ink="#eeeeee"), tmp_path / "lives.png", "#111111")
    assert (tmp_path / "lives.png").stat().st_size > 3_000

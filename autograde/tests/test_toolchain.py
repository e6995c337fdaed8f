"""The real build: C cross-compiled by Zig, the traps of its environment, and the recorded run."""

import ctypes
import os
import platform
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from crashlab import DATA, WorkFolder, explore, launch
from crashlab.world import toolchain
from crashlab.world.builds import fingerprint
from crashlab.world.script import Script, read_script, scripted_model
from crashlab.world.toolchain import (
    ARCHITECTURES,
    NEEDS,
    Elf,
    Toolchain,
    ToolError,
    elf,
    members,
    tools,
)

TARGET = "aarch64-linux-musl"
RUN = DATA / "agents" / "run-217.json"
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the host's files are ELF there")
by_another = pytest.mark.skipif(
    platform.machine() == "aarch64", reason="this machine is what the target is"
)


@pytest.fixture(autouse=True)
def cross(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZIG_TARGET", TARGET)


@pytest.fixture
def chain(tmp_path: Path) -> Toolchain:
    """An empty work folder."""
    return Toolchain(tmp_path / "work")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZIG_TARGET", TARGET)
        build(Toolchain(work))
    return work


@pytest.fixture
def built(finished: Path, tmp_path: Path) -> Toolchain:
    """A work folder in which all is built already."""
    shutil.copytree(finished, tmp_path / "built")
    return Toolchain(tmp_path / "built")


def sources(library: str) -> list[str]:
    return sorted(path.name for path in (DATA / "libraries" / library).glob("*.c"))


def install(chain: Toolchain, library: str) -> None:
    chain.fetch(library)
    chain.configure(library)
    for source in sources(library):
        chain.compile(library, source)
    chain.install(library)


def build(chain: Toolchain) -> Path:
    """Build all; return what was linked in the end."""
    install(chain, "abseil")
    install(chain, "re2")
    return chain.work / chain.link("re2")


def perform(work: Path, script: Script, known: list, most: int = 99) -> list:
    """Let the scripted model and the real tools go on from the messages known, so many steps."""
    model = scripted_model(RUN).bind_tools(tools(work))
    by_name = {tool.name: tool for tool in tools(work)}
    messages = list(known)
    for _ in range(most):
        reply = model.invoke(messages)
        messages.append(reply)
        messages += [by_name[call["name"]].invoke(call) for call in reply.tool_calls]
        if not reply.tool_calls:
            break
    return messages


# What is built, and for which machine


def test_it_cross_compiles(built: Toolchain) -> None:
    made = elf((built.work / "out" / "libre2.so").read_bytes())
    assert (made.bits, made.kind, made.machine) == (64, 3, 183)
    objects = list(built.work.rglob("*.o"))
    assert len(objects) == len(sources("abseil") + sources("re2"))
    for path in objects:
        assert elf(path.read_bytes()).machine == 183
    wanted = "out/libre2.so: ELF, 64 bits, AArch64, shared library"
    assert built.check("out/libre2.so", TARGET) == wanted
    wanted = "deps/re2/libre2.a: ELF, 64 bits, AArch64, archive of 4"
    assert built.check("deps/re2/libre2.a", TARGET) == wanted


@on_linux
def test_without_the_variable_it_builds_for_the_host(
    chain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZIG_TARGET")
    made = elf(build(chain).read_bytes())
    assert made.machine == ARCHITECTURES[platform.machine()]
    assert made.machine == elf(Path(sys.executable).read_bytes()).machine


@on_linux
@by_another
@pytest.mark.parametrize("value", [None, ""])
def test_check_finds_a_forgotten_target(
    chain: Toolchain, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    install(chain, "abseil")
    if value is None:
        monkeypatch.delenv("ZIG_TARGET")
    else:
        monkeypatch.setenv("ZIG_TARGET", value)
    chain.fetch("re2")
    chain.configure("re2")
    for source in sources("re2"):
        chain.compile("re2", source)
    with pytest.raises(ToolError, match=r"build/re2/re2\.o is for .+, and aarch64-.+ is AArch64"):
        chain.check("build/re2/re2.o", TARGET)
    with pytest.raises(ToolError, match=r"libabseil\.a\(hash\.o\) is incompatible"):
        chain.link("re2")
    chain.install("re2")
    with pytest.raises(ToolError, match=r"libre2\.a\(match\.o\) is for "):
        chain.check("deps/re2/libre2.a", TARGET)


@pytest.mark.parametrize(
    ("target", "number"), [("riscv64-linux-musl", 243), ("x86_64-linux-musl", 62)]
)
def test_the_target_is_read_anew_in_each_call(
    chain: Toolchain, monkeypatch: pytest.MonkeyPatch, target: str, number: int
) -> None:
    chain.fetch("abseil")
    chain.configure("abseil")
    chain.compile("abseil", "hash.c")
    monkeypatch.setenv("ZIG_TARGET", target)
    chain.compile("abseil", "arena.c")
    assert elf((chain.work / "build/abseil/hash.o").read_bytes()).machine == 183
    assert elf((chain.work / "build/abseil/arena.o").read_bytes()).machine == number
    chain.install("abseil")
    with pytest.raises(ToolError, match=r"\(arena\.o\) is for "):
        chain.check("deps/abseil/libabseil.a", TARGET)


@pytest.mark.parametrize("target", ["aarch64-macos", "aarch64-windows-gnu"])
def test_what_other_systems_build_is_no_elf_file(
    chain: Toolchain, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.setenv("ZIG_TARGET", target)
    made = build(chain).relative_to(chain.work).as_posix()
    for path in (made, "build/re2/re2.o", "deps/abseil/libabseil.a"):
        with pytest.raises(ToolError, match="is no ELF file"):
            chain.check(path, TARGET)


@pytest.mark.parametrize(
    ("path", "cut", "sentence"),
    [
        ("out/libre2.so", 0, "is no ELF file"),
        ("out/libre2.so", 63, "is no ELF file"),
        ("out/libre2.so", 64, "is torn"),
        ("out/libre2.so", -1, "is torn"),
        ("build/re2/re2.o", -1, "is torn"),
        ("deps/re2/libre2.a", 8, "is empty"),
        ("deps/re2/libre2.a", 40, "is torn"),
        ("deps/re2/libre2.a", -1, "is torn"),
    ],
)
def test_check_finds_a_torn_file(built: Toolchain, path: str, cut: int, sentence: str) -> None:
    file = built.work / path
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(ToolError, match=f"^{re.escape(path)} {sentence}"):
        built.check(path, TARGET)


def test_a_header_of_32_bits_and_big_endian_is_read(
    chain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZIG_TARGET", "powerpc-linux-musl")
    chain.fetch("abseil")
    chain.configure("abseil")
    data = (chain.work / chain.compile("abseil", "hash.c")).read_bytes()
    assert elf(data) == Elf(32, 1, 20, len(data))


def test_a_relative_work_folder_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chain = Toolchain(Path("work"))
    chain.fetch("abseil")
    chain.configure("abseil")
    assert (chain.work / chain.compile("abseil", "hash.c")).exists()


def test_an_archive_is_read_past_a_file_of_odd_length() -> None:
    def entry(name: str, content: bytes) -> bytes:
        header = f"{name:16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}`\n"
        return header.encode() + content + b"\n" * (len(content) % 2)

    files = {"a.o": b"odd", "b.o": b"even"}
    archive = b"!<arch>\n" + entry("/", b"symbols")
    archive += b"".join(entry(f"{name}/", content) for name, content in files.items())
    assert dict(members(archive)) == files


@on_linux
def test_what_is_built_matches_as_pythons_own_expressions_do(
    chain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZIG_TARGET")
    library = ctypes.CDLL(str(build(chain)))
    library.re2_compile.restype = ctypes.c_void_p
    texts = ["".join(each) for size in range(4) for each in product("ab-", repeat=size)]

    memory = ctypes.create_string_buffer(1 << 16)

    def compiled(pattern: str) -> tuple[ctypes.c_void_p, bytes]:
        said, size = ctypes.c_char_p(), ctypes.c_size_t(len(memory))
        found = library.re2_compile(pattern.encode(), memory, size, ctypes.byref(said))
        return ctypes.c_void_p(found), said.value

    good = ["", "a", ".", "ab|b", "(a|b)*", "a?b+", "[ab]-", "[^a]", "[a-b]*", "(a*)*b", r"\.|a\-"]
    for pattern, text in product(good, texts):
        re2, said = compiled(pattern)
        wanted = re.compile(pattern)
        assert said == b"ok"
        assert library.re2_full_match(re2, text.encode()) == bool(wanted.fullmatch(text))
        assert library.re2_partial_match(re2, text.encode()) == bool(wanted.search(text))
    for pattern in ("(", "a)", "*", "[a", "[b-a]", "\\", "(" * 99 + ")" * 99):
        re2, said = compiled(pattern)
        assert (re2.value, said) == (None, b"invalid")
    assert compiled("a" * 1000)[1] == b"out of memory"


# What is missing says the tool, or the compiler


def test_configure_names_what_is_missing(chain: Toolchain) -> None:
    with pytest.raises(ToolError, match=r"^there is no src/re2: fetch re2 first$"):
        chain.configure("re2")
    chain.fetch("re2")
    missing = r"^there is no deps/abseil/abseil\.h: re2 needs abseil, install it first$"
    with pytest.raises(ToolError, match=missing):
        chain.configure("re2")
    assert not (chain.work / "build" / "re2").exists()


def test_configure_misses_an_archive(built: Toolchain) -> None:
    (built.work / "deps" / "abseil" / "libabseil.a").unlink()
    with pytest.raises(ToolError, match=r"^there is no deps/abseil/libabseil\.a: "):
        built.configure("re2")


def test_a_library_that_is_lost_later_is_missed_by_the_compiler(built: Toolchain) -> None:
    (built.work / "deps" / "abseil").rename(built.work / "lost")
    with pytest.raises(ToolError, match=r"fatal error: 'abseil\.h' file not found"):
        built.compile("re2", "parse.c")
    with pytest.raises(ToolError, match=r"deps/abseil/libabseil\.a: file not found"):
        built.link("re2")


@pytest.mark.parametrize("lost", sources("abseil"))
def test_the_linker_misses_each_object_of_abseil(built: Toolchain, lost: str) -> None:
    (built.work / "build" / "abseil" / lost).with_suffix(".o").unlink()
    built.install("abseil")
    with pytest.raises(ToolError, match=r"undefined symbol: absl_"):
        built.link("re2")


def test_the_compiler_says_what_is_wrong_with_a_source(chain: Toolchain) -> None:
    chain.fetch("abseil")
    chain.configure("abseil")
    (chain.work / "src" / "abseil" / "hash.c").write_text("int hash( { return 1; }\n")
    with pytest.raises(ToolError, match=r"^src/abseil/hash\.c:1:\d+: error: expected ") as raised:
        chain.compile("abseil", "hash.c")
    assert str(chain.work) not in str(raised.value)
    assert not list(chain.work.glob("build/abseil/*.o"))


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("fetch", ["zlib"], "there is no library zlib: there are abseil, re2"),
        ("compile", ["abseil", "hash.c"], "there is no build/abseil/settings.json: configure ab"),
        ("install", ["abseil"], "there is no object in build/abseil: compile abseil first"),
        ("link", ["abseil"], "there is no object in build/abseil: compile abseil first"),
        ("check", ["out/libre2.so", TARGET], "there is no out/libre2.so"),
        ("check", ["src", "pdp11"], "pdp11 is no known target"),
        ("check", ["src", TARGET], "src is a folder"),
        ("read", ["../secret"], "../secret is outside of the work folder"),
    ],
)
def test_a_tool_says_what_it_cannot_do(
    chain: Toolchain, tool: str, arguments: list[str], sentence: str
) -> None:
    chain.fetch("abseil")
    (chain.work.parent / "secret").touch()
    with pytest.raises(ToolError, match=re.escape(sentence)):
        getattr(chain, tool)(*arguments)


def test_a_source_from_elsewhere_is_not_compiled(chain: Toolchain) -> None:
    chain.fetch("abseil")
    chain.configure("abseil")
    (chain.work.parent / "secret.c").touch()
    with pytest.raises(ToolError, match="outside of the work folder"):
        chain.compile("abseil", "../../../secret.c")


def test_without_zig_it_says_how_to_install_it(
    chain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain.fetch("abseil")
    chain.configure("abseil")
    monkeypatch.setattr(toolchain, "find_spec", lambda name: None)
    with pytest.raises(ToolError, match="`make environment` installs ziglang"):
        chain.compile("abseil", "hash.c")


# Twice, elsewhere, and killed


def test_twice_and_elsewhere_gives_the_same_bytes(built: Toolchain, chain: Toolchain) -> None:
    def files(folder: Path) -> dict[str, bytes]:
        found = [path for path in folder.rglob("*") if path.is_file()]
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}

    before = files(built.work)
    build(built)
    build(chain)
    assert files(built.work) == before
    assert files(chain.work) == before
    kinds = Counter(path.partition("/")[0] for path in before)
    assert kinds == {"src": 11, "build": 10, "deps": 4, "out": 1}


@pytest.mark.parametrize("tool", ["fetch", "configure", "compile", "install", "link"])
def test_each_tool_makes_again_what_was_damaged(built: Toolchain, tool: str) -> None:
    arguments = ["re2", "match.c"] if tool == "compile" else ["re2"]
    made = built.work / getattr(built, tool)(*arguments)
    before = fingerprint(made)
    damaged = next(made.iterdir()) if made.is_dir() else made
    damaged.write_bytes(b"damaged")
    assert fingerprint(made) != before
    getattr(built, tool)(*arguments)
    assert fingerprint(made) == before


def test_a_kill_leaves_all_or_nothing(finished: Path) -> None:
    places = ("src/re2", "build/re2/settings.json")
    whole = {place: fingerprint(finished / place) for place in places}

    @contextmanager
    def world() -> Iterator[Path]:
        with WorkFolder.fresh() as folder:
            shutil.copytree(finished, folder.path / "work")
            (folder.path / "work" / places[1]).unlink()
            yield folder.path / "work"

    def work(path: Path) -> None:
        os.environ["ZIG_TARGET"] = TARGET  # a forked process has the server's variables, not ours
        Toolchain(path).fetch("re2")
        Toolchain(path).configure("re2")

    def state(path: Path, place: str) -> str:
        if not (path / place).exists():
            return "absent"
        return "whole" if fingerprint(path / place) == whole[place] else "torn"

    def judge(path: Path) -> str:
        return " ".join(state(path, place) for place in places)

    good = ("whole whole",)
    lines = [shutil.copy2, Toolchain._place]
    report = explore(work, world, judge, inside=lines, restart=False, harmless=good)
    # absent absent: between moving the old folder away and putting the new one in its place
    assert set(report.counts) == {"whole absent", "absent absent", "whole whole"}
    assert explore(work, world, judge, inside=lines[1:], harmless=good).clean


def test_a_killed_call_leaves_its_unfinished_work_in_the_work_folder() -> None:
    with WorkFolder.fresh() as folder:
        chain = Toolchain(folder.path)
        life = launch(
            Toolchain.fetch, chain, "re2", inside=[Toolchain._place], kill_before="os.replace("
        )
        assert life.end == "killed"
        left = {path.relative_to(folder.path).parts[0] for path in folder.path.rglob("*.c")}
        assert left == {"tmp"}


def test_nothing_is_left_outside_of_the_work_folder(
    chain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for name in ("HOME", "USERPROFILE", "LOCALAPPDATA", "XDG_CACHE_HOME", "TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(home))
    build(chain)
    assert list(home.iterdir()) == []
    assert list((chain.work / "tmp").iterdir()) == []
    assert {path.name for path in chain.work.iterdir()} == {"src", "build", "deps", "out", "tmp"}


# For a chat model


def test_a_model_is_told_every_tool_and_its_arguments(tmp_path: Path) -> None:
    told = [convert_to_openai_tool(tool)["function"] for tool in tools(tmp_path)]
    arguments = {each["name"]: each["parameters"]["required"] for each in told}
    assert arguments == {
        "fetch": ["library"],
        "read": ["path"],
        "configure": ["library"],
        "compile": ["library", "source"],
        "install": ["library"],
        "link": ["library"],
        "check": ["path", "target"],
    }
    assert all(re.fullmatch(r"[A-Z][^\n]+\.", each["description"]) for each in told)


def test_a_tool_answers_a_call_even_if_it_fails(tmp_path: Path) -> None:
    by_name = {tool.name: tool for tool in tools(tmp_path)}

    def answer(name: str, /, **args: str) -> ToolMessage:
        return by_name[name].invoke({"type": "tool_call", "id": "c", "name": name, "args": args})

    done = answer("fetch", library="abseil")
    assert (done.content, done.status, done.tool_call_id) == ("src/abseil", "success", "c")
    failed = answer("configure", library="re2")
    assert (failed.content, failed.status) == ("there is no src/re2: fetch re2 first", "error")
    odd = answer("fetch", name="re2")
    assert odd.status == "error"
    assert "library" in odd.content


def test_tools_of_two_folders_do_not_mix(tmp_path: Path) -> None:
    first, second = tools(tmp_path / "1"), tools(tmp_path / "2")
    first[0].invoke({"library": "abseil"})
    second[0].invoke({"library": "re2"})
    assert (tmp_path / "1" / "src" / "abseil").is_dir()
    assert [path.name for path in tmp_path.glob("*/src/*")].count("abseil") == 1


# The recorded run


def test_the_script_has_eighteen_steps_and_calls_with_ids_of_their_own() -> None:
    script = read_script(RUN)
    counts = [len(reply.tool_calls) for reply in script.replies]
    assert counts == [1, 2, 2, 1, 2, 3, 1, 3, 2, 2, 3, 2, 1, 3, 2, 1, 2, 0]
    assert sum(counts[:12]) == 24
    calls = [call for reply in script.replies for call in reply.tool_calls]
    assert [call["id"] for call in calls] == [f"call_{number:02}" for number in range(1, 34)]
    asked = {call["args"]["target"] for call in calls if call["name"] == "check"}
    assert asked == {script.target} == {TARGET}
    assert TARGET in script.task


def test_the_recorded_run_builds_re2(tmp_path: Path) -> None:
    script = read_script(RUN)
    messages = perform(tmp_path, script, [HumanMessage(script.task)])
    assert sum(isinstance(each, AIMessage) for each in messages) == 18
    answers = {each.tool_call_id: each for each in messages if isinstance(each, ToolMessage)}
    failed = {key: each.content for key, each in answers.items() if each.status == "error"}
    assert failed == {
        "call_05": "there is no deps/abseil/abseil.h: re2 needs abseil, install it first",
        "call_11": "there is no src/abseil/memory.c",
    }
    assert len(answers) == 33
    assert Toolchain(tmp_path).check("out/libre2.so", script.target)
    assert answers["call_32"].content == "out/libre2.so: ELF, 64 bits, AArch64, shared library"


def test_the_calls_of_a_step_do_not_need_each_other(tmp_path: Path) -> None:
    script = read_script(RUN)
    by_name = {tool.name: tool for tool in tools(tmp_path)}
    failed = set()
    for reply in script.replies:
        for call in reversed(reply.tool_calls):
            if by_name[call["name"]].invoke(call).status == "error":
                failed.add(call["id"])
    assert failed == {"call_05", "call_11"}


def test_a_run_that_was_left_after_step_12_goes_on_at_13(tmp_path: Path) -> None:
    script = read_script(RUN)
    before = perform(tmp_path, script, [HumanMessage(script.task)], 12)
    assert sum(isinstance(each, ToolMessage) for each in before) == 24
    assert (tmp_path / "deps/abseil/libabseil.a").exists()
    assert not (tmp_path / "build/re2").exists()
    installed = fingerprint(tmp_path / "deps/abseil")

    after = perform(tmp_path, script, before)[len(before) :]
    assert after[0].content == script.replies[12].content
    assert sum(isinstance(each, AIMessage) for each in after) == 6
    assert not [each for each in after if getattr(each, "status", "success") == "error"]
    assert fingerprint(tmp_path / "deps/abseil") == installed
    assert Toolchain(tmp_path).check("out/libre2.so", script.target)


@pytest.mark.parametrize("given", [0, 1, 12, 17])
def test_a_new_model_replies_to_what_is_in_the_messages(given: int) -> None:
    replies = read_script(RUN).replies
    reply = scripted_model(RUN).invoke([HumanMessage("go"), *replies[:given]])
    assert reply.content == replies[given].content
    assert reply.tool_calls == replies[given].tool_calls


def test_the_same_question_gets_the_same_answer_in_a_message_of_its_own() -> None:
    model = scripted_model(RUN)
    first, second = (model.invoke([HumanMessage("go")]) for _ in range(2))
    assert first.tool_calls == second.tool_calls
    assert first.id != second.id


def test_a_script_ends() -> None:
    model = scripted_model(RUN)
    with pytest.raises(IndexError, match="the script ends after 18 replies"):
        model.invoke([HumanMessage("go"), *read_script(RUN).replies])


def test_the_libraries_are_those_in_the_data_and_call_no_libc() -> None:
    assert {path.name for path in (DATA / "libraries").iterdir()} == set(NEEDS)
    for path in (DATA / "libraries").glob("*/*"):
        text = path.read_text(encoding="utf-8")
        assert text.startswith("/* "), path
        included = set(re.findall(r"#include <(.+)>", text))
        assert included <= {"stddef.h", "stdint.h"}, path

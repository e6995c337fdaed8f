"""Draw the picture of the README: a crash map of a first agent. Run it by `make figure`."""

from pathlib import Path

from crashlab import Report, SoundStore, WorkFolder, explore
from crashlab.figures import crash_map, save_png

PICTURES = Path(__file__).resolve().parents[2] / "pictures"
PLAN = ["clone zlib", "build zlib", "install zlib", "configure libpng", "build libpng"]
STORE = SoundStore({"done": []})


def run(folder):
    state = STORE.load(folder.checkpoint)
    for action in PLAN:
        if action in state["done"]:
            continue
        folder.perform(action)
        state["done"].append(action)
        STORE.save(folder.checkpoint, state)
    return "completed"


def judge(folder: WorkFolder) -> str:
    """Say whether each step of the plan was performed once."""
    times = [folder.performed().count(action) for action in PLAN]
    return "lost" if 0 in times else "once" if max(times) == 1 else "twice"


def report() -> Report:
    """Kill `run` before every line that it executes."""
    return explore(run, WorkFolder.fresh, judge)


def main() -> None:
    """Write the picture for light pages and for dark ones."""
    PICTURES.mkdir(exist_ok=True)
    found = report()
    title = "Killed before every line, then restarted"
    save_png(crash_map(found, title), PICTURES / "crash_map_light.png", "#ffffff")
    save_png(crash_map(found, title, ink="#e6edf3"), PICTURES / "crash_map_dark.png", "#0d1117")
    print(found)


if __name__ == "__main__":
    main()

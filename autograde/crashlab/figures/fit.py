"""Text that fits: its sizes, how wide it is, and how it is cut or wrapped into a room."""

from functools import cache

from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font

from crashlab.figures.history_text import shortened
from crashlab.figures.style import SANS

HEAD, TYPE, SMALL = 15, 11.5, 11  # sizes of type; all lengths are pixels
LINE = 14  # from one line of text to the next

CHINESE = ("Noto Sans CJK SC", "WenQuanYi Zen Hei", "Microsoft YaHei", "PingFang SC", "STHeiti")


@cache
def families(family: str) -> list[str]:
    """Return a typeface, and those that are installed of the ones that have what it lacks."""
    installed = {font.name for font in fontManager.ttflist}
    return [family, *(name for name in CHINESE if name in installed)]


@cache
def advance(letter: str, family: str, weight: str) -> float | None:
    """Return how wide a letter is, for type of size 1; None if no typeface has it."""
    for name in families(family):
        font = get_font(findfont(FontProperties(family=name, weight=weight)))
        if font.get_char_index(ord(letter)):
            font.set_size(64, 72)
            return font.load_char(ord(letter)).linearHoriAdvance / 65536 / 64
    return None


def width_of(text: str, size: float = TYPE, family: str = SANS, weight: str = "normal") -> float:
    """Return how wide a line of text is."""
    return size * sum(advance(letter, family, weight) or 1 for letter in text)


def cut(text: str, room: float) -> str:
    """Return a text without its middle, if it is wider than the room."""
    text = " ".join(text.split())
    letters = len(text)
    while width_of(text) > room and letters > 1:
        letters -= 1
        text = shortened(text, letters)
    return text


def wrap(text: str, room: float, most: int = 99, **font: object) -> list[str]:
    """Return a text in lines; more than `most` end with an ellipsis."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width_of(longer, **font) <= room:
            lines[-1] = longer
            continue
        while width_of(word, **font) > room:
            ends = range(len(word) - 1, 0, -1)
            end = next((n for n in ends if width_of(word[:n], **font) <= room), 1)
            lines.append(word[:end])
            word = word[end:]
        lines.append(word)
    return lines if len(lines) <= most else [*lines[: most - 1], lines[most - 1][:-1] + "…"]

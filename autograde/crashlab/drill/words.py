"""What both faces of the drill say, in English and in Chinese."""

from datetime import timedelta

from crashlab.bank import Language

WORDS: dict[str, tuple[str, str]] = {
    # the record
    "record": ("Record: {path}", "记录：{path}"),
    "foreign": (
        "{name} is no record of this drill; it is kept as it is and not used.",
        "{name} 不是本练习的记录，原样保留，不使用。",
    ),
    "torn": (
        "{name} is damaged; it is kept as it is and not used.",
        "{name} 已损坏，原样保留，不使用。",
    ),
    "older": (
        "{name} has version {version}, older than the {ours} of this program; "
        "it is kept as it is and not used.",
        "{name} 的版本是 {version}，比本程序的 {ours} 旧，原样保留，不使用。",
    ),
    "newer": (
        "{name} has version {version}, newer than the {ours} of this program; "
        "it is kept as it is and not used.",
        "{name} 的版本是 {version}，比本程序的 {ours} 新，原样保留，不使用。",
    ),
    "left": (
        "{name} is kept as it is and not used: a later file goes on.",
        "{name} 原样保留，不使用：已由编号更大的文件接替。",
    ),
    "rated elsewhere": (
        "This question was rated in another window. That rating counts.",
        "这道题已在另一个窗口评过分，以那次为准。",
    ),
    "trouble": (
        "The record cannot be used now: {why}. Try again, a rating counts once; if that does not "
        "help, open the drill anew: it leaves a broken file as it is and goes on beside it.",
        "记录暂时不能用：{why}。请再试一次，评分只算一次；若仍不行，请重新打开练习："
        "坏文件原样保留，另建新文件继续。",
    ),
    # the drill
    "drill": ("Drill", "练习"),
    "state": ("{due} due · {new} new", "到期 {due} · 新题 {new}"),
    "about": ("{tags} · {notebook} · level {level} of 3", "{tags} · {notebook} · 难度 {level}/3"),
    "say it": (
        "Say it aloud, in a minute or two. You may type it here; what you type is not kept.",
        "大声说出来，一两分钟。也可以在这里打字；打的字不会保存。",
    ),
    "reveal": ("Show the answer", "看答案"),
    "took": ("{time} taken", "用时 {time}"),
    "yours": ("You typed", "你写的"),
    "answer": ("A strong answer", "一份好的回答"),
    "must": ("It must say", "必须说到"),
    "depth": ("It shows depth", "能显出深度"),
    "mistakes": ("It is a mistake", "错误说法"),
    "confusable": ("Often confused: {terms}", "容易混淆：{terms}"),
    "source": ("Reported as", "公开报告"),
    "follow-up": ("They may ask next: {question}", "可能的追问：{question}"),
    "no answer": (
        "The answers come from your instructor. Rate how sure you were.",
        "答案由你的老师提供。请按自己的把握评分。",
    ),
    "ask": ("Ask me further", "追问我"),
    "answer that": ("Show the answer to that", "看追问的答案"),
    "rate": ("How well did you say it?", "说得怎么样？"),
    "again": ("Again", "重来"),
    "hard": ("Hard", "困难"),
    "good": ("Good", "良好"),
    "easy": ("Easy", "轻松"),
    "in": ("in {span}", "{span}后"),
    "nothing due": ("Nothing is due now.", "现在没有到期的题。"),
    "back": ("The next question comes {time}.", "下一题 {time}到期。"),
    "look": ("Look again", "再看一次"),
    # the mock interview
    "mock": ("Mock interview", "模拟面试"),
    "offer": (
        "{questions} questions from all parts of the course in {minutes:g} minutes. "
        "The clock does not stop, not even if this program dies.",
        "{minutes:g} 分钟，{questions} 道题，涵盖课程各部分。计时不会停，程序被杀也不停。",
    ),
    "start": ("Start", "开始"),
    "broken off": (
        "An interview was broken off. Questions left: {questions}; time left: {time}.",
        "有一场面试中断了：还剩 {questions} 道题，时间还剩 {time}。",
    ),
    "go on with": ("crashlab drill --mock goes on with it.", "用 crashlab drill --mock 继续。"),
    "go on": ("Go on", "继续"),
    "left over": ("{time} left", "剩余 {time}"),
    "number": ("Question {number} of {count}", "第 {number} 题，共 {count} 题"),
    "time over": (
        "Time is over. You may still finish and rate this question.",
        "时间到。这一题仍可以答完并评分。",
    ),
    "over": ("Time is over.", "时间到。"),
    "end": ("End the interview", "结束面试"),
    "result": (
        "Your interview: {rated} of {asked} questions",
        "面试结果：{asked} 题中答了 {rated} 题",
    ),
    "parts": ("By part", "按部分"),
    "tags": ("By subject", "按主题"),
    "scale": ("Averages from 1 (again) to 4 (easy)", "平均分，从 1（重来）到 4（轻松）"),
    "average": ("average", "平均"),
    "ratings": ("ratings", "评分数"),
    "strong": ("strong", "强"),
    "weak": ("weak", "弱"),
    "elsewhere": ("elsewhere", "其他"),
    "say again": ("Say these again", "这些题再说一遍"),
    "reread": ("{question} (reread {notebook})", "{question}（重读 {notebook}）"),
    "none again": ("None of what was rated has to be said again.", "评过分的题都不需要重说。"),
    "not reached": ("Not reached: {count} of {asked}", "没有答到：{asked} 题中的 {count} 题"),
    # the terminal
    "typing": (
        "Say it aloud, or type it; an empty line shows the answer, q leaves.",
        "大声说出来，或者打字；空行显示答案，q 退出。",
    ),
    "more": ("Enter for a follow-up, 1-4 to rate, q to leave", "回车看追问，1-4 评分，q 退出"),
    "more answer": (
        "Enter for its answer, 1-4 to rate, q to leave",
        "回车看答案，1-4 评分，q 退出",
    ),
    "rate now": ("1-4 to rate, q to leave", "1-4 评分，q 退出"),
    "which": (
        "Enter to go on with it, n for a new one, q to leave",
        "回车继续，n 重新开始，q 退出",
    ),
    "goodbye": ("Every rating is in the record.", "所有评分都已记录。"),
    "unsaved": ("The last rating is not in the record.", "最后一次评分没有记录下来。"),
    "clock runs on": (
        "The clock of the interview runs on; crashlab drill --mock goes on with it.",
        "面试的计时不会停；用 crashlab drill --mock 继续。",
    ),
    "written": ("{count} questions written to {path}", "{count} 道题已写入 {path}"),
}

_UNITS = (
    (365, ("year", "years"), "年"),
    (30, ("month", "months"), "个月"),
    (1, ("day", "days"), "天"),
    (1 / 24, ("hour", "hours"), "小时"),
)


def word(key: str, language: Language, **values: object) -> str:
    """One of the phrases, with its values filled in."""
    return WORDS[key][language == "zh"].format(**values)


def soon(time: timedelta, language: Language) -> str:
    """Say in what time something comes, as "in 3 days", to the nearest whole unit."""
    days = max(time.total_seconds(), 60) / 86400
    for unit, english, chinese in _UNITS:
        if days >= unit and (number := round(days / unit)):
            span = f"{number} {english[number > 1]}", f"{number} {chinese}"
            return word("in", language, span=span[language == "zh"])
    minutes = round(days * 1440)
    return word("in", language, span=(f"{minutes} min", f"{minutes} 分钟")[language == "zh"])


def minutes(seconds: float) -> str:
    """Write a number of seconds as a clock shows it, as in 1:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"

"""Write the tables of docs/software.md and its translation: the words for what software does, with their synonyms.

Run it with ``make software-table``.
"""

from itertools import groupby
from pathlib import Path

from evenflow.predict.stated_software import SETTINGS
from evenflow.predict.vocabulary import WORDS, SoftwareWord

_DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = (_DOCS / "software.md", _DOCS / "zh" / "software.md")
BEGIN, END = "<!-- table -->\n", "<!-- end of the table -->\n"
HEADERS = {"docs": ("about", "word", "also"), "zh": ("关于", "词", "同义词")}
ASPECTS = {
    "dispatcher": "token 分发器", "attention": "注意力", "loss": "损失", "logits": "logits",
    "saved inputs": "保留的输入", "elementwise": "逐元素运算",
    "tensor": "张量并行", "gradients": "梯度通信", "parameters": "参数收集", "pipeline": "流水线消息",
    "experts": "专家通信", "optimizer overlap": "优化器重叠", "graphs": "图", "recipe": "缩放方式",
    "gradient dtype": "梯度的数据类型", "gather dtype": "收集的数据类型", "sharding": "切分", "placement": "设备排布",
    "several": "几件事", "nothing": "不计价",
}  # fmt: skip
"""What words are about, in Chinese."""


def table(language: str) -> str:
    """Return the table of a language, by the folder of its page, with a row for each word."""
    header = HEADERS[language]
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for aspect, words in groupby(WORDS, key=lambda word: word.aspect):
        about = ASPECTS[aspect] if language == "zh" else aspect
        for number, word in enumerate(words):
            lines.append(f"| {'' if number else about} | `{word.name}` | {', '.join(_also(word))} |")
    return "\n".join(lines) + "\n"


def _also(word: SoftwareWord) -> list[str]:
    settings = [
        f"`{name}={value.capitalize() if value in ('true', 'false') else value}`"
        for name, choices in SETTINGS.items()
        for value, of in choices.items()
        if of == word.name and word.name != "said-elsewhere"
    ]
    return [*(f"`{synonym}`" for synonym in word.synonyms), *settings]


def page(path: Path) -> str:
    """Return a page with the table as it must be."""
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(path.parent.name)}\n{END}{after}"


if __name__ == "__main__":
    for one in PAGES:
        one.write_text(page(one), encoding="utf-8")

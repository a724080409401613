"""Values that break readers: for the leaf of a file, for an option, for raw bytes."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Raw:
    """Text that stands in a file as it is."""

    text: str


FORGED = "x\noptimal: FORGED\r\x1b[2K\x07\u202e\x9b31m\u2028optimal: FORGED"
"""Would look like a line of evenflow's own, and act on a terminal."""
NUMBERS: tuple[object, ...] = (
    0, -0.0, -1, 1, 2, 3, 0.5, 1.5, 7, 64, 1e-9, 1e-300, 5e-324, -1e-300, 1e8, 1e9, 1e18, 1e300, -1e300,
    2**31, 2**53 + 1, 2**62, 2**63, 2**64, 2**200, 10**400, -(10**400), 999_999_999_999, 100_000, 1_000_000,
    math.nan, math.inf, -math.inf,
)  # fmt: skip
TEXTS: tuple[object, ...] = (
    "", " ", "x", "0", "-1", "1e999", "nan", "inf", "true", "null", "[1]", "{}", "../x", "/", ".", "..", "-", "--",
    FORGED, "n" * 100_000, "a/b", "a\\b", "a\x00b", "a\nb", "\x1b[31m", "\u202e", "é", "阶段", "\ufeff", "\ud800", "x" * 5000, "9" * 4000,
    "9" * 5000, "%s%n", "{0}", "{chunk}", "[bold]", "<svg>", "&amp;", "'", '"', "1_000", "１２", "2x", "x2", "2x2", "0x0",
    "1e3GB", "56 GB", "1e400GB", "0GB", "9" * 400 + "GB", "0.0000000001B", "5us", "1e99s", "9" * 30 + "s", "200GBps",
    "0GBps", "9" * 400 + "Gbps", "0FLOPS", "9" * 400 + "TFLOPS", "1f1b", "zbv", "interleaved", "best", "search",
)  # fmt: skip
SHAPES: tuple[object, ...] = (
    None, True, False, [], {}, [[]], [[], []], [None], [True], [1, True], [0], [-1], [1.5], ["x"], {"": 1}, {"a": {}},
    [[1], [1, 2]], [1] * 5000, [[1] * 300] * 30,
)  # fmt: skip
JSON_RAW = tuple(
    Raw(text)
    for text in (
        "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 4000, "9" * 5000, "01", "+1", "1.", ".5", "0x10",
        "[" * 500 + "]" * 500, "[" * 200_000, '{"a":' * 100_000, '"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"\\x"',
        '"unterminated', "tru", "None", "'x'", '{"a": 1, "a": 2}', "[1,]", "[1 2]", "1e-400", "/* x */ 1", "1 // x",
    )
)  # fmt: skip
YAML_RAW = tuple(
    Raw(text)
    for text in (
        "!!float ''", "!!float x", "!!int \"\"", "!!int x", "!!int ''", "!!bool x", "!!bool ''", "!!bool 1", "!!null x",
        "!!omap [a: 1]", "!!omap", "!!omap {a: 1}", "!!set {a}", "!!set [a]", "!!set", "!!pairs [a: 1]", "!!pairs x",
        "!!binary x", "!!binary ''", "!!binary é", "!!binary AAAA", "!!timestamp x", "!!timestamp ''", "!!seq x",
        "!!map x", "!!seq {a: 1}", "!!map [1]", "!!str [1]", "!!str {}", "!!merge x", "!!value =", "!!python/none",
        "!!python/object/apply:os.system ['true']", "!unknown x", "!<x> 1", "!<tag:yaml.org,2002:int> x", "! x", "! 1",
        "!!float .inf", "!!int 0x", "!!int 0b", "!!int 0o", "!!int _", "!!float _", "!!float 1_", "2001-99-99",
        "2001-12-14t21:59:43.10-05:00", "99999-01-01", "0x" + "F" * 20_000, "0b" + "1" * 50_000, "0o9", "1:60:60",
        ".nan", ".inf", "-.inf", "1e999", "9" * 4000, "9" * 5000, "1_000", "0b1", "0x1F", "~", "null", "yes", "on",
        "&a [*a]", "&a {x: *a}", "&a {<<: *a}", "*missing", "&a", "&a &b 1", "<<", "{<<: 1}", "{<<: [1]}", "{<<: [{a: 1}]}",
        "[" * 100, "[" * 30_000, "{a: " * 5_000, "[" * 40 + "1" + "]" * 40, "[" * 400 + "]" * 400, "? x", "- 1", ": x",
        "{? a}", "{[1]: 2}", "{{a: 1}: 2}", "{1: 2, true: 3}", "{a: 1, a: 2}", "|", ">", "|9", "'x", '"x', '"\\ud800"',
        '"\\x00"', '"\\U0010FFFF"', "@x", "`x", "%x", "# x", "a: b: c", "a:\n\tb", "!!str", "!!", "&", "*", "[1,,2]",
        "[1" + ", 1" * 40_000 + "]", "{" + ", ".join(f"k{index}: 1" for index in range(3000)) + "}",
        "--- 1", "...", "%YAML 1.1", "\x85", "\u2028", "\ufeff", "\x07",
    )
)  # fmt: skip
YAML_WHOLE = (
    "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)),
    "&a [*a]\n", "&a {b: *a}\n", "a: 1\n---\nb: 2\n", "%YAML 9.9\n---\na: 1\n", "%TAG ! x\n---\na: 1\n", "---\n", "...\n",
    "- " * 3000 + "1\n", "? " * 1500 + "1\n", "".join(" " * i + "a:\n" for i in range(600)), "[" * 20_000 + "\n",
    "a: " + "[" * 2000 + "]" * 2000 + "\n", "{" * 20_000, "!!omap\n- a: 1\n- b: 2\n", "!!set {a, b}\n", "!!python/x {}\n",
    "&x a: 1\n*x : 2\n", "a: !!float ''\n", "a: |\n" + " x\n" * 3000, "x: {<<: &m {a: 1}, <<: *m}\n", "[]\n", "1\n", "\x00",
    "k: " + "9" * 100_000 + "\n", "&a : *a\n", "? &a [x]\n: *a\n", "? {a: 1}\n: 2\n", "a: [\n" + "1,\n" * 60_000 + "]\n",
    "".join(f"k{index}: 1\n" for index in range(40_000)), "#" * 300_000 + "\n", "a: '" + "x\n\n" * 40_000 + "'\n",
)  # fmt: skip
JSON_WHOLE = (
    "", " ", "null", "true", "0", '""', "[]", "{}", "[[]]", "{" * 100_000, "[" * 1_000_000, '{"a":' * 200_000 + "1" + "}" * 200_000,
    "[" + "1," * 1_000_000 + "1]", "[" + "[]," * 400_000 + "[]]", '{"layers_description": [' + '{"name": "x"},' * 200_000 + "{}]}",
    '"' + "x" * 3_000_000, "9" * 3_000_000, "[1e999]", "[NaN]", "\x00" * 1000, "//", "{'a': 1}", '{"":' * 900 + "1" + "}" * 900,
    " " * 3_000_000, '{"\\ud800": 1}', '{"name": "\\ud800"}',
)  # fmt: skip
TOML_WHOLE = (
    "x = " + "[" * 501 + "]" * 501, "x = " + "{a = " * 501 + "1" + "}" * 501, "a." * 100_000 + "a = 1", "[a" + ".a" * 501 + "]",
    "".join(f"[{'.'.join(['a'] * depth)}]\n" for depth in range(1, 501)), "".join(f"[t{index}]\na = 1\n" for index in range(30_000)),
    "[parallelism]\nx = [\n" + "{a = 1}, # c\n" * 20_000 + "]\n", '[parallelism]\nx = """\n' + "a = 1\n" * 20_000 + '"""\n',
    "[parallelism]\nx = 1 " + "#" * 300_000, "[parallelism]\n" + "k = 1\n" * 2, "#" * 3_000_000, "[parallelism]\nx = " + "9" * 5000,
)  # fmt: skip
TOML_LINES = (
    "[parallelism]", "[[parallelism]]", "[ parallelism ] # x", '["parallelism"]', "parallelism.pipeline_parallel_degree = 4",
    "pipeline_parallel_degree = 4", '"pipeline_parallel_degree" = 2', "x = [", "]", '"""', "'''", "x = {a = 1", "x = 1979-05-27T07:32:00Z",
    "x = inf", "x = 0x" + "F" * 5000, 'x = "\\uD800"', 'x = "\u202e"', "x.y.z = 1", "[a]\r", "\ufeff", "x = 'a # b' # [c]", "=", "[", "mode = 3",
    'pipeline_parallel_schedule = "' + "n" * 100_000 + '"', "local_batch_size = -1", "local_batch_size = 9" + "9" * 4000,
)  # fmt: skip
LINES = (
    "", ",", ",,,", "\n" * 5000, "0F0", "0F0,0B0", "0F0,0F0", "0F999999", "999999F0", "999999F0,999999B0", "0F0,0X0", "0f0",
    "F", "0F", "-1F0", "0F-1", "0F0;0B0", "(0F0;0B0)OVERLAP_F_B", "(;)OVERLAP_F_B", "(0F0;)OVERLAP_F_B", "0SEND_F0", "0UNSHARD",
    "9" * 5000 + "F0", "0F" + "9" * 5000, "٣F0", "0F٣", "0F0" + ",0F0" * 50_000, "0F0,0BW0", "0F0,0I0", "0F0,0W0", "0W0",
    "1F0\n0F0", "0F0\n\n\n0B0", "\x00", "\ufeff0F0,0B0", "F0,0B0" * 3000, "[]", "[[]]", "[1]", "[[1]]", '[[{"type": 1}]]',
    '[[{"type": "forward999999", "micro_batch_id": 999999}]]', '[[{"type": "forward"}]]', "{}", "[" * 5000, "x" * 200_000,
    "stage_0_rank_0/a.log:1:Actual peak memory usage (with fragments): 999999999999M",
    "stage_999999_rank_0/a.log:1:Actual peak memory usage (with fragments): 1M",
    "stage_0_rank_0/a.log:1:Actual peak memory usage (with fragments): 0M",
    "stage_0_rank_0/a.log:1:Actual peak memory usage (with fragments): 1X",
    "stage_0_rank_0/a.log:1:Actual peak memory usage (with fragments): 1.5.5M",
    "[Rank 0] (after 2 iterations) memory (MB) | allocated: 1 | max allocated: 1 | reserved: 1 | max reserved: 999999999999",
    "[Rank 999999] (after 2 iterations) memory (MB) | allocated: 1 | max allocated: 1 | reserved: 1 | max reserved: 1",
    "[Rank 0] (after 2 iterations) memory (MB) | allocated: 1 | max allocated: 0 | reserved: 1 | max reserved: 0",
)  # fmt: skip
BYTES = (
    b"\x00", b"\xff", b"\xfe\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\x80", b"\xed\xa0\x80", b"\r", b"\r\n", b"\t", b"\x1a", b"\n\n\n",
    b"{", b"}", b"[", b"]", b'"', b"'", b":", b",", b"-", b"&a ", b"*a", b"!!int ", b"\\", b"0", b"9" * 50, b"e999", b"\x1f\x8b", b"#",
)  # fmt: skip

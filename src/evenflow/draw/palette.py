"""Colours. Direction is told by hue (blue, orange) and by lightness, so it survives grey print and colour blindness.

lightness L*   84 … 72   forward, chunk 0 … last
               66 … 53   backward (or input gradient), chunk 0 … last
               90 … 80   weight gradient, chunk 0 … last; yellow
               27        recompute
"""

INK = "#1c2430"
MUTED = "#5b6573"
HAIRLINE = "#d5dae1"
PAPER = "#ffffff"
LIMIT = "#c1121f"

HELD_LINE = "#3d4957"
STATIC_FILL = "#a9b4c0"
ACTIVATION_FILL = "#dde3e9"
OVER_FILL = "#e5383b"

RECOMPUTE = "#662c08"

_FORWARD_ENDS = ("#bcd8f5", "#84b6e8")
_BACKWARD_ENDS = ("#e98f43", "#c56426")
_INPUT_ENDS = ("#e58a78", "#c25f4d")
_WEIGHT_ENDS = ("#f6e3a1", "#e3c65f")
_ALONE = 0.35
"""Place of the shade of an only chunk in its range."""


def forward_shades(num_chunks: int) -> list[str]:
    """Return a blue for each chunk, light to darker."""
    return _shades(*_FORWARD_ENDS, num_chunks)


def backward_shades(num_chunks: int) -> list[str]:
    """Return an orange for each chunk, light to darker; all are darker than every forward shade."""
    return _shades(*_BACKWARD_ENDS, num_chunks)


def input_gradient_shades(num_chunks: int) -> list[str]:
    """Return a red for each chunk, as light as full backwards."""
    return _shades(*_INPUT_ENDS, num_chunks)


def weight_gradient_shades(num_chunks: int) -> list[str]:
    """Return a yellow for each chunk, light to darker; all are lighter than other parts of a backward."""
    return _shades(*_WEIGHT_ENDS, num_chunks)


OPERATIONS = (
    ("forward", forward_shades),
    ("backward", backward_shades),
    ("input gradient", input_gradient_shades),
    ("weight gradient", weight_gradient_shades),
)
"""Name and shades by chunk of each `Op`."""


COPIES = (("copy to the host", "#1d7874"), ("copy back", "#7b4fa3"))
"""Name and colour of the copies of activations in both directions."""

ENCODERS = (("encoders' forward", "#a5d6b4"), ("encoders' backward", "#4f9d69"))
"""Name and colour of what encoders beside the pipeline do in its bubbles."""

HIDDEN = ("exchange hidden by a pair", "#0f4c5c")
"""Name and colour of what a forward beside a backward saves."""

_GREEN_ENDS = ("#9fd3a6", "#5fae6d")
_TEAL_ENDS = ("#8fd3cd", "#4aa9a2")
_ORANGE_ENDS = ("#f6c48a", "#e8963f")
_YELLOWS = ("#f1e194", "#cdb23a")
"""Encoders' forward and backward beside green backwards."""
_IDLE = {
    "paper": {
        "fill_drain": "#c9ced6",
        "imbalance": "#d98fb5",
        "recompute": "#b08968",
        "communication": "#8f7cc0",
        "host_copies": "#8a9440",
        "waiting": "#a3adb9",
    },
    "safe": {
        "fill_drain": "#c9ced6",
        "imbalance": "#cc79a7",
        "recompute": "#8a6a3b",
        "communication": "#5d5d9c",
        "host_copies": "#6f7426",
        "waiting": "#a3adb9",
    },
}
"""Colours of idle time by cause."""


def page_palette(num_chunks: int) -> dict[str, dict[str, object]]:
    """Return two sets of colours for pages that people switch: that of papers, and the one of all pictures, which is
    safe for the colour blind; for every operation a shade by chunk.
    """
    blue = _shades(*_FORWARD_ENDS, num_chunks)
    paper = (blue, *(_shades(*ends, num_chunks) for ends in (_GREEN_ENDS, _TEAL_ENDS, _ORANGE_ENDS)))
    safe = tuple(shades(num_chunks) for _name, shades in OPERATIONS)
    return {
        name: {
            **dict(zip(("forward", "backward", "input", "weight"), shades, strict=True)),
            "recompute": RECOMPUTE,
            "limit": LIMIT,
            "copies": [colour for _name, colour in COPIES],
            "encoders": _YELLOWS if name == "paper" else [colour for _name, colour in ENCODERS],
            "hidden": HIDDEN[1],
            "idle": _IDLE[name],
        }
        for name, shades in (("paper", paper), ("safe", safe))
    }


def _shades(first: str, last: str, count: int) -> list[str]:
    if count == 1:
        return [_mix(first, last, _ALONE)]
    return [_mix(first, last, index / (count - 1)) for index in range(count)]


def _mix(first: str, last: str, share: float) -> str:
    channels = zip(bytes.fromhex(first[1:]), bytes.fromhex(last[1:]), strict=True)
    return "#" + bytes(round(start + share * (end - start)) for start, end in channels).hex()

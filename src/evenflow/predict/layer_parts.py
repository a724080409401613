"""Parts of a layer beside attention, MLP and experts: what models of 2025 and 2026 add, in plain numbers."""

import math
from dataclasses import dataclass
from enum import StrEnum


class Place(StrEnum):
    """Which layers have an addition."""

    LAYER = "layer"
    """Every one."""
    ATTENTION = "attention"
    """Those with attention."""
    MLP = "mlp"
    """Those with an MLP."""
    EXPERTS = "experts"
    """Those with experts."""
    INDEXER = "indexer"
    """Those with an indexer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """A small part: narrow products, gates, convolutions, scales. Every device of a tensor group has all but tables."""

    name: str
    place: Place = Place.LAYER
    products: tuple[tuple[int, int], ...] = ()
    """Products, as the widths that each reads and gives."""
    repeated: tuple[tuple[int, int, int], ...] = ()
    """Products of one weight with several parts of a token: widths that it reads and gives, and of how many parts."""
    numbers: int = 0
    """Numbers of a token that are changed one by one: weighed, added, normed, convolved."""
    moves: int = 2
    """Times that these are read or written forward; backward, twice as often."""
    small: int = 0
    """Learned numbers that are in no product."""
    table: int = 0
    """Learned numbers of tables in which tokens are looked up; tensor parallelism shares them out."""
    looked_up: int = 0
    """Numbers of a token that come out of the tables."""
    after_first: bool = False
    """Whether the first of several passes through a layer goes without it."""

    @property
    def learned(self) -> int:
        """All numbers that it learns."""
        once = sum(wide * narrow for wide, narrow, _parts in self.repeated)
        return sum(wide * narrow for wide, narrow in self.products) + once + self.small + self.table

    def learned_of(self, tensor: int) -> float:
        """Return the numbers that it learns on a device of a tensor group of this size."""
        return self.learned - self.table + self.table / tensor

    @property
    def kept(self) -> int:
        """Numbers of a token that wait for the backward: what products give, and what is changed one by one."""
        repeated = sum(narrow * parts for _wide, narrow, parts in self.repeated)
        return sum(narrow for _wide, narrow in self.products) + repeated + self.numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexer:
    """What chooses the tokens that attention sees: a small attention of its own. [DeepSeek-V3.2, arXiv:2512.02556]"""

    heads: int
    width: int
    """Of its queries and of its one key."""
    chosen: int
    """Tokens that every token sees."""
    weighed: bool = True
    """Whether a projection weighs its heads."""
    small: int = 0
    """Learned numbers of its norms and positions."""
    from_hidden: bool = False
    """Whether its queries are of the hidden size, and not of the narrow queries of latent attention."""
    keyed: int = 1
    """Keys of this width that it projects to; several are made one of some tokens."""
    per_tokens: int = 1
    """Tokens that it scores together, as one."""

    def products(self, hidden: int, query_rank: int) -> tuple[tuple[int, int], ...]:
        """Return its products, as the widths that each reads and gives."""
        queries = hidden if self.from_hidden or not query_rank else query_rank
        weights = ((hidden, self.heads),) if self.weighed else ()
        return ((queries, self.heads * self.width), (hidden, self.keyed * self.width), *weights)

    def learned(self, hidden: int, query_rank: int) -> int:
        """Return the numbers that it learns."""
        return sum(wide * narrow for wide, narrow in self.products(hidden, query_rank)) + self.small


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedAttention:
    """Attention in which the tokens of a chunk see those of some chunks. [Reformer, arXiv:2001.04451, §2]

    Chunks are of neighbours, or of tokens whose keys, which are the queries, have the same hash.
    """

    length: int
    """Tokens of a chunk."""
    around: int
    """Further chunks that a chunk sees."""
    hashes: int = 0
    """Rounds of hashing, in each of which attention is computed once; 0: chunks are of neighbours."""
    buckets: tuple[int, ...] = ()
    """Factors of the number of hashes that there are; empty: two for each chunk."""
    longest: int = 0
    """Tokens of the longest sequence, which decide when that number has two factors."""

    def seen(self, sequence: float) -> float:
        """Return the tokens whose scores each token has: all those of a sequence that is no longer than a chunk."""
        if sequence <= self.length:
            return sequence
        return self.length * (1 + self.around) * max(1, self.hashes)

    def rounds(self, sequence: float) -> int:
        """Return the rounds of hashing of a sequence: none where all of it is one chunk."""
        return self.hashes if sequence > self.length else 0

    def rotated(self, sequence: int) -> int:
        """Return the numbers that a vector is projected to for its hash, of all rounds."""
        factors = self.buckets or self._usual_buckets(sequence)
        return self.rounds(sequence) * sum(factors) // 2

    def _usual_buckets(self, sequence: int) -> tuple[int, ...]:
        """Return a power of two, at most twice as many as there are chunks; as two factors where it is large."""
        power = max(1, 2 * (sequence // self.length)).bit_length() - 1
        if 2**power <= 2 * max(math.isqrt(self.longest // self.length), self.length):
            return (2**power,)
        return 2 ** (power // 2), 2 ** (power - power // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchAttention:
    """Attention between tokens and the patches that they are grouped in. [BLT, arXiv:2412.09871, §3.2, §3.3]

    Every patch has several parts, each as wide as a token. Scores are of all pairs, whatever a mask hides of them.
    """

    parts: int
    from_tokens: bool = False
    """Whether queries are of tokens, and not of patches."""
    projected: int = 0
    """Width that the parts of a patch are projected from here; 0: they come from an earlier layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowEnds:
    """Narrow products before the queries and behind the output of attention with ordinary heads. [DeepSeek-V4]"""

    query_rank: int
    """Width that queries go through, with a norm."""
    out_rank: int
    """Width that each group of heads is projected to."""
    out_groups: int

    def products(self, hidden: int, queries: int, out: int) -> tuple[tuple[int, int, int], ...]:
        """Return its products: the widths that each reads and gives, and how many of them there are."""
        groups = self.out_groups
        return (
            (hidden, self.query_rank, 1),
            (self.query_rank, queries, 1),
            (out // groups, self.out_rank, groups),
            (groups * self.out_rank, hidden, 1),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMixer:
    """What mixes tokens by a state that goes along the sequence, in the place of attention or beside it.

    Mamba [arXiv:2312.00752], Mamba-2 [arXiv:2405.21060], the gated delta rule [arXiv:2412.06464], lightning attention
    [arXiv:2401.04658], and convolutions alone [LFM2, arXiv:2511.23404]. Widths are numbers of a token, of all heads.
    """

    name: str
    heads: int
    """What tensor parallelism shares out."""
    key_dim: int
    """Rows of a head's state, each for a number of its key; 0 without a state."""
    value_dim: int
    """Columns of a head's state."""
    into: int
    """Width that the hidden size is projected to."""
    out: int
    """Width that is projected back to the hidden size."""
    between: tuple[tuple[int, int], ...] = ()
    """Further products, as the widths that each reads and gives."""
    channels: int = 0
    """Width that a causal convolution goes over, each channel by itself."""
    kernel: int = 1
    """Tokens that the convolution sees."""
    small: int = 0
    """Learned numbers that are in no product: of the convolution, decays, steps, norms, biases."""
    chunk: int = 64
    """Tokens that are worked on at once, by products; 1: the state is carried from token to token."""
    delta: bool = False
    """Whether a key's old value is taken out of the state first (delta rule), by a triangular system in every chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Layers that tokens go through several times: through all of them, and again. They stay in one stage."""

    first: int
    """The first of them, counted from 0."""
    end: int
    """The layer behind the last of them."""
    passes: int
    """Times that tokens go through them and gradients come back."""
    unkept: int = 0
    """Further times, from which no gradients come back."""
    inner: bool = False
    """Whether they are in the same stage as the layers of the loop before them, which turns with this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageAttention:
    """Layers whose attention sees the tokens of images, which are beside the sequence. [Flamingo, arXiv:2204.14198]"""

    layers: tuple[int, ...]
    """These layers, counted from 0."""
    width: int
    """Numbers of a token of an image."""
    tokens: int = 0
    """Tokens of the images of a sequence; 0: nobody has said yet which images there are."""

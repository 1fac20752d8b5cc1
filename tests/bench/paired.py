"""Arithmetic of paired measurements: medians, and intervals that do not depend on outliers.

The interval of a median consists of two measured values: the k-th smallest and the k-th largest. The probability that the true median is
between them depends only on the number of values (half of all values are below the median, like tosses of a coin), and not on their
distribution. With few values it is lower: 94 % for the smallest and the largest of five. So every interval has its coverage.
"""

from dataclasses import asdict, dataclass
from math import comb

COVERAGE = 0.95


@dataclass(frozen=True)
class Median:
    value: float
    low: float
    high: float
    coverage: float
    count: int

    def scaled(self, factor):
        ends = sorted((self.low * factor, self.high * factor))
        return Median(self.value * factor, *ends, self.coverage, self.count)

    def holds(self, value):
        return self.low <= value <= self.high

    def as_json(self):
        return asdict(self)


def median(values):
    """Returns the median of one or more values, with its interval."""
    ordered = sorted(values)
    count = len(ordered)
    left_out, coverage = values_outside(count)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    return Median(middle, ordered[left_out], ordered[count - 1 - left_out], coverage, count)


def values_outside(count):
    """Returns how many values the interval can exclude at each end and still cover enough, and its coverage."""
    left_out = 0
    while left_out + 1 < (count + 1) // 2 and covered(count, left_out + 1) >= COVERAGE:
        left_out += 1
    return left_out, covered(count, left_out)


def covered(count, left_out):
    """Returns the probability that the true median is inside an interval that excludes this many values at each end."""
    tail = sum(comb(count, below) for below in range(left_out + 1))
    return max(0.0, 1 - 2 * tail / 2**count)


def ratios(base, side):
    """Returns the side's value divided by the base's for each round; rounds without both values are skipped."""
    return [theirs / ours for ours, theirs in both(base, side) if ours > 0]


def differences(base, side):
    return [theirs - ours for ours, theirs in both(base, side)]


def both(base, side):
    return [(ours, theirs) for ours, theirs in zip(base, side) if ours is not None and theirs is not None]

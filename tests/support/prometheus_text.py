"""A strict reader of Prometheus' text format 0.0.4, for the tests of what members expose.

Refuses what Prometheus would take but no exposition should have: samples without HELP and TYPE, families in two
places, samples that come twice, counters without `_total`, histograms whose buckets do not add up.
"""

import math
import re
from dataclasses import dataclass, field

_SAMPLE = re.compile(r'([a-z_][a-z0-9_]*)(?:\{((?:[a-z_]+="[^"\\\n]*",?)+)\})? (\S+)')
_LABEL = re.compile(r'([a-z_]+)="([^"]*)"')
_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count")}

Labels = tuple[tuple[str, str], ...]


@dataclass
class Family:
    """One metric: samples by name and labels."""

    kind: str
    help: str
    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)


class Exposition:
    """What one scrape said."""

    def __init__(self, text: str) -> None:
        assert text.endswith("\n")
        self.families: dict[str, Family] = {}
        name, family = "", Family("", "")
        help_text: tuple[str, str] | None = None
        for line in text.splitlines():
            if line.startswith("# HELP "):
                help_name, _, content = line.removeprefix("# HELP ").partition(" ")
                assert content, line
                help_text = (help_name, content)
            elif line.startswith("# TYPE "):
                name, _, kind = line.removeprefix("# TYPE ").partition(" ")
                assert kind in ("counter", "gauge", "histogram"), line
                assert help_text is not None, line
                assert help_text[0] == name, line
                assert name not in self.families, line
                assert name.endswith("_total") == (kind == "counter"), line
                family = self.families[name] = Family(kind, help_text[1])
                help_text = None
            else:
                self._take_sample(name, family, line)
        for each_name, each in self.families.items():
            assert each.samples, each_name
            if each.kind == "histogram":
                self._check_histogram(each_name, each)

    def value(self, name: str, **labels: str) -> float | None:
        """The value of one sample, None when it is not there."""
        for family in self.families.values():
            found = family.samples.get((name, tuple(sorted(labels.items()))))
            if found is not None:
                return found
        return None

    @property
    def role(self) -> str:
        """The one role whose sample is 1; empty when there is none."""
        family = self.families.get("upheaval_role")
        held = [] if family is None else [labels for (_, labels), value in family.samples.items() if value == 1]
        assert len(held) <= 1
        return held[0][0][1] if held else ""

    @staticmethod
    def _take_sample(name: str, family: Family, line: str) -> None:
        match = _SAMPLE.fullmatch(line)
        assert match is not None, line
        assert match[1] in [name + suffix for suffix in _SUFFIXES.get(family.kind, ("",))], line
        labels = tuple(sorted(_LABEL.findall(match[2] or "")))
        assert (match[1], labels) not in family.samples, line
        family.samples[match[1], labels] = float(match[3])

    @staticmethod
    def _check_histogram(name: str, family: Family) -> None:
        buckets = [
            (float(dict(labels)["le"]), value)
            for (sample, labels), value in family.samples.items()
            if sample == f"{name}_bucket"
        ]
        assert buckets == sorted(buckets)
        assert [value for _, value in buckets] == sorted(value for _, value in buckets)
        assert buckets[-1] == (math.inf, family.samples[f"{name}_count", ()])
        assert family.samples[f"{name}_sum", ()] >= 0

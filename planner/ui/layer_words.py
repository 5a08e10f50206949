"""A model's layers in words: what each kind is called, and the pattern in which they come."""

from __future__ import annotations

from collections import Counter

from planner.architecture.anatomy import LayerGroup, layer_groups, segments
from planner.architecture.spec import Architecture
from planner.ui.locale import catalogue
from planner.ui.state import language, plain

MOST_RUNS_SAID = 8  # more than that and the sentence only counts


def group_names(architecture: Architecture) -> list[str]:
    """Names of the groups of layers, no two alike: mixers, then what else tells them apart (plain text)."""
    groups = layer_groups(architecture)
    some_route = len({group.experts > 0 for group in groups if group.feed_forward}) > 1
    names = [_name(group, some_route=some_route) for group in groups]
    for detail in (_window_words, _feed_forward_words):
        times = Counter(names)
        names = [
            f"{name} ({detail(group)})" if times[name] > 1 else name
            for name, group in zip(names, groups, strict=True)
        ]
    return names


def _name(group: LayerGroup, *, some_route: bool) -> str:
    if not group.mixers:
        alone = "experts" if group.experts else "feed_forward" if group.feed_forward else "nothing"
        return plain(f"mixer.alone_{alone}")
    mixed = " + ".join(_mixer(name) for name in group.mixers)
    return plain("model.and_experts", mixed=mixed) if group.experts and some_route else mixed


def _mixer(name: str) -> str:
    """A mixer's name in the visitor's language; one that has none there keeps the field's own."""
    known = f"mixer.{name}" in catalogue(language())
    return plain(f"mixer.{name}") if known else name.replace("_", " ")


def _window_words(group: LayerGroup) -> str:
    if not group.windows:
        return plain("model.all_tokens")
    return plain("model.window_tokens", tokens=list(group.windows))


def _feed_forward_words(group: LayerGroup) -> str:
    if not group.feed_forward:
        return plain("model.no_feed_forward")
    return plain(f"model.keeps_{group.keeps}")


def layers_in_words(architecture: Architecture) -> str:
    """The layers' pattern as one sentence (plain text)."""
    groups, names = layer_groups(architecture), group_names(architecture)
    if len(groups) == 1:
        return plain("model.layers_alike", layers=architecture.layers, kind=names[0])
    found = segments(architecture)
    if sum(len(segment.runs) for segment in found) > MOST_RUNS_SAID:
        order = sorted(range(len(groups)), key=lambda index: -len(groups[index].layers))
        counted = _runs_words([(index, len(groups[index].layers)) for index in order], names)
        return plain("model.layers_mixed", layers=architecture.layers, runs=counted)
    said = []
    for segment in found:
        words = _runs_words(segment.runs, names)
        if segment.times > 1:
            words = plain("model.repeated", runs=words, times=segment.times)
        said.append(words)
    joined = said[0]
    for words in said[1:]:
        joined = plain("model.then", first=joined, then=words)
    return plain("model.layers_runs", layers=architecture.layers, runs=joined)


def _runs_words(runs: tuple[tuple[int, int], ...] | list[tuple[int, int]], names: list[str]) -> str:
    return ", ".join(plain("model.run", number=count, kind=names[index]) for index, count in runs)

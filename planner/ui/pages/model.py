"""Model: its layers, where its parameters are, what it caches, what its files hold, and where that is known from."""

from __future__ import annotations

import html
from collections.abc import Iterable
from itertools import chain

import streamlit as st

from planner.architecture.spec import Architecture
from planner.architecture.totals import active_parameters, parameters
from planner.catalog.loader import Source
from planner.catalog.models import ModelProfile, model_profile
from planner.deployment import Deployment, resolve
from planner.errors import Note, PlannerError
from planner.evaluation import Evaluation
from planner.explain.parts import model_sources
from planner.memory.checkpoint import own_format, weights_by_checkpoint
from planner.memory.weights import StoredWeights
from planner.scenario import Parallelism
from planner.ui.charts.anatomy import (
    layer_cache_chart,
    layers_chart,
    parameters_chart,
)
from planner.ui.charts.base import draw_chart
from planner.ui.state import plain
from planner.ui.widgets import (
    cards,
    draw,
    figure,
    h,
    notes,
    refusal_text,
    shown,
    side_by_side,
    t,
)

# The checkpoint's own storage type as the name of a compute dtype; others are read as 16 bits of the same range.
DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


def draw_page(evaluation: Evaluation) -> None:
    deployment = resolve(evaluation.scenario)
    headline(evaluation, deployment)
    figures(evaluation)
    st.subheader(t("model.layers_title"), anchor="layers")
    draw_chart(layers_chart(evaluation))
    cache = layer_cache_chart(evaluation)
    with side_by_side():
        draw_chart(parameters_chart(evaluation))
        if cache is not None:
            draw_chart(cache)
    if cache is None:
        draw(f'<p class="hr-about">{h("model.no_cache")}</p>')
    with side_by_side():
        with st.container(key="model-checkpoint"):
            st.subheader(t("model.checkpoint_title"), anchor="checkpoint")
            checkpoint(deployment)
        with st.container(key="model-dimensions"):
            st.subheader(t("model.dimensions_title"), anchor="dimensions")
            dimensions(deployment.architecture)
    st.subheader(t("model.origin_title"), anchor="origin")
    origin(deployment)
    known = list(_notes(deployment))
    if known:
        st.subheader(t("notes.title"), anchor="notes")
        notes(known, "info")


def headline(evaluation: Evaluation, deployment: Deployment) -> None:
    """What it is, in one sentence."""
    architecture = deployment.architecture
    whole, active = float(parameters(architecture)), active_parameters(architecture)
    sparse = active < 0.98 * whole
    sentence = h(
        "model.headline_sparse" if sparse else "model.headline",
        model=evaluation.model.name,
        modality=plain(f"modality.{architecture.modality}"),
        count=whole,
        active=active,
        tokens=architecture.max_context_tokens,
    )
    draw(
        '<div class="hr-verdict hr-plain hr-single" role="status">'
        f'<span class="hr-lead">{sentence}</span></div>'
    )


def figures(evaluation: Evaluation) -> None:
    """What the model costs in memory, whole: its weights, a further token, a request, a constant state."""
    memory, scenario = evaluation.memory, evaluation.scenario
    tokens = scenario.input_tokens + scenario.output_tokens
    with cards():
        figure(
            "weights_bytes",
            memory.weights_bytes,
            "gib",
            evaluation,
            label=h("model.weights"),
            says=h("fit.weights_says", stored=evaluation.deployment.weights_label),
        )
        figure(
            "kv_bytes_per_token",
            memory.kv_bytes_per_token,
            "bytes",
            evaluation,
            label=h("model.per_token"),
            says=h("model.per_token_says", tokens=tokens),
        )
        figure(
            "kv_bytes_per_sequence",
            memory.kv_bytes_per_sequence,
            "bytes",
            evaluation,
            label=h("model.per_request"),
            says=h("model.per_request_says", tokens=tokens),
        )
        figure(
            "state_bytes_per_sequence",
            memory.state_bytes_per_sequence,
            "bytes",
            evaluation,
            label=h("model.state"),
            says=h("model.state_says"),
        )


# --- What its files hold ---------------------------------------------------------------------------------------------


def checkpoint(deployment: Deployment) -> None:
    """Format and size of the checkpoint as published, whatever format the scenario asks for."""
    model = deployment.model
    try:
        stored = published_weights(deployment)
    except PlannerError as refusal:
        st.markdown(refusal_text(refusal))
        return
    rows = [
        (h("model.stored_as"), html.escape(stored.label)),
        (h("model.stored_size"), shown(stored.total_bytes, "gib")),
    ]
    if model.checkpoint is not None:
        rows += [
            (h("model.stored_in", dtype=dtype), shown(size, "gib"))
            for dtype, size in sorted(model.checkpoint.by_dtype.items(), key=lambda one: -one[1])
        ]
        if model.checkpoint.tensors:
            rows.append((h("model.stored_tensors"), shown(model.checkpoint.tensors, "count")))
    elif (profile := _profile(deployment)) and "checkpoint_bytes" in profile.figures:
        published = profile.figures["checkpoint_bytes"].value
        rows.append((h("model.stored_published"), shown(float(published), "gib")))
    _facts(plain("model.checkpoint_title"), rows)
    read = "model.stored_read" if model.checkpoint is not None else "model.stored_formula"
    draw(f'<p class="hr-about">{h(read)}</p>')


def published_weights(deployment: Deployment) -> StoredWeights:
    """The whole model as its own checkpoint stores it, next-token-prediction layers included.

    Raises:
        Unsupported: for a quantisation that isn't known.
    """
    model, architecture = deployment.model, deployment.architecture
    dtype = DTYPES.get(architecture.dtype, "bf16")
    return weights_by_checkpoint(
        architecture,
        model.checkpoint,
        own_format(model.checkpoint, "native"),
        Parallelism(),
        dtype,
        include_mtp=True,
    )


# --- Its sizes -------------------------------------------------------------------------------------------------------


def dimensions(architecture: Architecture) -> None:
    """The widths that everything follows from, and what else goes in."""
    tied = "none" if not architecture.has_head else "tied" if architecture.tied else "own"
    rows = [
        (h("model.type"), html.escape(architecture.model_type)),
        (h("model.hidden"), shown(architecture.hidden_size, "count")),
        (h("model.vocabulary"), shown(architecture.vocabulary_size, "count")),
        (h("model.head"), h(f"model.head_{tied}")),
        (h("model.dtype"), html.escape(architecture.dtype)),
    ]
    for tower in architecture.towers:
        takes = (
            h("model.tower_tokens", tokens=tower.tokens_per_item)
            if tower.tokens_per_item
            else h("model.tower_varies")
        )
        size = sum(weight.elements for weight in tower.weights)
        rows.append((h(f"model.tower_{tower.modality}", size=size), takes))
    _facts(plain("model.dimensions_title"), rows)


def _facts(caption: str, rows: Iterable[tuple[str, str]]) -> None:
    """A table of names and values; cells are HTML."""
    body = "".join(
        f'<tr><td style="white-space:normal">{name}</td>'
        f'<td style="white-space:normal;overflow-wrap:anywhere">{value}</td></tr>'
        for name, value in rows
    )
    draw(
        f'<table class="hr-table"><caption>{html.escape(caption)}</caption><tbody>{body}</tbody></table>'
    )


# --- Where it is known from ------------------------------------------------------------------------------------------


def _profile(deployment: Deployment) -> ModelProfile | None:
    """The catalogue's entry, or None for a model from a configuration."""
    return model_profile(deployment.model.id) if deployment.model.profile else None


def origin(deployment: Deployment) -> None:
    """Who published it, when, under which licence, how its configuration came here, and the sources."""
    profile = _profile(deployment)
    if profile is None:
        draw(f'<p class="hr-about">{h("model.origin_config", model=deployment.model.id)}</p>')
        return
    unknown = h("model.unknown")
    year = str(profile.released) if profile.released else None
    rows = [
        (h("model.id"), html.escape(profile.id)),
        (h("model.organisation"), html.escape(profile.organisation)),
        (h("model.released"), html.escape(year) if year else unknown),
        (h("model.licence"), html.escape(profile.licence) if profile.licence else unknown),
        (h("model.provenance"), h(f"provenance.{profile.provenance}")),
    ]
    _facts(plain("model.origin_title"), rows)
    figures = (one.source for one in profile.figures.values())
    sources = {one.id + one.title: one for one in chain(model_sources(deployment), figures)}
    entries = "".join(f"<li>{_source(source)}</li>" for source in sources.values())
    heading = f'<p class="hr-about">{h("explain.sources")}</p>'
    draw(f'{heading}<ul class="hr-sources" style="overflow-wrap:anywhere">{entries}</ul>')
    if profile.notes:
        with st.expander(t("model.catalogue_note"), type="compact", key="model-note"):
            draw(f'<p class="hr-about" lang="en">{html.escape(profile.notes)}</p>')


def _source(source: Source) -> str:
    """A source as a link, with its date and kind; an address that isn't one stays text."""
    title = html.escape(source.title)
    if source.url.startswith(("https://", "http://")):
        url = html.escape(source.url)
        title = f'<a href="{url}" target="_blank" rel="noopener noreferrer">{title}</a>'
    return f"{title}, {html.escape(source.date)} ({h(f'source.{source.kind}')})"


def _notes(deployment: Deployment) -> Iterable[Note]:
    """What to know about the model itself; the deployment's notes stand on the other pages."""
    model = deployment.model
    if model.stand_in_for:
        yield Note("stand_in", {"asked": model.stand_in_for, "model": model.id})
    yield from model.notes
    yield from (Note(code) for code in deployment.architecture.notes)

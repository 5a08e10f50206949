"""Speed: the first token, the tokens after it, where the time goes, and what more people do to both."""

from __future__ import annotations

import streamlit as st

from planner.errors import PlannerError
from planner.evaluation import Evaluation, evaluate
from planner.ui import state
from planner.ui.charts.base import draw_chart
from planner.ui.charts.batch import batch_charts
from planner.ui.charts.curves import decode_chart, ttft_chart
from planner.ui.charts.parts import parts_chart, roofline_chart
from planner.ui.widgets import cards, draw, figure, h, notes, page_link, side_by_side, t

WORDS_PER_TOKEN = 0.75
READING_WORDS_PER_S = 4.5  # about 270 words a minute


def draw_page(evaluation: Evaluation) -> None:
    decodes = evaluation.speed.tpot_s is not None
    headline(evaluation)
    four_questions(evaluation)
    page_link("accuracy", t("accuracy.link"))
    if decodes:
        st.subheader(t("speed.curves_title"), anchor="prompt")
        with side_by_side():
            draw_chart(ttft_chart(evaluation))
            draw_chart(decode_chart(evaluation))
        st.subheader(t("speed.parts_title"), anchor="parts")
    with side_by_side():
        if not decodes:
            draw_chart(ttft_chart(evaluation))
        draw_chart(parts_chart(evaluation))
        draw_chart(roofline_chart(evaluation))
    if decodes:
        st.subheader(t("speed.batch_title"), anchor="batch")
        with side_by_side():
            for chart in batch_charts(evaluation):
                draw_chart(chart)
    if evaluation.warnings:
        st.subheader(t("notes.title"), anchor="notes")
        notes(evaluation.warnings, "warn")


def headline(evaluation: Evaluation) -> None:
    """How it feels, in one sentence."""
    speed = evaluation.speed
    first = float(speed.ttft_s.mid)
    if speed.decode_tokens_per_s is None:
        sentence = h("speed.headline_no_decode", first=first)
    else:
        rate = float(speed.decode_tokens_per_s.mid)
        words = rate * WORDS_PER_TOKEN
        compared = words / READING_WORDS_PER_S
        pace = "faster" if compared > 1.15 else "slower" if compared < 0.87 else "like"
        sentence = h(
            f"speed.headline_{pace}",
            first=first,
            rate=rate,
            words=round(words, 1) if words < 10 else round(words),
            whole=float(speed.e2e_s.mid),
            output=evaluation.scenario.output_tokens,
        )
    would = ""
    if not evaluation.memory.starts:
        would = f'<div class="hr-more">{h("speed.would_not_start")}</div>'
    draw(
        '<div class="hr-verdict hr-plain hr-single" role="status">'
        f'<span class="hr-lead">{sentence}</span>{would}</div>'
    )


def four_questions(evaluation: Evaluation) -> None:
    """VRAM before any traffic, time to the first token, tokens after it, and what a longer prompt changes."""
    with cards():
        for question in (_vram, _first_token, _rate, _longer_prompt):
            question(evaluation)


def _vram(evaluation: Evaluation) -> None:
    memory = evaluation.memory
    before = float(memory.weights_bytes_per_gpu.mid) + float(memory.overhead_bytes_per_gpu.mid)
    share = before / float(memory.usable_bytes_per_gpu.mid)
    figure(
        "weights_bytes_per_gpu",
        memory.weights_bytes_per_gpu,
        "gib",
        evaluation,
        label=h("question.vram"),
        says=h("question.vram_says", before=before, share=share),
    )


def _first_token(evaluation: Evaluation) -> None:
    speed, tokens = evaluation.speed, evaluation.scenario.input_tokens
    limit = state.plain(f"limit.{speed.prefill_bound_by}")
    says = h("question.ttft_says", tokens=tokens, limit=limit)
    if speed.queue_wait_s > 0.02 * float(speed.ttft_s.mid):
        says = h("question.ttft_waits", tokens=tokens, wait=speed.queue_wait_s)
    figure("ttft_s", speed.ttft_s, "time", evaluation, label=h("question.ttft"), says=says)


def _rate(evaluation: Evaluation) -> None:
    speed = evaluation.speed
    says = h("question.rate_says", limit=state.plain(f"limit.{speed.bound_by}"))
    rate = speed.decode_tokens_per_s
    label = h("question.rate")
    figure("decode_tokens_per_s", rate, "rate", evaluation, label=label, says=says)


def _longer_prompt(evaluation: Evaluation) -> None:
    """The same scenario with twice the prompt, or half of it where the model takes no more."""
    scenario = evaluation.scenario
    most = (evaluation.model.max_context_tokens or 2**30) - scenario.output_tokens
    tokens = 2 * scenario.input_tokens
    if tokens > most:
        tokens = max(scenario.input_tokens // 2, 1)
    try:
        other = evaluate(scenario.replace(input_tokens=tokens))
    except PlannerError:
        other = evaluation
    now, then = evaluation.speed, other.speed
    label, says = (
        h("question.longer"),
        h("question.longer_says_one", tokens=tokens, now=float(now.ttft_s.mid)),
    )
    if now.decode_tokens_per_s is not None and then.decode_tokens_per_s is not None:
        before, after = (float(one.memory.kv_bytes_per_sequence.mid) for one in (evaluation, other))
        key = "question.longer_says" if tokens > scenario.input_tokens else "question.shorter_says"
        says = h(
            key,
            tokens=tokens,
            now=float(now.ttft_s.mid),
            rate=float(then.decode_tokens_per_s.mid),
            rate_now=float(now.decode_tokens_per_s.mid),
            cache=abs(after - before),
        )
    figure("ttft_s", then.ttft_s, "time", other, label=label, says=says, key="ttft-longer")

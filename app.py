"""Headroom in the browser: page settings, language, navigation, and the page that was asked for."""

from __future__ import annotations

import streamlit as st

from planner.ui import frame, look, state

st.set_page_config(
    page_title="Headroom", page_icon=frame.ICON, layout="wide", initial_sidebar_state=340
)
state.begin_run()
look.apply()
pages = frame.pages()
page = st.navigation(pages, position="hidden")
frame.top_row(pages)
frame.sidebar()
page.run()
state.end_run()

"""The browser pages. Only this package imports streamlit and plotly, and never from this file."""

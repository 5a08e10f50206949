"""Charts: plotly figures made of few points, drawn under a title that states the finding."""

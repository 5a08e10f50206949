"""The style sheet: the few shapes that the pages draw beyond Streamlit's, in the theme's colours (`look`)."""

from __future__ import annotations

SHEET = """
/* Frame: one calm column, as wide as charts can use. */
[data-testid="stMainBlockContainer"] {
  max-width: 1560px; margin: 0 auto; padding-top: 1.1rem; padding-bottom: 5rem;
}
[data-testid="stHeader"] { background: transparent; height: 2.5rem; }
[data-testid="stSidebarUserContent"] { padding-bottom: 2rem; }
[data-testid="stSidebarHeader"] { height: 2.25rem; margin-bottom: 0; }
[data-testid="stSidebar"] [data-testid="stExpanderDetails"] { padding-bottom: .75rem; }
.st-key-link [data-testid="stCode"] > div { opacity: 1 !important; visibility: visible !important; }
.st-key-link [data-testid="stCode"] pre { padding: .5rem 2.5rem .5rem .6rem; }
[class*="st-key-exact-"] [data-testid="stNumberInputStepDown"],
[class*="st-key-exact-"] [data-testid="stNumberInputStepUp"] {
  display: none;
}
[data-testid="stSidebar"] [data-testid="stExpander"] details { background: var(--hr-page); }
[data-testid="stSidebar"] [data-testid="stExpander"] summary { font-weight: 600; }
[data-testid="stMetricValue"], .hr, [data-testid="stSliderThumbValue"], input[type="number"] {
  font-variant-numeric: tabular-nums;
}
.hr { color: var(--hr-ink); line-height: 1.45; overflow-wrap: break-word; unicode-bidi: isolate; }
.hr p { margin: 0; }
.hr a { color: var(--hr-link); }

/* Top row. */
.hr-brand {
  display: flex; align-items: center; gap: .5rem; font-weight: 650; font-size: 1.15rem;
  letter-spacing: -.01em; white-space: nowrap;
}
.hr-brand i {
  width: 1.15rem; height: 1.15rem; flex: none; border: 2px solid var(--hr-accent);
  border-radius: .3rem;
  background: linear-gradient(to top, var(--hr-accent) 0 58%, transparent 58%);
  background-clip: content-box; padding: 2px;
}
.st-key-top {
  border-bottom: 1px solid var(--hr-line); padding-bottom: .45rem; margin-bottom: .35rem;
}
.st-key-top [data-testid="stPageLink"] a { padding: .3rem .5rem; border-radius: .4rem; }
.st-key-top [data-testid="stPageLink"] p { font-weight: 600; font-size: 1rem; }
.st-key-presets [data-testid="stMarkdownContainer"] p { font-size: .8125rem; }
.st-key-presets button { min-height: 1.9rem; padding: .15rem .65rem; }

/* The verdict. */
.hr-verdict {
  display: grid; grid-template-columns: auto 1fr; gap: .3rem .9rem; align-items: start;
  padding: .95rem 1.15rem; border-radius: .6rem; background: var(--hr-panel);
  border-left: 5px solid var(--tone);
}
.hr-verdict .hr-chip {
  color: var(--tone); font-weight: 700; font-size: 1.5rem; line-height: 1.25;
  white-space: nowrap;
}
.hr-verdict .hr-lead { font-size: 1.2rem; line-height: 1.45; padding-top: .12rem; }
.hr-verdict .hr-lead, .hr-verdict .hr-more { min-width: 0; overflow-wrap: anywhere; }
.hr-verdict .hr-more { grid-column: 2; font-size: .95rem; color: var(--hr-grey); }
.hr-fits { --tone: var(--hr-green); }
.hr-tight { --tone: var(--hr-amber); }
.hr-does_not_fit { --tone: var(--hr-red); }
.hr-tone { color: var(--tone); font-weight: 600; }
.hr-plain { --tone: var(--hr-accent); }
.hr-single { grid-template-columns: 1fr; }
.hr-single .hr-more { grid-column: 1; }

/* A figure: label, number, range, basis. */
.hr-fig .hr-label { font-size: .875rem; color: var(--hr-grey); min-height: 1.3em; }
.hr-fig .hr-value {
  font-size: 1.75rem; font-weight: 600; letter-spacing: -.015em; line-height: 1.25;
  white-space: nowrap;
}
.hr-fig .hr-value .hr-unit {
  font-size: 1rem; font-weight: 500; color: var(--hr-grey); margin-left: .25rem;
  letter-spacing: 0;
}
.hr-fig .hr-range {
  font-size: .8125rem; color: var(--hr-grey); display: flex; flex-wrap: wrap; gap: .1rem .6rem;
}
.hr-fig .hr-says { font-size: .9375rem; margin-top: .3rem; }
.hr-badge { white-space: nowrap; color: var(--hr-grey); font-size: .8125rem; }
.hr-badge i { font-style: normal; color: var(--hr-accent); margin-right: .2rem; }
[class*="st-key-figure-"] {
  border: 1px solid var(--hr-line); border-radius: .6rem; padding: .8rem .95rem .45rem;
  justify-content: space-between;
}
[class*="st-key-foot-"] > [data-testid="stLayoutWrapper"] { flex: 0 0 auto; width: auto; }
[class*="st-key-foot-"] { justify-content: space-between; column-gap: .6rem; row-gap: 0; }
[class*="st-key-figure-"] [data-testid="stPopover"] button {
  padding: 0; min-height: 1.5rem; border: none; background: none; color: var(--hr-link);
}
[class*="st-key-figure-"] [data-testid="stPopover"] button p { font-size: .8125rem; }
[class*="st-key-figure-"] [data-testid="stPopover"] button div[aria-hidden="true"] {
  display: none;
}
[class*="st-key-figure-"] [data-testid="stPopover"] button:hover p { text-decoration: underline; }

/* The card of one GPU, filled. */
.hr-bar { position: relative; margin: 1.9rem 0 .4rem; }
.hr-track {
  display: flex; height: 2.6rem; border-radius: .35rem; overflow: hidden;
  background: var(--hr-panel); box-shadow: inset 0 0 0 1px var(--hr-line);
}
.hr-seg {
  min-width: 2px; box-shadow: inset -1px 0 0 var(--hr-page); display: flex; align-items: center;
  justify-content: center; overflow: hidden; font-size: .8125rem; font-weight: 600;
  white-space: nowrap;
}
.hr-mark {
  position: absolute; top: -.35rem; bottom: -.35rem; border-left: 2px solid var(--hr-ink);
}
.hr-mark span {
  position: absolute; top: -1.35rem; right: .3rem; font-size: .8125rem; white-space: nowrap;
}
.hr-mark.hr-left span { right: auto; left: .3rem; }
.hr-striped {
  background-image: repeating-linear-gradient(45deg, rgba(255,255,255,.28) 0 4px, transparent 4px 9px);
}
.hr-legend {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr));
  gap: .15rem 1.6rem; font-size: .875rem;
}
.hr-legend div {
  display: grid; grid-template-columns: .8rem 1fr auto; gap: .5rem; align-items: start;
  padding: .12rem 0;
}
.hr-legend .hr-key { width: .8rem; height: .8rem; border-radius: .15rem; margin-top: .25rem; }
.hr-legend .hr-num { font-weight: 600; }
.hr-keys {
  display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; font-size: .875rem; padding: .1rem 0 .45rem;
}
.hr-keys > span { display: inline-flex; align-items: center; gap: .4rem; }
.hr-keys .hr-key { width: .8rem; height: .8rem; border-radius: .15rem; }
.hr-sign { font-size: .95rem; line-height: 1; }
.hr-over { color: var(--hr-red); font-weight: 600; }

/* Dials: a sentence and a thin meter each. */
.hr-dials { display: grid; gap: .75rem; }
.hr-dial {
  display: grid; grid-template-columns: minmax(8rem, 11rem) 1fr; gap: .15rem 1rem;
  align-items: center;
}
.hr-dial .hr-name { font-weight: 600; }
.hr-dial .hr-first {
  color: var(--hr-accent); font-weight: 600; font-size: .8125rem; white-space: nowrap;
}
.hr-meter {
  height: .55rem; border-radius: .3rem; background: var(--hr-panel);
  box-shadow: inset 0 0 0 1px var(--hr-line); overflow: hidden;
}
.hr-meter div { height: 100%; background: var(--hr-accent); border-radius: .3rem; }
.hr-meter.hr-full div { background: var(--hr-red); }
.hr-dial .hr-sentence { grid-column: 2; font-size: .9375rem; }

/* Charts, tables, notes. */
.hr-finding { font-size: 1.02rem; font-weight: 600; line-height: 1.35; margin: .2rem 0 0; }
@media (min-width: 641px) and (max-width: 1800px) {
  .hr-finding { min-height: 2.7em; }
}
.hr-chosen {
  font-size: .875rem; border-left: 3px solid var(--hr-accent); padding: .1rem 0 .1rem .7rem;
  overflow-wrap: anywhere;
}
.hr-about { font-size: .875rem; color: var(--hr-grey); }
.hr-scroll { overflow-x: auto; max-height: 24rem; }
.hr-table { border-collapse: collapse; font-size: .875rem; width: 100%; }
.hr-table caption {
  position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
}
.hr-table th {
  text-align: right; font-weight: 600; color: var(--hr-grey); position: sticky; top: 0;
  background: var(--hr-page);
}
.hr-table td { text-align: right; border-top: 1px solid var(--hr-line); }
.hr-table th, .hr-table td { padding: .28rem .5rem; white-space: nowrap; vertical-align: bottom; }
.hr-table th { white-space: normal; }
.hr-table th:first-child, .hr-table td:first-child { text-align: left; padding-left: 0; }
.hr-table td.hr-wrap, .hr-table th.hr-wrap {
  white-space: normal; text-align: left; min-width: 12rem;
}
.hr-table:has(td:first-child.hr-wrap) td { vertical-align: top; }
.hr-whole .hr-scroll { max-height: none; }
.hr-whole .hr-table td:first-child { white-space: normal; min-width: 8.5rem; }
@media (max-width: 480px) {
  .hr-table { font-size: .8125rem; }
  .hr-table th, .hr-table td { padding: .28rem .25rem; }
  .hr-whole .hr-table td:first-child { min-width: 6rem; }
  .hr-folds, .hr-folds tbody { display: block; }
  .hr-folds thead { display: none; }
  .hr-folds tr {
    display: grid; grid-template-columns: repeat(3, 1fr); border-top: 1px solid var(--hr-line);
    padding: .3rem 0;
  }
  .hr-folds td { border: none; text-align: left; white-space: normal; }
  .hr-folds td:first-child { grid-column: 1 / -1; font-weight: 600; }
  .hr-folds td:first-child:has(> b) { font-weight: inherit; }
  .hr-table.hr-folds td.hr-wrap { min-width: 0; grid-column: 1 / -1; }
  .hr-folds td:not(:first-child)::before {
    content: attr(data-head); display: block; color: var(--hr-grey); font-size: .75rem;
  }
}
.hr-stack { display: grid; gap: .6rem; }
.hr-stack > * { min-width: 0; }
.hr-notes { display: grid; gap: .5rem; }
.hr-note { display: grid; grid-template-columns: 1.3rem 1fr; gap: .35rem; font-size: .9375rem; }
.hr-note > span { min-width: 0; overflow-wrap: anywhere; }
.hr-note b:first-child { color: var(--tone); font-weight: 700; }
.hr-warn { --tone: var(--hr-amber); }
.hr-info { --tone: var(--hr-grey); }
.hr-formula {
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: .875rem;
  overflow-x: auto; background: var(--hr-panel); border-radius: .4rem; padding: .55rem .7rem;
  white-space: pre-wrap;
}
.hr-sources { font-size: .8125rem; color: var(--hr-grey); padding-left: 1.1rem; margin: .3rem 0 0; }
.hr-words { font-size: .875rem; color: var(--hr-grey); line-height: 1.45; }
.hr-words b { color: var(--hr-ink); font-weight: 600; }
[class*="st-key-whatif-"] {
  border: 1px solid var(--hr-line); border-radius: .6rem; padding: .8rem .95rem;
  justify-content: space-between;
}
.hr-card-title { font-weight: 600; }

/* Measuring. */
.hr-intro { font-size: 1.02rem; }
.hr-device {
  border: 1px solid var(--hr-line); border-radius: .6rem; padding: .8rem .95rem; display: grid;
  gap: .45rem;
}
.hr-facts {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(min(19rem, 100%), 1fr));
  gap: .2rem 1.4rem; font-size: .9375rem;
}
.hr-phases { display: grid; gap: .15rem; padding: .5rem 0; max-width: 34rem; }
.hr-phases > div {
  display: grid; grid-template-columns: 1.2rem 1fr auto; gap: .4rem; font-size: .9375rem;
}
.hr-phases i { font-style: normal; color: var(--hr-accent); }
.hr-over-with { color: var(--hr-grey); }
.hr-now { font-weight: 600; }

/* What Streamlit writes in English, whatever the page's language. */
[data-testid="InputInstructions"], [data-testid="stFileUploaderDropzoneInstructions"] {
  display: none;
}
[data-testid="stFileUploaderDropzone"] button p { font-size: 0; }
[data-testid="stFileUploaderDropzone"] button p::after {
  content: var(--hr-choose-file); font-size: .875rem;
}

/* Error cards. */
[class*="st-key-refusal"] {
  border: 1px solid var(--hr-line); border-left: 5px solid var(--hr-red); border-radius: .6rem;
  padding: 1rem 1.2rem; background: var(--hr-panel);
}

/* Where the names of the pages have no room for pictures. */
@media (max-width: 1400px) {
  .st-key-nav [data-testid="stPageLink"] span:has(> [data-testid="stIconMaterial"]) { display: none; }
}

/* Where Streamlit folds the sidebar by itself, its arrow says what is behind it, and the way back where it leads.
   It stays where it is while the page moves under it. */
@media (max-width: 768px) {
  [data-testid="stMainBlockContainer"] { padding-top: 3.5rem; }
  [data-testid="stExpandSidebarButton"] {
    background: var(--hr-page); border: 1px solid var(--hr-line); padding: .1rem .6rem .1rem .2rem;
  }
  [data-testid="stExpandSidebarButton"]::after { content: var(--hr-open-sidebar); }
  [data-testid="stSidebarCollapseButton"] { visibility: visible; }
  [data-testid="stSidebarCollapseButton"] button::after { content: var(--hr-close-sidebar); }
  [data-testid="stExpandSidebarButton"]::after, [data-testid="stSidebarCollapseButton"] button::after {
    color: var(--hr-link); font-size: .875rem; font-weight: 600; white-space: nowrap;
  }
}

/* Telephones. */
.hr-phone, :has(> .st-key-compare-narrow) { display: none; }
@media (max-width: 640px) {
  [data-testid="stMainBlockContainer"] { padding-left: 1rem; padding-right: 1rem; }
  .st-key-top > :has(> .st-key-nav) { order: 3; flex: 1 1 100%; }
  .st-key-top > :has(> .st-key-brand) { margin-right: auto; }
  .st-key-nav [data-testid="stPageLink"] a { padding: .25rem .5rem; }
  .hr-phone { display: inline; }
  :has(> .st-key-compare-narrow) { display: block; }
  :has(> .st-key-compare-wide):has(+ * > .st-key-compare-narrow) { display: none; }
  [data-testid="stButtonGroup"] > [role="radiogroup"] { flex-wrap: wrap; }
  .hr-verdict { grid-template-columns: 1fr; }
  .hr-verdict .hr-more { grid-column: 1; }
  .hr-verdict .hr-lead { font-size: 1.08rem; }
  .hr-dial { grid-template-columns: 1fr; }
  .hr-dial .hr-sentence { grid-column: 1; }
}
@media print {
  [data-testid="stSidebar"], .st-key-presets, [data-testid="stPopover"] { display: none; }
}
"""

// The styles of the timeline, light and dark, independent of the page around it.

// Nested below our own class: nothing of it reaches the page around.
export const STYLE = `
.debubble-timeline {
  color: var(--jp-ui-font-color1, var(--vscode-foreground, CanvasText));
  position: relative;
  font: 12px/1.45 var(--jp-ui-font-family, system-ui, sans-serif);
  padding: 4px 2px;
  [hidden] { display: none !important; }
  .head {
    display: flex; flex-wrap: wrap; gap: 4px 12px; align-items: center;
    justify-content: space-between; margin-bottom: 3px;
  }
  .headline { margin-bottom: 1px; }
  .headline s { opacity: .8; }
  .badge {
    border: 1px solid currentColor; border-radius: 9px; padding: 0 9px; font-weight: 600;
    color: #00694c; max-width: 100%; box-sizing: border-box;
  }
  .badge.modelled { color: #7a4b00; border-style: dashed; }
  &.dark .badge { color: #5fe0b7; }
  &.dark .badge.modelled { color: #f5c35b; }
  .counts { display: flex; flex-wrap: wrap; gap: 0 14px; margin-bottom: 4px; }
  .counts s { opacity: .8; }
  .tools { display: inline-flex; flex-wrap: wrap; gap: 4px; align-items: center; }
  input {
    font: inherit; color: inherit; background: transparent; width: 9em; min-width: 0;
    border: 1px solid var(--jp-border-color1, rgba(128,128,128,.5)); border-radius: 5px;
    padding: 1px 6px;
  }
  input::placeholder { color: inherit; opacity: .75; }
  .found:not(:empty) { padding: 0 4px; }
  button {
    font: inherit; color: inherit; background: transparent; cursor: pointer; min-width: 26px;
    border: 1px solid var(--jp-border-color1, rgba(128,128,128,.5)); border-radius: 5px;
    padding: 1px 8px;
  }
  button:hover { background: rgba(128,128,128,.16); }
  button:disabled { opacity: .4; cursor: default; }
  button[aria-pressed=true] { background: rgba(128,128,128,.26); }
  button:focus-visible, input:focus-visible, canvas:focus-visible, .table:focus-visible {
    outline: 2px solid var(--jp-brand-color1, #1976d2); outline-offset: 1px; border-radius: 4px;
  }
  .stage { position: relative; margin-bottom: 6px; }
  canvas { display: block; width: 100%; cursor: crosshair; touch-action: pan-y; }
  .tip {
    position: fixed; inset: auto; margin: 0; pointer-events: none; max-width: min(520px, 92vw);
    background: var(--jp-layout-color1, Canvas); padding: 6px 9px; overflow: hidden;
    color: var(--jp-ui-font-color1, var(--vscode-foreground, CanvasText));
    border-radius: 6px; border: 1px solid var(--jp-border-color1, rgba(128,128,128,.5));
    box-shadow: 0 4px 14px rgba(0,0,0,.22); overflow-wrap: anywhere;
  }
  .tip .code {
    font-family: var(--jp-code-font-family, ui-monospace, monospace); margin-top: 3px;
  }
  &.asks :is(.tools, .counts, .headline, .legend, .shares) { display: none; }
  .stepper { margin: 0 0 8px; }
  .step-head { display: flex; flex-wrap: wrap; gap: 4px 8px; align-items: center; margin-bottom: 5px; }
  .panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(180px, 1fr)); gap: 6px; }
  .panel {
    border: 1px solid rgba(128,128,128,.5); border-left-width: 4px; border-radius: 5px;
    padding: 3px 8px; min-height: 2.9em; overflow-wrap: anywhere; min-width: 0;
  }
  .panel b { display: block; }
  .panel[data-state=busy] { border-left-color: #0072b2; }
  .panel[data-state=waits] { border-left: 4px dashed #b97f00; }
  &.dark .panel[data-state=busy] { border-left-color: #4ba6dd; }
  &.dark .panel[data-state=waits] { border-left-color: #f2b632; }
  .panel i { display: inline-block; width: 8px; height: 12px; border-radius: 2px; margin-right: 2px; vertical-align: -2px; }
  .panel i + span { margin-left: 4px; }
  .lines { margin-top: 6px; }
  .line { display: flex; gap: 10px; padding: 1px 6px; border-left: 3px solid transparent; }
  .line .place { flex: 0 0 auto; min-width: 11em; }
  .line code {
    font: 12px/1.45 var(--jp-code-font-family, ui-monospace, monospace); background: none;
    color: inherit; overflow-wrap: anywhere; white-space: pre-wrap; padding: 0; min-width: 0;
  }
  .line.lit { background: rgba(230,159,0,.22); border-left-color: #b97f00; font-weight: 600; }
  .line.lit code { font-weight: 600; }
  .legend { display: flex; flex-wrap: wrap; gap: 2px 14px; align-items: center; }
  .share {
    display: grid; grid-template-columns: 44px minmax(60px, 22%) 1fr; gap: 0 10px;
    align-items: center;
  }
  .legend > span, .cause, .words { display: inline-flex; align-items: center; }
  .words { flex-wrap: wrap; }
  .legend { margin: 2px 0 6px; }
  .cause { margin-left: 14px; }
  .which { opacity: .8; }
  .bar {
    display: inline-flex; height: 9px; border-radius: 3px; overflow: hidden; min-width: 12px;
  }
  .bar i { background: var(--tone); flex: 0 0 0; min-width: 0; }
  .bar .working { background: #0072b2; --tone: #0072b2; }
  &.dark .bar .working { background: #4ba6dd; }
  .swatch {
    width: 11px; height: 11px; border-radius: 2px; background: var(--tone); margin-right: 5px;
    flex: none;
  }
  .swatch.launch { height: 6px; margin-top: 4px; }
  .swatch.sync {
    background: repeating-linear-gradient(135deg, var(--tone) 0 2px,
      color-mix(in srgb, var(--tone) 45%, transparent) 2px 4px);
  }
  .unseen {
    position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
    margin: 0; white-space: nowrap;
  }
  .help { margin: 4px 0; }
  .sums { margin-top: 6px; max-width: 46em; }
  .sums caption button { font-weight: 400; margin-left: 8px; }
  .sums td, .sums thead th:not(:first-child) { text-align: right; font-variant-numeric: tabular-nums; }
  .table { max-height: 320px; overflow: auto; margin-top: 6px; }
  table { border-collapse: collapse; width: 100%; font-size: 12px; }
  caption { text-align: left; padding: 2px 0 4px; font-weight: 600; }
  th, td {
    text-align: left; padding: 1px 10px 1px 0; font-weight: 400; vertical-align: top;
    overflow-wrap: anywhere;
  }
  thead th { font-weight: 600; border-bottom: 1px solid rgba(128,128,128,.4); }
  .table td:nth-child(-n+2), .table thead th:nth-child(-n+2) {
    text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums;
  }
  .table tbody tr { cursor: pointer; }
  .table tbody tr:hover { background: rgba(128,128,128,.12); }
  .pager { display: flex; gap: 6px; padding: 4px 0; }
}
`;

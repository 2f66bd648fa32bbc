// The styles of the race, light and dark, nested below our own class.
export const RACE_STYLE = `
.debubble-race {
  --line-height: 21px;
  --edge: var(--jp-border-color1, rgba(128,128,128,.5));
  --soft: light-dark(#f3f6f8, #1d232a);
  --amber: light-dark(#8a5200, #f5c35b);
  --good: light-dark(#00694c, #5fe0b7);
  font: 14px/1.5 system-ui, sans-serif; color: var(--jp-ui-font-color1, inherit);
  body[data-jp-theme-light=true] & { color-scheme: light; }
  body[data-jp-theme-light=false] & { color-scheme: dark; }
  [hidden] { display: none !important; }
  button {
    font: inherit; color: inherit; background: transparent; cursor: pointer; padding: 3px 11px;
    border: 1px solid var(--edge); border-radius: 6px;
  }
  button:hover { background: rgba(128,128,128,.14); }
  button[aria-pressed=true] { background: light-dark(#00558a, #7cc3f0); color: light-dark(#fff, #10151a); border-color: transparent; }
  .pairs { display: flex; flex-wrap: wrap; gap: 6px; }
  .top { display: flex; align-items: center; gap: 14px; margin: 12px 0 4px; }
  .play { flex: none; min-width: 7.5em; padding: 6px 16px; font-weight: 650; }
  .play, .play:hover { background: light-dark(#00558a, #7cc3f0); color: light-dark(#fff, #10151a); border-color: transparent; }
  .verdict { flex: 1; margin: 0; font-size: 1.3em; font-weight: 650; min-height: 1.5em; }
  .ask { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 10px; min-height: 38px; margin-bottom: 6px; }
  .answers { display: flex; flex-wrap: wrap; gap: 5px; }
  button:disabled { opacity: .6; cursor: default; text-decoration: line-through; }
  .sides { display: grid; grid-template-columns: 1fr 1fr; gap: 8px 18px; }
  .side { min-width: 0; }
  .head { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 10px; }
  .head strong { font-weight: 650; }
  .length { font-size: 1.45em; font-variant-numeric: tabular-nums; }
  [data-fastest] .length { color: var(--good); }
  &[data-stale] :is(.broken .length, .broken .figures, canvas, .panel) { opacity: .45; }
  .figures { opacity: .85; }
  .box {
    position: relative; overflow: hidden; border: 1px solid var(--edge); border-radius: 7px;
    background: var(--soft);
  }
  .box:focus-within { outline: 2px solid var(--jp-brand-color1, #1976d2); outline-offset: 1px; }
  textarea, .behind-text {
    font: 13px/var(--line-height) var(--jp-code-font-family, ui-monospace, monospace);
    padding: 6px 0;
  }
  textarea {
    position: relative; display: block; width: 100%; resize: none; border: 0; outline: 0; color: inherit;
    background: transparent; box-sizing: border-box; padding-left: 34px; padding-right: 150px;
    overflow: auto; white-space: pre; max-width: none; border-radius: 0;
  }
  .behind-text { position: absolute; inset: 0 0 auto 0; }
  .behind-text > div { height: var(--line-height); display: flex; justify-content: space-between; border-left: 4px solid transparent; }
  .behind-text .number { opacity: .72; width: 22px; text-align: right; font-size: 11px; }
  .behind-text .idle { font: 600 11px/var(--line-height) system-ui, sans-serif; color: var(--amber); padding-right: 8px; }
  .behind-text .at-host { border-left-color: light-dark(#b97f00, #f2b632); background: light-dark(#fdf1d6, #3a2f15); }
  .behind-text .at-device { background: light-dark(#d8ecf9, #173448); }
  .behind-text .at-host.at-device { background: light-dark(#e4ead9, #2a342c); }
  .below { margin-top: 4px; min-height: 3em; }
  .worst { margin: 0; }
  .mistake { margin: 0; color: light-dark(#a02c00, #ff9d7a); overflow-wrap: anywhere; }
  .mistake:empty, .worst:empty { display: none; }
  .stage { margin-top: 12px; }
  canvas { display: block; width: 100%; cursor: col-resize; touch-action: pan-y; }
  .timebar { display: flex; flex-wrap: wrap; align-items: center; gap: 6px; margin: 2px 0 6px; }
  .timebar input { flex: 1 1 180px; min-width: 0; accent-color: light-dark(#00558a, #7cc3f0); }
  .moment { min-width: 5em; text-align: right; font-variant-numeric: tabular-nums; }
  .said { margin: 4px 0; min-height: 1.5em; }
  .panels {
    display: grid; grid-template-columns: 4em minmax(0, 1fr) minmax(0, .8fr) minmax(0, 1.2fr); gap: 6px;
    align-items: stretch; margin-top: 5px;
  }
  .whose { font-weight: 600; align-self: center; }
  .panel { border: 1px solid var(--edge); border-radius: 6px; padding: 2px 9px; min-height: 44px; min-width: 0; }
  .panel .name { display: block; font-size: 11px; opacity: .85; }
  .panel .doing { display: block; line-height: 1.3; overflow-wrap: anywhere; }
  .panel[data-state=waits] { background: light-dark(#fdf1d6, #3a2f15); border-color: light-dark(#b97f00, #f2b632); }
  .panel i { display: inline-block; width: 8px; height: 14px; margin-right: 2px; border-radius: 2px; vertical-align: -2px; }
  .legend { display: flex; flex-wrap: wrap; gap: 2px 14px; margin: 10px 0; font-size: 12px; }
  .legend i { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 5px; vertical-align: -1px; }
  .words { border: 1px solid var(--edge); border-radius: 6px; padding: 4px 12px; }
  .words summary { cursor: pointer; }
  .words .scroll { overflow-x: auto; }
  .words table { display: table; border-collapse: collapse; font-size: 13px; margin: 6px 0; }
  .words th, .words td { text-align: left; font-weight: 400; padding: 3px 14px 3px 0; vertical-align: top; border: 0; }
  .words thead th { font-weight: 600; }
  .words code { white-space: nowrap; font-family: var(--jp-code-font-family, ui-monospace, monospace); }
  :is(button, summary, canvas, input, .scroll):focus-visible { outline: 2px solid var(--jp-brand-color1, #1976d2); outline-offset: 1px; }
  @media (max-width: 700px) {
    .moment { text-align: left; }
    .sides { grid-template-columns: minmax(0, 1fr); }
    .pairs { flex-wrap: nowrap; overflow-x: auto; padding-bottom: 4px; }
    .pairs button { white-space: nowrap; flex: none; }
    .verdict { font-size: 1.1em; min-height: 4.5em; }
    .ask { min-height: 100px; align-content: center; }
    .panel { min-height: 82px; }
    .below { min-height: 4.5em; }
    .idle .why { display: none; }
    textarea { padding-right: 92px; }
    .panels { grid-template-columns: minmax(0, 1fr) minmax(0, .7fr) minmax(0, 1.3fr); }
    .whose { grid-column: 1 / -1; }
  }
}
`;

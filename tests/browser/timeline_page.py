"""A page with timeline.js alone: no Jupyter, and a model that is an object of the page."""

from __future__ import annotations

import base64

import numpy as np
from playwright.sync_api import Page

from debubble.timeline import Timeline
from debubble.views.timeline.widget import TimelineWidget

BYTES = ("events", "bubbles", "ghost_events", "ghost_bubbles")
# The pixels of the canvas left and right of its lanes.
GUTTER, RIGHT = 98, 10
LIGHT = {"--jp-ui-font-color1": "rgba(0, 0, 0, .87)", "--jp-layout-color1": "#ffffff"}
DARK = {"--jp-ui-font-color1": "rgba(255, 255, 255, .9)", "--jp-layout-color1": "#212121"}
START = """
async ({ source, state }) => {
  const decode = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const values = {};
  const listeners = [];
  const set = ({ facts, bytes }) => {
    values.facts = facts;
    for (const [name, text] of Object.entries(bytes)) {
      // As Jupyter does, hand over a view that starts somewhere within a larger buffer.
      const whole = new Uint8Array([7, ...decode(text)]);
      values[name] = new DataView(whole.buffer, 1);
    }
  };
  set(state);
  const model = {
    get: (name) => values[name],
    on: (name, listener) => listeners.push(listener),
    off: (name, listener) => listeners.splice(listeners.indexOf(listener), 1),
    set: (name, value) => (values[name] = value),
    save_changes: () => {},
    send: (content) => (window.sent = content),
  };
  const module = await import("data:text/javascript;base64," + source);
  // As JupyterLab does, draw it first and put it into the page then.
  const el = document.createElement("div");
  const remove = module.default.render({ model, el });
  document.querySelector("#here").append(el);
  window.timeline = { remove, listeners, values, update: (state) => {
    set(state);
    listeners.forEach((listener) => listener());
  } };
}
"""

# The canvas is read from a copy, since reading changes how it is drawn from then on.
READ_CANVAS = """
(canvas) => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height);
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
  let text = "";
  for (let i = 0; i < data.length; i += 8192) {
    text += String.fromCharCode(...data.subarray(i, i + 8192));
  }
  return [canvas.width, canvas.height, btoa(text)];
}
"""


class TimelinePage:
    """A browser page that shows one timeline, with methods for what a reader does (hover, wheel,
    press keys) and sees."""

    def __init__(
        self, page: Page, timeline: Timeline | TimelineWidget, before: Timeline | None = None
    ) -> None:
        self.page = page
        is_widget = isinstance(timeline, TimelineWidget)
        self.widget = timeline if is_widget else TimelineWidget(timeline, before)
        page.set_content("<body style='margin: 16px'><button>first</button><div id=here></div>")
        self.theme(LIGHT)
        source = base64.b64encode(str(TimelineWidget._esm).encode()).decode()
        page.evaluate(START, {"source": source, "state": self.state()})
        page.wait_for_selector(".debubble-timeline[data-start]", state="attached")
        self.canvas = page.locator("canvas")
        self.root = page.locator(".debubble-timeline")
        self.settle()

    def state(self) -> dict:
        bytes_ = {name: base64.b64encode(getattr(self.widget, name)).decode() for name in BYTES}
        return {"facts": self.widget.facts, "bytes": bytes_}

    def update(self, timeline: Timeline, before: Timeline | None = None) -> None:
        self.widget.update(timeline, before)
        self.page.evaluate("(state) => window.timeline.update(state)", self.state())
        self.settle()

    def theme(self, variables: dict[str, str]) -> None:
        dark = variables is DARK
        text = "; ".join(f"{name}: {value}" for name, value in variables.items())
        ground = "#111111" if dark else "#ffffff"
        self.page.evaluate(
            "(style) => document.body.setAttribute('style', style)",
            f"margin: 16px; background: {ground}; {text}",
        )
        self.settle()

    def settle(self) -> None:
        """Waits until requested changes are drawn."""
        self.page.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def press(self, *keys: str) -> None:
        self.canvas.focus()
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()

    def wheel(self, x: float, y: float, turn: float, times: int = 1) -> None:
        """Moves the mouse to the point (x, y) of the canvas, and turns the wheel there `times`
        times."""
        self.move(x - 3, y)
        self.move(x, y)
        for _ in range(times):
            self.page.mouse.wheel(0, turn)
        self.page.wait_for_timeout(50)
        self.settle()

    def move(self, x: float, y: float) -> None:
        box = self.canvas.bounding_box()
        self.page.mouse.move(box["x"] + x, box["y"] + y)
        self.settle()

    @property
    def range(self) -> tuple[float, float]:
        """Returns the visible time range as (first, last) in microseconds."""
        data = self.root.evaluate("(root) => [root.dataset.start, root.dataset.end]")
        return float(data[0]), float(data[1])

    @property
    def seen(self) -> float:
        start, end = self.range
        return end - start

    @property
    def scale(self) -> float:
        """Returns how many pixels of the canvas one microsecond takes."""
        return (self.canvas.bounding_box()["width"] - GUTTER - RIGHT) / self.seen

    def x_of(self, microseconds: float) -> float:
        """Returns the x coordinate in pixels at which the canvas draws this moment."""
        return GUTTER + (microseconds - self.range[0]) * self.scale

    def moment_at(self, x: float) -> float:
        """Returns the moment in microseconds that the canvas draws at the x coordinate `x`, in
        pixels."""
        return self.range[0] + (x - GUTTER) / self.scale

    def colours(self) -> set[str]:
        """Returns every solid colour that fills more than 40 pixels of the canvas, as #rrggbb."""
        image = self.image()
        solid = image[image[..., 3] == 255][:, :3].astype(np.uint32)
        values, counts = np.unique(solid @ np.array([65536, 256, 1], np.uint32), return_counts=True)
        return {f"#{value:06x}" for value in values[counts > 40]}

    def image(self) -> np.ndarray:
        """Returns the drawn canvas, [height, width, 4] uint8: red, green, blue, opacity."""
        width, height, text = self.canvas.evaluate(READ_CANVAS)
        return np.frombuffer(base64.b64decode(text), np.uint8).reshape(height, width, 4)

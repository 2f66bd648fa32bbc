"""Shows timelines: `Timeline.show()`, and a timeline at the end of a notebook's cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from debubble.timeline.data import TimelineData

from .notebook import in_notebook, needs_lab

if TYPE_CHECKING:
    from debubble.timeline.timeline import MimeBundle

    from .timeline.widget import TimelineWidget


class TimelineViews:
    """The views that draw timelines: `import debubble` gives them to `Timeline`."""

    def show(
        self, timeline: TimelineData, before: TimelineData | None = None
    ) -> TimelineWidget | None:
        """Shows the live timeline in a notebook, with `before` ghosted behind; elsewhere prints
        lanes."""
        if in_notebook():
            try:
                from .timeline.widget import TimelineWidget
            except ModuleNotFoundError as error:
                print(needs_lab("The live timeline", error))
            else:
                return TimelineWidget(timeline, before)
        from .timeline.lanes import text_lanes

        for heading, shown in (("before", before), ("after", timeline)):
            if shown is not None:
                print(text_lanes(shown, title=heading if before is not None else None))
        return None

    def mime_bundle(self, timeline: TimelineData) -> MimeBundle:
        """Returns what Jupyter shows for a timeline at the end of a cell: the live timeline in a
        notebook, its counts elsewhere."""
        widget = self.show(timeline) if in_notebook() else None
        return {"text/plain": repr(timeline)} if widget is None else widget._repr_mimebundle_()

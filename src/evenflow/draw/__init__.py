"""Pictures of plans, as text: SVG that needs nothing but a viewer. Their words are English, in any language spoken."""

from evenflow.draw.comparison_picture import comparison_svg
from evenflow.draw.measured_picture import measured_svg
from evenflow.draw.plan_picture import timeline_svg

__all__ = ["comparison_svg", "measured_svg", "timeline_svg"]

"""Pictures of plans, as text: SVG that needs nothing but a viewer."""

from evenflow.draw.compare import comparison_svg
from evenflow.draw.measured import measured_svg
from evenflow.draw.svg import timeline_svg

__all__ = ["comparison_svg", "measured_svg", "timeline_svg"]

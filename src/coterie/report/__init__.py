"""Tables and pictures from results."""

from coterie.report.figures import accuracy_plot
from coterie.report.tables import result_table

__all__ = ["accuracy_plot", "result_table"]

"""The tools of a workshop beside the workbook: a hub for many learners on one host, and the kit."""

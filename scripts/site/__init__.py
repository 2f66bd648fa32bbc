"""`make site`: the workbook as pages that need no kernel, no install and no network.

nbconvert writes every page. Chapters come from their stored notebooks; the other pages are made as
notebooks of markdown and go the same way.
"""

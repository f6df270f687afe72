"""A result as one page to explore: a single HTML file that needs no network.

``page.html``, ``page.css`` and the scripts beside it are the page; the modules here fill it with the numbers of a
result.
"""

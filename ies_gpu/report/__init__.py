"""A result as one page to explore: a single HTML file that needs no network."""

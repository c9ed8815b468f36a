"""Records → documents, tables and one page. Imports neither torch nor ttnn."""

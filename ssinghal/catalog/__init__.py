"""Shape catalogs: their two forms (``schema``), reading and checking them (``reading``), questions asked of them."""

"""The same cases on several TTNN releases: what newly fails, newly fits, or takes other bytes from one to the next."""

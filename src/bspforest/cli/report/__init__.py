"""The report of an evaluation: what is noted along the stream, and one HTML page with pictures."""

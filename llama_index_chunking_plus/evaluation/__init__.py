"""Chunking as something that you measure: questions with gold ranges, measures over ranges, tests of differences."""

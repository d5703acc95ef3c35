"""The papers' tables, made again: studies, measurements, and ours beside the paper's."""

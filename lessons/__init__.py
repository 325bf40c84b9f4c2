"""Numbered lessons, from one number that remembers to a trained transformer, with exercises that check themselves.

A lesson is a marimo notebook, `NN_title.py`: `tinygrad-tf lessons` shows it in the browser, `python lessons/NN_title.py`
prints its numbers. Nothing here needs marimo before a lesson is opened.
"""

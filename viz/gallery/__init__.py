"""Pictures that the engine draws of itself. `python -m viz.gallery` makes them anew, `--check` says whether they would differ."""
